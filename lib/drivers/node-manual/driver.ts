import type { Access } from "../../core/access.ts";
import { CsiError } from "../../core/errors.ts";
import type { Driver, Volume } from "../driver.ts";
import type { ConnectionIdentity } from "../module.ts";

/** Each volume names its own protocol, so any use may be requested. */
export const access: Access = { kinds: ["mount", "block"], filesystems: "any", sharedWriters: true };

/** Volumes described by hand: the driver creates none, and reports none as deleted. */
export class ManualDriver implements Driver {
  readonly protocol = undefined;
  readonly access = access;
  readonly #connection: string;

  constructor({ connection }: Pick<ConnectionIdentity, "connection">) {
    this.#connection = connection;
  }

  async create(): Promise<Volume> {
    throw this.#refusal("invalid-argument", "creates no volumes; describe them in PersistentVolumes");
  }

  async delete(id: string): Promise<void> {
    const advice = `volume "${id.slice(0, 128)}" is kept; give its PersistentVolume the reclaim policy Retain`;
    throw this.#refusal("failed-precondition", `deletes no volumes, because they were made by hand: ${advice}`);
  }

  /** There is nothing to check. */
  async check(): Promise<void> {}

  #refusal(code: "invalid-argument" | "failed-precondition", what: string): CsiError {
    return new CsiError(code, `connection "${this.#connection}" ${what}`);
  }
}

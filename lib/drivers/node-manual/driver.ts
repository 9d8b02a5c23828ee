import type { Access } from "../../core/access.ts";
import { CsiError } from "../../core/errors.ts";
import type { Driver, Volume } from "../driver.ts";
import type { ConnectionIdentity } from "../module.ts";

/** Each volume names its protocol itself, so anything may be asked of it. */
export const access: Access = { kinds: ["mount", "block"], filesystems: "any", sharedWriters: true };

/** Volumes that people describe by hand: it makes none, and says of none that it was deleted. */
export class ManualDriver implements Driver {
  readonly protocol = undefined;
  readonly access = access;
  readonly #connection: string;

  constructor({ connection }: Pick<ConnectionIdentity, "connection">) {
    this.#connection = connection;
  }

  async create(): Promise<Volume> {
    throw this.#refusal("invalid-argument", "makes no volumes; describe them in PersistentVolumes");
  }

  async delete(id: string): Promise<void> {
    const advice = `volume "${id.slice(0, 128)}" stays; give its PersistentVolume the reclaim policy Retain`;
    throw this.#refusal("failed-precondition", `deletes no volumes, because people made them: ${advice}`);
  }

  /** There is nothing that could be wrong. */
  async check(): Promise<void> {}

  #refusal(code: "invalid-argument" | "failed-precondition", what: string): CsiError {
    return new CsiError(code, `connection "${this.#connection}" ${what}`);
  }
}

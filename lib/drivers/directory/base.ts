import { setTimeout as pause } from "node:timers/promises";
import { CsiError, errnoOf } from "../../core/errors.ts";
import type { Lease } from "../../io/lease.ts";
import type { SharePoint } from "../../io/share-point.ts";
import type { Files } from "./files.ts";

/** How long an operation waits for the share to be mounted, in milliseconds; the mounting goes on. */
const waitMs = 30_000;

/** How long a share that asks for another try is left alone, in milliseconds. */
const againMs = 200;

/** What is wrong with a path at which nothing is mounted, or what is mounted there is no longer known to its server. */
const unmounted: ReadonlySet<string | undefined> = new Set(["ENOENT", "ENOTDIR", "ESTALE"]);

/**
 * The base folder of a share: where the deployment has mounted it, or else where csimux mounts it itself. So a deployment that
 * forgot the mount, or lost it, never has volumes made on the controller's own disk.
 */
export class ShareBase {
  readonly #given: string;
  readonly #files: Files;
  readonly #types: readonly number[];
  readonly #lease: Lease<SharePoint>;

  /** `given` is `controllerBasePath`; `types` are the magic numbers of the share's file systems. */
  constructor(given: string, files: Files, types: readonly number[], lease: Lease<SharePoint>) {
    this.#given = given;
    this.#files = files;
    this.#types = types;
    this.#lease = lease;
  }

  /** Rejects with an errno error when `controllerBasePath` cannot be looked at, and throws as mounting does. */
  async find(): Promise<string> {
    return (await this.#isShare(this.#given)) ? this.#given : await this.#own();
  }

  /** The first question after a mount of SMB may be answered with "try again". */
  async #isShare(path: string, tries = 5): Promise<boolean> {
    const facts = await this.#files.statfs(path).catch((error: unknown) => {
      if (unmounted.has(errnoOf(error))) return undefined;
      if (errnoOf(error) === "EAGAIN" && tries > 1) return "again";
      throw error;
    });
    if (facts === "again") {
      await pause(againMs);
      return await this.#isShare(path, tries - 1);
    }
    return facts !== undefined && this.#types.includes(facts.type);
  }

  async #own(): Promise<string> {
    try {
      const folder = await this.#lease.value.folder(AbortSignal.timeout(waitMs));
      return (await this.#isShare(folder)) ? folder : await this.#lease.value.renew(AbortSignal.timeout(waitMs));
    } catch (error) {
      throw error instanceof CsiError ? notMounted(this.#given, error) : error;
    }
  }

  /** Gives up the own mount, if there is one. */
  close(): Promise<void> {
    return this.#lease.release();
  }
}

/** A share that is not found says nothing of the volumes on it. */
const notMounted = (given: string, { code, message }: CsiError): CsiError =>
  new CsiError(
    code === "not-found" ? "unavailable" : code,
    `the share is not mounted at ${given}, and csimux could not mount it itself: ${message}`,
  );

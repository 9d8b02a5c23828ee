import { setTimeout as pause } from "node:timers/promises";
import { CsiError, errnoOf } from "../../core/errors.ts";
import type { Files } from "../../io/files.ts";
import type { Lease } from "../../io/lease.ts";
import type { SharePoint } from "../../io/share-point.ts";
import type { VolumeStore } from "../store.ts";
import { givingBy } from "./copying/moments.ts";
import { Layout } from "./layout.ts";
import type { OperationContext } from "./operation-context.ts";
import type { DirectoryStore, VolumeFolder } from "./store.ts";

/** How long an operation waits for the mount, in milliseconds; mounting continues in the background. */
const waitMs = 30_000;

/** The pause before a share that answered EAGAIN is tried again, in milliseconds. */
const againMs = 200;

/** The errors of a path that is not mounted, or whose mount the server no longer knows. */
const unmounted: ReadonlySet<string | undefined> = new Set(["ENOENT", "ENOTDIR", "ESTALE"]);

/**
 * The base folder of a share: the deployment's own mount if there is one, otherwise a mount made by csimux. So a deployment
 * without the mount, or one that lost it, never gets volumes on the controller's own disk.
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

  /** Rejects with an errno error if `controllerBasePath` cannot be checked, and with the errors of mounting. */
  async find(): Promise<string> {
    return (await this.#isShare(this.#given)) ? this.#given : await this.#own();
  }

  /** The first call after mounting an SMB share may fail with EAGAIN. */
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

  /** Releases the own mount, if any. */
  close(): Promise<void> {
    return this.#lease.release();
  }
}

/** A missing share does not mean that its volumes are missing. */
const notMounted = (given: string, { code, message }: CsiError): CsiError =>
  new CsiError(
    code === "not-found" ? "unavailable" : code,
    `the share is not mounted at ${given}, and csimux could not mount it itself: ${message}`,
  );

/** What the stores of a driver's operations are made of. */
export interface OperationParts {
  /** The base folder as the connection's file names it. */
  readonly context: OperationContext;
  /** Finds the base folder of a share; undefined if it is one fixed folder. */
  readonly locate: (() => Promise<string>) | undefined;
  readonly storeOn: (context: OperationContext) => DirectoryStore;
  /** Gives up what the base folder and the tools needed. */
  readonly close: () => Promise<void>;
}

/**
 * A store whose operations each find the base folder once, at their beginning, and keep to it: a share may be mounted elsewhere while
 * another operation is under way, and half of that must not land below another path.
 */
export function storePerOperation({ context, locate, storeOn, close }: OperationParts): VolumeStore<VolumeFolder> {
  const given = storeOn(context);
  let hidden = given.hidden();
  const at = async (): Promise<DirectoryStore> => {
    const base = await locate?.();
    const store =
      base === undefined || base === context.layout.base ? given : storeOn({ ...context, layout: new Layout(base) });
    hidden = store.hidden();
    return store;
  };
  return {
    idOf: name => given.idOf(name),
    idOfObject: object => given.idOfObject(object),
    explain: error => given.explain(error),
    hidden: () => hidden,
    sameSource: (a, b) => given.sameSource(a, b),
    clonesFrom: given.clonesFrom,
    finish: asset => given.finish(asset),
    create: async (spec, call) => (await at()).create(spec, call),
    find: async id => (await at()).find(id),
    remove: async (id, before, call) => (await at()).remove(id, before, call),
    resize: async (asset, bytes) => (await at()).resize(asset, bytes),
    available: async parameters => (await at()).available(parameters),
    list: async (page, call) => (await at()).list(page, call),
    look: async () => (await at()).look(),
    check: async call => (await at()).check(call),
    snapshots: {
      create: async (...given) => (await at()).snapshots.create(...given),
      delete: async (...given) => (await at()).snapshots.delete(...given),
      get: async (...given) => (await at()).snapshots.get(...given),
      list: async (...given) => (await at()).snapshots.list(...given),
    },
    moments: givingBy(at),
    landings: {
      content: "files",
      refusal: async (...given) => (await at()).taking.refusal(...given),
      begin: async (spec, _moment, record, call) => (await at()).taking.begin(spec, record, call),
      find: async id => (await at()).taking.find(id),
      note: async (id, record) => (await at()).taking.note(id, record),
      settle: async (...given) => (await at()).settle(...given),
      drop: async (id, call) => (await at()).taking.drop(id, call),
      forget: async id => (await at()).taking.forget(id),
      landings: async call => (await at()).taking.list(call),
      folder: async (id, call) => (await at()).taking.folder(id, call),
    },
    close,
  };
}

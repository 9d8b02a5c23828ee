import { setTimeout as pause } from "node:timers/promises";
import type { Call } from "../../core/call.ts";
import { CsiError, errnoOf } from "../../core/errors.ts";
import { backendName } from "../../core/name.ts";
import type { Files } from "../../io/files.ts";
import type { Lease } from "../../io/lease.ts";
import type { SharePoint } from "../../io/share-point.ts";
import type { CopySource } from "../copying.ts";
import type { Context, Page, PageRequest, SnapshotAbility, Source, VolumeSpec } from "../driver.ts";
import { type ErrorMapping, unfinished } from "../failure.ts";
import type { CopyTargetStore, HealthInspection, VolumeStore } from "../store.ts";
import { copySourceBy } from "./copying/copied-sources.ts";
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
    `the share is not mounted at ${given}, and csimux could not mount it itself: ${message}; mount it there, or write "requireMount: false" if that folder is the one that the server shares`,
  );

/** What the stores of a driver's operations are made of. */
export interface OperationParts {
  /** The base folder as the connection's file names it. */
  readonly context: OperationContext;
  /** Finds the base folder of a share; undefined if it is one fixed folder. */
  readonly locate: (() => Promise<string>) | undefined;
  /** The longest id of a volume. */
  readonly maxIdBytes: number;
  readonly storeOn: (context: OperationContext) => DirectoryStore;
  /** Gives up what the base folder and the tools needed. */
  readonly close: () => Promise<void>;
}

/**
 * A store whose operations each find the base folder once, at their beginning, and keep to it: a share may be mounted elsewhere while
 * another operation is under method, and half of that must not land below another path. A process may have thousands of connections, so
 * the parts of an operation live as long as it does.
 */
export class StorePerOperation implements VolumeStore<VolumeFolder> {
  readonly #parts: OperationParts;
  /** The base folder of the last operation. */
  #base: string;

  constructor(parts: OperationParts) {
    this.#parts = parts;
    this.#base = parts.context.layout.base;
  }

  get clonesFrom(): DirectoryStore["clonesFrom"] {
    return this.#given().clonesFrom;
  }

  get snapshots(): SnapshotAbility {
    const snapshots = async () => (await this.#at()).snapshots;
    return {
      create: async (name, ...given) => (await this.#toMake(`snapshot "${name}"`)).snapshots.create(name, ...given),
      delete: async (...given) => (await snapshots()).delete(...given),
      get: async (...given) => (await snapshots()).get(...given),
      list: async (...given) => (await snapshots()).list(...given),
    };
  }

  get copySource(): CopySource {
    return copySourceBy(() => this.#at());
  }

  get copyTarget(): CopyTargetStore<VolumeFolder> {
    const at = () => this.#at();
    const copies = async () => (await at()).unfinished;
    return {
      content: "files",
      refusal: async (method, spec, snapshot, call) => (await copies()).refusal(method, spec, snapshot, call),
      begin: async (spec, _snapshot, record, call) => (await copies()).begin(spec, record, call),
      find: async id => (await copies()).find(id),
      mayHave: async id => (await copies()).has(id),
      note: async (id, record) => (await copies()).note(id, record),
      markCancelled: async id => (await copies()).markCancelled(id),
      complete: async (...given) => (await at()).complete(...given),
      hasContent: async id => (await copies()).hasContent(id),
      empty: async (id, call) => void (await (await copies()).empty(id, call)),
      drop: async (id, call) => (await copies()).drop(id, call),
      forget: async id => (await copies()).forget(id),
      copies: async call => (await copies()).list(call),
      folder: async (id, call) => (await copies()).folder(id, call),
      flush: async (id, call) => (await copies()).flush(id, call),
    };
  }

  idOf(name: string): string {
    return backendName(name, this.#parts.maxIdBytes);
  }

  idOfObject(object: string): string | undefined {
    return this.#given().idOfObject(object);
  }

  explain(error: unknown): ErrorMapping | undefined {
    return this.#parts.context.explain(error);
  }

  hidden(): string {
    return this.#base;
  }

  sameSource(a: Source, b: Source): boolean {
    return this.#given().sameSource(a, b);
  }

  /** A folder is complete as soon as it appears. */
  async finish(asset: VolumeFolder): Promise<VolumeFolder> {
    return asset;
  }

  async create(spec: VolumeSpec, call: Call): Promise<VolumeFolder> {
    return (await this.#toMake(`volume "${spec.name}"`)).create(spec, call);
  }

  async find(id: string): Promise<VolumeFolder | undefined> {
    return (await this.#at()).find(id);
  }

  async remove(id: string, before: (asset: VolumeFolder) => Promise<void>, call: Call): Promise<void> {
    await (await this.#at()).remove(id, before, call);
  }

  async resize(asset: VolumeFolder, bytes: bigint): Promise<VolumeFolder> {
    return (await this.#at()).resize(asset, bytes);
  }

  async available(parameters: Context): Promise<bigint> {
    return (await this.#at()).available(parameters);
  }

  async list(page: PageRequest, call: Call): Promise<Page<VolumeFolder>> {
    return (await this.#at()).list(page, call);
  }

  async look(): Promise<HealthInspection<VolumeFolder>> {
    return (await this.#at()).look();
  }

  async check(call: Call): Promise<void> {
    await (await this.#at()).check(call);
  }

  close(): Promise<void> {
    return this.#parts.close();
  }

  /** The store on the base folder that the connection's file names. */
  #given(): DirectoryStore {
    return this.#parts.storeOn(this.#parts.context);
  }

  /** The store for a creation. An earlier call may have made the object, so that it cannot be looked for now is not final. */
  async #toMake(what: string): Promise<DirectoryStore> {
    return this.#at().catch((error: unknown) => {
      throw unfinished(error, this.#parts.context, `create ${what}`);
    });
  }

  async #at(): Promise<DirectoryStore> {
    const { context, locate, storeOn } = this.#parts;
    this.#base = (await locate?.()) ?? context.layout.base;
    return storeOn(this.#base === context.layout.base ? context : { ...context, layout: new Layout(this.#base) });
  }
}

import type { Call } from "../../../core/call.ts";
import { type CsiError, hasCode } from "../../../core/errors.ts";
import type { Mapping } from "../../../core/mapping.ts";
import type { CommandRunner } from "../../../io/runner.ts";
import {
  type CopySource,
  copyKey,
  type ProtectedSnapshot,
  type ReadableTree,
  type SourceSnapshot,
} from "../../copying.ts";
import type { Source } from "../../volume.ts";
import { reading, type VolumeContent } from "../creation.ts";
import { isVolumeId } from "../layout.ts";
import { errorOn, type OperationContext, present } from "../operation-context.ts";
import { ownSource } from "../records.ts";
import { discard } from "../removal.ts";
import { sealed } from "../sealed.ts";
import { partsOfTree } from "../snapshot-ids.ts";
import { whileAnswering } from "../while-answering.ts";
import type { FreshMount } from "./fresh-mount.ts";
import { OwnFiles } from "./own-files.ts";

/** A file below `.csimux/moments`: what is protected for a copy. */
interface Protection extends ProtectedSnapshot {
  readonly name: string;
  readonly source: Source;
  readonly connection: string;
}

/** The content of a source that a copy can use: the tree at a path below the base folder, such as `s/_a`, or a backup, such as `r/<its id>`. */
export interface GivenContent {
  readonly kind: "tree" | "backup";
  readonly name: string;
  /** The smallest size in bytes of a volume made from it; 0 if unknown. */
  readonly bytes: bigint;
}

/** The functions on volumes and snapshots that CopiedSources uses. */
export interface CopiedSourceParts {
  /** Throws "not-found". */
  content(source: Source, call: Call): Promise<GivenContent>;
  /** The mount from which volumes are read. */
  readonly fresh: FreshMount;
  /** The content of a backup. Throws "not-found". */
  backup(name: string, call: Call): Promise<VolumeContent>;
  /** Whether two sources are the same. Pure. */
  sameSource(a: Source, b: Source): boolean;
}

function protection(fields: Mapping): Protection | undefined {
  const { target, since, name, connection } = fields;
  const source = ownSource(fields["source"]);
  if (typeof target !== "string" || typeof since !== "number" || typeof name !== "string") return undefined;
  return source && typeof connection === "string" ? { target, since, name, connection, source } : undefined;
}

/** Whether it is the name of a tree as GivenContent has it. */
function isTree(name: string): boolean {
  const tree = name.slice(2);
  return name.startsWith("v/") ? isVolumeId(tree) : name.startsWith("s/") && partsOfTree(tree) !== undefined;
}

/** Programs that also end with `signal`. */
const endedBy = (runner: CommandRunner, signal: AbortSignal): CommandRunner => ({
  where: runner.where,
  run: (command, other) => runner.run(command, AbortSignal.any([signal, other])),
});

/**
 * Volumes and snapshots as sources of copies to other connections. Each copy has a file that names its source, and csimux deletes no
 * volume or snapshot that such a file names. A volume is copied while pods may use it; a snapshot does not change.
 */
export class CopiedSources {
  readonly #context: OperationContext;
  readonly #parts: CopiedSourceParts;
  readonly #files: OwnFiles<Protection>;

  constructor(context: OperationContext, parts: CopiedSourceParts) {
    this.#context = context;
    this.#parts = parts;
    this.#files = new OwnFiles(context, context.layout.copiedSources, protection);
  }

  /** Like CopySource.protect. Each pass of a volume is the same folder. */
  async protect(source: Source, target: string, call: Call): Promise<SourceSnapshot> {
    const given = await this.#parts.content(source, call);
    const kept = await this.#own(target);
    const isKept = kept !== undefined && kept.name === given.name;
    if (!isKept) {
      const since = Math.floor(Date.now() / 1000);
      const { connection } = this.#context;
      await this.#files.put(copyKey(target), { target, since, name: given.name, source, connection });
    }
    try {
      // A deletion that began before did not see the file.
      await this.#parts.content(source, call);
    } catch (error) {
      if (!isKept && hasCode(error, "not-found")) await this.#files.drop(copyKey(target));
      throw error;
    }
    return {
      name: given.name,
      proof: "",
      bytes: given.bytes,
      toSend: 0n,
      stable: source.kind === "snapshot",
      methods: [given.kind === "tree" ? "rsync" : "restore"],
      traits: { encrypted: undefined, blockBytes: 0n, fixed: {} },
    };
  }

  /** Like CopySource.release. */
  async release(target: string, keep: Pick<SourceSnapshot, "name"> | undefined): Promise<void> {
    const kept = await this.#own(target);
    if (!kept) await present(this.#context);
    else if (kept.name !== keep?.name) await this.#files.drop(copyKey(target));
  }

  /** Like CopySource.protectedSnapshots. A file that cannot be read protects nothing. */
  async list(call: Call): Promise<readonly ProtectedSnapshot[]> {
    const all = await this.#all(call);
    if (all.length === 0) await present(this.#context);
    return all.map(({ target, since, source: { kind, id } }) => ({
      volume: kind === "volume" ? id : undefined,
      ...{ target, since },
    }));
  }

  /** Throws "aborted" if a volume or snapshot is being copied to another connection. */
  async refuseProtected(source: Source, call: Call): Promise<void> {
    const user = (await this.#all(call)).find(kept => this.#parts.sameSource(kept.source, source));
    if (user === undefined) return;
    const what = `${source.kind} "${source.id.slice(0, 160)}" is being copied to "${user.target.slice(0, 200)}"`;
    const fix = "it can be deleted when the copy has ended; retrying";
    throw errorOn(this.#context, "aborted", `${what}; ${fix}`);
  }

  /** Like CopySource.tree. Throws "not-found" if it does not exist, and "aborted" if it was removed or replaced meanwhile. */
  async tree<T>(
    { name, stable }: Pick<SourceSnapshot, "name" | "stable">,
    call: Call,
    work: (tree: ReadableTree) => Promise<T>,
    isStopped = false,
  ): Promise<T> {
    const context = this.#context;
    if (!isTree(name) || (await context.files.entry(`${context.layout.base}/${name}`)) !== "folder")
      throw this.#gone(name);
    const read = (at: OperationContext) => this.#read(at, name, call, work);
    // csimux itself has written a snapshot, by the present mount.
    return stable ? read(context) : this.#parts.fresh.use(context, name, isStopped, call, read);
  }

  async #read<T>(
    context: OperationContext,
    name: string,
    call: Call,
    work: (tree: ReadableTree) => Promise<T>,
  ): Promise<T> {
    const path = `${context.layout.base}/${name}`;
    const read = (attended: Call) =>
      sealed(context, path, attended, ({ source, runner }) =>
        work({ path: source, runner: endedBy(runner, attended.signal) }),
      );
    return reading(context, path, () => whileAnswering(context, call, read));
  }

  /** Like CopySource.fill. First removes what an interrupted call has written into the folder. */
  async fill({ name }: Pick<SourceSnapshot, "name">, folder: string, call: Call): Promise<void> {
    const { files } = this.#context;
    const content = await this.#parts.backup(name, call);
    const aside = `${folder}~`;
    await discard(this.#context, aside, call);
    if ((await files.names(folder)).length > 0) {
      await files.rename(folder, aside);
      await files.makeFolder(folder, 0o700);
      await discard(this.#context, aside, call);
    }
    await content.fill(folder);
  }

  /** What is protected for a target. Throws "failed-precondition" for a file that is not of that target. */
  async #own(target: string): Promise<Protection | undefined> {
    const kept = await this.#files.read(copyKey(target));
    if (kept === undefined || kept.target === target) return kept;
    const text = `the file ${copyKey(target)}.json in ${this.#context.layout.copiedSources} belongs to the copy to "${kept.target.slice(0, 200)}"`;
    throw errorOn(this.#context, "failed-precondition", text);
  }

  async #all(call: Call): Promise<readonly Protection[]> {
    const all = await this.#files.all(() => true, call);
    return all.flatMap(({ value }) => value ?? []);
  }

  #gone(name: string): CsiError {
    const text = `${name.slice(0, 160)} no longer exists below the base folder`;
    return errorOn(this.#context, "not-found", text);
  }
}

/** A CopySource that opens the store at the beginning of each operation. */
export const copySourceBy = (at: () => Promise<{ readonly sources: CopiedSources }>): CopySource => ({
  content: "files",
  protect: async (source, target, _pass, call) => (await at()).sources.protect(source, target, call),
  release: async (target, keep) => (await at()).sources.release(target, keep),
  protectedSnapshots: async call => (await at()).sources.list(call),
  tree: async (snapshot, call, work, isStopped) => (await at()).sources.tree(snapshot, call, work, isStopped),
  fill: async (snapshot, folder, call) => (await at()).sources.fill(snapshot, folder, call),
});

import type { Call } from "../../../core/call.ts";
import type { Argv, Output } from "../../../io/runner.ts";
import type { Outputs, Step, StorageHost } from "../../../io/script.ts";
import { TakenNames } from "../../taken-names.ts";
import { snapshotNameOf } from "../names.ts";
import { shownValue } from "../properties.ts";
import {
  type CloneOrigin,
  type Copy,
  type CreationResult,
  type DestroyOptions,
  type Entries,
  type Entry,
  type NewDataset,
  notOurCopy,
  type Permissions,
  type PropertyQuery,
  type SnapshotName,
  type SnapshotsOfName,
  type Zfs,
} from "../zfs.ts";
import { becauseOf, outputOf, poolStates, readEntries, refusal, throwUntaken } from "./answers.ts";
import { destroyStep, destroySure, freeNameStep, proveGone, refuseUsed, renameStep, whileUnused } from "./destroy.ts";
import { listBelow, listFamilies, listFamily, namesBelow, snapshotSteps } from "./listing.ts";
import { lockConcerns, onlyIf, unlessLarger } from "./lock.ts";
import { ExportCache, exportedIn, exportsStep, type FlushedExports } from "./nfs.ts";
import { incomplete } from "./rows.ts";
import {
  copyStep,
  mountProperties,
  options,
  type Programs,
  permissionSteps,
  poolStep,
  readStep,
  setSteps,
  type ZfsCalls,
} from "./steps.ts";
import { makeWhole } from "./whole.ts";

/** The time limit of a copy in milliseconds: a week. An interrupted copy is continued, not repeated. */
const copyMs = 7 * 24 * 3_600_000;

/**
 * The pools of a host through zfs(8), one script for each verb. The texts of zfs are interpreted only here and in this folder. A class,
 * because a process may have thousands of connections.
 */
export class ZfsCli implements Zfs {
  readonly snapshotsTogether = true;
  readonly fixed: ReadonlySet<string> = new Set();
  readonly #host: StorageHost;
  readonly #programs: Programs;
  readonly #resizer: Pick<Zfs, "set"> | undefined;
  #takenNames: TakenNames | undefined;

  /** `resizer` sets `volsize` instead of zfs(8), where a server announces the new size. */
  constructor(host: StorageHost, programs: Programs, resizer?: Pick<Zfs, "set">) {
    this.#host = host;
    this.#programs = programs;
    this.#resizer = resizer;
  }

  async read(query: PropertyQuery, signal: AbortSignal): Promise<Entries> {
    return readEntries(await this.#run([readStep(this.#programs, query)], signal), query);
  }

  async create(
    dataset: NewDataset,
    parents: boolean,
    asked: PropertyQuery,
    signal: AbortSignal,
  ): Promise<CreationResult> {
    const { name, volsize, permissions, values, finished } = dataset;
    const size = volsize === undefined ? [] : ["-V", String(volsize)];
    // -p only for the parents: zfs would accept an existing dataset as made, without its properties.
    const before = parents ? [this.#step("parents", "create", "-p", name.slice(0, name.lastIndexOf("/")))] : [];
    if (finished) return makeWhole(this.#calls(signal), before, dataset, finished, asked);
    const make = this.#step("make", "create", ...options(values), ...size, name);
    const after = permissionSteps(this.#programs, name, permissions, "make");
    return this.#made([...before, make], after, asked, signal);
  }

  async clone(
    { name, values, volsize, permissions }: NewDataset,
    { snapshot, temporary }: CloneOrigin,
    query: PropertyQuery,
    signal: AbortSignal,
  ): Promise<CreationResult> {
    const size = volsize === undefined ? {} : { volsize: String(volsize) };
    const words = this.#argv("clone", ...options({ ...values, ...size }), snapshot, name);
    // The source may have grown since it was read; ZFS would cut off the clone.
    const argv = temporary && volsize ? unlessLarger(this.#programs, snapshot, "volsize", volsize, words) : words;
    const make: Step = { name: "make", argv, onFailure: "go-on" };
    // A snapshot of an earlier attempt shows the source as it was then, so only one that this script takes is cloned.
    const steps = temporary
      ? [
          freeNameStep(this.#programs, snapshot),
          this.#step("snapshot", "snapshot", snapshot),
          { ...make, onlyAfter: "snapshot" },
          this.#step("defer", "destroy", "-d", snapshot),
        ]
      : [make];
    return this.#made(steps, permissionSteps(this.#programs, name, permissions, "make"), query, signal);
  }

  freeName(snapshot: string, signal: AbortSignal): Promise<void> {
    return this.#done([freeNameStep(this.#programs, snapshot)], signal);
  }

  async set(...[name, values, signal, of]: Parameters<Zfs["set"]>): Promise<void> {
    const { volsize, ...kept } = values;
    const own = this.#resizer ? kept : values;
    await this.#done(setSteps(this.#programs, name, own, of), signal);
    if (volsize !== undefined) await this.#resizer?.set(name, { volsize }, signal);
  }

  unused(...[name, served, signal]: Parameters<NonNullable<Zfs["unused"]>>): Promise<void> {
    return refuseUsed(this.#calls(signal), this.#exports, name, served);
  }

  async permit(name: string, permissions: Permissions, signal: AbortSignal): Promise<void> {
    const mounted = readStep(this.#programs, { names: [name], properties: mountProperties });
    await this.#done([mounted, ...permissionSteps(this.#programs, name, permissions, undefined)], signal);
  }

  snapshot(...[names, values, query, signal]: Parameters<Zfs["snapshot"]>): Promise<CreationResult> {
    return this.#made([this.#step("make", "snapshot", ...options(values), ...names)], [], query, signal);
  }

  async snapshotsNamed(wanted: SnapshotName, query: PropertyQuery, signal: AbortSignal): Promise<SnapshotsOfName> {
    const { name, parent, copies } = wanted;
    if (copies !== undefined && !(await this.#take(wanted, signal)))
      return { holders: [], copies: [], entries: await this.read(query, signal) };
    const outputs = await this.#run(
      [...snapshotSteps(this.#programs, wanted), readStep(this.#programs, query)],
      signal,
    );
    const withSuffix = (below: string, suffix: string) =>
      namesBelow(outputs, below).filter(each => each.endsWith(suffix));
    return {
      holders: withSuffix(parent, `@${name}`).map(each => each.slice(0, -name.length - 1)),
      copies: copies === undefined ? [] : withSuffix(copies, `/${name}`),
      entries: readEntries(outputs, query),
    };
  }

  below(...[parent, types, properties, depth, signal]: Parameters<Zfs["below"]>): Promise<readonly Entry[]> {
    return listBelow(this.#calls(signal), parent, types, properties, depth);
  }

  family(dataset: string, query: PropertyQuery, signal: AbortSignal, onlyDestroyed = false): Promise<Entries> {
    return listFamily(this.#calls(signal), dataset, query, onlyDestroyed);
  }

  async destroy(name: string, how: DestroyOptions, signal: AbortSignal): Promise<void> {
    const defer = () => onlyIf(this.#programs, name, how.guid, "type", this.#argv("destroy", "-d", name));
    const output = how.deferred
      ? await this.#attempt({ name: "destroy", argv: defer() }, signal)
      : await whileUnused(this.#calls(signal), this.#exports, how.served, destroyStep(this.#programs, name, how));
    await proveGone(this.#calls(signal), output, name);
  }

  destroySure(...[snapshot, sure, query, signal]: Parameters<NonNullable<Zfs["destroySure"]>>) {
    return destroySure(this.#calls(signal), snapshot, sure, query);
  }

  families(names: readonly string[], properties: readonly string[], signal: AbortSignal): Promise<Entries> {
    return listFamilies(this.#calls(signal), names, properties);
  }

  async rename(...[from, to, signal, how]: Parameters<Zfs["rename"]>): Promise<void> {
    const served = how && "served" in how ? how.served : undefined;
    const step = renameStep(this.#programs, from, to, how);
    const output = await whileUnused(this.#calls(signal), this.#exports, served, step);
    if (output.exitCode !== 0) throw refusal(output);
  }

  mount(name: string, signal: AbortSignal): Promise<void> {
    return this.#once("mount", name, signal);
  }

  /** An account that may call zfs need not be allowed to call zpool; then nothing is known of the pools. */
  async pools(names: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    return poolStates(await this.#attempt(poolStep(this.#programs, names), signal));
  }

  async exported(signal: AbortSignal): Promise<ReadonlySet<string> | undefined> {
    const { exitCode, stdout } = await this.#attempt(exportsStep, signal);
    return exitCode === 0 ? exportedIn(stdout) : undefined;
  }

  async tellConcerns({ log, signal }: Call): Promise<void> {
    const { stdout } = await this.#attempt(lockConcerns, signal);
    if (stdout !== "") log.warn(stdout.trim().slice(0, 1000));
  }

  share(name: string, signal: AbortSignal): Promise<void> {
    return this.#once("share", name, signal);
  }

  /** `receive -s` keeps what has been received, and a token to continue. While another process copies, the target is busy. */
  async copy(copy: Copy, signal: AbortSignal): Promise<string> {
    const { from, to, values } = copy;
    const snapshot = snapshotNameOf(from);
    const end = `${to}@${snapshot}`;
    const tokenProperty = "receive_resume_token";
    // Set with the first byte: a dataset without them is not csimux's.
    const marks = Object.keys(values).filter(key => key.includes(":"));
    const properties = ["guid", tokenProperty, ...marks];
    const found = await this.read({ names: [to, end, from], properties }, signal);
    const [received, sent] = [end, from].map(name => found.get(name)?.properties.get("guid")?.value);
    const left = found.get(to);
    // A received snapshot has the guid of the sent one.
    if (received !== undefined && received === sent) return shownValue(left, "guid") ?? "";
    const token = left?.properties.get(tokenProperty)?.value;
    if (left && token === undefined) {
      if (marks.length === 0 || !marks.every(key => left.properties.get(key)?.own)) throw notOurCopy(to);
      await this.destroy(to, { snapshots: found.has(end) ? [snapshot] : [] }, signal);
    }
    const steps = [copyStep(this.#programs, copy, token)] as const;
    const output = outputOf(await this.#host.script({ steps, timeoutMs: copyMs, long: true }, signal), "copy");
    if (output.exitCode !== 0) throw refusal(output);
    const made = await this.read({ names: [to, end], properties: ["guid"] }, signal);
    if (!made.has(end)) throw incomplete(`the copy to ${to} has ended, but ${end} does not exist`);
    return shownValue(made.get(to), "guid") ?? "";
  }

  get #exports(): FlushedExports {
    return this.#host.shared("nfs exports", () => new ExportCache()).of(this.#host, this.#programs.privileged);
  }

  #argv(...words: readonly string[]): Argv {
    return [...this.#programs.zfs, ...words];
  }

  /** A step of zfs after which the script continues in any case. */
  #step(name: string, ...words: readonly string[]): Step {
    return { name, argv: this.#argv(...words), onFailure: "go-on" };
  }

  #calls(signal: AbortSignal): ZfsCalls {
    return {
      programs: this.#programs,
      signal,
      run: steps => this.#run(steps, signal),
      read: query => this.read(query, signal),
    };
  }

  async #run([first, ...rest]: readonly Step[], signal: AbortSignal): Promise<Outputs> {
    return first === undefined ? new Map() : this.#host.script({ steps: [first, ...rest] }, signal);
  }

  /** Runs one step and returns its output, failed or not. */
  async #attempt(one: Step, signal: AbortSignal): Promise<Output> {
    return outputOf(await this.#run([one], signal), one.name);
  }

  async #done(steps: readonly Step[], signal: AbortSignal): Promise<void> {
    for (const output of (await this.#run(steps, signal)).values()) if (output.exitCode !== 0) throw refusal(output);
  }

  /** Runs steps of which "make" may find something, reads, and then runs `after`, steps that follow a success of "make". */
  async #made(
    steps: readonly Step[],
    after: readonly Step[],
    asked: PropertyQuery,
    signal: AbortSignal,
  ): Promise<CreationResult> {
    const properties = [...asked.properties, ...(after.length > 0 ? mountProperties : [])];
    const query = { names: asked.names, properties };
    const outputs = await this.#run([...steps, readStep(this.#programs, query), ...after], signal);
    const make = outputs.get("make") ?? throwUntaken(outputs);
    for (const { name } of after) {
      const output = outputs.get(name);
      if (output && output.exitCode !== 0) throw refusal(output);
    }
    const refused = make.exitCode === 0 ? undefined : refusal(make);
    if (refused && refused.failure !== "exists") throw becauseOf(refused, outputs.get("snapshot"));
    return { made: refused === undefined, entries: readEntries(outputs, query) };
  }

  /** Whether a new snapshot's name may be taken. A connection asks for one parent only, so there is one memory of names. */
  async #take(wanted: SnapshotName, signal: AbortSignal): Promise<boolean> {
    this.#takenNames ??= new TakenNames(async listing => {
      const { parent, copies = "" } = wanted;
      const outputs = await this.#run(snapshotSteps(this.#programs, { ...wanted, name: "" }), listing);
      const names = [parent, copies].flatMap(each => namesBelow(outputs, each));
      return names.map(each => [each.slice(each.search(/[^@/]*$/)), parent]);
    });
    return (await this.#takenNames.take(wanted.name, wanted.parent, signal)) !== undefined;
  }

  async #once(verb: "mount" | "share", name: string, signal: AbortSignal): Promise<void> {
    const output = await this.#attempt({ name: verb, argv: this.#argv(verb, name) }, signal);
    if (output.exitCode !== 0 && !/already (?:mounted|shared)/.test(output.stderr)) throw refusal(output);
  }
}

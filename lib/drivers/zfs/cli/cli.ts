import type { Argv, Output } from "../../../io/runner.ts";
import type { Outputs, Script, Step, StorageHost } from "../../../io/script.ts";
import type {
  CloneOrigin,
  Copy,
  Creation,
  DatasetType,
  DestroyOptions,
  Entries,
  Entry,
  NewDataset,
  Permissions,
  PropertyQuery,
  SnapshotName,
  SnapshotsOfName,
  Values,
  Zfs,
  ZfsError,
} from "../zfs.ts";
import { incomplete, isGone, outputOf, poolStates, readEntries, refusal } from "./answers.ts";
import { destroyDataset } from "./destroy.ts";
import { type ListingCalls, listBelow, listFamily, namesBelow, snapshotSteps, TakenNames } from "./listing.ts";
import { ExportCache, exportedIn, exportsStep } from "./nfs.ts";
import { copyStep, mountProperties, options, type Programs, permissionSteps, poolStep, readStep } from "./steps.ts";

/** The time limit of a copy in milliseconds: a week. An interrupted copy is continued, not repeated. */
const copyMs = 7 * 24 * 3_600_000;

/** The pools of a host through zfs(8), one script for each verb. The texts of zfs are interpreted only here and in this folder. */
export class ZfsCli implements Zfs {
  readonly snapshotsTogether = true;
  readonly fixed: ReadonlySet<string> = new Set();
  readonly #host: StorageHost;
  readonly #programs: Programs;
  #taken: TakenNames | undefined;

  constructor(host: StorageHost, programs: Programs) {
    this.#host = host;
    this.#programs = programs;
  }

  async read(query: PropertyQuery, signal: AbortSignal): Promise<Entries> {
    return readEntries(await this.#run([readStep(this.#programs, query)], signal), query);
  }

  async create(dataset: NewDataset, parents: boolean, query: PropertyQuery, signal: AbortSignal): Promise<Creation> {
    const { name, volsize, permissions, values } = dataset;
    const size = volsize === undefined ? [] : ["-V", String(volsize)];
    // -p only for the parents: zfs would accept an existing dataset as made, without its properties.
    const above = this.#step("parents", "create", "-p", name.slice(0, name.lastIndexOf("/")));
    const make = this.#step("make", "create", ...options(values), ...size, name);
    return this.#made([...(parents ? [above] : []), make], this.#permitted(name, permissions), query, signal);
  }

  async clone(dataset: NewDataset, origin: CloneOrigin, query: PropertyQuery, signal: AbortSignal): Promise<Creation> {
    const { name, values, volsize, permissions } = dataset;
    const { snapshot, temporary } = origin;
    const size = volsize === undefined ? {} : { volsize: String(volsize) };
    const make = this.#step("make", "clone", ...options({ ...values, ...size }), snapshot, name);
    const steps = temporary
      ? [
          // A snapshot of an earlier attempt shows the source as it was then.
          this.#step("stale", "destroy", snapshot),
          this.#step("snapshot", "snapshot", snapshot),
          make,
          this.#step("defer", "destroy", "-d", snapshot),
        ]
      : [make];
    return this.#made(steps, this.#permitted(name, permissions), query, signal);
  }

  async set(name: string, values: Values, signal: AbortSignal): Promise<void> {
    const inherited = Object.keys(values).filter(key => values[key] === undefined);
    const pairs = Object.entries(values).flatMap(([key, value]) => (value === undefined ? [] : [`${key}=${value}`]));
    const steps: Step[] = inherited.map((key, at) => ({ name: `inherit${at}`, argv: this.#zfs("inherit", key, name) }));
    if (pairs.length > 0) steps.push({ name: "set", argv: this.#zfs("set", ...pairs, name) });
    await this.#done(steps, signal);
  }

  async permit(name: string, permissions: Permissions, signal: AbortSignal): Promise<void> {
    const read = readStep(this.#programs, { names: [name], properties: mountProperties });
    await this.#done([read, ...permissionSteps(this.#programs, name, permissions, undefined)], signal);
  }

  async snapshot(
    names: readonly [string, ...string[]],
    values: Readonly<Record<string, string>>,
    query: PropertyQuery,
    signal: AbortSignal,
  ): Promise<Creation> {
    return this.#made([this.#step("make", "snapshot", ...options(values), ...names)], [], query, signal);
  }

  async namesakes(wanted: SnapshotName, query: PropertyQuery, signal: AbortSignal): Promise<SnapshotsOfName> {
    const { name, parent, copies } = wanted;
    if (copies !== undefined && !(await this.#take(wanted, signal)))
      return { holders: [], copies: [], entries: await this.read(query, signal) };
    const steps = [...snapshotSteps(this.#programs, wanted), readStep(this.#programs, query)];
    const outputs = await this.#run(steps, signal);
    const called = (below: string, suffix: string) => namesBelow(outputs, below).filter(each => each.endsWith(suffix));
    return {
      holders: called(parent, `@${name}`).map(each => each.slice(0, -name.length - 1)),
      copies: copies === undefined ? [] : called(copies, `/${name}`),
      entries: readEntries(outputs, query),
    };
  }

  async below(
    parent: string,
    types: readonly DatasetType[],
    properties: readonly string[],
    depth: 1 | 2,
    signal: AbortSignal,
  ): Promise<readonly Entry[]> {
    return listBelow(this.#listing(signal), parent, types, properties, depth);
  }

  family(dataset: string, query: PropertyQuery, signal: AbortSignal): Promise<Entries> {
    return listFamily(this.#listing(signal), dataset, query);
  }

  async destroy(name: string, how: DestroyOptions, signal: AbortSignal): Promise<void> {
    const output = how.deferred
      ? await this.#attempt({ name: "destroy", argv: this.#zfs("destroy", "-d", name) }, signal)
      : await destroyDataset(this.#destroyer, name, how, signal);
    if (output.exitCode === 0) return;
    if (!isGone(output, name)) throw refusal(output);
    // One of several commands may have complained, and of something else.
    const found = await this.read({ names: [name], properties: ["type"] }, signal);
    if (found.has(name)) throw incomplete(`${name} exists, and zfs destroy reported that it does not`);
  }

  async rename(from: string, to: string, signal: AbortSignal): Promise<void> {
    await this.#done([{ name: "rename", argv: this.#zfs("rename", from, to) }], signal);
  }

  /** An account that may call zfs need not be allowed to call zpool; then nothing is known of the pools. */
  async pools(names: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    return poolStates(await this.#attempt(poolStep(this.#programs, names), signal));
  }

  mount(name: string, signal: AbortSignal): Promise<void> {
    return this.#once("mount", name, signal);
  }

  async exported(signal: AbortSignal): Promise<ReadonlySet<string> | undefined> {
    const { exitCode, stdout } = await this.#attempt(exportsStep, signal);
    return exitCode === 0 ? exportedIn(stdout) : undefined;
  }

  share(name: string, signal: AbortSignal): Promise<void> {
    return this.#once("share", name, signal);
  }

  /**
   * `receive -s` keeps what an interrupted copy has received, and a token to continue. While another process makes the copy, such as
   * one whose connection was lost, its target is busy.
   */
  async copy(copy: Copy, signal: AbortSignal): Promise<void> {
    const { from, to } = copy;
    const snapshot = from.slice(from.indexOf("@") + 1);
    const end = `${to}@${snapshot}`;
    const tokenProperty = "receive_resume_token";
    const found = await this.read({ names: [to, end, from], properties: ["guid", tokenProperty] }, signal);
    const [received, sent] = [end, from].map(name => found.get(name)?.properties.get("guid")?.value);
    // A received snapshot has the guid of the sent one.
    if (received !== undefined && received === sent) return;
    const token = found.get(to)?.properties.get(tokenProperty)?.value;
    if (found.has(to) && token === undefined)
      await this.destroy(to, { snapshots: found.has(end) ? [snapshot] : [] }, signal);
    const steps = [copyStep(this.#programs, copy, token)] as const;
    const output = outputOf(await this.#script({ steps, timeoutMs: copyMs, long: true }, signal), "copy");
    if (output.exitCode !== 0) throw refusal(output);
    if (!(await this.read({ names: [end], properties: ["type"] }, signal)).has(end))
      throw incomplete(`the copy to ${to} has ended, but ${end} does not exist`);
  }

  /** Whether a new snapshot's name may be taken. A connection asks for one parent only, so there is one memory of names. */
  #take(wanted: SnapshotName, signal: AbortSignal): Promise<boolean> {
    this.#taken ??= new TakenNames(async listing => {
      const { parent, copies = "" } = wanted;
      const outputs = await this.#run(snapshotSteps(this.#programs, { ...wanted, name: "" }), listing);
      const names = [parent, copies].flatMap(each => namesBelow(outputs, each));
      return names.map(each => each.slice(each.search(/[^@/]*$/)));
    });
    return this.#taken.take(wanted.name, signal);
  }

  async #once(verb: "mount" | "share", name: string, signal: AbortSignal): Promise<void> {
    const output = await this.#attempt({ name: verb, argv: this.#zfs(verb, name) }, signal);
    if (output.exitCode !== 0 && !/already (?:mounted|shared)/.test(output.stderr)) throw refusal(output);
  }

  /** Runs one step and returns its output, failed or not. */
  async #attempt(step: Step, signal: AbortSignal): Promise<Output> {
    return outputOf(await this.#run([step], signal), step.name);
  }

  get #destroyer() {
    return {
      programs: this.#programs,
      exports: this.#host.shared("nfs exports", () => new ExportCache(this.#host, this.#programs.privileged)),
      run: (steps: readonly Step[], signal: AbortSignal) => this.#run(steps, signal),
    };
  }

  #listing(signal: AbortSignal): ListingCalls {
    return {
      programs: this.#programs,
      run: steps => this.#run(steps, signal),
      read: query => this.read(query, signal),
    };
  }

  #zfs(...words: readonly string[]): Argv {
    return [...this.#programs.zfs, ...words];
  }

  /** A step of zfs after which the script continues in any case. */
  #step(name: string, ...words: readonly string[]): Step {
    return { name, argv: this.#zfs(...words), onFailure: "go-on" };
  }

  #permitted(name: string, permissions: Permissions | undefined): readonly Step[] {
    return permissionSteps(this.#programs, name, permissions, "make");
  }

  /** Runs steps of which "make" may find something, reads, and then runs `after`, steps that follow a success of "make". */
  async #made(
    steps: readonly Step[],
    after: readonly Step[],
    { names, properties }: PropertyQuery,
    signal: AbortSignal,
  ): Promise<Creation> {
    const query = { names, properties: [...properties, ...(after.length > 0 ? mountProperties : [])] };
    const outputs = await this.#run([...steps, readStep(this.#programs, query), ...after], signal);
    const make = outputOf(outputs, "make");
    for (const { name } of after) {
      const output = outputs.get(name);
      if (output && output.exitCode !== 0) throw refusal(output);
    }
    const refused = make.exitCode === 0 ? undefined : refusal(make);
    if (refused && refused.failure !== "exists") throw becauseOf(refused, outputs.get("snapshot"));
    return { made: refused === undefined, entries: readEntries(outputs, query) };
  }

  async #done(steps: readonly Step[], signal: AbortSignal): Promise<void> {
    const outputs = await this.#run(steps, signal);
    for (const output of outputs.values()) if (output.exitCode !== 0) throw refusal(output);
  }

  async #run(steps: readonly Step[], signal: AbortSignal): Promise<Outputs> {
    const [first, ...rest] = steps;
    return first === undefined ? new Map() : this.#script({ steps: [first, ...rest] }, signal);
  }

  #script(script: Script, signal: AbortSignal): Promise<Outputs> {
    return this.#host.script(script, signal);
  }
}

/** The refusal of a clone; where its snapshot is absent, the refusal to take that. */
const becauseOf = (refused: ZfsError, snapshot: Output | undefined): ZfsError =>
  refused.failure === "absent" && snapshot && snapshot.exitCode !== 0 ? refusal(snapshot) : refused;

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
import { byName, entries, incomplete, isGone, listed, outputOf, refusal, states } from "./answers.ts";
import { type DestroyPorts, destroyDataset } from "./destroy.ts";
import { allNames, completed, lastParts, listedBelow, sameNames, snapshotsOfNameIn } from "./listing.ts";
import { ExportCache, exportedIn, exportsStep } from "./nfs.ts";
import {
  type CommandPrefixes,
  copyStep,
  listStep,
  lookStep,
  namesStep,
  options,
  permissionSteps,
  placeProperties,
  poolStep,
} from "./steps.ts";

/** How long a copy may take, in milliseconds: a week. It is resumed, not begun anew, when it is cut. */
const copyMs = 7 * 24 * 3_600_000;

/** The pools of a host through zfs(8), a script for each verb. What zfs prints is understood here and in the files beside it only. */
export class ZfsCli implements Zfs {
  readonly together = true;
  readonly fixed: ReadonlySet<string> = new Set();
  readonly #host: StorageHost;
  readonly #words: CommandPrefixes;

  constructor(host: StorageHost, words: CommandPrefixes) {
    this.#host = host;
    this.#words = words;
  }

  async read(look: PropertyQuery, signal: AbortSignal): Promise<Entries> {
    const outputs = await this.#run([lookStep(this.#words, look)], signal);
    return entries(outputs, look);
  }

  async create(dataset: NewDataset, parents: boolean, look: PropertyQuery, signal: AbortSignal): Promise<Creation> {
    const { name, volsize, permissions } = dataset;
    const size = volsize === undefined ? [] : ["-V", String(volsize)];
    const words = ["create", ...options(dataset.values), ...size, name];
    const make: Step = { name: "make", argv: this.#zfs(...words), onFailure: "go-on" };
    // Not -p on the dataset itself: that would take one that exists for made, without its properties.
    const above: Step = {
      name: "parents",
      argv: this.#zfs("create", "-p", name.slice(0, name.lastIndexOf("/"))),
      onFailure: "go-on",
    };
    return this.#made([...(parents ? [above] : []), make], this.#permitted(name, permissions), look, signal);
  }

  async clone(dataset: NewDataset, origin: CloneOrigin, look: PropertyQuery, signal: AbortSignal): Promise<Creation> {
    const { name, values, volsize, permissions } = dataset;
    const { snapshot, temporary } = origin;
    // One that an earlier attempt left shows the source as it was then.
    const stale: Step = { name: "stale", argv: this.#zfs("destroy", snapshot), onFailure: "go-on" };
    const first: Step = { name: "snapshot", argv: this.#zfs("snapshot", snapshot), onFailure: "go-on" };
    const size = volsize === undefined ? {} : { volsize: String(volsize) };
    const make: Step = {
      name: "make",
      argv: this.#zfs("clone", ...options({ ...values, ...size }), snapshot, name),
      onFailure: "go-on",
    };
    const last: Step = { name: "defer", argv: this.#zfs("destroy", "-d", snapshot), onFailure: "go-on" };
    const steps = [...(temporary ? [stale, first] : []), make, ...(temporary ? [last] : [])];
    return this.#made(steps, this.#permitted(name, permissions), look, signal);
  }

  async set(name: string, values: Values, signal: AbortSignal): Promise<void> {
    const given = Object.entries(values).filter(([, value]) => value !== undefined);
    const gone = Object.keys(values).filter(key => values[key] === undefined);
    const steps: Step[] = gone.map((key, at) => ({ name: `inherit${at}`, argv: this.#zfs("inherit", key, name) }));
    const pairs = given.map(([key, value]) => `${key}=${value}`);
    if (pairs.length > 0) steps.push({ name: "set", argv: this.#zfs("set", ...pairs, name) });
    await this.#done(steps, signal);
  }

  async permit(name: string, permissions: Permissions, signal: AbortSignal): Promise<void> {
    const look = lookStep(this.#words, { names: [name], properties: placeProperties });
    await this.#done([look, ...permissionSteps(this.#words, name, permissions, undefined)], signal);
  }

  async snapshot(
    names: readonly [string, ...string[]],
    values: Readonly<Record<string, string>>,
    look: PropertyQuery,
    signal: AbortSignal,
  ): Promise<Creation> {
    const argv = this.#zfs("snapshot", ...options(values), ...names);
    return this.#made([{ name: "make", argv, onFailure: "go-on" }], [], look, signal);
  }

  async snapshotNames(parent: string, copies: string, signal: AbortSignal): Promise<readonly string[]> {
    const outputs = await this.#run(allNames(this.#words, parent, copies), signal);
    return [parent, copies].flatMap(each => lastParts(outputs, each));
  }

  async namesakes(wanted: SnapshotName, look: PropertyQuery, signal: AbortSignal): Promise<SnapshotsOfName> {
    const outputs = await this.#run([...sameNames(this.#words, wanted), lookStep(this.#words, look)], signal);
    return { ...snapshotsOfNameIn(outputs, wanted), entries: entries(outputs, look) };
  }

  async below(
    parent: string,
    kinds: readonly DatasetType[],
    properties: readonly string[],
    depth: 1 | 2,
    signal: AbortSignal,
  ): Promise<readonly Entry[]> {
    const cli = {
      words: this.#words,
      run: (steps: readonly Step[]) => this.#run(steps, signal),
      read: (look: PropertyQuery) => this.read(look, signal),
    };
    return listedBelow(cli, parent, kinds, properties, depth);
  }

  /**
   * What lies above a dataset that is there needs no look of its own; only where it is not, the pool may be what is missing. Names below
   * it that were lost would let a target or share be taken away before zfs refuses to destroy what has something below it.
   */
  async family(dataset: string, look: PropertyQuery, signal: AbortSignal): Promise<Entries> {
    const beside = look.names.filter(name => name !== dataset && !dataset.startsWith(`${name}/`));
    const names = [dataset, ...beside];
    const kinds = ["filesystem", "volume", "snapshot"] as const;
    const list = listStep(this.#words, names, kinds, look.properties, 1);
    const outputs = await this.#run([list, namesStep(this.#words, dataset, kinds, 1)], signal);
    const { properties } = look;
    const found = byName(listed(outputs, { names, properties }, names));
    const read = (later: PropertyQuery) => this.read(later, signal);
    const whole = await completed({ read }, dataset, outputs, { found, properties });
    if (whole) return whole;
    const others = await read(look);
    if (others.has(dataset)) throw incomplete(`${dataset} was made while it was looked at`);
    return others;
  }

  /**
   * What cannot unmount a file system shares it again (libzfs, zfs_unmount): of two that destroy it at once the later one would leave
   * an export of something that is gone. So they take turns, also with those of another csimux and of a login that was lost.
   */
  async destroy(name: string, how: DestroyOptions, signal: AbortSignal): Promise<void> {
    const deferred: Step = { name: "destroy", argv: this.#zfs("destroy", "-d", name) };
    const output = how.deferred
      ? await this.#attempt(deferred, signal)
      : await destroyDataset(this.#destroyer, name, how, signal);
    if (output.exitCode === 0) return;
    if (!isGone(output, name)) throw refusal(output);
    await this.#proveAbsent(name, signal);
  }

  async rename(from: string, to: string, signal: AbortSignal): Promise<void> {
    await this.#done([{ name: "rename", argv: this.#zfs("rename", from, to) }], signal);
  }

  /** Accounts that may call zfs need not be allowed to call zpool, and then nothing is known of the pools. */
  async pools(names: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    return states(await this.#attempt(poolStep(this.#words, names), signal));
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
   * With `receive -s` a copy that is cut leaves what has come, and a token to go on from. A copy that somebody else makes, such as
   * one whose connection was lost, makes its target busy.
   */
  async copy(copy: Copy, signal: AbortSignal): Promise<void> {
    const { from, to } = copy;
    const lastPart = from.slice(from.indexOf("@") + 1);
    const end = `${to}@${lastPart}`;
    const token = "receive_resume_token";
    const found = await this.read({ names: [to, end, from], properties: ["guid", token] }, signal);
    const [whole, source] = [end, from].map(name => found.get(name)?.properties.get("guid")?.value);
    // A received snapshot keeps the guid of the one that was sent.
    if (whole !== undefined && whole === source) return;
    const begun = found.get(to)?.properties.get(token)?.value;
    if (found.has(to) && begun === undefined)
      await this.destroy(to, { snapshots: found.has(end) ? [lastPart] : [] }, signal);
    const steps = [copyStep(this.#words, copy, begun)] as const;
    const outputs = await this.#script({ steps, timeoutMs: copyMs, long: true }, signal);
    const output = outputOf(outputs, "copy");
    if (output.exitCode !== 0) throw refusal(output);
    if (!(await this.read({ names: [end], properties: ["type"] }, signal)).has(end))
      throw incomplete(`the copy to ${to} has ended, and ${end} is not there`);
  }

  /** Of several commands only one may have complained, and of something else: that nothing is there any more is looked at. */
  async #proveAbsent(name: string, signal: AbortSignal): Promise<void> {
    const found = await this.read({ names: [name], properties: ["type"] }, signal);
    if (found.has(name)) throw incomplete(`${name} is there, and zfs destroy said that it is not`);
  }

  async #once(verb: "mount" | "share", name: string, signal: AbortSignal): Promise<void> {
    const output = await this.#attempt({ name: verb, argv: this.#zfs(verb, name) }, signal);
    if (output.exitCode !== 0 && !/already (?:mounted|shared)/.test(output.stderr)) throw refusal(output);
  }

  /** Runs one step, whatever comes of it. */
  async #attempt(step: Step, signal: AbortSignal): Promise<Output> {
    return outputOf(await this.#run([step], signal), step.name);
  }

  get #destroyer(): DestroyPorts {
    return {
      words: this.#words,
      exports: this.#host.shared("nfs exports", () => new ExportCache(this.#host, this.#words.privileged)),
      run: (steps, signal) => this.#run(steps, signal),
    };
  }

  #zfs(...words: readonly string[]): Argv {
    return [...this.#words.zfs, ...words];
  }

  #permitted(name: string, permissions: Permissions | undefined): readonly Step[] {
    return permissionSteps(this.#words, name, permissions, "make");
  }

  /** Runs steps of which "make" may find something there, reads, and then runs `after`, steps that follow on a success of "make". */
  async #made(
    steps: readonly Step[],
    after: readonly Step[],
    look: PropertyQuery,
    signal: AbortSignal,
  ): Promise<Creation> {
    const properties = [...new Set([...look.properties, ...(after.length > 0 ? placeProperties : [])])];
    const outputs = await this.#run([...steps, lookStep(this.#words, { ...look, properties }), ...after], signal);
    const make = outputOf(outputs, "make");
    for (const { name } of after) {
      const output = outputs.get(name);
      if (output && output.exitCode !== 0) throw refusal(output);
    }
    const refused = make.exitCode === 0 ? undefined : refusal(make);
    if (refused && refused.failure !== "exists") throw becauseOf(refused, outputs.get("snapshot"));
    return { made: refused === undefined, entries: entries(outputs, { ...look, properties }) };
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

/** The refusal of a clone, or what its snapshot was refused for where that is what is absent. */
const becauseOf = (refused: ZfsError, snapshot: Output | undefined): ZfsError =>
  refused.failure === "absent" && snapshot && snapshot.exitCode !== 0 ? refusal(snapshot) : refused;

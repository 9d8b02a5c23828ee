import type { Argv, Output } from "../../../io/runner.ts";
import type { Outputs, Step, StorageHost } from "../../../io/script.ts";
import type { CreationResult, DestroyOptions, Entries, PropertyQuery, SnapshotName, Zfs, ZfsError } from "../zfs.ts";
import { incomplete, isGone, outputOf, poolStates, readEntries, refusal } from "./answers.ts";
import { destroyDataset } from "./destroy.ts";
import { listBelow, listFamily, namesBelow, snapshotSteps, TakenNames } from "./listing.ts";
import { ExportCache, exportedIn, exportsStep } from "./nfs.ts";
import {
  copyStep,
  mountProperties,
  options,
  type Programs,
  permissionSteps,
  poolStep,
  readStep,
  type ZfsCalls,
} from "./steps.ts";

/** The time limit of a copy in milliseconds: a week. An interrupted copy is continued, not repeated. */
const copyMs = 7 * 24 * 3_600_000;

/** The pools of a host through zfs(8), one script for each verb. The texts of zfs are interpreted only here and in this folder. */
export function zfsCli(host: StorageHost, programs: Programs): Zfs {
  let takenNames: TakenNames | undefined;
  const zfs = (...words: readonly string[]): Argv => [...programs.zfs, ...words];

  /** A step of zfs after which the script continues in any case. */
  const step = (name: string, ...words: readonly string[]): Step => {
    return { name, argv: zfs(...words), onFailure: "go-on" };
  };

  async function run([first, ...rest]: readonly Step[], signal: AbortSignal): Promise<Outputs> {
    return first === undefined ? new Map() : host.script({ steps: [first, ...rest] }, signal);
  }

  /** Runs one step and returns its output, failed or not. */
  const attempt = async (one: Step, signal: AbortSignal): Promise<Output> =>
    outputOf(await run([one], signal), one.name);

  async function done(steps: readonly Step[], signal: AbortSignal): Promise<void> {
    for (const output of (await run(steps, signal)).values()) if (output.exitCode !== 0) throw refusal(output);
  }

  const read = async (query: PropertyQuery, signal: AbortSignal): Promise<Entries> =>
    readEntries(await run([readStep(programs, query)], signal), query);

  const calls = (signal: AbortSignal): ZfsCalls => ({
    programs,
    signal,
    run: steps => run(steps, signal),
    read: query => read(query, signal),
  });

  /** Runs steps of which "make" may find something, reads, and then runs `after`, steps that follow a success of "make". */
  async function made(steps: readonly Step[], after: readonly Step[], asked: PropertyQuery, signal: AbortSignal) {
    const properties = [...asked.properties, ...(after.length > 0 ? mountProperties : [])];
    const query = { names: asked.names, properties };
    const outputs = await run([...steps, readStep(programs, query), ...after], signal);
    const make = outputOf(outputs, "make");
    for (const { name } of after) {
      const output = outputs.get(name);
      if (output && output.exitCode !== 0) throw refusal(output);
    }
    const refused = make.exitCode === 0 ? undefined : refusal(make);
    if (refused && refused.failure !== "exists") throw becauseOf(refused, outputs.get("snapshot"));
    const creation: CreationResult = { made: refused === undefined, entries: readEntries(outputs, query) };
    return creation;
  }

  async function destroy(name: string, how: DestroyOptions, signal: AbortSignal): Promise<void> {
    const exports = host.shared("nfs exports", () => new ExportCache(host, programs.privileged));
    const output = how.deferred
      ? await attempt({ name: "destroy", argv: zfs("destroy", "-d", name) }, signal)
      : await destroyDataset(calls(signal), exports, name, how);
    if (output.exitCode === 0) return;
    if (!isGone(output, name)) throw refusal(output);
    // One of several commands may have complained, and of something else.
    const found = await read({ names: [name], properties: ["type"] }, signal);
    if (found.has(name)) throw incomplete(`${name} exists, and zfs destroy reported that it does not`);
  }

  /** Whether a new snapshot's name may be taken. A connection asks for one parent only, so there is one memory of names. */
  function take(wanted: SnapshotName, signal: AbortSignal): Promise<boolean> {
    takenNames ??= new TakenNames(async listing => {
      const { parent, copies = "" } = wanted;
      const outputs = await run(snapshotSteps(programs, { ...wanted, name: "" }), listing);
      const names = [parent, copies].flatMap(each => namesBelow(outputs, each));
      return names.map(each => each.slice(each.search(/[^@/]*$/)));
    });
    return takenNames.take(wanted.name, signal);
  }

  async function once(verb: "mount" | "share", name: string, signal: AbortSignal): Promise<void> {
    const output = await attempt({ name: verb, argv: zfs(verb, name) }, signal);
    if (output.exitCode !== 0 && !/already (?:mounted|shared)/.test(output.stderr)) throw refusal(output);
  }

  return {
    snapshotsTogether: true,
    fixed: new Set(),
    ...{ read, destroy },
    async create({ name, volsize, permissions, values }, parents, query, signal) {
      const size = volsize === undefined ? [] : ["-V", String(volsize)];
      // -p only for the parents: zfs would accept an existing dataset as made, without its properties.
      const above = step("parents", "create", "-p", name.slice(0, name.lastIndexOf("/")));
      const make = step("make", "create", ...options(values), ...size, name);
      const after = permissionSteps(programs, name, permissions, "make");
      return made(parents ? [above, make] : [make], after, query, signal);
    },
    async clone({ name, values, volsize, permissions }, { snapshot, temporary }, query, signal) {
      const size = volsize === undefined ? {} : { volsize: String(volsize) };
      const make = step("make", "clone", ...options({ ...values, ...size }), snapshot, name);
      // A snapshot of an earlier attempt shows the source as it was then.
      const fresh = [step("stale", "destroy", snapshot), step("snapshot", "snapshot", snapshot)];
      const steps = temporary ? [...fresh, make, step("defer", "destroy", "-d", snapshot)] : [make];
      return made(steps, permissionSteps(programs, name, permissions, "make"), query, signal);
    },
    async set(name, values, signal) {
      const inherited = Object.keys(values).filter(key => values[key] === undefined);
      const pairs = Object.entries(values).flatMap(([key, value]) => (value === undefined ? [] : [`${key}=${value}`]));
      const steps: Step[] = inherited.map((key, at) => ({ name: `inherit${at}`, argv: zfs("inherit", key, name) }));
      if (pairs.length > 0) steps.push({ name: "set", argv: zfs("set", ...pairs, name) });
      await done(steps, signal);
    },
    async permit(name, permissions, signal) {
      const mounted = readStep(programs, { names: [name], properties: mountProperties });
      await done([mounted, ...permissionSteps(programs, name, permissions, undefined)], signal);
    },
    snapshot: (names, values, query, signal) =>
      made([step("make", "snapshot", ...options(values), ...names)], [], query, signal),
    async namesakes(wanted, query, signal) {
      const { name, parent, copies } = wanted;
      if (copies !== undefined && !(await take(wanted, signal)))
        return { holders: [], copies: [], entries: await read(query, signal) };
      const outputs = await run([...snapshotSteps(programs, wanted), readStep(programs, query)], signal);
      const called = (below: string, suffix: string) =>
        namesBelow(outputs, below).filter(each => each.endsWith(suffix));
      return {
        holders: called(parent, `@${name}`).map(each => each.slice(0, -name.length - 1)),
        copies: copies === undefined ? [] : called(copies, `/${name}`),
        entries: readEntries(outputs, query),
      };
    },
    below: (parent, types, properties, depth, signal) => listBelow(calls(signal), parent, types, properties, depth),
    family: (dataset, query, signal) => listFamily(calls(signal), dataset, query),
    rename: (from, to, signal) => done([{ name: "rename", argv: zfs("rename", from, to) }], signal),
    /** An account that may call zfs need not be allowed to call zpool; then nothing is known of the pools. */
    pools: async (names, signal) => poolStates(await attempt(poolStep(programs, names), signal)),
    mount: (name, signal) => once("mount", name, signal),
    async exported(signal) {
      const { exitCode, stdout } = await attempt(exportsStep, signal);
      return exitCode === 0 ? exportedIn(stdout) : undefined;
    },
    share: (name, signal) => once("share", name, signal),
    /** `receive -s` keeps what has been received, and a token to continue. While another process copies, the target is busy. */
    async copy(copy, signal) {
      const { from, to } = copy;
      const snapshot = from.slice(from.indexOf("@") + 1);
      const end = `${to}@${snapshot}`;
      const tokenProperty = "receive_resume_token";
      const found = await read({ names: [to, end, from], properties: ["guid", tokenProperty] }, signal);
      const [received, sent] = [end, from].map(name => found.get(name)?.properties.get("guid")?.value);
      // A received snapshot has the guid of the sent one.
      if (received !== undefined && received === sent) return;
      const token = found.get(to)?.properties.get(tokenProperty)?.value;
      if (found.has(to) && token === undefined)
        await destroy(to, { snapshots: found.has(end) ? [snapshot] : [] }, signal);
      const steps = [copyStep(programs, copy, token)] as const;
      const output = outputOf(await host.script({ steps, timeoutMs: copyMs, long: true }, signal), "copy");
      if (output.exitCode !== 0) throw refusal(output);
      if (!(await read({ names: [end], properties: ["type"] }, signal)).has(end))
        throw incomplete(`the copy to ${to} has ended, but ${end} does not exist`);
    },
  };
}

/** The refusal of a clone; where its snapshot is absent, the refusal to take that. */
const becauseOf = (refused: ZfsError, snapshot: Output | undefined): ZfsError =>
  refused.failure === "absent" && snapshot && snapshot.exitCode !== 0 ? refusal(snapshot) : refused;

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { CommandRunner } from "../../../lib/io/runner.ts";
import { unlessGone } from "../vanishing.ts";
import { filesBelow, guidOf, writeFiles } from "../zfs/content.ts";
import type { Pools, Thing } from "../zfs/pool.ts";
import { type FakeZfs, inProcess } from "../zfs/pools.ts";
import type { Dataset, Snapshot, State } from "./state.ts";

/** The name of the file in which the model of zfs has what the double calls the content. */
const file = "content";

/**
 * zfs(8) on the system of a double: what a command sees is what the API made, and what it changes is seen by the API. `fake` has nothing of
 * its own but holds, tokens and mounts, which the double does not know. Commands run one after another.
 */
export function zfsOf(state: State, fake: FakeZfs, others: CommandRunner): CommandRunner {
  const inner = inProcess(fake, others);
  let last: Promise<unknown> = Promise.resolve();
  const one: CommandRunner["run"] = async (command, signal) => {
    fake.with(pools => shownTo(pools, state));
    try {
      const output = await inner.run(command, signal);
      return { ...output, stdout: output.stdout.replaceAll(`${fake.folder}/mnt/`, "/mnt/") };
    } finally {
      // The API may change something while another program runs.
      if (command.argv.some(word => /\bzfs\b/.test(word))) fake.with(pools => takenFrom(pools, state));
    }
  };
  return {
    ...inner,
    run(command, signal) {
      const done = last.then(() => one(command, signal));
      last = done.catch(() => {});
      return done;
    },
  };
}

const local = (values: Readonly<Record<string, string>>): Thing["own"] =>
  Object.fromEntries(Object.entries(values).map(([key, value]) => [key, { value, source: "local" as const }]));

/** Makes the model's pools equal to the double's. */
function shownTo(pools: Pools, state: State): void {
  const before = Object.values(pools.state.things);
  const known = (name: string, guid: string) =>
    before.find(each => each.name === name && guidOf(each) === guid) ?? before.find(each => guidOf(each) === guid);
  const datasets = Object.values(state.datasets).filter(({ name }) => name.includes("/"));
  const snapshots = Object.entries(state.snapshots);
  const guids = new Map(snapshots.map(([name, { guid }]) => [name, guid]));
  const contents: (readonly [Thing, string | undefined])[] = [];
  const add = (thing: Thing, content: string | undefined): readonly [string, Thing] => {
    contents.push([thing, content]);
    return [thing.name, thing];
  };
  const tank = before.filter(({ name }) => !name.includes("/")).map(each => [each.name, each] as const);
  pools.state.things = Object.fromEntries([
    ...tank,
    ...datasets.map(each => {
      const { name, guid, createtxg: txg, creation, content, locked } = each;
      const origin = each.origin === undefined ? {} : { origin: guids.get(each.origin) ?? "" };
      const type = each.type === "VOLUME" ? ("volume" as const) : ("filesystem" as const);
      const own = local({ ...each.native, ...each.user });
      return add(
        { ...known(name, guid), ...{ name, type, guid, txg, creation, own }, ...origin, ...(locked && { locked }) },
        content,
      );
    }),
    ...snapshots.map(([name, each]) => {
      const { guid, createtxg: txg, creation, deferred: defer, volsize, content } = each;
      const own = local({ ...each.user, ...(volsize !== undefined && { volsize }) });
      const same = known(name, guid);
      return add(
        { ...same, guid: same?.guid ?? guid, name, type: "snapshot" as const, txg, creation, defer, own },
        content,
      );
    }),
  ]);
  pools.state.next = Math.max(pools.state.next, state.txg + 1);
  for (const [thing, content] of contents) {
    const wanted = content === undefined ? {} : { [file]: Buffer.from(content).toString("base64") };
    if (!thing.token && JSON.stringify(filesBelow(pools.place(thing))) !== JSON.stringify(wanted))
      writeFiles(pools.place(thing), wanted);
  }
}

/** Makes the double's pools equal to the model's. */
function takenFrom(pools: Pools, state: State): void {
  const things = Object.values(pools.state.things).filter(({ name }) => name.includes("/"));
  const split = ({ own }: Thing, isUser: boolean) =>
    Object.fromEntries(
      Object.entries(own).flatMap(([key, { value }]) => (key.includes(":") === isUser ? [[key, value]] : [])),
    );
  const contentOf = (thing: Thing): { readonly content?: string } => {
    const look = () => ({ content: readFileSync(join(pools.place(thing), file), "utf8") });
    return unlessGone<{ readonly content?: string }>(look, {});
  };
  const { tank } = state.datasets;
  const datasets = things.flatMap(thing => {
    if (thing.type === "snapshot") return [];
    const { name, guid, txg: createtxg, creation } = thing;
    const { content: _content, origin: _origin, ...old } = state.datasets[name] ?? { mode: 0o755, uid: 0, gid: 0 };
    const origin = thing.origin === undefined ? undefined : pools.byGuid(thing.origin)?.name;
    const dataset: Dataset = {
      ...old,
      ...{ name, guid, createtxg, creation, type: thing.type === "volume" ? "VOLUME" : "FILESYSTEM" },
      ...{ native: split(thing, false), user: split(thing, true) },
      ...(origin !== undefined && { origin }),
      ...contentOf(thing),
    };
    return [[name, dataset] as const];
  });
  const snapshots = things.flatMap(thing => {
    const [dataset = "", name] = thing.name.split("@");
    if (name === undefined) return [];
    const volsize = thing.own["volsize"]?.value;
    const snapshot: Snapshot = {
      ...{ dataset, name, user: split(thing, true), guid: guidOf(thing), createtxg: thing.txg },
      ...{ creation: thing.creation, holds: thing.holds?.length ?? 0, deferred: thing.defer === true },
      ...(volsize !== undefined && { volsize }),
      ...contentOf(thing),
    };
    return [[thing.name, snapshot] as const];
  });
  state.datasets = { ...(tank && { tank }), ...Object.fromEntries(datasets) };
  state.snapshots = Object.fromEntries(snapshots);
  state.txg = Math.max(state.txg, pools.state.next);
}

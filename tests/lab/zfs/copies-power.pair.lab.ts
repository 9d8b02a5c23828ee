import { afterAll, beforeAll, expect, test } from "bun:test";
import { setTimeout as pause } from "node:timers/promises";
import { failureOf, status } from "../../serve/world.ts";
import { passing } from "../persistently.ts";
import { executable } from "../rig.ts";
import { run, waitFor } from "../run.ts";
import { onSecond, secondAddress } from "../second.ts";
import {
  asking,
  contentOf,
  filling,
  limitMs,
  make,
  nothingLeft,
  remove,
  shell,
  withCopies,
  world,
} from "./copies-rig.ts";
import {
  after,
  afterNote,
  cutPower,
  heldZfs,
  hold,
  inReceiving,
  inReceivingUnmarked,
  inSending,
  installHolding,
  letGo,
  reachedSteps,
  removeHolding,
  stateOf,
} from "./power.ts";
import { nfsFile } from "./zfs-drivers.ts";

// Each copy is held at another one of the steps after which power may be lost. Then the second guest, which has the target, the source, or
// both, is reset without a sync, and the next requests complete every copy.

/** The names of what a copy makes, and of its source. */
interface Paths {
  readonly record: string;
  readonly landing: string;
  readonly volume: string;
  readonly moment: string;
}

/** A step at which the power goes. */
interface Step {
  readonly rule: (at: Paths, name: string) => string;
  /** An earlier step at which the copy is cancelled: the power goes while it is removed. */
  readonly cancelledAt?: Step["rule"];
  /** What is left of the copy, in words of `stateOf`, sorted; absent if csimux continues it at once. */
  readonly left?: readonly string[];
}

const data: Step = {
  rule: ({ landing }, name) => inReceiving(landing, name),
  left: ["copying record", "held moment", "partial landing"],
};
const sending: Step = { rule: ({ moment }, name) => inSending(moment, name) };

const steps = {
  snapshot: { rule: ({ moment }, name) => after(`snapshot * ${moment}*`, name), left: ["moment"] },
  hold: { rule: ({ moment }, name) => after(`hold csimux-copy-* ${moment}*`, name), left: ["held moment"] },
  record: { rule: ({ record }, name) => after(`create * ${record}`, name), left: ["copying record", "held moment"] },
  unmarked: { ...data, rule: ({ landing }, name) => inReceivingUnmarked(landing, name) },
  data,
  sending,
  all: {
    rule: ({ landing }, name) => after(`receive * ${landing}@*`, name),
    left: ["complete landing", "copying record", "held moment"],
  },
  proof: {
    rule: ({ landing }, name) => after(`set csimux:proof=* ${landing}`, name),
    left: ["held moment", "proved landing", "ready record"],
  },
  rename: {
    rule: ({ landing }, name) => after(`rename ${landing} *`, name),
    left: ["held moment", "ready record", "unfinished volume"],
  },
  open: {
    rule: ({ volume }, name) => after(`set *canmount=* ${volume}`, name),
    left: ["held moment", "ready record", "unfinished volume"],
  },
  finish: {
    rule: ({ volume }, name) => after(`set *provision_success=true* ${volume}`, name),
    left: ["held moment", "ready record", "volume"],
  },
  note: {
    rule: ({ record }, name) => afterNote(record, name),
    left: ["finished record", "held moment", "volume"],
  },
  release: {
    rule: ({ moment }, name) => after(`release csimux-copy-* ${moment}*`, name),
    left: ["finished record", "moment", "volume"],
  },
  drop: {
    rule: ({ landing }, name) => after(`destroy ${landing}`, name),
    cancelledAt: data.rule,
    left: ["cancelled record", "held moment"],
  },
  given: {
    rule: ({ moment }, name) => after(`release csimux-copy-* ${moment}*`, name),
    cancelledAt: sending.rule,
    left: ["cancelled record", "moment"],
  },
} as const satisfies Record<string, Step>;

type Side = "target" | "source" | "both";
/** A copy, named after its step, and what of it is on the second guest. */
interface Row {
  readonly side: Side;
  readonly name: string;
  readonly step: Step;
}
const rowsOf = (side: Side, ...names: readonly (keyof typeof steps)[]): readonly Row[] =>
  names.map(name => ({ side, name: `${side}-${name}`, step: steps[name] }));

// csimux changes a host with at most four shells at once, and each of them may be held by one copy.
const onTarget = [
  rowsOf("target", "record", "unmarked", "data", "all", "proof", "rename"),
  rowsOf("target", "open", "finish", "note", "drop"),
] as const;
const onSource = rowsOf("source", "snapshot", "hold", "sending", "release", "given");
const onBoth = rowsOf("both", "hold", "data", "rename", "note");

/** "near" is on the first guest, "far" and "beside" are on the second one. */
const from = ({ side }: Row): string => ({ target: "near", source: "far", both: "beside" })[side];
const to = ({ side }: Row): string => (side === "source" ? "near" : "far");
const sourceOf = (row: Row): string => `tank/${from(row)}/v/${row.name}-source`;
const volumeOf = (row: Row): string => `tank/${to(row)}/v/${row.name}`;
const sourceMachine = ({ side }: Row) => (side === "target" ? run : onSecond);
const targetMachine = ({ side }: Row) => (side === "source" ? run : onSecond);
const begun = ({ name }: Row): string => `${name}-begun`;

function pathsOf(row: Row): Paths {
  const parent = `tank/${to(row)}/v`;
  return {
    record: `${parent}/csimux-copy-${row.name}`,
    landing: `${parent}/csimux-land-${row.name}`,
    volume: volumeOf(row),
    moment: `${sourceOf(row)}@csimux-copy-`,
  };
}

withCopies(
  login => {
    const there = login.lines("root", secondAddress);
    return {
      near: nfsFile("tank/near", login.lines("root")),
      far: nfsFile("tank/far", there, heldZfs),
      beside: nfsFile("tank/beside", there, heldZfs),
    };
  },
  ["  copies:", "    atOnce: 32", "    perMachine: 32"],
);
beforeAll(installHolding, limitMs);
afterAll(removeHolding, limitMs);

/** Asks for a copy until its step is reached; a request may be held there. */
async function askUntil(row: Row, volume: string, isReached: () => boolean): Promise<void> {
  while (!isReached()) {
    try {
      await asking(to(row), row.name, { volume });
      return;
    } catch (error) {
      if (!passing.includes((error as { code: number }).code)) throw error;
    }
    await pause(500);
  }
}

/** Cancels a copy; it is repeated until its step is reached, because its landing is busy while a program receives. */
async function cancelUntil(row: Row, isReached: () => boolean): Promise<void> {
  const socket = `unix://${world.sandbox.socket}`;
  while (!isReached()) {
    await run([executable, "copies", "cancel", `v:${to(row)}/${row.name}`, "--endpoint", socket]).catch(() => {});
    if (!isReached()) await letGo(begun(row));
  }
}

/** Brings each copy to its step. Returns what still runs then, and fails when the power goes. */
async function holdAll(rows: readonly Row[], sources: ReadonlyMap<Row, string>): Promise<readonly Promise<unknown>[]> {
  for (const row of rows) {
    const { rule, cancelledAt } = row.step;
    const paths = pathsOf(row);
    await hold(
      row.name,
      cancelledAt ? `${cancelledAt(paths, begun(row))}\n${rule(paths, row.name)}` : rule(paths, row.name),
    );
  }
  let reached: ReadonlySet<string> = new Set();
  const running: Promise<unknown>[] = rows.map(row => {
    const goal = row.step.cancelledAt ? begun(row) : row.name;
    return askUntil(row, sources.get(row) ?? "", () => reached.has(goal));
  });
  let fault: unknown;
  for (const each of running)
    each.catch(error => {
      fault ??= error;
    });
  const cancelled = new Set<Row>();
  await waitFor(
    `the steps of ${rows.map(({ name }) => name).join(", ")}`,
    async () => {
      if (fault !== undefined) throw fault;
      // On a busy host a login may exceed its limit; the next one lists all steps again.
      reached = await reachedSteps(reached).catch(() => reached);
      for (const row of rows.filter(each => reached.has(begun(each)) && !cancelled.has(each))) {
        cancelled.add(row);
        running.push(cancelUntil(row, () => reached.has(row.name)));
      }
      return rows.every(({ name }) => reached.has(name)) ? true : undefined;
    },
    // Streams that pass through an emulated guest take minutes, and each holder there waits 80 s after a slow write of its record.
    1_200_000,
  );
  return running;
}

/** What is left of a copy on both guests. */
async function leftOf(row: Row): Promise<readonly string[]> {
  const found = [...(await stateOf(run, row.name)), ...(await stateOf(onSecond, row.name))];
  return found.filter(word => word !== "").sort();
}

/** Cuts the power while each of the copies is at its step, and expects all to be whole after the next requests. */
async function expectWhole(rows: readonly Row[], isKilled: boolean): Promise<void> {
  const sources = new Map<Row, string>();
  const wanted = new Map<Row, string>();
  for (const row of rows) {
    sources.set(row, await make(from(row), `${row.name}-source`));
    await shell(sourceMachine(row), filling, `/${sourceOf(row)}`, "16");
    wanted.set(row, await contentOf(sourceMachine(row), sourceOf(row)));
  }
  const running = await holdAll(rows, sources);
  if (isKilled) process.kill(world.daemon.pid, "SIGKILL");
  await cutPower();
  await Promise.allSettled(running);
  for (const row of rows)
    if (row.step.left) expect({ [row.name]: await leftOf(row) }).toEqual({ [row.name]: row.step.left });
  if (isKilled) {
    await world.daemon.stop();
    await world.restart();
  }
  const ids = await Promise.all(
    rows.map(async row => {
      const volume = sources.get(row) ?? "";
      if (row.step.cancelledAt)
        expect((await failureOf(asking(to(row), row.name, { volume }))).code).toBe(status.failedPrecondition);
      return make(to(row), row.name, { volume });
    }),
  );
  for (const row of rows)
    expect({ [row.name]: await contentOf(targetMachine(row), volumeOf(row)) }).toEqual({
      [row.name]: wanted.get(row) ?? "",
    });
  await waitFor(
    "the removal of what copies leave",
    () =>
      nothingLeft().then(
        () => true,
        () => undefined,
      ),
    60_000,
  );
  for (const id of [...ids, ...sources.values()]) await remove(id);
}

test.each([
  ["beginning", onTarget[0]],
  ["end", onTarget[1]],
] as const)(
  "copies whose target and csimux lose power at the steps of their %s are whole afterwards",
  (_, rows) => expectWhole(rows, true),
  limitMs,
);

test("copies whose source loses power at each step are whole afterwards", () => expectWhole(onSource, false), limitMs);

test(
  "copies whose source, target and csimux lose power at once are whole afterwards",
  () => expectWhole(onBoth, true),
  limitMs,
);

import { afterAll, beforeAll, expect, test } from "bun:test";
import { askCopies } from "../../../cmd/cluster/copies/socket.ts";
import { commandSocketOf } from "../../../lib/copies/protocol.ts";
import { processes } from "../../copy/stream-rig.ts";
import { signal } from "../../io/ssh/sshd.ts";
import { pause } from "../../waiting.ts";
import { untilDone as repeated, status } from "../world.ts";
import { type CopyKills, copyKills, digest, fillFolder, type Route, routes } from "./copy-kills-rig.ts";

/** How many copies are disturbed. CSIMUX_SEED: the same choices again. */
const count = Number(process.env["CSIMUX_KILLS"] ?? 3);
const seed = Number(process.env["CSIMUX_SEED"] ?? Date.now() % 100_000);

/** The answers after which external-provisioner asks again. */
const pending: readonly number[] = [1, status.deadlineExceeded, status.aborted, status.unavailable];
/** How long one copy, one call, or the clean-up after all of them may take under kills and on a busy machine, in milliseconds. */
const limitMs = 300_000;
/** The client that a restart has closed throws an error without a code. */
const asUnavailable = (error: unknown): never => {
  throw Object.assign(new Error(String(error)), { code: (error as { code?: number }).code ?? status.unavailable });
};
const untilDone = <T>(call: () => Promise<T>): Promise<T> => repeated(() => call().catch(asUnavailable), limitMs);

let rig: CopyKills;
beforeAll(async () => {
  rig = await copyKills();
}, 300_000);
afterAll(async () => {
  expect(await rig.end()).toEqual([]);
});

let state = seed;
const random = (below: number): number => {
  state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
  return Math.floor((state / 2_147_483_648) * below);
};
const pick = <T>(all: readonly [T, ...T[]]): T => all[random(all.length)] ?? all[0];

const tally: Record<string, number> = {};
const counted = (what: string): void => {
  tally[what] = (tally[what] ?? 0) + 1;
};

/** What is copied, and the digest of its content. */
interface CopySource {
  readonly kind: "volume" | "snapshot";
  readonly id: string;
  readonly whole: string;
}

/** The folder of a volume. */
function placeOf(id: string): string {
  const [, connection = "", name = ""] = /^v:([^/]+)\/(.+)$/.exec(id) ?? [];
  const host = { near: 0, far: 0, away: 1 }[connection];
  if (host === undefined) return `${rig.world.base(connection)}/v/${name}`;
  return rig.hosts[host]?.fake.place(`tank/${connection}/v/${name}`) ?? "";
}

async function volumeWith(name: string, connection: string, text: string): Promise<CopySource> {
  const { volume } = await untilDone(() => rig.world.create(name, connection));
  const id = volume?.volumeId ?? "";
  await fillFolder(placeOf(id), text);
  return { kind: "volume", id, whole: await digest(placeOf(id)) };
}

/** A snapshot of a volume, whose own content then changes. */
async function snapshotWith(volume: CopySource): Promise<CopySource> {
  const name = `snap-${volume.id.split("/")[1]}`;
  const { snapshot } = await untilDone(() =>
    rig.world.controller("createSnapshot", { name, sourceVolumeId: volume.id }),
  );
  return { kind: "snapshot", id: snapshot?.snapshotId ?? "", whole: volume.whole };
}

const contentSource = ({ kind, id }: CopySource) => ({
  volumeContentSource: {
    type: kind === "volume" ? { case: kind, value: { volumeId: id } } : { case: kind, value: { snapshotId: id } },
  } as const,
});

type Outcome =
  | { readonly kind: "volume"; readonly id: string }
  | { readonly kind: "refused"; readonly code: number; readonly details: string }
  | { readonly kind: "forgotten" };

/** What external-provisioner does: asks until the answer is final, or until the claim is forgotten. */
function asking(name: string, route: Route, source: CopySource) {
  let isForgotten = false;
  const asked = async (): Promise<Outcome> => {
    const end = performance.now() + limitMs;
    let last = "";
    while (!isForgotten) {
      if (performance.now() > end) throw new Error(`the copy ${name} does not end: ${last}`);
      try {
        const { volume } = await rig.world.create(name, route.to, contentSource(source), 15_000);
        return { kind: "volume", id: volume?.volumeId ?? "" };
      } catch (error) {
        // The client that a restart has closed throws an error without a code.
        const { code = status.unavailable, details = String(error) } = error as { code?: number; details?: string };
        if (!pending.includes(code)) return { kind: "refused", code, details };
        last = details;
      }
      await pause(40);
    }
    return { kind: "forgotten" };
  };
  const done = asked();
  done.catch(() => {});
  const forget = () => {
    isForgotten = true;
  };
  return { done, forget };
}

/** The processes below csimux. */
function children(): readonly number[] {
  const all = processes();
  const below = (pid: number): number[] =>
    all.filter(({ parent }) => parent === pid).flatMap(each => [each.pid, ...below(each.pid)]);
  return below(rig.world.daemon.pid);
}

/** Kills one of some processes, if there are any. */
function killOne(what: string, pids: readonly number[]): void {
  const [first, ...others] = pids;
  counted(first === undefined ? `no ${what} to kill` : `killed ${what}`);
  if (first !== undefined) signal(pick([first, ...others]), "SIGKILL");
}

const hits = {
  async csimux() {
    counted("killed csimux");
    signal(rig.world.daemon.pid, "SIGKILL");
    await rig.world.daemon.stop();
    await rig.world.restart();
  },
  async end() {
    counted("ended csimux by SIGTERM");
    expect((await rig.world.daemon.stop()).code).toBe(0);
    await rig.world.restart();
  },
  child: async () => killOne("a child", children()),
  async session() {
    const sessions = new Set(rig.hosts.flatMap(({ sshd }) => sshd.sessions()));
    const found = processes().filter(({ pid, name }) => sessions.has(pid) && name.startsWith("sshd"));
    killOne(
      "a connection",
      found.map(({ pid }) => pid),
    );
  },
};
const victims = ["csimux", "csimux", "csimux", "end", "child", "child", "session"] as const;

const listed = async (): Promise<readonly string[]> => {
  const { entries } = await untilDone(() => rig.world.controller("listVolumes", {}));
  return entries.map(({ volume }) => volume?.volumeId ?? "");
};

/** A volume of this name is either absent or whole, and there is one at most. */
async function inspect(name: string, { whole }: CopySource): Promise<readonly string[]> {
  const found = (await listed()).filter(id => id.endsWith(`/${name}`));
  expect(found.length).toBeLessThanOrEqual(1);
  for (const id of found) expect([id, await digest(placeOf(id))]).toEqual([id, whole]);
  return found;
}

/** Cancels the copy, as an operator does; it may have become the volume, or not have begun. */
async function cancelled(name: string, { to }: Route): Promise<void> {
  const socket = commandSocketOf(rig.world.sandbox.socket);
  for (const connection of to === "both" ? ["two", "three"] : [to]) {
    for (let tries = 0; tries < 200; tries++) {
      const request = { command: "cancel", target: `v:${connection}/${name}` } as const;
      const end = await askCopies(socket, request, 20_000, () => {}).catch(() => undefined);
      if (end?.kind === "done") return;
      if (end?.kind === "failed" && ["not-found", "failed-precondition"].includes(end.code)) break;
      await pause(50);
    }
  }
}

/** Deletes a source. A copy that a killed csimux has left protects it, so its deletion is repeated (CSI DeleteVolume, "Volume in use"). */
async function removed({ kind, id }: CopySource): Promise<void> {
  await untilDone(async () => {
    try {
      if (kind === "volume") await rig.world.controller("deleteVolume", { volumeId: id });
      else await rig.world.controller("deleteSnapshot", { snapshotId: id });
    } catch (error) {
      const isProtected = (error as { code?: number }).code === status.failedPrecondition;
      throw isProtected ? Object.assign(new Error(String(error)), { code: status.unavailable }) : error;
    }
  });
}

type Fate = "asked again" | "forgotten" | "cancelled" | "source deleted";
const fates = ["asked again", "asked again", "asked again", "forgotten", "cancelled", "source deleted"] as const;

/** What may come of a copy, and what must not be left of it. */
async function ended(name: string, route: Route, source: CopySource, fate: Fate, copy: ReturnType<typeof asking>) {
  if (fate === "forgotten") copy.forget();
  if (fate === "cancelled") await cancelled(name, route);
  const deletion = fate === "source deleted" ? removed(source) : undefined;
  const outcome = await copy.done;
  await deletion;
  const found = await inspect(name, source);
  counted(`${fate}: ${outcome.kind}${outcome.kind === "refused" ? ` ${outcome.code}` : ""}`);
  if (outcome.kind === "volume") return expect(found).toEqual([outcome.id]);
  if (outcome.kind === "forgotten") return expect(fate).toBe("forgotten");
  expect(found).toEqual([]);
  if (fate === "cancelled") return expect(outcome.details).toContain("was cancelled");
  expect([fate, outcome.code, outcome.details]).toEqual(["source deleted", status.notFound, outcome.details]);
}

test(
  `${count} copies under kills at random snapshots: none is half, none is doubled, and nothing of them is left`,
  async () => {
    process.stderr.write(`CSIMUX_SEED=${seed} CSIMUX_KILLS=${count}\n`);
    const volumes: CopySource[] = [];
    const snapshots: CopySource[] = [];
    for (const connection of ["one", "near"]) {
      const before = await volumeWith("source", connection, "before");
      snapshots.push(await snapshotWith(before));
      volumes.push(await volumeWith("source", connection, "afterwards"));
    }
    const sourceOf = (all: readonly CopySource[], { from }: Route) => all[from === "one" ? 0 : 1] as CopySource;
    const spans = new Map<Route, number>();
    for (const route of routes) {
      for (const { fake } of rig.hosts) fake.faults({ sendMs: 200 });
      const began = performance.now();
      const outcome = await asking("calm", route, sourceOf(volumes, route)).done;
      spans.set(route, performance.now() - began);
      expect(outcome.kind).toBe("volume");
      for (const id of await inspect("calm", sourceOf(volumes, route)))
        await removed({ kind: "volume", id, whole: "" });
    }
    expect(await rig.world.daemon.log()).toMatch(/\(rsync\).*\(zfs-send-local\).*\(zfs-send\)/s);
    for (let at = 0; at < count; at++) {
      const [route, fate, name] = [pick(routes as [Route, ...Route[]]), pick(fates), `copy-${at}`];
      const isOwn = fate === "source deleted";
      const volume = isOwn ? await volumeWith(`gone-${at}`, route.from, `gone ${at}`) : sourceOf(volumes, route);
      const isSnapshot = random(2) === 0;
      const taken = isOwn ? () => snapshotWith(volume) : async () => sourceOf(snapshots, route);
      const source = isSnapshot ? await taken() : volume;
      for (const { fake } of rig.hosts) {
        fake.faults({ sendMs: random(400) });
        // Each command also writes the list of the earlier ones, which would take longer each time.
        fake.commands();
      }
      const began = performance.now();
      const copy = asking(name, route, source);
      for (let kills = random(4) === 0 ? 2 : 1; kills > 0; kills--) {
        const snapshot = pause(random(1.1 * (spans.get(route) ?? 1_000))).then(() => true);
        const isInTime = await Promise.race([snapshot, copy.done.then(() => false)]);
        counted(isInTime ? "hit in the middle" : "hit after the end");
        await hits[pick(victims)]();
        await inspect(name, source);
      }
      await ended(name, route, source, fate, copy);
      counted(route.method);
      // On a machine that was busy before, the snapshots would come after the end.
      spans.set(route, Math.min(spans.get(route) ?? limitMs, performance.now() - began));
      if (random(3) > 0) for (const id of await inspect(name, source)) await removed({ kind: "volume", id, whole: "" });
    }
    for (const { fake } of rig.hosts) fake.faults({ sendMs: undefined });
    await rig.daysLater();
    const end = performance.now() + limitMs;
    while ((await rig.left()).length > 0 && performance.now() < end) await pause(100);
    expect(await rig.left()).toEqual([]);
    for (const each of snapshots) await removed(each);
    const { entries } = await untilDone(() => rig.world.controller("listSnapshots", {}));
    for (const { snapshot } of entries) await removed({ kind: "snapshot", id: snapshot?.snapshotId ?? "", whole: "" });
    for (const id of await listed()) await removed({ kind: "volume", id, whole: "" });
    expect((await Promise.all(["one", "two", "three"].map(name => rig.world.stored(name)))).flat()).toEqual([]);
    const datasets = rig.hosts.flatMap(({ fake }) => fake.with(pools => pools.all().map(({ name }) => name)));
    expect(datasets.filter(name => /\/v\/|@/.test(name))).toEqual([]);
    await rig.world.daemon.stop();
    for (let tries = 0; tries < 100 && (await rig.strays(0)).length > 0; tries++) await pause(50);
    expect(await rig.strays(0)).toEqual([]);
    process.stderr.write(`${JSON.stringify(tally)}\n`);
  },
  120_000 + count * 60_000,
);

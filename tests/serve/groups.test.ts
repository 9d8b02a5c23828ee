import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { askStatus, statusSocketOf } from "../../lib/observe/status-socket.ts";
import { build } from "../../scripts/build.ts";
import { startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox } from "../../scripts/sandbox.ts";
import { pause } from "../waiting.ts";
import { codeOf, mebibytes, status, World } from "./world.ts";

const names = ["a", "b", "c", "d"] as const;
let world: World;
beforeAll(async () => {
  const sandbox = await makeSandbox("zone", names);
  const { config, connections } = sandbox;
  const groups = [
    "  groups:",
    "    all:",
    "      members: [a, b, c, d]",
    "      policy: spread",
    "    fast:",
    '      selector: "tier=fast"',
    "",
  ];
  await writeFile(config, (await readFile(config, "utf8")) + groups.join("\n"));
  for (const [i, name] of names.entries()) {
    const file = join(connections, `${name}.yaml`);
    const text = (await readFile(file, "utf8")).replace("zone: zone-1", `zone: zone-${i < 2 ? 1 : 2}`);
    await writeFile(
      file,
      text.replace("  perDriver:", `  perDriver:\n    labels: { tier: ${name === "c" ? "fast" : "slow"} }`),
    );
  }
  const flags = ["--health-interval=0.5"];
  world = await World.on(sandbox, async () => startDaemon({ command: [await build()], sandbox, flags }));
});
afterAll(async () => {
  expect(await world.end()).toEqual([]);
});

const zone = (value: string) => ({ segments: { "org.democratic-csi.topology/zone": value } });
const seen = () => askStatus(statusSocketOf(world.sandbox.socket), 5_000);
const stored = async () => {
  const lists = await Promise.all(names.map(name => readdir(join(world.base(name), "v")).catch(() => [])));
  return lists.flat().sort();
};
const clear = async () => {
  const { entries } = await world.controller("listVolumes", {});
  await Promise.all(entries.map(entry => world.controller("deleteVolume", { volumeId: entry.volume?.volumeId ?? "" })));
  for (const name of names) expect(await world.stored(name)).toEqual([]);
};

test("a volume of a group lands where it can be reached, and says where that is", async () => {
  const accessibilityRequirements = { requisite: [zone("zone-2")], preferred: [zone("zone-2")] };
  for (let i = 0; i < 10; i++) {
    const { volume } = await world.create(`pvc-${i}`, "all", { accessibilityRequirements });
    expect(volume?.volumeId).toMatch(/^v:[cd]\//);
    expect(volume?.accessibleTopology).toMatchObject([zone("zone-2")]);
  }
  const nowhere = { requisite: [zone("zone-9")], preferred: [] };
  expect(await codeOf(world.create("pvc-x", "all", { accessibilityRequirements: nowhere }))).toBe(
    status.resourceExhausted,
  );
  expect((await world.create("pvc-fast", "fast")).volume?.volumeId).toBe("v:c/pvc-fast");
  await clear();
});

test("capacity is reported by segment: nothing where the storage cannot be reached", async () => {
  const capacity = async (connection: string, value: string) =>
    (await world.controller("getCapacity", { parameters: { connection }, accessibleTopology: zone(value) }))
      .availableCapacity;
  expect(await capacity("a", "zone-1")).toBeGreaterThan(0n);
  expect(await capacity("a", "zone-2")).toBe(0n);
  expect(await capacity("all", "zone-2")).toBeGreaterThan(0n);
  expect(await capacity("all", "zone-9")).toBe(0n);
});

test("a suspended member gets no new volumes, and keeps its old ones", async () => {
  const file = join(world.sandbox.connections, "c.yaml");
  const text = await readFile(file, "utf8");
  await world.create("pvc-old", "fast");
  await writeFile(file, `${text}suspended: true\n`);
  expect(await codeOf(world.create("pvc-new", "fast"))).toBe(status.resourceExhausted);
  expect((await world.create("pvc-old", "fast")).volume?.volumeId).toBe("v:c/pvc-old");
  await world.controller("deleteVolume", { volumeId: "v:c/pvc-old" });
  await writeFile(file, text);
  await clear();
});

test("a group that is added or changed while csimux runs counts a second later", async () => {
  const { config } = world.sandbox;
  const text = await readFile(config, "utf8");
  const configured = async (member: string): Promise<void> => {
    await writeFile(config, `${text}    late: { members: [${member}] }\n`);
    // The main file is read once a second.
    const members = async () => (await seen()).groups.find(({ name }) => name === "late")?.members;
    for (const end = Date.now() + 30_000; !Bun.deepEquals(await members(), [member]); await pause(20))
      if (Date.now() > end) throw new Error("the group is not as in the main file");
  };
  await configured("b");
  expect((await world.create("pvc-late-1", "late")).volume?.volumeId).toBe("v:b/pvc-late-1");
  await configured("d");
  expect((await world.create("pvc-late-2", "late")).volume?.volumeId).toBe("v:d/pvc-late-2");
  await writeFile(config, text);
  await clear();
});

test("a file that cannot be used stops no group; one whose selector it meets, or may meet, says that it was skipped", async () => {
  const file = join(world.sandbox.connections, "other.yaml");
  const labelled = (tier: string) => `driver: zfs-generic-nfs\nproxy: { perDriver: { labels: { tier: ${tier} } } }\n`;
  const skipped = async (name: string) => {
    const { volume } = await world.create(name, "fast");
    expect(volume?.volumeId).toBe(`v:c/${name}`);
    return volume?.volumeContext["skipped"];
  };
  for (const [what, text, by] of [
    ["not-met", labelled("slow"), undefined],
    ["met", labelled("fast"), "other"],
    ["unknown", "driver: [\n", "other"],
  ] as const) {
    await writeFile(file, text);
    expect(await skipped(`pvc-${what}`)).toBe(by);
  }
  await rm(file);
  await clear();
});

test("500 creates, interrupted by lost clients and SIGKILL, end as 500 volumes", async () => {
  const all = Array.from({ length: 500 }, (_, i) => `pvc-${i}`);
  let stop = false;
  let made = 0;
  const disturb = async () => {
    // Not without end: on a slow machine every creation would meet a disturbance, forever.
    for (let round = 0; !stop && round < 8; round++) {
      for (const before = made; !stop && made < before + 40; ) await pause(5);
      process.kill(world.daemon.pid, "SIGKILL");
      await world.daemon.stop();
      await world.restart();
    }
  };
  const pending: readonly (number | "ok")[] = [1, status.deadlineExceeded, status.aborted, status.unavailable];
  const make = async (name: string, i: number) => {
    for (let attempt = 0; ; attempt++) {
      const patience = (i + attempt) % 3 === 0 ? 4 : 5_000;
      const code = await codeOf(world.create(name, "all", { capacityRange: mebibytes(1) }, patience));
      if (code === "ok") {
        made++;
        return;
      }
      // undefined: the channel of the killed process was closed under the call.
      if (code !== undefined) expect(pending).toContain(code);
      await pause(5);
    }
  };
  const disturbing = disturb();
  for (let from = 0; from < all.length; from += 50)
    await Promise.all(all.slice(from, from + 50).map((name, i) => make(name, i)));
  stop = true;
  await disturbing;
  expect(await stored()).toEqual([...all].sort());
  expect((await world.controller("listVolumes", {})).entries).toHaveLength(500);
  await clear();
}, 180_000);

test("200 claims while a member is dead are all made, and its return leaves nothing doubled unmentioned", async () => {
  const doubled = async () => {
    const { health } = await seen();
    return health.filter(({ reason }) => reason === "VolumeDoubled").map(({ volume }) => volume ?? "");
  };
  const until = async (count: number) => {
    const end = Date.now() + 30_000;
    for (;;) {
      // A new process serves calls before it serves its status.
      const found = await doubled().catch(() => undefined);
      if (found?.length === count || Date.now() > end) return found?.sort();
      await pause(50);
    }
  };
  // The answers to the first calls are lost, and Kubernetes repeats them after the member has died.
  const lost = Array.from({ length: 5 }, (_, i) => `pvc-lost-${i}`);
  for (const name of lost) await world.create(name, "d");
  const base = world.base("d");
  await rename(base, `${base}.away`);
  const began = performance.now();
  const made = await Promise.all(
    Array.from({ length: 200 }, async (_, i) => {
      const requisite = i < 5 ? [zone("zone-1"), zone("zone-2")] : [zone(i % 2 ? "zone-1" : "zone-2")];
      const { volume } = await world.create(lost[i] ?? `pvc-${i}`, "all", {
        accessibilityRequirements: { requisite, preferred: requisite },
      });
      return volume;
    }),
  );
  expect(performance.now() - began).toBeLessThan(30_000);
  for (const volume of made) {
    expect(volume?.volumeId).toMatch(/^v:[abc]\//);
    expect(volume?.volumeContext["skipped"]).toBe("d");
  }
  await rename(`${base}.away`, base);
  const twins = lost.flatMap((name, i) => [`v:d/${name}`, made[i]?.volumeId ?? ""]).sort();
  expect(await until(10)).toEqual(twins);
  await clear();
  expect(await until(0)).toEqual([]);
}, 180_000);

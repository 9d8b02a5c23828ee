import { afterAll, beforeAll, expect, test } from "bun:test";
import { setTimeout as pause } from "node:timers/promises";
import type { World } from "../../serve/world.ts";
import {
  guestPoolBelow,
  guestShell,
  guestTraces,
  inGuest,
  leftInGuest,
  making,
  numbered,
  removing,
  sshLines,
} from "../beside.ts";
import { startCsimux } from "../rig.ts";
import { waitFor } from "../run.ts";
import { nfsFile } from "./zfs-drivers.ts";

const limitMs = 1_500_000;
const parent = "tank/reboot/v";

let before: ReadonlySet<string>;
let world: World;

beforeAll(async () => {
  before = await guestTraces();
  // Files copied to the guest survive the loss of power.
  await inGuest(["sync"]);
  const ssh = await sshLines(["  keepaliveInterval: 5000", "  keepaliveCountMax: 3"]);
  world = await startCsimux({ connections: { nas: nfsFile("tank/reboot", ssh) } });
}, limitMs);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  await guestShell("zfs destroy -r tank/reboot 2>/dev/null || :");
  expect(await leftInGuest(before)).toEqual([]);
}, limitMs);

const bootId = (): Promise<string> => inGuest(["cat", "/proc/sys/kernel/random/boot_id"], 15_000);

/** Cuts the guest's power and restarts it. Resolves when ssh answers. */
async function powerCycle(): Promise<void> {
  const boot = await bootId();
  await inGuest(["sh", "-c", "echo b >/proc/sysrq-trigger"], 60_000).catch(() => {});
  await waitFor(
    "the guest after its reboot",
    async () => {
      const now = await bootId().catch(() => boot);
      if (now === boot) await pause(1000);
      return now === boot ? undefined : true;
    },
    limitMs,
  );
}

/** Creates a volume. A dataset without properties, left by the loss of power, is removed as the error message says, and created again. */
async function makingAfterLoss(name: string): Promise<unknown> {
  try {
    return await making(world, "nas", name);
  } catch (error) {
    if (!String(error).includes("has no mark")) throw error;
    await guestShell(`zfs destroy ${parent}/${name}`);
    return await making(world, "nas", name);
  }
}

test(
  "a storage host that loses power while volumes are created has exactly those volumes after its restart",
  async () => {
    const names = numbered("made", 6);
    await making(world, "nas", "first");
    const work = Promise.all(names.map(makingAfterLoss));
    await waitFor("the first of them", async () => ((await guestPoolBelow(parent)).length > 1 ? true : undefined));
    await powerCycle();
    await work;
    const all = ["first", ...names];
    expect(await guestPoolBelow(parent)).toEqual(all.map(name => `/${name}`).sort());
    const told = await guestShell(
      `zfs get -H -o value democratic-csi:provision_success ${all.map(name => `${parent}/${name}`).join(" ")}`,
    );
    expect(told.trim().split("\n")).toEqual(all.map(() => "true"));
    const exported = await guestShell(`grep -c '^/${parent}/' /var/lib/nfs/etab || :`);
    expect(Number(exported)).toBe(all.length);
    await Promise.all(all.map(name => removing(world, "nas", name)));
    expect(await guestPoolBelow(parent)).toEqual([]);
  },
  limitMs,
);

test(
  "a full copy continues after the host lost power, and is complete",
  async () => {
    const { volumeId } = await making(world, "nas", "large", { size: 1024 });
    const files = ["one", "two", "three", "four"].map(name => `/${parent}/large/${name}`);
    await guestShell(
      `for file; do openssl rand -out "$file" 67108864 2>/dev/null || dd if=/dev/urandom of="$file" bs=1M count=64 2>/dev/null; done; sync`,
      ...files,
    );
    const sums = (name: string) => guestShell(`cd /${parent}/${name} && sha256sum one two three four`);
    const wanted = await sums("large");
    const more = {
      size: 1024,
      parameters: { connection: "nas", detachedVolumesFromVolumes: "true" },
      volumeContentSource: { type: { case: "volume" as const, value: { volumeId } } },
    };
    const copying = making(world, "nas", "copy", more);
    const begun = async () => (await guestPoolBelow(parent)).find(name => name.includes("csimux-")) && true;
    await waitFor("the beginning of the copy", begun, limitMs);
    await pause(1000);
    await inGuest(["sync"]);
    const seen = await guestPoolBelow(parent);
    await powerCycle();
    process.stderr.write(
      `when the power went: ${seen.join(" ")}; after it: ${(await guestPoolBelow(parent)).join(" ")}\n`,
    );
    await copying;
    expect(await sums("copy")).toBe(wanted);
    expect(await guestPoolBelow(parent)).toEqual(["/copy", "/large"]);
    for (const name of ["large", "copy"]) await removing(world, "nas", name);
  },
  limitMs,
);

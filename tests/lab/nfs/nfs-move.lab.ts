import { afterAll, beforeAll, expect, test } from "bun:test";
import { appendFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { mebibytes, type World } from "../../serve/world.ts";
import { persistently } from "../persistently.ts";
import { executable, startCsimux } from "../rig.ts";
import { run, waitFor } from "../run.ts";
import { leftSince, traces } from "../traces.ts";

// A pod's mount and the one from which csimux copies use different versions of NFS, so the kernel has a client with its own cache for each.

/** Each pass takes 80 s longer if its first write takes two seconds (lib/copies/lease.ts, slowClaimDelay), as on a busy machine. */
const limitMs = 1_200_000;

/**
 * By default, a client relies on the attributes of a file for 3 to 60 s (nfs(5)). Ten minutes make the loss independent of the machine's speed;
 * `nosharecache` keeps what one mount knows from another one with the same options.
 */
const remembering = "acregmin=600,acregmax=600,nosharecache";

const versions = ["3", "4.2"] as const;
const nameOf = (version: string): string => `v${version.replace(".", "")}`;

let before: ReadonlySet<string>;
let base: string;
let world: World;

const connection = (path: string, flags: string): string =>
  [
    ...["driver: nfs-client", "nfs:", "  shareHost: 127.0.0.1", `  shareBasePath: ${path}`],
    ...["  controllerBasePath: /nowhere/mounted", "node:", "  mount:", `    mount_flags: ${flags}`, ""],
  ].join("\n");

beforeAll(async () => {
  before = await traces();
  base = await mkdtemp("/srv/move-");
  for (const name of [...versions.map(nameOf), "target"]) {
    await mkdir(join(base, name));
    await run(["exportfs", "-o", "rw,no_root_squash,insecure", `127.0.0.1:${base}/${name}`]);
  }
  const sources = versions.map(version => [
    nameOf(version),
    connection(join(base, nameOf(version)), `vers=${version},${remembering}`),
  ]);
  const target = connection(join(base, "target"), "vers=4.2");
  world = await startCsimux({ connections: { ...Object.fromEntries(sources), target } });
}, limitMs);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  for (const name of [...versions.map(nameOf), "target"]) await run(["exportfs", "-u", `127.0.0.1:${base}/${name}`]);
  await rm(base, { recursive: true });
  expect(await leftSince(before)).toEqual([]);
}, limitMs);

/** Runs `csimux copies`; `input` is what it reads. Returns what it printed. */
const copies = (words: readonly string[], input = "") =>
  run(
    [
      ...(["sh", "-c", 'text=$1; shift; printf %s "$text" | "$@"', "sh", input, executable, "copies"] as const),
      ...[...words, "--endpoint", `unix://${world.sandbox.socket}`],
    ],
    limitMs,
  );

/** csimux's own mounts of an export, with their options. */
async function mountsOf(path: string): Promise<readonly string[]> {
  const lines = (await readFile("/proc/self/mountinfo", "utf8")).split("\n");
  return lines.filter(line => line.includes(`:${path} `) && line.includes(world.sandbox.stateDir));
}

test.each(versions)(
  "what a pod wrote just before its stop is in the volume that a move makes from NFS %s, and not in a copy from a usual mount",
  async version => {
    const from = nameOf(version);
    const { volume } = await persistently(() => world.create("pvc", from, {}, 120_000));
    if (!volume) throw new Error("no volume");
    const [pod, usual, control] = [join(base, "pod"), join(base, "usual"), join(base, "control")];
    for (const folder of [pod, usual, control]) await mkdir(folder);
    const mount = (options: string, path: string, at: string) =>
      run(["mount", "-t", "nfs", "-o", options, `127.0.0.1:${path}`, at]);
    const otherVersion = version === "3" ? "4.2" : "3,nolock";
    await mount(`vers=${otherVersion},nosharecache`, join(base, from, "v/pvc"), pod);
    await mount(`vers=${version},${remembering}`, join(base, from), usual);
    const copyUsually = () => run(["rsync", "-a", "--checksum", `${usual}/v/pvc/`, `${control}/`], limitMs);
    const target = `v:target/moved-${from}`;
    try {
      await writeFile(join(pod, "log"), "line 1\n");
      await run(["sync", "-f", pod]);
      const wanted = {
        ...{ source: volume.volumeId, name: `moved-${from}`, bytes: String(mebibytes(1).requiredBytes) },
        parameters: { connection: "target" },
      };
      await copies(["begin"], JSON.stringify(wanted));
      for (const _ of [1, 2]) {
        await copies(["pass", target]);
        await copyUsually();
      }
      await appendFile(join(pod, "log"), "line 2\n");
      await run(["sync", "-f", pod]);
      await run(["umount", pod]);
      // A folder stays writable, which the command says.
      const frozen = await copies(["freeze", volume.volumeId, "-o", "json"]);
      expect(frozen).toContain("it is noted that only a pass from now on may become the new volume");
      const round = copies(["pass", target]);
      const findApart = async () =>
        (await mountsOf(join(base, from))).find(line => line.includes("acregmin=0,acregmax=0"));
      const apart = await waitFor("the mount for the copy", findApart, limitMs / 4);
      await round;
      await copyUsually();
      await copies(["finish", target]);
      expect(apart).toContain(`vers=${version},`);
      const texts = [join(base, from, "v/pvc/log"), join(base, `target/v/moved-${from}/log`), join(control, "log")];
      expect(await Promise.all(texts.map(path => readFile(path, "utf8")))).toEqual([
        "line 1\nline 2\n",
        "line 1\nline 2\n",
        "line 1\n",
      ]);
    } finally {
      await run(["umount", usual]);
      await run(["umount", "-q", pod]).catch(() => {});
      for (const folder of [pod, usual, control]) await rm(folder, { recursive: true });
    }
    for (const volumeId of [target, volume.volumeId])
      await persistently(() => world.controller("deleteVolume", { volumeId }, 120_000));
  },
  limitMs,
);

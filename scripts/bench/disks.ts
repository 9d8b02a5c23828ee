import { chmod, mkdir, rm, rmdir, symlink, truncate, writeFile } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { spawned } from "../spawned.ts";
import { withBareServer } from "./bare.ts";
import { median } from "./load.ts";
import { inSetting, type Scale } from "./setting.ts";
import type { Figure } from "./table.ts";
import { cycle, makeVolumes, noSteps, type Staged } from "./volumes.ts";

type Argv = readonly [string, ...string[]];

async function run(...argv: Argv): Promise<string> {
  const { code, stdout, stderr } = await spawned(argv, { cwd: "/" });
  if (code !== 0) throw new Error(`${argv.join(" ")}: ${stderr}`);
  return stdout.trim();
}

const imageBytes = 256 << 20;

/** A loop device while `work` uses it, under a name at which a local zvol would be found. */
async function withDisk<T>(folder: string, name: string, work: (disk: string) => Promise<T>): Promise<T> {
  const image = join(folder, name.replaceAll("/", "-"));
  await writeFile(image, "");
  await truncate(image, imageBytes);
  const disk = await run("losetup", "-f", "--show", image);
  const link = join("/dev/zvol", name);
  try {
    await mkdir(dirname(link), { recursive: true });
    await symlink(disk, link);
    return await work(disk);
  } finally {
    await rm(dirname(link), { recursive: true, force: true });
    await rmdir("/dev/zvol").catch(() => {});
    await run("losetup", "-d", disk);
  }
}

/** A `zfs` that knows volumes alone, so that a loop device can stand for one where there is no ZFS; answers its path. */
async function fakeZfs(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  const program = join(folder, "zfs");
  await writeFile(program, "#!/bin/sh\nprintf 'volume\\n1\\n-\\n'\n");
  await chmod(program, 0o755);
  return program;
}

/** A disk and the program that finds it. */
interface Found {
  readonly disk: string;
  readonly zfs: string;
}

/**
 * What a node does at least for one volume: a mount, shown at a second place, and both undone; a disk is found, looked at and
 * grown.
 */
async function bareCycle(folder: string, mount: readonly string[], found?: Found): Promise<void> {
  const [staging, target] = [join(folder, "staging"), join(folder, "target")];
  for (const each of [staging, target]) await mkdir(each, { recursive: true });
  if (found) await run(found.zfs, "get", "type,guid,mountpoint");
  if (found) await run("blkid", "-p", found.disk);
  await run("mount", ...mount, staging);
  if (found) await run("resize2fs", found.disk);
  await run("mount", "--bind", staging, target);
  await run("umount", target);
  await run("umount", staging);
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}

/** All in turns, so that what else the machine does falls on all of them; their medians in milliseconds. */
async function inTurns<T extends string>(
  count: number,
  works: Readonly<Record<T, () => Promise<unknown>>>,
): Promise<Readonly<Record<T, number>>> {
  const names = Object.keys(works) as T[];
  const times = new Map<T, number[]>(names.map(name => [name, []]));
  for (let round = 0; round < count; round++) for (const [name, all] of times) all.push(await timed(works[name]));
  return Object.fromEntries(names.map(name => [name, median(times.get(name) ?? [])])) as Record<T, number>;
}

const wanted = 1.3;

const figures = (what: string, { own, bare }: { readonly own: number; readonly bare: number }): readonly Figure[] => [
  { what: `${what} (peer: the bare commands)`, value: own, unit: "ms", peer: bare },
  { what: "  so many times the bare commands", value: own / bare, unit: "x", target: wanted },
];

/** Node cycles beside the commands that a person would type for the same: of a folder, and of a disk with ext4. */
export const besideBare = async (executable: string, scale: Scale, folder: string): Promise<readonly Figure[]> => {
  if (process.getuid?.() !== 0) {
    process.stderr.write("beside bare commands: left out, because mounts and loop devices need root\n");
    return [];
  }
  const name = `csimux-bench-${process.pid}/disk`;
  const zfs = await fakeZfs(join(folder, "zfs"));
  const PATH = `${dirname(zfs)}${delimiter}${process.env["PATH"] ?? ""}`;
  return await withDisk(folder, name, disk =>
    inSetting({ executable, env: { PATH } }, async setting => {
      const [first] = await makeVolumes(setting.client, 1);
      if (!first) throw new Error("no volume");
      const bare = join(folder, "typed");
      const source = first.context["path"] ?? "";
      const once = (volume: Staged) => cycle(setting, volume, noSteps());
      await once(first);
      const hostpath = await withBareServer(folder, async client => {
        const served = { client, sandbox: { folder: join(folder, "served") } };
        return await inTurns(scale.cycles, {
          own: () => once(first),
          bare: () => bareCycle(bare, ["--bind", source]),
          served: () => cycle(served, first, noSteps()),
        });
      });
      const context = { node_attach_driver: "zfs-local", zfs_asset_name: name };
      const volume: Staged = { id: "v:one/disk", context };
      const made = await timed(() => once(volume));
      const typed = () => bareCycle(bare, ["-t", "ext4", disk], { disk, zfs });
      const ext4 = await inTurns(scale.cycles, { own: () => once(volume), bare: typed });
      const mkfs = await timed(() => run("mkfs.ext4", "-q", "-F", "-m", "0", disk).then(typed));
      return [
        ...figures("node cycle of a folder", hostpath),
        { what: "  by a server that starts these programs and does nothing else", value: hostpath.served, unit: "ms" },
        ...figures("node cycle of ext4 on a loop device", ext4),
        ...figures("  the first, which makes the file system", { own: made, bare: mkfs }),
      ];
    }),
  );
};

import { chmod, mkdir, rm, rmdir, symlink, truncate, writeFile } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { spawned } from "../spawned.ts";
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

/** A `zfs` that knows volumes alone, so that a loop device can stand for one where there is no ZFS. */
async function fakeZfs(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "zfs"), "#!/bin/sh\nprintf 'volume\\n1\\n-\\n'\n");
  await chmod(join(folder, "zfs"), 0o755);
  return `${folder}${delimiter}${process.env["PATH"] ?? ""}`;
}

/** What a node does at least for one volume: a mount, shown at a second place, and both undone; a disk is looked at and grown. */
async function bareCycle(folder: string, mount: readonly string[], disk?: string): Promise<void> {
  const [staging, target] = [join(folder, "staging"), join(folder, "target")];
  for (const each of [staging, target]) await mkdir(each, { recursive: true });
  if (disk) await run("blkid", "-p", disk);
  await run("mount", ...mount, staging);
  if (disk) await run("resize2fs", disk);
  await run("mount", "--bind", staging, target);
  await run("umount", target);
  await run("umount", staging);
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}

/** Both in turns, so that what else the machine does falls on both. */
async function inTurns(count: number, own: () => Promise<unknown>, bare: () => Promise<unknown>) {
  const times: { own: number[]; bare: number[] } = { own: [], bare: [] };
  for (let round = 0; round < count; round++) {
    times.own.push(await timed(own));
    times.bare.push(await timed(bare));
  }
  return { own: median(times.own), bare: median(times.bare) };
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
  const PATH = await fakeZfs(join(folder, "zfs"));
  return await withDisk(folder, name, disk =>
    inSetting({ executable, env: { PATH } }, async setting => {
      const [first] = await makeVolumes(setting.client, 1);
      if (!first) throw new Error("no volume");
      const bare = join(folder, "bare");
      const source = first.context["path"] ?? "";
      const once = (volume: Staged) => cycle(setting, volume, noSteps());
      await once(first);
      const hostpath = await inTurns(
        scale.cycles,
        () => once(first),
        () => bareCycle(bare, ["--bind", source]),
      );
      const context = { node_attach_driver: "zfs-local", zfs_asset_name: name };
      const volume: Staged = { id: "v:one/disk", context };
      const made = await timed(() => once(volume));
      const typed = () => bareCycle(bare, ["-t", "ext4", disk], disk);
      const ext4 = await inTurns(scale.cycles, () => once(volume), typed);
      const mkfs = await timed(() => run("mkfs.ext4", "-q", "-F", "-m", "0", disk).then(typed));
      return [
        ...figures("node cycle of a folder", hostpath),
        ...figures("node cycle of ext4 on a loop device", ext4),
        ...figures("  the first, which makes the file system", { own: made, bare: mkfs }),
      ];
    }),
  );
};

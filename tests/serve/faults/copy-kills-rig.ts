import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, readlink, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compileTo } from "../../../scripts/build.ts";
import { startDaemon } from "../../../scripts/daemon.ts";
import { makeSandbox, type Sandbox } from "../../../scripts/sandbox.ts";
import { type FakeZfs, fakeZfs } from "../../fakes/zfs/pools.ts";
import { type Sshd, startSshd } from "../../io/ssh/sshd.ts";
import { World } from "../world.ts";

/** Four days: longer than a copy is kept that is not asked for. */
const aheadMs = 4 * 86_400_000;

/** A method from one connection to another, and how long its copies take, in milliseconds. */
export interface Route {
  readonly from: string;
  /** A connection, or a group. */
  readonly to: string;
  readonly method: string;
}

/** The directories, one host with ZFS, and two of them. */
export const routes: readonly Route[] = [
  { from: "one", to: "both", method: "rsync" },
  { from: "near", to: "far", method: "zfs-send-local" },
  { from: "near", to: "away", method: "zfs-send" },
];

/** csimux with short times on directories and two hosts with ZFS. */
export interface CopyKills {
  readonly world: World;
  readonly hosts: readonly { readonly fake: FakeZfs; readonly sshd: Sshd }[];
  /** Starts csimux again, from now on with a clock that is days ahead. */
  daysLater(): Promise<void>;
  /** What copies have left anywhere, in words. */
  left(): Promise<readonly string[]>;
  /** The processes of csimux and of what it has started on this machine, except those of `pid`. */
  strays(pid: number): Promise<readonly string[]>;
  /** Ends everything; answers what was left mounted. */
  end(): Promise<readonly string[]>;
}

const zfsFile = ({ port, hostKey, clientKey }: Sshd, parent: string): string =>
  [
    "driver: zfs-generic-nfs",
    "sshConnection:",
    "  host: 127.0.0.1",
    `  port: ${port}`,
    "  username: root",
    `  privateKey: ${JSON.stringify(clientKey)}`,
    `  hostKey: ${hostKey}`,
    "zfs:",
    `  datasetParentName: tank/${parent}/v`,
    `  detachedSnapshotsDatasetParentName: tank/${parent}/s`,
    "nfs:",
    "  shareHost: nas.example.org",
    "  shareStrategy: setDatasetProperties",
    "  shareStrategySetDatasetProperties: { properties: { sharenfs: rw } }",
    "",
  ].join("\n");

const mainFile = (sandbox: Sandbox): string =>
  [
    ...["driver: proxy", "proxy:", `  configFolder: ${sandbox.connections}`],
    ...["  copies: { atOnce: 8, perMachine: 8 }"],
    ...["  groups: { both: { members: [two, three], policy: ordered } }", ""],
  ].join("\n");

export async function copyKills(): Promise<CopyKills> {
  const built = await mkdtemp(join(tmpdir(), "csimux-hurried-"));
  const executable = await compileTo(join(built, "csimux"), "tests/serve/faults/hurried.ts");
  const hosts = await Promise.all(
    [0, 1].map(async () => {
      const fake = await fakeZfs();
      return { fake, sshd: await startSshd({ env: { PATH: `${fake.bin}:/usr/bin:/bin` } }) };
    }),
  );
  const [a, b] = hosts;
  if (!a || !b) throw new Error("two hosts");
  // Guids of two machines differ.
  b.fake.with(pools => {
    pools.state.next = 500_000;
  });
  const sandbox = await makeSandbox("off", ["one", "two", "three"]);
  await writeFile(sandbox.config, mainFile(sandbox));
  const files = { near: zfsFile(a.sshd, "near"), far: zfsFile(a.sshd, "far"), away: zfsFile(b.sshd, "away") };
  for (const [name, text] of Object.entries(files)) await writeFile(join(sandbox.connections, `${name}.yaml`), text);
  let ahead = 0;
  const env = () => ({ HURRIED_AHEAD_MS: String(ahead) });
  const world = await World.on(sandbox, () => startDaemon({ command: [executable], sandbox, env: env() }));
  const ports = hosts.map(({ sshd }) => `-p ${sshd.port}`);
  return {
    world,
    hosts,
    async daysLater() {
      ahead = aheadMs;
      await world.daemon.stop();
      await world.restart();
    },
    async left() {
      const folders = await Promise.all(["one", "two", "three"].map(name => leftInFolder(world.base(name), name)));
      return [...folders.flat(), ...hosts.flatMap(({ fake }) => leftInPool(fake))];
    },
    strays: pid => strays([executable, sandbox.folder, ...ports], pid),
    async end() {
      const mounts = await world.end();
      await Promise.all(hosts.map(({ sshd }) => sshd.stop()));
      await Promise.all(hosts.map(({ fake }) => fake.close()));
      await rm(built, { recursive: true, force: true });
      return mounts;
    },
  };
}

async function leftInFolder(base: string, name: string): Promise<readonly string[]> {
  const parts = ["copies", "snapshots", "work"].map(async part => {
    const names = await readdir(join(base, ".csimux", part)).catch(() => []);
    return names.map(each => `${name}: ${part}/${each}`);
  });
  return (await Promise.all(parts)).flat();
}

const leftInPool = (fake: FakeZfs): readonly string[] =>
  fake.with(pools =>
    pools
      .all()
      .flatMap(({ name, own, holds = [], token }) => [
        ...(name.includes("csimux-") ? [name] : []),
        ...holds.map(tag => `${name} is held by ${tag}`),
        ...(token === undefined ? [] : [`${name} has a token`]),
        ...Object.keys(own).flatMap(key =>
          /^csimux:(copy-[a-z2-7]{16}|copy|landing)$/.test(key) ? [`${name} ${key}`] : [],
        ),
      ]),
  );

/** The processes of this machine whose command lines have one of these words. */
async function strays(words: readonly string[], pid: number): Promise<readonly string[]> {
  const all = (await readdir("/proc")).filter(name => /^\d+$/.test(name) && Number(name) !== pid);
  const lines = all.map(async each => {
    const text = await readFile(`/proc/${each}/cmdline`, "utf8").catch(() => "");
    const program = await readlink(`/proc/${each}/exe`).catch(() => "");
    const line = text.replaceAll("\0", " ");
    return !/sshd/.test(program) && words.some(word => line.includes(word)) ? [`${each} ${line}`] : [];
  });
  return (await Promise.all(lines)).flat();
}

/** Fills a folder with files whose content follows from a text. */
export async function fillFolder(folder: string, text: string): Promise<void> {
  for (const name of ["", "folder", "folder/below"]) await mkdir(join(folder, name), { recursive: true });
  for (let at = 0; at < 24; at++) {
    const path = join(folder, ["", "folder", "folder/below"][at % 3] ?? "", `file ${at}`);
    await writeFile(path, `${text} ${at}\n`.repeat(20 + 7 * at));
  }
}

/** The names and content below a folder as one text; what it has is "nothing" if it does not exist. */
export async function digest(folder: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => undefined);
  if (!entries) return "nothing";
  const lines = entries.map(async entry => {
    const path = join(entry.parentPath, entry.name);
    const content = entry.isFile()
      ? createHash("sha256")
          .update(await readFile(path))
          .digest("hex")
      : "folder";
    return `${path.slice(folder.length)} ${content}`;
  });
  return createHash("sha256")
    .update((await Promise.all(lines)).sort().join("\n"))
    .digest("hex");
}

import { afterAll, beforeAll, expect } from "bun:test";
import { readFile } from "node:fs/promises";
import { mebibytes, type World } from "../../serve/world.ts";
import { persistently } from "../persistently.ts";
import { startCsimux } from "../rig.ts";
import { run } from "../run.ts";
import { onSecond, secondAddress, secondTraces } from "../second.ts";
import { datasetTrace, leftSince, traces } from "../traces.ts";
import { type Login, makeLogin } from "./ssh-login.ts";
import { nfsFile, zfsDrivers } from "./zfs-drivers.ts";
import type { From } from "./zfs-pool.ts";

// csimux runs on the first guest; each guest has a pool. Content goes from the first to the second by a stream, and within the first.

/** The time limit of a test, in milliseconds. */
export const limitMs = 2_400_000;
const key = "csimux-zfs-lab";

/** Runs a program on a guest. */
export type Machine = (argv: readonly [string, ...string[]], timeoutMs?: number) => Promise<string>;
/** Runs a shell command on a guest. */
export const shell = (where: Machine, text: string, ...words: readonly string[]): Promise<string> =>
  where(["sh", "-c", text, "sh", ...words], 600_000);

let before: readonly [ReadonlySet<string>, ReadonlySet<string>];
/** csimux on the first guest. */
export let world: World;

/** The files of connections; `login` logs in to both guests. */
type Connections = (login: Login) => Readonly<Record<string, string>>;

/** Three file systems on each guest, one of them encrypted, one small, and a disk on each. */
const usual: Connections = login => {
  const here = login.lines("root");
  const there = login.lines("root", secondAddress);
  const disk = zfsDrivers.find(({ connection }) => connection === "iscsi");
  if (!disk) throw new Error("no driver for iSCSI");
  const diskThere = disk
    .file({ lines: () => there })
    .replaceAll("tank/iscsi", "tank/disks")
    .replace("127.0.0.1:3260", `${secondAddress}:3260`);
  return {
    near: nfsFile("tank/near", here),
    also: nfsFile("tank/also", here),
    secret: nfsFile("tank/secret", here),
    far: nfsFile("tank/far", there),
    locked: nfsFile("tank/locked", there),
    small: nfsFile("tank/small", there),
    disk: disk.file(login),
    disks: diskThere,
  };
};

const encrypted = 'echo passphrase | zfs create -o encryption=on -o keyformat=passphrase "$1"';

/** Destroys the datasets below the pool that were not there before. */
async function destroyNew(where: Machine, known: ReadonlySet<string>): Promise<void> {
  const listed = (await where(["zfs", "list", "-H", "-d", "1", "-o", "name", "tank"])).split("\n");
  for (const name of listed.filter(each => each.includes("/") && !known.has(datasetTrace(each))))
    await where(["zfs", "destroy", "-r", name]);
}

/** csimux for the tests of a file, with its connections and further lines of its main file. Their datasets go in the end. */
export function withCopies(connections = usual, proxy: readonly string[] = []): void {
  let login: Login;
  beforeAll(async () => {
    before = [await traces(), await secondTraces()];
    login = await makeLogin();
    const authorized = (await readFile("/root/.ssh/authorized_keys", "utf8")).split("\n");
    const line = authorized.find(each => each.includes(key)) ?? "";
    await shell(onSecond, 'echo "$1" >>/root/.ssh/authorized_keys', line);
    await shell(run, encrypted, "tank/secret");
    await shell(onSecond, encrypted, "tank/locked");
    await onSecond(["zfs", "create", "-o", "quota=96M", "tank/small"]);
    // The key and the programs outlive a loss of power.
    await onSecond(["sync"]);
    world = await startCsimux({ connections: connections(login), proxy });
  }, limitMs);
  afterAll(async () => {
    expect(await world.end()).toEqual([]);
    await login.remove();
    await onSecond(["sed", "-i", `/${key}/d`, "/root/.ssh/authorized_keys"]);
    await destroyNew(run, before[0]);
    await destroyNew(onSecond, before[1]);
    expect(await leftSince(before[0])).toEqual([]);
    expect(await leftSince(before[1], secondTraces)).toEqual([]);
  }, limitMs);
}

const sourceOf = (from: From) =>
  "snapshot" in from
    ? { type: { case: "snapshot" as const, value: { snapshotId: from.snapshot } } }
    : { type: { case: "volume" as const, value: { volumeId: from.volume } } };

/** Asks once for a volume, by default of 512 MiB. */
export const asking = (connection: string, name: string, from?: From, size = 512) =>
  world.create(
    name,
    connection,
    { capacityRange: mebibytes(size) as never, ...(from && { volumeContentSource: sourceOf(from) }) },
    120_000,
  );

/** Creates a volume and repeats as csi-provisioner does. Returns its id. */
export async function make(connection: string, name: string, from?: From, size?: number): Promise<string> {
  const { volume } = await persistently(() => asking(connection, name, from, size));
  return volume?.volumeId ?? "";
}
/** Deletes a volume and repeats as csi-provisioner does. */
export const remove = (volumeId: string) => persistently(() => world.controller("deleteVolume", { volumeId }, 120_000));

/** Fills a file system with what tends to be lost: holes, links, modes, times, attributes, odd names. */
export const filling = `cd "$1" && dd if=/dev/urandom of=random bs=1M count="$2" 2>/dev/null
truncate -s 40M sparse && printf end >>sparse && mkdir -p a/b && printf 'one' >'a/b/with
line' && ln random a/hard && ln -s ../random a/soft && chmod 04751 a/b && touch -d @1000000000 a && setfattr -n user.k -v v random; sync`;
const listing = `cd "$1" && find . -printf '%P %y %m %U %G %s %l %T@\\0' | sort -z | sha256sum
find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum`;
/** A digest of everything in a file system of a pool. */
export const contentOf = (where: Machine, dataset: string) => shell(where, listing, `/${dataset}`);

/** What copies leave in a pool: their datasets, snapshots and holds. */
const leftOf = `zfs list -H -t all -o name | grep csimux- || :
zfs list -H -t snapshot -o name | xargs -r zfs holds -H | grep csimux || :`;
/** Throws if a copy has left anything in one of the pools. */
export async function nothingLeft(): Promise<void> {
  expect([await shell(run, leftOf), await shell(onSecond, leftOf)]).toEqual(["", ""]);
}

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { hasGoProgram } from "../../scripts/cluster/tools.ts";
import { hasVolsync } from "../../scripts/cluster/volsync.ts";
import { dataOutside, deployCentral, drivers, folderConnection, undeploy } from "./deploy.ts";
import { apply, bound, eventually, inPod, kube, list, remove, running } from "./kube.ts";
import { claim, pod, storageClass } from "./objects.ts";
import { seen } from "./scenes/copying.ts";
import { tidy } from "./scenes/left.ts";
import { nfsClient } from "./scenes/nfs-client.ts";
import { killing } from "./scenes/processes.ts";
import {
  type CopyMethod,
  installVolsync,
  removeRepositories,
  replicationDestination,
  replicationSource,
  repositories,
  repository,
  restoredClaim,
  said,
  synced,
  uninstallVolsync,
} from "./scenes/volsync.ts";
import { startZfsHost, stopZfsHost, type ZfsHost } from "./scenes/zfs-host.ts";

// VolSync itself, with restic, backs up claims of a storage host whose ZFS is a model, and of folders, while their pods run.

const connections = ["zfs", "folders"] as const;
const methods: readonly CopyMethod[] = ["Snapshot", "Clone"];
const sources = connections.flatMap(connection =>
  methods.flatMap(method =>
    [1, 2].map(number => ({ name: `${connection}-${method.toLowerCase()}-${number}`, connection, method })),
  ),
);
const names = sources.map(({ name }) => name);
/** One of each connection and method. */
const restored = sources.filter(({ name }) => name.endsWith("-1"));
const caches = names.map(name => `volsync-src-${name}-cache`);

const filling = [
  "cd /data; umask 022; mkdir -p d/deep empty; chmod 2770 d; chown 1000:2000 d/deep",
  "echo one > f; chown 1001:1002 f; chmod 0600 f; ln f d/hard; ln -s ../f d/link; touch -d '2001-02-03 04:05:06' d/deep",
  "dd if=/dev/urandom of=big bs=1M count=4 2>/dev/null; echo odd > ' odd\tname'; sync; touch /tmp/filled",
].join("; ");

let host: ZfsHost;

/** Everything that the storage systems have, as handles. */
async function stored(): Promise<readonly string[]> {
  const folder = async (kind: "v" | "s") =>
    (await readdir(join(dataOutside, "folders", kind)).catch(() => [])).map(name => `${kind}:folders/${name}`);
  return [...host.stored().map(name => `v:zfs/${name}`), ...(await folder("v")), ...(await folder("s"))].sort();
}

/** What a pod sees of its claim. The model of ZFS copies names and content alone. */
const contentOf = ({ connection }: (typeof sources)[number], podName: string): Promise<string> =>
  connection === "folders"
    ? seen(podName)
    : inPod(podName, "cd /data; find . -type f -exec md5sum {} + | sort; find . -type d | sort");

const named = async (kind: string) => (await list(kind)).map(({ metadata }) => metadata.name).sort();

/** Without what csimux keeps until clones of it are deleted. */
const withoutTombstones = (handles: readonly string[]) =>
  handles.filter(each => !each.startsWith("v:zfs/csimux-trash-"));

/** There are exactly these claims, no snapshot, and on the storage systems only their volumes. */
async function onlyThese(claims: readonly string[], on: typeof stored = stored): Promise<void> {
  const wanted = [...claims, repositories].sort().join(" ");
  let last: readonly (readonly string[])[] = [];
  const same = async () => {
    const handles = (await list("pv")).map(({ spec }) => spec.csi?.volumeHandle).filter(each => each !== undefined);
    last = [await named("pvc"), await named("volumesnapshots,volumesnapshotcontents"), handles.sort(), await on()];
    const [found = [], snapshots = [], volumes = [], data = []] = last;
    return (
      found.join(" ") === wanted &&
      snapshots.length === 0 &&
      volumes.length === claims.length &&
      data.join(" ") === volumes.join(" ")
    );
  };
  await eventually("only the claims are left", 300_000, same).catch((error: unknown) => {
    throw new Error(`${error}: ${JSON.stringify(last, undefined, 1)}`);
  });
}

/** Lets VolSync back up all claims, and tells how long that took. */
async function round(manual: string): Promise<void> {
  const began = performance.now();
  await apply(...sources.map(({ name, connection, method }) => replicationSource(name, connection, method, manual)));
  const results = await synced("replicationsource", names, manual);
  expect(results.map(({ result }) => result)).toEqual(names.map(() => "Successful"));
  const seconds = Math.round((performance.now() - began) / 1_000);
  process.stdout.write(`    round ${manual}: ${seconds} s, each ${results.map(each => each.duration).join(" ")}\n`);
}

describe.skipIf(!hasVolsync() || !hasGoProgram("helm"))("VolSync", () => {
  beforeAll(async () => {
    host = await startZfsHost();
    const { zfs, ...rest } = JSON.parse(host.connection) as { readonly zfs: object };
    const central = {
      zfs: JSON.stringify({ ...rest, zfs: { ...zfs, deleteWithDependents: "tombstone" } }),
      folders: folderConnection("folders"),
    };
    await deployCentral({ connections: central, node: await nfsClient() });
    const now = { volumeBindingMode: "Immediate" };
    await apply(...connections.map(each => storageClass(each, drivers.central, each, now)));
    await installVolsync();
    await apply(...names.map(repository));
    await apply(
      ...sources.flatMap(({ name, connection }) => [claim(name, connection), pod(name, name, { run: filling })]),
    );
    await running(...names);
    for (const name of names)
      await eventually("the files are written", 60_000, async () => (await inPod(name, "ls /tmp")).includes("filled"));
  });
  afterAll(async () => {
    await kube("delete", "replicationsources,replicationdestinations", "--all", "-n", "default", "--timeout=120s");
    await remove("pods", ...(await named("pods")));
    await removeRepositories();
    await tidy();
    await remove("secrets", ...names);
    await uninstallVolsync();
    await kube("delete", "storageclass", ...connections);
    await undeploy("cluster");
    await stopZfsHost();
  });

  test("backs up claims of two connections at once, by snapshots and by clones, and nothing of that is left", async () => {
    await onlyThese(names);
    await round("one");
    for (const { name, method } of sources)
      expect((await said(name)).join("\n")).toMatch(method === "Snapshot" ? /VolumeSnapshot/ : /as a clone of/);
    await onlyThese([...names, ...caches]);
  });

  test("does so while the controllers of csimux are killed, and restores what the pods had written", async () => {
    for (const name of names)
      await inPod(name, "cd /data; echo two > f; rm -r empty; mkdir new; echo new > new/f; sync");
    const before: string[] = [];
    for (const each of restored) before.push(await contentOf(each, each.name));
    expect(await killing(round("two"), "controller", 8)).toBeGreaterThan(2);
    await onlyThese([...names, ...caches]);
    for (const { name } of restored) await inPod(name, "echo later > /data/f; sync");

    const back = (name: string) => `back-${name}`;
    const destinations = restored.map(({ name }) => back(name));
    await apply(...restored.map(({ name, connection }) => replicationDestination(back(name), name, connection)));
    const results = await synced("replicationdestination", destinations, "once");
    expect(results.map(({ result }) => result)).toEqual(restored.map(() => "Successful"));
    await apply(...restored.map(({ name, connection }) => restoredClaim(`new-${name}`, back(name), connection)));
    const claims = restored.map(({ name }) => `new-${name}`);
    await bound(...claims);
    await apply(...claims.map(name => pod(name, name)));
    await running(...claims);
    const after: string[] = [];
    for (const each of restored) after.push(await contentOf(each, `new-${each.name}`));
    expect(after).toEqual(before);

    // The new volumes are clones of snapshots of those that are deleted here.
    await remove("replicationdestination", ...destinations);
    await onlyThese([...names, ...caches, ...claims], async () => withoutTombstones(await stored()));
    expect(withoutTombstones(await stored())).not.toEqual(await stored());
    await remove("pods", ...claims);
    await remove("pvc", ...claims);
    await remove("replicationsource", ...names);
    await onlyThese(names);
  });
});

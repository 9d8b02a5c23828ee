import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { changedBlocksManifests, hasChangedBlocks } from "../../scripts/cluster/changed-blocks.ts";
import { listerImage } from "../../scripts/cluster/images.ts";
import { state } from "../../scripts/cluster/place.ts";
import { root } from "../../scripts/spawned.ts";
import { certificates, described, service } from "../serve/changed-blocks/service.ts";
import { deployCentral, drivers, namespace, undeploy } from "./deploy.ts";
import { apply, bound, eventually, home, inPod, kube, list, ready, running } from "./kube.ts";
import { claim, snapshot, storageClass } from "./objects.ts";
import { tidy } from "./scenes/left.ts";
import { killLeader } from "./scenes/processes.ts";
import { type ServedService, serveService } from "./scenes/service.ts";
import { startZfsHost, stopZfsHost, type ZfsHost } from "./scenes/zfs-host.ts";

// A backup tool in a pod, and csi-snapshot-metadata in the pods of the controller as its component describes. The disks are on a storage host
// whose ZFS is a model.

const block = 16_384;
const size = 8 << 20;
const name = "csimux-snapshot-metadata";
const folder = join(state, "changed-blocks");
const manifests = join(root, "examples/kubernetes");

let host: ZfsHost;
let served: ServedService | undefined;

/** A pod with the rights that the sidecar's repository gives to backup tools. There is no DNS in the cluster. */
const tool = (ip: string) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "backup" },
  spec: {
    serviceAccountName: "backup",
    hostAliases: [{ ip, hostnames: [service] }],
    dnsPolicy: "None",
    dnsConfig: { nameservers: ["10.99.0.2"] },
    terminationGracePeriodSeconds: 0,
    containers: [{ name: "lister", image: listerImage, command: ["sleep", "100000"] }],
  },
});

const rights = [
  { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "backup" } },
  {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    metadata: { name: "backup" },
    roleRef: {
      apiGroup: "rbac.authorization.k8s.io",
      kind: "ClusterRole",
      name: "external-snapshot-metadata-client-runner",
    },
    subjects: [{ kind: "ServiceAccount", name: "backup", namespace: home }],
  },
];

/** Writes blocks of a disk on the storage; 0 is zeroes. */
function write(disk: string, blocks: Readonly<Record<number, number>>): void {
  const file = host.contentOf(disk);
  mkdirSync(dirname(file), { recursive: true });
  const content = existsSync(file) ? readFileSync(file) : Buffer.alloc(size);
  for (const [number, byte] of Object.entries(blocks))
    content.fill(byte, Number(number) * block, (Number(number) + 1) * block);
  writeFileSync(file, content);
}

/** What a list of the lister says: first block and number of blocks of each range. */
async function listed(words: string): Promise<readonly (readonly [number, number])[]> {
  const text = await inPod("backup", `snapshot-metadata-lister -n ${home} -o json ${words}`);
  const messages = JSON.parse(text) as readonly {
    readonly block_metadata: readonly { readonly byte_offset?: number; readonly size_bytes: number }[];
  }[];
  return messages
    .flatMap(each => each.block_metadata)
    .map(({ byte_offset = 0, size_bytes }) => [byte_offset / block, size_bytes / block]);
}

describe.skipIf(!hasChangedBlocks())("a backup tool in a pod", () => {
  beforeAll(async () => {
    host = await startZfsHost();
    await mkdir(folder, { recursive: true });
    certificates(folder);
    await kube("apply", "-f", join(manifests, "namespace.yaml"), "-f", changedBlocksManifests.crds);
    const pair = ["--cert=tls.crt", "--key=tls.key"].map(flag => flag.replace("=", `=${folder}/`));
    await kube("-n", namespace, "create", "secret", "tls", name, ...pair);
    await deployCentral({ connections: { disks: host.disks }, changedBlocks: true });
    await apply(
      await described(manifests, folder),
      storageClass("disks", drivers.central, "disks", { volumeBindingMode: "Immediate" }),
      ...rights,
    );
    await kube("apply", "-f", changedBlocksManifests.clientRole);
    served = await serveService(name, namespace);
    await apply(tool(served.address), claim("disk", "disks", { block: true, size: "8Mi" }));
    const { spec } = await bound("disk");
    const disk = spec.csi.volumeHandle.replace("v:disks/", "");
    const steps = { s1: { 0: 1, 1: 2, 5: 3, 6: 4 }, s2: { 1: 9, 5: 0, 9: 7 } };
    for (const [each, blocks] of Object.entries(steps)) {
      write(disk, blocks);
      await apply(snapshot(each, "disk", "csimux"));
      await ready(each);
    }
    await running("backup");
  });
  afterAll(async () => {
    await tidy();
    await served?.close();
    await kube("delete", "storageclass", "disks");
    await kube("delete", "-f", changedBlocksManifests.clientRole, "-f", changedBlocksManifests.crds);
    await kube("delete", "clusterrolebinding/backup", "serviceaccount/backup", "-n", home);
    await undeploy("cluster");
    await stopZfsHost();
    await rm(folder, { recursive: true, force: true });
  });

  const whole = [
    [0, 2],
    [5, 2],
  ] as const;
  const changes = [
    [1, 1],
    [5, 1],
    [9, 1],
  ] as const;

  test("gets the blocks of a snapshot through the Service, from each replica", async () => {
    const slices = await list("endpointslices", namespace, "-l", `kubernetes.io/service-name=${name}`);
    const replicas = slices.flatMap(each => each["endpoints"] as readonly unknown[]);
    expect(replicas.length).toBe(2);
    for (const _ of replicas) expect(await listed("-s s1")).toEqual(whole);
  });

  test("gets what was changed between two snapshots, also after the leading replica was lost", async () => {
    expect(await listed("-s s2 -p s1")).toEqual(changes);
    expect(await killLeader()).toBe(true);
    const again = await eventually("a list", 120_000, () => listed("-s s2 -p s1").catch(() => undefined));
    expect(again).toEqual(changes);
  });
});

import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { inMachine } from "../../scripts/cluster/machine.ts";
import { root, tool } from "../../scripts/spawned.ts";
import { deployCentral, drivers, namespace, undeploy } from "./deploy.ts";
import { apply, bound, eventually, find, kube, ready, remove } from "./kube.ts";
import { tidy } from "./left.ts";
import { ask, grown } from "./life.ts";
import { claim, snapshot, storageClass } from "./objects.ts";
import { csimux, kill, processes } from "./processes.ts";

/** The address of the machine for its pods. */
const nas = { host: "10.99.0.2", port: 6071 };

const connection = JSON.stringify({
  driver: "truenas-api-nfs",
  httpConnection: { protocol: "http", ...nas, username: "csi", password: "correct horse" },
  zfs: {
    datasetParentName: "tank/k8s/v",
    detachedSnapshotsDatasetParentName: "tank/k8s/s",
    datasetEnableQuotas: true,
  },
  nfs: { shareHost: nas.host },
});

/** A TrueNAS without disks on the cluster's machine, which runs until it is killed. */
async function startNas(): Promise<void> {
  const flags = ["--address", nas.host, "--port", String(nas.port)];
  void inMachine([tool("bun"), `${root}/scripts/truenas-double.ts`, ...flags], 3_600_000);
  const reached = async () => (await inMachine(["bash", "-c", `: </dev/tcp/${nas.host}/${nas.port}`])).code === 0;
  await eventually("the TrueNAS listens", 60_000, reached);
}

const nasProcesses = async () => (await processes()).filter(({ command }) => command.includes("truenas-double.ts"));

beforeAll(async () => {
  await startNas();
  await deployCentral({ connections: { nas: connection } }, "central-non-root");
  await apply(storageClass("now", drivers.central, "nas", { volumeBindingMode: "Immediate" }));
});
afterEach(() => tidy());
afterAll(async () => {
  await kube("delete", "storageclass", "now");
  await undeploy("central-non-root");
  kill(await nasProcesses());
});

test("an unprivileged controller", async () => {
  const controllers = await csimux("controller");
  expect(controllers).toHaveLength(2);
  for (const { pid } of controllers) {
    const status = await readFile(`/proc/${pid}/status`, "utf8");
    expect(/^Uid:\t(\d+)/m.exec(status)?.[1]).toBe("65532");
    expect(/^CapBnd:\t(\w+)/m.exec(status)?.[1]).toBe("0000000000000000");
    expect(/^NoNewPrivs:\t(\d)/m.exec(status)?.[1]).toBe("1");
  }
  const said = await kube(
    "-n",
    namespace,
    "exec",
    "deploy/csimux-controller",
    "-c",
    "csimux",
    "--",
    "csimux",
    "status",
  );
  expect(said).toContain("truenas-api-nfs");
});

test("makes, grows, snapshots, restores, clones and deletes volumes of a TrueNAS over its API", async () => {
  await apply(claim("a", "now", { size: "1Gi" }));
  expect((await bound("a")).spec.csi.volumeAttributes.server).toBe(nas.host);
  await ask("a", "2Gi");
  await grown("a", "2Gi");
  await apply(snapshot("s", "a", "csimux"));
  await ready("s");
  const more = { size: "2Gi" };
  await apply(
    claim("b", "now", { ...more, from: { snapshot: "s" } }),
    claim("c", "now", { ...more, from: { claim: "a" } }),
  );
  const volumes = [await bound("b"), await bound("c")];
  await remove("pvc", "b", "c");
  for (const { metadata } of volumes)
    await eventually("it is gone", 60_000, async () => (await find("pv", metadata.name)) === undefined, "b");
});

import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inMachine, kubeconfig } from "../../scripts/cluster/machine.ts";
import { state } from "../../scripts/cluster/place.ts";
import { goProgramInMachine, hasGoProgram } from "../../scripts/cluster/tools.ts";
import { root } from "../../scripts/spawned.ts";
import { deployCentral, drivers, namespace, settled, undeploy } from "./deploy.ts";
import { apply, bound, eventually, find, get, inPod, kube, remove, running } from "./kube.ts";
import { nothingLeft, tidy } from "./left.ts";
import { claim, pod, storageClass } from "./objects.ts";
import { ask, grown, lifeOf } from "./scenes/life.ts";
import { nasConnection, startNas, stopNas } from "./scenes/nas.ts";

/** Runs helm against the cluster; throws its error output. */
async function helm(...args: readonly string[]): Promise<string> {
  const own = "/run/cluster/state/helm";
  const env = ["CACHE", "CONFIG", "DATA"].map(name => `HELM_${name}_HOME=${own}`);
  const flags = [`--kubeconfig=${kubeconfig}`, "--namespace", namespace];
  const argv = ["env", ...env, goProgramInMachine("helm"), ...args, ...flags];
  const { code, stdout, stderr } = await inMachine(argv, 400_000);
  if (code !== 0) throw new Error(`helm ${args.join(" ")}: ${stderr.trim()}`);
  return stdout;
}

/** Installs or upgrades a release of the chart with the image of the cluster. */
async function install(release: string, values: object, ...flags: readonly string[]): Promise<void> {
  await writeFile(join(state, "values.json"), JSON.stringify({ image: { repository: "localhost/csimux" }, ...values }));
  const file = "/run/cluster/state/values.json";
  const wait = ["--wait", "--timeout=5m", "--values", file];
  await helm("upgrade", "--install", release, `${root}/examples/helm/csimux`, ...wait, ...flags);
}

const createNamespace = () => kube("apply", "-f", `${root}/examples/kubernetes/namespace.yaml`);

afterEach(() => tidy());
afterAll(() => kube("delete", "namespace", namespace, "--ignore-not-found", "--timeout=240s"));

describe.skipIf(!hasGoProgram("helm"))("the chart", () => {
  const folder = "/var/lib/csimux/volumes";
  const disks = {
    mode: "node-local",
    connections: {
      disk: `driver: local-hostpath\nlocal-hostpath:\n  shareBasePath: ${folder}\n  controllerBasePath: ${folder}\n`,
    },
    storageClasses: [{ name: "disk-local", parameters: { connection: "disk" } }],
    volumeSnapshotClasses: [{ name: "csimux-local" }],
  };

  test("serves disks of the node", async () => {
    await createNamespace();
    await install("csimux-local", disks);
    await settled(drivers.local);
    await lifeOf("disk-local", { snapshots: "csimux-local", grows: false });
  });

  test("is upgraded with another main file, rolled back, removed and installed again under a volume", async () => {
    await apply(claim("a", "disk-local"), pod("a", "a", { run: "echo hello > /data/f; sync" }));
    await running("a");
    const group = { name: "group-local", parameters: { connection: "all" } };
    const storageClasses = [...disks.storageClasses, group];
    await install("csimux-local", { ...disks, groups: { all: { members: ["disk"] } }, storageClasses });
    await settled(drivers.local);
    await apply(claim("b", "group-local"), pod("b", "b"));
    await running("b");
    expect(await inPod("a", "cat /data/f")).toBe("hello\n");
    await remove("pod", "b");
    await remove("pvc", "b");

    await helm("rollback", "csimux-local", "--wait", "--timeout=5m");
    await settled(drivers.local);
    expect(await find("storageclass", "group-local")).toBeUndefined();
    expect(await inPod("a", "cat /data/f")).toBe("hello\n");
    await remove("pod", "a");

    await helm("uninstall", "csimux-local", "--wait", "--timeout=5m");
    expect(await find("ds", "csimux-node-local", namespace)).toBeUndefined();
    expect((await get("namespace", namespace)).status.phase).toBe("Active");
    expect((await get("pvc", "a")).status.phase).toBe("Bound");
    await install("csimux-local", disks);
    await settled(drivers.local);
    await apply(pod("again", "a"));
    await running("again");
    expect(await inPod("again", "cat /data/f")).toBe("hello\n");
    await tidy();
    await nothingLeft();
    await helm("uninstall", "csimux-local", "--wait", "--timeout=5m");
  });

  test("takes over what the manifests have installed, with an unprivileged controller", async () => {
    await startNas();
    try {
      await deployCentral({ connections: { nas: nasConnection } }, "central-non-root");
      await apply(storageClass("now", drivers.central, "nas", { volumeBindingMode: "Immediate" }));
      await apply(claim("a", "now", { size: "1Gi" }));
      const volume = await bound("a");

      const connections = { nas: nasConnection };
      const values = { connections, controller: { privileged: false }, storageClasses: [], volumeSnapshotClasses: [] };
      await install("csimux", values, "--take-ownership");
      await settled(drivers.central);
      await ask("a", "2Gi");
      await grown("a", "2Gi");
      await apply(claim("b", "now", { size: "1Gi" }));
      await bound("b");
      await remove("pvc", "a", "b");
      await eventually("it is gone", 60_000, async () => (await find("pv", volume.metadata.name)) === undefined, "a");
    } finally {
      await kube("delete", "storageclass", "now", "--ignore-not-found");
      await helm("uninstall", "csimux", "--ignore-not-found", "--wait", "--timeout=5m");
      await undeploy("central-non-root");
      await stopNas();
    }
  });
});

import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inMachine } from "../../scripts/cluster/machine.ts";
import { state } from "../../scripts/cluster/place.ts";
import { goProgramInMachine, hasGoProgram } from "../../scripts/cluster/tools.ts";
import { imageArchive } from "../../scripts/image/main.ts";
import { archiveName, packChart, publish } from "../../scripts/release/publish.ts";
import { currentVersion } from "../../scripts/release/version.ts";
import { root } from "../../scripts/spawned.ts";
import { deployCentral, drivers, namespace, settled, undeploy } from "./deploy.ts";
import { apply, bound, eventually, find, get, inPod, kube, list, remove, running } from "./kube.ts";
import { claim, pod, storageClass } from "./objects.ts";
import { helm, onMachine } from "./scenes/helm.ts";
import { nothingLeft, tidy } from "./scenes/left.ts";
import { ask, grown, lifeOf } from "./scenes/life.ts";
import { nasConnection, startNas, stopNas } from "./scenes/nas.ts";
import { registry, startRegistry, stopRegistry } from "./scenes/registry.ts";

/** Installs or upgrades a release of the chart with the image of the cluster. */
async function install(release: string, values: object, ...flags: readonly string[]): Promise<void> {
  await writeFile(join(state, "values.json"), JSON.stringify({ image: { repository: "localhost/csimux" }, ...values }));
  const file = "/run/cluster/state/values.json";
  const wait = ["--wait", "--timeout=5m", "--values", file];
  await helm("upgrade", "--install", release, `${root}/examples/helm/csimux`, ...wait, ...flags);
}

const contributing = await readFile(`${root}/CONTRIBUTING.md`, "utf8");

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
    await tidy();
    // A pod without root writes a file to a volume of each class, which goes with it.
    const said = await helm("test", "csimux-local", "--timeout=3m");
    expect(said).toContain("TEST SUITE:     csimux-test-disk-local");
    expect(said).toMatch(/Phase: +Succeeded/);
    await nothingLeft();
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

  test.skipIf(!hasGoProgram("crane"))(
    "is installed from a registry by the line of the page, with the image that was pushed there",
    async () => {
      const folder = join(state, "release");
      const image = `${registry}/owner/csimux`;
      const version = await currentVersion();
      await mkdir(folder, { recursive: true });
      await startRegistry();
      try {
        await copyFile(imageArchive, join(folder, archiveName(version)));
        await packChart(image, folder, onMachine);
        const { digest } = await publish(image, version, folder, onMachine);

        // The values name no image, because the chart of a release does.
        const values = join(folder, "my-values.yaml");
        await writeFile(values, JSON.stringify(disks));
        await createNamespace();
        await onMachine(...pageLine(version, values), "--wait", "--timeout=5m");
        await settled(drivers.local);
        const [pod] = await list("pods", namespace, "-l", "app.kubernetes.io/component=node");
        const own = pod?.status.containerStatuses.find((each: { name: string }) => each.name === "csimux");
        expect([own.image, own.imageID]).toEqual([`${image}:${version}`, `${image}@${digest}`]);
        await helm("test", "csimux", "--timeout=3m");
        await nothingLeft();
      } finally {
        await helm("uninstall", "csimux", "--ignore-not-found", "--wait", "--timeout=5m");
        await stopRegistry();
        await inMachine(["ctr", "-n", "k8s.io", "images", "rm", `${image}:${version}`]);
        await rm(folder, { recursive: true, force: true });
      }
    },
  );
});

/** The line with which CONTRIBUTING.md installs a release, for the registry of the tests. */
function pageLine(version: string, values: string): readonly [string, ...string[]] {
  const [line] = /^helm upgrade --install csimux oci:.*$/m.exec(contributing) ?? [];
  const words = line?.replace("ghcr.io/<owner>", `${registry}/owner`).replace("1.2.3", version);
  const [, ...rest] = words?.replace("my-values.yaml", values).split(" ") ?? [];
  return [goProgramInMachine("helm"), ...rest];
}

import { describe, expect, test } from "bun:test";
import { modules } from "../lib/drivers/index.ts";
import { hasGoProgram } from "../scripts/cluster/tools.ts";
import { type KubeObject, rendered, required } from "./helm.ts";

const podOf = (objects: readonly KubeObject[], kind: string) =>
  objects.find(each => each.kind === kind)?.["spec"].template.spec;

/** Whether the controller is privileged, and whether node plugins see the host. */
async function rights(values: object): Promise<readonly [controller: boolean, host: boolean]> {
  const objects = await rendered({ ...required, ...values });
  const [csimux] = podOf(objects, "Deployment").containers;
  const node = podOf(objects, "DaemonSet");
  const host = (node.volumes as { hostPath?: { path: string } }[]).some(each => each.hostPath?.path === "/");
  expect(node.hostIPC ?? false).toBe(host);
  return [csimux.securityContext.privileged, host];
}

const serving = (...drivers: readonly string[]) => ({
  connections: Object.fromEntries(drivers.map(driver => [driver, `# of 2019\ndriver: ${driver}\n`])),
});
const ssh = "sshConnection: { host: nas.lan }";
const overSsh = { connections: { nas: `{driver: zfs-generic-nfs, ${ssh}}` } };

describe.skipIf(!hasGoProgram("helm"))("the chart", () => {
  test("gives controller and nodes the rights that the drivers of the connections need", async () => {
    for (const { names, facts } of modules)
      for (const name of names) {
        const isShare = facts.protocol === "nfs" || facts.protocol === "smb";
        const without = [facts.unprivileged !== "always", !isShare] as const;
        expect([name, ...(await rights(serving(name)))]).toEqual([name, ...without]);
      }
  }, 120_000);

  test.each([
    ["ZFS over ssh", overSsh, [false, false]],
    ["ZFS over the ssh login of the main file", { ...serving("zfs-generic-iscsi"), main: main(ssh) }, [false, true]],
    ["one connection that mounts among others", serving("freenas-api-nfs", "smb-client"), [true, false]],
    ["one connection with disks among others", serving("freenas-api-nfs", "synology-iscsi"), [false, true]],
    ["a Secret whose connections are unknown", { ...serving("freenas-api-nfs"), existingSecret: "x" }, [true, true]],
    ["no connections", {}, [true, true]],
    ["a file that is not YAML", { connections: { nas: "driver: [" } }, [true, true]],
    ["a driver that only begins like another", serving("freenas-api-nfs-client"), [false, true]],
    [
      "node names from the host",
      { ...serving("freenas-nfs"), main: main("nodeId: { parts: { iqn: true } }") },
      [false, true],
    ],
    [
      "mount programs of the host",
      { ...serving("freenas-nfs"), node: { extraEnv: [{ name: "USE_HOST_MOUNT_TOOLS", value: "1" }] } },
      [false, true],
    ],
    [
      "the user's word against it",
      { ...serving("freenas-nfs"), controller: { privileged: true }, node: { hostRoot: true } },
      [true, true],
    ],
    [
      "the user's word for less",
      { existingSecret: "x", controller: { privileged: false }, node: { hostRoot: false } },
      [false, false],
    ],
  ] as const)("decides about rights with %s", async (_, values, wanted) => {
    expect(await rights(values)).toEqual(wanted);
  });

  test("keeps the records of nodes in one place, with and without the host's file system", async () => {
    for (const driver of ["freenas-nfs", "freenas-iscsi"]) {
      const node = podOf(await rendered({ ...required, ...serving(driver) }), "DaemonSet");
      const mounts = node.containers[0].volumeMounts as { name: string; mountPath: string }[];
      const [{ name, mountPath } = { name: "", mountPath: "" }] = mounts.filter(each =>
        each.mountPath.startsWith("/host"),
      );
      const volume = (node.volumes as { name: string; hostPath: { path: string } }[]).find(each => each.name === name);
      const inHost = `${volume?.hostPath.path}${"/host/var/lib/csimux".slice(mountPath.length)}`.replace("//", "/");
      expect(inHost).toBe("/var/lib/csimux");
    }
  });

  test.each(["central", "node-local"])("gives every pod of mode %s a seccomp profile", async mode => {
    const pods = (await rendered({ ...required, mode })).filter(each => each["spec"]?.template);
    expect(pods.length).toBe(mode === "central" ? 2 : 1);
    for (const pod of pods)
      expect(pod["spec"].template.spec.securityContext).toMatchObject({ seccompProfile: { type: "RuntimeDefault" } });
  });
});

function main(more: string): string {
  return `driver: proxy\nproxy:\n  configFolder: /connections\n${more}\n`;
}

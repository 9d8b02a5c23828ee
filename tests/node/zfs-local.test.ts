import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { chmod, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import type { Capability } from "../../lib/core/access.ts";
import type { CommandRunner, Output } from "../../lib/io/runner.ts";
import { zfsLocal } from "../../lib/node/attach/zfs-local.ts";
import type { NodeVolumes } from "../../lib/node/volumes.ts";
import { MountProgram } from "../fakes/mount-program.ts";
import { callOf, codeOf, isRoot, Lab, mountinfo, writer } from "./lab.ts";

let lab: Lab;
let mount: MountProgram;
let node: NodeVolumes;
/** The datasets that the main file allows. */
let parents: readonly string[] | undefined;
const hostDatasets = async () => parents;
beforeEach(async () => {
  lab = await Lab.open();
  parents = undefined;
  mount = await MountProgram.at(lab.at("bin"));
  const zfs = `#!/bin/sh
echo "$*" >> ${lab.at("zfs-calls")}
case "$6" in
tank/k8s/plain) printf 'filesystem\\n11\\n/tank/k8s/plain\\n' ;;
tank/k8s/legacy) printf 'filesystem\\n12\\nlegacy\\n' ;;
tank/k8s/disk|'tank/k8s/my disk') printf 'volume\\n13\\n-\\n' ;;
tank/k8s/broken) echo "cannot open: pool I/O is currently suspended" >&2; exit 1 ;;
*) echo "cannot open '$6': dataset does not exist" >&2; exit 1 ;;
esac
`;
  await writeFile(lab.at("bin", "zfs"), zfs);
  await chmod(lab.at("bin", "zfs"), 0o755);
  await mkdir(lab.at("dev", "zvol", "tank", "k8s"), { recursive: true });
  const { runner } = mount;
  const attacher = zfsLocal({ host: runner, devices: lab.at("dev"), hostDatasets });
  node = lab.node(runner, mountinfo, { host: runner, attachers: new Map([["zfs-local", attacher]]) });
});
afterEach(() => lab.close());

const stage = (dataset: string, more: Partial<Capability> = {}) => {
  const context = { node_attach_driver: "zfs-local", zfs_asset_name: dataset };
  return node.stage(lab.stage("a", { context, capability: { ...writer, ...more } }), callOf());
};

describe.skipIf(!isRoot)("a ZFS dataset of this node", () => {
  test("with its own mount point is mounted as zfs mount does, and keeps it", async () => {
    await stage("tank/k8s/plain", { mountFlags: ["noatime"] });
    expect(await mount.calls()).toEqual([`-n -t zfs -o noatime,zfsutil tank/k8s/plain ${lab.at("staging", "a")}`]);
    await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    expect(await lab.mounted()).toEqual([]);
  });

  test("without one is mounted like any file system", async () => {
    await stage("tank/k8s/legacy");
    expect(await mount.calls()).toEqual([`-n -t zfs tank/k8s/legacy ${lab.at("staging", "a")}`]);
  });

  test("is not a block device", async () => {
    expect(await codeOf(stage("tank/k8s/plain", { kind: "block" }))).toBe("failed-precondition");
  });

  /** Attaches a zvol whose link leads to /dev/null. `zvolId`: what udev's program prints about it; absent where the host has none. */
  const attach = async (name: string, link: string, zvolId?: Output) => {
    await symlink("/dev/null", lab.at("dev", "zvol", "tank", "k8s", link));
    const host: CommandRunner = {
      where: "host",
      run: async (command, signal) => {
        const [program, ...words] = command.argv;
        if (!program.endsWith("/zvol_id")) return await mount.runner.run(command, signal);
        expect(words).toEqual(["/dev/null"]);
        return zvolId && program.startsWith("/usr/") ? zvolId : { exitCode: 127, stdout: "", stderr: "" };
      },
    };
    const wanted = {
      volumeId: "a",
      context: { zfs_asset_name: name },
      publishContext: {},
      capability: { ...writer, kind: "block" } as const,
      readonly: false,
      notes: {},
      table: { covering: () => undefined } as never,
    };
    return await zfsLocal({ host, devices: lab.at("dev"), hostDatasets }).attach(wanted, async () => {}, callOf());
  };

  test.each([
    ["tank/k8s/disk", "disk", undefined],
    ["tank/k8s/disk", "disk", { exitCode: 0, stdout: "tank/k8s/disk\n", stderr: "" }],
    ["tank/k8s/my disk", "my+disk", { exitCode: 0, stdout: "tank/k8s/my+disk\n", stderr: "" }],
  ])("that is the zvol %j is the device behind the link %j", async (name, link, zvolId) => {
    const device = { kind: "device", path: "/dev/null", number: "1:3", identity: "13", proof: {} } as const;
    expect(await attach(name, link, zvolId)).toEqual(device);
  });

  test.each([
    ["of another zvol, which has its number by now", { exitCode: 0, stdout: "tank/k8s/other\n", stderr: "" }],
    ["that the kernel does not name", { exitCode: 1, stdout: "", stderr: "ioctl_get_msg failed: No such device" }],
  ])("is not the device %s, where udev has left its link", async (_, zvolId) => {
    expect(await codeOf(attach("tank/k8s/disk", "disk", zvolId))).toBe("unavailable");
  });

  test("that does not exist is not found; a failing command is unavailable", async () => {
    expect(await codeOf(stage("tank/k8s/missing"))).toBe("not-found");
    expect(await readdir(lab.at("records")).catch(() => [])).toEqual([]);
    expect(await codeOf(stage("tank/k8s/broken"))).toBe("unavailable");
    expect(await codeOf(stage("tank/k8s/disk"))).toBe("unavailable");
  });

  test("is accepted only below node.zfs-local.datasets, which is checked without running a program", async () => {
    parents = ["tank/other", "tank/k8s"];
    await stage("tank/k8s/plain");
    expect(await mount.calls()).toHaveLength(1);
    await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    for (const others of [["tank/other"], ["tank/k8"], ["tank/k8s/plain"], []]) {
      parents = others;
      expect(await codeOf(stage("tank/k8s/plain"))).toBe("permission-denied");
    }
    expect((await readFile(lab.at("zfs-calls"), "utf8")).trim().split("\n")).toHaveLength(1);
    expect(await readdir(lab.at("records")).catch(() => [])).toEqual([]);
    expect(await lab.mounted()).toEqual([]);
  });

  test.each(["tank", "tank/a;reboot", "tank/../x", "-tank/a", "tank/a@b", "tank/a#b", "tank/$(x)", ""])(
    "is refused under the name %j before any program runs",
    async name => {
      expect(await codeOf(stage(name))).toBe("invalid-argument");
      expect(await readdir(lab.folder)).not.toContain("zfs-calls");
    },
  );
});

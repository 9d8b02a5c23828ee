import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, rmdir, symlink, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run, waitFor } from "./run.ts";
import { leftSince, traces } from "./traces.ts";

// Tests the lab's services with bare commands, without csimux: if one fails, the lab is broken.

let before: ReadonlySet<string>;
let folder: string;
beforeAll(async () => {
  before = await traces();
  folder = await mkdtemp(join(tmpdir(), "services-"));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
  expect(await leftSince(before)).toEqual([]);
});

/** Mounts, writes and reads a file, unmounts. */
async function writes(...mount: readonly string[]): Promise<void> {
  const point = await mkdtemp(join(folder, "mount-"));
  await run(["mount", ...mount, point]);
  try {
    await writeFile(join(point, "hello"), "written through the mount");
    expect(await readFile(join(point, "hello"), "utf8")).toBe("written through the mount");
  } finally {
    await run(["umount", point]);
  }
}

const device = (path: string): Promise<string> => waitFor(path, async () => (existsSync(path) ? path : undefined));

/** A zvol of 64 MiB while `work` uses it. */
async function withZvol(name: string, work: (device: string) => Promise<void>): Promise<void> {
  await run(["zfs", "create", "-s", "-V", "64M", `tank/${name}`]);
  try {
    await work(await device(`/dev/zvol/tank/${name}`));
  } finally {
    await run(["zfs", "destroy", `tank/${name}`]);
  }
}

test("ZFS creates, snapshots and clones a dataset", async () => {
  await run(["zfs", "create", "-o", "mountpoint=legacy", "tank/services"]);
  await writes("-t", "zfs", "tank/services");
  await run(["zfs", "snapshot", "tank/services@one"]);
  await run(["zfs", "clone", "-o", "mountpoint=legacy", "tank/services@one", "tank/services-clone"]);
  await writes("-t", "zfs", "tank/services-clone");
  await run(["zfs", "destroy", "-R", "tank/services"]);
});

test.each(["3", "4.2"])("NFS %s mounts an export", async version => {
  const exported = await mkdtemp("/srv/services-");
  await run(["exportfs", "-o", "rw,no_root_squash,insecure", `127.0.0.1:${exported}`]);
  await writes("-t", "nfs", "-o", `vers=${version}`, `127.0.0.1:${exported}`);
  expect(await readdir(exported)).toEqual(["hello"]);
  await run(["exportfs", "-u", `127.0.0.1:${exported}`]);
  await rm(exported, { recursive: true });
});

test("SMB mounts a share", async () => {
  const shared = await mkdtemp("/srv/services-");
  await chmod(shared, 0o777);
  await run(["net", "usershare", "add", "services", shared, "", "S-1-1-0:F", "guest_ok=n"]);
  // Without closetimeo=0 this kernel (6.1.192) crashes when a share is unmounted within a second of the last close of a file.
  await writes("-t", "cifs", "-o", "username=csi,password=csi,closetimeo=0", "//127.0.0.1/services");
  expect(await readdir(shared)).toEqual(["hello"]);
  await run(["net", "usershare", "delete", "services"]);
  await rm(shared, { recursive: true });
});

// The kernel's target accepts a name only if the part after the date has at least two labels.
const target = "iqn.2025-01.lab.csimux:services";

/** One targetcli for all commands, because each start takes seconds on an emulated processor. */
const targetcli = (commands: readonly string[]): Promise<string> =>
  run(["sh", "-c", 'printf "%s\\n" "$@" | targetcli', "targetcli", ...commands]);

/** An iSCSI target with one LUN on a zvol while `work` uses it. It listens on every address. */
async function withTarget(work: () => Promise<void>): Promise<void> {
  await withZvol("services", async disk => {
    const made = [
      `/backstores/block create services ${disk}`,
      `/iscsi create ${target}`,
      `/iscsi/${target}/tpg1 set attribute authentication=0 generate_node_acls=1 demo_mode_write_protect=0`,
      `/iscsi/${target}/tpg1/luns create /backstores/block/services`,
    ];
    const removed = [`/iscsi delete ${target}`, "/backstores/block delete services"];
    await targetcli(made);
    try {
      await work();
    } finally {
      await targetcli(removed);
    }
  });
}

test("iSCSI finds a target and logs in to it", async () => {
  await withTarget(async () => {
    await run(["iscsiadm", "-m", "discovery", "-t", "sendtargets", "-p", "127.0.0.1"]);
    await run(["iscsiadm", "-m", "node", "-T", target, "-p", "127.0.0.1", "--login"]);
    const lun = await device(`/dev/disk/by-path/ip-127.0.0.1:3260-iscsi-${target}-lun-0`);
    await run(["mkfs.ext4", "-q", lun]);
    await writes(lun);
    await run(["iscsiadm", "-m", "node", "-T", target, "--logout"]);
    await run(["iscsiadm", "-m", "discoverydb", "-t", "sendtargets", "-p", "127.0.0.1", "-o", "delete"]);
  });
});

test("multipath makes one device of a LUN with two portals", async () => {
  await writeFile("/etc/multipath.conf", "defaults {\n  find_multipaths no\n  user_friendly_names no\n}\n");
  await run(["systemctl", "start", "multipathd"]);
  await withTarget(async () => {
    const records = ["127.0.0.1", "127.0.0.2"].map(portal => ["-m", "node", "-T", target, "-p", `${portal}:3260`]);
    for (const record of records) await run(["iscsiadm", ...record, "-o", "new"]);
    for (const record of records) await run(["iscsiadm", ...record, "--login"]);
    const map = await waitFor(
      "a map with two working paths",
      async () => {
        const shown = await run(["multipath", "-ll"]);
        return shown.match(/active ready running/g)?.length === 2 ? /^3\w+/m.exec(shown)?.[0] : undefined;
      },
      60_000,
    );
    await run(["mkfs.ext4", "-q", `/dev/mapper/${map}`]);
    await writes(`/dev/mapper/${map}`);
    // udev probes an unmounted disk, and an open map cannot be flushed.
    await waitFor("a map that can be flushed", () => run(["multipath", "-f", map]).catch(() => undefined), 60_000);
    await run(["iscsiadm", "-m", "node", "-T", target, "--logout"]);
    await run(["iscsiadm", "-m", "node", "-T", target, "-o", "delete"]);
  });
  await run(["systemctl", "stop", "multipathd.socket", "multipathd"]);
  await rm("/etc/multipath.conf");
});

test("NVMe over TCP connects to a namespace on a zvol", async () => {
  const name = "nqn.2025-01.lab.csimux:services";
  const root = "/sys/kernel/config/nvmet";
  const uuid = "77000000-0000-4000-8000-00000000aaaa";
  const [subsystem, port] = [`${root}/subsystems/${name}`, `${root}/ports/77`];
  await withZvol("services", async disk => {
    await mkdir(subsystem);
    await mkdir(`${subsystem}/namespaces/1`);
    await mkdir(port);
    const settings = {
      [`${subsystem}/attr_allow_any_host`]: "1",
      [`${subsystem}/namespaces/1/device_path`]: disk,
      [`${subsystem}/namespaces/1/device_uuid`]: uuid,
      [`${subsystem}/namespaces/1/enable`]: "1",
      [`${port}/addr_trtype`]: "tcp",
      [`${port}/addr_adrfam`]: "ipv4",
      [`${port}/addr_traddr`]: "127.0.0.1",
      [`${port}/addr_trsvcid`]: "4420",
    };
    for (const [file, value] of Object.entries(settings)) await writeFile(file, value);
    await symlink(subsystem, `${port}/subsystems/${name}`);
    await run(["nvme", "connect", "-t", "tcp", "-a", "127.0.0.1", "-s", "4420", "-n", name]);
    const namespace = await device(`/dev/disk/by-id/nvme-uuid.${uuid}`);
    await run(["mkfs.ext4", "-q", namespace]);
    await writes(namespace);
    await run(["nvme", "disconnect", "-n", name]);
    await unlink(`${port}/subsystems/${name}`);
    for (const made of [port, `${subsystem}/namespaces/1`, subsystem]) await rmdir(made);
  });
});

test("the guest's ssh accepts root, a user with sudo, and a user with the login shell csh", async () => {
  const login = (user: string, command: string) =>
    run([
      "ssh",
      "-o",
      "StrictHostKeyChecking=no",
      "-o",
      "UserKnownHostsFile=/dev/null",
      "-o",
      "LogLevel=ERROR",
      `${user}@127.0.0.1`,
      command,
    ]);
  expect((await login("root", "id -un")).trim()).toBe("root");
  expect((await login("csi", "sudo -n id -un")).trim()).toBe("root");
  expect((await login("csh", "sudo -n id -un; echo $shell")).split("\n").slice(0, 2)).toEqual(["root", "/bin/tcsh"]);
});

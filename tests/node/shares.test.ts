import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readdir, readFile } from "node:fs/promises";
import type { Capability } from "../../lib/core/access.ts";
import type { Call, Secrets } from "../../lib/core/call.ts";
import type { Code } from "../../lib/core/errors.ts";
import { attachers } from "../../lib/node/attach/attachers.ts";
import { ownSecrets } from "../../lib/node/attach/context.ts";
import { mountFailure } from "../../lib/node/mount/mount-errors.ts";
import type { NodeVolumes } from "../../lib/node/volumes.ts";
import { MountProgram } from "../fakes/mount-program.ts";
import { refusedMounts } from "../fakes/mount-words.ts";
import { callOf, codeOf, isRoot, Lab, mountinfo, writer } from "./lab.ts";

let lab: Lab;
let mount: MountProgram;
let node: NodeVolumes;
beforeEach(async () => {
  lab = await Lab.open();
  mount = await MountProgram.at(lab.at("bin"));
  node = nodeWith([]);
});
afterEach(() => lab.close());

function nodeWith(mountFlags: readonly string[]): NodeVolumes {
  const { runner } = mount;
  const known = attachers(lab.ports(runner, { devices: lab.at("dev") }));
  return lab.node(runner, mountinfo, { host: runner, attachers: known, mountFlags: async () => mountFlags });
}

const at = () => lab.at("staging", "a");
const stage = (context: Record<string, string>, more: Partial<Capability> = {}, call: Call = callOf()) =>
  node.stage(lab.stage("a", { context, capability: { ...writer, ...more } }), call);
const nfs = { node_attach_driver: "nfs", server: "nas", share: "/export/v/a" };
const smb = { node_attach_driver: "smb", server: "nas", share: "data/v/a" };
const withSecrets = (secrets: Secrets): Call => callOf(undefined, undefined, secrets);
const keptText = async (): Promise<string> => {
  const files = await readdir(lab.at("records"));
  return (await Promise.all(files.map(file => readFile(lab.at("records", file), "utf8")))).join();
};

describe.skipIf(!isRoot)("a share is mounted from", () => {
  test.each<[string, Record<string, string>, string]>([
    ["a name", nfs, "-t nfs -o retry=0 nas:/export/v/a"],
    ["an IPv4 address", { ...nfs, server: "10.0.0.1" }, "-t nfs -o retry=0 10.0.0.1:/export/v/a"],
    ["a bare IPv6 address", { ...nfs, server: "fd00::1" }, "-t nfs -o retry=0 [fd00::1]:/export/v/a"],
    ["an IPv6 address in brackets", { ...nfs, server: "[fd00::1]" }, "-t nfs -o retry=0 [fd00::1]:/export/v/a"],
    ["a link-local address", { ...nfs, server: "fe80::1%eth0" }, "-t nfs -o retry=0 [fe80::1%eth0]:/export/v/a"],
    ["a relative export", { ...nfs, share: "export/a" }, "-t nfs -o retry=0 nas:export/a"],
    ["a share with a space", { ...nfs, share: "/a b" }, "-t nfs -o retry=0 nas:/a b"],
    ["SMB", smb, "-t cifs -o guest,file_mode=0777,dir_mode=0777 //nas/data/v/a"],
    [
      "SMB with a slash in front",
      { ...smb, share: "/data" },
      "-t cifs -o guest,file_mode=0777,dir_mode=0777 //nas/data",
    ],
    [
      "SMB at an IPv6 address",
      { ...smb, server: "fd00::1" },
      "-t cifs -o guest,file_mode=0777,dir_mode=0777 //fd00::1/data/v/a",
    ],
    [
      "Lustre",
      { node_attach_driver: "lustre", server: "10.0.0.1@tcp:10.0.0.2@tcp", share: "/fs/v/a" },
      "-t lustre 10.0.0.1@tcp:10.0.0.2@tcp:/fs/v/a",
    ],
  ])("%s", async (_, context, argv) => {
    await stage(context);
    expect(await mount.calls()).toEqual([`-n ${argv} ${at()}`]);
    expect(await lab.mounted()).toEqual(["staging/a"]);
  });
});

describe.skipIf(!isRoot)("a volume is refused whose", () => {
  test.each<[string, Record<string, string>]>([
    ["server is missing", { node_attach_driver: "nfs", share: "/x" }],
    ["server is an option", { ...nfs, server: "-oremount" }],
    ["server contains a blank", { ...nfs, server: "a b" }],
    ["server contains a slash", { ...nfs, server: "a/b" }],
    ["second server is invalid", { ...nfs, server: "a,b:c" }],
    ["share is missing", { node_attach_driver: "nfs", server: "nas" }],
    ['share contains ".."', { ...nfs, share: "/export/../etc" }],
    ["share contains .. with backslashes", { ...smb, share: "data\\..\\c$" }],
    ["share contains a line break", { ...nfs, share: "/a\nb" }],
    ["Lustre server is an option", { node_attach_driver: "lustre", server: "-v", share: "/x" }],
    ["dataset name is invalid", { node_attach_driver: "zfs-local", zfs_asset_name: "tank/a;reboot" }],
    ["dataset is a snapshot", { node_attach_driver: "zfs-local", zfs_asset_name: "tank/a@b" }],
  ])("%s", async (_, context) => {
    expect(await codeOf(stage(context))).toBe("invalid-argument");
    expect(await mount.calls()).toEqual([]);
    expect(await readdir(lab.at("records")).catch(() => [])).toEqual([]);
  });

  test("access type is block, or its file system type does not fit", async () => {
    expect(await codeOf(stage(nfs, { kind: "block" }))).toBe("failed-precondition");
    expect(await codeOf(stage(nfs, { fsType: "ext4" }))).toBe("failed-precondition");
  });
});

describe.skipIf(!isRoot)("the options of a mount", () => {
  test('are "ro" and the flags of the class, the node and the secret, in this order', async () => {
    node = nodeWith(["hard,timeo=100"]);
    const secrets = { mount_flags: "nconnect=2" };
    await stage(
      nfs,
      { mode: "multi-node-reader-only", mountFlags: ["nfsvers=4.1", "defaults,noatime"] },
      withSecrets(secrets),
    );
    expect(await mount.calls()).toEqual([
      `-n -t nfs -o noatime,ro,retry=0,nfsvers=4.1,hard,timeo=100,nconnect=2 nas:/export/v/a ${at()}`,
    ]);
    expect((await lab.mounts())[0]?.readOnly).toBe(true);
  });
});

describe.skipIf(!isRoot)("the password of an SMB share", () => {
  const password = "pa,ss=w%rd";

  test.each<[string, Secrets, readonly string[], string]>([
    ["own keys", { username: "joe", password, domain: "CORP" }, [], "username=joe,domain=CORP"],
    ["keys for this instance", { "democratic-csi.org/one/password": password, username: "joe" }, [], "username=joe"],
    ["flags of the class", {}, ["user=joe", `password=simple`, "vers=3.1.1"], "username=joe,vers=3.1.1"],
    ["the secret's flags", { mount_flags: "username=joe,password=simple,domain=CORP" }, [], "username=joe,domain=CORP"],
  ])("from %s reaches only the helper", async (_, secrets, mountFlags, options) => {
    const context = { ...smb, provisioner_driver: "smb-client", provisioner_driver_instance_id: "one" };
    await stage(context, { mountFlags }, withSecrets(secrets));
    const publish = lab.publish("a", { context, capability: { ...writer, mountFlags } });
    await node.publish(publish, callOf());
    expect(await mount.calls()).toEqual([
      `-n -t cifs -o ${options},file_mode=0777,dir_mode=0777 //nas/data/v/a ${at()}`,
    ]);
    expect(await mount.input()).toBe(mountFlags.length > 0 || secrets["mount_flags"] ? "simple" : password);
    expect(await mount.environment()).toBe("PASSWD_FD=0\n");
    expect(await keptText()).not.toMatch(/simple|pa,ss/);
  });

  test("is masked in the helper's output", async () => {
    await mount.answer(`mount error(13): Permission denied for ${password}`);
    const failed = stage(smb, {}, withSecrets({ username: "joe", password }));
    await expect(failed).rejects.toMatchObject({
      code: "permission-denied",
      message: expect.not.stringContaining("pa,ss"),
    });
  });

  test("may be absent for a guest, for Kerberos and for several users", async () => {
    await stage(smb, { mountFlags: ["sec=krb5", "multiuser"], mountGroup: "1000" });
    expect(await mount.calls()).toEqual([
      `-n -t cifs -o sec=krb5,multiuser,file_mode=0770,dir_mode=0770,gid=1000 //nas/data/v/a ${at()}`,
    ]);
    expect(await mount.environment()).toBe("");
  });

  test("leaves the modes of a class as they are", async () => {
    await stage(smb, { mountFlags: ["guest", "dir_mode=0750,file_mode=0640"] });
    expect(await mount.calls()).toEqual([`-n -t cifs -o guest,dir_mode=0750,file_mode=0640 //nas/data/v/a ${at()}`]);
  });

  test("that is wrong is reported, although the helper's last line is only a hint", async () => {
    await mount.answer(
      "mount error(13): Permission denied\nRefer to the mount.cifs(8) manual page (e.g. man mount.cifs) and kernel log messages (dmesg)",
    );
    await expect(stage(smb, {}, withSecrets({ username: "joe", password }))).rejects.toMatchObject({
      code: "permission-denied",
      message: expect.stringContaining("mount error(13): Permission denied"),
    });
  });

  test("or user name is refused if it cannot be passed on", async () => {
    for (const secrets of [{ username: "a,uid=0" }, { username: "joe", password: "a\nb" }]) {
      expect(await codeOf(stage(smb, {}, withSecrets(secrets)))).toBe("invalid-argument");
    }
  });
});

describe.skipIf(!isRoot)("a server that does not answer", () => {
  test("is skipped for the volume's next one", async () => {
    await mount.answer("mount.nfs: Connection refused");
    expect(await codeOf(stage({ ...nfs, server: "one,two" }))).toBe("unavailable");
    expect(await mount.calls()).toHaveLength(2);
    await mount.answer(undefined);
    await stage({ ...nfs, server: "one, two" });
    expect((await lab.mounts()).map(({ source }) => source)).toEqual(["one:/export/v/a"]);
  });

  test("fails the call when its client gives up, leaves nothing behind and does not delay others", async () => {
    await mount.silence("dead");
    const client = new AbortController();
    const calls = [1, 2, 3].map(number => {
      const request = lab.stage(`dead${number}`, { context: { ...nfs, server: "dead" } });
      return codeOf(node.stage(request, callOf(client.signal)));
    });
    await stage(nfs);
    client.abort();
    expect(await Promise.all(calls)).toEqual(Array(3).fill("deadline-exceeded"));
    expect(await lab.mounted()).toEqual(["staging/a"]);
    for (const number of [1, 2, 3]) {
      const volumeId = `dead${number}`;
      await node.unstage({ volumeId, stagingPath: lab.at("staging", volumeId) }, callOf());
    }
    expect(await readdir(lab.at("records"))).toHaveLength(1);
  });
});

test.skipIf(!isRoot).each(Object.entries(refusedMounts))(
  "mounting %s is refused in its own way",
  async (_, refused) => {
    await mount.answer(refused.words);
    expect(await codeOf(stage(refused.type === "nfs" ? nfs : smb))).toBe(refused.code);
  },
);

test.each<[string, Code]>([
  ["mount.nfs: Connection timed out", "unavailable"],
  ["mount.nfs: No route to host", "unavailable"],
  ["mount.nfs: Failed to resolve server nas: Name or service not known", "unavailable"],
  ["mount.nfs: Protocol not supported", "failed-precondition"],
  ["mount: /x: unknown filesystem type 'nfs'.", "failed-precondition"],
  ["mount: /x: bad option; for several filesystems you might need a /sbin/mount.nfs helper", "failed-precondition"],
  ["mount: /x: special device /y does not exist.", "not-found"],
  ["mount: /x: mount point is not a directory.", "failed-precondition"],
  ["mount: /x: mount(2) system call failed: No space left on device.", "resource-exhausted"],
  ["mount: /x: bind /y failed.", "permission-denied"],
  ["an unknown message", "internal"],
])("mount's %j means %s", (words, code) => {
  expect(mountFailure(words).code).toBe(code);
});

test("the secret with the narrowest prefix wins, in any order", () => {
  const context = { provisioner_driver: "smb-client", provisioner_driver_instance_id: "one" };
  const all = {
    password: "bare",
    "democratic-csi.org/one/password": "instance",
    "democratic-csi.org/smb-client/password": "driver",
    "democratic-csi.org/password": "global",
    "democratic-csi.org/two/password": "other instance",
  };
  const reversed = Object.fromEntries(Object.entries(all).reverse());
  for (const secrets of [all, reversed]) {
    expect(ownSecrets(secrets, context)).toEqual({ password: "instance" });
    expect(ownSecrets(secrets, { provisioner_driver: "smb-client" })).toEqual({ password: "driver" });
    expect(ownSecrets(secrets, {})).toEqual({ password: "global" });
  }
  expect(ownSecrets({ password: "bare" }, context)).toEqual({ password: "bare" });
});

/** Every protocol whose volumes are mounted with flags, with a valid context. */
const kinds: Readonly<Record<string, Record<string, string>>> = {
  nfs,
  smb,
  lustre: { node_attach_driver: "lustre", server: "10.0.0.1@tcp", share: "/fs" },
  objectivefs: { node_attach_driver: "objectivefs", filesystem: "csi/a", "env.OBJECTSTORE": "minio://" },
  oneclient: { node_attach_driver: "oneclient", server: "nas" },
  "zfs-local": { node_attach_driver: "zfs-local", zfs_asset_name: "tank/a" },
  hostpath: { node_attach_driver: "hostpath", path: "/tmp" },
  iscsi: { node_attach_driver: "iscsi", iqn: "iqn.2005-10.org.example:a", lun: "0", portal: "10.0.0.1" },
};

const strange = [
  ...["bind", "rbind", "move", "remount", "loop", "loop=/dev/loop0", "offset=512", "BIND", "ro,bind", " rbind "],
  ...["shared", "slave", "private", "unbindable", "rshared", "rslave", "rprivate", "runbindable", "make-rshared"],
  ...["X-mount.mkdir", "x-mount.subdir=/etc", "X-mount.idmap=/proc/1/ns/user", "uhelper=x", "helper=x"],
  ...["logdev=/dev/sda", "rtdev=/dev/sda", "journal_path=/dev/sda", "journal_dev=0x801", "device=/dev/sda"],
];

describe.skipIf(!isRoot)("a mount option that would turn the volume's mount into another one", () => {
  for (const [kind, context] of Object.entries(kinds)) {
    test(`is refused with its name before anything is done (${kind})`, async () => {
      for (const flag of strange) {
        const name = flag.replace(/^ro,/, "").split("=")[0]?.trim().toLowerCase() ?? "";
        const refusal = { code: "invalid-argument", message: expect.stringContaining(`"${name}"`) };
        await expect(stage(context, { mountFlags: ["noatime", flag] })).rejects.toMatchObject(refusal);
        await expect(stage(context, {}, withSecrets({ mount_flags: flag }))).rejects.toMatchObject(refusal);
        node = nodeWith([flag]);
        await expect(stage(context)).rejects.toMatchObject(refusal);
        node = nodeWith([]);
      }
      expect(await mount.calls()).toEqual([]);
      expect(await readdir(lab.at("records")).catch(() => [])).toEqual([]);
    });
  }
});

test.skipIf(!isRoot)("only the node's settings can name files of the node, classes and secrets cannot", async () => {
  for (const flag of ["credentials=/etc/shadow", "cred=/etc/shadow", "Credentials=/etc/shadow"]) {
    const refusal = { code: "invalid-argument", message: expect.stringContaining("names a file of the node") };
    await expect(stage(smb, { mountFlags: [flag] })).rejects.toMatchObject(refusal);
    await expect(stage(smb, {}, withSecrets({ mount_flags: flag }))).rejects.toMatchObject(refusal);
  }
  expect(await mount.calls()).toEqual([]);
  node = nodeWith(["credentials=/etc/smb.key"]);
  await stage(smb);
  expect(await mount.calls()).toEqual([
    `-n -t cifs -o credentials=/etc/smb.key,file_mode=0777,dir_mode=0777 //nas/data/v/a ${at()}`,
  ]);
});

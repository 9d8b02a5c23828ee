import { chmod, mkdtemp, realpath, rm, symlink, unlink, writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { mountCapability } from "../../../scripts/client.ts";
import { mounting } from "../disk-volume.ts";
import type { Made, MountOptions } from "../rig.ts";
import { run } from "../run.ts";
import { destroyZvol, iqn, makeTarget, makeZvol, removeTarget, switchTarget } from "../zfs/lio.ts";
import { makeSubsystem, nqn, removeSubsystem, subsystemLink, switchNamespace } from "../zfs/nvmet.ts";
import { cut, type Fault, storageFault } from "./fault.ts";

/** A volume on a server of this machine, and the faults of that server. */
export interface ChaosStorage {
  readonly volume: Made;
  readonly options: MountOptions;
  readonly faults: readonly Fault[];
  /** Removes the server's side. Returns the traces that remain because of bugs in the lab's kernel. */
  close(): Promise<readonly string[]>;
}

type Random = (below: number) => number;

const volume = (protocol: string, context: Readonly<Record<string, string>>): Made => ({
  volumeId: `v:lab/chaos-${protocol}`,
  volumeContext: { node_attach_driver: protocol, ...context },
});

const withFlags = (mountFlags: readonly string[]): MountOptions => ({
  capability: { ...mountCapability, accessType: { case: "mount", value: { mountFlags: [...mountFlags] } } },
});

/** Clients of a restarted server continue after its grace period; the default is 90 seconds. */
const shortGrace = "[nfsd]\ngrace-time=5\nlease-time=5\n[lockd]\ngrace-time=5\n";

async function nfs(random: Random): Promise<ChaosStorage> {
  const base = await mkdtemp("/srv/chaos-");
  const [settings, exported] = ["/etc/nfs.conf.d/chaos.conf", "/etc/exports.d/chaos.exports"];
  await run(["mkdir", "-p", "/etc/nfs.conf.d", "/etc/exports.d"]);
  await writeFile(settings, shortGrace);
  await writeFile(exported, `${base} 127.0.0.1(rw,no_root_squash,insecure,no_subtree_check)\n`);
  await run(["systemctl", "restart", "nfs-server"]);
  return {
    volume: volume("nfs", { server: "127.0.0.1", share: base }),
    options: withFlags(random(2) === 0 ? ["vers=4.2"] : ["vers=3", "nolock"]),
    faults: [
      cut(2049),
      storageFault("the server is stopped", "systemctl stop nfs-server", "systemctl start nfs-server"),
      storageFault("the export is withdrawn", `exportfs -u 127.0.0.1:${base}`, "exportfs -r"),
    ],
    close: async () => {
      await rm(settings);
      await rm(exported);
      await run(["systemctl", "restart", "nfs-server"]);
      await rm(base, { recursive: true });
      return [];
    },
  };
}

async function smb(): Promise<ChaosStorage> {
  const base = await mkdtemp("/srv/chaos-");
  await chmod(base, 0o777);
  const share = `net usershare add chaos ${base} "" S-1-1-0:F guest_ok=n`;
  await run(["sh", "-c", share]);
  return {
    volume: volume("smb", { server: "127.0.0.1", share: "chaos" }),
    options: { ...withFlags(["vers=3.1.1", "closetimeo=0"]), secrets: { username: "csi", password: "csi" } },
    faults: [
      cut(445),
      storageFault("the server is stopped", "systemctl stop smbd", "systemctl start smbd"),
      storageFault("the share is withdrawn", "net usershare delete chaos; smbcontrol smbd close-share chaos", share),
    ],
    close: async () => {
      await run(["net", "usershare", "delete", "chaos"]);
      await rm(base, { recursive: true });
      return [];
    },
  };
}

const fsTypes = ["ext4", "xfs"] as const;
const disk = (random: Random): MountOptions => ({ capability: mounting(fsTypes[random(2)] ?? "ext4") });

async function iscsi(random: Random): Promise<ChaosStorage> {
  await makeZvol("disk0");
  await makeTarget(["disk0"]);
  const restart = "systemctl restart iscsid";
  return {
    volume: volume("iscsi", { iqn, lun: "0", portal: "127.0.0.1:3260" }),
    options: disk(random),
    faults: [
      cut(3260),
      { name: "the target is off", hurts: true, begin: () => switchTarget(false), end: () => switchTarget(true) },
      storageFault("iscsid restarts", restart, ":"),
    ],
    close: async () => {
      await removeTarget();
      await destroyZvol("disk0");
      return [];
    },
  };
}

/**
 * Whether the target in the lab's kernel (6.1.192) has lost a namespace: one that is disabled while being written to, as
 * here, keeps its zvol open after the subsystem is removed. This happens with dd(1) too, without csimux.
 */
const hasLostNamespace = async (): Promise<boolean> =>
  /WARNING: .* nvmet_subsys_put\+/.test(await run(["journalctl", "--no-pager", "-k", "-b"]));

/** The trace of an exported zvol, as in traces.ts. */
const tracesOf = async (name: string): Promise<readonly string[]> => {
  const device = basename(await realpath(`/dev/zvol/tank/${name}`));
  return [`block device: ${device}`, `dataset, zvol or snapshot: tank/${name}`];
};

async function nvmeof(random: Random): Promise<ChaosStorage> {
  await makeZvol("disk0");
  await makeSubsystem(["disk0"], ["127.0.0.1"]);
  const { link, to } = subsystemLink(0);
  return {
    volume: volume("nvmeof", { nqn, nsid: "1", transport: "tcp://127.0.0.1" }),
    options: disk(random),
    faults: [
      cut(4420),
      {
        name: "the port is closed",
        hurts: true,
        begin: () => unlink(link),
        end: () => symlink(to, link).catch(() => {}),
      },
      {
        name: "the namespace is off",
        hurts: true,
        begin: () => switchNamespace(1, false),
        end: () => switchNamespace(1, true),
      },
    ],
    close: async () => {
      await removeSubsystem();
      if (await hasLostNamespace()) return await tracesOf("disk0");
      await destroyZvol("disk0");
      return [];
    },
  };
}

/** Creates the server's side of each protocol; `random` chooses among kinds of volumes. */
export const storages: Readonly<Record<string, (random: Random) => Promise<ChaosStorage>>> = {
  nfs,
  smb,
  iscsi,
  nvmeof,
};

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { localRunner } from "../../lib/io/local.ts";
import type { CommandRunner } from "../../lib/io/runner.ts";
import { pause } from "../waiting.ts";
import { type Change, modelKernel } from "./configfs.ts";
import { nfsCases } from "./nfs-cases.ts";
import { toolCases } from "./tool-cases.ts";
import { nfsCache, nfsClients } from "./zfs/nfsd.ts";
import { type FakeZfs, inProcess } from "./zfs/pools.ts";

/** A storage host for cases: a model, or a real one. */
export interface CaseHost {
  readonly runner: CommandRunner;
  /** An existing file system, below which a case works. */
  readonly dataset: string;
  /** Changes the kernel's configfs; what it answers. */
  readonly kernel: (change: Change) => string;
  /** Folders that show the kernel's targets, its NVMe target, and the devices of zvols. */
  readonly lio: string;
  readonly nvmet: string;
  readonly devices: string;
  /** Where a file system is mounted. */
  place(dataset: string): string;
  /** A client that mounts a file system over NFSv4.2 and holds a file open in it. */
  nfsClient(dataset: string): Promise<{ readonly end: () => Promise<void> }>;
}

/** What a case has observed, one line each, in the same words on every host. */
export type Sight = readonly string[];

/** One behaviour of the tools of a storage host, as csimux meets it. It leaves nothing behind. */
export type HostCase = (host: CaseHost) => Promise<Sight>;

/** The model of a host for a case. */
export const modelOf = (fake: FakeZfs): CaseHost => ({
  runner: inProcess(fake, localRunner({ env: { PATH: `${fake.bin}:/usr/sbin:/usr/bin:/sbin:/bin` } })),
  dataset: "tank/cases",
  kernel: modelKernel(fake.folder),
  lio: join(fake.folder, "lio"),
  nvmet: join(fake.folder, "nvmet"),
  devices: join(fake.folder, "dev"),
  place: name => (fake.find(name) ? fake.place(name) : "/nowhere"),
  async nfsClient(name) {
    nfsCache(fake.folder, [fake.place(name)]);
    nfsClients(fake.folder, [{ id: 7, open: [fake.place(name)] }]);
    return { end: async () => nfsClients(fake.folder, []) };
  },
});

const { signal } = new AbortController();

/** The tools of a host, with their answers in words. */
function toolsOn({ runner, dataset, devices, kernel }: CaseHost) {
  const plain = (text: string): string => text.replaceAll(dataset, "here").trim().split("\n")[0] ?? "";
  const zfs = async (...argv: readonly string[]): Promise<string> => {
    const output = await runner.run({ argv: ["zfs", ...argv], timeoutMs: 120_000 }, signal);
    return `${output.exitCode} ${plain(output.stderr)}`.trim();
  };
  return {
    zfs,
    at: (name: string): string => `${dataset}/${name}`,
    device: (name: string): string => `${devices}/${dataset}/${name}`,
    /** Names below the file system, snapshots too. */
    async names(): Promise<string> {
      const argv = ["zfs", "list", "-H", "-r", "-t", "all", "-o", "name", "-s", "name", dataset] as const;
      const { stdout } = await runner.run({ argv }, signal);
      return stdout.replaceAll(dataset, "here").trim().split("\n").sort().join(" ");
    },
    /** Changes of configfs; the errors of the kernel without their paths, which vary. */
    told: (...changes: readonly Change[]): string =>
      changes.map(change => kernel(change).replace(/^.*\[Errno \d+\] ([^:]*).*$/, "$1")).join(", "),
    async waitFor(path: string): Promise<void> {
      for (let n = 0; !existsSync(path) && n < 100; n++) await pause(100);
    },
  };
}

/** zfs(8), as lib/drivers/zfs calls it. */
const zfsCases: Readonly<Record<string, HostCase>> = {
  "a list of snapshots is destroyed completely, or not at all if one of them is cloned": async host => {
    const { zfs, at, names } = toolsOn(host);
    await zfs("create", at("a"));
    for (const name of ["a", "b", "c"]) await zfs("snapshot", `${at("a")}@${name}`);
    await zfs("clone", `${at("a")}@b`, at("copy"));
    const seen = [await zfs("destroy", `${at("a")}@a,b,c`), await names()];
    await zfs("destroy", at("copy"));
    seen.push(await zfs("destroy", `${at("a")}@a,b,c`), await names());
    await zfs("destroy", at("a"));
    return seen;
  },

  "absent snapshots in a list are ignored": async host => {
    const { zfs, at, names } = toolsOn(host);
    await zfs("create", at("a"));
    await zfs("snapshot", `${at("a")}@b`);
    const seen = [await zfs("destroy", `${at("a")}@b,absent`), await names()];
    seen.push(await zfs("destroy", `${at("a")}@absent`));
    await zfs("destroy", at("a"));
    return seen;
  },

  "a cloned snapshot that is destroyed deferred disappears with its clone": async host => {
    const { zfs, at, names } = toolsOn(host);
    await zfs("create", at("a"));
    await zfs("snapshot", `${at("a")}@s`);
    await zfs("clone", `${at("a")}@s`, at("copy"));
    const seen = [await zfs("destroy", "-d", `${at("a")}@s`), await names()];
    seen.push(await zfs("destroy", at("copy")), await names());
    await zfs("destroy", at("a"));
    return seen;
  },

  "a held snapshot, a cloned one and a file system with children cannot be destroyed": async host => {
    const { zfs, at, names } = toolsOn(host);
    await zfs("create", at("a"));
    await zfs("create", at("a/b"));
    const seen = [await zfs("destroy", at("a"))];
    await zfs("destroy", at("a/b"));
    await zfs("snapshot", `${at("a")}@s`);
    await zfs("hold", "case", `${at("a")}@s`);
    seen.push((await zfs("destroy", `${at("a")}@s`)).slice(0, 1), await names());
    await zfs("release", "case", `${at("a")}@s`);
    await zfs("clone", `${at("a")}@s`, at("copy"));
    seen.push(await zfs("destroy", `${at("a")}@s`), await names());
    await zfs("destroy", at("copy"));
    await zfs("destroy", "-r", at("a"));
    return seen;
  },

  "an existing dataset is not created again, and an absent one is reported": async host => {
    const { zfs, at } = toolsOn(host);
    await zfs("create", at("a"));
    const seen = [
      await zfs("create", at("a")),
      await zfs("create", at("absent/b")),
      await zfs("destroy", at("absent")),
    ];
    await zfs("create", at("b"));
    seen.push(await zfs("rename", at("a"), at("b")));
    for (const name of ["a", "b"]) await zfs("destroy", at(name));
    return seen;
  },
};

const [iqn, nqn, name] = ["iqn.2025-01.lab.csimux:case", "nqn.2025-01.lab.csimux:case", "csimux-case"] as const;
const store = `lio/core/iblock_77/${name}`;
const group = `lio/iscsi/${iqn}/tpgt_1`;

/** The kernel's target, as lib/drivers/zfs/targets/host/lio.py uses it. */
const lioCases: Readonly<Record<string, HostCase>> = {
  "a backstore takes an existing device only, opens it alone, and cannot go while a LUN leads to it": async host => {
    const { zfs, at, device, told, waitFor } = toolsOn(host);
    await zfs("create", "-s", "-V", "64M", at("disk"));
    await waitFor(device("disk"));
    told(["mkdir", "lio/iscsi"]);
    const hba = "lio/core/iblock_77";
    const other = "lio/core/iblock_78";
    return [
      told(["mkdir", hba], ["mkdir", store], ["mkdir", store], ["write", `${store}/enable`, "1"]),
      told(["write", `${store}/control`, "udev_path=/dev/absent"], ["write", `${store}/enable`, "1"], ["rmdir", store]),
      told(["mkdir", store], ["write", `${store}/udev_path`, device("disk")]),
      told(["write", `${store}/control`, `udev_path=${device("disk")}`], ["write", `${store}/control`, "readonly=0"]),
      told(["write", `${store}/enable`, "1"], ["write", `${store}/enable`, "1"]),
      told(["mkdir", other], ["mkdir", `${other}/${name}`]),
      told(
        ["write", `${other}/${name}/control`, `udev_path=${device("disk")}`],
        ["write", `${other}/${name}/enable`, "1"],
      ),
      told(["rmdir", `${other}/${name}`], ["rmdir", other]),
      await zfs("destroy", at("disk")),
      told(["mkdir", `lio/iscsi/${iqn}`], ["mkdir", `lio/iscsi/${iqn}/group`], ["mkdir", group]),
      told(["mkdir", `${group}/lun/lun_0`], ["symlink", `${group}/lun/lun_0/link`, store]),
      told(["rmdir", store], ["rmdir", `${group}/lun/lun_0`], ["rmdir", group], ["rmdir", hba]),
      told(["unlink", `${group}/lun/lun_0/link`], ["rmdir", `${group}/lun/lun_0`], ["rmdir", store], ["rmdir", hba]),
      told(["rmdir", group], ["rmdir", `lio/iscsi/${iqn}`]),
      await zfs("destroy", at("disk")),
    ];
  },

  "a backstore that is not enabled has not opened its device": async host => {
    const { zfs, at, device, told, waitFor } = toolsOn(host);
    await zfs("create", "-s", "-V", "64M", at("disk"));
    await waitFor(device("disk"));
    return [
      told(["mkdir", "lio/core/iblock_77"], ["mkdir", store], ["write", `${store}/udev_path`, device("disk")]),
      told(["write", `${store}/control`, `udev_path=${device("disk")}`]),
      await zfs("destroy", at("disk")),
      told(["write", `${store}/enable`, "1"], ["rmdir", store], ["rmdir", "lio/core/iblock_77"]),
    ];
  },

  "a group takes known attributes and its other state only, and begins closed": async host => {
    const { told } = toolsOn(host);
    const text = (path: string) => readFileSync(join(host.lio, path.slice(4)), "utf8").trim();
    told(["mkdir", "lio/iscsi"]);
    const seen = [
      told(["mkdir", `lio/iscsi/${iqn}`], ["mkdir", group]),
      `${text(`${group}/enable`)} ${text(`${group}/attrib/authentication`)} ${text(`${group}/dynamic_sessions`)}`,
      told(["write", `${group}/enable`, "0"], ["write", `${group}/enable`, "1"], ["write", `${group}/enable`, "1"]),
      told(["write", `${group}/attrib/unknown`, "1"], ["write", `${group}/attrib/authentication`, "yes"]),
      told(["write", `${group}/auth/password`, "{^é'|\"secret"], ["write", `${group}/auth/userid`, "NULLUSER"]),
      text(`${group}/auth/password`),
      told(["mkdir", `${group}/np/0.0.0.0:3299`], ["mkdir", `${group}/np/0.0.0.0:3299`], ["rmdir", group]),
      told(["rmdir", `${group}/np/0.0.0.0:3299`], ["rmdir", `${group}/np`]),
      told(["write", `${group}/enable`, "0"], ["rmdir", group], ["rmdir", `lio/iscsi/${iqn}`]),
    ];
    return seen;
  },
};

const subsystem = `nvmet/subsystems/${nqn}`;
const space = `${subsystem}/namespaces/1`;

/** The kernel's NVMe target, as lib/drivers/zfs/targets/host/nvmet.py uses it. */
const nvmetCases: Readonly<Record<string, HostCase>> = {
  "a zvol that an enabled namespace has opened is busy until its subsystem is gone": async host => {
    const { zfs, at, device, told, waitFor } = toolsOn(host);
    await zfs("create", "-s", "-V", "64M", at("disk"));
    await waitFor(device("disk"));
    return [
      told(["mkdir", subsystem], ["mkdir", subsystem], ["mkdir", space], ["rmdir", subsystem]),
      told(["write", `${space}/device_path`, "/dev/absent"], ["write", `${space}/enable`, "1"]),
      told(["write", `${space}/device_path`, device("disk")], ["write", `${space}/enable`, "1"]),
      told(["write", `${space}/device_path`, device("disk")]),
      await zfs("destroy", at("disk")),
      told(["rmdir", space], ["rmdir", subsystem]),
      await zfs("destroy", at("disk")),
    ];
  },
};

export const hostCases: Readonly<Record<string, HostCase>> = {
  ...zfsCases,
  ...toolCases,
  ...nfsCases,
  ...lioCases,
  ...nvmetCases,
};

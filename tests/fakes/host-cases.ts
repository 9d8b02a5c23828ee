import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { CommandRunner } from "../../lib/io/runner.ts";
import { type FakeZfs, inProcess } from "./zfs/pools.ts";

/** A storage host for cases: a model, or a real one. */
export interface CaseHost {
  readonly runner: CommandRunner;
  /** An existing file system, below which a case works. */
  readonly dataset: string;
  /** Folders that show the kernel's targets, its NVMe target, and the devices of zvols. */
  readonly lio: string;
  readonly nvmet: string;
  readonly devices: string;
}

/** What a case has observed, one line each, in the same words on every host. */
export type Sight = readonly string[];

/** One behaviour of the tools of a storage host, as csimux meets it. It leaves nothing behind. */
export type HostCase = (host: CaseHost) => Promise<Sight>;

/** The model of a host for a case. */
export const modelOf = (fake: FakeZfs, runner: CommandRunner): CaseHost => ({
  runner: inProcess(fake, runner),
  dataset: "tank/cases",
  lio: join(fake.folder, "lio"),
  nvmet: join(fake.folder, "nvmet"),
  devices: join(fake.folder, "dev"),
});

const { signal } = new AbortController();

/** The tools of a host, with their answers in words. */
function toolsOn({ runner, dataset, devices }: CaseHost) {
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
    /** Runs a tool over its standard input; returns only its exit code, because its texts vary. */
    async told(tool: "targetcli" | "nvmetcli", ...lines: readonly string[]): Promise<string> {
      const output = await runner.run({ argv: [tool], stdin: `${lines.join("\n")}\n`, timeoutMs: 120_000 }, signal);
      return `${tool} ended with ${output.exitCode}`;
    },
    async waitFor(path: string): Promise<void> {
      for (let n = 0; !existsSync(path) && n < 100; n++) await new Promise(resolve => setTimeout(resolve, 100));
    },
  };
}

const below = (path: string): readonly string[] => (existsSync(path) ? readdirSync(path).sort() : []);

/** zfs(8), as lib/drivers/zfs calls it. */
export const zfsCases: Readonly<Record<string, HostCase>> = {
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

/** targetcli and the kernel's target, as lib/drivers/zfs/targets/lio.ts uses them. */
export const lioCases: Readonly<Record<string, HostCase>> = {
  "a zvol that a backstore has opened is busy until the backstore is gone; a backstore takes its LUNs along":
    async host => {
      const { zfs, at, device, told, waitFor } = toolsOn(host);
      const [iqn, name] = ["iqn.2025-01.lab.csimux:case", "csimux-case"];
      const targets = () => below(join(host.lio, "iscsi")).filter(each => each === iqn);
      const stores = () => below(join(host.lio, "core")).flatMap(hba => below(join(host.lio, "core", hba)));
      const luns = () => below(join(host.lio, "iscsi", iqn, "tpgt_1/lun"));
      const own = () => stores().filter(each => each === name);
      await zfs("create", "-s", "-V", "64M", at("disk"));
      await waitFor(device("disk"));
      const seen = [
        await told(
          "targetcli",
          ...["cd /backstores/block", `create name=${name} dev=${device("disk")}`, "cd /iscsi", `create ${iqn}`],
          ...[`cd /iscsi/${iqn}/tpg1/luns`, `create /backstores/block/${name}`],
        ),
        `${targets()} ${own()} ${luns()}`,
        await zfs("destroy", at("disk")),
        await told(
          "targetcli",
          "cd /iscsi",
          `create ${iqn}`,
          "cd /backstores/block",
          `create name=${name} dev=/dev/absent`,
        ),
        `${targets()} ${own()} ${luns()}`,
        await told("targetcli", "cd /backstores/block", `delete ${name}`),
        `${targets()} ${own()} ${luns()}`,
        await told("targetcli", "cd /iscsi", `delete ${iqn}`),
        `${targets()} ${own()} ${luns()}`,
        await zfs("destroy", at("disk")),
      ];
      return seen;
    },
};

/** nvmetcli and the kernel's NVMe target, as lib/drivers/zfs/targets/nvmet.ts uses them. */
export const nvmetCases: Readonly<Record<string, HostCase>> = {
  "a zvol that an enabled namespace has opened is busy until its subsystem is gone": async host => {
    const { zfs, at, device, told, waitFor } = toolsOn(host);
    const nqn = "nqn.2025-01.lab.csimux:case";
    const stands = () => below(join(host.nvmet, "subsystems")).filter(each => each === nqn);
    await zfs("create", "-s", "-V", "64M", at("disk"));
    await waitFor(device("disk"));
    return [
      await told(
        "nvmetcli",
        ...["cd /subsystems", `create ${nqn}`, `cd /subsystems/${nqn}/namespaces`, "create 1"],
        ...[`cd /subsystems/${nqn}/namespaces/1`, `set device path=${device("disk")}`, "enable"],
      ),
      `${stands()} ${below(join(host.nvmet, "subsystems", nqn, "namespaces"))}`,
      await zfs("destroy", at("disk")),
      await told("nvmetcli", "cd /subsystems", `create ${nqn}`),
      await told("nvmetcli", "cd /subsystems", `delete ${nqn}`),
      `${stands()}`,
      await zfs("destroy", at("disk")),
    ];
  },
};

export const hostCases: Readonly<Record<string, HostCase>> = { ...zfsCases, ...lioCases, ...nvmetCases };

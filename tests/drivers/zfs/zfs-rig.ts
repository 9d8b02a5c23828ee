import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { safeParse } from "valibot";
import type { Driver, Source, Volume, VolumeSpec } from "../../../lib/drivers/driver.ts";
import type { ConnectionIdentity } from "../../../lib/drivers/module.ts";
import { zfs } from "../../../lib/drivers/zfs/module.ts";
import { openIscsi, openNvmeof } from "../../../lib/drivers/zfs/targets/open-targets.ts";
import { localRunner } from "../../../lib/io/local.ts";
import { localHost } from "../../../lib/io/local-host.ts";
import { CommandError } from "../../../lib/io/runner.ts";
import type { Script, Step, StorageHost } from "../../../lib/io/script.ts";
import type { DriverRig } from "../../contract/rig.ts";
import { commandsAfter } from "../../contract/steps.ts";
import { localPorts } from "../../fakes/ports.ts";
import { FakeSpdk } from "../../fakes/spdk.ts";
import { type FakeZfs, fakeZfs, inProcess } from "../../fakes/zfs/pools.ts";
import { handmade, theirs, unmarked, wholeState } from "./handmade.ts";

/** What a connection of a test has in addition to its parents. */
export interface ZfsOptions {
  readonly driver: string;
  /** SPDK makes the subsystems of zfs-generic-nvmeof, not the kernel. */
  readonly spdk?: boolean;
  /** More of the block of its strategy. */
  readonly strategy?: object;
  /** More of the block `iscsi`; for NFS, the whole block. */
  readonly section?: object;
  readonly zfs?: object;
  readonly instanceId?: string;
  readonly maxIdBytes?: number;
  /** The host that its file names, which is reached by ssh. */
  readonly ssh?: string;
  /** Programs are started, where otherwise the model runs in this process. */
  readonly programs?: true;
  /** Where the model of the host lies. */
  readonly folder?: string;
}

/** A rig that shows its pools. */
export interface ZfsRig extends DriverRig {
  readonly fake: FakeZfs;
  readonly spdk: FakeSpdk | undefined;
  /** A driver that reaches the pools through this host. */
  on(host: StorageHost): Driver;
  readonly host: StorageHost;
}

/** The host with each of its scripts run by `script`, whose `run` runs it, or another one. */
export const around = (
  host: StorageHost,
  script: (
    whole: Script,
    run: (other?: Script) => ReturnType<StorageHost["script"]>,
  ) => ReturnType<StorageHost["script"]>,
): StorageHost => ({
  ...host,
  script: (whole, signal) => script(whole, (other = whole) => host.script(other, signal)),
});

/** The block `zfs:` of inline volumes has one dataset. */
const parentsOf = (driver: string): object =>
  driver === "zfs-local-ephemeral-inline" ? { datasetParentName: parents.datasetParentName } : parents;

const parents = { datasetParentName: "tank/k/v", detachedSnapshotsDatasetParentName: "tank/k/s" };

const sections: Readonly<Record<string, object>> = {
  "zfs-generic-nfs": {
    nfs: {
      shareHost: "nas",
      shareStrategy: "setDatasetProperties",
      shareStrategySetDatasetProperties: { properties: { sharenfs: "rw" } },
    },
  },
  "zfs-generic-smb": {
    smb: {
      shareHost: "nas",
      shareStrategy: "setDatasetProperties",
      shareStrategySetDatasetProperties: { properties: { sharesmb: "on" } },
    },
  },
  "zfs-generic-iscsi": {
    iscsi: {
      targetPortal: "nas:3260",
      shareStrategy: "targetCli",
      shareStrategyTargetCli: {
        basename: "iqn.2024-01.org.example:storage",
        tpg: { attributes: { authentication: 1 }, auth: { userid: "node", password: "CHAPsecret12" } },
        block: { attributes: { emulate_tpu: 1 } },
      },
    },
  },
};

/** The block of what shares volumes. */
function sectionOf({ driver, section, strategy }: ZfsOptions): object | undefined {
  const block = driver === "zfs-generic-nfs" && section ? { nfs: section } : sections[driver];
  if (!(block && "iscsi" in block)) return block;
  const iscsi = block.iscsi as { readonly shareStrategyTargetCli: object };
  const shareStrategyTargetCli = { ...iscsi.shareStrategyTargetCli, ...strategy };
  return { iscsi: { ...iscsi, shareStrategyTargetCli, ...section } };
}

const basename = "nqn.2024-01.org.example:storage";

/** The block `nvmeof:` on the model of a host in `folder`. */
function nvmeof({ spdk, strategy }: ZfsOptions, folder: string): object {
  const reach = { transports: ["tcp://nas:4420", "tcp://nas2:4420"] };
  const subsystem = { attributes: { allow_any_host: 1 } };
  if (!spdk) {
    const kernel = { basename, ports: ["1", 2], subsystem, ...strategy };
    return { ...reach, shareStrategy: "nvmetCli", shareStrategyNvmetCli: kernel };
  }
  const shareStrategySpdkCli = {
    ...{ basename, subsystem, rpcSocket: join(folder, "spdk.sock"), configPath: join(folder, "spdk.json") },
    bdev: { type: "aio", attributes: { block_size: 512, readonly: "false" } },
    listeners: [{ trtype: "tcp", traddr: "10.0.0.5", trsvcid: 4420, adrfam: "ipv4" }],
    ...strategy,
  };
  return { ...reach, shareStrategy: "spdkCli", shareStrategySpdkCli };
}

/** Opens a driver as its module does, from the sections of a file. */
export function openZfs(options: ZfsOptions, host: StorageHost): Driver {
  const module = zfs.find(({ names }) => names.includes(options.driver));
  const quotas = /nfs|smb|dataset/.test(options.driver) ? { datasetEnableQuotas: true } : {};
  const { folder = "" } = options;
  const shared = options.driver === "zfs-generic-nvmeof" ? { nvmeof: nvmeof(options, folder) } : sectionOf(options);
  const reached =
    options.ssh === undefined ? {} : { sshConnection: { host: options.ssh, username: "root", password: "x" } };
  const config = { ...reached, ...shared, zfs: { ...parentsOf(options.driver), ...quotas, ...options.zfs } };
  if (!module?.open) throw new Error(`${options.driver} cannot be opened`);
  const parsed = safeParse(module.schema, config);
  if (!parsed.success) throw new Error(JSON.stringify(parsed.issues));
  const identity: ConnectionIdentity = {
    connection: "c1",
    driver: options.driver,
    instanceId: options.instanceId,
    maxIdBytes: options.maxIdBytes ?? 123,
  };
  const ports = localPorts(host.runner, host);
  const places = {
    lio: join(folder, "lio"),
    lioSaved: [join(folder, "lio-saveconfig.json")],
    lioLock: join(folder, "targetcli.lock"),
    nvmet: join(folder, "nvmet"),
    nvmetSaved: join(folder, "saved.json"),
    nvmetLock: join(folder, "nvmetcli.lock"),
    controllers: join(folder, "controllers"),
    connections: [join(folder, "tcp")],
    notes: folder,
    blocks: join(folder, "blocks"),
    udev: join(folder, "udev"),
    devices: join(folder, "dev"),
  };
  if (options.driver === "zfs-generic-iscsi") return openIscsi(identity, parsed.output as never, ports, places);
  if (options.driver === "zfs-generic-nvmeof") return openNvmeof(identity, parsed.output as never, ports, places);
  return module.open(identity, parsed.output as never, ports);
}

/** A host whose n-th step is the last: nothing after it has any effect, and its outcome is lost. */
function mortal(host: StorageHost, last: number, when: "before" | "after") {
  let count = 0;
  let dead = false;
  const lost = () => new CommandError("fake", "zfs", "lost", "the process was killed");
  const script = async (whole: Script, signal: AbortSignal) => {
    if (dead) throw lost();
    const left = last - count - (when === "before" ? 1 : 0);
    count += whole.steps.length;
    if (count < last) return host.script(whole, signal);
    dead = true;
    const [first, ...rest] = whole.steps.slice(0, left) as readonly Step[];
    if (first) await host.script({ ...whole, steps: [first, ...rest] }, signal);
    throw lost();
  };
  return { host: { ...host, script }, dead: () => dead };
}

/** What a command says that finds the pool, or the disk of its system, full. */
export const fullPool = "cannot do this: out of space\n";

const marker = "content.txt";

/** The block `nfs` of volumes behind an export above them, which is in `exported`. */
export const crossmnt = { shareHost: "nas", shareStrategy: "crossmnt" };
const usual =
  "rw,sync,wdelay,hide,crossmnt,secure,root_squash,no_all_squash,no_subtree_check,anonuid=65534,anongid=65534";

/** Sets what an administrator has exported, by exports(5). `changes`: options in place of others. */
export function exported(
  { folder }: Pick<FakeZfs, "folder">,
  places: readonly string[],
  changes: Readonly<Record<string, string>> = {},
): void {
  const options = usual.split(",").map(each => changes[each] ?? each);
  writeFileSync(join(folder, "etab"), places.map(place => `${place}\t10.0.0.0/8(${options})\n`).join(""));
}

/** Pools of the model, and drivers on them. */
export async function zfsRig(given: ZfsOptions): Promise<ZfsRig> {
  const fake = await fakeZfs();
  const options = { ...given, folder: fake.folder };
  const spdk = given.spdk ? await FakeSpdk.start(join(fake.folder, "spdk.sock")) : undefined;
  const local = localRunner({ env: { PATH: `${fake.bin}:/usr/sbin:/usr/bin:/sbin:/bin` } });
  const runner = given.programs ? local : inProcess(fake, local);
  const host = localHost(runner);
  const module = zfs.find(({ names }) => names.includes(given.driver));
  if (!module) throw new Error(`there is no ${given.driver}`);
  if (given.section === crossmnt) {
    fake.zfs("create", "-p", "tank/k/v");
    exported(fake, [fake.place("tank/k/v")]);
  }
  const place = (volume: Volume) => fake.place(`tank/k/v/${volume.id}`);
  return {
    facts: module.facts,
    fake,
    host,
    after: before => openZfs(options, localHost(commandsAfter(runner, before, fullPool))),
    foreign: handmade(fake, given.driver, spdk),
    on: other => openZfs(options, other),
    open: () => openZfs(options, host),
    dying(step, when) {
      const { host: dying, dead } = mortal(host, step, when);
      return { driver: openZfs(options, dying), dead };
    },
    async write(volume, text) {
      const path = place(volume);
      mkdirSync(path, { recursive: true });
      writeFileSync(join(path, marker), text);
    },
    async read(volume) {
      const path = join(place(volume), marker);
      return existsSync(path) ? readFileSync(path, "utf8") : undefined;
    },
    properties: {
      good: { compression: "zstd-3", "zfs.sync": "always" },
      bad: [
        { compression: "best" },
        { mountpoint: "/etc" },
        { sharenfs: "rw" },
        { "democratic-csi:managed_resource": "no" },
      ],
    },
    hostileSnapshots: [
      "a@",
      "@a",
      "a@b@c",
      "a/b/c",
      "../v@x",
      "pvc-1@a,b",
      "pvc-1@%",
      "pvc-1",
      "pvc-1/",
      "-r@x",
      "a@-r",
    ],
    remains: async () => [
      ...fake
        .with(pools => pools.all().map(({ name }) => name))
        .filter(name => !/^tank(?:\/k(?:\/[vs])?)?$/.test(name) && !name.startsWith(theirs)),
      ...fake.targets(),
      ...[...(spdk?.bdevs.keys() ?? []), ...(spdk?.subsystems.keys() ?? [])],
    ],
    state: async () => structuredClone([wholeState(fake), spdk?.bdevs, spdk?.subsystems]),
    // The driver cannot find targets that a person made on such hosts.
    ...(!/iscsi|nvmeof/.test(given.driver) && { unmark: async ({ id }) => unmarked(fake, `tank/k/v/${id}`) }),
    spdk,
    async close() {
      await spdk?.close();
      await fake.close();
    },
  };
}

/** The dataset of a volume. */
export const dataset = (id: string): string => `tank/k/v/${id}`;

/** The volume or snapshot of an id as a source. */
export const from = (id: string): Source => ({ kind: /[@/]/.test(id) ? "snapshot" : "volume", id });

export const withParameters = (spec: VolumeSpec, parameters: Record<string, string>): VolumeSpec => ({
  ...spec,
  parameters,
});

/** What a dataset itself has as a property. */
export const own = (rig: ZfsRig, name: string, key: string): string | undefined => rig.fake.find(name)?.own[key]?.value;

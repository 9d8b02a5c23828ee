import * as v from "valibot";
import { CsiError } from "../../../lib/core/errors.ts";
import type { Driver, Volume } from "../../../lib/drivers/driver.ts";
import { modules } from "../../../lib/drivers/index.ts";
import type { DriverModule } from "../../../lib/drivers/module.ts";
import type { StorageHost } from "../../../lib/io/script.ts";
import { sshConnection } from "../../../lib/schema/connecting.ts";
import { normalize } from "../../../lib/schema/normalize.ts";
import type { DriverRig } from "../../contract/rig.ts";
import { counted } from "../../contract/steps.ts";
import { localPorts } from "../../fakes/ports.ts";
import { type Double, type DoubleOptions, startDouble } from "../../fakes/truenas/double.ts";
import { tableNames } from "../../fakes/truenas/state.ts";
import { numberOf, type Version } from "../../fakes/truenas/versions.ts";
import { handmade } from "./foreign.ts";

/** Sections of a connection file, as a person writes them. */
export type Sections = Readonly<Record<string, unknown>>;

/** The sections that the drivers of each protocol need in addition to `httpConnection`. */
export const sections: Readonly<Record<"nfs" | "smb" | "iscsi" | "nvmeof", Sections>> = {
  nfs: { nfs: { shareHost: "nas", shareAllowedNetworks: [], shareAllowedHosts: [] } },
  smb: { smb: { shareHost: "nas" } },
  iscsi: {
    iscsi: { targetPortal: "nas:3260", targetGroups: [{ targetGroupPortalGroup: 1, targetGroupInitiatorGroup: 1 }] },
  },
  nvmeof: { nvmeof: { transports: ["tcp://nas:4420"], ports: [1] } },
};

export type Protocol = keyof typeof sections;

/** The protocols that a version has. */
export const protocolsOf = (version: Version): readonly Protocol[] =>
  numberOf(version) < 2510 ? ["nfs", "smb", "iscsi"] : ["nfs", "smb", "iscsi", "nvmeof"];

export const parent = "tank/k8s/v";

const filesystems = (protocol: Protocol): boolean => protocol === "nfs" || protocol === "smb";

export interface Opening {
  /** The key that the driver logs in with. */
  readonly key?: string;
  readonly username?: string;
  readonly zfs?: Sections;
  readonly more?: Sections;
  readonly connection?: string;
  readonly spelling?: "freenas" | "truenas";
  /** The system behind `copies.sshConnection`; the file has no such key where it is absent. */
  readonly host?: StorageHost;
  /** The name of that system in the file. */
  readonly machine?: string;
}

/** The module of a driver's name. */
export function moduleOf(name: string): DriverModule {
  const module = modules.find(each => each.names.includes(name));
  if (!module) throw new Error(`${name} cannot be opened`);
  return module;
}

/** A driver on a double, opened as from a connection file. */
export function openOn(
  double: Double,
  protocol: Protocol,
  {
    key = "1-secret",
    username,
    zfs,
    more,
    connection = "c1",
    spelling = "freenas",
    host,
    machine = "nas",
  }: Opening = {},
): Driver {
  const name = `${spelling}-api-${protocol}`;
  const module = moduleOf(name);
  const sized = filesystems(protocol) ? { datasetEnableQuotas: true } : {};
  const config = {
    httpConnection: { protocol: "http", host: "127.0.0.1", port: double.port, apiKey: key, username },
    zfs: { datasetParentName: parent, detachedSnapshotsDatasetParentName: "tank/k8s/s", ...sized, ...zfs },
    ...sections[protocol],
    ...more,
  };
  const copySsh = host && v.parse(sshConnection, { host: machine, username: "root", password: "x" });
  const identity = { connection, driver: name, instanceId: undefined, maxIdBytes: 100, copySsh };
  const { value } = normalize(module.schema, config, { env: () => undefined, file: () => undefined });
  return module.open(identity, v.parse(module.schema, value) as never, localPorts(neverRun, host));
}

/** What a test does with a driver and what it works on. */
export type Work = (driver: Driver, double: Double) => Promise<void>;

/** Runs `work` with a driver on a double of its own. */
export async function on(options: DoubleOptions, protocol: Protocol, work: Work, opening: Opening = {}): Promise<void> {
  const double = await startDouble(options);
  const driver = openOn(double, protocol, opening);
  try {
    await work(driver, double);
  } finally {
    await driver.close?.();
    await double.close();
  }
}

/** What is said when something is refused; the code "ok" when it is not. */
export async function refusal(work: Promise<unknown>): Promise<{ readonly code: string; readonly message: string }> {
  try {
    await work;
    return { code: "ok", message: "" };
  } catch (error) {
    if (error instanceof CsiError) return error;
    throw error;
  }
}

const neverRun = {
  where: "nowhere",
  run: () => Promise.reject(new Error("the API drivers run no program")),
};

/** Everything on a double, in words, except what every system has. */
export function remainsOf({ state }: Double): readonly string[] {
  const usual = new Set(["tank", "tank/k8s", parent, "tank/k8s/s", "tank/theirs"]);
  const rows = tableNames.flatMap(table => {
    if (table === "portal" || table === "initiator" || table === "iscsiAuth" || table === "nvmetPort") return [];
    return state.tables[table].map(
      row => `${table} ${JSON.stringify(row["name"] ?? row["path"] ?? row["paths"] ?? row.id)}`,
    );
  });
  const datasets = Object.keys(state.datasets).filter(name => !usual.has(name));
  return [...datasets, ...Object.keys(state.snapshots), ...rows].sort();
}

const datasetOf = (double: Double, { id }: Volume) => double.state.datasets[`${parent}/${id}`];

const changesDataset =
  /^(?:pool\.dataset|zfs\.resource|\w+\.snapshot|zfs\.resource\.snapshot)\.(?:delete|destroy|rename|update) \[\{?(?:"\w+":)?"([^"@]*)/;

/**
 * No method of the API changes or deletes something only if it is what was read (api/v25_10_0/pool_dataset.py, pool_snapshot.py of TS-25.10.6). So the
 * request before one must have read it, or the dataset of a snapshot.
 */
function isProved(about: string, before: string): boolean {
  const dataset = changesDataset.exec(about)?.[1];
  return dataset !== undefined && /^\S+\.query /.test(before) && new RegExp(`"${dataset}["@]`).test(before);
}

/** The rig of the contract suites on a double. */
export interface ApiRig extends DriverRig {
  readonly double: Double;
}

/** Starts a double, and drivers that reach it over the API alone. */
export async function truenasRig(protocol: Protocol, options: DoubleOptions, opening: Opening = {}): Promise<ApiRig> {
  const double = await startDouble(options);
  const opened: Driver[] = [];
  let mortals = 0;
  const open = (more: Opening = {}): Driver => {
    const driver = openOn(double, protocol, { ...opening, ...more });
    opened.push(driver);
    return driver;
  };
  return {
    double,
    facts: moduleOf(`${opening.spelling ?? "freenas"}-api-${protocol}`).facts,
    open,
    after(before) {
      const key = `${++mortals + 1}-watched`;
      double.accounts.addKey(key);
      double.faults.watch(key, counted(before));
      return open({ key });
    },
    unconditional: isProved,
    abandoned: /^(?:target|nvmetSubsys) "pvc-1-/,
    foreign: handmade(double, parent, open),
    dying(step, when) {
      const key = `${++mortals + 1}-mortal`;
      double.accounts.addKey(key);
      double.faults.kill(key, step, when);
      return { driver: open({ key }), dead: () => double.faults.killed(key) };
    },
    async write(volume, text) {
      const dataset = datasetOf(double, volume);
      if (dataset) dataset.content = text;
    },
    read: async volume => datasetOf(double, volume)?.content,
    remains: async () => remainsOf(double),
    state: async () => structuredClone([double.state.datasets, double.state.snapshots, double.state.tables]),
    async unmark(volume) {
      const dataset = datasetOf(double, volume);
      if (dataset) dataset.user = {};
    },
    properties: {
      good: { compression: "zstd-3", "zfs.sync": "always" },
      bad: [{ compression: "nonsense" }, { logbias: "latency" }, { refquota: "1" }, { "my:own": "x" }],
    },
    hostileSnapshots: ["@", "a@", "@b", "a@b@c", "a/b/c", "../v@x", "tank@x", "a@-b", "a/..", "%00@a", "a@%"],
    async close() {
      for (const driver of opened) await driver.close?.();
      await double.close();
    },
  };
}

import { safeParse } from "valibot";
import type { Driver } from "../../../lib/drivers/driver.ts";
import type { ConnectionIdentity } from "../../../lib/drivers/module.ts";
import { type IscsiConfig, openIscsi, synology } from "../../../lib/drivers/synology/module.ts";
import { synologyIscsiSchema } from "../../../lib/drivers/synology/schema.ts";
import { localRunner } from "../../../lib/io/local.ts";
import type { DriverRig } from "../../contract/rig.ts";
import { counted } from "../../contract/steps.ts";
import { type Dsm, startDsm } from "../../fakes/dsm/double.ts";
import { localPorts } from "../../fakes/ports.ts";
import { lunsByHand } from "./handmade.ts";

/** What a connection of a test has in addition to what all have. */
export interface DsmOptions {
  readonly version?: 6 | 7;
  readonly http?: object;
  readonly iscsi?: object;
  /** More of the block `nfs` or `smb`. */
  readonly folders?: object;
  readonly synology?: object;
  readonly identity?: Partial<ConnectionIdentity>;
}

/** Both halves of every LUN and target of the tests. */
const usual = {
  targetPortal: "10.0.0.51:3260",
  targetPortals: ["10.0.1.51:3260"],
  baseiqn: "iqn.2000-01.com.synology:Csi.",
  namePrefix: "k8s-",
  nameSuffix: "-x",
  lunTemplate: { type: "BLUN", dev_attribs: [{ dev_attrib: "can_snapshot", enable: 1 }] },
};

/** The sections of a connection file on a double, as they are after their check. */
export function configOf(dsm: Dsm, { http, iscsi, synology: block }: DsmOptions = {}): IscsiConfig {
  const file = {
    httpConnection: {
      protocol: "http",
      host: "127.0.0.1",
      port: dsm.port,
      username: "csi",
      password: "secret-pw",
      session: "csimux-test",
      ...http,
    },
    iscsi: { ...usual, ...iscsi },
    ...(block && { synology: block }),
  };
  const parsed = safeParse(synologyIscsiSchema, file);
  if (!parsed.success) throw new Error(JSON.stringify(parsed.issues));
  return parsed.output as IscsiConfig;
}

/** A driver of a test with its connection. */
export const identityOf = ({ identity }: DsmOptions = {}): ConnectionIdentity => ({
  connection: "c1",
  driver: "synology-iscsi",
  instanceId: undefined,
  maxIdBytes: 123,
  ...identity,
});

/** Opens a driver as its module does. */
export function openDsm(dsm: Dsm, options: DsmOptions = {}): Driver {
  const [module] = synology;
  if (!module?.open) throw new Error("the driver cannot be opened");
  const ports = localPorts(localRunner({ env: {} }));
  return module.open(identityOf(options), configOf(dsm, options) as never, ports);
}

/** The parts of a driver, apart. */
export const partsOf = (dsm: Dsm, options: DsmOptions = {}) => openIscsi(identityOf(options), configOf(dsm, options));

let accounts = 0;

/** An account of its own, whose requests end at the n-th, and whether it got there. */
function mortalAccount(dsm: Dsm, step: number, when: "before" | "after") {
  const username = `mortal-${accounts++}`;
  dsm.faults.kill(username, step, when);
  return { http: { username }, dead: () => dsm.faults.killed(username) };
}

/** A rig that shows its double. */
export interface DsmRig extends DriverRig {
  readonly dsm: Dsm;
}

/** Opens drivers, or the parts of some, on a new double, and closes all of them with it. */
async function onDouble<T>(
  options: DsmOptions,
  make: (dsm: Dsm, more: DsmOptions) => T,
  close: (one: T) => Promise<void> | undefined,
) {
  const dsm = await startDsm(options.version);
  const opened: T[] = [];
  const open = (http: object = {}): T => {
    const one = make(dsm, { ...options, http: { ...options.http, ...http } });
    opened.push(one);
    return one;
  };
  return {
    dsm,
    open,
    remains: async () => dsm.state.remains(),
    async close() {
      await Promise.all(opened.map(close));
      await dsm.close();
    },
  };
}

/** The rigs of the contracts of stores and shares, from the parts that `make` opens. */
export async function partsRig<T extends { readonly store: { readonly close?: (() => Promise<void>) | undefined } }>(
  make: (dsm: Dsm, more: DsmOptions) => T,
  options: DsmOptions = {},
) {
  const { dsm, open, ...rest } = await onDouble(options, make, ({ store }) => store.close?.());
  return {
    ...rest,
    open: () => open(),
    dying(step: number, when: "before" | "after") {
      const { http, dead } = mortalAccount(dsm, step, when);
      return { ...open(http), dead };
    },
  };
}

/** A double, and drivers on it; `more` says how their content and foreign objects are found. */
export async function rigOn(
  facts: DriverRig["facts"],
  options: DsmOptions,
  make: (dsm: Dsm, more: DsmOptions) => Driver,
  more: (dsm: Dsm) => Pick<DsmRig, "foreign" | "hostileSnapshots" | "state" | "unmark"> & {
    readonly contentOf: (context: Readonly<Record<string, string>>) => { content: string | undefined } | undefined;
  },
): Promise<DsmRig> {
  const { dsm, open, ...rest } = await onDouble(options, make, driver => driver.close?.());
  const { contentOf, ...own } = more(dsm);
  return {
    dsm,
    facts,
    ...rest,
    ...own,
    open: () => open(),
    after(before) {
      const username = `watched-${accounts++}`;
      dsm.faults.watch(username, counted(before));
      // By another name, so that the two share no lock in this process.
      return open({ username, host: "localhost" });
    },
    unconditional: about =>
      /\.Share (?:set|delete) |SharePrivilege save .*"rule":\[\]|Target delete |LUN set .*"new_name":"[^"]*\.del"/.test(
        about,
      ),
    dying(step, when) {
      const { http, dead } = mortalAccount(dsm, step, when);
      return { driver: open(http), dead };
    },
    async write({ context }, content) {
      const holder = contentOf(context);
      if (holder) holder.content = content;
    },
    read: async ({ context }) => contentOf(context)?.content,
  };
}

/** A double, and drivers for its LUNs. */
export function dsmRig(options: DsmOptions = {}): Promise<DsmRig> {
  const [module] = synology;
  if (!module) throw new Error("the driver cannot be opened");
  return rigOn(module.facts, options, openDsm, dsm => ({
    foreign: lunsByHand(dsm),
    contentOf(context) {
      const target = [...dsm.state.targets.values()].find(({ iqn }) => iqn === context["iqn"]);
      const mapped = target?.mapped.find(each => String(each.mapping_index) === context["lun"]);
      return mapped && dsm.state.luns.get(mapped.lun_uuid);
    },
    hostileSnapshots: [
      "/lun/",
      "/lun/x/y",
      "/lun/1/2",
      "/lun/../..",
      `/lun/${"0".repeat(36)}/${"0".repeat(36)}`,
      "/LUN/1/1",
    ],
    state: async () => structuredClone([dsm.state.luns, dsm.state.targets]),
  }));
}

import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import type { Mapping } from "../../../core/mapping.ts";
import type { StorageHost } from "../../../io/script.ts";
import { inUse } from "../../failure.ts";
import type { Programs } from "../cli/steps.ts";
import type { ExportedTarget } from "./exporter.ts";
import { type TargetState, type TargetTool, whileSame } from "./guard.ts";
import { refuseChanged } from "./note.ts";
import { type RpcAnswer, type RpcCall, type RpcSaving, rpcAnswers, rpcStep, type SpdkSocket } from "./spdk-rpc.ts";

/** How SPDK is used on a host. */
export interface SpdkHost extends SpdkSocket {
  /** As Programs.zfs. */
  readonly zfs: Programs["zfs"];
  /** As LioSettings.blocks. */
  readonly blocks: string;
  /** Where its configuration is saved; undefined: nowhere. */
  readonly configPath: string | undefined;
  readonly bdev: { readonly type: "uring" | "aio"; readonly attributes: Readonly<Record<string, string>> };
  readonly attributes: Readonly<Record<string, string>>;
  readonly listeners: readonly Readonly<Record<string, string>>[];
}

const booleans = new Set(["allow_any_host", "ana_reporting", "readonly", "fallocate"]);
const numbers = new Set(["block_size", "max_namespaces", "min_cntlid", "max_cntlid"]);

/** Attributes of a connection file with the types that SPDK takes. */
const typed = (attributes: Readonly<Record<string, string>>): Mapping =>
  Object.fromEntries(
    Object.entries(attributes).map(([key, value]) => {
      if (booleans.has(key)) return [key, /^(?:1|true|on|yes)$/i.test(value)];
      return [key, numbers.has(key) ? Number(value) : value];
    }),
  );

/** The calls that read a target. */
const readCalls = ({ qualifiedName }: ExportedTarget): readonly RpcCall[] => [
  { method: "bdev_get_bdevs", only: ["name", qualifiedName] },
  { method: "nvmf_get_subsystems", only: ["nqn", qualifiedName] },
];

const resultOf = (answer: RpcAnswer | undefined): unknown => (answer && "result" in answer ? answer.result : undefined);

/** The objects in a list; nothing for what is absent. Throws "internal" for anything else. */
function objects(value: unknown): readonly Mapping[] {
  const list = value ?? [];
  if (Array.isArray(list) && list.every(each => typeof each === "object" && each !== null)) return list;
  throw new CsiError("internal", "SPDK answers in a form that csimux does not know; see its version");
}

const listenerPart = (address: Readonly<Record<string, string>>): string =>
  `listener ${Object.values(address).join(" ")}`;

/** SPDK shows names such as "TCP" in its own spelling. */
const isAt = (shown: Mapping, wanted: Readonly<Record<string, string>>): boolean =>
  Object.entries(wanted).every(([key, value]) => String(shown[key]).toLowerCase() === value.toLowerCase());

const messageOf = (answers: readonly RpcAnswer[]): string => {
  const last = answers.at(-1);
  return last && "error" in last ? last.error.message.slice(0, 300) : "";
};

/** Makes, removes and proves subsystems of SPDK over its JSON-RPC. A subsystem and its block device have the same name. */
export function spdkTool(host: StorageHost, settings: SpdkHost): TargetTool {
  const { bdev, attributes, listeners, configPath } = settings;

  const saving = ({ qualifiedName: own }: ExportedTarget): RpcSaving | undefined =>
    configPath === undefined ? undefined : { file: configPath, own };

  function partsOf({ qualifiedName, device }: ExportedTarget, answers: readonly RpcAnswer[]): ReadonlySet<string> {
    const [disk] = objects(resultOf(answers[0]));
    const [subsystem] = objects(resultOf(answers[1]));
    const drivers = Object.values((disk?.["driver_specific"] ?? {}) as Mapping) as (Mapping | null)[];
    const path = drivers.map(each => each?.["filename"]).find(each => typeof each === "string");
    const parts = new Set<string>();
    if (disk) parts.add(path === device ? "device" : `foreign ${path ?? "of another kind"}`);
    if (subsystem) parts.add("subsystem");
    for (const { nsid, bdev_name: name } of objects(subsystem?.["namespaces"]))
      parts.add(nsid === 1 && name === qualifiedName ? "namespace" : `foreign ${name}`);
    const shown = objects(subsystem?.["listen_addresses"]);
    for (const each of listeners) if (shown.some(address => isAt(address, each))) parts.add(listenerPart(each));
    return parts;
  }

  /** `proved`: only if this zvol is still what it was, and its device leads to it. */
  async function ask(
    calls: readonly RpcCall[],
    call: Call,
    save?: RpcSaving,
    proved?: ExportedTarget,
  ): Promise<readonly RpcAnswer[]> {
    const zvol = proved && { device: proved.device, dataset: proved.dataset, blocks: settings.blocks };
    const step = rpcStep("ask", settings, calls, save, zvol);
    const outputs = await host.script({ steps: [proved ? whileSame(settings, proved, step) : step] }, call.signal);
    if (proved) refuseChanged(outputs, "ask");
    return rpcAnswers(outputs, "ask");
  }

  /** Throws "unavailable" with SPDK's reason for the call that it refuses, "failed-precondition" when a host is connected. */
  async function change(
    target: ExportedTarget,
    calls: readonly RpcCall[],
    call: Call,
    proved?: ExportedTarget,
  ): Promise<TargetState> {
    const answers = await ask([...calls, ...readCalls(target)], call, saving(target), proved);
    const last = calls[answers.length - 1];
    const message = messageOf(answers);
    const refused = `SPDK refused ${last?.method ?? "to show its targets"} for ${target.qualifiedName}: ${message}`;
    if (message !== "") throw new CsiError("unavailable", refused);
    const hosts = last?.empty ? objects(resultOf(answers.at(-1))).map(({ hostnqn }) => String(hostnqn)) : [];
    if (hosts.length > 0) throw inUse(`the subsystem ${target.qualifiedName}`, hosts);
    return { parts: partsOf(target, answers.slice(calls.length)) };
  }

  return {
    name: "spdk",
    own: ["subsystem", "device"],
    holder: "device",
    proofs: { make: ["namespace"], remove: ["namespace"] },
    complete: ["device", "subsystem", "namespace", ...listeners.map(listenerPart)],
    inspect: async (target, call) => ({ parts: partsOf(target, await ask(readCalls(target), call)) }),
    make(target, { parts }, call) {
      const { qualifiedName: nqn, device } = target;
      const calls: RpcCall[] = [];
      const params = { ...typed(bdev.attributes), name: nqn, filename: device };
      const namespace = { bdev_name: nqn, nsid: 1 };
      if (!parts.has("device")) calls.push({ method: `bdev_${bdev.type}_create`, params });
      if (!parts.has("subsystem"))
        calls.push({ method: "nvmf_create_subsystem", params: { ...typed(attributes), nqn } });
      if (!parts.has("namespace")) calls.push({ method: "nvmf_subsystem_add_ns", params: { nqn, namespace } });
      for (const listen_address of listeners.filter(each => !parts.has(listenerPart(each))))
        calls.push({ method: "nvmf_subsystem_add_listener", params: { nqn, listen_address } });
      return change(target, calls, call, target);
    },
    /** Asks for controllers first (SPDK 20.10, lib/nvmf/nvmf_rpc.c), and stops where a host is connected. */
    remove(target, { parts }, call) {
      const params = { nqn: target.qualifiedName };
      const calls: RpcCall[] = [];
      if (parts.has("subsystem")) {
        calls.push({ method: "nvmf_subsystem_get_controllers", params, empty: true });
        calls.push({ method: "nvmf_delete_subsystem", params });
      }
      if (parts.has("device")) calls.push({ method: `bdev_${bdev.type}_delete`, params: { name: params.nqn } });
      return change(target, calls, call);
    },
    async forget(target, call) {
      if (configPath !== undefined) await ask([], call, saving(target));
    },
    /** SPDK reads the size of a device again only on request. */
    async grow(target, bytes, call) {
      const rescan = { method: `bdev_${bdev.type}_rescan`, params: { name: target.qualifiedName } };
      const answers = await ask([rescan, ...readCalls(target)], call);
      const [disk] = objects(resultOf(answers[1]));
      const size = disk ? BigInt(Number(disk["block_size"])) * BigInt(Number(disk["num_blocks"])) : 0n;
      if (size >= bytes) return;
      const why = messageOf(answers) || "the device has the old size still";
      throw new CsiError("unavailable", `SPDK does not show the new size of ${target.qualifiedName}: ${why}`);
    },
  };
}

import { CsiError } from "../../../core/errors.ts";
import type { RpcAnswer, RpcCall } from "./spdk-rpc.ts";
import type { ExportedTarget } from "./target-share.ts";

/** What SPDK has of a target. */
export interface SpdkObjects {
  /** "device", "subsystem", "namespace"; "foreign" with a path for a device of this name that is another one. */
  readonly words: ReadonlySet<string>;
  /** Addresses that lead to it. */
  readonly listeners: readonly JsonObject[];
  /** The size of the device in bytes; undefined when there is none. */
  readonly size: bigint | undefined;
}

type JsonObject = Readonly<Record<string, unknown>>;

/** The calls that ask for it. */
export const lookCalls = ({ whole }: ExportedTarget): readonly RpcCall[] => [
  { method: "bdev_get_bdevs", only: ["name", whole] },
  { method: "nvmf_get_subsystems", only: ["nqn", whole] },
];

/**
 * Asks which hosts are connected to a subsystem, and ends the calls where one is. SPDK has the method since 20.10
 * (lib/nvmf/nvmf_rpc.c).
 */
export const controllersCall = ({ whole }: ExportedTarget): RpcCall => ({
  method: "nvmf_subsystem_get_controllers",
  params: { nqn: whole },
  empty: true,
});

/** The hosts that its answer names. */
export const hostsOf = (answer: RpcAnswer | undefined): readonly string[] =>
  objects(result(answer)).map(({ hostnqn }) => String(hostnqn));

/** The objects in a list; nothing for what is absent. Throws "internal" for anything else. */
function objects(value: unknown): readonly JsonObject[] {
  const list = value ?? [];
  if (Array.isArray(list) && list.every(each => typeof each === "object" && each !== null)) return list;
  throw new CsiError("internal", "SPDK answers in a form that csimux does not know; see its version");
}

const result = (answer: RpcAnswer | undefined): unknown => (answer && "result" in answer ? answer.result : undefined);

/** What they came to. Throws "internal" for answers that are not SPDK's. */
export function foundOf({ whole, device }: ExportedTarget, answers: readonly RpcAnswer[]): SpdkObjects {
  const [bdev] = objects(result(answers[0]));
  const [subsystem] = objects(result(answers[1]));
  const words = new Set<string>();
  const kinds = Object.values((bdev?.["driver_specific"] ?? {}) as JsonObject);
  const [path] = kinds.map(kind => (kind as JsonObject | null)?.["filename"]).filter(each => typeof each === "string");
  if (bdev) words.add(path === device ? "device" : `foreign ${path ?? "of another kind"}`);
  if (subsystem) words.add("subsystem");
  for (const { nsid, bdev_name: name } of objects(subsystem?.["namespaces"]))
    words.add(nsid === 1 && name === whole ? "namespace" : `foreign ${name}`);
  const size = bdev && BigInt(Number(bdev["block_size"])) * BigInt(Number(bdev["num_blocks"]));
  return { words, listeners: objects(subsystem?.["listen_addresses"]), size };
}

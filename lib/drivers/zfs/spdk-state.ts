import * as v from "valibot";
import { CsiError } from "../../core/errors.ts";
import type { RpcAnswer, RpcCall } from "./spdk-rpc.ts";
import type { Target } from "./target-share.ts";

/** What SPDK has of a target. */
export interface Found {
  /** "device", "subsystem", "namespace"; "foreign" with a path for a device of this name that is another one. */
  readonly words: ReadonlySet<string>;
  /** Addresses that lead to it. */
  readonly listeners: readonly Readonly<Record<string, string>>[];
  /** The size of the device in bytes; undefined when there is none. */
  readonly size: bigint | undefined;
}

const subsystems = v.array(
  v.object({
    namespaces: v.optional(v.array(v.object({ nsid: v.number(), bdev_name: v.optional(v.string(), "") })), []),
    listen_addresses: v.optional(v.array(v.record(v.string(), v.string())), []),
  }),
);

const devices = v.array(
  v.object({
    block_size: v.number(),
    num_blocks: v.number(),
    driver_specific: v.record(v.string(), v.unknown()),
  }),
);

const file = v.object({ filename: v.string() });

/** The calls that ask for it. */
export const lookCalls = ({ whole }: Target): readonly RpcCall[] => [
  { method: "bdev_get_bdevs", only: ["name", whole] },
  { method: "nvmf_get_subsystems", only: ["nqn", whole] },
];

/** Throws "internal" for an answer that is not SPDK's. */
function understood<S extends v.GenericSchema>(schema: S, value: unknown): v.InferOutput<S> {
  const parsed = v.safeParse(schema, value);
  if (parsed.success) return parsed.output;
  throw new CsiError("internal", `SPDK answers in a form that csimux does not know: ${v.getDotPath(parsed.issues[0])}`);
}

/** What they came to. */
export function foundOf({ whole, device }: Target, answers: readonly RpcAnswer[]): Found {
  const [bdevs, subsystem] = answers.map(each => ("result" in each ? each.result : []));
  const [own] = understood(devices, bdevs ?? []);
  const [shown] = understood(subsystems, subsystem ?? []);
  const words = new Set<string>();
  const paths = Object.values(own?.driver_specific ?? {}).flatMap(each => {
    const parsed = v.safeParse(file, each);
    return parsed.success ? [parsed.output.filename] : [];
  });
  if (own) words.add(paths.includes(device) ? "device" : `foreign ${paths[0] ?? "of another kind"}`);
  if (shown) words.add("subsystem");
  for (const { nsid, bdev_name } of shown?.namespaces ?? [])
    words.add(nsid === 1 && bdev_name === whole ? "namespace" : `foreign ${bdev_name}`);
  const size = own && BigInt(own.block_size) * BigInt(own.num_blocks);
  return { words, listeners: shown?.listen_addresses ?? [], size };
}

import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import type { StorageHost } from "../../../io/script.ts";
import { inUse } from "../../failure.ts";
import { awaitDevice, type ExportedTarget, isForeign, refuseForeign, refuseUnproved, type Targets } from "./share.ts";
import { type RpcAnswer, type RpcCall, rpcAnswers, rpcStep, type SpdkSocket } from "./spdk-rpc.ts";

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

/** How SPDK is used on a host. */
export interface SpdkHost extends SpdkSocket {
  /** The file that its configuration is saved in; undefined: it is not. */
  readonly configPath: string | undefined;
  readonly bdev: { readonly type: "uring" | "aio"; readonly attributes: Readonly<Record<string, string>> };
  readonly attributes: Readonly<Record<string, string>>;
  readonly listeners: readonly Readonly<Record<string, string>>[];
}

const booleans = new Set(["allow_any_host", "ana_reporting", "readonly", "fallocate"]);
const numbers = new Set(["block_size", "max_namespaces", "min_cntlid", "max_cntlid"]);

/** Attributes of a connection file as SPDK takes them. */
const typed = (attributes: Readonly<Record<string, string>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(attributes).map(([key, value]) => {
      if (booleans.has(key)) return [key, /^(?:1|true|on|yes)$/i.test(value)];
      return [key, numbers.has(key) ? Number(value) : value];
    }),
  );

/** Subsystems of SPDK, made, removed and proved over its JSON-RPC. A subsystem and its block device have the same name. */
export class SpdkTargets implements Targets {
  readonly #host: StorageHost;
  readonly #settings: SpdkHost;

  constructor(host: StorageHost, settings: SpdkHost) {
    this.#host = host;
    this.#settings = settings;
  }

  async make(target: ExportedTarget, standing: boolean, call: Call): Promise<void> {
    await awaitDevice(this.#host, target, call);
    await this.#host.exclusive("spdk", call.signal, async () => {
      const before = await this.#look(target, call);
      refuseForeign(target, before.words);
      if (before.words.has("subsystem")) refuseUnproved(target, standing || before.words.has("namespace"));
      const missing = this.#missing(target, before);
      if (missing.length > 0 || !standing) await this.#do(target, missing, call);
    });
  }

  remove(target: ExportedTarget, call: Call): Promise<void> {
    return this.#host.exclusive("spdk", call.signal, async () => {
      const { words } = await this.#look(target, call);
      if (isForeign(words, "device")) return;
      refuseForeign(target, words);
      const gone: RpcCall[] = [];
      if (words.has("subsystem")) {
        refuseUnproved(target, words.has("namespace"));
        gone.push(controllersCall(target), { method: "nvmf_delete_subsystem", params: { nqn: target.whole } });
      }
      if (words.has("device"))
        gone.push({ method: `bdev_${this.#settings.bdev.type}_delete`, params: { name: target.whole } });
      if (gone.length > 0) await this.#do(target, gone, call);
    });
  }

  /** SPDK looks at the size of a file only when it is told to. */
  grown(target: ExportedTarget, bytes: bigint, call: Call): Promise<void> {
    return this.#host.exclusive("spdk", call.signal, async () => {
      const rescan = { method: `bdev_${this.#settings.bdev.type}_rescan`, params: { name: target.whole } };
      const calls = [rescan, ...lookCalls(target)];
      const answers = await this.#ask(calls, call);
      const { size = 0n } = foundOf(target, answers.slice(1));
      if (size >= bytes) return;
      throw new CsiError(
        "unavailable",
        `SPDK does not show the new size of ${target.whole}: ${messageOf(answers) || "repeat the call"}`,
      );
    });
  }

  /** The calls that make what there is not. */
  #missing({ whole, device }: ExportedTarget, { words, listeners }: SpdkObjects): readonly RpcCall[] {
    const { bdev, attributes, listeners: wanted } = this.#settings;
    const calls: RpcCall[] = [];
    const params = { ...typed(bdev.attributes), name: whole, filename: device };
    if (!words.has("device")) calls.push({ method: `bdev_${bdev.type}_create`, params });
    if (!words.has("subsystem"))
      calls.push({ method: "nvmf_create_subsystem", params: { ...typed(attributes), nqn: whole } });
    if (!words.has("namespace"))
      calls.push({ method: "nvmf_subsystem_add_ns", params: { nqn: whole, namespace: { bdev_name: whole, nsid: 1 } } });
    for (const address of wanted.filter(each => !listeners.some(there => isAt(there, each))))
      calls.push({ method: "nvmf_subsystem_add_listener", params: { nqn: whole, listen_address: address } });
    return calls;
  }

  async #look(target: ExportedTarget, call: Call): Promise<SpdkObjects> {
    return foundOf(target, await this.#ask(lookCalls(target), call));
  }

  /**
   * Throws "unavailable" with what SPDK says when it refuses one of them, "failed-precondition" when a call ended them because a
   * host is connected.
   */
  async #do(target: ExportedTarget, calls: readonly RpcCall[], call: Call): Promise<void> {
    const answers = await this.#ask(calls, call, this.#settings.configPath);
    const said = messageOf(answers);
    const ended = calls[answers.length - 1];
    if (said === "" && ended?.empty) throw inUse(`the subsystem ${target.whole}`, hostsOf(answers.at(-1)));
    if (said === "") return;
    const method = calls[answers.length - 1]?.method;
    throw new CsiError("unavailable", `SPDK refused ${method} for ${target.whole}: ${said}; repeat the call`);
  }

  async #ask(calls: readonly RpcCall[], call: Call, save?: string): Promise<readonly RpcAnswer[]> {
    const step = rpcStep("ask", this.#settings, calls, save);
    return rpcAnswers(await this.#host.script({ steps: [step] }, call.signal), "ask");
  }
}

const messageOf = (answers: readonly RpcAnswer[]): string => {
  const last = answers.at(-1);
  return last && "error" in last ? last.error.message.slice(0, 300) : "";
};

/** SPDK shows names such as "TCP" in its own spelling. */
const isAt = (there: Readonly<Record<string, unknown>>, wanted: Readonly<Record<string, string>>): boolean =>
  Object.entries(wanted).every(([key, value]) => String(there[key]).toLowerCase() === value.toLowerCase());

import { CsiError } from "../core/errors.ts";
import type { NodeIdConfig, Prefixes } from "./config.ts";
import { nodeNameOf } from "./facts.ts";

/** The names of a node, each for a different purpose. */
export interface NodeIdentity {
  readonly nodeName?: string;
  readonly hostname?: string;
  /** iSCSI initiator name (RFC 3720). */
  readonly iqn?: string;
  /** NVMe host NQN (NVMe base specification). */
  readonly nqn?: string;
}

/** One of these names. */
export type NodeIdPart = keyof NodeIdentity;

/** NodeGetInfo: node_id has at most this many bytes; CSI asks to stay within 128 where possible. */
export const maxNodeIdBytes = 256;

const codes: readonly (readonly [NodeIdPart, string])[] = [
  ["nodeName", "n"],
  ["hostname", "h"],
  ["iqn", "i"],
  ["nqn", "v"],
];

const words = {
  hostname: "host name",
  iqn: "iSCSI initiator name",
  nqn: "NVMe host NQN",
};

/** `n=<name>/h=<host>/i<short>=<rest>/v<short>=<rest>`. Throws "failed-precondition" for a missing part or over 256 bytes. */
export function encodeNodeId(identity: NodeIdentity, config: NodeIdConfig): string {
  const id = codes
    .filter(([part]) => config.parts[part])
    .map(([part, code]) => {
      const value = partOf(identity, part);
      const { shortName, prefix } = longest(prefixesOf(config, part), value);
      return `${code}${shortName}=${escaped(value.slice(prefix.length))}`;
    })
    .join("/");
  const bytes = new TextEncoder().encode(id).length;
  if (bytes <= maxNodeIdBytes) return id;
  const text = `the node id would have ${bytes} bytes, CSI allows ${maxNodeIdBytes}; drop parts or add entries to nodeId.iqnPrefix and nodeId.nqnPrefix`;
  throw new CsiError("failed-precondition", text);
}

/** The name of a node for a purpose. Throws "failed-precondition" if it is unknown. */
function partOf(identity: NodeIdentity, part: NodeIdPart): string {
  if (part === "nodeName") return nodeNameOf({ nodeName: identity.nodeName });
  const value = identity[part];
  if (value) return value;
  const text = `this node's ${words[part]} is not known, but node ids need it (nodeId.parts.${part})`;
  throw new CsiError("failed-precondition", text);
}

/** Decodes a node id. A text without "=" is the plain node name of an older deployment. Throws "invalid-argument". */
export function decodeNodeId(id: string, config: Pick<NodeIdConfig, "iqnPrefixes" | "nqnPrefixes">): NodeIdentity {
  if (id === "") throw new CsiError("invalid-argument", "the node id is empty");
  if (!id.includes("=")) return { nodeName: id };
  const identity: { -readonly [part in keyof NodeIdentity]: NodeIdentity[part] } = {};
  for (const text of id.split("/")) {
    const equals = text.indexOf("=");
    if (equals < 1) throw malformed(id, `"${text}" has no "="`);
    const part = codes.find(([, code]) => code === text[0])?.[0];
    if (!part) continue;
    if (identity[part] !== undefined) throw malformed(id, `"${text[0]}" occurs twice`);
    const value =
      prefixFor(id, text.slice(1, equals), prefixesOf(config, part)) + unescaped(id, text.slice(equals + 1));
    if (value === "") throw malformed(id, `"${text}" has no value`);
    identity[part] = value;
  }
  return identity;
}

function prefixesOf(config: Pick<NodeIdConfig, "iqnPrefixes" | "nqnPrefixes">, part: NodeIdPart): Prefixes {
  if (part === "iqn") return config.iqnPrefixes;
  return part === "nqn" ? config.nqnPrefixes : [];
}

const longest = (prefixes: Prefixes, value: string): Prefixes[number] =>
  prefixes
    .filter(({ prefix }) => value.startsWith(prefix))
    .reduce((best, each) => (each.prefix.length > best.prefix.length ? each : best), { shortName: "", prefix: "" });

function prefixFor(id: string, shortName: string, prefixes: Prefixes): string {
  if (shortName === "") return "";
  const found = prefixes.find(each => each.shortName === shortName);
  if (found) return found.prefix;
  throw malformed(id, `no prefix with the short name "${shortName}" is configured`);
}

const escaped = (value: string): string => value.replaceAll("%", "%25").replaceAll("/", "%2F");

function unescaped(id: string, text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw malformed(id, `"%" in "${text}" is not followed by two hexadecimal digits`);
  }
}

const malformed = (id: string, why: string): CsiError =>
  new CsiError("invalid-argument", `"${id.slice(0, maxNodeIdBytes)}" is not a node id of csimux: ${why}`);

/** The iSCSI initiator name in an initiatorname.iscsi (open-iscsi): the first InitiatorName line; "#" begins a comment. */
export function initiatorName(text: string): string | undefined {
  for (const line of text.split(/\r?\n/)) {
    const [, name] = /^\s*InitiatorName\s*=\s*(\S+)\s*$/.exec(line.replace(/#.*/, "")) ?? [];
    if (name !== undefined) return name;
  }
  return undefined;
}

/** The NQN in a hostnqn file (nvme-cli): its only line. */
export const hostNqn = (text: string): string | undefined => text.trim() || undefined;

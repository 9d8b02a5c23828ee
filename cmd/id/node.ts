import { nodeIdSettings } from "../../lib/config/topology.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { isNodeName } from "../../lib/core/name.ts";
import { readMain, readMainText } from "../../lib/daemon/main-file.ts";
import { reasons } from "../../lib/schema/finding.ts";
import type { NodeIdConfig } from "../../lib/topology/config.ts";
import { decodeNodeId, encodeNodeId, type NodeIdentity } from "../../lib/topology/node-id.ts";
import type { Host } from "../host.ts";
import { visible } from "../terminal/terminal.ts";

/** A node's names, from flags. */
export interface NodeFlags {
  readonly config?: string;
  readonly nodeName?: string;
  readonly hostname?: string;
  readonly iqn?: string;
  readonly nqn?: string;
}

/** `csimux id encode node`: prints the id with which such a node registers. Returns the exit code. */
export const encodeNode = ({ config, ...identity }: NodeFlags, host: Host): Promise<number> =>
  guarded(host, false, async () => {
    checkNames(identity);
    host.out(`${encodeNodeId(identity, await settings(config, host))}\n`);
  });

const forms: readonly (readonly [keyof NodeIdentity, string, (text: string) => boolean, string])[] = [
  ["nodeName", "--node-name", isNodeName, "a DNS name in lower case, such as worker-1"],
  ["hostname", "--hostname", text => /^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/.test(text), "a host name"],
  [
    "iqn",
    "--iqn",
    text => /^(?:iqn\.[0-9]{4}-[0-9]{2}\.|eui\.|naa\.)\S+$/.test(text),
    "an initiator name, such as iqn.2005-03.org.example:w1",
  ],
  ["nqn", "--nqn", text => /^nqn\.\S+$/.test(text), "an NQN, such as nqn.2014-08.org.nvmexpress:uuid:…"],
];

/** Throws "invalid-argument" for an impossible name. */
function checkNames(identity: NodeIdentity): void {
  for (const [part, flag, holds, form] of forms) {
    const value = identity[part];
    if (value !== undefined && !holds(value))
      throw new CsiError("invalid-argument", `${flag} "${visible(value)}" is not ${form}`);
  }
}

/** `csimux id decode --kind node`: prints the names in a node id. Returns the exit code. */
export const decodeNode = (id: string, config: string | undefined, json: boolean, host: Host): Promise<number> =>
  guarded(host, json, async () => {
    const identity = decodeNodeId(id, await settings(config, host));
    host.out(json ? `${JSON.stringify({ kind: "node", ...identity })}\n` : inText(identity, id));
  });

const inText = (identity: NodeIdentity, id: string): string =>
  Object.entries({ kind: "node", ...identity, bytes: String(Buffer.byteLength(id)) })
    .map(([name, value]) => `${name.padEnd(10)}  ${visible(value)}\n`)
    .join("");

async function settings(file: string | undefined, host: Host): Promise<NodeIdConfig> {
  if (file === undefined) return nodeIdSettings(undefined);
  const text = await readMainText(file);
  const { config, diagnostics } = await readMain(file, text, { env: name => host.env[name], file: () => undefined });
  if (config) return config.nodeId;
  throw new CsiError("failed-precondition", reasons(diagnostics));
}

async function guarded(host: Host, json: boolean, work: () => Promise<void>): Promise<number> {
  try {
    await work();
    return 0;
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    const { code, message } = error;
    if (json) host.out(`${JSON.stringify({ error: { code: code.toUpperCase().replaceAll("-", "_"), message } })}\n`);
    else host.err(`csimux: ${message}\n`);
    return 1;
  }
}

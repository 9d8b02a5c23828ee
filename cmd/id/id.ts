import type { Command } from "commander";
import { CsiError } from "../../lib/core/errors.ts";
import { encodeHandle, type Handle, isConnectionName, maxHandleBytes } from "../../lib/core/handle.ts";
import { Handles } from "../../lib/mux/handles.ts";
import type { Host } from "../host.ts";
import { exit, visible } from "../terminal/terminal.ts";
import type { NodeFlags } from "./node.ts";

const kinds: readonly string[] = ["volume", "snapshot"];

interface EncodeOptions extends NodeFlags {
  readonly strict?: true;
  readonly output: string;
}

interface DecodeOptions {
  readonly config?: string;
  readonly output: string;
  readonly kind?: string;
  readonly legacyConnection?: string;
}

/** `csimux id encode KIND CONNECTION ID`, `csimux id encode node` and `csimux id decode ID`. */
export function addId(program: Command, host: Host): void {
  const id = program.command("id").description("encode and decode CSI ids");
  id.command("encode")
    .argument("<kind>", "volume, snapshot or node")
    .argument("[connection]", "volume, snapshot: name of the connection")
    .argument("[id]", "volume, snapshot: the driver's own id")
    .option("--strict", "fail if the result is longer than CSI allows (128 bytes)")
    .option("-o, --output <format>", "text or json", "text")
    .option("--config <file>", "node: the main file, for nodeId")
    .option("--node-name <name>", "node: its name in the cluster")
    .option("--hostname <name>", "node: its host name")
    .option("--iqn <iqn>", "node: its iSCSI initiator name")
    .option("--nqn <nqn>", "node: its NVMe host NQN")
    .description("print the CSI id (volume handle, snapshot handle or node id)")
    .action(async (kind: string, connection: string | undefined, real: string | undefined, options: EncodeOptions) => {
      exit(await encodeAny(kind, connection, real, options, host));
    });
  id.command("decode")
    .argument("<id>", "a volume handle (v:…) or snapshot handle (s:…); with --kind node, a node id")
    .option("-o, --output <format>", "text or json", "text")
    .option("--kind <kind>", "volume or snapshot: accept only that; node: read a node id")
    .option("--legacy-connection <name>", "the connection of ids without a prefix")
    .option("--config <file>", "node: the main file, for the prefixes of nodeId")
    .description("print the parts of a CSI id")
    .action(async (id: string, options: DecodeOptions) => exit(await decodeAny(id, options, host)));
}

async function encodeAny(
  kind: string,
  connection: string | undefined,
  real: string | undefined,
  { strict, output, ...flags }: EncodeOptions,
  given: Host,
): Promise<number> {
  if (output !== "text" && output !== "json") return usage(given, `--output must be text or json, not "${output}"`);
  const host = output === "json" ? { ...given, out: (text: string) => given.out(encoded(kind, text)) } : given;
  if (kind === "node") {
    if (connection !== undefined)
      return usage(host, "give a node's names with --node-name, --hostname, --iqn and --nqn");
    const { encodeNode } = await import("./node.ts");
    return encodeNode(flags, host);
  }
  if (connection === undefined || real === undefined) return usage(host, "encode needs a kind, a connection and an id");
  return encode(kind, connection, real, strict === true, host);
}

async function decodeAny(id: string, options: DecodeOptions, host: Host): Promise<number> {
  const { kind, output, config } = options;
  if (kind !== "node" || (output !== "text" && output !== "json")) return decode(id, options, host);
  const { decodeNode } = await import("./node.ts");
  return decodeNode(id, config, output === "json", host);
}

const encoded = (kind: string, text: string): string => `${JSON.stringify({ kind, id: text.trimEnd() })}\n`;

function encode(kind: string, connection: string, id: string, strict: boolean, host: Host): number {
  if (!isKind(kind)) return usage(host, `"${kind}" is neither volume, snapshot nor node`);
  try {
    const handle = encodeHandle({ kind, connection, id });
    const bytes = Buffer.byteLength(handle);
    if (bytes > maxHandleBytes) {
      const own = Buffer.byteLength(id);
      const room = maxHandleBytes - (bytes - Buffer.byteLength(connection));
      const what =
        room > 0
          ? `choose a connection name of at most ${room} bytes`
          : `no connection name is short enough, because the driver's own id alone has ${own} bytes`;
      host.err(`csimux: the id has ${bytes} bytes and CSI allows ${maxHandleBytes}: ${what}\n`);
      if (strict) return 1;
    }
    host.out(`${handle}\n`);
    return 0;
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    host.err(`csimux: ${error.message}\n`);
    return 1;
  }
}

function decode(text: string, options: DecodeOptions, host: Host): number {
  const { output, kind, legacyConnection } = options;
  if (output !== "text" && output !== "json") return usage(host, `--output must be text or json, not "${output}"`);
  if (legacyConnection !== undefined && !isConnectionName(legacyConnection))
    return usage(host, `--legacy-connection "${legacyConnection}" is not a connection name`);
  if (kind !== undefined && !isKind(kind)) return usage(host, `--kind must be volume, snapshot or node, not "${kind}"`);
  const handle = read(text, kind, legacyConnection);
  // No driver makes such an id: it could lead out of the folder of the volumes.
  if (!handle || handle.id.split("/").includes("..")) {
    const message = `"${output === "json" ? text : visible(text)}" is not a ${kind ?? "volume or snapshot"} handle of csimux (v:<connection>/<id> or s:<connection>/<id>)`;
    if (output === "json") host.out(`${JSON.stringify({ error: { code: "INVALID_ARGUMENT", message } })}\n`);
    else host.err(`csimux: ${message}\n`);
    return 1;
  }
  if (output === "json")
    host.out(`${JSON.stringify({ kind: handle.kind, connection: handle.connection, id: handle.id })}\n`);
  else
    host.out(
      `kind        ${handle.kind}\nconnection  ${handle.connection}\nid          ${visible(handle.id)}\nbytes       ${Buffer.byteLength(text)}\n`,
    );
  return 0;
}

function read(text: string, kind: Handle["kind"] | undefined, legacy: string | undefined): Handle | undefined {
  const handles = new Handles(() => legacy);
  // A prefix determines the kind; without one the text can only be a volume of the legacy connection.
  return handles.parse(text, kind ?? (text.startsWith("s:") ? "snapshot" : "volume"));
}

const isKind = (text: string): text is Handle["kind"] => kinds.includes(text);

function usage(host: Host, message: string): number {
  host.err(`csimux: ${message}\n`);
  return 2;
}

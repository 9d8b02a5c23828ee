import type { Command } from "commander";
import { CsiError } from "../lib/core/errors.ts";
import { encodeHandle, type Handle, maxHandleBytes, parseHandle } from "../lib/core/handle.ts";
import { exit } from "./exit.ts";
import type { Host } from "./host.ts";

const kinds: readonly string[] = ["volume", "snapshot"];

interface DecodeOptions {
  readonly output: string;
  readonly kind?: string;
  readonly legacyConnection?: string;
}

/** `csimux id encode KIND CONNECTION ID` and `csimux id decode HANDLE`. */
export function addId(program: Command, host: Host): void {
  const id = program.command("id").description("translate between CSI ids and what they name");
  id.command("encode")
    .argument("<kind>", "volume or snapshot")
    .argument("<connection>", "name of the connection")
    .argument("<id>", "the id that the real driver uses")
    .option("--strict", "fail when the result is longer than CSI allows (128 bytes)")
    .description("print the CSI id (volume handle or snapshot handle)")
    .action((kind: string, connection: string, real: string, options: { strict?: boolean }) =>
      exit(encode(kind, connection, real, options.strict === true, host)),
    );
  id.command("decode")
    .argument("<handle>", "a volume handle (v:…) or snapshot handle (s:…)")
    .option("-o, --output <format>", "text or json", "text")
    .option("--kind <kind>", "accept only a volume or only a snapshot")
    .option("--legacy-connection <name>", "the connection that ids without a prefix belong to")
    .description("print what a CSI id names")
    .action((handle: string, options: DecodeOptions) => exit(decode(handle, options, host)));
}

function encode(kind: string, connection: string, id: string, strict: boolean, host: Host): number {
  if (!isKind(kind)) return usage(host, `"${kind}" is neither volume nor snapshot`);
  try {
    const handle = encodeHandle({ kind, connection, id });
    const bytes = Buffer.byteLength(handle);
    if (bytes > maxHandleBytes) {
      host.err(`csimux: the id has ${bytes} bytes; CSI allows ${maxHandleBytes}. Choose a shorter connection name.\n`);
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
  const { output, kind } = options;
  if (output !== "text" && output !== "json") return usage(host, `--output is text or json, not "${output}"`);
  if (kind !== undefined && !isKind(kind)) return usage(host, `--kind is volume or snapshot, not "${kind}"`);
  const handle = read(text, kind, options.legacyConnection);
  if (!handle) {
    const message = `"${text}" is no ${kind ?? "volume or snapshot"} handle of csimux (v:<connection>/<id> or s:<connection>/<id>)`;
    if (output === "json") host.out(`${JSON.stringify({ error: { code: "INVALID_ARGUMENT", message } })}\n`);
    else host.err(`csimux: ${message}\n`);
    return 1;
  }
  if (output === "json")
    host.out(`${JSON.stringify({ kind: handle.kind, connection: handle.connection, id: handle.id })}\n`);
  else
    host.out(
      `kind        ${handle.kind}\nconnection  ${handle.connection}\nid          ${handle.id}\nbytes       ${Buffer.byteLength(text)}\n`,
    );
  return 0;
}

function read(text: string, kind: Handle["kind"] | undefined, legacy: string | undefined): Handle | undefined {
  const wanted: readonly Handle["kind"][] = kind ? [kind] : ["volume", "snapshot"];
  const handle = wanted.map(each => parseHandle(text, each)).find(found => found !== undefined);
  if (handle || legacy === undefined || text === "" || /^[vs]:/.test(text)) return handle;
  return { kind: kind ?? "volume", connection: legacy, id: text };
}

const isKind = (text: string): text is Handle["kind"] => kinds.includes(text);

function usage(host: Host, message: string): number {
  host.err(`csimux: ${message}\n`);
  return 2;
}

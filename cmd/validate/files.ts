import { constants, readdirSync, realpathSync, type Stats, statSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { unknownFolder } from "../../lib/config/proxy.ts";
import { errnoOf } from "../../lib/core/errors.ts";
import { readMain } from "../../lib/daemon/main-file.ts";
import { nameOf } from "../../lib/lint/document.ts";
import type { Input } from "../../lib/lint/input.ts";
import { connectionFolder, type Host } from "../host.ts";
import type { ValidateOptions } from "./options.ts";

/** An input that cannot be read; exit code 2. */
export class InputError extends Error {
  override readonly name = "InputError";
}

const isYaml = (name: string): boolean => /\.ya?ml$/.test(name);
const isCandidate = (name: string): boolean => /\.(?:ya?ml|json)$/i.test(name);

/** The files to check. */
export interface Inputs {
  readonly all: readonly Input[];
  /** The connection folder of the main file, if it is not on this machine. */
  readonly missingFolder: string | undefined;
}

/**
 * Reads everything that the command line names, and the connection folder of the main file, once each. A named connection file replaces
 * the one with its name in that folder. Throws InputError.
 */
export async function readInputs({ inputs, config, name }: ValidateOptions, host: Host): Promise<Inputs> {
  // A pipe such as <(sops -d proxy.yaml) can be read only once.
  const main = config === undefined ? undefined : ({ file: config, text: await textOf(config), role: "main" } as const);
  const named: Input[] = [];
  for (const input of inputs) named.push(...(await readable(input, () => expand(input, name, host))));
  const folder = main && (await readable(main.file, () => folderOf(main.file, main.text, host)));
  const given = new Set(named.filter(({ role }) => role === "given").map(each => each.name ?? nameOf(each.file)));
  const beside = (folder?.files ?? []).filter(({ file }) => !given.has(nameOf(file)));
  const all = new Map<string, Input>();
  for (const input of [...(main ? [main] : []), ...beside, ...named]) {
    const key = input.file === "-" ? "-" : resolve(input.file);
    if (!all.has(key)) all.set(key, input);
  }
  return { all: [...all.values()], missingFolder: folder?.missing };
}

/** Converts errors of the file system (a loop of links, a folder without permission) to InputError. */
async function readable<T>(input: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof InputError) throw error;
    const path = error instanceof Error && "path" in error ? String(error.path) : input;
    throw unreadable(path, error);
  }
}

function unreadable(file: string, error: unknown): InputError {
  return new InputError(`${file}: cannot be read (${errnoOf(error) ?? "unknown reason"})`);
}

/** Undefined for a link without a target or in a circle. */
function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if (errnoOf(error) === "ELOOP") return undefined;
    throw error;
  }
}

async function expand(input: string, name: string, host: Host): Promise<readonly Input[]> {
  if (input === "-") return [{ file: "-", text: await host.stdin(maxRead), role: "given", name }];
  const stat = statSync(input, { throwIfNoEntry: false });
  if (stat?.isDirectory()) {
    const found = walk(input, new Set());
    if (found.length === 0) throw new InputError(`${input}: no YAML or JSON file in this folder`);
    return textsOf(found);
  }
  if (stat) return [{ file: input, text: await textOf(input), role: "given" }];
  if (!/[*?[{]/.test(input)) throw new InputError(`${input}: no such file or folder`);
  // Imported only here, because Node 20 has no glob.
  const { glob } = await import("node:fs/promises");
  if (!glob) throw new InputError(`${input}: patterns need a newer runtime; name the files`);
  const matches: string[] = [];
  for await (const match of glob(input)) if (isCandidate(match) && statOf(match)?.isFile()) matches.push(match);
  if (matches.length === 0) throw new InputError(`${input}: no file matches`);
  return textsOf(matches.sort());
}

async function textsOf(files: readonly string[]): Promise<readonly Input[]> {
  const read: Input[] = [];
  for (const file of files) read.push({ file, text: await textOf(file), role: "found" });
  return read;
}

/** Files below a folder in a stable order, without hidden entries: Secret volumes keep their data behind such links. */
function walk(folder: string, seen: Set<string>): readonly string[] {
  const real = realpathSync(folder);
  if (seen.has(real)) return [];
  seen.add(real);
  return readdirSync(folder)
    .filter(name => !name.startsWith(".") && name !== "node_modules")
    .sort()
    .flatMap(name => {
      const path = join(folder, name);
      const stat = statOf(path);
      if (stat?.isDirectory()) return walk(path, seen);
      return stat?.isFile() && isCandidate(name) ? [path] : [];
    });
}

/** The files of the connection folder that the main file names, or its path if it is not on this machine. */
async function folderOf(config: string, text: string, host: Host) {
  const { partial: known } = await readMain(config, text, { env: name => host.env[name], file: () => undefined });
  if (!known || known.single !== undefined || known.configFolder === unknownFolder) return { files: [] };
  const { configFolder } = known;
  const folder = connectionFolder(configFolder, config);
  if (folder === undefined) return { files: [], missing: configFolder };
  const files = readdirSync(folder).filter(name => isCandidate(name) && !name.startsWith("."));
  const read: Input[] = [];
  for (const name of files.sort()) {
    const file = join(folder, name);
    read.push({ file, text: await textOf(file), role: isYaml(name) ? "connection" : "found" });
  }
  return { files: read };
}

/** The start of a larger file is enough to refuse it. */
const maxRead = 5 << 20;

/** How long a pipe or a device may stay silent, in milliseconds: a person may type a password for the program that writes into it. */
const silentMs = 30_000;
const pollMs = 20;

/** Reads at most `maxRead` bytes, also from what has no end or no size: a FIFO, a device, a file in /proc. Throws InputError. */
async function textOf(file: string): Promise<string> {
  try {
    const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      return await beginning(handle, (await handle.stat()).isFIFO());
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (error instanceof InputError) throw error;
    throw unreadable(file, error);
  }
}

async function beginning(handle: FileHandle, isPipe: boolean): Promise<string> {
  const chunks: Buffer[] = [];
  const buffer = Buffer.alloc(64 << 10);
  let bytes = 0;
  let silent = 0;
  while (bytes < maxRead) {
    const bytesRead = await readInto(handle, buffer);
    if (bytesRead > 0) {
      chunks.push(Buffer.from(buffer.subarray(0, bytesRead)));
      bytes += bytesRead;
      silent = 0;
      // A FIFO whose writer has not come yet looks like one whose writer has gone.
    } else if (bytesRead === 0 && !(isPipe && bytes === 0)) break;
    else if (silent > silentMs) throw Object.assign(new Error("silent"), { code: "ETIMEDOUT" });
    else {
      await pause(pollMs);
      silent += pollMs;
    }
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Reads the next bytes; -1 if they have not come yet. */
async function readInto(handle: FileHandle, buffer: Buffer): Promise<number> {
  try {
    return (await handle.read(buffer, 0, buffer.length, null)).bytesRead;
  } catch (error) {
    if (errnoOf(error) !== "EAGAIN") throw error;
    return -1;
  }
}

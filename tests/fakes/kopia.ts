import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";

/**
 * kopia(1) as far as csimux calls it, on a repository that is a folder (FAKE_KOPIA): one folder for each snapshot, and its manifest.
 * It takes commands of a connected configuration only, and only the token "good token". KOPIA_FAULT: "torn" makes snapshots of which
 * a part could not be read.
 */
const repository = process.env["FAKE_KOPIA"] ?? "";
const config = process.env["KOPIA_CONFIG_PATH"] ?? "";
const args = process.argv.slice(2);

interface Manifest {
  readonly id: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly rootEntry: { readonly mode: number };
  readonly [key: string]: unknown;
}

function fail(text: string): never {
  process.stderr.write(`${text}\n`);
  process.exit(1);
}

const manifests = (): readonly Manifest[] =>
  readdirSync(repository)
    .filter(name => name.endsWith(".json"))
    .map(name => JSON.parse(readFileSync(join(repository, name), "utf8")));

/** Values of a flag that may be repeated; the other words are the rest. */
function parsed(): { readonly tags: readonly string[]; readonly rest: readonly string[] } {
  const tags: string[] = [];
  const rest: string[] = [];
  for (let at = 2; at < args.length; at++) {
    if (args[at] === "--tags") tags.push(args[++at] ?? "");
    else if (!args[at]?.startsWith("--")) rest.push(args[at] ?? "");
  }
  return { tags, rest };
}

const tagsOf = (tags: readonly string[]): Record<string, string> =>
  Object.fromEntries(tags.map(tag => [`tag:${tag.slice(0, tag.indexOf(":"))}`, tag.slice(tag.indexOf(":") + 1)]));

function connect(): void {
  if (!args.includes("--token-stdin")) fail("token is missing");
  if (readFileSync(0, "utf8") !== "good token") fail("ERROR unable to parse token: invalid token");
  mkdirSync(repository, { recursive: true });
  writeFileSync(config, "connected");
}

function create(): void {
  const { tags, rest } = parsed();
  const path = rest[0] ?? fail("path is missing");
  if (!existsSync(path)) fail(`ERROR unable to get local filesystem entry: ${path}`);
  const id = Array.from({ length: 2 }, () => Math.random().toString(16).slice(2).padEnd(16, "0").slice(0, 16)).join("");
  cpSync(path, join(repository, id), { recursive: true, verbatimSymlinks: true });
  const numFailed = process.env["KOPIA_FAULT"] === "torn" ? 1 : 0;
  const source = { host: "csimux", userName: "csimux", path };
  const rootEntry = { mode: statSync(path).mode & 0o7777, summ: { size: 1, numFailed } };
  const manifest = { id, source, startTime: new Date().toISOString(), rootEntry, tags: tagsOf(tags) };
  writeFileSync(join(repository, `${id}.json`), JSON.stringify(manifest));
  process.stdout.write(JSON.stringify(manifest));
}

function list(): void {
  const wanted = Object.entries(tagsOf(parsed().tags));
  const found = manifests().filter(({ tags }) => wanted.every(([name, value]) => tags[name] === value));
  process.stdout.write(JSON.stringify(found));
}

function restore(): void {
  const [id = "", target = ""] = parsed().rest;
  const found = manifests().find(manifest => manifest.id.startsWith(id)) ?? fail("ERROR no snapshots matched");
  cpSync(join(repository, found.id), target, { recursive: true, verbatimSymlinks: true });
  chmodSync(target, found.rootEntry.mode);
}

function remove(): void {
  const [id = ""] = parsed().rest;
  const found = manifests().find(manifest => manifest.id === id) ?? fail("ERROR no snapshots matched");
  rmSync(join(repository, `${found.id}.json`));
  rmSync(join(repository, found.id), { recursive: true });
}

const commands: Readonly<Record<string, () => void>> = {
  "snapshot create": create,
  "snapshot list": list,
  "snapshot restore": restore,
  "snapshot delete": remove,
};

if (args[0] === "repository") connect();
else if (!existsSync(config)) fail("ERROR repository is not connected. See https://kopia.io/docs/repositories/");
else (commands[`${args[0]} ${args[1]}`] ?? (() => fail(`unknown command ${args.join(" ")}`)))();

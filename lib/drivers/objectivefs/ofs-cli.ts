import { Semaphore } from "../../core/semaphore.ts";
import { isSecretVariable } from "../../core/variables.ts";
import type { Argv, Command, CommandRunner, Output } from "../../io/runner.ts";
import { OfsError } from "./ofs-error.ts";

/** The keys of `objectivefs:`. */
export interface OfsSettings {
  /** The bucket of the volumes. */
  readonly pool: string;
  readonly sudo: boolean;
  /** The environment of the program, including keys and passphrase. */
  readonly env: Readonly<Record<string, string>>;
}

/** The number of concurrent programs of one connection: each opens its own connections to the object store. */
const atOnce = 4;

const listMs = 60_000;
const createMs = 60_000;
/** The program destroys a file system object by object. */
const destroyMs = 3_600_000;
/** A listing of many file systems, or a message about each destroyed object. */
const maxBytes = 64 * 1024 * 1024;

/** The store before a name: "minio://bucket/name". */
const scheme = /^[a-z0-9-]+:\/\//i;

/** The file systems of one pool, through mount.objectivefs. Its methods throw OfsError and CommandError. */
export class OfsCli {
  readonly #runner: CommandRunner;
  readonly #settings: OfsSettings;
  readonly #short = new Semaphore(atOnce);
  readonly #long = new Semaphore(atOnce);

  constructor(runner: CommandRunner, settings: OfsSettings) {
    this.#runner = runner;
    this.#settings = settings;
  }

  /**
   * The names of the pool's file systems, without the pool, in at least one of two listings. A listing has no end marker, so one
   * with missing lines would make a volume look deleted.
   */
  async all(signal: AbortSignal): Promise<readonly string[]> {
    const [one, other] = await Promise.all([this.list(signal), this.list(signal)]);
    return [...new Set([...one, ...other])];
  }

  /** The names of one listing, which may miss some. The program lists every bucket that the keys can access. */
  async list(signal: AbortSignal): Promise<readonly string[]> {
    const argv = ["list"];
    const output = await this.#short.run(() => this.#run({ argv, timeoutMs: listMs, maxBytes }, signal), signal);
    if (output.exitCode !== 0) throw refusal(output);
    return table(output.stdout)
      .filter(row => row["KIND"] === "ofs")
      .flatMap(row => this.#inPool(row["NAME"] ?? ""));
  }

  /** Creates a file system; succeeds if it exists. */
  async create(filesystem: string, signal: AbortSignal): Promise<void> {
    const argv = ["create", "-f", this.#path(filesystem)];
    const output = await this.#short.run(() => this.#run({ argv, timeoutMs: createMs }, signal), signal);
    if (output.exitCode === 0) return;
    if (output.exitCode === 1 && /filesystem already exists/i.test(output.stderr)) return;
    throw refusal(output);
  }

  /** Destroys a file system with its content; succeeds if it does not exist. The program reads a confirmation from stdin. */
  async destroy(filesystem: string, signal: AbortSignal): Promise<void> {
    const argv = ["destroy", this.#path(filesystem)];
    const command = { argv, stdin: "y\n", timeoutMs: destroyMs, maxBytes };
    const output = await this.#long.run(() => this.#run(command, signal), signal);
    if (output.exitCode === 0) return;
    const text = `${output.stdout}\n${output.stderr}`;
    if (output.exitCode === 68 && /does not look like an ObjectiveFS filesystem/i.test(text)) return;
    throw refusal(output);
  }

  #path(filesystem: string): string {
    return `${this.#settings.pool}/${filesystem}`;
  }

  #inPool(name: string): readonly string[] {
    const { pool, env } = this.#settings;
    const [store] = scheme.exec(name) ?? [];
    if (store !== undefined && scheme.test(env["OBJECTSTORE"] ?? "") && !env["OBJECTSTORE"]?.startsWith(store))
      return [];
    const [bucket, filesystem, ...rest] = name.slice(store?.length ?? 0).split("/");
    return bucket === pool && filesystem && rest.join("") === "" ? [filesystem] : [];
  }

  /** Keys are passed in the environment: sudo(8) preserves the named variables, and no command line shows a value. */
  async #run(
    { argv, ...more }: Omit<Command, "argv"> & { readonly argv: readonly string[] },
    signal: AbortSignal,
  ): Promise<Output> {
    const { sudo, env } = this.#settings;
    const program = "mount.objectivefs";
    const whole: Argv = sudo
      ? ["sudo", "-n", `--preserve-env=${Object.keys(env).join(",")}`, program, ...argv]
      : [program, ...argv];
    const secret = Object.entries(env).flatMap(([name, value]) =>
      isSecretVariable(name) && value !== "" ? [value] : [],
    );
    return await this.#runner.run({ ...more, argv: whole, env, secret }, signal);
  }
}

/** The rows of a listing by heading. Throws OfsError for any other or truncated output, which must not count as empty. */
function table(text: string): readonly Readonly<Record<string, string>>[] {
  const lines = text.split("\n").filter(line => line.trim() !== "");
  const cells = lines.map(line => line.split("\t").map(cell => cell.trim()));
  const [head = [], ...rows] = cells;
  if (!head.includes("NAME") || !head.includes("KIND"))
    throw new OfsError(0, "its listing has no columns NAME and KIND");
  if (!text.endsWith("\n") || rows.some(row => row.length !== head.length))
    throw new OfsError(0, "its listing ends in the middle of a line");
  return rows.map(row => Object.fromEntries(head.map((name, index) => [name, row[index] ?? ""])));
}

function refusal({ exitCode, stderr, stdout }: Output): OfsError {
  const lines = `${stdout}\n${stderr}`.split("\n").filter(line => line.trim() !== "");
  return new OfsError(exitCode, (lines.at(-1) ?? "").trim().slice(0, 300));
}

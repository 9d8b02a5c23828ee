import { afterEach, beforeEach } from "bun:test";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { KopiaSettings } from "../../../lib/drivers/directory/backups/kopia.ts";
import type { ResticSettings } from "../../../lib/drivers/directory/backups/restic.ts";
import type { DirectorySettings } from "../../../lib/drivers/directory/kinds.ts";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { localRunner } from "../../../lib/io/local.ts";
import type { CommandRunner } from "../../../lib/io/runner.ts";
import type { DriverRig } from "../../contract/rig.ts";
import { kopiaProgram } from "../../fakes/kopia.ts";
import { directoryRig, type OpenOptions, openOn, temporaryFolder } from "./directory-rig.ts";

/** A repository of a tool, empty at first, and what a connection needs to use it. */
export interface Repository {
  readonly folder: string;
  readonly runner: CommandRunner;
  readonly settings: Partial<DirectorySettings>;
}

/** The storage of a test: a new base folder, and repositories and drivers that are closed and removed after it. */
export function backupStorage() {
  let base = "";
  const repositories: Repository[] = [];
  const drivers: Driver[] = [];
  beforeEach(async () => {
    base = await temporaryFolder();
  });
  afterEach(async () => {
    for (const driver of drivers.splice(0)) await driver.close?.();
    for (const folder of [base, ...repositories.splice(0).map(each => each.folder)])
      await rm(folder, { recursive: true, force: true });
  });
  /** A driver on the storage, through `run`. */
  function through({ runner, settings }: Repository, run: CommandRunner["run"] = runner.run): Driver {
    const driver = openOn(base, { runner: { ...runner, run }, settings });
    drivers.push(driver);
    return driver;
  }
  /** The first driver of a repository. */
  async function opened(made: Promise<Repository>): Promise<Driver & { readonly repository: Repository }> {
    const repository = await made;
    repositories.push(repository);
    return Object.assign(through(repository), { repository });
  }
  return { base: () => base, through, opened };
}

const path = process.env["PATH"] ?? "/usr/bin:/bin";

/** The fake kopia as a program on PATH. */
export async function kopiaRepository(more: Partial<KopiaSettings> = {}): Promise<Repository> {
  const folder = await temporaryFolder();
  await mkdir(join(folder, "bin"));
  await writeFile(join(folder, "bin", "kopia"), kopiaProgram, { mode: 0o755 });
  await mkdir(join(folder, "repository"));
  await writeFile(join(folder, "mine.config"), "connected");
  const env = { FAKE_KOPIA: join(folder, "repository") };
  const kopia: KopiaSettings = { token: "good token", flags: [], tags: ["csi"], env, ...more };
  const runner = localRunner({ env: { PATH: `${join(folder, "bin")}:${path}` } });
  return { folder, runner, settings: { snapshotDriver: "kopia", kopia: { ...kopia, env: { ...env, ...more.env } } } };
}

/** A repository of the real kopia. */
async function realKopiaRepository(): Promise<Repository> {
  const folder = await temporaryFolder();
  const place = join(folder, "repository");
  const own = { KOPIA_CONFIG_PATH: join(folder, "mine.config"), KOPIA_CACHE_DIRECTORY: join(folder, "mine.cache") };
  const env = { KOPIA_LOG_DIR: join(folder, "logs"), KOPIA_CHECK_FOR_UPDATES: "false" };
  const password = "a secret word";
  execFileSync("kopia", ["repository", "create", "filesystem", "--path", place], {
    env: { ...process.env, ...own, ...env, KOPIA_PASSWORD: password },
    stdio: "ignore",
  });
  // What `kopia repository status --reconnect-token-with-password` prints (kopia 0.22.3, repo/token.go).
  const storage = { type: "filesystem", config: { path: place } };
  const token = Buffer.from(JSON.stringify({ version: "1", storage, password })).toString("base64url");
  const kopia: KopiaSettings = { token, flags: [], tags: ["csi"], env };
  return { folder, runner: localRunner({ env: { PATH: path } }), settings: { snapshotDriver: "kopia", kopia } };
}

/** A tool as a person calls it at the repository, with that person's tags; answers the id of the new backup. */
export async function backupBy(
  { folder, runner, settings }: Repository,
  tool: string,
  path: string,
  tags: readonly string[],
): Promise<string> {
  const { signal } = new AbortController();
  const run = async (words: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    (
      await runner.run(
        {
          argv: ["env", "-C", dirname(path), tool, ...words],
          env: { ...(settings.restic ?? settings.kopia)?.env, ...env },
        },
        signal,
      )
    ).stdout;
  if (tool === "restic") {
    const words = ["--host", "elsewhere", ...tags.flatMap(tag => ["--tag", tag])];
    // csimux names the folder itself, others its path.
    const what = tags.includes("source=csimux") ? basename(path) : path;
    const lines = (await run(["backup", "--json", ...words, what])).trim().split("\n");
    const { snapshot_id: begin } = JSON.parse(lines.at(-1) ?? "");
    return JSON.parse(await run(["snapshots", "--json", begin]))[0].id;
  }
  const env = { KOPIA_CONFIG_PATH: join(folder, "mine.config") };
  const pairs = tags.flatMap(tag => ["--tags", tag.includes("=") ? tag.replace("=", ":") : `${tag}:true`]);
  return JSON.parse(await run(["snapshot", "create", "--json", ...pairs, path], env)).id;
}

/** Whether restic is here; CI has it. */
export const hasRestic = hasTool("restic", "version");

/** Whether the real kopia is here. Debian has no package of it. */
const hasKopia = hasTool("kopia", "--version");

function hasTool(name: string, word: string): boolean {
  try {
    execFileSync(name, [word], { stdio: "ignore" });
    return true;
  } catch {
    process.stderr.write(`\n*** NOT RUN: ${name} is not installed ***\n\n`);
    return false;
  }
}

/**
 * What `restic init` makes (restic 0.14, repository version 2; restic's design document, "Repository Layout"), in base64, but with a key that
 * takes no time to derive (scrypt with N=2): that of a new repository takes a third of a second of a processor in each of hundreds of commands.
 */
const cheap = {
  config: [
    "mnqPzaUO52VTzXsMm/xev4A/V89kLRla6x5b5Udeya81A4OhZ0or9mcCeUJWiRdPQLk5Lh8a1MG0EA4fs8nME8mWMVGrEiqcwltMjTkbpgaDtDmYm7zP1kEO",
    "hqQE1XwNTwRGoa5xg5Z4cp26LhIMu3WdRY2Ud0dl4U4RgGbGlmqBQ9pPMOKqRqIY/Leo9NJlpQusfupw5PvkqFw=",
  ].join(""),
  key: [
    "eyJjcmVhdGVkIjoiMjAyNi0xMS0yNlQwMDowMDowMFoiLCJ1c2VybmFtZSI6InJvb3QiLCJob3N0bmFtZSI6ImV4YW1wbGUiLCJrZGYiOiJzY3J5cHQiLCJO",
    "IjoyLCJyIjoxLCJwIjoxLCJzYWx0IjoiVmJUazdpeTNZeHQvWmZtTklNNjlsd0Fmekc4KzRDeStTdDBQelJaZmowUDRUbUJQUzQvcDd5djZaWGNtSEt1OHF4",
    "QXVHcjB5cmt3VjlrVHUrUFovQnc9PSIsImRhdGEiOiJuV291VDcwQmpuK29uV2VoL3VCTkZ6bzBCTUZONUx1OStHMXgycWhobmhWbE02WjNJQkNtaUlHaE5B",
    "ZUNvN0trM3JkOEtpZTk2bjNWakN4Ry9Ca0dsUUhDU2lVcHpNeWwvWmxrTGN3OFg1a3EvaEk2dUFDL1FUWDc3Y0YxR0J6Vi80c3lscWp0YWFCdWtLNmdaMkw2",
    "a2lQVUJhMHRpOHZFSVdjL0xqVnBEL2pOdXh4UVk0ZENNa0JoQmJUbVJESGZqbjFGWWpJbzdScjI3d1FLZUVyWDh3PT0ifQ==",
  ].join(""),
};

/** A repository of the real restic in a folder, which is there already. */
export async function resticRepository(): Promise<Repository> {
  const made = await newResticRepository();
  const place = join(made.folder, "repository");
  for (const name of ["data", "index", "keys", "locks", "snapshots"])
    await mkdir(join(place, name), { recursive: true, mode: 0o700 });
  const [config, key] = [Buffer.from(cheap.config, "base64"), Buffer.from(cheap.key, "base64")];
  await writeFile(join(place, "config"), config);
  await writeFile(join(place, "keys", createHash("sha256").update(key).digest("hex")), key);
  return made;
}

/** A repository of the real restic in a folder that csimux has to make. */
export async function newResticRepository(): Promise<Repository> {
  const folder = await temporaryFolder();
  const env = { RESTIC_REPOSITORY: join(folder, "repository"), RESTIC_PASSWORD: "a secret word" };
  const restic: ResticSettings = { flags: ["--no-cache"], tags: ["csi"], prune: false, env };
  const runner = localRunner({ env: { PATH: path } });
  return {
    folder,
    runner,
    settings: { snapshotDriver: "restic", restic },
  };
}

/** What makes a repository of the fake kopia, and of the real one where that is here. */
export const kopias: readonly (readonly [string, () => Promise<Repository>, "kopia"])[] = [
  ["the fake kopia", kopiaRepository, "kopia"],
  ...(hasKopia ? [["kopia", realKopiaRepository, "kopia"] as const] : []),
];

/** The tools that are here, what makes a repository of each, and their names. */
export const backupTools: readonly (readonly [string, () => Promise<Repository>, "kopia" | "restic"])[] = [
  ...kopias,
  ...(hasRestic ? [["restic", resticRepository, "restic"] as const] : []),
];

/** The rig of directory drivers whose snapshots go to a repository; what is left there counts. */
export async function backupRig(
  { folder, runner, settings }: Repository,
  options: OpenOptions = {},
): Promise<DriverRig> {
  const rig = await directoryRig({ ...options, runner, settings: { ...options.settings, ...settings } });
  // Also a driver whose process was killed is closed: what kopia keeps for a process would stay otherwise.
  const opened: Driver[] = [];
  return {
    ...rig,
    open: () => {
      const driver = rig.open();
      opened.push(driver);
      return driver;
    },
    dying: (step, when) => {
      const dying = rig.dying(step, when);
      opened.push(dying.driver);
      return dying;
    },
    after: before => {
      const driver = rig.after(before);
      opened.push(driver);
      return driver;
    },
    // The content of a repository is named by its hash, so it cannot be created by hand under the same name.
    foreign: rig.foreign.filter(({ place }) => place !== "snapshot"),
    hostileSnapshots: ["k/", "k/..", "k/../../v/pvc-1", "k/0123456789abcdef0123456789abcdef", "k/-rf"],
    remains: async () => [...(await rig.remains()), ...(await readdir(join(folder, "repository")).catch(() => []))],
    close: async () => {
      for (const driver of opened) await driver.close?.();
      await rig.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

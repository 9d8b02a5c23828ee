import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SshSettings } from "../../../lib/io/ssh/settings.ts";
import { pause } from "../../waiting.ts";

/** What one sshd of a test is like. */
export interface SshdOptions {
  /** Login shell of the account; /bin/sh when absent. */
  readonly shell?: string;
  /** Text of a script that is the login shell. */
  readonly text?: string;
  /** Password of the account; without it only keys are accepted. */
  readonly password?: string;
  /** Environment that every session gets. */
  readonly env?: Readonly<Record<string, string>>;
  /** Where it listens; a free port of loopback when absent. */
  readonly at?: { readonly host: string; readonly port: number };
}

/** A real sshd, with keys and accounts of its own. */
export interface Sshd {
  readonly port: number;
  readonly pid: number;
  readonly folder: string;
  /** Public host key, "ssh-ed25519 AAAA...". */
  readonly hostKey: string;
  readonly clientKey: string;
  settings(change?: Partial<SshSettings>): SshSettings;
  /** The processes of its sessions: sshd's own, and what they started. */
  sessions(): readonly number[];
  stop(): Promise<void>;
}

/** A free port. */
export const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });

/** A new key pair; the private key's text and the public line without comment. */
export async function keyPair(folder: string, name: string, passphrase = ""): Promise<readonly [string, string]> {
  const path = join(folder, name);
  execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", passphrase, "-C", "", "-f", path]);
  return [await readFile(path, "utf8"), (await readFile(`${path}.pub`, "utf8")).trim()];
}

/** The account `storage` and root, with this password and shell, in files that only this sshd sees in place of those in /etc. */
async function accounts(folder: string, { shell = "/bin/sh", password }: SshdOptions): Promise<void> {
  const hash = password ? execFileSync("openssl", ["passwd", "-6", password], { encoding: "utf8" }).trim() : "*";
  const others = (await readFile("/etc/passwd", "utf8"))
    .split("\n")
    .filter(line => line !== "" && !/^root:/.test(line));
  await writeFile(join(folder, "passwd"), `root:x:0:0:root:${folder}:${shell}\n${others.join("\n")}\n`);
  await writeFile(join(folder, "shadow"), `root:${hash}:19000:0:99999:7:::\n`, { mode: 0o600 });
}

const unshared =
  'mount --bind "$1/passwd" /etc/passwd && mount --bind "$1/shadow" /etc/shadow && exec /usr/sbin/sshd -D -e -f "$1/sshd_config"';

export async function startSshd(options: SshdOptions = {}): Promise<Sshd> {
  const folder = await mkdtemp(join(tmpdir(), "csimux-sshd-"));
  const [, hostKey] = await keyPair(folder, "host");
  const [clientKey, clientPublic] = await keyPair(folder, "client");
  await chmod(folder, 0o755);
  await writeFile(join(folder, "authorized_keys"), `${clientPublic}\n`);
  const shell = join(folder, "shell");
  if (options.text !== undefined) await writeFile(shell, options.text, { mode: 0o755 });
  await accounts(folder, options.text === undefined ? options : { ...options, shell });
  await mkdir("/run/sshd", { recursive: true });
  const { host, port } = options.at ?? { host: "127.0.0.1", port: await freePort() };
  const env = Object.entries({ ...options.env, [sessionMark]: folder }).map(([name, value]) => `${name}=${value}`);
  const lines = [
    `Port ${port}`,
    `ListenAddress ${host}`,
    `HostKey ${folder}/host`,
    `AuthorizedKeysFile ${folder}/authorized_keys`,
    `PidFile ${folder}/pid`,
    "UsePAM no",
    "StrictModes no",
    "PermitRootLogin yes",
    "KbdInteractiveAuthentication no",
    `PasswordAuthentication ${options.password ? "yes" : "no"}`,
    `SetEnv ${env.map(each => `"${each}"`).join(" ")}`,
  ];
  await writeFile(join(folder, "sshd_config"), `${lines.join("\n")}\n`);
  const child = spawn("unshare", ["--mount", "sh", "-c", unshared, "sh", folder], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr?.on("data", chunk => {
    said += chunk;
  });
  await listening(child, () => said);
  const pid = child.pid ?? 0;
  return {
    port,
    pid,
    folder,
    hostKey,
    clientKey,
    settings: change => ({
      host,
      port,
      username: "root",
      privateKey: clientKey,
      hostKey,
      keepaliveInterval: 10_000,
      readyTimeout: 20_000,
      forceIPv4: false,
      forceIPv6: false,
      debug: false,
      ...change,
    }),
    sessions: () => descendants(pid),
    async stop() {
      for (const each of [...descendants(pid), pid]) signal(each, "SIGKILL");
      for (let left = ofSessions(folder); left.length > 0; left = ofSessions(folder)) {
        for (const each of left) signal(each, "SIGKILL");
        await pause(5);
      }
      if (child.exitCode === null && child.signalCode === null)
        await new Promise(resolve => child.once("exit", resolve));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Sends a signal to a process that may be gone. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It is gone.
  }
}

async function listening(child: ChildProcess, said: () => string): Promise<void> {
  const end = Date.now() + 30_000;
  while (!said().includes("Server listening")) {
    if (child.exitCode !== null || Date.now() > end) throw new Error(`sshd did not start: ${said()}`);
    await pause(5);
  }
}

/** The variable of sessions that names the folder of their sshd. */
const sessionMark = "CSIMUX_TEST_SSHD";

/** The processes of the sessions of an sshd, also those that have left it, as after the loss of their connection. */
const ofSessions = (folder: string): readonly number[] =>
  readdirSync("/proc").flatMap(name => {
    try {
      const isOne =
        /^\d+$/.test(name) && readFileSync(`/proc/${name}/environ`, "latin1").includes(`${sessionMark}=${folder}\0`);
      return isOne ? [Number(name)] : [];
    } catch {
      // It has ended meanwhile.
      return [];
    }
  });

/** All processes below one, by the parents in /proc. */
function descendants(pid: number): readonly number[] {
  const table = execFileSync("ps", ["-eo", "pid=,ppid="], { encoding: "utf8" })
    .trim()
    .split("\n")
    .map(line => line.trim().split(/\s+/).map(Number));
  const below = (parent: number): number[] =>
    table.filter(([, up]) => up === parent).flatMap(([each = 0]) => [each, ...below(each)]);
  return below(pid);
}

import { createHash } from "node:crypto";
import { mkdir, mkdtemp, open, readFile, readlink, rm, writeFile } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { quoted } from "../script.ts";
import { askpassVariable } from "./askpass.ts";
import { folderStart, removeLeftFolders, socketName } from "./left-folders.ts";
import { knownHostsText, type LoginFiles, trustsFirst } from "./options.ts";
import type { SshSettings } from "./settings.ts";

/** Candidate parent folders: in memory rather than on disk, if available. */
const folders = ["/dev/shm", tmpdir()];

/** The parents already searched for folders of killed processes. */
const swept = new Set<string>();

async function privateFolder(): Promise<string> {
  for (const parent of folders) {
    if (!swept.has(parent)) await removeLeftFolders(parent);
    swept.add(parent);
    const folder = await mkdtemp(join(parent, folderStart)).catch(() => undefined);
    if (folder !== undefined) return folder;
  }
  throw new Error(`cannot create a folder in ${folders.join(" or ")}`);
}

/**
 * The known_hosts file of a machine, for all its users, in a folder that only we may change; ssh(1) adds the first key.
 */
async function seenKeys({ host, port }: SshSettings, folder: string): Promise<string | undefined> {
  const name = createHash("sha256").update(`${host}:${port}`).digest("hex").slice(0, 32);
  const made = await mkdir(folder, { recursive: true, mode: 0o700 }).then(
    () => true,
    () => false,
  );
  return made ? join(folder, name) : undefined;
}

/**
 * The secret that answers a prompt of ssh(1). Any other prompt, such as the question about a host key, gets no answer.
 */
export function answerTo(prompt: string, { password, passphrase }: SshSettings): string | undefined {
  if (/^Enter passphrase for /.test(prompt)) return passphrase;
  return /password/i.test(prompt) ? password : undefined;
}

/**
 * The files of a host's logins, in a folder (mode 0700) that exists while the host is in use. It never contains the
 * private key, which is in an unnamed file that vanishes with this process, however it ends. Passwords are passed
 * through a socket.
 */
export class LoginFolder {
  readonly files: Omit<LoginFiles, "key">;
  readonly #settings: SshSettings;
  readonly #folder: string;
  readonly #server: Server;
  readonly #askpass: string;
  #logins = 0;

  private constructor(
    settings: SshSettings,
    folder: string,
    server: Server,
    askpass: string,
    seen: string | undefined,
  ) {
    this.#settings = settings;
    this.#folder = folder;
    this.#server = server;
    this.#askpass = askpass;
    this.files = { knownHosts: seen ?? join(folder, "known_hosts"), log: join(folder, "log") };
  }

  /**
   * `askpass` is the command that starts csimux again: its executable, in development with the path of the source.
   * `known`: a folder for host keys trusted on first use; undefined: they are forgotten when this process ends.
   */
  static async make(settings: SshSettings, askpass: readonly string[], known?: string): Promise<LoginFolder> {
    const seen = known !== undefined && trustsFirst(settings) ? await seenKeys(settings, known) : undefined;
    const expected = settings.hostKey ? knownHostsText(settings) : "";
    const folder = await privateFolder();
    const server = createServer(socket => answer(socket, settings));
    const [program = "", ...rest] = askpass;
    const script = join(folder, "askpass");
    const made = new LoginFolder(settings, folder, server, rest.length === 0 ? program : script, seen);
    try {
      if (seen === undefined) await writeFile(made.files.knownHosts, expected, { mode: 0o600 });
      if (rest.length > 0) {
        const text = `#!/bin/sh\nexec ${askpass.map(quoted).join(" ")} "$@"\n`;
        await writeFile(script, text, { mode: 0o700 });
      }
      await new Promise<void>((resolve, reject) => {
        server.once("error", reject);
        server.listen(join(folder, socketName), resolve);
      });
      server.unref();
      return made;
    } catch (error) {
      await made.remove();
      throw error;
    }
  }

  /** ssh's environment variables besides PATH and HOME. */
  get environment(): Readonly<Record<string, string>> {
    return {
      SSH_ASKPASS: this.#askpass,
      SSH_ASKPASS_REQUIRE: "force",
      [askpassVariable]: join(this.#folder, socketName),
    };
  }

  /**
   * Runs a login with the private key, if there is one, in a file that is unlinked before the key is written. ssh(1),
   * which closes inherited descriptors, opens it through this process (proc(5), /proc/pid/fd).
   */
  async withKey<T>(login: (files: LoginFiles) => Promise<T>): Promise<T> {
    const { privateKey } = this.#settings;
    if (!privateKey) return login({ ...this.files, key: undefined });
    const name = join(this.#folder, `key-${this.#logins++}`);
    const file = await open(name, "wx+", 0o600);
    try {
      await rm(name);
      await file.writeFile(`${privateKey.trim()}\n`);
      return await login({ ...this.files, key: `/proc/${await readlink("/proc/self")}/fd/${file.fd}` });
    } finally {
      await file.close();
    }
  }

  /** A file of its own for the messages of one login. */
  ownLog(): string {
    return join(this.#folder, `log-${this.#logins++}`);
  }

  /** What the client has written to the file since the last call. */
  async messages(log = this.files.log): Promise<string> {
    const text = await readFile(log, "utf8").catch(() => "");
    await rm(log, { force: true });
    return text;
  }

  async remove(): Promise<void> {
    await new Promise<void>(resolve => this.#server.close(() => resolve()));
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/** Reads one prompt on one line; sends one answer, or closes without one. */
function answer(socket: Socket, settings: SshSettings): void {
  let prompt = "";
  socket.setEncoding("utf8");
  socket.on("error", () => {});
  socket.on("data", chunk => {
    prompt += chunk;
    if (!prompt.includes("\n") && prompt.length < 4096) return;
    const word = answerTo(prompt, settings);
    if (word === undefined) socket.destroy();
    else socket.end(word);
  });
}

import { randomBytes } from "node:crypto";
import { masked } from "../../core/secrets.ts";
import { startChild } from "../child.ts";
import { type Argv, type Child, type ChildStreams, CommandError, type CommandFailure, type Output } from "../runner.ts";
import { quoted } from "../script.ts";
import type { LoginFolder } from "./login-folder.ts";
import { loginArgv } from "./options.ts";
import { refusal } from "./refusal.ts";
import { type SshSettings, secretsOf } from "./settings.ts";
import { sessionText } from "./worker.ts";

/** What a login of a child needs. */
export interface ChildLogin {
  readonly where: string;
  readonly settings: SshSettings;
  /** The environment of ssh itself. */
  readonly env: Readonly<Record<string, string>>;
  readonly folder: LoginFolder;
}

/** How much a login may print to stderr before the program runs, in bytes. */
const mostNoise = 64 * 1024;

/**
 * The command for the account's login shell, whichever it is: it gets only characters that every shell leaves alone between single
 * quotes, as octal numbers for printf(1) where necessary. The line `tag` on stderr says that the program is about to run.
 */
function remoteCommand(argv: Argv, tag: string): string {
  const text = [...sessionText, `printf '\\n%s\\n' ${tag} >&2`, `exec ${argv.map(quoted).join(" ")}`].join("\n");
  const harmless = /^[A-Za-z0-9_@%+=:,./ -]$/;
  const code = [...Buffer.from(text)]
    .map(byte => [String.fromCharCode(byte), byte] as const)
    .map(([character, byte]) => (harmless.test(character) ? character : `\\0${byte.toString(8).padStart(3, "0")}`));
  return `exec /bin/sh -c 'eval "$(printf %b "$1")"' csimux '${code.join("")}'`;
}

/**
 * Like StorageHost.child, in a login of its own. Rejects with LoginFailed if there is no login within the time of the settings. A child
 * whose connection is lost ends with CommandError "lost".
 */
export async function startRemoteChild(
  { where, settings, env, folder }: ChildLogin,
  argv: Argv,
  streams: ChildStreams,
  signal: AbortSignal,
): Promise<Child> {
  const fail = (failure: CommandFailure, reason: string, cause?: unknown) =>
    new CommandError(where, argv[0], failure, masked(reason, secretsOf(settings)), { cause });
  const tag = `csimux-${randomBytes(16).toString("hex")}`;
  const log = folder.ownLog();
  const begun = begin(tag, streams);
  return await folder.withKey(async files => {
    const login = loginArgv(settings, { ...files, log }, remoteCommand(argv, tag));
    const start = { argv: login, env: { ...env, ...folder.environment }, fail };
    const child = await startChild({ ...start, streams: { ...streams, stderr: begun.heard } }, signal);
    const late = setTimeout(begun.late, settings.readyTimeout, settings.readyTimeout);
    child.ended.then(begun.over, begun.failed);
    try {
      await begun.running;
    } catch (error) {
      await child.end();
      const said = await folder.messages(log);
      throw error instanceof CommandError ? error : refusal(settings, said, error);
    } finally {
      clearTimeout(late);
    }
    const ended = outcome(child, tag, () => folder.messages(log), fail);
    ended.catch(() => {});
    return { pid: child.pid, ended, end: child.end };
  });
}

/** Waits for the line that says that the program is about to run; what follows goes to the listener. */
function begin(tag: string, { stderr }: ChildStreams) {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let noise: Buffer | undefined = Buffer.alloc(0);
  return {
    running: promise,
    heard(chunk: Uint8Array): void {
      if (noise === undefined) {
        stderr?.(chunk);
        return;
      }
      noise = Buffer.concat([noise, chunk]);
      const at = noise.indexOf(`${tag}\n`);
      if (at < 0) {
        if (noise.length > mostNoise) reject(new Error("the login shell prints endlessly"));
        return;
      }
      const rest = noise.subarray(at + tag.length + 1);
      noise = undefined;
      resolve();
      if (rest.length > 0) stderr?.(rest);
    },
    late: (limitMs: number) => reject(new Error(`no shell answered within ${limitMs} ms`)),
    over: ({ exitCode, stderr: said }: Output) =>
      reject(new Error(`exit code ${exitCode}: ${said.trim().slice(-300)}`.replace(/: $/, ""))),
    failed: reject,
  };
}

/**
 * How a child ended that has run: the client exits with 255 when the connection is lost or a signal has ended the program (ssh(1), EXIT
 * STATUS), and does not always say why in its log.
 */
async function outcome(
  child: Child,
  tag: string,
  messages: () => Promise<string>,
  fail: (failure: CommandFailure, reason: string) => CommandError,
): Promise<Output> {
  try {
    const { stdout, stderr, exitCode } = await child.ended;
    const said = (await messages()).split(/[\r\n]+/).filter(line => line.trim() !== "" && !line.startsWith("debug"));
    const heard = stderr.slice(stderr.indexOf(tag) + tag.length + 1);
    if (exitCode !== 255) return { stdout, stderr: heard, exitCode };
    const last = said.at(-1) ?? heard.trim().split("\n").at(-1) ?? "";
    throw fail(
      "lost",
      `the connection was lost, or a signal ended the program: ${last.slice(0, 300)}`.replace(/: $/, ""),
    );
  } finally {
    await messages();
  }
}

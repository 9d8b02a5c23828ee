import { randomBytes } from "node:crypto";
import { chmodSync, linkSync, lstatSync, mkdirSync, rmSync, type Stats, unlinkSync } from "node:fs";
import { connect } from "node:net";
import { dirname } from "node:path";
import { CsiError, errnoOf } from "../core/errors.ts";

/** Why a socket of csimux cannot be reached, and what to do. `absent`: the question to a person if it does not exist. */
export function unreached(errno: string | undefined, absent: string): string {
  if (errno === "ENOENT") return `does not exist; ${absent}`;
  if (errno === "ECONNREFUSED") return "exists, but no process listens on it; has csimux stopped?";
  if (errno === "EACCES") return "is not accessible to this user; run this as the user that runs csimux";
  return errno === undefined ? "cannot be reached" : `cannot be reached (${errno})`;
}

/** A socket file created by this process. */
export interface SocketFile {
  /** Removes the file, unless another file has replaced it. */
  release(): void;
  /** Whether clients find it: the file was neither removed nor replaced. */
  isThere(): boolean;
}

/** The longest path in bytes that bind(2) accepts on Linux: sun_path of unix(7) without its final null byte. */
const maxPathBytes = 107;

const refused = (message: string, cause?: unknown): CsiError => new CsiError("failed-precondition", message, { cause });

const codeOf = (error: unknown): string => errnoOf(error) ?? "unknown";

const sameFile = (a: Stats | undefined, b: Stats): boolean => a?.ino === b.ino && a.dev === b.dev;

const look = (path: string): Stats | undefined => lstatSync(path, { throwIfNoEntry: false });

/**
 * Whether a process listens on the socket file. Throws if that cannot be determined, for example for lack of
 * permission.
 */
const answers = (path: string): Promise<boolean> =>
  new Promise((resolve, reject) => {
    const trial = connect({ path });
    trial.once("connect", () => {
      trial.destroy();
      resolve(true);
    });
    trial.once("error", error => {
      const code = codeOf(error);
      if (code === "ECONNREFUSED" || code === "ENOENT") resolve(false);
      else reject(refused(`cannot determine whether ${path} is in use (${code}); remove it if it is not`, error));
    });
  });

/**
 * The socket file at `path` that has no listener; undefined if there is none. Throws "failed-precondition" if another process listens on it,
 * or it is not a socket.
 */
export async function staleSocket(path: string): Promise<Stats | undefined> {
  const found = look(path);
  if (!found) return undefined;
  if (!found.isSocket()) throw refused(`${path} exists and is not a socket; move it or choose another endpoint`);
  if (await answers(path)) throw refused(`${path} is in use by another process; stop it or choose another endpoint`);
  return found;
}

/** Removes a socket file that has no listener; refuses to remove a live one or a file of another type. */
async function removeStale(path: string): Promise<void> {
  const found = await staleSocket(path);
  if (found && sameFile(look(path), found)) unlinkSync(path);
}

/** Creates a folder next to the socket that only this user can enter. */
function privateFolder(path: string): string {
  const parent = dirname(path);
  const folder = `${parent}/.${randomBytes(2).toString("hex")}`;
  const longest = Math.max(Buffer.byteLength(path), Buffer.byteLength(`${folder}/s`));
  if (longest > maxPathBytes) {
    throw refused(`the socket path ${path} is too long: it needs ${longest} of at most ${maxPathBytes} bytes`);
  }
  try {
    mkdirSync(folder, 0o700);
  } catch (error) {
    if (codeOf(error) === "ENOENT")
      throw refused(`the folder ${parent} of the socket does not exist; create it`, error);
    throw refused(`cannot create a socket in ${parent}: ${codeOf(error)}`, error);
  }
  return folder;
}

function publish(own: string, path: string): Stats {
  try {
    linkSync(own, path);
  } catch (error) {
    throw refused(`cannot create the socket ${path}: ${codeOf(error)}; is another process starting there?`, error);
  }
  return lstatSync(path);
}

/**
 * Creates the socket file `path` with the permissions `mode` (for example 0o600); `bind` must listen on the path that
 * it is given.
 *
 * The socket is bound inside a folder that only this user can enter, gets its mode there and is then hard-linked to
 * `path`. No client can therefore connect before the mode is set, and the umask of the process stays unchanged; two
 * starting processes cannot both take the path; and the runtime, which deletes the path that it bound when the server
 * closes, cannot delete a successor's file.
 *
 * Throws "failed-precondition" if the path is in use, not a socket or too long, or its folder is missing or not
 * writable.
 */
export async function putSocketFile(
  path: string,
  mode: number,
  bind: (path: string) => Promise<void>,
): Promise<SocketFile> {
  const folder = privateFolder(path);
  try {
    await removeStale(path);
    const own = `${folder}/s`;
    await bind(own).catch(error => {
      throw refused(`cannot listen on a socket in ${dirname(path)}: ${codeOf(error)}`, error);
    });
    chmodSync(own, mode);
    const placed = publish(own, path);
    const isThere = () => sameFile(look(path), placed);
    return {
      isThere,
      release: () => {
        if (isThere()) unlinkSync(path);
      },
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

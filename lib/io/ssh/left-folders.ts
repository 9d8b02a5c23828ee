import { lstat, readdir, rm } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";

/** The prefix of login folders, before six characters chosen by mkdtemp(3); up to 0.1 without "ssh-". */
export const folderStart = "csimux-ssh-";
const shape = /^csimux-(?:ssh-)?[A-Za-z0-9]{6}$/;

/** The name of the socket in such a folder on which its process answers ssh. */
export const socketName = "ask";

/** A folder younger than this, in milliseconds, may belong to a process that does not listen yet. */
const usualYoungMs = 60_000;

/**
 * Removes login folders of killed processes below `parent`: folders of this user whose sockets have no listener. The
 * socket decides, because process ids are meaningless across containers. Never rejects.
 */
export async function removeLeftFolders(parent: string, youngMs = usualYoungMs): Promise<void> {
  const names = await readdir(parent).catch(() => []);
  await Promise.all(
    names
      .filter(name => shape.test(name))
      .map(async name => {
        const folder = join(parent, name);
        if (await isLeft(folder, youngMs)) await rm(folder, { recursive: true, force: true }).catch(() => {});
      }),
  );
}

async function isLeft(folder: string, youngMs: number): Promise<boolean> {
  const paths = [folder, join(folder, socketName), "/proc/self/"];
  const [own, socket, me] = await Promise.all(paths.map(path => lstat(path).catch(() => undefined)));
  if (!own?.isDirectory() || own.uid !== me?.uid || !socket?.isSocket()) return false;
  return Date.now() - socket.ctimeMs > youngMs && !(await isListening(join(folder, socketName)));
}

const isListening = (path: string): Promise<boolean> =>
  new Promise(resolve => {
    const peer = connect(path);
    const end = (listening: boolean): void => {
      peer.destroy();
      resolve(listening);
    };
    peer.once("connect", () => end(true));
    peer.once("error", (error: NodeJS.ErrnoException) => end(error.code !== "ECONNREFUSED"));
  });

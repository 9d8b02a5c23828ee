import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { basename, dirname, resolve } from "node:path";
import type { Ssh } from "./ssh.ts";

/** The host's loopback address in a guest (QEMU's user network). */
const hostFromGuest = "10.0.2.2";

/** A file or folder of the host to copy, and its name in the guest if different. */
export interface Piece {
  readonly from: string;
  readonly name?: string;
}

function archive({ from, name }: Piece): readonly string[] {
  const path = resolve(from);
  const transform = name === undefined ? [] : [`--transform=flags=r;s|^${basename(path)}|${name}|`];
  return ["-c", "--dereference", ...transform, "-C", dirname(path), basename(path)];
}

/**
 * Copies files to a folder of a guest, which is created. The guest fetches a tar archive from a temporary port:
 * ssh encryption in the guest is three times slower. Throws if either side fails.
 */
export async function put(ssh: Ssh, piece: Piece, folder: string): Promise<void> {
  const server = createServer({ pauseOnConnect: true });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const sent = once(server, "connection").then(async ([socket]) => {
    const tar = spawn("tar", archive(piece), { stdio: ["ignore", "pipe", "inherit"] });
    tar.stdout.pipe(socket);
    const [code] = await once(tar, "close");
    if (code !== 0) throw new Error(`tar of ${piece.from} failed with code ${code}`);
  });
  const fetch = `mkdir -p "$1" && exec 3<>/dev/tcp/${hostFromGuest}/${port} && tar -x --no-same-owner -C "$1" <&3`;
  const received = ssh.run(["bash", "-c", fetch, "put", folder], { timeoutMs: 300_000 }).then(({ code, stderr }) => {
    if (code !== 0) throw new Error(`the guest did not get ${piece.from}: ${stderr.trim()}`);
  });
  try {
    await Promise.race([received, sent.then(() => received)]);
  } finally {
    server.close();
  }
}

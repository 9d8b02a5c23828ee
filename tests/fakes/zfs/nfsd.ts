import { chmodSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { usersText } from "../../../lib/drivers/zfs/cli/nfs.ts";
import type { Step } from "../../../lib/io/script.ts";
import { listOf, textOf } from "../vanishing.ts";

/**
 * The NFS server of a host as Linux shows it below /proc, in files below the folder of its pools (Linux 6.1, fs/nfsd/nfs4state.c and
 * net/sunrpc/cache.c).
 */

const contentOf = (folder: string): string => join(folder, "proc/net/rpc/nfsd.export/content");
const flushOf = (folder: string): string => join(folder, "proc/net/rpc/nfsd.export/flush");
const clientsOf = (folder: string): string => join(folder, "proc/fs/nfsd/clients");
const seconds = (): number => Math.floor(Date.now() / 1000);

/** A minor number for the device of each folder; the major one of file systems of ZFS is 0. */
const minorOf = (place: string): number =>
  [...place].reduce((sum, each) => (sum * 31 + each.charCodeAt(0)) & 0xffff, 7);
const inHex = (minor: number): string => `00:${minor.toString(16).padStart(2, "0")}`;

/** An NFSv4 client, and the folders in which it holds files open. */
export interface NfsClient {
  readonly id: number;
  readonly open: readonly string[];
  readonly status?: "confirmed" | "courtesy";
}

/** Sets the clients of a server, and the folders in which they hold files open. */
export function nfsClients(folder: string, clients: readonly NfsClient[]): void {
  rmSync(clientsOf(folder), { recursive: true, force: true });
  for (const { id, open, status = "confirmed" } of clients) {
    const path = join(clientsOf(folder), String(id));
    mkdirSync(path, { recursive: true });
    const name = `name: "Linux NFSv4.2 node-${id}"`;
    const head = ["clientid: 0x85eb22496b030478", `address: "10.0.0.${id}:975"`, `status: ${status}`];
    writeFileSync(
      join(path, "info"),
      [...head, "seconds from last renew: 230", name, "minor version: 2", ""].join("\n"),
    );
    const state = (place: string) =>
      `- 0x0000000178: { type: open, access: rw, deny: --, superblock: "${inHex(minorOf(place))}:2", filename: "a/file", owner: "x" }\n`;
    writeFileSync(join(path, "states"), open.map(state).join(""));
    writeFileSync(join(path, "ctl"), "");
  }
}

/** Puts folders into the export cache, as a request of a client does. `lastFlush`: in seconds from now. */
export function nfsCache(folder: string, places: readonly string[], lastFlush = -60): void {
  mkdirSync(join(folder, "proc/net/rpc/nfsd.export"), { recursive: true });
  writeFileSync(
    contentOf(folder),
    ["#path domain(flags)", ...places.map(each => `${each}\t*(rw,sec=1)`), ""].join("\n"),
  );
  writeFileSync(flushOf(folder), `${seconds() + lastFlush}\n`);
}

/** exportfs -f: what the cache holds goes, unless the moment of the flush is ahead of the clock (cache_flush, cache_clean). */
export function flushed(folder: string): void {
  if (!existsSync(flushOf(folder))) return;
  const moment = Math.max(seconds(), Number(textOf(flushOf(folder))) + 1);
  writeFileSync(flushOf(folder), `${moment}\n`);
  if (moment <= seconds()) writeFileSync(contentOf(folder), textOf(join(folder, "proc/active")));
}

/** Exports that ZFS has not made, as exportfs(8) keeps them. */
export const madeByHand = (folder: string): string => textOf(join(folder, "etab"));

/** Clients that are at work all the time bring back what they use. */
export function nfsActive(folder: string, places: readonly string[]): void {
  nfsCache(folder, places);
  writeFileSync(join(folder, "proc/active"), textOf(contentOf(folder)));
}

/** Whether the server keeps a folder from being unmounted. */
export function holdsExport(folder: string, place: string): boolean {
  const clients = clientsOf(folder);
  const states = listOf(clients).map(id => textOf(join(clients, id, "states")));
  const device = `superblock: "${inHex(minorOf(place))}:`;
  return textOf(contentOf(folder)).includes(`${place}\t`) || states.some(text => text.includes(device));
}

/** Writes the table of mounts with a folder in it (proc(5), mountinfo; Linux 6.1, fs/proc_namespace.c, show_mountinfo). */
export function mounted(folder: string, place: string): void {
  const path = join(folder, "proc/self");
  mkdirSync(path, { recursive: true });
  const escaped = place.replaceAll(/[\\ \t\n]/g, each => `\\${each.charCodeAt(0).toString(8).padStart(3, "0")}`);
  const row = (device: string, at: string) =>
    `36 35 ${device} / ${at} rw,relatime shared:1 - zfs ${at.slice(1)} rw,xattr\n`;
  writeFileSync(
    join(path, "mountinfo"),
    row("0:255", "/") + row(`0:${minorOf(place)}`, escaped) + row("0:254", `${escaped}-2`),
  );
}

/** Lets awk(1) in `bin` read the model's /proc, for shells that are processes of their own; `place` is in its table of mounts. */
export function nfsdForShells(folder: string, bin: string, place: string): void {
  mounted(folder, place);
  const path = join(bin, "awk");
  writeFileSync(
    path,
    `#!/bin/bash
words=()
for each in "$@"; do
  each=\${each//\\/proc\\//${folder}\\/proc\\/}
  case $each in *'/clients/*/states') words+=($each) ;; *) words+=("$each") ;; esac
done
/usr/bin/awk "\${words[@]}" | sed 's,${folder}/proc/,/proc/,'
`,
  );
  chmodSync(path, 0o755);
}

/** Asks as csimux does before it destroys a dataset; succeeds when there is a user, or when the folder is in the export cache. */
export const usersStep = (mountpoint: string, privileged: readonly string[]): Step => ({
  name: "users",
  argv: [
    "sh",
    "-c",
    `place=$1; shift\n${usersText}\n[ -n "$found" ] && printf '%s\\n' "$found"`,
    "sh",
    mountpoint,
    ...privileged,
  ],
  onFailure: "go-on",
});

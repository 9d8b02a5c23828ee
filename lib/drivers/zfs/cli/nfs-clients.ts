import type { Step } from "../../../io/script.ts";

/** Who uses a file system that a Linux host exports: what its NFS server shows. */

/** The folders that the server holds on to (net/sunrpc/cache.c). */
const table = "/proc/net/rpc/nfsd.export/content";
/** A folder for each NFSv4 client, with its "states" and "info" (Linux 5.3, fs/nfsd/nfs4state.c). */
const clientsFolder = "/proc/fs/nfsd/clients";
/** How many clients a message names. */
const named = 3;

/**
 * $1 is where it is mounted, the rest what comes before a privileged program. Open files are told by the number of their device,
 * two hexadecimal numbers (nfs4_show_superblock), which stat(1) of Linux has as one (new_encode_dev). The code of grep does not count:
 * among the files of a client is one that cannot be read.
 */
const usersText = `place=$1; shift
device=$(stat -c %d -- "$place" 2>/dev/null) &&
  device=$(printf '%02x:%02x:' $((device >> 8 & 4095)) $((device & 255 | device >> 12 & 1048320))) || device=none
found=$("$@" grep -rsF -m 1 -e "$place	" -e "superblock: \\"$device" -- ${table} ${clientsFolder})
[ -n "$found" ] && printf '%s\\n' "$found"`;

/** Looks for who uses an exported file system: ends with code 0 when there is somebody, or when the server holds on to it. */
export const usersStep = (mountpoint: string, privileged: readonly string[]): Step => ({
  name: "users",
  argv: ["sh", "-c", usersText, "sh", mountpoint, ...privileged],
  onFailure: "go-on",
});

/** What is known of clients by their folders. */
export function infoStep(clients: readonly string[], privileged: readonly string[]): Step {
  const files = clients.slice(0, named).map(client => `${client}/info`);
  const [program = "grep", ...words] = [...privileged, "grep", "-sE", "^(address|name|status|seconds)", "--", ...files];
  return { name: "info", argv: [program, ...words, "/dev/null"], onFailure: "go-on" };
}

/** The folders of the NFSv4 clients that hold files of it open, from what the step "users" printed: a file, a colon and a line of it. */
export const clientsIn = (text: string): readonly string[] => [
  ...new Set(text.split("\n").flatMap(line => /^(\/proc\/fs\/nfsd\/clients\/\d+)\/states:/.exec(line)?.[1] ?? [])),
];

/** The message for what is in use. `info`: what the step "info" printed. */
export function inUse(mountpoint: string, clients: readonly string[], info: string): string {
  const all = clients.slice(0, named).map(client => described(client, linesOf(client, info)));
  const more = clients.length > named ? ` and ${clients.length - named} more` : "";
  return `NFS clients hold files in ${mountpoint} open: ${all.join("; ")}${more}`;
}

const linesOf = (client: string, info: string): ReadonlyMap<string, string> =>
  new Map(
    info
      .split("\n")
      .filter(line => line.startsWith(`${client}/info:`))
      .map(line => line.slice(client.length + 6).split(/: (.*)/, 2))
      .map(([key = "", value = ""]) => [key, value.slice(0, 100)]),
  );

/** One that the server has not heard of keeps its files open as "courtesy" until it is needed or a day is over (Linux 5.19). */
function described(client: string, info: ReadonlyMap<string, string>): string {
  const who = `${info.get("name") ?? client} at ${info.get("address") ?? "an unknown address"}`;
  if (info.get("status") !== "courtesy") return who;
  const seconds = info.get("seconds from last renew") ?? "some";
  return `${who}, not heard of for ${seconds} s (when it is gone for good: echo expire > ${client}/ctl)`;
}

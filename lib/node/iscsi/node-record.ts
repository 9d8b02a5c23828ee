import { readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { CsiError, errnoOf } from "../../core/errors.ts";
import type { Attributes, Portal, Target } from "./target.ts";

// The node records of open-iscsi, which csimux reads and changes as files.

/** The folders of open-iscsi's node records: /etc on Debian and others by build option, /var/lib since 2.1.9. */
const folders = ["etc/iscsi/nodes", "var/lib/iscsi/nodes"];

/**
 * The file of open-iscsi's node record of a portal of a target, readable by root only. Undefined if there is none. A record whose portal group
 * was not discovered is one file for all interfaces, with the one that was written last (open-iscsi 2.1.8, usr/idbm.c, idbm_rec_write).
 */
export async function recordFile(root: string, target: Target, portal: Portal): Promise<string | undefined> {
  for (const folder of folders) {
    const below = join(root, folder, target.iqn);
    for (const name of await readdir(below).catch(() => [])) {
      if (!isOf(name, portal)) continue;
      const found = join(below, name);
      const file = (await stat(found).catch(() => undefined))?.isDirectory() ? join(found, target.iface) : found;
      if ((await stat(file).catch(() => undefined))?.isFile()) return file;
    }
  }
  return undefined;
}

/** Whether a file name "<address>,<port>[,<tpgt>]" is for this portal. */
const isOf = (name: string, { host, port }: Portal): boolean => {
  const [address, itsPort] = name.split(",");
  return address?.replaceAll(/[[\]]/g, "").toLowerCase() === host && itsPort === String(port);
};

/** The value of an attribute of a record; empty if missing. */
export async function attributeOf(file: string, name: string): Promise<string> {
  const line = (await readFile(file, "utf8")).split("\n").find(each => each.startsWith(`${name} = `));
  return line?.slice(name.length + 3).trim() ?? "";
}

/** The interface of a record. */
export const interfaceOf = async (file: string): Promise<string> =>
  (await attributeOf(file, "iface.iscsi_ifacename")) || "default";

/** Begins the comment by which csimux knows its sessions. iscsiadm skips comments (open-iscsi 2.1.8, usr/idbm.c, idbm_recinfo_config). */
const mark = "# opened by csimux in boot ";

/** The id of the boot in which csimux opened a session with this record; undefined without its comment, or if that is for another interface. */
export async function markedBoot(file: string, { iface }: Target): Promise<string | undefined> {
  const line = (await readFile(file, "utf8")).split("\n").find(each => each.startsWith(mark));
  return line !== undefined && (await interfaceOf(file)) === iface ? line.slice(mark.length).trim() : undefined;
}

/**
 * Sets attributes in the record file itself: iscsiadm accepts a password only as an argument, which every process of
 * the node can read. Adds csimux's comment for this boot, or removes it. Writes a new file, readable by root only, and
 * renames it. Throws "failed-precondition".
 */
export async function changeRecord(file: string, attributes: Attributes, boot: string | undefined): Promise<void> {
  const beside = `${file}.csimux`;
  try {
    const text = await readFile(file, "utf8");
    const replaced = [...Object.keys(attributes).map(name => `${name} =`), mark];
    const kept = text.split("\n").filter(line => !replaced.some(start => line.startsWith(start)));
    const end = kept.findIndex(line => line.startsWith("# END RECORD"));
    const lines = Object.entries(attributes).map(([name, value]) => `${name} = ${value}`);
    if (boot !== undefined) lines.push(`${mark}${boot}`);
    const at = end < 0 ? kept.length : end;
    await writeFile(beside, [...kept.slice(0, at), ...lines, ...kept.slice(at)].join("\n"), { mode: 0o600 });
    await rename(beside, file);
  } catch (cause) {
    // iscsiadm takes every file there for a record.
    await rm(beside, { force: true }).catch(() => {});
    const reason = errnoOf(cause) ?? "unknown reason";
    throw new CsiError("failed-precondition", `cannot write open-iscsi's node record ${file} (${reason})`, { cause });
  }
}

/** Matches a line of a record that is the same for all portals of a target; names and addresses are not. */
const common = /^(node\.(?:session|conn\[0\]\.(?:timeo|iscsi))\.[^ ]+) = (.+)$/;

/** The attributes of a record that apply to every portal; undefined for a record that belongs to the host. */
export async function commonAttributes(file: string): Promise<Attributes | undefined> {
  if ((await attributeOf(file, "node.startup")) !== "manual") return undefined;
  const found = (await readFile(file, "utf8")).split("\n").map(line => common.exec(line));
  const pairs = found.flatMap(match => (match?.[1] && match[2] ? [[match[1], match[2]] as const] : []));
  return { ...Object.fromEntries(pairs), "node.startup": "manual" };
}

import { readdir, readFile, rename, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { errnoOf } from "../../core/errno.ts";
import { CsiError } from "../../core/errors.ts";
import type { Portal, Target } from "./target.ts";

/** The folders of open-iscsi's node records: /etc on Debian and others by build option, /var/lib since 2.1.9. */
const folders = ["etc/iscsi/nodes", "var/lib/iscsi/nodes"];

/** Attributes of a node record by their names (iscsiadm(8), "node.session.auth.username"). */
export type Attributes = Readonly<Record<string, string>>;

/** The file of open-iscsi's node record of a portal of a target, readable by root only. Undefined if there is none. */
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

/**
 * Sets attributes in the record file itself: iscsiadm accepts a password only as an argument, which every process of
 * the node can read. Writes a new file, readable by root only, and renames it. Throws "failed-precondition".
 */
export async function setAttributes(file: string, attributes: Attributes): Promise<void> {
  try {
    const text = await readFile(file, "utf8");
    const kept = text.split("\n").filter(line => !Object.keys(attributes).some(name => line.startsWith(`${name} =`)));
    const end = kept.findIndex(line => line.startsWith("# END RECORD"));
    const lines = Object.entries(attributes).map(([name, value]) => `${name} = ${value}`);
    const at = end < 0 ? kept.length : end;
    const beside = `${file}.csimux`;
    await writeFile(beside, [...kept.slice(0, at), ...lines, ...kept.slice(at)].join("\n"), { mode: 0o600 });
    await rename(beside, file);
  } catch (cause) {
    const reason = errnoOf(cause) ?? "unknown reason";
    throw new CsiError("failed-precondition", `cannot write open-iscsi's node record ${file} (${reason})`, { cause });
  }
}

/** Matches a line of a record that is the same for all portals of a target; names and addresses are not. */
const common = /^(node\.(?:session|conn\[0\]\.(?:timeo|iscsi))\.[^ ]+) = (.+)$/;

/**
 * The attributes of a record that apply to every portal of its target; undefined for a record that belongs to the host.
 */
export async function commonAttributes(file: string): Promise<Attributes | undefined> {
  if ((await attributeOf(file, "node.startup")) !== "manual") return undefined;
  const found = (await readFile(file, "utf8")).split("\n").map(line => common.exec(line));
  const pairs = found.flatMap(match => (match?.[1] && match[2] ? [[match[1], match[2]] as const] : []));
  return { ...Object.fromEntries(pairs), "node.startup": "manual" };
}

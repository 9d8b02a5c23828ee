import { waitFor } from "../run.ts";
import { onSecond } from "../second.ts";
import { type Machine, shell } from "./copies-rig.ts";

// The second guest loses power when several copies have each come to a step of their own. A program in the place of zfs holds a command there.

/** The program outlives a loss of power; what it holds, and where, does not. */
const folder = "/root/csimux-power";
const rules = "/run/csimux-power";

/** Lines of the block `zfs` of a connection to the second guest, whose commands can be held. */
export const heldZfs = ["  cli:", "    paths:", `      zfs: ${folder}/zfs`];

/** Each rule may run the command itself, and then calls `reached`, which returns only after `letGo`. */
const program = `#!/bin/sh
zfs=/usr/sbin/zfs
reached() { : >"${rules}/$1.reached"; until [ -e "${rules}/$1.over" ]; do sleep 0.5; done; }
for rule in ${rules}/*.sh; do [ ! -e "$rule" ] || . "$rule"; done
exec "$zfs" "$@"
`;

/** Puts the program into the second guest, durably. */
export const installHolding = (): Promise<string> =>
  shell(onSecond, `mkdir -p ${folder} && printf %s "$1" >${folder}/zfs && chmod 755 ${folder}/zfs && sync`, program);
/** Removes it. */
export const removeHolding = (): Promise<string> => onSecond(["rm", "-rf", folder, rules]);

/** What happens with a command of zfs; "*" stands for any of its words. */
const rule = (words: string, action: string): string =>
  `case " $* " in *" ${words.replaceAll("*", '"*"')} "*) ${action};; esac`;

/** After a command has succeeded. */
export const after = (words: string, name: string): string =>
  rule(words, `"$zfs" "$@"; code=$?; [ "$code" != 0 ] || reached ${name}; exit "$code"`);

/** After the record of a copy says that it is finished. */
export const afterNote = (record: string, name: string): string =>
  rule(
    `set csimux:copy=* ${record}`,
    `if printf %s "\${2#csimux:copy=}" | tr _- /+ | base64 -d 2>/dev/null | grep -q '"state":"finished"'; then
"$zfs" "$@" && reached ${name}; fi`,
  );

/** The size of the part of a stream that gets through, in bytes. */
const part = 8 << 20;

/** When a part of a stream has left. */
export const inSending = (snapshot: string, name: string): string =>
  rule(`send -L * ${snapshot}*`, `"$zfs" "$@" | { head -c ${part}; reached ${name}; }; exit`);

/** When a part of a stream has arrived and half of it is on the disk. `receive` is the command; its last word is $last. */
export const inReceiving = (dataset: string, name: string, receive = '"$zfs" "$@"'): string =>
  rule(
    `receive * ${dataset}@*`,
    `for last; do :; done; { head -c ${part}
until [ "$("$zfs" get -Hpo value used ${dataset} 2>/dev/null </dev/null || echo 0)" -gt ${part / 2} ]; do sleep 0.5; done
reached ${name}; } | ${receive}; exit`,
  );

/** Likewise, but the dataset has no properties yet, which ZFS sets in a transaction of their own (module/zfs/zfs_ioctl.c, zfs_ioc_recv_impl). */
export const inReceivingUnmarked = (dataset: string, name: string): string =>
  inReceiving(dataset, name, '"$zfs" receive -u -s "$last"');

/** Holds a step from now on. */
export const hold = (name: string, text: string): Promise<string> =>
  shell(
    onSecond,
    `mkdir -p ${rules} && printf %s "$2" >${rules}/"$1".new && mv ${rules}/"$1".new ${rules}/"$1".sh`,
    name,
    text,
  );

/** Lets the command of a step end. */
export const letGo = (name: string): Promise<string> => onSecond(["touch", `${rules}/${name}.over`]);

/** Prints the steps that are reached, as soon as they are others than the given ones; at the latest after 15 seconds. */
const reachedScript = `
cd ${rules} || exit
turns=30
while set -- "$1" $(ls | sed -n 's/[.]reached$//p'); known=$1; shift; [ "$*" = "$known" ] && [ $turns -gt 0 ]
do set -- "$known"; turns=$((turns - 1)); sleep 0.5; done
echo "$*"`;

/** The names of the steps that are reached; waits in one login until there are others than `known`, because a login is a second of work there. */
export async function reachedSteps(known: ReadonlySet<string>): Promise<ReadonlySet<string>> {
  const listed = await shell(onSecond, reachedScript, [...known].sort().join(" "));
  return new Set(listed.split(/\s+/).filter(Boolean));
}

const bootId = (): Promise<string | undefined> =>
  onSecond(["cat", "/proc/sys/kernel/random/boot_id"], 20_000).catch(() => undefined);

/** Cuts the power of the second guest at once, and resolves when it has started again. */
export async function cutPower(): Promise<void> {
  const last = await bootId();
  await onSecond(["sh", "-c", "echo b >/proc/sysrq-trigger"], 60_000).catch(() => {});
  await waitFor(
    "the start of the second guest",
    async () => {
      const now = await bootId();
      return now !== undefined && now !== last ? true : undefined;
    },
    600_000,
  );
  await shell(onSecond, "systemctl is-system-running --wait || :");
}

const wanted = [
  ...["userrefs", "receive_resume_token", "csimux:copy", "csimux:cancelled", "csimux:proof"],
  "democratic-csi:provision_success",
];

/** What a machine has of the copy to the volume `name`, and of the moment of its source, in words. */
export async function stateOf(where: Machine, name: string): Promise<readonly string[]> {
  const text = await where(["zfs", "get", "-Hpo", "name,property,value", "-r", "-t", "all", wanted.join(","), "tank"]);
  const values = new Map<string, Map<string, string>>();
  for (const line of text.split("\n")) {
    const [dataset = "", property = "", value = ""] = line.split("\t");
    values.set(dataset, (values.get(dataset) ?? new Map()).set(property, value));
  }
  const has = (value: string | undefined) => value !== undefined && value !== "-";
  return [...values].flatMap(([dataset, found]): readonly string[] => {
    if (new RegExp(`/${name}-source@csimux-copy-[a-z2-7]{16}-0$`).test(dataset))
      return [found.get("userrefs") === "0" ? "moment" : "held moment"];
    if (dataset.endsWith(`/csimux-copy-${name}`)) {
      const record = Buffer.from(found.get("csimux:copy") ?? "", "base64url").toString();
      // A record with the mark counts as cancelled: the mark is what a cancellation writes first.
      const state = has(found.get("csimux:cancelled")) ? "cancelled" : /"state":"([a-z]+)"/.exec(record)?.[1];
      return [`${state ?? "unreadable"} record`];
    }
    if (dataset.endsWith(`/csimux-land-${name}`)) {
      if (has(found.get("csimux:proof"))) return ["proved landing"];
      if (has(found.get("receive_resume_token"))) return ["partial landing"];
      return [[...values.keys()].some(each => each.startsWith(`${dataset}@`)) ? "complete landing" : "empty landing"];
    }
    if (!dataset.endsWith(`/v/${name}`)) return [];
    return [found.get("democratic-csi:provision_success") === "true" ? "volume" : "unfinished volume"];
  });
}

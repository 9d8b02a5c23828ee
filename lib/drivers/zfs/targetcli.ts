import type { Argv } from "../../io/runner.ts";
import type { Step } from "../../io/script.ts";

/** What a target of LIO is made of. */
export interface LioTarget {
  readonly iqn: string;
  readonly asset: string;
  /** Path of the zvol. */
  readonly device: string;
}

/** Settings that every target gets, by the names of targetcli(8). */
export interface LioSettings {
  readonly groupAttributes: Readonly<Record<string, string>>;
  readonly auth: Readonly<Record<string, string>>;
  readonly blockAttributes: Readonly<Record<string, string>>;
}

const settings = (verb: string, values: Readonly<Record<string, string>>): readonly string[] =>
  Object.entries(values).map(([key, value]) => `set ${verb} ${key}=${value}`);

/** What targetcli reads to make a target, as democratic-csi has it. Things that are there already it reports and goes on. */
export const makeText = ({ iqn, asset, device }: LioTarget, more: LioSettings): string =>
  [
    "cd /iscsi",
    `create ${iqn}`,
    `cd /iscsi/${iqn}/tpg1`,
    ...settings("attribute", more.groupAttributes),
    ...settings("auth", more.auth),
    "cd /backstores/block",
    `create ${asset} ${device}`,
    `cd /backstores/block/${asset}`,
    ...settings("attribute", more.blockAttributes),
    `cd /iscsi/${iqn}/tpg1/luns`,
    `create /backstores/block/${asset}`,
    "cd /",
    "saveconfig",
    "exit",
    "",
  ].join("\n");

/** What it reads to remove one. */
export const removeText = ({ iqn, asset }: LioTarget): string =>
  ["cd /iscsi", `delete ${iqn}`, "cd /backstores/block", `delete ${asset}`, "cd /", "saveconfig", "exit", ""].join(
    "\n",
  );

/** Waits up to ten seconds for a device, which udev makes a moment after the zvol. */
export const deviceStep = (device: string): Step => ({
  name: "device",
  argv: ["sh", "-c", 'n=0; until [ -e "$1" ]; do n=$((n+1)); [ $n -lt 100 ] || exit 1; sleep 0.1; done', "sh", device],
});

const inspectText = `root=$1 iqn=$2 asset=$3 device=$4
for each in "$root"/core/iblock_*/"$asset"/udev_path; do
  [ -e "$each" ] || continue
  path=$(cat "$each") || exit 2
  [ "$path" = "$device" ] && echo backstore || echo "foreign $path"
done
group=$root/iscsi/$iqn/tpgt_1
[ -d "$root/iscsi/$iqn" ] && echo target
[ "$(cat "$group/enable" 2>/dev/null)" = 1 ] && echo enabled
for each in "$group"/np/*; do [ -d "$each" ] && { echo portal; break; }; done
for each in "$group"/lun/lun_0/*; do
  [ -e "$each/udev_path" ] || continue
  path=$(cat "$each/udev_path") || exit 2
  [ "$path" = "$device" ] && echo lun || echo "foreign $path"
done
exit 0`;

/**
 * Reads from the kernel what there is of a target, a word on each line: backstore, target, enabled, portal, lun; "foreign" with a
 * path for a backstore or LUN of this name that is another device. targetcli itself ends with 0 whatever happened.
 */
export const inspectStep = (name: string, target: LioTarget, root: string, privileged: readonly string[]): Step => {
  const { iqn, asset, device } = target;
  const [first = "sh", ...rest] = [...privileged, "sh", "-c", inspectText, "sh", root, iqn, asset, device];
  return { name, argv: [first, ...rest] };
};

/** Runs targetcli alone on its host, other programs than csimux included, where flock(1) is there to see to it. */
const aloneText = `export TARGETCLI_HOME=\${TARGETCLI_HOME:-/root/.targetcli}
if command -v flock >/dev/null; then exec flock -w 60 /run/lock/csimux-targetcli "$@"; else exec "$@"; fi`;

/** A run of targetcli over its standard input, where secrets do not show. */
export const targetcliStep = (name: string, stdin: string, targetcli: Argv, secret: readonly string[]): Step => {
  const [first = "sh", ...rest] = ["sh", "-c", aloneText, "sh", ...targetcli];
  return { name, argv: [first, ...rest], stdin, secret };
};

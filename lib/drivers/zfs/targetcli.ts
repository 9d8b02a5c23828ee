import type { Argv, Output } from "../../io/runner.ts";
import type { Step } from "../../io/script.ts";
import type { Target } from "./target-share.ts";
import { aloneStep, step } from "./target-steps.ts";

/** Settings that every target gets, by the names of targetcli(8). */
export interface LioSettings {
  readonly groupAttributes: Readonly<Record<string, string>>;
  readonly auth: Readonly<Record<string, string>>;
  readonly blockAttributes: Readonly<Record<string, string>>;
}

const settings = (verb: string, values: Readonly<Record<string, string>>): readonly string[] =>
  Object.entries(values).map(([key, value]) => `set ${verb} ${key}=${value}`);

/** What targetcli reads to make a target, as democratic-csi has it. Things that are there already it reports and goes on. */
export const makeText = ({ whole, asset, device }: Target, more: LioSettings): string =>
  [
    "cd /iscsi",
    `create ${whole}`,
    `cd /iscsi/${whole}/tpg1`,
    ...settings("attribute", more.groupAttributes),
    ...settings("auth", more.auth),
    "cd /backstores/block",
    `create ${asset} ${device}`,
    `cd /backstores/block/${asset}`,
    ...settings("attribute", more.blockAttributes),
    `cd /iscsi/${whole}/tpg1/luns`,
    `create /backstores/block/${asset}`,
    "exit",
    "",
  ].join("\n");

/** What it reads to remove one. */
export const removeText = ({ whole, asset }: Target): string =>
  ["cd /iscsi", `delete ${whole}`, "cd /backstores/block", `delete ${asset}`, "exit", ""].join("\n");

/** What it reads to save all targets. */
export const saveText = ["cd /", "saveconfig", "exit", ""].join("\n");

/**
 * Whether a run of targetcli has saved what there is, as it does when it ends unless its user has told it not to
 * (auto_save_on_exit). With many targets that takes longer than all else, so it is not asked for once more.
 */
export const hasSaved = ({ stdout }: Output): boolean => stdout.includes("Configuration saved to");

const inspectText = `root=$1 iqn=$2 asset=$3 device=$4
for each in "$root"/core/iblock_*/"$asset"/udev_path; do
  [ -e "$each" ] || continue
  read -r path <"$each" || exit 2
  [ "$path" = "$device" ] && echo backstore || echo "foreign $path"
done
group=$root/iscsi/$iqn/tpgt_1
[ -d "$root/iscsi/$iqn" ] && echo target
[ -e "$group/enable" ] && read -r enabled <"$group/enable" && [ "$enabled" = 1 ] && echo enabled
for each in "$group"/np/*; do [ -d "$each" ] && { echo portal; break; }; done
for each in "$group"/lun/lun_0/*; do
  [ -e "$each/udev_path" ] || continue
  read -r path <"$each/udev_path" || exit 2
  [ "$path" = "$device" ] && echo lun || echo "foreign $path"
done
exit 0`;

/** What `inspectStep` finds of a whole target. */
export const wholeTarget = ["backstore", "target", "enabled", "portal", "lun"] as const;

/**
 * Reads from the kernel what there is of a target, a word on each line: backstore, target, enabled, portal, lun; "foreign" with a
 * path for a backstore or LUN of this name that is another device. targetcli itself ends with 0 whatever happened.
 */
export const inspectStep = (name: string, target: Target, root: string, privileged: readonly string[]): Step =>
  step(name, [...privileged, "sh", "-c", inspectText, "sh", root, target.whole, target.asset, target.device]);

/** Reads the names of all targets that the kernel has and that are enabled, one on each line. */
const targetsText = `[ -d "$1" ] || exit 0
cd "$1" || exit 2
for each in iscsi/*/tpgt_*/enable; do
  [ -e "$each" ] || continue
  [ "$(cat "$each")" = 1 ] && { each=\${each#iscsi/}; echo "\${each%%/*}"; }
done
exit 0`;

/** See targetsText. A kernel that has not loaded its targets, which targetcli has it do, has no folder for them. */
export const targetsStep = (root: string, privileged: readonly string[]): Step =>
  step("targets", [...privileged, "sh", "-c", targetsText, "sh", root]);

/** targetcli does not begin without a folder for its preferences, which it looks for in a home that a remote shell may lack. */
const homeText = 'export TARGETCLI_HOME=${TARGETCLI_HOME:-/root/.targetcli}; exec "$@"';

/** A run of targetcli over its standard input. */
export const targetcliStep = (name: string, stdin: string, targetcli: Argv, secret: readonly string[]): Step =>
  aloneStep(name, "targetcli", ["sh", "-c", homeText, "sh", ...targetcli], { stdin, secret });

import type { Argv, Output } from "../../../io/runner.ts";
import type { Step } from "../../../io/script.ts";
import { uuidOf } from "./target-names.ts";
import type { ExportedTarget } from "./target-share.ts";
import { aloneStep } from "./target-steps.ts";

/** Settings that every target gets, by the names of targetcli(8). */
export interface LioSettings {
  readonly groupAttributes: Readonly<Record<string, string>>;
  readonly auth: Readonly<Record<string, string>>;
  readonly blockAttributes: Readonly<Record<string, string>>;
}

const settings = (verb: string, values: Readonly<Record<string, string>>): readonly string[] =>
  Object.entries(values).map(([key, value]) => `set ${verb} ${key}=${value}`);

/**
 * What targetcli reads to make a target, with the settings of democratic-csi. Things that are there already it reports and goes on.
 * The backstore comes first, since its device proves whose a target is that was not finished; its serial follows from the zvol, so
 * that nodes know the disk again after the host has lost the target. `portal`: the target has lost its portal.
 */
export const makeText = (
  { whole, backstore: asset, device, guid }: ExportedTarget,
  more: LioSettings,
  portal: boolean,
): string =>
  [
    "cd /backstores/block",
    `create name=${asset} dev=${device}${guid === "" ? "" : ` wwn=${uuidOf(guid)}`}`,
    `cd /backstores/block/${asset}`,
    ...settings("attribute", more.blockAttributes),
    "cd /iscsi",
    `create ${whole}`,
    `cd /iscsi/${whole}/tpg1`,
    ...settings("attribute", more.groupAttributes),
    ...settings("auth", more.auth),
    ...(portal ? [`cd /iscsi/${whole}/tpg1/portals`, "create"] : []),
    `cd /iscsi/${whole}/tpg1/luns`,
    `create /backstores/block/${asset}`,
    "exit",
    "",
  ].join("\n");

/** What it reads to remove one. */
export const removeText = ({ whole, backstore: asset }: ExportedTarget): string =>
  ["cd /iscsi", `delete ${whole}`, "cd /backstores/block", `delete ${asset}`, "exit", ""].join("\n");

/** What it reads to save all targets. */
export const saveText = ["cd /", "saveconfig", "exit", ""].join("\n");

/**
 * Whether a run of targetcli has saved what there is, as it does when it ends unless its user has told it not to
 * (auto_save_on_exit). With many targets that takes longer than all else, so it is not asked for once more.
 */
export const hasSaved = ({ stdout }: Output): boolean => stdout.includes("Configuration saved to");

/** targetcli does not begin without a folder for its preferences, which it looks for in a home that a remote shell may lack. */
const homeText = 'export TARGETCLI_HOME=${TARGETCLI_HOME:-/root/.targetcli}; exec "$@"';

/** A run of targetcli over its standard input. */
export const targetcliStep = (name: string, stdin: string, targetcli: Argv, secret: readonly string[]): Step =>
  aloneStep(name, "targetcli", ["sh", "-c", homeText, "sh", ...targetcli], { stdin, secret });

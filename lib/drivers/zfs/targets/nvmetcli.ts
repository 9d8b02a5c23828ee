import type { Argv } from "../../../io/runner.ts";
import type { Step } from "../../../io/script.ts";
import { uuidOf } from "./target-names.ts";
import type { ExportedTarget } from "./target-share.ts";
import { aloneStep } from "./target-steps.ts";

/**
 * What nvmetcli(8) reads to make a subsystem with namespace 1 and to link it to ports, as democratic-csi has it. What is there
 * already it reports and goes on.
 */
export const makeText = (
  { whole, device, guid }: ExportedTarget,
  attributes: Readonly<Record<string, string>>,
  ports: readonly string[],
): string =>
  [
    "cd /subsystems",
    `create ${whole}`,
    `cd /subsystems/${whole}`,
    ...Object.entries(attributes).map(([key, value]) => `set attr ${key}=${value}`),
    `cd /subsystems/${whole}/namespaces`,
    "create 1",
    `cd /subsystems/${whole}/namespaces/1`,
    `set device path=${device}`,
    ...(guid === "" ? [] : [`set device uuid=${uuidOf(guid)}`]),
    "enable",
    ...ports.flatMap(port => [`cd /ports/${port}/subsystems`, `create ${whole}`]),
    "exit",
    "",
  ].join("\n");

/** What it reads to remove one that no port leads to any more. */
export const removeText = ({ whole }: ExportedTarget): string =>
  ["cd /subsystems", `delete ${whole}`, "exit", ""].join("\n");

/** A run of nvmetcli over its standard input; it ends with 0 whatever happened. */
export const nvmetcliStep = (name: string, stdin: string, nvmetcli: Argv): Step =>
  aloneStep(name, "nvmetcli", nvmetcli, { stdin });

/** Has nvmetcli save what there is, so that it is there after the host has started anew. */
export const saveStep = (nvmetcli: Argv, path: string | undefined): Step =>
  aloneStep("save", "nvmetcli", [...nvmetcli, "save", ...(path === undefined ? [] : [path])], {});

import { createHash } from "node:crypto";
import type { Argv } from "../../io/runner.ts";
import type { Step } from "../../io/script.ts";
import type { Target } from "./target-share.ts";
import { aloneStep, step } from "./target-steps.ts";

/**
 * The UUID of a namespace (RFC 9562, version 8). It follows from the zvol alone: nodes give a namespace up that comes back with
 * another one after its host has lost its configuration.
 */
export function uuidOf(guid: string): string {
  const bytes = createHash("sha256").update(`csimux zvol ${guid}`).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/**
 * What nvmetcli(8) reads to make a subsystem with namespace 1 and to link it to ports, as democratic-csi has it. What is there
 * already it reports and goes on.
 */
export const makeText = (
  { whole, device, guid }: Target,
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

/** What it reads to remove one, with its links. */
export const removeText = ({ whole }: Target, ports: readonly string[]): string =>
  [
    ...ports.flatMap(port => [`cd /ports/${port}/subsystems`, `delete ${whole}`]),
    "cd /subsystems",
    `delete ${whole}`,
    "exit",
    "",
  ].join("\n");

/** Reads the names of all subsystems that are reachable through a port, one on each line. */
const subsystemsText = `cd "$1" || exit 2
for each in ports/*/subsystems/*; do
  [ -e "$each" ] && echo "\${each##*/}"
done
exit 0`;

/** See subsystemsText. */
export const subsystemsStep = (root: string): Step => step("subsystems", ["sh", "-c", subsystemsText, "sh", root]);

const inspectText = `root=$1 nqn=$2 device=$3
subsystem=$root/subsystems/$nqn
[ -d "$root/subsystems" ] || { echo "the NVMe target (module nvmet) is not loaded" >&2; exit 2; }
[ -d "$subsystem" ] && echo subsystem
for each in "$subsystem"/namespaces/*; do
  [ -d "$each" ] || continue
  read -r path <"$each/device_path" || exit 2
  case $path in
    ""|"(null)") ;;
    "$device")
      [ "\${each##*/}" = 1 ] || { echo "foreign $path of namespace \${each##*/}"; continue; }
      echo namespace
      read -r enabled <"$each/enable" && [ "$enabled" = 1 ] && echo enabled;;
    *) echo "foreign $path";;
  esac
done
for each in "$root"/ports/*/subsystems/"$nqn"; do
  [ -e "$each" ] || continue
  port=\${each#"$root"/ports/}
  echo "port \${port%%/*}"
done
exit 0`;

/** What `inspectStep` finds of a whole subsystem that these ports lead to. */
export const wholeSubsystem = (ports: readonly string[]): readonly string[] => [
  ...["subsystem", "namespace", "enabled"],
  ...ports.map(port => `port ${port}`),
];

/**
 * Reads from the kernel what there is of a subsystem, a line each: subsystem, namespace, enabled, "port" with its number; "foreign"
 * with a path for a namespace of another device. Everybody may read that.
 */
export const inspectStep = (name: string, { whole, device }: Target, root: string): Step =>
  step(name, ["sh", "-c", inspectText, "sh", root, whole, device]);

/** Ends badly while the host has not restored its configuration: what is saved before would replace it. */
export const markerStep = (path: string | undefined): Step =>
  path === undefined ? step("marker", ["true"]) : step("marker", ["test", "-e", path]);

/** A run of nvmetcli over its standard input; it ends with 0 whatever happened. */
export const nvmetcliStep = (name: string, stdin: string, nvmetcli: Argv): Step =>
  aloneStep(name, "nvmetcli", nvmetcli, { stdin });

/** Has nvmetcli save what there is, so that it is there after the host has started anew. */
export const saveStep = (nvmetcli: Argv, path: string | undefined): Step =>
  aloneStep("save", "nvmetcli", [...nvmetcli, "save", ...(path === undefined ? [] : [path])], {});

import { CsiError } from "../../../core/errors.ts";
import type { Outputs, Step } from "../../../io/script.ts";
import { type ExportedTarget, lastLine, sessionsFound, step } from "./share.ts";

/** What the kernel shows of its NVMe subsystems. */

/** Where it shows them. */
export interface NvmetPaths {
  /** What comes before programs that only root may run. */
  readonly privileged: readonly string[];
  /** /sys/kernel/config/nvmet but in tests. */
  readonly configfs: string;
  /** Where Linux 6.11 and newer show the controllers of each subsystem; /sys/kernel/debug/nvmet but in tests. */
  readonly controllers: string;
  /** The connections of TCP, by address family; /proc/net/tcp and /proc/net/tcp6 but in tests. */
  readonly connections: readonly string[];
  /** Where a note is kept of each subsystem that is closed; it is empty when the host starts. /run but in tests. */
  readonly notes: string;
}

/** Reads the names of all subsystems that are reachable through a port, one on each line. */
const subsystemsText = `cd "$1" || exit 2
for each in ports/*/subsystems/*; do
  [ -e "$each" ] && echo "\${each##*/}"
done
echo ${lastLine}`;

/** See subsystemsText. */
export const subsystemsStep = ({ configfs }: NvmetPaths): Step =>
  step("subsystems", ["sh", "-c", subsystemsText, "sh", configfs], { reads: true });

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
echo ${lastLine}`;

/** What `inspectStep` finds of a whole subsystem that these ports lead to. */
export const wholeSubsystem = (ports: readonly string[]): readonly string[] => [
  ...["subsystem", "namespace", "enabled"],
  ...ports.map(port => `port ${port}`),
];

/**
 * Reads from the kernel what there is of a subsystem, a line each: subsystem, namespace, enabled, "port" with its number; "foreign"
 * with a path for a namespace of another device. Everybody may read that.
 */
export const inspectStep = (name: string, { whole, device }: ExportedTarget, { configfs }: NvmetPaths): Step =>
  step(name, ["sh", "-c", inspectText, "sh", configfs, whole, device]);

/** Ends badly while the host has not restored its configuration: what is saved before would replace it. */
export const markerStep = (path: string | undefined): Step =>
  step("marker", path === undefined ? ["true"] : ["test", "-e", path], { reads: true });

/**
 * How long a host that was cut off may take to connect again, in seconds: twelve reconnect delays of nvme-cli's default (10 s). Until
 * then that no host is connected proves nothing.
 */
const settleSeconds = 120;

/** The exit code of a step that cannot know yet who is connected, and has left everything as it was. */
const unsettled = 4;

/**
 * The door is closed first: a host that is on no list cannot connect, and one that is connected notices nothing (Linux,
 * drivers/nvme/target/core.c, nvmet_host_allowed). Then controllers are looked for where the kernel shows them. An older kernel shows
 * them nowhere, but it ends the connections of a subsystem as soon as no port leads to it (configfs.c, nvmet_port_subsys_drop_link):
 * when none of the connections to its ports has ended by that, there was no controller. Otherwise all is put back at once: a host
 * connects again after its reconnect delay of some 10 s, and its I/O waits meanwhile. Transports other than TCP show nothing.
 *
 * Before anything is changed, a note is made of the time and of what was there. It stays when a host was cut off, or when the step
 * was ended in the middle: whoever finds it puts back what is missing and waits, since a host that is cut off is not connected and
 * uses the disk all the same. It has a line each: seconds since the host's start, whether any host is allowed, ports, allowed hosts.
 */
const closeText = `root=$1 debug=$2 notes=$3 nqn=$4
shift 4
subsystem=$root/subsystems/$nqn note=$notes/csimux-closed-$nqn
[ -d "$subsystem" ] || exit 0
read -r now idle </proc/uptime || exit 2
now=\${now%.*}
allowed= ports= numbers= any= opened=
controllers() {
  set +f
  for each in "$debug/$nqn"/ctrl*; do
    [ -d "$each" ] && { cat "$each/hostnqn" || return 2; }
  done
  set -f
}
connections() {
  for each in $numbers; do
    awk -v port=":$each" '$4 == "01" && substr($2, length($2) - 4) == port { print $2 "-" $3 }' "$@" || return 2
  done
}
noted() {
  printf '%s\\n' "$now" "$any" "$ports" "$allowed" >"$note.new" && mv "$note.new" "$note"
}
back() {
  for each in $ports; do
    [ -e "$root/ports/$each/subsystems/$nqn" ] || { ln -s "$subsystem" "$root/ports/$each/subsystems/$nqn" && opened=1; }
  done
  for each in $allowed; do
    [ -e "$subsystem/allowed_hosts/$each" ] || { ln -s "$root/hosts/$each" "$subsystem/allowed_hosts/$each" && opened=1; }
  done
  [ -z "$any" ] || [ "$(cat "$subsystem/attr_allow_any_host")" = 1 ] ||
    { echo 1 >"$subsystem/attr_allow_any_host" && opened=1; }
}
unnoticed() {
  back
  rm -f "$note"
}
if [ -e "$note" ]; then
  { read -r at; read -r any; read -r ports; read -r allowed; } <"$note" || exit 2
  back
  [ -z "$opened" ] || { at=$now; noted || exit 2; }
  left=$((at + ${settleSeconds} - now))
  [ "$left" -le 0 ] || { echo "$left"; exit ${unsettled}; }
  any= ports=
fi
used=$(controllers) || exit 2
[ -z "$used" ] || { echo "$used"; exit ${sessionsFound}; }
allowed=$(ls "$subsystem/allowed_hosts") || exit 2
allowed=$(echo $allowed)
[ "$(cat "$subsystem/attr_allow_any_host")" != 1 ] || any=1
for each in $(ls "$root/ports"); do
  [ -e "$root/ports/$each/subsystems/$nqn" ] || continue
  ports="$ports $each"
  [ -d "$debug" ] || [ "$(cat "$root/ports/$each/addr_trtype")" != tcp ] ||
    numbers="$numbers $(printf %04X "$(cat "$root/ports/$each/addr_trsvcid")")"
done
noted || exit 2
for each in $allowed; do
  rm "$subsystem/allowed_hosts/$each" || { unnoticed; exit 2; }
done
[ -z "$any" ] || echo 0 >"$subsystem/attr_allow_any_host" || { unnoticed; exit 2; }
used=$(controllers) || { unnoticed; exit 2; }
[ -z "$used" ] || { unnoticed; echo "$used"; exit ${sessionsFound}; }
before=$(connections "$@") || { unnoticed; exit 2; }
for each in $ports; do
  rm "$root/ports/$each/subsystems/$nqn" || { back; exit 2; }
done
after=$(connections "$@") || { back; exit 2; }
for each in $before; do
  case " $(echo $after) " in *" $each "*) ;; *) used="a host that was connected to its port";; esac
done
[ -n "$used" ] || { rm -f "$note"; exit 0; }
back
echo "$used"
exit ${sessionsFound}`;

/**
 * Closes a subsystem to all hosts, unless one is connected: then everything is as before, the step ends with `sessionsFound`, and its
 * lines name the hosts. A host that this has cut off may be connecting again: see `refuseUnsettled`.
 */
export const closeStep = ({ whole }: ExportedTarget, places: NvmetPaths): Step => {
  const { privileged, configfs, controllers, notes, connections } = places;
  return step("close", [
    ...privileged,
    "sh",
    "-c",
    closeText,
    "sh",
    configfs,
    controllers,
    notes,
    whole,
    ...connections,
  ]);
};

/** Throws "aborted" when `closeStep` cannot know yet whether a host uses the subsystem, and says for how long. */
export function refuseUnsettled({ whole }: ExportedTarget, outputs: Outputs): void {
  const output = outputs.get("close");
  if (output?.exitCode !== unsettled) return;
  throw new CsiError(
    "aborted",
    `a host that was connected to ${whole} may be connecting again, and use the disk; repeat the call in ${output.stdout.trim().slice(0, 9)} s`,
  );
}

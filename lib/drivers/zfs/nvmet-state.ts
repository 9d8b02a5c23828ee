import type { Step } from "../../io/script.ts";
import { lastLine, sessionsFound, type Target } from "./target-share.ts";
import { step } from "./target-steps.ts";

/** What the kernel shows of its NVMe subsystems. */

/** Where it shows them. */
export interface NvmetPlaces {
  /** What comes before programs that only root may run. */
  readonly privileged: readonly string[];
  /** /sys/kernel/config/nvmet but in tests. */
  readonly configfs: string;
  /** Where Linux 6.11 and newer show the controllers of each subsystem; /sys/kernel/debug/nvmet but in tests. */
  readonly controllers: string;
  /** The connections of TCP, by address family; /proc/net/tcp and /proc/net/tcp6 but in tests. */
  readonly connections: readonly string[];
}

/** Reads the names of all subsystems that are reachable through a port, one on each line. */
const subsystemsText = `cd "$1" || exit 2
for each in ports/*/subsystems/*; do
  [ -e "$each" ] && echo "\${each##*/}"
done
echo ${lastLine}`;

/** See subsystemsText. */
export const subsystemsStep = ({ configfs }: NvmetPlaces): Step =>
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
export const inspectStep = (name: string, { whole, device }: Target, { configfs }: NvmetPlaces): Step =>
  step(name, ["sh", "-c", inspectText, "sh", configfs, whole, device]);

/** Ends badly while the host has not restored its configuration: what is saved before would replace it. */
export const markerStep = (path: string | undefined): Step =>
  step("marker", path === undefined ? ["true"] : ["test", "-e", path], { reads: true });

/**
 * The door is closed first: a host that is on no list cannot connect, and one that is connected notices nothing (Linux,
 * drivers/nvme/target/core.c, nvmet_host_allowed). Then controllers are looked for where the kernel shows them. An older kernel shows
 * them nowhere, but it ends the connections of a subsystem as soon as no port leads to it (configfs.c, nvmet_port_subsys_drop_link):
 * when none of the connections to its ports has ended by that, there was no controller. Otherwise all is put back at once: a host
 * connects again after its reconnect delay of some 10 s, and its I/O waits meanwhile. Transports other than TCP show nothing.
 */
const closeText = `root=$1 debug=$2 nqn=$3
shift 3
subsystem=$root/subsystems/$nqn
[ -d "$subsystem" ] || exit 0
allowed= ports= numbers= any=
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
back() {
  for each in $ports; do ln -s "$subsystem" "$root/ports/$each/subsystems/$nqn"; done
  for each in $allowed; do ln -s "$root/hosts/$each" "$subsystem/allowed_hosts/$each"; done
  [ -z "$any" ] || echo 1 >"$subsystem/attr_allow_any_host"
}
used=$(controllers) || exit 2
[ -z "$used" ] || { echo "$used"; exit ${sessionsFound}; }
for each in $(ls "$subsystem/allowed_hosts"); do
  rm "$subsystem/allowed_hosts/$each" || { back; exit 2; }
  allowed="$allowed $each"
done
if [ "$(cat "$subsystem/attr_allow_any_host")" = 1 ]; then
  echo 0 >"$subsystem/attr_allow_any_host" || { back; exit 2; }
  any=1
fi
used=$(controllers) || { back; exit 2; }
[ -z "$used" ] || { back; echo "$used"; exit ${sessionsFound}; }
for each in $(ls "$root/ports"); do
  [ -e "$root/ports/$each/subsystems/$nqn" ] || continue
  [ -d "$debug" ] || [ "$(cat "$root/ports/$each/addr_trtype")" != tcp ] ||
    numbers="$numbers $(printf %04X "$(cat "$root/ports/$each/addr_trsvcid")")"
done
before=$(connections "$@") || { back; exit 2; }
for each in $(ls "$root/ports"); do
  [ -e "$root/ports/$each/subsystems/$nqn" ] || continue
  rm "$root/ports/$each/subsystems/$nqn" || { back; exit 2; }
  ports="$ports $each"
done
after=$(connections "$@") || { back; exit 2; }
for each in $before; do
  case " $(echo $after) " in *" $each "*) ;; *) used="a host that was connected to its port";; esac
done
[ -z "$used" ] && exit 0
back
echo "$used"
exit ${sessionsFound}`;

/**
 * Closes a subsystem to all hosts, unless one is connected: then everything is as before, the step ends with `sessionsFound`, and its
 * lines name the hosts.
 */
export const closeStep = ({ whole }: Target, { privileged, configfs, controllers, connections }: NvmetPlaces): Step =>
  step("close", [...privileged, "sh", "-c", closeText, "sh", configfs, controllers, whole, ...connections]);

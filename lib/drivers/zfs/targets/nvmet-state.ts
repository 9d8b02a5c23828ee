import { CsiError } from "../../../core/errors.ts";
import type { Outputs, Step } from "../../../io/script.ts";
import { type ExportedTarget, lastLine, sessionsFound, step } from "./guard.ts";

/** Where the kernel of a host shows its NVMe subsystems. */
export interface NvmetPaths {
  /** Precedes programs that only root may run. */
  readonly privileged: readonly string[];
  /** /sys/kernel/config/nvmet except in tests. */
  readonly configfs: string;
  /** Where Linux 6.11 and newer show the controllers of each subsystem; /sys/kernel/debug/nvmet except in tests. */
  readonly controllers: string;
  /** The TCP connections, by address family; /proc/net/tcp and /proc/net/tcp6 except in tests. */
  readonly connections: readonly string[];
  /** Where csimux keeps a note of each subsystem that it closes; empty after a start of the host. /run except in tests. */
  readonly notes: string;
}

const subsystemsText = `cd "$1" || exit 2
for each in ports/*/subsystems/*; do
  [ -e "$each" ] && echo "\${each##*/}"
done
echo ${lastLine}`;

/** Reads the names of all subsystems that a port leads to, one on each line. */
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

/** Reads a subsystem's parts: subsystem, namespace, enabled, "port" and its number, "foreign" and another device's path. */
export const inspectStep = ({ qualifiedName, device }: ExportedTarget, { configfs }: NvmetPaths): Step =>
  step("inspect", ["sh", "-c", inspectText, "sh", configfs, qualifiedName, device]);

/** Fails until the host has restored its configuration, which saving earlier would replace. */
export const markerStep = (path: string | undefined): Step =>
  step("marker", path === undefined ? ["true"] : ["test", "-e", path], { reads: true });

/** How long a host that was cut off may take to reconnect, in seconds: twelve reconnect delays of nvme-cli's default (10 s). */
const settleSeconds = 120;

/** The exit code of `closeStep` while a host that was cut off may still reconnect; nothing has changed. */
const unsettled = 4;

/**
 * First closes the subsystem to new hosts, which those that are connected do not notice (Linux, drivers/nvme/target/core.c,
 * nvmet_host_allowed). Then looks for controllers where the kernel shows them. An older kernel shows them nowhere, but ends the
 * connections of a subsystem when the last port stops leading to it (configfs.c, nvmet_port_subsys_drop_link): if no TCP
 * connection to its ports ends, no host was connected. Otherwise everything is restored immediately: a host reconnects after some
 * 10 s, and its I/O waits meanwhile. Transports other than TCP show nothing.
 *
 * A note of the time and of the previous settings is written before the first change. It stays when a host was cut off, or when
 * the step was killed: the next run restores what is missing and waits, because a host that was cut off still uses the disk without
 * being connected. Its lines: seconds since the host's start, whether any host is allowed, ports, allowed hosts.
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

/** Closes a subsystem to all hosts. With one connected, restores all, names it, and ends with `sessionsFound` or `unsettled`. */
export const closeStep = (
  { qualifiedName }: ExportedTarget,
  { privileged, configfs, controllers, notes, connections }: NvmetPaths,
): Step => {
  const script = ["sh", "-c", closeText, "sh", configfs, controllers, notes, qualifiedName, ...connections];
  return step("close", [...privileged, ...script]);
};

/** Throws "aborted" while a host that `closeStep` has cut off may reconnect. */
export function refuseUnsettled({ qualifiedName }: ExportedTarget, outputs: Outputs): void {
  const output = outputs.get("close");
  if (output?.exitCode !== unsettled) return;
  throw new CsiError(
    "aborted",
    `a host that was connected to ${qualifiedName} may be reconnecting and still use the disk; retry in ${output.stdout.trim().slice(0, 9)} s`,
  );
}

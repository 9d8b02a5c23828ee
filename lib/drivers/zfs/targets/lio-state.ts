import type { Step } from "../../../io/script.ts";
import { aloneStep, type ExportedTarget, lastLine, sessionsFound, step } from "./share.ts";

/** What the kernel shows of LIO's targets, and what rtslib has saved of them. */

/** Where both stand on a host. */
export interface LioPaths {
  /** What comes before programs that read what only root may read. */
  readonly privileged: readonly string[];
  /** Where the kernel shows its targets; /sys/kernel/config/target but in tests. */
  readonly configfs: string;
  /** Where rtslib may save its configuration, which differs between distributions; the one that was written last is in use. */
  readonly saved: readonly string[];
}

const inspectText = `root=$1 iqn=$2 asset=$3 device=$4
for each in "$root"/core/iblock_*/"$asset"; do
  [ -e "$each/udev_path" ] || continue
  read -r path <"$each/udev_path" || exit 2
  [ "$path" = "$device" ] || { echo "foreign $path"; continue; }
  echo backstore
  for members in "$each"/alua/*/members; do
    [ -e "$members" ] || continue
    while read -r lun; do
      case $lun in iSCSI/"$iqn"/*) ;; ?*) echo "other $lun";; esac
    done <"$members"
  done
done
group=$root/iscsi/$iqn/tpgt_1
[ -d "$root/iscsi/$iqn" ] && echo target
[ -e "$group/enable" ] && read -r enabled <"$group/enable" && [ "$enabled" = 1 ] && echo enabled
for each in "$group"/np/*; do [ -d "$each" ] && { echo portal; break; }; done
for each in "$root/iscsi/$iqn"/tpgt_*/lun/lun_*/*; do
  [ -e "$each/udev_path" ] || continue
  read -r path <"$each/udev_path" || exit 2
  [ "$path" = "$device" ] || { echo "foreign $path"; continue; }
  case $each in "$group"/lun/lun_0/*) echo lun;; esac
done
echo ${lastLine}`;

/** What `inspectStep` finds of a whole target. */
export const wholeTarget = ["backstore", "target", "enabled", "portal", "lun"] as const;

/**
 * Reads from the kernel what there is of a target, a word on each line: backstore, target, enabled, portal, lun; "foreign" with a
 * path for a backstore of this name or a LUN of this target that is another device; "other" with the LUN of another target that
 * leads to the same backstore. targetcli itself ends with 0 whatever happened.
 */
export const inspectStep = (name: string, target: ExportedTarget, { configfs, privileged }: LioPaths): Step =>
  step(name, [...privileged, "sh", "-c", inspectText, "sh", configfs, target.whole, target.backstore, target.device]);

/** Reads the names of all targets that the kernel has and that are enabled, one on each line. */
const targetsText = `[ -d "$1" ] || { echo ${lastLine}; exit 0; }
cd "$1" || exit 2
for each in iscsi/*/tpgt_*/enable; do
  [ -e "$each" ] || continue
  [ "$(cat "$each")" = 1 ] && { each=\${each#iscsi/}; echo "\${each%%/*}"; }
done
echo ${lastLine}`;

/** See targetsText. A kernel that has not loaded its targets, which targetcli has it do, has no folder for them. */
export const targetsStep = ({ configfs, privileged }: LioPaths): Step =>
  step("targets", [...privileged, "sh", "-c", targetsText, "sh", configfs], { reads: true });

/**
 * Sessions of initiators without an ACL stand in dynamic_sessions, each name behind a NUL (Linux, target_core_tpg.c,
 * target_show_dynamic_sessions); an ACL says in `info` whether it has one (iscsi_target_configfs.c, lio_target_nacl_info_show).
 * A session that exists outlives the portal that it came through, and none is made without a portal.
 */
const closeText = `cd "$1/iscsi/$2" 2>/dev/null || exit 0
sessions() {
  for group in tpgt_*; do
    [ -d "$group" ] || continue
    tr '\\000' '\\n' <"$group/dynamic_sessions" || return 2
    for each in "$group"/acls/*/info; do
      [ -e "$each" ] || continue
      read -r line <"$each" || return 2
      case $line in "No active "*) ;; *) each=\${each%/info}; echo "\${each##*/}";; esac
    done
  done
}
used=$(sessions) || exit 2
[ -z "$used" ] || { echo "$used"; exit ${sessionsFound}; }
portals= failed=
for each in tpgt_*/np/*; do
  [ -d "$each" ] || continue
  iser=0
  [ -e "$each/iser" ] && read -r iser <"$each/iser"
  rmdir "$each" || { failed=1; break; }
  portals="$portals $each=$iser"
done
used=$(sessions) || failed=1
[ -z "$failed$used" ] && exit 0
set -f
for each in $portals; do
  mkdir "\${each%=*}"
  [ "\${each##*=}" = 1 ] && echo 1 >"\${each%=*}/iser"
done
[ -z "$failed" ] || exit 2
echo "$used"
exit ${sessionsFound}`;

/**
 * Takes the portals of a target away, so that nobody can log in any more, unless somebody is logged in: then they are there again,
 * the step ends with `sessionsFound`, and its lines name the initiators.
 */
export const closeStep = ({ whole }: ExportedTarget, { configfs, privileged }: LioPaths): Step =>
  step("close", [...privileged, "sh", "-c", closeText, "sh", configfs, whole]);

/** rtslib names plugins of backstores otherwise than the kernel (rtslib-fb, tcm.py, StorageObject). */
const restoredText = `import json, os, sys
root, iqn, asset, device = sys.argv[1:5]
files = [each for each in sys.argv[5:] if os.path.exists(each)]
if not files:
    print("${lastLine}")
    sys.exit()
with open(max(files, key=os.path.getmtime)) as file: saved = json.load(file)
kernel = {"block": "iblock", "ramdisk": "rd_mcp"}
core = os.path.join(root, "core")
there = set()
for hba in os.listdir(core) if os.path.isdir(core) else []:
    folder = os.path.join(core, hba)
    if os.path.isdir(folder): there.update((hba.rsplit("_", 1)[0], name) for name in os.listdir(folder))
own, missing = False, []
for each in saved.get("storage_objects", []):
    plugin, name = each.get("plugin"), each.get("name")
    if plugin == "block" and name == asset and each.get("dev") == device: own = True
    elif (kernel.get(plugin, plugin), name) not in there: missing.append("%s/%s" % (plugin, name))
for target in saved.get("targets", []):
    if target.get("fabric") != "iscsi": continue
    wwn = target.get("wwn")
    if wwn == iqn:
        own = True
        continue
    folder = os.path.join(root, "iscsi", wwn)
    if not os.path.isdir(folder):
        missing.append(wwn)
        continue
    for group in target.get("tpgs", []):
        place = os.path.join(folder, "tpgt_%s" % group.get("tag"))
        parts = ["lun/lun_%s" % lun.get("index") for lun in group.get("luns", [])]
        parts += ["acls/%s" % acl.get("node_wwn") for acl in group.get("node_acls", [])]
        missing += ["%s/%s" % (wwn, part) for part in parts if not os.path.isdir(os.path.join(place, part))]
if own: print("own")
for each in missing[:20]: print("missing " + each)
print("${lastLine}")
`;

/**
 * Compares what rtslib has saved with what the kernel has, as far as it is not of this target: "missing" with a name on each line
 * for what the kernel lacks, as after a restart of the host before rtslib has restored it; "own" when this target is saved. The program
 * is Python, as targetcli is.
 */
export const restoredStep = (target: ExportedTarget, { configfs, privileged, saved }: LioPaths): Step => {
  const words = [target.whole, target.backstore, target.device, ...saved];
  const [first = "python3", ...rest] = [...privileged, "python3", "-c", restoredText, configfs, ...words];
  // A run of targetcli changes the kernel first and saves last.
  return aloneStep("restored", "targetcli", [first, ...rest], {});
};

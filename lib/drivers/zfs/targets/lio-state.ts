import type { Step } from "../../../io/script.ts";
import { behind } from "../cli/steps.ts";
import { type ExportedTarget, lastLine, sessionsFound, step, toolStep } from "./guard.ts";

/** Where a host shows LIO's targets (kernel) and saves them (rtslib). */
export interface LioPaths {
  /** Precedes programs that read what only root may read. */
  readonly privileged: readonly string[];
  /** /sys/kernel/config/target except in tests. */
  readonly configfs: string;
  /** Where rtslib saves, which differs between distributions; the file that was written last is in use. */
  readonly saved: readonly string[];
}

const inspectText = `root=$1 iqn=$2 backstore=$3 device=$4
for each in "$root"/core/iblock_*/"$backstore"; do
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

/**
 * Reads the parts of a target from the kernel, one on each line: backstore, target, enabled, portal, lun; "foreign" with a path for
 * a backstore of this name or a LUN of this target that is another device; "other" with the LUN of another target that leads to
 * the same backstore. The exit code of targetcli proves nothing: it is always 0.
 */
export const inspectStep = (
  { qualifiedName, backstore, device }: ExportedTarget,
  { configfs, privileged }: LioPaths,
): Step => step("inspect", [...privileged, "sh", "-c", inspectText, "sh", configfs, qualifiedName, backstore, device]);

const targetsText = `[ -d "$1" ] || { echo ${lastLine}; exit 0; }
cd "$1" || exit 2
for each in iscsi/*/tpgt_*/enable; do
  [ -e "$each" ] || continue
  [ "$(cat "$each")" = 1 ] && { each=\${each#iscsi/}; echo "\${each%%/*}"; }
done
echo ${lastLine}`;

/** Reads the names of all enabled targets, one on each line. Before targetcli loads the kernel's module there is no folder. */
export const targetsStep = ({ configfs, privileged }: LioPaths): Step =>
  step("targets", [...privileged, "sh", "-c", targetsText, "sh", configfs], { reads: true });

/**
 * dynamic_sessions lists initiators without an ACL, each behind a NUL (Linux, target_core_tpg.c, target_show_dynamic_sessions); the
 * `info` of an ACL shows its session (iscsi_target_configfs.c, lio_target_nacl_info_show). A session outlives the portal that it
 * came through, and without a portal no initiator can log in.
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

/** Removes the portals of a target. With an initiator logged in, restores them, names it, and ends with `sessionsFound`. */
export const closeStep = ({ qualifiedName }: ExportedTarget, { configfs, privileged }: LioPaths): Step =>
  step("close", [...privileged, "sh", "-c", closeText, "sh", configfs, qualifiedName]);

/** rtslib and the kernel use different names for some plugins of backstores (rtslib-fb, tcm.py, StorageObject). */
const restoredText = `import json, os, sys
root, iqn, backstore, device = sys.argv[1:5]
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
    if plugin == "block" and name == backstore and each.get("dev") == device: own = True
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
 * Compares what rtslib has saved with what the kernel has, except this target: "missing" with a name on each line for what the
 * kernel lacks, as after a restart of the host until rtslib restores it; "own" when this target is saved. In Python, like targetcli.
 */
export const restoredStep = (target: ExportedTarget, { configfs, privileged, saved }: LioPaths): Step => {
  const words = [target.qualifiedName, target.backstore, target.device, ...saved];
  // A run of targetcli changes the kernel first and saves last.
  return toolStep("restored", "targetcli", behind(privileged, "python3", "-c", restoredText, configfs, ...words));
};

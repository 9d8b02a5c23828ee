"""What rtslib saves of a target and a backstore, read from the kernel.

What the kernel takes and shows: Linux, drivers/target/target_core_configfs.c and drivers/target/iscsi/iscsi_target_configfs.c.
"""

import re

ALUA_STATUSES = ["None", "Altered by Explicit STPG", "Altered by Implicit ALUA"]
ALUA_TYPES = ["None", "Implicit", "Explicit", "Implicit and Explicit"]
# What rtslib saves of a group of ports (rtslib-fb 2.1.75, alua.py, alua_rw_params).
ALUA_VALUES = [
    *["alua_access_state", "alua_access_status", "alua_access_type", "alua_support_active_nonoptimized"],
    *["alua_support_active_optimized", "alua_support_offline", "alua_support_standby", "alua_support_transitioning"],
    *["alua_support_unavailable", "alua_write_metadata", "implicit_trans_secs", "nonop_delay_msecs", "preferred"],
    *["tg_pt_gp_id", "trans_delay_msecs"],
]
# The names of files of LIO, and of rtslib.
AUTH = {
    "userid": "chap_userid",
    "password": "chap_password",
    "userid_mutual": "chap_mutual_userid",
    "password_mutual": "chap_mutual_password",
}


def number_or_text(value):
    """A number if it is one, as rtslib saves attributes (node.py, dump)."""
    try:
        return int(value)
    except ValueError:
        return value


def shown(place, kind):
    """The attributes or parameters of an object."""
    found = [name for name in names(os.path.join(place, kind)) if is_readable_and_writable(os.path.join(place, kind, name))]
    values = {name: text_at(os.path.join(place, kind, name)) for name in found}
    return {name: value for name, value in values.items() if value is not None}


def dump_base(place):
    """rtslib-fb 2.1.75, node.py, CFSNode.dump"""
    attributes = {name: number_or_text(value) for name, value in shown(place, "attrib").items()}
    parameters = shown(place, "param")
    return dict({"attributes": attributes} if attributes else {}, **({"parameters": parameters} if parameters else {}))


def dump_auth(place):
    """rtslib-fb 2.1.75, target.py, TPG.dump; the kernel shows NULL for what was unset."""
    values = {name: text_at(os.path.join(place, "auth", file)) for file, name in AUTH.items()}
    return {name: value for name, value in values.items() if value and value != "NULL"}


def dump_alua(place):
    """rtslib-fb 2.1.75, alua.py, ALUATargetPortGroup.dump"""
    whole = {"name": os.path.basename(place)}
    words = {"alua_access_status": ALUA_STATUSES, "alua_access_type": ALUA_TYPES}
    for name in ALUA_VALUES:
        value = text_at(os.path.join(place, name))
        if value is not None:
            whole[name] = words[name].index(value) if value in words.get(name, []) else number_or_text(value)
    return whole


def serial_of(backstore):
    """rtslib-fb 2.1.75, tcm.py, StorageObject._get_wwn"""
    return (text_at(os.path.join(backstore, "wwn/vpd_unit_serial")) or "").partition(":")[2].strip()


def info_of(backstore, key):
    """A word of what the kernel says about a backstore; None where it says nothing of it."""
    found = re.search(r"\b%s: ([^: ]+)" % key, text_at(os.path.join(backstore, "info")) or "")
    return found and found.group(1)


def dump_backstore(backstore):
    """rtslib-fb 2.1.75, tcm.py, BlockStorageObject.dump"""
    whole = dump_base(backstore)
    exclusive = info_of(backstore, "exclusive")
    groups = os.path.join(backstore, "alua")
    whole.update(
        name=os.path.basename(backstore),
        plugin="block",
        alua_tpgs=[dump_alua(os.path.join(groups, name)) for name in folders(groups)],
        write_back=text_at(os.path.join(backstore, "attrib/emulate_write_cache")) == "1",
        readonly=info_of(backstore, "readonly") == "1",
        wwn=serial_of(backstore),
        dev=text_at(os.path.join(backstore, "udev_path")) or "",
        # Linux 6.17 and newer; rtslib-fb before 2.2 restores nothing that has this key, and newer ones take "true" without it.
        **({"exclusive": False} if exclusive == "0" else {})
    )
    return whole


def dump_lun(place):
    """rtslib-fb 2.1.75, target.py, LUN.dump"""
    group = (text_at(os.path.join(place, "alua_tg_pt_gp")) or "").split("\n")[0].partition(":")[2].strip()
    link = links(place)[0]
    backstore = os.path.realpath(link)
    plugin = os.path.basename(os.path.dirname(backstore)).rpartition("_")[0]
    kind = {"iblock": "block", "rd_mcp": "ramdisk"}.get(plugin, plugin)
    return {
        "storage_object": "/backstores/%s/%s" % (kind, os.path.basename(backstore)),
        "index": int(os.path.basename(place)[4:]),
        "alias": os.path.basename(link),
        "alua_tg_pt_gp_name": group or None,
    }


def dump_portal(place):
    """rtslib-fb 2.1.75, target.py, NetworkPortal.dump"""
    address, _, port = os.path.basename(place).rpartition(":")
    flags = {name: text_at(os.path.join(place, file)) == "1" for name, file in (("iser", "iser"), ("offload", "cxgbit"))}
    return dict(flags, ip_address=address, port=int(port))


def dump_acl(place):
    """rtslib-fb 2.1.75, target.py, NodeACL.dump and MappedLUN.dump"""
    mapped = []
    for name in folders(place):
        lun = os.path.join(place, name)
        for link in links(lun)[:1]:
            values = {"alias": os.path.basename(link), "index": int(name[4:])}
            values["write_protect"] = text_at(os.path.join(lun, "write_protect")) == "1"
            mapped.append(dict(values, tpg_lun=int(os.path.basename(os.path.realpath(link))[4:])))
    whole = dict(dump_base(place), node_wwn=os.path.basename(place), mapped_luns=mapped, **dump_auth(place))
    tag = text_at(os.path.join(place, "tag"))
    return dict(whole, tag=tag) if tag else whole


def dump_target(place):
    """rtslib-fb 2.1.75, target.py, Target.dump and TPG.dump"""
    groups = []
    for group in groups_of(place):

        def each(kind, dump, group=group):
            return [dump(os.path.join(group, kind, part)) for part in folders(os.path.join(group, kind))]

        luns = [lun for lun in folders(os.path.join(group, "lun")) if links(os.path.join(group, "lun", lun))]
        groups.append(
            dict(
                dump_base(group),
                tag=int(os.path.basename(group)[5:]),
                enable=text_at(os.path.join(group, "enable")) == "1",
                luns=[dump_lun(os.path.join(group, "lun", lun)) for lun in luns],
                portals=each("np", dump_portal),
                node_acls=each("acls", dump_acl),
                **dump_auth(group)
            )
        )
    return dict(dump_base(place), fabric="iscsi", wwn=os.path.basename(place), tpgs=groups)

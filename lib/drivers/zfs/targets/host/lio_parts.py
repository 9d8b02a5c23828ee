"""The parts of a target of LIO: how each is made and taken away."""


def groups_of(place):
    """The portal groups of a target."""
    return [os.path.join(place, name) for name in folders(place) if name.startswith("tpgt_")]


def prefer_folder(root, wanted):
    """rtslib keeps reservations beside what it saves (root.py, _set_dbroot). The kernel takes that only before there is a target."""
    place = os.path.join(root, "dbroot")
    if os.path.isdir(wanted) and text_at(place) not in (None, wanted):
        with contextlib.suppress(OSError):
            write(place, wanted)


def new_backstore(root, target, saved):
    """Makes the backstore of a device, with the serial that it had: by that, nodes recognise the disk."""
    core = os.path.join(root, "core")
    # rtslib counts them for all kinds together (tcm.py, _Backstore).
    used = {name.rpartition("_")[2] for name in names(core)}
    place = os.path.join(core, "iblock_%d" % next(n for n in range(1 << 20) if str(n) not in used), target["backstore"])
    os.mkdir(os.path.dirname(place))
    os.mkdir(place)
    try:
        write(os.path.join(place, "udev_path"), target["device"])
        write(os.path.join(place, "control"), "udev_path=%s" % target["device"])
        write(os.path.join(place, "control"), "readonly=%d" % bool(saved.get("readonly")))
        write(os.path.join(place, "enable"), "1")
        serial = saved.get("wwn") or target["serial"]
        write(os.path.join(place, "wwn/vpd_unit_serial"), serial)
        keep_reservations(root, place, serial)
        # targetcli sets the first one for every backstore (targetcli-fb 2.1.53, ui_backstore.py, setup_model_alias).
        begin = dict({"emulate_model_alias": 1}, **saved.get("attributes", {}))
        assign_all(os.path.join(place, "attrib"), {name: str(value) for name, value in begin.items()}, [])
    except Exception:
        # Its name has the tag of this volume: when another controller has deleted that, nobody looks for it any more.
        take_backstore(place)
        raise
    return place


def take_backstore(place):
    """Removes a backstore that no LUN leads to."""
    for name in folders(os.path.join(place, "alua")):
        if name != "default_tg_pt_gp":
            os.rmdir(os.path.join(place, "alua", name))
    os.rmdir(place)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(place))


def keep_reservations(root, place, serial):
    """Gives the kernel the persistent reservations that it has written for this disk, as rtslib does (tcm.py, _config_pr_aptpl)."""
    lines = (text_at("%s/pr/aptpl_%s" % (text_at(os.path.join(root, "dbroot")), serial)) or "").split()
    if not lines or not lines[0].startswith("PR_REG_START:"):
        return
    one = []
    for line in lines:
        if line.startswith("PR_REG_START:"):
            one = []
        elif line.startswith("PR_REG_END:"):
            write(os.path.join(place, "pr/res_aptpl_metadata"), ",".join(one))
        else:
            one.append(line)


def assign_saved(place, saved):
    """The values of a saved group or access list, some of which a later kernel may lack."""
    assign_all(os.path.join(place, "attrib"), {name: str(value) for name, value in saved.get("attributes", {}).items()}, [])
    assign_all(os.path.join(place, "param"), saved.get("parameters", {}), [])
    assign_all(os.path.join(place, "auth"), {file: saved[name] for file, name in AUTH.items() if saved.get(name)}, [])


def add_portals(group, saved, ignored):
    """The portals that the target had, or the one of targetcli: all addresses, port 3260."""
    for each in saved or [{"ip_address": "0.0.0.0", "port": 3260}]:
        place = os.path.join(group, "np", "%s:%d" % (each["ip_address"], each["port"]))
        try:
            folder(place)
        except OSError as error:
            ignored.append("%s: %s" % (os.path.basename(place), error.strerror))
            continue
        for name, file in (("iser", "iser"), ("offload", "cxgbit")):
            if each.get(name):
                assign_all(place, {file: "1"}, ignored)


def add_acl(group, saved, ignored):
    """A saved access list for an initiator, with the LUNs that it sees."""
    place = os.path.join(group, "acls", saved["node_wwn"])
    if folder(place):
        assign_saved(place, saved)
        if saved.get("tag"):
            assign_all(place, {"tag": saved["tag"]}, ignored)
    for mapped in saved.get("mapped_luns", []):
        lun = os.path.join(place, "lun_%d" % mapped["index"])
        shown = os.path.join(group, "lun", "lun_%d" % mapped["tpg_lun"])
        if os.path.isdir(shown) and folder(lun):
            os.symlink(shown, os.path.join(lun, mapped.get("alias") or os.urandom(5).hex()))
            assign_all(lun, {"write_protect": "1" if mapped.get("write_protect") else "0"}, ignored)


def emptied(place):
    """Removes the LUNs in a folder, with their links."""
    for lun in (os.path.join(place, name) for name in folders(place) if name.startswith("lun_")):
        for link in links(lun):
            os.unlink(link)
        os.rmdir(lun)


def take_apart(place, backstores):
    """Removes a target, and its backstore last: until then it proves whose the rest is."""
    for group in groups_of(place):
        assign(os.path.join(group, "enable"), "0")
        for acl in (os.path.join(group, "acls", name) for name in folders(os.path.join(group, "acls"))):
            emptied(acl)
            os.rmdir(acl)
        emptied(os.path.join(group, "lun"))
        os.rmdir(group)
    without(place)
    for backstore in backstores:
        take_backstore(backstore)


def is_block(saved, target):
    """Whether a saved backstore has the name of the volume's."""
    return saved.get("plugin") == "block" and saved.get("name") == target["backstore"]

"""The bare writes for targets of LIO and nvmet, with which make bench-lab compares: no lock, no proof, and nothing is looked at again.

    python3 bare-targets.py lio|nvmet ROOT SAVED make|remove NAME DEVICE
    python3 bare-targets.py lio ROOT SAVED fill NAME DEVICE FROM TO
    python3 bare-targets.py lio ROOT SAVED empty NAME DEVICE TO

ROOT is the folder in configfs. SAVED is the file of the host's tool; "fill" adds to it, as the tool would, and the others to a copy of it
without blanks, which takes the least time. "fill" makes targets NAME1, NAME2 … on DEVICE1, DEVICE2 …; "empty" removes as many.
"""
import contextlib
import errno
import json
import os
import sys

GROUP = {"authentication": "0", "generate_node_acls": "1", "cache_dynamic_acls": "1", "demo_mode_write_protect": "0"}


def write(value, *parts):
    file = os.open(os.path.join(*parts), os.O_WRONLY)
    os.write(file, value.encode())
    os.close(file)


def made(*parts):
    os.makedirs(os.path.dirname(os.path.join(*parts)), exist_ok=True)
    os.mkdir(os.path.join(*parts))
    return os.path.join(*parts)


def shown(place):
    """The values in a folder of configfs that can be read and set."""
    values = {}
    for path in (os.path.join(place, name) for name in sorted(os.listdir(place))):
        if os.path.isfile(path) and os.stat(path).st_mode & 0o600 == 0o600:
            with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
                values[os.path.basename(path)] = file.read().strip()
    return values


class Lio:
    saved = {"fabric_modules": [], "storage_objects": [], "targets": []}

    def __init__(self, root):
        self.root = root

    def places(self, name, number):
        backstore = os.path.join(self.root, "core", "iblock_%d" % number, name.rpartition(":")[2])
        return backstore, os.path.join(self.root, "iscsi", name, "tpgt_1")

    def make(self, name, device, number=1 << 20):
        """Makes a target. Returns what is saved of it, by the lists that it belongs to."""
        backstore, group = self.places(name, number)
        made(backstore)
        write(device, backstore, "udev_path")
        write("udev_path=%s" % device, backstore, "control")
        write("1", backstore, "enable")
        write(name[-36:], backstore, "wwn/vpd_unit_serial")
        made(group)
        for key, value in GROUP.items():
            write(value, group, "attrib", key)
        made(group, "np/0.0.0.0:3260")
        os.symlink(backstore, os.path.join(made(group, "lun/lun_0"), "lun"))
        write("1", group, "enable")
        store = {"attributes": shown(os.path.join(backstore, "attrib")), "dev": device, "plugin": "block", "wwn": name[-36:]}
        tpg = {"attributes": shown(os.path.join(group, "attrib")), "parameters": shown(os.path.join(group, "param"))}
        lun = {"alias": "lun", "index": 0, "storage_object": "/backstores/block/%s" % os.path.basename(backstore)}
        portal = {"ip_address": "0.0.0.0", "iser": False, "offload": False, "port": 3260}
        tpg.update(tag=1, enable=True, luns=[lun], portals=[portal], node_acls=[])
        target = {"fabric": "iscsi", "tpgs": [tpg], "wwn": name}
        return {"storage_objects": dict(store, name=os.path.basename(backstore)), "targets": target}

    def remove(self, name, number=1 << 20):
        """Removes a target. Returns how its saved parts are recognised."""
        backstore, group = self.places(name, number)
        write("0", group, "enable")
        os.unlink(os.path.join(group, "lun/lun_0/lun"))
        for place in [os.path.join(group, "lun/lun_0"), os.path.join(group, "np/0.0.0.0:3260"), group, os.path.dirname(group)]:
            os.rmdir(place)
        os.rmdir(backstore)
        try:
            os.rmdir(os.path.dirname(backstore))
        except OSError as error:
            # Other targets of this program are in it.
            if error.errno != errno.ENOTEMPTY:
                raise
        return {"storage_objects": ("name", os.path.basename(backstore)), "targets": ("wwn", name)}


class Nvmet:
    saved = {"hosts": [], "ports": [], "subsystems": []}

    def __init__(self, root):
        self.root = root

    def make(self, name, device):
        place = made(self.root, "subsystems", name)
        write("1", place, "attr_allow_any_host")
        space = made(place, "namespaces/1")
        write(device, space, "device_path")
        write("1", space, "enable")
        os.symlink(place, os.path.join(self.root, "ports/1/subsystems", name))
        return {"subsystems": {"attr": shown(place), "namespaces": [dict(shown(space), nsid=1)], "nqn": name}}

    def remove(self, name):
        place = os.path.join(self.root, "subsystems", name)
        os.unlink(os.path.join(self.root, "ports/1/subsystems", name))
        os.rmdir(os.path.join(place, "namespaces/1"))
        os.rmdir(place)
        return {"subsystems": ("nqn", name)}


def changed(path, empty, change, indent=None):
    """Changes a saved file and puts it on stable storage."""
    try:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
    except FileNotFoundError:
        config = dict(empty)
    change(config)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(json.dumps(config, sort_keys=True, indent=indent))
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)


def with_parts(every):
    def change(config):
        for each in every:
            for key, part in each.items():
                config[key] = [*config[key], part]

    return change


def without_parts(every):
    def change(config):
        for key, (name, _) in every[0].items():
            old = {each[key] for each in every}
            config[key] = [part for part in config[key] if (name, part.get(name)) not in old]

    return change


def main(kind, root, saved, verb, name, device, *numbers):
    kernel = {"lio": Lio, "nvmet": Nvmet}[kind](root)
    copy = saved + ".bare"
    if verb == "make":
        changed(copy, kernel.saved, with_parts([kernel.make(name, device)]))
    elif verb == "remove":
        changed(copy, kernel.saved, without_parts([kernel.remove(name)]))
    elif verb == "fill":
        first, last = map(int, numbers)
        made_now = [kernel.make("%s%d" % (name, n), "%s%d" % (device, n), (1 << 16) + n) for n in range(first, last + 1)]
        changed(copy, kernel.saved, with_parts(made_now))
        changed(saved, kernel.saved, with_parts(made_now), indent=2)
    else:
        gone = [kernel.remove("%s%d" % (name, n), (1 << 16) + n) for n in range(1, int(numbers[0]) + 1)]
        changed(saved, kernel.saved, without_parts(gone), indent=2)


main(*sys.argv[1:])

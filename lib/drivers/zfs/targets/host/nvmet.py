"""Makes, proves and removes subsystems of the kernel's NVMe target with one namespace each, through configfs.

What the kernel takes and shows: Linux, drivers/nvme/target/configfs.c.
"""



def group_of(place, kind):
    """nvmetcli 0.8, nvme.py, CFSNode.dump: the values whose names begin with the kind."""
    found = [name for name in names(place) if name.startswith(kind + "_") and is_readable_and_writable(os.path.join(place, name))]
    values = {name[len(kind) + 1 :]: text_at(os.path.join(place, name)) for name in found}
    return {name: value for name, value in values.items() if value is not None}


def dump_namespace(place):
    """nvmetcli 0.8, nvme.py, Namespace.dump; older ones read the values that they know."""
    whole = {kind: group_of(place, kind) for kind in ("device", "ana", "resv")}
    enabled = int(text_at(os.path.join(place, "enable")) or 0)
    return dict(whole, nsid=int(os.path.basename(place)), enable=enabled, ana_grpid=int(whole["ana"].get("grpid", 0)))


def dump_subsystem(place):
    """nvmetcli 0.8, nvme.py, Subsystem.dump"""
    spaces = os.path.join(place, "namespaces")
    return {
        "nqn": os.path.basename(place),
        "attr": group_of(place, "attr"),
        "namespaces": [dump_namespace(os.path.join(spaces, name)) for name in folders(spaces)],
        "allowed_hosts": names(os.path.join(place, "allowed_hosts")),
    }


def dump_port(place):
    """nvmetcli 0.8, nvme.py, Port.dump, without its subsystems"""
    ana = os.path.join(place, "ana_groups")
    referrals = os.path.join(place, "referrals")
    return {
        "portid": int(os.path.basename(place)),
        "addr": group_of(place, "addr"),
        "param": group_of(place, "param"),
        "ana_groups": [{"ana": group_of(os.path.join(ana, name), "ana"), "grpid": int(name)} for name in folders(ana)],
        "referrals": [{"addr": group_of(os.path.join(referrals, name), "addr"), "name": name} for name in folders(referrals)],
        "subsystems": [],
    }


class Nvmet:
    """The subsystems of a host; `ask` is the request (host-targets.ts, NvmetRequest)."""

    def __init__(self, ask):
        self.ask = ask
        self.root = ask["root"]
        self.ignored = []
        self.file = SavedFile(ask["saved"], {"hosts": [], "ports": [], "subsystems": []})

    def place(self, target, *parts):
        return os.path.join(self.root, "subsystems", target["name"], *parts)

    def port(self, number, *parts):
        return os.path.join(self.root, "ports", number, *parts)

    def require_loaded(self):
        if not os.path.isdir(os.path.join(self.root, "subsystems")):
            raise Refused("failed", why="the NVMe target (module nvmet) is not loaded")
        marker = self.ask.get("marker")
        if marker and not os.path.exists(marker):
            raise Refused("unrestored", path=marker)

    def state(self, target):
        """What the kernel has of a subsystem: its parts, and the path of another device in it."""
        parts, foreign = set(), None
        if os.path.isdir(self.place(target)):
            parts.add("subsystem")
        for name in folders(self.place(target, "namespaces")):
            path = text_at(self.place(target, "namespaces", name, "device_path"))
            if path in (None, "", "(null)"):
                continue
            if path != target["device"]:
                foreign = path
            elif name != "1":
                foreign = "%s of namespace %s" % (path, name)
            else:
                parts.add("namespace")
                parts.update(["enabled"] if text_at(self.place(target, "namespaces", name, "enable")) == "1" else [])
        parts.update("port %s" % number for number in self.linked(target))
        if "subsystem" in parts and self.is_guarded(target):
            parts.add("authentication")
        return parts, foreign

    def linked(self, target):
        """The ports that lead to a subsystem."""
        every = names(os.path.join(self.root, "ports"))
        return [number for number in every if os.path.lexists(self.port(number, "subsystems", target["name"]))]

    def is_guarded(self, target):
        """Whether only those hosts may connect that the file of the connection lets in, and some can. Fewer are a person's choice."""
        wanted = self.ask["attributes"].get("allow_any_host")
        if text_at(self.place(target, "attr_allow_any_host")) == "1":
            return wanted != "0"
        return wanted != "1" or bool(names(self.place(target, "allowed_hosts")))

    def lacking(self, parts):
        wanted = ["subsystem", "namespace", "enabled", "authentication", *["port %s" % each for each in self.ask["ports"]]]
        return [part for part in wanted if part not in parts]

    def look(self):
        """The parts that each of many subsystems lacks."""
        self.require_loaded()
        found = {}
        for target in self.ask["targets"]:
            parts = self.state(target)[0]
            # Through one of its ports, nodes reach it.
            reached = any(part.startswith("port ") for part in parts)
            found[target["name"]] = [each for each in self.lacking(parts) if not (reached and each.startswith("port "))]
        return {"lacking": {name: parts for name, parts in found.items() if parts}}

    def make(self):
        """Makes a subsystem, or what it lacks. Proof, change and saving are one piece of work under the lock."""
        target, finished = self.ask["target"], self.ask["finished"]
        self.require_loaded()
        if finished and self.is_complete(target):
            return {"done": True}
        require_device(self.ask)
        with alone(self.ask["lock"], self.ask["seconds"]):
            parts, foreign = self.state(target)
            if foreign is not None:
                raise Refused("foreign", device=foreign)
            if "subsystem" in parts and not (finished or target["tagged"] or "namespace" in parts):
                raise Refused("unproved")
            if target["received"] and "namespace" not in parts:
                self.refuse_original(target, parts)
            if not finished:
                self.file.read()
            absent = [each for each in self.ask["ports"] if not os.path.isdir(self.port(each))]
            if absent:
                raise Refused("lacking", parts=["port %s" % each for each in absent], why="the host has no such port of NVMe")
            # Two subsystems would lead to one zvol, of which only the noted one goes with it.
            unnoted = unnoted_of(target)
            if unnoted and "namespace" in self.state(unnoted)[0]:
                self.take_away(unnoted)
            self.complete(target, parts)
            parts, foreign = self.state(target)
            if foreign is not None:
                raise Refused("foreign", device=foreign)
            lacking = self.lacking(parts)
            if lacking:
                raise Refused("lacking", parts=lacking, why="; ".join(self.ignored))
            self.save(target)
        return {"done": True, "ignored": self.ignored}

    def refuse_original(self, target, parts):
        """Refuses a name that the zvol was received with, where the one that it was sent from has it: that may be in a pool that is not imported
        at the moment, and hosts that connect again would find this zvol in its place.
        """
        saved = [each for each in self.file.read().get("subsystems", []) if each.get("nqn") == target["name"]]
        paths = [space.get("device", {}).get("path") for each in saved for space in each.get("namespaces", [])]
        if paths == [target["device"]]:
            return
        if paths:
            raise Refused("foreign", device=str(paths[0]))
        if "subsystem" in parts:
            raise Refused("unproved")

    def is_complete(self, target):
        parts, foreign = self.state(target)
        if foreign is not None:
            raise Refused("foreign", device=foreign)
        return not self.lacking(parts)

    def complete(self, target, parts):
        """Makes what is missing, and leads the ports to it last: before that no host can connect."""
        attributes = {"attr_%s" % name: value for name, value in self.ask["attributes"].items()}
        # Of a subsystem that was complete only what is missing: a person may have changed the rest.
        if not folder(self.place(target)) and self.ask["finished"]:
            wanted = {} if "authentication" in parts else {"attr_allow_any_host"}
            attributes = {name: value for name, value in attributes.items() if name in wanted}
        assign_all(self.place(target), attributes, self.ignored)
        space = self.place(target, "namespaces/1")
        folder(space)
        if "enabled" not in parts:
            assign(os.path.join(space, "device_path"), target["device"])
            write(os.path.join(space, "device_uuid"), target["serial"])
            write(os.path.join(space, "enable"), "1")
        for number in self.ask["ports"]:
            link = self.port(number, "subsystems", target["name"])
            if not os.path.lexists(link):
                os.symlink(self.place(target), link)

    def save(self, target):
        """Puts the subsystem, and the links of its ports, into the saved configuration, and nothing else."""
        whole = dump_subsystem(self.place(target))
        linked = self.linked(target)

        def ports(all_):
            # What was saved without its ports would be unreachable after a restart.
            there = {str(each.get("portid")) for each in all_}
            new = [dict(dump_port(self.port(each)), subsystems=[target["name"]]) for each in linked if each not in there]
            return [with_subsystem(each, target["name"], str(each.get("portid")) in linked) for each in all_] + new

        self.file.change({"ports": ports, "subsystems": lambda all_: put(all_, whole, lambda each: each.get("nqn") == target["name"])})

    def forget(self, target):
        """Takes the subsystem and the links to it out of the saved configuration, unless it was saved with another device."""
        def is_own(saved):
            paths = [each.get("device", {}).get("path") for each in saved.get("namespaces", [])]
            return saved.get("nqn") == target["name"] and (target["tagged"] or paths == [target["device"]])

        saved = self.file.read()
        if not any(is_own(each) for each in saved.get("subsystems", [])):
            return
        self.file.change({
            "ports": lambda all_: [with_subsystem(each, target["name"], False) for each in all_],
            "subsystems": lambda all_: [each for each in all_ if not is_own(each)],
        })

    def remove(self):
        """Removes a subsystem, unless a host is connected."""
        self.require_loaded()
        with alone(self.ask["lock"], self.ask["seconds"]):
            self.take_away(self.ask["target"])
        return {"done": True}

    def take_away(self, target):
        """The same, under the lock."""
        parts, foreign = self.state(target)
        if "subsystem" not in parts:
            self.forget(target)
            return
        if foreign is not None and "namespace" not in parts:
            return
        if foreign is not None:
            raise Refused("foreign", device=foreign)
        if not (target["tagged"] or "namespace" in parts):
            raise Refused("unproved")
        self.file.read()
        Closing(self, target).close()
        self.take_apart(target)
        self.forget(target)

    def take_apart(self, target):
        """The namespace goes last: until then it proves whose the subsystem is."""
        for number in names(os.path.join(self.root, "ports")):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.port(number, "subsystems", target["name"]))
        for name in names(self.place(target, "allowed_hosts")):
            os.unlink(self.place(target, "allowed_hosts", name))
        for name in folders(self.place(target, "namespaces")):
            os.rmdir(self.place(target, "namespaces", name))
        os.rmdir(self.place(target))


def with_subsystem(port, name, wanted):
    """A saved port with or without a subsystem; the same one if that changes nothing."""
    there = port.get("subsystems", [])
    if (name in there) == wanted:
        return port
    return dict(port, subsystems=[*there, name] if wanted else [each for each in there if each != name])


serve(lambda ask: {"make": Nvmet.make, "remove": Nvmet.remove, "look": Nvmet.look}[ask["verb"]](Nvmet(ask)))

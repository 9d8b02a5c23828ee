"""Makes, proves and removes targets of LIO with one LUN each, through configfs.

What the kernel takes and shows: Linux, drivers/target/target_core_configfs.c and drivers/target/iscsi/iscsi_target_configfs.c.
"""


class Lio:
    """The targets of a host; `ask` is the request (host-targets.ts, LioRequest)."""

    def __init__(self, ask):
        self.ask = ask
        self.root = ask["root"]
        self.iscsi = os.path.join(self.root, "iscsi")
        self.ignored = []
        self.index = None
        found = [each for each in ask["saved"] if os.path.exists(each)]
        homes = [each for each in ask["saved"] if os.path.isdir(os.path.dirname(each))]
        # Distributions differ in the place; the file that was written last is in use.
        path = max(found, key=os.path.getmtime) if found else (homes or ask["saved"])[0]
        self.file = SavedFile(path, {"fabric_modules": [], "storage_objects": [], "targets": []}, backups=True)

    def backstores(self, name):
        """The backstores for block devices with this name."""
        core = os.path.join(self.root, "core")
        if self.index is None:
            found = [os.path.join(core, hba, name) for hba in names(core) if hba.startswith("iblock_")]
            return [each for each in found if os.path.isdir(each)]
        return self.index.get(name, [])

    def indexed(self):
        """Finds all backstores at once, for a look at many targets."""
        self.index = {}
        core = os.path.join(self.root, "core")
        for hba in names(core):
            for name in folders(os.path.join(core, hba)) if hba.startswith("iblock_") else []:
                self.index.setdefault(name, []).append(os.path.join(core, hba, name))

    def state(self, target):
        """What the kernel has of a target: its parts, the path of another device under its names, and LUNs of other targets."""
        parts, foreign, others = set(), None, []
        place = os.path.join(self.iscsi, target["name"])
        group = os.path.join(place, "tpgt_1")
        for backstore in self.backstores(target["backstore"]):
            path = text_at(os.path.join(backstore, "udev_path"))
            if path != target["device"]:
                # One without a path is what an interrupted creation leaves.
                foreign = path or foreign
                parts.update([] if path else ["blank"])
                continue
            parts.add("backstore" if text_at(os.path.join(backstore, "enable")) == "1" else "blank")
            for name in folders(os.path.join(backstore, "alua")):
                members = (text_at(os.path.join(backstore, "alua", name, "members")) or "").replace("\0", "").split("\n")
                others += [each for each in members if each and not each.startswith("iSCSI/%s/" % target["name"])]
        if os.path.isdir(place):
            parts.add("target")
        if text_at(os.path.join(group, "enable")) == "1":
            parts.add("enabled")
        if folders(os.path.join(group, "np")):
            parts.add("portal")
        for tpg in groups_of(place):
            luns = os.path.join(tpg, "lun")
            for link in (link for lun in folders(luns) for link in links(os.path.join(luns, lun))):
                path = text_at(os.path.join(link, "udev_path"))
                if path != target["device"]:
                    foreign = path or foreign
                elif os.path.dirname(link) == os.path.join(group, "lun", "lun_0"):
                    parts.add("lun")
        if "target" in parts and self.is_guarded(group):
            parts.add("authentication")
        return parts, foreign, others

    def is_guarded(self, group):
        """Whether a login needs what the file of the connection asks for. A stricter target is a person's choice."""
        if self.ask["group"].get("authentication") == "1" and text_at(os.path.join(group, "attrib/authentication")) != "1":
            return False
        return all(text_at(os.path.join(group, "auth", name)) == value for name, value in self.ask["auth"].items())

    def lacking(self, parts):
        """The parts that nodes would miss."""
        return [part for part in ("backstore", "target", "lun", "portal", "authentication", "enabled") if part not in parts]

    def look(self):
        """The parts that each of many targets lacks."""
        self.indexed()
        lacking = {each["name"]: self.lacking(self.state(each)[0]) for each in self.ask["targets"]}
        return {"lacking": {name: parts for name, parts in lacking.items() if parts}}

    def make(self):
        """Makes a target, or what it lacks. Proof, change and saving are one piece of work under the lock of targetcli."""
        target, finished = self.ask["target"], self.ask["finished"]
        if finished and self.is_complete(target):
            return {"done": True}
        require_device(self.ask)
        with alone(self.ask["lock"], self.ask["seconds"]):
            parts, foreign, _ = self.state(target)
            if foreign is not None:
                raise Refused("foreign", device=foreign)
            if "target" in parts and not (finished or target["tagged"] or "backstore" in parts):
                raise Refused("unproved")
            # A zvol can be in one backstore only.
            unnoted = unnoted_of(target)
            if unnoted and os.path.isdir(os.path.join(self.iscsi, unnoted["name"])) and "backstore" in self.state(unnoted)[0]:
                self.take_away(unnoted)
            config = self.read_saved(finished)
            saved = self.saved_of(target, config)
            if target["received"] and not saved[0] and "backstore" not in parts:
                self.refuse_original(target, parts, config)
            self.complete(target, *saved)
            parts, foreign, _ = self.state(target)
            if foreign is not None:
                raise Refused("foreign", device=foreign)
            lacking = self.lacking(parts)
            if lacking:
                raise Refused("lacking", parts=lacking, why="; ".join(self.ignored))
            self.save(target)
        return {"done": True, "ignored": self.ignored}

    def refuse_original(self, target, parts, config):
        """Refuses a name that the zvol was received with, where the one that it was sent from has it: that may be in a pool that is not imported
        at the moment, and nodes that log in again would find this zvol in its place.
        """
        stores = [each for each in config.get("storage_objects", []) if each.get("plugin") == "block"]
        for device in (each.get("dev") for each in stores if each.get("name") == target["backstore"]):
            raise Refused("foreign", device=str(device))
        if "target" in parts:
            raise Refused("unproved")

    def is_complete(self, target):
        parts, foreign, _ = self.state(target)
        if foreign is not None:
            raise Refused("foreign", device=foreign)
        return not self.lacking(parts)

    def read_saved(self, finished):
        """What is saved. A volume that was complete gets its target back also where nothing can be saved, which is refused after it."""
        try:
            return self.file.read()
        except Refused:
            if finished:
                return {}
            raise

    def saved_of(self, target, config):
        """The saved backstore and target of the volume, as far as they are its own."""
        def is_own(each):
            return each.get("plugin") == "block" and each.get("name") == target["backstore"] and each.get("dev") == target["device"]

        stores = [each for each in config.get("storage_objects", []) if is_own(each)]
        own = [each for each in config.get("targets", []) if self.is_own_target(target, each, stores)]
        groups = [each for each in (own[0] if own else {}).get("tpgs", []) if each.get("tag") == 1]
        return (stores[0] if stores else {}), (groups[0] if groups else {})

    def is_own_target(self, target, saved, stores):
        """Whether a saved target is the volume's: it has its name, and no LUN of it leads elsewhere."""
        if saved.get("fabric") != "iscsi" or saved.get("wwn") != target["name"]:
            return False
        luns = [lun.get("storage_object") for group in saved.get("tpgs", []) for lun in group.get("luns", [])]
        own = "/backstores/block/%s" % target["backstore"]
        return target["tagged"] or (bool(stores) and all(lun == own for lun in luns))

    def complete(self, target, saved_store, saved_group):
        """Makes what is missing, and enables it last: before that no initiator can log in."""
        loaded(self.root, "target_core_mod")
        prefer_folder(self.root, os.path.dirname(self.file.path))
        backstore = self.backstore(target, saved_store)
        group = os.path.join(self.iscsi, target["name"], "tpgt_1")
        folder(self.iscsi)
        folder(os.path.dirname(group))
        lun = os.path.join(group, "lun/lun_0")
        if folder(group) or (not links(lun) and text_at(os.path.join(group, "enable")) == "0"):
            # As targetcli makes every group (targetcli-fb 2.1.53, ui_target.py); the kernel begins with 1.
            assign_all(os.path.join(group, "attrib"), {"authentication": "0"}, self.ignored)
            assign_saved(group, saved_group)
            wanted = self.ask["group"]
        # Of a target that was complete only what is missing: a person may have changed the rest.
        elif self.ask["finished"]:
            wanted = {name: value for name, value in self.ask["group"].items() if (name, value) == ("authentication", "1")}
        else:
            wanted = self.ask["group"]
        assign_all(os.path.join(group, "attrib"), wanted, self.ignored)
        for name, value in self.ask["auth"].items():
            assign(os.path.join(group, "auth", name), value)
        folder(lun)
        if not links(lun):
            os.symlink(backstore, os.path.join(lun, os.urandom(5).hex()))
        if not folders(os.path.join(group, "np")):
            add_portals(group, saved_group.get("portals", []), self.ignored)
        for acl in saved_group.get("node_acls", []):
            add_acl(group, acl, self.ignored)
        assign(os.path.join(group, "enable"), "1")

    def backstore(self, target, saved):
        """The backstore of the device, which is made if need be."""
        for each in self.backstores(target["backstore"]):
            if text_at(os.path.join(each, "enable")) == "1":
                assign_all(os.path.join(each, "attrib"), {} if self.ask["finished"] else self.ask["block"], self.ignored)
                return each
            take_backstore(each)
        place = new_backstore(self.root, target, saved)
        assign_all(os.path.join(place, "attrib"), self.ask["block"], self.ignored)
        return place

    def save(self, target):
        """Puts the volume's backstore and target into the saved configuration, and nothing else."""
        backstore = dump_backstore(self.backstores(target["backstore"])[0])
        whole = dump_target(os.path.join(self.iscsi, target["name"]))
        self.file.change({
            "storage_objects": lambda all_: put(all_, backstore, lambda each: is_block(each, target)),
            "targets": lambda all_: put(all_, whole, lambda each: each.get("fabric") == "iscsi" and each.get("wwn") == target["name"]),
        })

    def forget(self, target):
        """Takes the volume's backstore and target out of the saved configuration, as far as they are its own."""
        stores = []

        def without_stores(all_):
            stores.extend(each for each in all_ if is_block(each, target) and each.get("dev") == target["device"])
            return [each for each in all_ if each not in stores]

        self.file.change({
            "storage_objects": without_stores,
            "targets": lambda all_: [each for each in all_ if not self.is_own_target(target, each, stores)],
        })

    def remove(self):
        """Removes a target with its backstore, unless an initiator is logged in."""
        with alone(self.ask["lock"], self.ask["seconds"]):
            self.take_away(self.ask["target"])
        return {"done": True}

    def take_away(self, target):
        """The same, under the lock."""
        parts, foreign, others = self.state(target)
        if not parts & {"target", "backstore", "blank"}:
            self.forget(target)
            return
        if foreign is not None and "backstore" not in parts:
            return
        if foreign is not None:
            raise Refused("foreign", device=foreign)
        if others:
            raise Refused("others", lun=others[0])
        if "target" in parts and not (target["tagged"] or parts & {"backstore", "lun"}):
            raise Refused("unproved")
        self.file.read()
        self.close(target)
        take_apart(os.path.join(self.iscsi, target["name"]), self.backstores(target["backstore"]))
        if self.state(target)[0] & {"target", "backstore"}:
            raise Refused("remains")
        self.forget(target)

    def sessions(self, place):
        """The initiators that are logged in: those without an access list behind a NUL each (target_core_tpg.c), others in its `info`."""
        found = []
        for group in groups_of(place):
            found += [each for each in text(os.path.join(group, "dynamic_sessions")).replace("\0", "\n").split("\n") if each]
            for acl in folders(os.path.join(group, "acls")):
                info = text_at(os.path.join(group, "acls", acl, "info"))
                found += [acl] if info is not None and not info.startswith("No active ") else []
        return found

    def users(self):
        used = self.sessions(os.path.join(self.iscsi, self.ask["target"]["name"]))
        if used:
            raise Refused("sessions", by=used)
        return {"done": True}

    def close(self, target):
        """Removes the portals: a session outlives the one that it came through, and without one nobody can log in."""
        place = os.path.join(self.iscsi, target["name"])
        used = self.sessions(place)
        if used:
            raise Refused("sessions", by=used)
        removed = []
        try:
            for group in groups_of(place):
                for name in folders(os.path.join(group, "np")):
                    portal = os.path.join(group, "np", name)
                    iser = text_at(os.path.join(portal, "iser")) == "1"
                    os.rmdir(portal)
                    removed.append((portal, iser))
            used = self.sessions(place)
        except OSError:
            self.reopen(removed)
            raise
        if used:
            self.reopen(removed)
            raise Refused("sessions", by=used)

    def reopen(self, removed):
        for portal, iser in removed:
            folder(portal)
            if iser:
                assign_all(portal, {"iser": "1"}, self.ignored)

serve(lambda ask: {"make": Lio.make, "remove": Lio.remove, "look": Lio.look, "users": Lio.users}[ask["verb"]](Lio(ask)))

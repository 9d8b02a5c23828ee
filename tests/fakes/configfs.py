"""A folder that behaves as the kernel's configfs does for LIO and nvmet, to a program in Python that runs in it.

    python3 configfs.py FOLDER [options of python3] -c PROGRAM
    python3 configfs.py --serve

FOLDER/lio is /sys/kernel/config/target, FOLDER/nvmet /sys/kernel/config/nvmet. What a person changes there by other means happens
as if the kernel had done it. A file FOLDER/lio-fault or FOLDER/nvmet-fault has one fault; "die 3" ends the program before its third
change.

Rules of configfs: Linux 6.1, fs/configfs/dir.c and symlink.c. LIO: drivers/target/target_core_configfs.c, target_core_iblock.c,
target_core_fabric_configfs.c and iscsi/iscsi_target_configfs.c. nvmet: drivers/nvme/target/configfs.c and core.c.
"""
import errno
import fcntl
import glob
import os
import re
import sys

REAL = {name: getattr(os, name) for name in ("mkdir", "rmdir", "symlink", "unlink", "open", "write", "rename")}
# Attributes as a new object shows them; those that the tools do not save are not written (Linux 6.1, DEF_TPG_ATTRIB, sbc_attrib_attrs).
GROUP = {
    "attrib/authentication": 1, "attrib/cache_dynamic_acls": 0, "attrib/default_cmdsn_depth": 64, "attrib/default_erl": 0,
    "attrib/demo_mode_discovery": 1, "attrib/demo_mode_write_protect": 1, "attrib/fabric_prot_type": 0,
    "attrib/generate_node_acls": 0, "attrib/login_keys_workaround": 1, "attrib/login_timeout": 15,
    "attrib/prod_mode_write_protect": 0, "attrib/t10_pi": 0, "attrib/tpg_enabled_sendtargets": 1,
    "auth/userid": "", "auth/password": "", "auth/userid_mutual": "", "auth/password_mutual": "",
    "param/AuthMethod": "CHAP,None", "param/MaxConnections": 1, "enable": 0, "dynamic_sessions": None,
}
BACKSTORE = {
    "attrib/block_size": 512, "attrib/emulate_model_alias": 0, "attrib/emulate_tpu": 0, "attrib/emulate_write_cache": 0,
    "attrib/queue_depth": 128, "udev_path": "", "control": "", "enable": 0, "info": "Status: DEACTIVATED",
    "wwn/vpd_unit_serial": "T10 VPD Unit Serial Number: ", "pr/res_aptpl_metadata": "",
}
ALUA = {
    "alua_access_state": 0, "alua_access_status": "None", "alua_access_type": "Implicit and Explicit", "alua_write_metadata": 0,
    "alua_support_active_nonoptimized": 1, "alua_support_active_optimized": 1, "alua_support_offline": 1, "alua_support_standby": 1,
    "alua_support_transitioning": 1, "alua_support_unavailable": 1, "implicit_trans_secs": 0, "nonop_delay_msecs": 100,
    "preferred": 0, "tg_pt_gp_id": 0, "trans_delay_msecs": 0, "members": None,
}
ACL = {
    "attrib/dataout_timeout": 3, "auth/userid": "", "auth/password": "", "auth/userid_mutual": "", "auth/password_mutual": "",
    "tag": "", "info": "No active iSCSI Session for Initiator Endpoint: ",
}
SUBSYSTEM = {"attr_allow_any_host": 0, "attr_serial": "0123456789abcdef", "attr_version": "1.3", "attr_model": "Linux"}
NAMESPACE = {
    "ana_grpid": 1, "buffered_io": 0, "device_nguid": "00000000-0000-0000-0000-000000000000", "device_path": "(null)",
    "device_uuid": "00000000-0000-0000-0000-000000000000", "enable": 0,
}
# What a folder of this name becomes, with its files and its groups; None: refused.
KINDS = [
    (r"lio/core/iblock_\d+", {"hba_info": "HBA Index: 1 plugin: iblock version: v5.0"}, []),
    (r"lio/core/fileio_\d+", {"hba_info": "HBA Index: 1 plugin: fileio version: v5.0"}, []),
    (r"lio/core/iblock_\d+/[^/]+", BACKSTORE, ["alua/default_tg_pt_gp", "statistics"]),
    (r"lio/iscsi", {}, ["discovery_auth"]),
    (r"lio/iscsi/[^/]{1,223}", {"param/cmd_completion_affinity": -1}, ["fabric_statistics"]),
    (r"lio/iscsi/[^/]+/tpgt_\d+", GROUP, ["lun", "np", "acls"]),
    (r"lio/iscsi/[^/]+/tpgt_\d+/lun/lun_\d+", {"alua_tg_pt_gp": ""}, ["statistics"]),
    (r"lio/iscsi/[^/]+/tpgt_\d+/np/[^/]+:\d+", {"iser": 0, "cxgbit": 0}, []),
    (r"lio/iscsi/[^/]+/tpgt_\d+/acls/[^/]+", ACL, []),
    (r"lio/iscsi/[^/]+/tpgt_\d+/acls/[^/]+/lun_\d+", {"write_protect": 0}, []),
    (r"nvmet/subsystems/[^/]{1,223}", SUBSYSTEM, ["namespaces", "allowed_hosts"]),
    (r"nvmet/subsystems/[^/]+/namespaces/[1-9]\d*", NAMESPACE, []),
    (r"nvmet/hosts/[^/]{1,223}", {}, []),
]


class Kernel:
    """The folder, and the changes that a program makes in it."""

    def __init__(self, folder):
        self.folder = os.path.realpath(folder)
        self.opened = {}
        self.changes = 0

    def inner(self, path):
        """The path below the folder; None outside of lio and nvmet."""
        whole = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
        inner = os.path.relpath(whole, self.folder)
        return inner if re.match(r"(lio|nvmet)(/|$)", inner) else None

    def at(self, inner):
        return os.path.join(self.folder, inner)

    def read(self, inner):
        try:
            with open(self.at(inner), encoding="utf-8") as file:
                return file.read().strip()
        except OSError:
            return ""

    def put(self, inner, value):
        with open(self.at(inner), "w", encoding="utf-8") as file:
            file.write("" if value is None else "%s\n" % value)

    def fault(self, inner):
        return self.read("%s-fault" % inner.split("/")[0])

    def change(self, inner):
        """Counts a change, and ends the program before the one at which the fault says so, as a loss of power would."""
        self.changes += 1
        if self.fault(inner) == "die %d" % self.changes:
            os._exit(9)

    def refuse(self, code, inner):
        raise OSError(code, os.strerror(code), self.at(inner))

    def below(self, inner):
        try:
            return sorted(os.listdir(self.at(inner)))
        except OSError:
            return []

    def groups(self, inner):
        """The groups that the kernel makes with a folder; nobody else can remove them."""
        return next((groups for shape, _, groups in KINDS if re.fullmatch(shape, inner)), [])

    def mkdir(self, inner):
        files, groups = next(((files, groups) for shape, files, groups in KINDS if re.fullmatch(shape, inner)), (None, None))
        if os.path.isdir(self.at(inner)):
            self.refuse(errno.EEXIST, inner)
        if files is None:
            self.refuse(errno.EINVAL, inner)
        if "/np/" in inner and self.fault(inner) == "noportal":
            self.refuse(errno.EADDRINUSE, inner)
        REAL["mkdir"](self.at(inner))
        for name in groups:
            self.deep(inner, name)
        for name, value in files.items():
            if "/" in name:
                self.deep(inner, os.path.dirname(name))
            self.put("%s/%s" % (inner, name), value)
        if "alua/default_tg_pt_gp" in groups:
            for name, value in ALUA.items():
                self.put("%s/alua/default_tg_pt_gp/%s" % (inner, name), value)

    def deep(self, inner, name):
        place = inner
        for part in name.split("/"):
            place = "%s/%s" % (place, part)
            if not os.path.isdir(self.at(place)):
                REAL["mkdir"](self.at(place))

    def rmdir(self, inner):
        """fs/configfs/dir.c, configfs_rmdir: not what the kernel made, nor what something was made in, nor what a link leads to."""
        if not os.path.isdir(self.at(inner)):
            self.refuse(errno.ENOENT, inner)
        if not any(re.fullmatch(shape, inner) for shape, _, _ in KINDS) or inner == "lio/iscsi" and len(self.below(inner)) > 1:
            self.refuse(errno.EPERM, inner)
        if self.made_in(inner):
            self.refuse(errno.ENOTEMPTY, inner)
        if self.leads_to(inner):
            self.refuse(errno.EBUSY, inner)
        if "/np/" in inner and self.fault(inner).startswith("login "):
            # An initiator logs in through the portal at the last moment.
            sessions = self.at("%s/dynamic_sessions" % inner.split("/np/")[0])
            with open(sessions, "w", encoding="utf-8") as file:
                file.write("%s\n\0" % self.fault(inner)[6:])
        for root, folders, files in os.walk(self.at(inner), topdown=False):
            for name in files:
                REAL["unlink"](os.path.join(root, name))
            for name in folders:
                path = os.path.join(root, name)
                REAL["unlink"](path) if os.path.islink(path) else REAL["rmdir"](path)
        REAL["rmdir"](self.at(inner))

    def made_in(self, inner):
        """Folders and links below that somebody made."""
        own = {os.path.join(inner, name) for group in self.groups(inner) for name in (group, os.path.dirname(group)) if name}
        for root, folders, files in os.walk(self.at(inner)):
            for name in folders + files:
                path = os.path.relpath(os.path.join(root, name), self.folder)
                if os.path.islink(self.at(path)):
                    return True
                if name in folders and path not in own and any(re.fullmatch(shape, path) for shape, _, _ in KINDS):
                    return True
        return False

    def leads_to(self, inner):
        """Whether a link leads to it: of a LUN, of an access list, of a port, of allowed hosts."""
        places = [
            (r"lio/core/[^/]+/[^/]+", "lio/iscsi/*/tpgt_*/lun/lun_*/*"),
            (r"lio/iscsi/[^/]+/tpgt_\d+/lun/lun_\d+", "%s/acls/*/lun_*/*" % os.path.dirname(os.path.dirname(inner))),
            (r"nvmet/subsystems/[^/]+", "nvmet/ports/*/subsystems/%s" % os.path.basename(inner)),
            (r"nvmet/hosts/[^/]+", "nvmet/subsystems/*/allowed_hosts/%s" % os.path.basename(inner)),
        ]
        pattern = next((pattern for shape, pattern in places if re.fullmatch(shape, inner)), None)
        if pattern is None:
            return False
        return any(os.path.islink(path) and os.path.realpath(path) == self.at(inner) for path in glob.iglob(self.at(pattern)))

    def symlink(self, source, inner):
        source = os.path.relpath(os.path.realpath(source), self.folder)
        place = os.path.dirname(inner)
        if os.path.lexists(self.at(inner)):
            self.refuse(errno.EEXIST, inner)
        if re.fullmatch(r"lio/iscsi/[^/]+/tpgt_\d+/lun/lun_\d+", place):
            # target_core_fabric_configfs.c, target_fabric_port_link
            if not re.fullmatch(r"lio/core/[^/]+/[^/]+", source) or self.read("%s/enable" % source) != "1":
                self.refuse(errno.ENODEV, inner)
            if any(os.path.islink(self.at("%s/%s" % (place, name))) for name in self.below(place)):
                self.refuse(errno.EEXIST, inner)
            if self.fault(inner) == "nolun":
                self.refuse(errno.EIO, inner)
            self.put("%s/alua_tg_pt_gp" % place, "TG Port Alias: default_tg_pt_gp\nTG Port Group ID: 0")
        elif re.fullmatch(r"lio/iscsi/[^/]+/tpgt_\d+/acls/[^/]+/lun_\d+", place):
            if os.path.dirname(source) != "%s/lun" % place.split("/acls/")[0]:
                self.refuse(errno.EINVAL, inner)
        elif re.fullmatch(r"nvmet/ports/\d+/subsystems", place):
            if not re.fullmatch(r"nvmet/subsystems/[^/]+", source):
                self.refuse(errno.EINVAL, inner)
            if self.fault(inner) == "nolink":
                self.refuse(errno.EADDRINUSE, inner)
        elif re.fullmatch(r"nvmet/subsystems/[^/]+/allowed_hosts", place):
            # configfs.c, nvmet_allowed_hosts_allow_link
            if self.read("%s/attr_allow_any_host" % os.path.dirname(place)) == "1":
                self.refuse(errno.EINVAL, inner)
        else:
            self.refuse(errno.EPERM, inner)
        REAL["symlink"](self.at(source), self.at(inner))
        self.members(source)

    def unlink(self, inner):
        if not os.path.islink(self.at(inner)):
            self.refuse(errno.EPERM if os.path.lexists(self.at(inner)) else errno.ENOENT, inner)
        source = os.path.relpath(os.path.realpath(self.at(inner)), self.folder)
        if re.search(r"/lun/lun_\d+/[^/]+$", inner) and self.leads_to(os.path.dirname(inner)):
            self.refuse(errno.EBUSY, inner)
        REAL["unlink"](self.at(inner))
        self.members(source)
        self.happens(inner)

    def happens(self, inner):
        """What a fault says that others do at the moment of a change of nvmet."""
        what, _, which = self.fault(inner).partition(" ")
        if what == "cut" and inner.startswith("nvmet/ports/"):
            # configfs.c, nvmet_port_subsys_drop_link: the connections of the subsystem end.
            path = os.path.join(self.folder, "tcp")
            with open(path, encoding="utf-8") as file:
                lines = [line for line in file if which not in line]
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(lines)
        if what == "controller" and "/allowed_hosts/" in inner:
            place = os.path.join(self.folder, "controllers", inner.split("/")[2], "ctrl2")
            os.makedirs(place)
            with open(os.path.join(place, "hostnqn"), "w", encoding="utf-8") as file:
                file.write("%s\n" % which)

    def members(self, backstore):
        """A backstore names the LUNs that lead to it (target_core_configfs.c, target_tg_pt_gp_members_show)."""
        if not os.path.isdir(self.at("%s/alua/default_tg_pt_gp" % backstore)):
            return
        links = glob.iglob(self.at("lio/iscsi/*/tpgt_*/lun/lun_*/*"))
        own = [os.path.dirname(each) for each in links if os.path.islink(each) and os.path.realpath(each) == self.at(backstore)]
        lines = [os.path.relpath(each, self.at("lio/iscsi")).replace("/lun/", "/") for each in own]
        self.put("%s/alua/default_tg_pt_gp/members" % backstore, "\n".join("iSCSI/%s" % each for each in lines) or None)

    def write(self, inner, value):
        value = value.rstrip("\n")
        place, name = os.path.split(inner)
        if re.fullmatch(r"lio/core/[^/]+/[^/]+", place):
            return self.write_backstore(place, name, value)
        if name == "vpd_unit_serial":
            return self.put(inner, "T10 VPD Unit Serial Number: %s" % value)
        if "/auth/" in inner:
            # iscsi_target_configfs.c, __iscsi_##prefix##_##name##_store
            return self.put(inner, "NULL" if value.startswith("NULL") else value[:255])
        if "/attrib/" in inner and not re.fullmatch(r"\d+", value):
            self.refuse(errno.EINVAL, inner)
        if name == "emulate_model_alias" and self.read("%s/alua/default_tg_pt_gp/members" % os.path.dirname(place)):
            self.refuse(errno.EINVAL, inner)
        if name == "enable" and re.search(r"/tpgt_\d+$", place):
            # iscsi_target_configfs.c, before Linux 5.16; since then target_core_fabric_configfs.c takes the state that a group has.
            if value not in ("0", "1"):
                self.refuse(errno.EINVAL, inner)
        if re.search(r"/namespaces/\d+$", place):
            return self.write_namespace(place, name, value)
        if name == "attr_allow_any_host" and value == "1" and self.below("%s/allowed_hosts" % place):
            # configfs.c, nvmet_subsys_attr_allow_any_host_store
            self.refuse(errno.EINVAL, inner)
        return self.put(inner, value)

    def write_backstore(self, place, name, value):
        inner = "%s/%s" % (place, name)
        configured = self.read("%s/enable" % place) == "1"
        if name == "control":
            # target_core_iblock.c, iblock_set_configfs_dev_params
            key, _, what = value.partition("=")
            if key not in ("udev_path", "readonly", "force"):
                self.refuse(errno.EINVAL, inner)
            if configured and key == "udev_path":
                self.refuse(errno.EEXIST, inner)
            return self.put("%s/.%s" % (place, key), what)
        if name == "enable":
            # target_core_configfs.c, target_dev_enable_store; target_core_device.c, target_configure_device
            if value != "1":
                self.refuse(errno.EINVAL, inner)
            device = self.read("%s/.udev_path" % place)
            if configured:
                self.refuse(errno.EEXIST, inner)
            if not device:
                self.refuse(errno.EINVAL, inner)
            if not os.path.exists(device) or self.fault(inner) == "noenable":
                self.refuse(errno.ENOENT, inner)
            if any(self.read(each) == "1" and self.read("%s/.udev_path" % os.path.dirname(each)) == device for each in self.enables()):
                self.refuse(errno.EBUSY, inner)
            readonly = self.read("%s/.readonly" % place) or "0"
            self.put("%s/info" % place, "Status: ACTIVATED  SectorSize: 512\n iBlock device: zd0  UDEV PATH: %s  readonly: %s" % (device, readonly))
        return self.put(inner, value)

    def enables(self):
        return ["lio/core/%s/%s/enable" % (hba, name) for hba in self.below("lio/core") for name in self.below("lio/core/%s" % hba)]

    def write_namespace(self, place, name, value):
        inner = "%s/%s" % (place, name)
        if name == "enable" and value == "1":
            if self.fault(inner) == "noenable" or not os.path.exists(self.read("%s/device_path" % place)):
                self.refuse(errno.ENOENT, inner)
        elif name.startswith("device_") and self.read("%s/enable" % place) == "1":
            # configfs.c, nvmet_ns_device_path_store and others
            self.refuse(errno.EBUSY, inner)
        return self.put(inner, value)

    def open(self, path, flags, *mode, **more):
        inner = self.inner(path)
        if inner is None:
            if self.read("nvmet-fault") == "nosave" and path.endswith(".csimux"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            return REAL["open"](path, flags, *mode, **more)
        if flags & (os.O_WRONLY | os.O_RDWR) and not os.path.exists(path):
            self.refuse(errno.ENOENT if not flags & os.O_CREAT else errno.EPERM, inner)
        file = REAL["open"](path, flags & ~os.O_CREAT, *mode, **more)
        if flags & (os.O_WRONLY | os.O_RDWR):
            self.opened[file] = inner
        return file

    def written(self, file, data):
        inner = self.opened.pop(file, None)
        if inner is None:
            return REAL["write"](file, data)
        self.change(inner)
        self.write(inner, data.decode())
        return len(data)

    def zvol_of(self, file, request, _buffer):
        """BLKZNAME (OpenZFS, include/sys/fs/zfs.h), for the devices that a test has named in the folder zvols."""
        name = self.read("zvols/%s" % os.path.basename(os.readlink("/proc/self/fd/%d" % file)))
        if request != 2 << 30 | 256 << 16 | 0x12 << 8 | 125 or not name:
            raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
        return name.encode().ljust(256, b"\0")

    def patched(self, name):
        """The function of `os`, for paths in configfs the kernel's."""
        def call(*words, **more):
            path = words[1] if name == "symlink" else words[0]
            inner = self.inner(path)
            if inner is None or inner == "lio":
                return REAL[name](*words, **more)
            self.change(inner)
            return getattr(self, name)(*(words[:1] if name == "symlink" else ()), inner)

        return call


def run(folder, words, execute=exec):
    """Runs a program in the model. `words`: options of python3, -c, the program, and its arguments."""
    kernel = Kernel(folder)
    for name in ("mkdir", "rmdir", "symlink", "unlink"):
        setattr(os, name, kernel.patched(name))
    os.open, os.write = kernel.open, kernel.written
    fcntl.ioctl = kernel.zvol_of
    program = words[words.index("-c") + 1]
    sys.argv = ["-c", *words[words.index("-c") + 2 :]]
    names = {"__name__": "__main__"}
    execute(compile(program, "<program>", "exec"), names)


def serve():
    """Runs programs for a test, each in a fork: starting python3 and compiling takes ten times as long as most of them.

    One request a line: {"id", "folder", "path", "words", "stdin"}. One answer a line: {"id", "out", "err", "code"}.
    """
    import builtins
    import json
    import traceback

    lock = os.memfd_create("lock")
    compiled = {}

    def program(request):
        """A process of the program; it never returns."""
        os.environ["PATH"] = request["path"]
        sys.stdin, sys.stdout, sys.stderr = open(0, encoding="utf-8"), open(1, "w", encoding="utf-8"), open(2, "w", encoding="utf-8")
        real = builtins.exec
        # The program that csimux sends, which a loader executes in its own names.
        builtins.exec = lambda text, *names: real(compiled.get(text, text), *(names or [sys._getframe(1).f_globals]))
        code = 0
        try:
            run(request["folder"], request["words"], real)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
            if code == 1 and isinstance(end.code, str):
                sys.stderr.write(end.code + "\n")
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def attend(request):
        """Waits for the program, and answers."""
        files = [os.memfd_create(name) for name in ("in", "out", "err")]
        REAL["write"](files[0], request["stdin"].encode())
        os.lseek(files[0], 0, os.SEEK_SET)
        pid = os.fork()
        if pid == 0:
            for number, file in enumerate(files):
                os.dup2(file, number)
            program(request)
        _, status = os.waitpid(pid, 0)
        out, err = (os.pread(file, os.fstat(file).st_size, 0).decode("utf-8", "replace") for file in files[1:])
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        answer = json.dumps({"id": request["id"], "out": out, "err": err, "code": code}).encode() + b"\n"
        # A pipe takes no more than 4 KiB in one piece (pipe(7)).
        fcntl.lockf(lock, fcntl.LOCK_EX)
        while answer:
            answer = answer[REAL["write"](1, answer) :]
        os._exit(0)

    running = set()
    for line in sys.stdin:
        request = json.loads(line)
        text = request["stdin"].split("\n", 1)[0]
        if text.startswith('"') and (text := json.loads(text)) not in compiled:
            compiled[text] = compile(text, "<string>", "exec")
        pid = os.fork()
        if pid == 0:
            attend(request)
        running = {each for each in running | {pid} if os.waitpid(each, os.WNOHANG)[0] == 0}


if sys.argv[1] == "--serve":
    serve()
else:
    run(sys.argv[1], sys.argv[2:])

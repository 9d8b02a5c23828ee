"""How a subsystem is closed to its hosts before it is removed, and found in use."""

# How long a host that was cut off may take to reconnect, in seconds: twelve reconnect delays of nvme-cli's default (10 s).
SETTLE = 120


class Closing:
    """First closes the subsystem to new hosts, which those that are connected do not notice (Linux, drivers/nvme/target/core.c,
    nvmet_host_allowed). Then looks for controllers where the kernel shows them (6.11 and newer). An older kernel shows them nowhere,
    but ends the connections of a subsystem when the last port stops leading to it (configfs.c, nvmet_port_subsys_drop_link): if no TCP
    connection to its ports ends, no host was connected. Otherwise everything is restored immediately: a host reconnects after some
    10 s, and its I/O waits meanwhile. Transports other than TCP show nothing.

    A note of the time and of the previous settings is written before the first change. It stays when a host was cut off, or when
    the work was killed: the next run restores what is missing and waits, because a host that was cut off still uses the disk without
    being connected. Its lines: seconds since the host's start, 1 if any host is allowed, ports, allowed hosts.
    """

    def __init__(self, nvmet, target):
        self.nvmet = nvmet
        self.target = target
        self.subsystem = nvmet.place(target)
        self.note = os.path.join(nvmet.ask["notes"], "csimux-closed-%s" % target["name"])
        self.any = False
        self.ports = []
        self.hosts = []

    def now(self):
        return int(float(text("/proc/uptime").split()[0]))

    def controllers(self):
        """The hosts of the controllers that the kernel shows."""
        place = os.path.join(self.nvmet.ask["controllers"], self.target["name"])
        return [text(os.path.join(place, name, "hostnqn")) for name in folders(place) if name.startswith("ctrl")]

    def connections(self, numbers):
        """The established TCP connections to these ports (proc(5), /proc/net/tcp)."""
        found = set()
        for path in self.nvmet.ask["connections"]:
            for words in (line.split() for line in (text_at(path) or "").split("\n")):
                if len(words) > 3 and words[3] == "01" and words[1].rpartition(":")[2] in numbers:
                    found.add((words[1], words[2]))
        return found

    def write_note(self, now):
        lines = [str(now), "1" if self.any else "", " ".join(self.ports), " ".join(self.hosts), ""]
        with open(self.note + ".new", "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        os.rename(self.note + ".new", self.note)

    def read_note(self):
        with open(self.note, encoding="utf-8") as file:
            at, any_, ports, hosts = (file.read().split("\n") + [""] * 4)[:4]
        self.any, self.ports, self.hosts = any_ == "1", ports.split(), hosts.split()
        return int(at)

    def restore(self):
        """Opens the subsystem again as it was. Returns whether anything was missing."""
        missing = False
        for number in self.ports:
            link = self.nvmet.port(number, "subsystems", self.target["name"])
            if not os.path.lexists(link):
                os.symlink(self.subsystem, link)
                missing = True
        for host in self.hosts:
            link = os.path.join(self.subsystem, "allowed_hosts", host)
            if not os.path.lexists(link):
                os.symlink(os.path.join(self.nvmet.root, "hosts", host), link)
                missing = True
        if self.any and text(os.path.join(self.subsystem, "attr_allow_any_host")) != "1":
            write(os.path.join(self.subsystem, "attr_allow_any_host"), "1")
            missing = True
        return missing

    def unnoticed(self):
        """Opens it again, when no host has been cut off."""
        self.restore()
        os.remove(self.note)

    def settle(self):
        """Waits, call by call, for a host that an earlier run has cut off."""
        if not os.path.exists(self.note):
            return
        at = self.read_note()
        if self.restore():
            at = self.now()
            self.write_note(at)
        left = at + SETTLE - self.now()
        if left > 0:
            raise Refused("unsettled", seconds=left)

    def close(self):
        """Closes it. With a host connected, opens it again and refuses."""
        self.settle()
        self.refuse(self.controllers())
        self.hosts = names(os.path.join(self.subsystem, "allowed_hosts"))
        self.any = text(os.path.join(self.subsystem, "attr_allow_any_host")) == "1"
        self.ports = self.nvmet.linked(self.target)
        self.write_note(self.now())
        try:
            for host in self.hosts:
                os.unlink(os.path.join(self.subsystem, "allowed_hosts", host))
            if self.any:
                write(os.path.join(self.subsystem, "attr_allow_any_host"), "0")
            used = self.controllers()
            shows = os.path.isdir(self.nvmet.ask["controllers"])
            numbers = set() if shows else self.numbers()
            before = self.connections(numbers)
        except OSError:
            self.unnoticed()
            raise
        if used:
            self.unnoticed()
            self.refuse(used)
        self.cut(numbers, before)
        os.remove(self.note)

    def cut(self, numbers, before):
        """Takes the ports away. From here on a host may notice, and the note stays unless none did."""
        try:
            for number in self.ports:
                os.unlink(self.nvmet.port(number, "subsystems", self.target["name"]))
            after = self.connections(numbers)
        except OSError:
            self.restore()
            raise
        if before - after:
            self.restore()
            self.refuse(["a host that was connected to its port"])

    def numbers(self):
        """The numbers of the TCP ports, as /proc/net/tcp shows them."""
        tcp = [each for each in self.ports if text_at(self.nvmet.port(each, "addr_trtype")) == "tcp"]
        return {"%04X" % int(text(self.nvmet.port(each, "addr_trsvcid"))) for each in tcp}

    def refuse(self, used):
        if used:
            raise Refused("sessions", by=used)

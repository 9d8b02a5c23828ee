"""What LIO and nvmet have in common: configfs, the lock of the host, requests and answers.

csimux sends this file, zvol.py, saved.py and lio.py or nvmet.py, one behind the other, to python3 of the storage host (host-targets.ts). They
read one request from their input and print one answer. They run with Python 3.6 and newer.
"""
import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import stat
import sys
import time


class Refused(Exception):
    """Ends the work. The answer names the reason, for which host-answers.ts has the sentences."""

    def __init__(self, refused, **more):
        Exception.__init__(self, refused)
        self.answer = dict(more, refused=refused)


class Expired(Exception):
    """The wait for a lock took too long."""


def text(path):
    """The content of a small file, without blanks around it."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()


def text_at(path):
    """The same; None where there is no such file, or the kernel does not show it."""
    try:
        return text(path)
    except OSError:
        return None


def names(path):
    """What a folder contains; nothing where it does not exist."""
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return []


def folders(path):
    """The folders in a folder."""
    return [each for each in names(path) if os.path.isdir(os.path.join(path, each))]


def write(path, value):
    """Sets a value of the kernel, which takes it in one write. Errors never contain the value, which may be a secret."""
    try:
        file = os.open(path, os.O_WRONLY)
        try:
            os.write(file, value.encode())
        finally:
            os.close(file)
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or errno.EIO), path) from None


def assign(path, value):
    """Sets a value unless it is set: the kernel refuses some that are."""
    if text_at(path) != value:
        write(path, value)


def folder(path):
    """Makes a folder if it does not exist. Returns whether it was made."""
    try:
        os.mkdir(path)
        return True
    except FileExistsError:
        return False


def without(path):
    """Removes a folder if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(path)


def links(path):
    """The links in a folder, by their paths."""
    return [each for each in (os.path.join(path, name) for name in names(path)) if os.path.islink(each)]


def assign_all(place, values, ignored):
    """Sets values by the names of their files. Those that this kernel lacks or refuses are added to `ignored`."""
    for name, value in values.items():
        try:
            assign(os.path.join(place, name), value)
        except OSError as error:
            ignored.append("%s: %s" % (name, error.strerror))


def loaded(root, module):
    """Loads a module of the kernel where its folder in configfs does not exist."""
    if not os.path.isdir(root):
        import subprocess

        mount = ["mount", "-t", "configfs", "none", "/sys/kernel/config"]
        for argv in [[] if os.path.ismount("/sys/kernel/config") else mount, ["modprobe", module]]:
            if argv:
                subprocess.call(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    if not os.path.isdir(root):
        raise Refused("failed", why="%s does not exist: the kernel module %s is not loaded" % (root, module))


def require_device(ask):
    """Refuses a target whose device does not exist. Before that, it has udev look again at zvols that udev has given up: a zvol cannot be
    opened while another command keeps the pools for a second (OpenZFS 2.1, module/os/linux/zfs/zvol_os.c, zvol_open), and udev ignores what
    it could not open (systemd 252, udevd.c, worker_process_device): without this, the device would not appear until the host restarts.
    While udev lags behind, the link of a removed zvol of the same name may lead to another one, which has its number by now.
    """
    device, stale = ask["target"]["device"], None
    if os.path.exists(device):
        if zvol_of(device) in (None, ask["target"]["dataset"]):
            return
        stale = os.path.basename(os.path.realpath(device))
    for name in (name for name in names(ask["blocks"]) if name.startswith("zd")):
        place = os.path.join(ask["blocks"], name)
        number = text_at(os.path.join(place, "dev"))
        if number and (name == stale or not os.path.exists(os.path.join(ask["udev"], "b" + number))):
            with contextlib.suppress(OSError):
                write(os.path.join(place, "uevent"), "change" if name == stale else "add")
    raise Refused("absent")


def unnoted_of(target):
    """The same zvol under the names that democratic-csi gives, which notes them only afterwards; None where they are the target's own."""
    unnoted = target.get("unnoted")
    return unnoted and dict(target, tagged=False, **unnoted)


def caller_left():
    """Whether nobody reads the answer any more."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return bool(poll.poll(0))


def opened_lock(path):
    """Opens a lock file, which is made where there is none. It may be in a folder for all, so no link or pipe of others is opened."""
    for _ in range(3):
        try:
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    raise Refused("failed", why="%s is made and removed all the time" % path)


def holder_of(file):
    """Who holds the lock of a file: a program and its number (proc_locks(5)). Not its arguments, which may be secrets."""
    info = os.fstat(file)
    wanted = "%02x:%02x:%d" % (os.major(info.st_dev), os.minor(info.st_dev), info.st_ino)
    for line in (text_at("/proc/locks") or "").split("\n"):
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK" and words[5] == wanted:
            name = text_at("/proc/%s/comm" % words[4])
            return "process %s" % words[4] if name is None else "%s, process %s" % (name, words[4])
    return ""


@contextlib.contextmanager
def alone(path, seconds):
    """Holds the lock of the host. Ends the wait after `seconds`, or when the caller has left, who would not know of the change."""
    file = opened_lock(path)
    end = time.monotonic() + seconds

    def tick(*_):
        left = caller_left()
        if left or time.monotonic() > end:
            # On a slow host, the next tick would come while the holder is looked for.
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Refused("left") if left else Expired

    before = signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except Expired:
        raise Refused("locked", lock=path, by=holder_of(file)) from None
    finally:
        signal.signal(signal.SIGALRM, before)
        # The same clock: a change that hangs ends before its caller stops waiting.
        signal.alarm(60)
    if caller_left():
        raise Refused("left")
    try:
        yield
    finally:
        os.close(file)


def is_readable_and_writable(path):
    """Whether the kernel shows a value and takes one; tools save such values only."""
    both = stat.S_IRUSR | stat.S_IWUSR
    return os.path.isfile(path) and os.stat(path).st_mode & both == both


def serve(work):
    """Answers the request. `work` returns an answer, or raises Refused."""
    signal.alarm(100)
    try:
        answer = work(json.load(sys.stdin))
    except Refused as refused:
        answer = refused.answer
    except OSError as error:
        answer = {"refused": "failed", "why": "%s: %s" % (error.filename or "configfs", error.strerror)}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()

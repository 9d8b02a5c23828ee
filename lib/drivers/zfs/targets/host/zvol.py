"""Which zvol a device is. Part of what csimux sends for LIO and nvmet (host-targets.ts), and of its client of SPDK (spdk-rpc.ts)."""
import fcntl
import os


def zvol_of(device):
    """The zvol of a device according to the kernel; None for a device that is none, or cannot be opened now (BLKZNAME of OpenZFS)."""
    try:
        file = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return fcntl.ioctl(file, 0x8100127D, bytes(256)).split(b"\0")[0].decode(errors="replace")
    except OSError:
        return None
    finally:
        os.close(file)

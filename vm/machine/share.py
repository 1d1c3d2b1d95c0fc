"""Shares the host's root file system with a guest, read-only, by virtiofs."""

import ctypes
import os
import signal
import socket
import struct
import subprocess
import time
from dataclasses import dataclass

from .common import Failure, Unavailable

DAEMONS = ("/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd")
CLONE_NEWNS = 0x20000
MS_PRIVATE_REC = (1 << 18) | (1 << 14)
SYS_MOUNT_SETATTR = 442
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
MOUNT_ATTR_RDONLY = 1


@dataclass
class Sharing:
    """A share that a guest can mount: what qemu, the initramfs and the caller need of it."""

    daemon: object
    arguments: list
    line: str
    modules: tuple
    fds: tuple = ()

    def stop(self):
        if self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(10)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()


def find_daemon():
    for path in DAEMONS:
        if os.access(path, os.X_OK):
            return path
    raise Unavailable("no virtiofsd here (Debian: package virtiofsd, or qemu-system-common up to bookworm)")


def start(room):
    """Starts virtiofsd for one guest. Its file systems are read-only for the daemon itself, where that is possible."""
    if os.geteuid() != 0:
        raise Unavailable("sharing the root file system needs root")
    path = f"{room}/fs.sock"
    # A path in sun_path has at most 107 bytes: the socket is bound through the folder's descriptor.
    folder = os.open(room, os.O_RDONLY | os.O_DIRECTORY)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"/proc/self/fd/{folder}/fs.sock")
    listener.listen(1)
    daemon = subprocess.Popen(command_of(find_daemon(), listener.fileno()), pass_fds=(listener.fileno(),),
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=open(f"{room}/virtiofsd.log", "wb"), preexec_fn=hide_writes)
    listener.close()
    client = socket.socket(socket.AF_UNIX)
    client.connect(f"/proc/self/fd/{folder}/fs.sock")
    os.close(folder)
    os.unlink(path)
    time.sleep(0.2)
    if daemon.poll() is not None:
        with open(f"{room}/virtiofsd.log", errors="replace") as log:
            raise Failure(f"virtiofsd ended with status {daemon.returncode}: {log.read()[-500:]}")
    descriptor = client.detach()
    return Sharing(
        daemon,
        ["-chardev", f"socket,id=root,fd={descriptor}", "-device", "vhost-user-fs-pci,queue-size=1024,chardev=root,tag=root"],
        "virtiofs\nroot\n\n",
        ("virtiofs",),
        (descriptor,),
    )


def command_of(daemon, descriptor):
    if "libexec" in daemon:
        return [daemon, f"--fd={descriptor}", "--shared-dir=/", "--cache=always", "--sandbox=none"]
    return [daemon, f"--fd={descriptor}", "-f", "-o", "source=/", "-o", "cache=always", "-o", "sandbox=chroot", "-o", "log_level=err"]


def hide_writes():
    """In the daemon, before it starts: a mount namespace in which everything is read-only."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_PRIVATE_REC, None):
        return
    attributes = struct.pack("QQQQ", MOUNT_ATTR_RDONLY, 0, 0, 0)
    libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, b"/", AT_RECURSIVE, attributes, len(attributes))

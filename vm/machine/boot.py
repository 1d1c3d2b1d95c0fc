"""Boots a kernel under qemu with the host's root file system shared read-only, and runs one command in it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass, field

from . import accelerator, initramfs, share
from .common import GUEST, PROJECT, cache, say

SCRATCH_BYTES = 6 << 30
RESULTS_BYTES = 2 << 30
# Modules in the order of dependencies, which the packages list.
MODULES = ("virtio_pci", "nvme", "ext4", "crc32c_generic", "overlay", "loop", "virtio_rng")
# A guest without output for this long has not booted. Emulated CPUs start one after the other.
BOOT_SECONDS, BOOT_SECONDS_PER_CPU = 240, 8
CONSOLE_LINES = 40
# A crash of the emulator (a failed assertion of qemu's TCG) gives no result about the guest, so the guest is started again.
ATTEMPTS = 3


@dataclass
class Guest:
    """What to boot and what to run in it."""

    kernel: object
    command: str
    cpus: int = 2
    memory: int = 3072
    append: str = ""
    timeout: int = 1800
    writable: list = field(default_factory=list)
    keep: list = field(default_factory=list)
    quiet: bool = False
    nodes: int = 1
    # CPUs that may ever be online, if that is more than `cpus`.
    possible: int = 0


@dataclass
class Outcome:
    """How a run ended. `status` is None if the guest did not send one."""

    status: object
    reason: str
    stdout: str
    stderr: str
    results: str
    seconds: float
    booted_after: object
    # The signal that ended qemu by itself, or None.
    emulator_signal: object = None


class Tail:
    """A growing file whose new bytes are passed on and kept."""

    def __init__(self, path, sink):
        self.path, self.sink, self.text = path, sink, bytearray()
        open(path, "wb").close()
        self.file = open(path, "rb")

    def poll(self):
        new = self.file.read()
        if new:
            self.text += new
            if self.sink is not None:
                self.sink.buffer.write(new)
                self.sink.flush()

    def string(self):
        return self.text.decode("utf-8", "replace")


def run(guest):
    """Runs `guest` to its end or to its time limit, again if qemu crashes. Returns an Outcome. Raises Failure if qemu cannot be
    started."""
    for attempt in range(1, ATTEMPTS + 1):
        result = run_once(guest)
        if result.emulator_signal is None or attempt == ATTEMPTS:
            return result
        say(f"vm: {guest.kernel.name}: qemu crashed (signal {result.emulator_signal}), starting the guest again. {result.reason}")


def run_once(guest):
    room = make_room(guest)
    try:
        return attend(guest, room)
    finally:
        for name in ("scratch.img", "results.img", "initramfs", "boot"):
            if os.path.exists(f"{room}/{name}"):
                os.unlink(f"{room}/{name}")


def make_room(guest):
    """Makes the folder of one run: settings, command, disks."""
    sweep()
    room = cache("runs", f"{guest.kernel.name}-{os.getpid()}-{time.monotonic_ns()}")
    os.makedirs(f"{room}/results")
    keep = [PROJECT, room, *guest.keep]
    settings = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin",
        "CWD": os.getcwd(),
        "CPUS": guest.cpus,
        "KEEP": " ".join(keep),
        "WRITABLE": " ".join(guest.writable),
    }
    with open(f"{room}/settings", "w") as file:
        file.writelines(f"{name}={shlex.quote(str(value))}\n" for name, value in settings.items())
    with open(f"{room}/command", "w") as file:
        file.write(guest.command + "\n")
    shutil.copy(f"{GUEST}/start.sh", f"{room}/start.sh")
    make_disk(f"{room}/scratch.img", SCRATCH_BYTES)
    mke2fs = shutil.which("mke2fs", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if mke2fs:
        # Features that the oldest kernel of the list knows.
        subprocess.run([mke2fs, "-q", "-F", "-t", "ext4", "-O", "^orphan_file,^metadata_csum_seed",
                        f"{room}/scratch.img"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    make_disk(f"{room}/results.img", RESULTS_BYTES)
    return room


def sweep(keep=12):
    """Removes all folders of earlier runs except the newest. Keeps the folders of live processes."""
    runs = cache("runs")
    os.makedirs(runs, exist_ok=True)
    names = sorted(os.listdir(runs), key=lambda name: int(name.rsplit("-", 1)[-1]))
    for name in names[:-keep]:
        if not os.path.exists(f"/proc/{name.rsplit('-', 2)[-2]}"):
            shutil.rmtree(f"{runs}/{name}", ignore_errors=True)


def make_disk(path, size):
    with open(path, "wb") as file:
        file.truncate(size)


def attend(guest, room):
    sharing = share.start(room)
    try:
        initramfs.write(f"{room}/initramfs", guest.kernel, [*sharing.modules, *MODULES],
                        {"share": sharing.line, "start": f"{room}/start.sh\n{room}\n"})
        arguments = qemu_arguments(guest, room, sharing)
        tails = [Tail(f"{room}/console", None), Tail(f"{room}/stdout", None if guest.quiet else sys.stdout),
                 Tail(f"{room}/stderr", None if guest.quiet else sys.stderr)]
        with open(f"{room}/qemu.log", "wb") as log:
            qemu = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=sharing.fds)
        try:
            return watch(guest, room, qemu, tails)
        finally:
            if qemu.poll() is None:
                qemu.kill()
            qemu.wait()
    finally:
        sharing.stop()


def watch(guest, room, qemu, tails):
    """Prints the output of the guest until it ends or reaches its time limit."""
    console = tails[0]
    limit = BOOT_SECONDS + BOOT_SECONDS_PER_CPU * guest.cpus
    begun = time.monotonic()
    booted = reason = None
    while True:
        ended = qemu.poll() is not None
        for tail in tails:
            tail.poll()
        passed = time.monotonic() - begun
        if booted is None and b"vm: started" in console.text:
            booted = passed
        if ended:
            break
        if booted is None and passed > limit:
            reason = f"did not boot within {limit} s"
        elif passed > guest.timeout:
            reason = f"ran for longer than {guest.timeout} s"
        if reason:
            qemu.kill()
            qemu.wait()
            break
        time.sleep(0.1)
    result = outcome(room, tails, reason, (time.monotonic() - begun, booted))
    if reason is None and qemu.returncode < 0 and result.status is None:
        result.emulator_signal = -qemu.returncode
    return result


def outcome(room, tails, reason, times):
    console, stdout, stderr = tails
    status = None
    if reason is None:
        status, reason = unpack_results(room)
    if status is None:
        reason = f"{reason}. {ending(room, console)}"
    return Outcome(status, reason or "", stdout.string(), stderr.string(), f"{room}/results", *times)


def unpack_results(room):
    """Unpacks the results disk. Returns the command's exit status, or None and a reason."""
    try:
        with tarfile.open(f"{room}/results.img", "r:") as tar:
            for member in tar:
                if member.isfile() or member.isdir():
                    tar.extract(member, f"{room}/results", set_attrs=False)
        with open(f"{room}/results/status") as file:
            return int(file.read()), None
    except (tarfile.TarError, OSError, ValueError) as error:
        return None, f"the guest ended without results ({error})"


def ending(room, console):
    """Returns the last lines of the console, which help to find out why a guest failed."""
    with open(f"{room}/qemu.log", errors="replace") as file:
        log = file.read().strip()
    lines = [re.sub(r"[^\x20-\x7e]", "", line) for line in console.string().splitlines()][-CONSOLE_LINES:]
    head = f"qemu: {log}\n" if log else ""
    return f"End of its console:\n{head}    " + "\n    ".join(lines)


def qemu_arguments(guest, room, sharing):
    qemu, acceleration = accelerator.choose(guest.kernel, guest.cpus)
    # no_timer_check: on a busy host the emulated timer may not tick while the kernel looks for it, and the kernel panics.
    append = f"console=ttyS0 quiet loglevel=4 panic=-1 no_timer_check rdinit=/init {guest.kernel.append} {guest.append}"
    return [
        *qemu, *acceleration,
        *processors_and_memory(guest),
        "-display", "none", "-monitor", "none", "-nodefaults", "-no-reboot",
        "-kernel", guest.kernel.image, "-initrd", f"{room}/initramfs", "-append", " ".join(append.split()),
        "-serial", f"file:{room}/console", "-serial", f"file:{room}/stdout", "-serial", f"file:{room}/stderr",
        # NVMe, because the cloud kernels have its driver built in.
        "-drive", f"file={room}/scratch.img,if=none,id=scratch,format=raw,cache=writeback",
        "-drive", f"file={room}/results.img,if=none,id=results,format=raw,cache=unsafe",
        "-device", "nvme,id=disks,serial=vm", "-device", "nvme-ns,drive=scratch,bus=disks,nsid=1",
        "-device", "nvme-ns,drive=results,bus=disks,nsid=2",
        "-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng",
        *sharing.arguments,
    ]


def processors_and_memory(guest):
    """Returns the options for the CPUs and the memory. Both are divided equally between memory nodes. CPUs that may be added
    later go to the last node."""
    cpus, nodes, possible = guest.cpus, guest.nodes, max(guest.possible, guest.cpus)
    memory = "memory-backend-memfd,id=memory{},size={}M,share=on"
    sockets = f",sockets={possible * nodes // cpus},maxcpus={possible}" if nodes > 1 or possible > cpus else ""
    options = ["-smp", f"{cpus}{sockets}", "-m", str(guest.memory)]
    if nodes < 2:
        return [*options, "-object", memory.format("", guest.memory), "-machine", "q35,memory-backend=memory"]
    options += ["-machine", "q35"]
    for node in range(nodes):
        first = node * cpus // nodes
        later = f",cpus={cpus}-{possible - 1}" if node == nodes - 1 and possible > cpus else ""
        options += ["-object", memory.format(node, guest.memory // nodes),
                    "-numa", f"node,nodeid={node},memdev=memory{node},cpus={first}-{first + cpus // nodes - 1}{later}"]
    return options

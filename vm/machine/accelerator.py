"""Chooses between KVM and emulation: KVM is used only where it was seen to boot a guest."""

import json
import os
import re
import shutil
import subprocess
import time

from . import initramfs
from .common import Unavailable, cache, say
from .packages import Suite, unpack

PROBE_SECONDS = 20
# With several emulated CPUs, qemu 7.2 corrupts registers at cmpxchg16b, and code that one CPU changes while others run it.
EMULATES_WELL = 10
CPUS_PER_CPU = 4
NEWER_SUITE = "bookworm-backports"
MODELS = ("host", "host,-arch-capabilities")


def choose(kernel, cpus):
    """The path of qemu and its options for the acceleration that works here."""
    system = shutil.which("qemu-system-x86_64")
    if not system:
        raise Unavailable("no qemu-system-x86_64 here (Debian: package qemu-system-x86)")
    model = kvm_model(system, kernel)
    if model:
        return [system], ["-accel", "kvm", "-cpu", model]
    emulator = [system] if version_of(system) >= EMULATES_WELL else newer()
    # Many emulated CPUs on few real ones wait for each other's locks: one thread that emulates them in turn is faster.
    threads = "multi" if cpus <= CPUS_PER_CPU * (os.cpu_count() or 1) else "single"
    return emulator, ["-accel", f"tcg,thread={threads}", "-cpu", "max"]


def newer():
    """The command of a newer qemu from backports, unpacked into the cache: it uses the libraries of the system's own."""
    suite = Suite(NEWER_SUITE)
    folder = cache("qemu", NEWER_SUITE)
    program = f"{folder}/usr/bin/qemu-system-x86_64"
    if not os.path.exists(program):
        say(f"vm: this qemu is too old to emulate several CPUs: fetching one from {NEWER_SUITE}")
        suite.refresh()
        unpack_newer(suite, folder)
    linked = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    lacking = re.findall(r"(\S+) => not found", linked)
    if lacking:
        raise Unavailable(f"qemu of {NEWER_SUITE} needs libraries that are not here: {', '.join(lacking)}")
    return [program, "-L", f"{folder}/usr/share/qemu", "-L", "/usr/share/seabios"]


def unpack_newer(suite, folder):
    partial = f"{folder}.{os.getpid()}"
    try:
        # The programs and firmware only: qemu looks for them relative to its own place.
        for path in suite.download(["qemu-system-x86", "qemu-system-data"], suite.version("qemu-system-x86")):
            unpack(path, lambda name: f"{partial}/{name}" if name.startswith(("usr/bin/", "usr/share/qemu/")) else None)
        os.chmod(f"{partial}/usr/bin/qemu-system-x86_64", 0o755)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        os.rename(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def name():
    """Returns the name of the acceleration for the report. `choose` must have chosen it before."""
    return "KVM" if any(each for each in remembered().values()) else "emulation (TCG)"


def version_of(qemu):
    text = subprocess.run([qemu, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"version (\d+)", text)
    return int(found[1]) if found else 0


def remembered():
    try:
        with open(cache("kvm.json")) as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def kvm_model(qemu, kernel):
    """The CPU model with which KVM boots a guest, or an empty string. Tried once for each kernel of this machine and qemu."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return ""
    key = f"{os.uname().release} {qemu} {version_of(qemu)}"
    known = remembered()
    if key not in known:
        known = {key: next((model for model in MODELS if boots(qemu, kernel, model)), "")}
        os.makedirs(cache(), exist_ok=True)
        with open(cache("kvm.json"), "w") as file:
            json.dump(known, file)
        say(f"vm: KVM {'works here' if known[key] else 'boots no guest here: kernels are emulated'}")
    return known[key]


def boots(qemu, kernel, model):
    """Boots `kernel` with an initramfs that only reports that it was reached."""
    folder = cache("guest")
    os.makedirs(folder, exist_ok=True)
    image = f"{folder}/probe-{os.getpid()}"
    initramfs.write(image, kernel, (), {})
    command = [qemu, "-accel", "kvm", "-cpu", model, "-m", "512", "-display", "none", "-monitor", "none", "-nodefaults",
               "-no-reboot", "-kernel", kernel.image, "-initrd", image, "-append", "console=ttyS0 panic=-1 rdinit=/init",
               "-serial", f"file:{image}.console"]
    probe = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + PROBE_SECONDS
    reached = False
    while not reached and probe.poll() is None and time.monotonic() < until:
        time.sleep(0.2)
        reached = has_reached(f"{image}.console")
    reached = reached or has_reached(f"{image}.console")
    probe.kill()
    probe.wait()
    for path in (image, f"{image}.console"):
        if os.path.exists(path):
            os.unlink(path)
    return reached


def has_reached(console):
    try:
        with open(console, "rb") as file:
            return b"vm: /start" in file.read()
    except OSError:
        return False

"""Chooses between KVM and emulation: KVM is used only where it was seen to boot a guest."""

import json
import os
import re
import shutil
import subprocess
import time

from . import initramfs
from .common import Unavailable, cache, say

PROBE_SECONDS = 20
MODELS = ("host", "host,-arch-capabilities")


def choose(kernel):
    """The path of qemu and its options for the acceleration that works here."""
    qemu = shutil.which("qemu-system-x86_64")
    if not qemu:
        raise Unavailable("no qemu-system-x86_64 here (Debian: package qemu-system-x86)")
    model = kvm_model(qemu, kernel)
    if model:
        return qemu, ["-accel", "kvm", "-cpu", model]
    # The emulation of cmpxchg16b by qemu 7.2 corrupts registers where several threads emulate: without it kernels use a lock.
    cpu = "max" if version_of(qemu) >= 10 else "max,-cx16"
    return qemu, ["-accel", "tcg,thread=multi", "-cpu", cpu]


def name():
    """What a report calls the acceleration that was chosen; `choose` has found it out before."""
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

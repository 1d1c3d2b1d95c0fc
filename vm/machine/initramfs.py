"""Packs the small initramfs of a guest: its first process and the modules that it needs to reach the shared root."""

import lzma
import os
import re
import subprocess
import zlib

from .common import GUEST, Failure, cache


def write(path, kernel, wanted, texts):
    """Writes the initramfs of `kernel` to `path`, with the modules `wanted` and small files (name → text)."""
    modules = Modules(kernel.modules)
    order = modules.in_order(wanted)
    with open(path, "wb") as file:
        archive = Archive(file)
        archive.add("init", read(first_process()), 0o755)
        for name in order:
            archive.add(f"{name}.ko", modules.image(name), 0o644)
        archive.add("modules", "".join(f"/{name}.ko\n" for name in order).encode(), 0o644)
        for name, text in texts.items():
            archive.add(name, text.encode(), 0o644)
        archive.end()


def first_process():
    """Compiles guest/init.c once for each version of it. Returns the path of the program."""
    source = f"{GUEST}/init.c"
    built = cache("guest", f"init-{zlib.crc32(read(source)):08x}")
    if not os.path.exists(built):
        os.makedirs(os.path.dirname(built), exist_ok=True)
        made = subprocess.run(["gcc", "-O2", "-Wall", "-static", "-o", f"{built}.{os.getpid()}", source],
                              capture_output=True, text=True)
        if made.returncode:
            raise Failure(f"gcc cannot build {source}: {made.stderr}")
        os.rename(f"{built}.{os.getpid()}", built)
    return built


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Archive:
    """A cpio archive in the format `newc`."""

    def __init__(self, file):
        self.file, self.inode = file, 0

    def add(self, name, content, mode, links=1):
        self.inode += 1
        name = name.encode() + b"\0"
        fields = (self.inode, mode | 0o100000, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name), 0)
        self.file.write(b"070701" + b"".join(b"%08x" % value for value in fields) + name)
        self.pad(110 + len(name))
        self.file.write(content)
        self.pad(len(content))

    def pad(self, written):
        self.file.write(b"\0" * (-written % 4))

    def end(self):
        self.add("TRAILER!!!", b"", 0)


class Modules:
    """The modules of one kernel's package, without depmod's tables: names and dependencies are read from the modules."""

    def __init__(self, folder):
        self.paths, self.images = {}, {}
        for base, _, files in os.walk(folder):
            for name in files:
                stem = re.sub(r"\.ko(\.xz|\.gz)?$", "", name)
                if stem != name:
                    self.paths[stem.replace("-", "_")] = os.path.join(base, name)

    def image(self, name):
        if name not in self.images:
            data = read(self.paths[name])
            if self.paths[name].endswith(".xz"):
                data = lzma.decompress(data)
            elif self.paths[name].endswith(".gz"):
                data = zlib.decompress(data, 31)
            self.images[name] = data
        return self.images[name]

    def needs(self, name):
        found = re.search(rb"(?:^|\0)depends=([^\0]*)\0", self.image(name))
        names = found.group(1).decode().split(",") if found else []
        return [each.replace("-", "_") for each in names if each]

    def in_order(self, wanted):
        """Names of the modules to load, each behind those that it needs. A name that is no module is built in."""
        order = []

        def visit(name):
            if name in self.paths and name not in order:
                for need in self.needs(name):
                    visit(need)
                order.append(name)

        for name in wanted:
            visit(name)
        return order

"""holdup-VERSION-linux-ARCH.tar.gz: the binary, its man page, completions, licences and bill of materials."""

import gzip
import io
import os
import tarfile

from .common import PROJECT, read

FILES = {
    "holdup": ("stage", 0o755),
    "README.md": ("project", 0o644),
    "LICENSE-MIT": ("project", 0o644),
    "LICENSE-APACHE": ("project", 0o644),
    "holdup.1.gz": ("stage", 0o644),
    "holdup.bash": ("stage", 0o644),
    "_holdup": ("stage", 0o644),
    "holdup.fish": ("stage", 0o644),
    "holdup.cdx.json": ("stage", 0o644),
}


def build(release):
    name = f"holdup-{release.version}-linux-{release.arch}"
    files = [(f"{name}/{file}", read(os.path.join(release.stage if where == "stage" else PROJECT, file)), mode)
             for file, (where, mode) in FILES.items()]
    write(os.path.join(release.out, f"{name}.tar.gz"), files, release.seconds)
    release.written(f"{name}.tar.gz")


def write(path, files, seconds):
    """Writes (name, content, mode) rows as a compressed archive that depends on nothing else."""
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed, tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content, mode in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), mode, seconds
            tar.addfile(entry, io.BytesIO(content))

"""Builds the binary that needs no shared library, and the files that are made by it."""

import gzip
import os
import shutil
import sys

from . import libraries
from .common import CACHE, PROJECT, TARGET, Failure, output, read, run, say

# The C compiler and the linker, with the headers and the libc of each target: the same on every build machine.
ZIG = "0.17.1"
ZIGBUILD = "0.24.1"


def tools():
    """Installs zig and cargo-zigbuild from PyPI once. Returns the folder of their executables."""
    home = os.path.join(CACHE, f"zig-{ZIG}-{ZIGBUILD}")
    bin_folder = os.path.join(home, "bin")
    zig = os.path.join(bin_folder, "zig")
    if not os.path.exists(zig):
        say(f"packaging/release: installing zig {ZIG} and cargo-zigbuild {ZIGBUILD} in {home}")
        run([sys.executable, "-m", "venv", home])
        run([os.path.join(bin_folder, "pip"), "install", "-q", f"ziglang=={ZIG}", f"cargo-zigbuild=={ZIGBUILD}"])
        with open(zig, "w") as file:
            file.write(f'#!/bin/sh\nexec "{bin_folder}/python" -m ziglang "$@"\n')
        os.chmod(zig, 0o755)
    return bin_folder


def build(release):
    """Builds the static binary with viewer and preload libraries inside, and its man page and completions."""
    if not os.path.exists(os.path.join(PROJECT, "viewer", "dist", "index.html")):
        raise Failure("no viewer/dist: run `npm ci && npm run build` in viewer/ first")
    bin_folder = tools()
    os.makedirs(release.stage, exist_ok=True)
    run(["rustup", "target", "add", release.triple]) if shutil.which("rustup") else None
    environment = dict(os.environ, PATH=f"{bin_folder}:{os.environ['PATH']}")
    environment |= libraries.build(release, [os.path.join(bin_folder, "zig")])
    cargo_home = os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo")
    flags = [environment.get("RUSTFLAGS", ""), f"--remap-path-prefix={PROJECT}=.", f"--remap-path-prefix={cargo_home}=cargo"]
    environment["RUSTFLAGS"] = " ".join(flags).strip()
    environment["CFLAGS"] = f"{environment.get('CFLAGS', '')} -g0 -ffile-prefix-map={PROJECT}=. -ffile-prefix-map={cargo_home}=cargo".strip()
    # Names of functions stay, lines go: they would be two thirds of a download.
    environment |= {"CARGO_PROFILE_RELEASE_DEBUG": "0", "CARGO_PROFILE_RELEASE_STRIP": "none"}
    environment["SOURCE_DATE_EPOCH"] = str(release.seconds)
    features = ["static"] + (["sql", "s3"] if release.query else [])
    words = ["cargo-zigbuild", "zigbuild", "--release", "--locked", "-p", "holdup", "--target", release.triple, "--no-default-features"]
    run([*words, "--features", ",".join(features)], env=environment)
    shutil.copy(os.path.join(TARGET, release.triple, "release", "holdup"), release.binary)
    strip_lines(release, os.path.join(bin_folder, "zig"))
    check_static(release)
    documents(release)


def strip_lines(release, zig):
    """Removes debug information (of std and of C libraries) and keeps the symbols. zig's linker, asked by cargo, removes both."""
    own = shutil.which("strip") if release.arch == os.uname().machine else None
    if own:
        run([own, "--strip-debug", release.binary])
    else:
        run([zig, "objcopy", "--strip-debug", release.binary, release.binary + ".stripped"])
        os.replace(release.binary + ".stripped", release.binary)


def check_static(release):
    """Fails if the binary has an interpreter or needs a shared library."""
    headers = output(["readelf", "--program-headers", "--dynamic", "--wide", release.binary]).decode()
    if "INTERP" in headers or "NEEDED" in headers:
        raise Failure(f"{release.binary} is not static")
    if ".symtab" not in output(["readelf", "--section-headers", "--wide", release.binary]).decode():
        raise Failure(f"{release.binary} has no symbols: holdup cannot name its own functions")


def documents(release):
    """The man page, completions, licences, changelog and bill of materials."""
    # Text of the binary for this machine is that of the binary for another one.
    own = release.binary
    for name, words in {"holdup.bash": ["completions", "bash"], "_holdup": ["completions", "zsh"], "holdup.fish": ["completions", "fish"]}.items():
        write(release, name, output([own, *words]))
    write(release, "holdup.1.gz", gzip.compress(output([own, "man"]), 9, mtime=0))
    write(release, "changelog.gz", gzip.compress(read(os.path.join(PROJECT, "CHANGELOG.md")), 9, mtime=0))
    licences = [read(os.path.join(PROJECT, name)) for name in ("LICENSE-MIT", "LICENSE-APACHE")]
    write(release, "copyright", b"holdup is licensed under either of these licences, at your option.\n\n" + b"\n\n".join(licences))
    run(["cargo", "run", "-q", "-p", "xtask", "--", "sbom", os.path.join(release.stage, "holdup.cdx.json")])


def write(release, name, content):
    with open(os.path.join(release.stage, name), "wb") as file:
        file.write(content)

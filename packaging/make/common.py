"""Shared by the parts of packaging/release: paths, the version, running commands."""

import os
import re
import subprocess
import sys

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
TARGET = os.path.join(PROJECT, os.environ.get("CARGO_TARGET_DIR", "target"))
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "holdup")


class Failure(Exception):
    """A step failed. The text names the step and the remedy."""


class Release:
    """One release for one architecture."""

    def __init__(self, arch, out, query):
        self.arch = arch
        self.triple = f"{arch}-unknown-linux-musl"
        self.out = out
        self.query = query
        self.stage = os.path.join(TARGET, "package", arch)
        self.version = read_version()
        self.seconds = commit_time()

    @property
    def binary(self):
        return os.path.join(self.stage, "holdup")

    @property
    def debian_arch(self):
        return {"x86_64": "amd64", "aarch64": "arm64"}[self.arch]

    def written(self, name):
        path = os.path.join(self.out, name)
        say(f"packaging/release: {os.path.relpath(path)}, {os.path.getsize(path) / 1e6:.1f} MB")


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(words, **options):
    """Runs a command. Its standard output goes to standard error unless `options` has another one."""
    options.setdefault("stdout", sys.stderr)
    try:
        return subprocess.run(words, check=True, cwd=options.pop("cwd", PROJECT), **options)
    except FileNotFoundError:
        raise Failure(f"{words[0]} is not installed") from None
    except subprocess.CalledProcessError as error:
        raise Failure(f"{' '.join(map(str, words[:4]))} … failed with status {error.returncode}") from None


def output(words):
    """Standard output of a command, as bytes."""
    return run(words, stdout=subprocess.PIPE).stdout


def read(path):
    with open(path, "rb") as file:
        return file.read()


def read_version():
    text = read(os.path.join(PROJECT, "Cargo.toml")).decode()
    return re.search(r'^version = "(.*)"', text, re.M).group(1)


def commit_time():
    """Seconds since 1970 of the commit, for all files of all packages: two builds of one commit are equal."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given) if given else int(output(["git", "log", "-1", "--format=%ct"]))

"""holdup-VERSION-npm-ARCH.tgz: `npm install holdup` and `npx holdup` put the binary on the PATH."""

import json
import os

from . import tarball
from .common import PROJECT, read


def build(release):
    package = {
        "name": "holdup",
        "version": release.version,
        "description": "Says why a program with many threads is slow or does not scale",
        "license": "MIT OR Apache-2.0",
        "os": ["linux"],
        "cpu": [{"x86_64": "x64", "aarch64": "arm64"}[release.arch]],
        "bin": {"holdup": "bin/holdup"},
        "files": ["bin/holdup", "holdup.cdx.json"],
    }
    files = [
        ("package/package.json", (json.dumps(package, indent=2) + "\n").encode(), 0o644),
        ("package/bin/holdup", read(release.binary), 0o755),
        ("package/README.md", read(os.path.join(PROJECT, "README.md")), 0o644),
        ("package/LICENSE-MIT", read(os.path.join(PROJECT, "LICENSE-MIT")), 0o644),
        ("package/LICENSE-APACHE", read(os.path.join(PROJECT, "LICENSE-APACHE")), 0o644),
        ("package/holdup.cdx.json", read(os.path.join(release.stage, "holdup.cdx.json")), 0o644),
    ]
    name = f"holdup-{release.version}-npm-{release.arch}.tgz"
    tarball.write(os.path.join(release.out, name), files, release.seconds)
    release.written(name)

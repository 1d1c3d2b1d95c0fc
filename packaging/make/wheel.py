"""holdup-VERSION-py3-none-…whl: `pip install holdup` and `uvx holdup` put the binary on the PATH.

The format is PyPA's "Binary distribution format" (PEP 427, PEP 491). Platform tags are those of PEP 600 and PEP 656, because
the static binary runs with any glibc and any musl.
"""

import base64
import hashlib
import os
import time
import zipfile

from .common import PROJECT, read

METADATA = [
    "Metadata-Version: 2.1",
    "Name: holdup",
    "Version: {version}",
    "Summary: Says why a program with many threads is slow or does not scale",
    "License: MIT OR Apache-2.0",
    "Requires-Python: >=3.7",
    "Classifier: Operating System :: POSIX :: Linux",
    "Description-Content-Type: text/markdown",
    "",
    "{readme}",
]
WHEEL = ["Wheel-Version: 1.0", "Generator: holdup-packaging", "Root-Is-Purelib: false", "{tags}", ""]


def build(release):
    platforms = [f"manylinux_2_17_{release.arch}", f"manylinux2014_{release.arch}", f"musllinux_1_1_{release.arch}"]
    name = f"holdup-{release.version}-py3-none-{'.'.join(platforms)}.whl"
    info = f"holdup-{release.version}.dist-info"
    readme = read(os.path.join(PROJECT, "README.md")).decode()
    tags = "\n".join(f"Tag: py3-none-{platform}" for platform in platforms)
    files = [
        (f"holdup-{release.version}.data/scripts/holdup", read(release.binary), 0o755),
        (f"{info}/licenses/LICENSE-MIT", read(os.path.join(PROJECT, "LICENSE-MIT")), 0o644),
        (f"{info}/licenses/LICENSE-APACHE", read(os.path.join(PROJECT, "LICENSE-APACHE")), 0o644),
        (f"{info}/sboms/holdup.cdx.json", read(os.path.join(release.stage, "holdup.cdx.json")), 0o644),
        (f"{info}/METADATA", "\n".join(METADATA).format(version=release.version, readme=readme).encode(), 0o644),
        (f"{info}/WHEEL", "\n".join(WHEEL).format(tags=tags).encode(), 0o644),
    ]
    record = "".join(f"{path},sha256={digest(content)},{len(content)}\n" for path, content, _ in files) + f"{info}/RECORD,,\n"
    files.append((f"{info}/RECORD", record.encode(), 0o644))
    write(os.path.join(release.out, name), files, release.seconds)
    release.written(name)


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def write(path, files, seconds):
    when = time.gmtime(max(seconds, 315532800))[:6]  # zip has no times before 1980
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content, mode in files:
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o100000 | mode) << 16
            entry.create_system = 3
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)

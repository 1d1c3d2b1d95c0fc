"""holdup-VERSION-source.tar.gz: the tree of the commit, with the viewer's page and the compiled BPF programs.

`cargo install --path` then needs neither clang nor Node.
"""

import glob
import io
import os
import tarfile

from . import tarball
from .common import PROJECT, TARGET, Failure, output, read


def build(release):
    name = f"holdup-{release.version}"
    files = []
    with tarfile.open(fileobj=io.BytesIO(output(["git", "archive", "--format=tar", "HEAD"]))) as tree:
        for entry in tree:
            if entry.isfile():
                mode = 0o755 if entry.mode & 0o100 else 0o644
                files.append((f"{name}/{entry.name}", tree.extractfile(entry).read(), mode))
    dist = os.path.join(PROJECT, "viewer", "dist")
    for path in glob.glob(f"{dist}/**", recursive=True):
        if os.path.isfile(path) and not path.endswith(".map"):
            files.append((f"{name}/viewer/dist/{os.path.relpath(path, dist)}", read(path), 0o644))
    for path in compiled_programs(release):
        files.append((f"{name}/bpf/prebuilt/{os.path.basename(path)}", read(path), 0o644))
    tarball.write(os.path.join(release.out, f"{name}-source.tar.gz"), sorted(files), release.seconds)
    release.written(f"{name}-source.tar.gz")


def compiled_programs(release):
    """The object of crates/capture/build.rs, and the hash of its sources, of this release's build."""
    pattern = os.path.join(TARGET, release.triple, "release", "build", "holdup-capture-*", "out", "holdup.bpf.*")
    newest = max((os.path.getmtime(path), os.path.dirname(path)) for path in glob.glob(pattern)) if glob.glob(pattern) else None
    if newest is None:
        raise Failure("no compiled BPF programs: build the part `binary` first")
    return sorted(glob.glob(os.path.join(newest[1], "holdup.bpf.*.o")) + glob.glob(os.path.join(newest[1], "holdup.bpf.*.sources")))

"""The .deb and the .rpm, by nfpm from packaging/nfpm.yaml."""

import os
import shutil
import string
import time

from .common import CACHE, PROJECT, Failure, read, run, say

NFPM = "v2.48.0"


def build_deb(release):
    package(release, "deb", f"holdup_{release.version}_{release.debian_arch}.deb")


def build_rpm(release):
    package(release, "rpm", f"holdup-{release.version}-1.{release.arch}.rpm")


def package(release, kind, name):
    values = {
        "HOLDUP_ARCH": release.debian_arch,
        "HOLDUP_VERSION": release.version,
        "HOLDUP_STAGE": release.stage,
        "HOLDUP_TIME": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(release.seconds)),
    }
    # nfpm itself replaces variables in some fields only.
    config = os.path.join(release.stage, "nfpm.yaml")
    with open(config, "w") as file:
        file.write(string.Template(read(os.path.join(PROJECT, "packaging", "nfpm.yaml")).decode()).substitute(values))
    target = os.path.join(release.out, name)
    run([nfpm(), "package", "--config", config, "--packager", kind, "--target", target], env=dict(os.environ, SOURCE_DATE_EPOCH=str(release.seconds)))
    release.written(name)


def nfpm():
    """nfpm of the PATH, or built once from the Go module proxy."""
    found = shutil.which("nfpm")
    if found:
        return found
    home = os.path.join(CACHE, f"nfpm-{NFPM}")
    built = os.path.join(home, "nfpm")
    if not os.path.exists(built):
        if not shutil.which("go"):
            raise Failure(f"the .deb and the .rpm need nfpm {NFPM}, or Go to build it with")
        say(f"packaging/release: building nfpm {NFPM} in {home}")
        run(["go", "install", f"github.com/goreleaser/nfpm/v2/cmd/nfpm@{NFPM}"], env=dict(os.environ, GOBIN=home))
    return built

"""An image for containers, from packaging/Containerfile and the .deb of the same folder."""

import os
import shutil

from .common import Failure, run


def build(release):
    engine = shutil.which("podman") or shutil.which("docker")
    if not engine:
        raise Failure("the image needs podman or docker")
    if not os.path.exists(os.path.join(release.out, f"holdup_{release.version}_{release.debian_arch}.deb")):
        raise Failure("the image needs the part `deb` first")
    run([engine, "build", "-f", "packaging/Containerfile", "-t", f"holdup:{release.version}", release.out])

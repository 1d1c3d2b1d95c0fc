"""The list of kernels, and what each one's packages hold."""

import os
import re
import shutil
from dataclasses import dataclass

from .common import HERE, Failure, Unavailable, cache, say
from .packages import Suite, unpack

SUITES = {}


@dataclass
class Kernel:
    """One line of the list. `image`, `modules` and `version` are known after the kernel is fetched."""

    name: str
    suite: str
    line: str
    flavour: str
    append: str
    image: str = ""
    modules: str = ""
    version: str = ""

    def fetch(self, age=None):
        """Makes image and modules available in the cache. Raises Unavailable if the archive does not have them."""
        suite = SUITES.setdefault(self.suite, Suite(self.suite))
        suite.refresh(*([] if age is None else [age]))
        package = self.newest(suite)
        folder = cache("kernels", f"{package['Package']}_{package['Version'].replace(':', '.')}")
        if not os.path.exists(f"{folder}/vmlinuz"):
            say(f"vm: fetching {package['Package']} {package['Version']} from {self.suite}")
            fetch_package(suite, package, folder)
        self.image, self.modules = f"{folder}/vmlinuz", f"{folder}/modules"
        self.version = package["Package"].removeprefix("linux-image-").removesuffix("-amd64")
        for flavour in ("-cloud", "-rt"):
            self.version = self.version.removesuffix(flavour)
        return self

    def newest(self, suite):
        """The fields of the newest package of this line and flavour."""
        flavour = "" if self.flavour == "generic" else f"-{self.flavour}"
        pattern = re.compile(rf"linux-image-{re.escape(self.line)}\.[\w.+~]+(-\d+)?{flavour}-amd64")
        found = [each for each in suite.packages("linux-image-") if pattern.fullmatch(each["Package"])]
        if not found:
            raise Unavailable(f"{self.suite} has no kernel {self.line} of flavour {self.flavour}")
        return max(found, key=lambda each: (natural(each["Version"]), natural(each["Package"])))


def natural(version):
    """A key that orders versions of one package line by their numbers."""
    return [int(number) for number in re.findall(r"\d+", version)]


def fetch_package(suite, package, folder):
    """Fetches the packages of one kernel and keeps its image, its configuration and its modules."""
    parts = set(re.findall(r"linux-(?:binary|modules|image)-[\w.+~-]+", package.get("Depends", "")))
    # Backports keep images of old kernels without their modules. Cloud kernels from 6.12 boot without any.
    held = {each["Package"] for each in suite.packages("linux-") if each["Version"] == package["Version"]}
    names = sorted({package["Package"], *parts & held})
    partial = f"{folder}.{os.getpid()}"

    def wanted(path):
        name = os.path.basename(path)
        if name == "vmlinuz" or name.startswith("vmlinuz-"):
            return f"{partial}/vmlinuz"
        if name.startswith("config-") or name == "config":
            return f"{partial}/config"
        return f"{partial}/modules/{name}" if re.search(r"\.ko(\.xz|\.gz)?$", name) else None

    try:
        for path in suite.download(names, package["Version"]):
            unpack(path, wanted)
        if not os.path.exists(f"{partial}/vmlinuz"):
            raise Unavailable(f"{' '.join(names)}: no vmlinuz in it")
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def read_list():
    """All kernels of the list, in its order."""
    kernels = []
    with open(f"{HERE}/kernels") as file:
        for line in file:
            words = line.split("#")[0].split(None, 4)
            if len(words) >= 4:
                kernels.append(Kernel(*words[:4], words[4].strip() if len(words) > 4 else ""))
    return kernels


def find(name):
    for kernel in read_list():
        if kernel.name == name:
            return kernel
    raise Failure(f"no kernel {name} in vm/kernels; there are: {' '.join(each.name for each in read_list())}")

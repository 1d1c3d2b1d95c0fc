"""Fetches Debian packages by name through apt, with an apt configuration of its own.

Does not change the system's package state. Reads only the address of its mirror, its keyrings and the settings in apt.conf.d (a
proxy, for example). Every suite has its own folder, so that a suite that no longer exists does not affect the others.
"""

import glob
import os
import re
import subprocess
import tarfile
import time

from .common import Unavailable, cache, say

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITES = re.compile(r"^(stable|testing|unstable|sid|bullseye|bookworm|trixie|forky)$")
DAY = 86400
FETCH_SECONDS = 600


def mirror():
    """The address of the Debian mirror that this system's own sources name."""
    if os.environ.get("HOLDUP_VM_MIRROR"):
        return os.environ["HOLDUP_VM_MIRROR"]
    for path in sorted(glob.glob("/etc/apt/sources.list.d/*.sources")):
        for stanza in text_of(path).split("\n\n"):
            fields = dict(re.findall(r"^(\w[\w-]*):[ \t]*(.*)$", stanza, re.M))
            if is_debian(fields.get("Suites", "").split(), fields.get("Components", "").split()):
                return fields["URIs"].split()[0]
    for path in ["/etc/apt/sources.list", *sorted(glob.glob("/etc/apt/sources.list.d/*.list"))]:
        for found in re.finditer(r"^deb\s+(?:\[[^]]*\]\s*)?(\S+)\s+(\S+)\s+(.*)$", text_of(path), re.M):
            if is_debian([found[2]], found[3].split()):
                return found[1]
    raise Unavailable("this system's apt sources name no Debian mirror (HOLDUP_VM_MIRROR may name one)")


def is_debian(suites, components):
    return "main" in components and any(SUITES.match(suite) for suite in suites)


def text_of(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


class Suite:
    """One suite of Debian's archive: its package lists and its packages."""

    def __init__(self, name):
        self.name, self.folder = name, cache("apt", name)
        self.stanzas = None

    def refresh(self, age=DAY):
        """Fetches the package lists if the ones here are older than `age` seconds."""
        stamp = f"{self.folder}/fetched"
        if os.path.exists(stamp) and time.time() - os.path.getmtime(stamp) < age:
            return
        say(f"vm: fetching the package lists of {self.name}")
        self.configure()
        done = self.apt("apt-get", "update", "-q")
        if done.returncode == 0 and self.lists():
            open(stamp, "w").close()
        elif self.lists():
            say(f"vm: the package lists of {self.name} are not up to date: {last_line(done)}")
        else:
            raise Unavailable(f"the package lists of {self.name} cannot be fetched: {last_line(done)}")

    def configure(self):
        if not os.path.exists(KEYRING):
            raise Unavailable(f"no {KEYRING} here (Debian: package debian-archive-keyring)")
        for folder in ("state/lists/partial", "cache/archives/partial"):
            os.makedirs(f"{self.folder}/{folder}", exist_ok=True)
        with open(f"{self.folder}/sources.list", "w") as file:
            file.write(f"deb [arch=amd64 signed-by={KEYRING}] {mirror()} {self.name} main\n")
        with open(f"{self.folder}/apt.conf", "w") as file:
            file.write(f'''Dir::State "{self.folder}/state";
Dir::State::status "/dev/null";
Dir::Cache "{self.folder}/cache";
Dir::Etc::sourcelist "{self.folder}/sources.list";
Dir::Etc::sourceparts "-";
APT::Sandbox::User "root";
APT::Architecture "amd64";
APT::Update::Post-Invoke-Success "";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
''')

    def apt(self, *command, cwd=None):
        environment = dict(os.environ, APT_CONFIG=f"{self.folder}/apt.conf", LC_ALL="C.UTF-8")
        try:
            return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=FETCH_SECONDS,
                                  errors="replace")
        except FileNotFoundError:
            raise Unavailable("no apt here: kernels come from Debian's packages") from None
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{' '.join(command[:2])} took longer than {FETCH_SECONDS} s") from None

    def lists(self):
        return glob.glob(f"{self.folder}/state/lists/*_Packages*")

    def packages(self, prefix):
        """Yields the fields of every package whose name starts with `prefix`."""
        if self.stanzas is None:
            self.stanzas = []
            for path in self.lists():
                text = self.apt("/usr/lib/apt/apt-helper", "cat-file", path).stdout
                self.stanzas += re.findall(r"^Package: (?:linux|qemu-system)-.*?(?=\n\n|\Z)", text, re.M | re.S)
        for stanza in self.stanzas:
            if stanza.startswith(f"Package: {prefix}"):
                yield dict(re.findall(r"^([\w-]+): (.*)$", stanza, re.M))

    def version(self, name):
        """The version of a package that this suite has."""
        found = [each["Version"] for each in self.packages(name) if each["Package"] == name]
        if not found:
            raise Unavailable(f"{self.name} has no package {name}")
        return found[-1]

    def download(self, names, version):
        """Downloads packages, verified by apt, and yields their paths. They are removed after the caller has used them."""
        folder = f"{self.folder}/cache/download-{os.getpid()}"
        os.makedirs(folder, exist_ok=True)
        try:
            done = self.apt("apt-get", "download", "-q", *(f"{name}={version}" for name in names), cwd=folder)
            found = sorted(glob.glob(f"{folder}/*.deb"))
            if done.returncode or len(found) != len(names):
                raise Unavailable(f"{' '.join(names)} {version} cannot be fetched from {self.name}: {last_line(done)}")
            yield from found
        finally:
            for path in glob.glob(f"{folder}/*"):
                os.unlink(path)
            os.rmdir(folder)


def last_line(done):
    """The last error that a command printed, without the address of the mirror."""
    lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E:")] or lines or [f"status {done.returncode}"]
    return re.sub(r"https?://\S+", "the mirror", errors[-1])


def unpack(package, wanted):
    """Unpacks a package: `wanted` maps a path in it to where its content belongs, or to None."""
    reader = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE)
    with tarfile.open(fileobj=reader.stdout, mode="r|") as tar:
        for member in tar:
            to = wanted(member.name.lstrip("./")) if member.isfile() else None
            if to:
                os.makedirs(os.path.dirname(to), exist_ok=True)
                with open(to, "wb") as file, tar.extractfile(member) as content:
                    while block := content.read(1 << 20):
                        file.write(block)
    if reader.wait():
        raise Unavailable(f"{os.path.basename(package)} cannot be unpacked")

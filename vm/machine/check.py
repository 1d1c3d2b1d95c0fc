"""Checks holdup on kernels: the commands for each guest, and the results."""

import hashlib
import json
import os
from dataclasses import dataclass, field

from . import accelerator, boot, live
from .common import GUEST, PROJECT, Failure, Unavailable, cache, say

# The kernel that is also run with many CPUs, with lockdown, and where BPF is refused.
MANY_CPUS = (8, 64)
# CPUs that come and go, that the scheduler leaves alone, and most of which can never come.
ODD_CPUS, POSSIBLE_CPUS = "isolcpus=6 nohz_full=7", 248
FALLBACK_KERNEL = "newest"
LOCKDOWN = "lsm=lockdown,capability,yama lockdown=confidentiality"
MEMORY = {2: 3072, 8: 4096, 64: 8192}


@dataclass
class Task:
    """One guest of a check."""

    kernel: object
    parts: list
    cpus: int = 2
    append: str = ""
    timeout: int = 5400
    live_seconds: int = 0
    nodes: int = 1
    possible: int = 0
    what: str = field(default="")

    def key(self):
        return f"{self.kernel.name}-{self.cpus}{'-' + self.what if self.what else ''}"


@dataclass
class Programs:
    """What guests run: the binary, the live tests, and their test programs."""

    holdup: str
    live: dict
    tests: dict

    def digest(self):
        with open(self.holdup, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()[:16]


def build(mark=None, packages=live.ALONE):
    """Builds what guests run, with all live tests or those with a mark."""
    chosen = live.read_list(mark)
    holdup, tests = live.build(list(chosen), packages)
    return Programs(holdup, chosen, tests)


def newest_binary():
    """The holdup that cargo built last in this tree."""
    target = os.environ.get("CARGO_TARGET_DIR") or f"{PROJECT}/target"
    built = [path for path in (f"{target}/debug/holdup", f"{target}/release/holdup") if os.path.exists(path)]
    if not built:
        raise Failure("holdup is not built: cargo build -p holdup --no-default-features")
    return os.path.realpath(max(built, key=os.path.getmtime))


def run(task, programs):
    """Runs one guest. Returns its results: a dictionary with `parts`, or with `skipped` or `failed` and the reason."""
    try:
        task.kernel.fetch()
    except Unavailable as reason:
        return {"skipped": str(reason), "what": task.what}
    say(f"\n== {task.kernel.name}: Linux {task.kernel.version}, {task.kernel.flavour}, {task.cpus} CPUs {task.append}".rstrip())
    plan = {"holdup": programs.holdup, "project": PROJECT, "parts": task.parts, "live": programs.live, "tests": programs.tests,
            "live_seconds": task.live_seconds, "dial": live.dial(next(iter(programs.tests.values())))}
    path = cache("plans", f"{task.key()}.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        json.dump(plan, file)
    target = live.target_folder(next(iter(programs.tests.values())))
    guest = boot.Guest(task.kernel, f"exec python3 {GUEST}/checks.py {path}", task.cpus, MEMORY.get(task.cpus, 4096),
                       task.append, task.timeout, [f"{target}/tmp"], [target, path, os.path.dirname(programs.holdup)],
                       nodes=task.nodes, possible=task.possible)
    outcome = boot.run(guest)
    results = read_checks(outcome)
    results.update(kernel=task.kernel.name, flavour=task.kernel.flavour, suite=task.kernel.suite, asked_cpus=task.cpus,
                   append=f"{task.kernel.append} {task.append}".strip(), what=task.what, seconds=round(outcome.seconds),
                   emulation=accelerator.name(), digest=programs.digest())
    return results


def read_checks(outcome):
    try:
        with open(f"{outcome.results}/checks.json") as file:
            results = json.load(file)
    except (OSError, ValueError):
        results = {"parts": {}}
    if outcome.status is None:
        results["failed"] = outcome.reason
    return results


def reasons(results):
    """Returns why a guest's checks failed. The list is empty if they passed."""
    found = [part["failed"] for part in results.get("parts", {}).values() if part.get("failed")]
    return [*([results["failed"]] if results.get("failed") else []), *found]


def all_tasks(kernels):
    """The release check: everything on each kernel, and what needs one kernel only on the newest."""
    tasks = []
    for kernel in kernels:
        tasks.append(Task(kernel, ["programs", "start", "hot-lock", "live"]))
        if kernel.name == FALLBACK_KERNEL:
            tasks += [Task(kernel, ["programs", "start", "hot-lock"], cpus) for cpus in MANY_CPUS]
            tasks.append(Task(kernel, ["cpus"], 8, ODD_CPUS, nodes=2, possible=POSSIBLE_CPUS, what="cpus"))
            tasks.append(Task(kernel, ["fallback"], what="refused"))
            tasks.append(Task(kernel, ["lockdown"], append=LOCKDOWN, what="lockdown"))
    return tasks


def require(results):
    """Raises Failure if a check failed."""
    found = reasons(results)
    if found:
        raise Failure(f"{results.get('kernel', '')}: {'; '.join(found)}")

"""The tests that run in guests: which there are, and the test programs that hold them."""

import json
import os
import subprocess

from .common import HERE, PROJECT, Failure, say


def read_list(quick=False):
    """Test program → names of its tests, in the order of the list."""
    chosen = {}
    with open(f"{HERE}/live") as file:
        for line in file:
            words = line.split("#")[0].split()
            if len(words) >= 2 and (not quick or "quick" in words[2:]):
                chosen.setdefault(words[0], []).append(words[1])
    return chosen


def build(programs):
    """Builds holdup with optimization, the programs that tests record, and test programs. Returns (holdup, name → executable)."""
    say("vm: building holdup (release) and the test programs")
    holdup = os.environ.get("HOLDUP") or executables(["build", "--release", "--bin", "holdup"]).get("holdup")
    cargo(["build", "--quiet", "-p", "holdup-testkit", "--bins"])
    wanted = [word for name in programs for word in ("--test", name)]
    found = executables(["test", "--no-run", *wanted])
    lacking = sorted(set(programs) - set(found))
    if lacking or not holdup:
        raise Failure(f"cargo built no {', '.join(lacking) or 'holdup'}")
    return os.path.realpath(holdup), {name: found[name] for name in programs}


def executables(words):
    """Runs cargo on the package holdup, without its SQL engine. Returns the executables by name."""
    output = cargo([words[0], "--quiet", "--message-format=json", "-p", "holdup", "--no-default-features", *words[1:]])
    messages = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return {each["target"]["name"]: each["executable"] for each in messages if each.get("executable")}


def cargo(words):
    done = subprocess.run(["cargo", *words], cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise Failure(f"cargo {' '.join(words[:3])} failed with status {done.returncode}")
    return done.stdout


def target_folder(test):
    """The folder that cargo built a test program into (its `debug/deps`)."""
    return os.path.dirname(os.path.dirname(os.path.dirname(test)))

"""The tests that run in guests: which there are, and the test programs that hold them."""

import json
import os
import subprocess

from .common import HERE, PROJECT, Failure, say


def read_list(mark=None):
    """Test program → names of its tests with that mark (None: all), in the order of the list."""
    chosen = {}
    with open(f"{HERE}/live") as file:
        for line in file:
            words = line.split("#")[0].split()
            if len(words) >= 2 and (mark is None or mark in words[2:]):
                chosen.setdefault(words[0], []).append(words[1])
    return chosen


# Without the SQL engine, which no live test needs and which takes longer to build than everything else.
ALONE = ("-p", "holdup", "--no-default-features")
# As `./dev test` builds everything: nothing is built again behind it.
WORKSPACE = ("--workspace",)


def build(programs, packages=ALONE):
    """Builds holdup with optimization, the programs that tests record, and test programs. Returns (holdup, name → executable)."""
    say("vm: building holdup (release) and the test programs")
    holdup = os.environ.get("HOLDUP") or executables(["build", "--release", "--bin", "holdup", *ALONE]).get("holdup")
    recorded = packages if packages == WORKSPACE else ("-p", "holdup-testkit")
    executables(["build", "--bins", *recorded])
    found = executables(["test", "--no-run", *(f"--test={name}" for name in programs), *packages])
    lacking = sorted(set(programs) - set(found))
    if lacking or not holdup or not os.path.exists(holdup):
        raise Failure(f"not built: {', '.join(lacking) or holdup or 'holdup'}")
    return os.path.realpath(holdup), {name: found[name] for name in programs}


def executables(words):
    """Runs cargo. Returns the executables that it built or found, by name."""
    output = cargo([words[0], "--quiet", "--message-format=json", *words[1:]])
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


def dial(test):
    """holdup-dial, which is built with the test programs."""
    return f"{os.path.dirname(os.path.dirname(test))}/holdup-dial"

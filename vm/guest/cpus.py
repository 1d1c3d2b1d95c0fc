"""CPUs that go offline and online, isolated CPUs, CPUs outside the control group, and memory nodes.

Runs in a guest, for checks.py. Each case records holdup-dial. Its ledger must add up, no event may be lost, and the report must have the kernel's memory nodes.
"""

import json
import os
import re
import threading
import time

# More threads than CPUs, so that every CPU is used.
DIAL = ["--threads", "12", "--seconds", "6", "--compute", "5", "--lock", "5", "--sleep", "5"]
START_SECONDS = 300
GROUPS = "/sys/fs/cgroup"
GROUP = f"{GROUPS}/holdup-cpus"
GROUP_CPUS = [0, 4]
# Maximum memory for maps and rings with all possible CPUs (MiB).
MEMORY_MAX_MIB = 1024


def online(cpu, state):
    with open(f"/sys/devices/system/cpu/cpu{cpu}/online", "w") as file:
        file.write("1" if state else "0")


def one_returns():
    time.sleep(1)
    online(3, True)


def two_go_and_one_returns():
    for _ in range(2):
        time.sleep(1)
        online(2, False)
        time.sleep(0.5)
        online(2, True)
    online(5, False)


def make_group():
    os.makedirs(GROUPS, exist_ok=True)
    if not os.path.exists(f"{GROUPS}/cgroup.controllers"):
        os.system(f"mount -t cgroup2 cgroup2 {GROUPS}")
    with open(f"{GROUPS}/cgroup.subtree_control", "w") as file:
        file.write("+cpuset")
    os.makedirs(GROUP, exist_ok=True)
    with open(f"{GROUP}/cpuset.cpus", "w") as file:
        file.write(",".join(map(str, GROUP_CPUS)))


# Name: preparation, words before the command, action during the run, and the CPUs that the program may use.
CASES = {
    "all CPUs": (None, [], None, None),
    "CPU 3 is offline at first, and comes": (lambda: online(3, False), [], one_returns, None),
    "CPU 2 goes twice and returns, CPU 5 goes": (None, [], two_go_and_one_returns, None),
    "bound to isolated CPU 6": (None, ["taskset", "-c", "6"], None, [6]),
    "bound to CPU 7 without a tick": (None, ["taskset", "-c", "7"], None, [7]),
    "in a cpuset with CPUs 0 and 4": (make_group, ["sh", "-c", f'echo $$ >{GROUP}/cgroup.procs && exec "$@"', "sh"], None, GROUP_CPUS),
}


def available_mib():
    with open("/proc/meminfo") as file:
        return int(re.search(r"MemAvailable:\s+(\d+)", file.read())[1]) >> 10


def is_running():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as file:
                if file.read().strip() == "holdup-dial":
                    return True
        except OSError:
            pass
    return False


class Watcher(threading.Thread):
    """Waits until the program runs, records the memory, and performs the case's action during the run."""

    def __init__(self, during):
        super().__init__(daemon=True)
        self.during, self.least_mib, self.failure, self.is_over = during, available_mib(), None, False

    def run(self):
        until = time.monotonic() + START_SECONDS
        while not is_running() and not self.is_over and time.monotonic() < until:
            time.sleep(0.05)
        self.least_mib = min(self.least_mib, available_mib())
        try:
            if self.during:
                self.during()
        except OSError as error:
            self.failure = str(error)


def judge(done, report, watcher, cpus):
    """Returns the failures of a recording."""
    ledger = report.get("ledger") or {"classes": {}, "total_ns": 0}
    ran = [each["cpu"] for each in report.get("cpus", []) if each["target_ns"] > 0]
    wrong = [f"status {done.status}: {done.stderr.strip()[-300:]}"] if done.status != 0 else []
    if not ledger["total_ns"] or sum(ledger["classes"].values()) != ledger["total_ns"]:
        wrong.append("the ledger does not add up")
    if lost_by_recorder(report) != 0:
        wrong.append(f"lost events: {report.get('loss')}")
    wrong += judge_nodes(report, cpus)
    if watcher.failure:
        wrong.append(watcher.failure)
    if cpus is not None and not set(ran) <= set(cpus):
        wrong.append(f"ran on CPUs {ran}")
    return wrong


def lost_by_recorder(report):
    """Lost events, without those whose BPF program the kernel skipped (docs/kernel-notes.md, "Missed runs of BPF programs")."""
    loss = report.get("loss", {})
    return loss["events"] - loss["skipped"] if loss else None


def node_of_cpus():
    """CPU → memory node, of the CPUs that are online."""
    found = {}
    for node in filter(re.compile(r"node\d+").fullmatch, os.listdir("/sys/devices/system/node")):
        for entry in os.listdir(f"/sys/devices/system/node/{node}"):
            if re.fullmatch(r"cpu\d+", entry):
                found[int(entry[3:])] = int(node[4:])
    return found


def judge_nodes(report, cpus):
    """Returns the failures of the nodes of CPUs and threads in a report."""
    kernel = node_of_cpus()
    reported = {cpu: node["node"] for node in report.get("nodes", []) for cpu in node["cpus"]}
    wrong = [f"CPU {cpu} on node {node}, reported on {reported[cpu]}" for cpu, node in kernel.items() if reported.get(cpu, node) != node]
    wrong += [f"the node of CPU {each['cpu']} is not known" for each in report.get("cpus", [])
              if each["cpu"] in kernel and each["cpu"] not in reported]
    if set(reported.values()) != set(kernel.values()):
        wrong.append(f"nodes {sorted(set(reported.values()))} are reported, the kernel has {sorted(set(kernel.values()))}")
    allowed = {kernel[cpu] for cpu in cpus or kernel if cpu in kernel}
    homes = {thread["node"] for thread in report.get("threads", []) if thread["node"] is not None}
    if not homes or not homes <= allowed:
        wrong.append(f"threads ran on nodes {sorted(homes)}, the program may use {sorted(allowed)}")
    return wrong


def case(name, plan, run, report_of):
    before, prefix, during, cpus = CASES[name]
    if before:
        before()
    mib = available_mib()
    watcher = Watcher(during)
    watcher.start()
    recording = f"/var/tmp/cpus-{list(CASES).index(name)}.holdup"
    done = run([*prefix, plan["holdup"], "run", "-q", "-o", recording, "--", plan["dial"], *DIAL])
    watcher.is_over = True
    watcher.join()
    report = report_of(plan["holdup"], recording)
    wrong = judge(done, report, watcher, cpus)
    taken = mib - watcher.least_mib
    if taken > MEMORY_MAX_MIB:
        wrong.append(f"took {taken} MiB")
    ledger = report.get("ledger", {})
    moves = report.get("moves", {})
    return {
        "lost": lost_by_recorder(report), "skipped": report.get("loss", {}).get("skipped"),
        "moves": {name: moves.get(name) for name in ("same_core", "same_node", "other_node")},
        "by_node": [node["threads"] for node in report.get("nodes", [])],
        "gaps": report.get("loss", {}).get("uncounted"), "mib": taken,
        "unknown": ledger.get("classes", {}).get("unknown", 0) / max(1, ledger.get("total_ns", 0)),
        "ran_on": [each["cpu"] for each in report.get("cpus", []) if each["target_ns"] > 0],
        "threads": len(report.get("threads", [])), "wrong": wrong,
    }


def check(plan, run, report_of, say):
    cases, failed = {}, []
    for name in CASES:
        try:
            cases[name] = case(name, plan, run, report_of)
        except OSError as error:
            cases[name] = {"wrong": [str(error)]}
        wrong = cases[name]["wrong"]
        say(f"cpus: {name}: {'; '.join(wrong) or 'as it should be'}: {json.dumps({key: value for key, value in cases[name].items() if key != 'wrong'})}")
        if wrong:
            failed.append(f"{name}: {'; '.join(wrong)}")
        for cpu in (2, 3, 5):
            online(cpu, True)
    return {"cases": cases, **({"failed": " | ".join(failed)} if failed else {})}

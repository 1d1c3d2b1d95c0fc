#!/usr/bin/env python3
"""Runs in a guest: checks holdup on this kernel as requested by `plan` (JSON), and writes $VM_RESULTS/checks.json.

The plan has `holdup` and `parts` (any of programs, start, hot-lock, live, cpus, fallback, lockdown). For `live`, it has the
test programs with their tests, and a time limit in seconds. After the limit, no further test is started (0: no limit). For
`cpus`, it has holdup-dial. Each part prints its results. The exit status is 1 if a part fails.
"""

import json
import os
import platform
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import cpus  # noqa: E402  (the folder of this file is not on the path before)

SCRATCH = "/var/tmp"
PART_SECONDS = 900
RESULTS = os.environ.get("VM_RESULTS", ".")
LAUNCHER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "without_bpf.py")


class Run:
    """A command's exit status (None: it took too long), output and duration."""

    def __init__(self, words, timeout=PART_SECONDS, **options):
        begun = time.monotonic()
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   errors="replace", start_new_session=True, cwd=SCRATCH, **options)
        try:
            self.stdout, self.stderr = process.communicate(timeout=timeout)
            self.status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self.stdout, self.stderr = process.communicate()
            self.status = None
        self.seconds = time.monotonic() - begun


def say(text):
    print(text, flush=True)


def report_of(holdup, recording):
    """Returns the report of a recording as JSON, or an empty object if there is none."""
    made = Run([holdup, "report", recording, "--json"])
    try:
        return json.loads(made.stdout)
    except ValueError:
        return {}


def check_programs(plan):
    """Loads every BPF program by itself, as `doctor --programs` does."""
    done = Run([plan["holdup"], "doctor", "--programs", "--json"])
    try:
        programs = json.loads(done.stdout)["programs"]
    except (ValueError, KeyError):
        return {"failed": f"doctor --programs: status {done.status}: {done.stderr.strip()[-300:]}"}
    loaded = [each for each in programs if each.get("loaded")]
    missing = [{"program": each["name"], "reason": each.get("reason", "")} for each in programs if not each.get("loaded")]
    most = max(loaded, key=lambda each: each.get("verified_instructions") or 0, default=None)
    say(f"programs: {len(loaded)} loaded, {len(missing)} missing")
    for each in missing:
        say(f"  missing: {each['program']}: {each['reason']}")
    return {"loaded": len(loaded), "missing": missing, "most": most, "all": programs}


def check_start(plan):
    """How much longer a program takes that does nothing."""
    bare = Run(["true"])
    done = Run([plan["holdup"], "run", "-q", "-o", f"{SCRATCH}/start.holdup", "--", "true"])
    seconds = done.seconds - bare.seconds
    backend = backend_of(report_of(plan["holdup"], f"{SCRATCH}/start.holdup"))
    say(f"start: {seconds:.1f} s, backend {backend}, status {done.status}")
    if done.status != 0:
        return {"failed": f"run -- true: status {done.status}: {done.stderr.strip()[-500:]}"}
    return {"seconds": seconds, "backend": backend}


def backend_of(report):
    return report.get("backend") or ""


def check_hot_lock(plan):
    """The first finding on the case hot-lock."""
    built = Run(["gcc", "-O2", "-g", "-pthread", "-o", f"{SCRATCH}/words", f"{plan['project']}/cases/hot-lock/words.c"])
    if built.status != 0:
        return {"failed": f"gcc: {built.stderr.strip()[-300:]}"}
    recording = f"{SCRATCH}/hot-lock.holdup"
    done = Run([plan["holdup"], "run", "-q", "-o", recording, "--", f"{SCRATCH}/words", "4", "3"])
    report = report_of(plan["holdup"], recording)
    findings = [each for each in report.get("findings", []) if each["rule"] not in ("noisy-neighbour", "cpu-stolen")]
    first = findings[0] if findings else {"rule": "no finding", "subject": done.stderr.strip()[-300:]}
    say(f"hot-lock: {first['rule']} | {first['subject']} | backend {backend_of(report)}, lost {report.get('loss', {}).get('events')}")
    result = {"rule": first["rule"], "subject": re.sub(r"0x[0-9a-f]+", "0x…", first["subject"]), "backend": backend_of(report),
              "lost": report.get("loss", {}).get("events")}
    # Perf events show that threads wait, but not the cause.
    if done.status != 0 or (has_bpf_backend() and first["rule"] != "lock-contention"):
        result["failed"] = f"hot-lock: status {done.status}, first finding {first['rule']}"
    return result


def has_bpf_backend():
    """Whether this kernel has what the BPF backend needs (README: before 5.15 it is not available)."""
    major, minor = re.match(r"(\d+)\.(\d+)", os.uname().release).groups()
    return (int(major), int(minor)) >= (5, 15)


def check_live(plan):
    """The live tests, program by program."""
    environment = dict(os.environ, HOLDUP_QUICK="1", TMPDIR=SCRATCH, CARGO="true", RUST_BACKTRACE="0", HOLDUP_TEST_BINARY=plan["holdup"])
    if has_bpf_backend():
        environment["HOLDUP_REQUIRE_LIVE"] = "1"
    passed, failed, skipped = [], [], []
    begun = time.monotonic()
    for name, tests in plan["live"].items():
        for test in tests:
            if plan["live_seconds"] and time.monotonic() - begun > plan["live_seconds"]:
                skipped.append(f"{name}::{test}: the {plan['live_seconds']} s for live tests are over")
                say(f"live: {skipped[-1].replace(': the', ': skipped: the', 1)}")
                continue
            done = Run([plan["tests"][name], "--exact", test, "--show-output", "--test-threads=1"], env=environment)
            reason = re.search(r"^skipped: (.*)", done.stdout, re.M)
            if done.status != 0 or "1 passed" not in done.stdout:
                failed.append(f"{name}::{test}")
                say(f"live: {name}::{test}: {'took too long' if done.status is None else 'failed'}\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
            elif reason:
                skipped.append(f"{name}::{test}: {reason[1]}")
                say(f"live: {name}::{test}: skipped: {reason[1]}")
            else:
                passed.append(f"{name}::{test}")
                say(f"live: {name}::{test}: passed ({done.seconds:.0f} s)")
    result = {"passed": passed, "failed_tests": failed, "skipped": skipped}
    if failed:
        result["failed"] = f"live tests: {', '.join(failed)}"
    return result


# Each runs the command behind it where BPF is refused for one reason.
REFUSALS = {
    "no BTF": ["unshare", "-m", "sh", "-c", 'mount -t tmpfs tmpfs /sys/kernel/btf && exec "$@"', "sh"],
    "bpf() refused by seccomp": [sys.executable, LAUNCHER],
    "unprivileged user, unprivileged_bpf_disabled": ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"],
}


def check_fallback(plan):
    """The requested program runs on a lower backend, and one line gives the reason."""
    os.chmod(SCRATCH, 0o1777)
    Run(["sysctl", "-q", "-w", "kernel.unprivileged_bpf_disabled=2"])
    return run_refused(plan, REFUSALS)


def check_lockdown(plan):
    """The same where the kernel keeps its memory confidential, which refuses what BPF programs read."""
    with open("/sys/kernel/security/lockdown") as file:
        state = file.read().strip()
    if "[confidentiality]" not in state:
        return {"failed": f"the kernel is not locked down: {state}"}
    return run_refused(plan, {"lockdown=confidentiality": []})


def run_refused(plan, refusals):
    cases, failed = {}, []
    for name, prefix in refusals.items():
        recording = f"{SCRATCH}/refused-{len(cases)}.holdup"
        command = [*prefix, plan["holdup"], "run", "-o", recording, "--", "sh", "-c", "echo ran; exit 7"]
        done = Run(command, env=dict(os.environ, HOME="/tmp", XDG_STATE_HOME=f"/tmp/state-{len(cases)}", NO_COLOR="1"))
        backend = backend_of(report_of(plan["holdup"], recording))
        lines = [line for line in done.stderr.splitlines() if re.match(r"holdup: .* is not available: ", line)]
        wrong = judge_refused(done, backend, lines)
        cases[name] = {"backend": backend, "line": " / ".join(lines).replace(plan["holdup"], "holdup"), "wrong": wrong}
        say(f"fallback: {name}: backend {backend or 'none'}, status {done.status}: {'; '.join(wrong) or 'as it should be'}")
        for line in lines or done.stderr.splitlines()[-6:]:
            say(f"    {line}")
        if wrong:
            failed.append(f"{name}: {'; '.join(wrong)}")
    return {"cases": cases, **({"failed": " | ".join(failed)} if failed else {})}


def judge_refused(done, backend, lines):
    """Returns the failures of a run for which BPF was refused."""
    wrong = []
    if done.status != 7:
        wrong.append(f"exit status {done.status} instead of the program's 7")
    if not done.stdout.startswith("ran\n"):
        wrong.append("the program did not run")
    if backend not in ("perf", "proc"):
        wrong.append(f"recorded by {backend or 'nothing'}")
    if len(lines) != 1:
        wrong.append(f"{len(lines)} lines say that a backend is not available, instead of one")
    return wrong


def check_cpus(plan):
    return cpus.check(plan, Run, report_of, say)


PARTS = {"programs": check_programs, "start": check_start, "hot-lock": check_hot_lock, "live": check_live, "cpus": check_cpus,
         "fallback": check_fallback, "lockdown": check_lockdown}


def main():
    with open(sys.argv[1]) as file:
        plan = json.load(file)
    results = {"release": platform.release(), "version": platform.version(), "cpus": os.cpu_count(), "parts": {}}
    for part in plan["parts"]:
        begun = time.monotonic()
        try:
            results["parts"][part] = PARTS[part](plan)
        except OSError as error:
            results["parts"][part] = {"failed": f"{part}: {error}"}
        results["parts"][part]["took"] = round(time.monotonic() - begun)
        say(f"{part}: took {results['parts'][part]['took']} s")
        with open(f"{RESULTS}/checks.json", "w") as file:
            json.dump(results, file, indent=1)
    failed = [part["failed"] for part in results["parts"].values() if part.get("failed")]
    for reason in failed:
        say(f"failed: {reason}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

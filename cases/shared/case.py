"""A case: reads its case.toml, and builds and runs its twins, bare and under holdup."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import time

RUN_SECONDS_MAX = 120
TWINS = ("slow", "fixed")
# A case without a slow twin is a near miss: an innocent program.
KNOWN = {
    "shows", "source", "tools", "needs", "check", "rule", "subject", "silent", "mute", "read", "compare", "quick", "experiment",
    *(f"{what}_{twin}" for what in ("build", "beside", "run") for twin in TWINS),
}


# Whether the programs precede all others on the machine, as far as the scheduler allows.
GOES_FIRST = False
FIRST_NICE = -15


def go_first():
    """Raises the priority of the calling process and its session. With autogroups, niceness only counts within one session."""
    os.nice(FIRST_NICE)
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/autogroup").write_text(str(FIRST_NICE))


class CaseError(Exception):
    """An error in a case, in words for the table."""


class Skipped(Exception):
    """Why a case cannot be built here, though it is in order: its build ended with `SKIPPED`."""


# Exit status of a build command that lacks something that its command line does not name.
SKIPPED = 77


def read(folder):
    """Reads the flat `key = "value"` lines of a case.toml. Python before 3.11 has no TOML parser."""
    case = {"name": folder.name, "folder": folder, "compare": "speed"}
    for number, line in enumerate((folder / "case.toml").read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals or len(value) < 2 or value[0] != '"' or value[-1] != '"':
            raise CaseError(f"case.toml:{number}: not `key = \"value\"`")
        if key not in KNOWN:
            raise CaseError(f"case.toml:{number}: unknown key {key!r}")
        case[key] = value[1:-1]
    complete(case)
    return case


def complete(case):
    twins = TWINS if "run_slow" in case else ("fixed",)
    wanted = {"shows", "source", *(f"{what}_{twin}" for what in ("build", "run") for twin in twins)}
    wanted.add("rule" if "run_slow" in case else "silent")
    missing = sorted(wanted - case.keys())
    if missing:
        raise CaseError(f"case.toml lacks {', '.join(missing)}")
    case["twins"] = twins


def missing_tool(case):
    """The first of the programs that it needs and that is not here."""
    return next((tool for tool in case.get("needs", "").split() if shutil.which(tool) is None), None)


def start(case, command, out, directory, **options):
    """A shell command in a session of its own, so that all that it starts can be ended with it."""
    variables = {**os.environ, "OUT": str(out), "DIR": str(directory)}
    options = {"cwd": case["folder"], "env": variables, "start_new_session": True, **options}
    if GOES_FIRST:
        options["preexec_fn"] = go_first
    return subprocess.Popen(["sh", "-c", command], **options)


def end(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def shell(case, command, out, directory):
    """Runs a command until it ends, and returns its status and output."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace"}
    process = start(case, command, out, directory, **pipes)
    try:
        printed, complained = process.communicate(timeout=RUN_SECONDS_MAX)
    finally:
        end(process)
    return subprocess.CompletedProcess(command, process.returncode, printed, complained)


@contextlib.contextmanager
def beside(case, twin, out, directory):
    """Runs the case's concurrent program for this twin, if it has one. The program is no child of holdup."""
    command = case.get(f"beside_{twin}")
    if command is None:
        yield
        return
    stranger = start(case, command, out, directory)
    try:
        yield
        if stranger.poll() is not None:
            raise CaseError(f"what was to run beside the {twin} twin ended with {stranger.returncode}")
    finally:
        end(stranger)


def build(case, twin, directory):
    out = directory / f"{case['name']}-{twin}"
    done = shell(case, case[f"build_{twin}"], out, directory)
    if done.returncode == SKIPPED:
        raise Skipped(done.stderr.strip())
    if done.returncode != 0:
        raise CaseError(f"the {twin} twin does not build: {done.stderr.strip()}")
    return out


def check(case, directory):
    """Runs what the case has of tests of its own."""
    if "check" in case:
        done = shell(case, case["check"], directory / "check", directory)
        if done.returncode != 0:
            raise CaseError(f"its check fails: {(done.stdout + done.stderr).strip()[-400:]}")


def progress(case, twin, done):
    """The number and unit of the last line."""
    last = (done.stdout.strip().splitlines() or [""])[-1]
    words = last.split()
    if done.returncode != 0 or len(words) < 2 or words[0] != "progress:":
        raise CaseError(f"the {twin} twin ended with {done.returncode}: {last} {done.stderr.strip()[-300:]}")
    return float(words[1]), " ".join(words[2:])


def run_bare(case, twin, out, directory):
    """Progress per second of wall time, and the unit of progress."""
    with beside(case, twin, out, directory):
        start = time.monotonic()
        done = shell(case, case[f"run_{twin}"], out, directory)
        wall = time.monotonic() - start
    number, unit = progress(case, twin, done)
    return number / wall, unit


def speeds(case, programs, directory, rounds):
    """Returns the median progress per second of each twin. The twins run in turn."""
    seen = {twin: [] for twin in programs}
    units = set()
    for _ in range(rounds):
        for twin, out in programs.items():
            speed, unit = run_bare(case, twin, out, directory)
            seen[twin].append(speed)
            units.add(unit)
    if len(units) > 1:
        raise CaseError(f"the twins count different things: {', '.join(sorted(units))}")
    return {twin: statistics.median(of) for twin, of in seen.items()}


def record(case, twin, out, directory, holdup):
    """The report on one recorded run, as JSON, and the progress per second of that run."""
    recording, report = directory / f"{twin}.holdup", directory / f"{twin}.json"
    command = f'"{holdup}" run --json --report "{report}" -o "{recording}" -- {case[f"run_{twin}"]}'
    with beside(case, twin, out, directory):
        done = shell(case, command, out, directory)
    if done.returncode != 0:
        raise CaseError(f"holdup ended with {done.returncode} on the {twin} twin: {done.stderr.strip()[-400:]}")
    verdict = json.loads(report.read_text())
    return verdict, progress(case, twin, done)[0] / (verdict["wall_ns"] / 1e9)


def keep(case, directory, folder, speeds):
    """Keeps the recordings of both twins and how fast they were bare, for `kept`."""
    own = folder / case["name"]
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    for twin in case["twins"]:
        shutil.copytree(directory / f"{twin}.holdup", own / f"{twin}.holdup")
        for answer in directory.glob(f"{twin}.experiment.json"):
            shutil.copy(answer, own)
    # Last: a folder that has it is whole.
    (own / "speeds.json").write_text(json.dumps(speeds) + "\n")


def kept(case, folder, holdup):
    """Returns kept speeds, and reports made again from kept recordings. Returns None if nothing was kept."""
    own = folder / case["name"]
    if not (own / "speeds.json").is_file():
        return None
    verdicts = {}
    for twin in case["twins"]:
        command = [holdup, "report", "--json", own / f"{twin}.holdup"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
        if done.returncode != 0:
            raise CaseError(f"holdup report ended with {done.returncode} on the {twin} twin: {done.stderr.strip()[-400:]}")
        verdicts[twin] = json.loads(done.stdout)
    return json.loads((own / "speeds.json").read_text()), verdicts

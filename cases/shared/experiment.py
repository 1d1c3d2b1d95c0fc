"""Findings of holdup's experiments, such as `holdup sweep --layout`, for cases that one recording cannot explain."""

import json

import case as cases

# Runs of each setting: for the line-up, in which all cases have their turn.
REPEATS = 2


def command(case, twin, holdup, more=""):
    """Returns the shell command of the experiment, which runs the program many times."""
    words = case["experiment"].split()
    return f'"{holdup}" {" ".join(words)} -n {REPEATS} {more}-- {case[f"run_{twin}"]}'


def ask(case, twin, out, directory, holdup):
    """Keeps the experiment's answer, as JSON, in that folder."""
    more = f'--json --warm-up 0 --record none -o "{directory}/{twin}.holdup-set" '
    done = cases.shell(case, command(case, twin, holdup, more), out, directory)
    if done.returncode != 0:
        raise cases.CaseError(f"{case['experiment']} ended with {done.returncode} on the {twin} twin: {done.stderr.strip()[-400:]}")
    (directory / answer_of(twin)).write_text(done.stdout)


def answer_of(twin):
    """The file that it is kept in."""
    return f"{twin}.experiment.json"


def tell(verdicts, folder):
    """Appends the findings of the experiments in `folder` to those of the recordings."""
    for twin, verdict in verdicts.items():
        answer = folder / answer_of(twin)
        if answer.is_file():
            verdict["findings"] += findings(json.loads(answer.read_text()))


def findings(answer):
    """Converts the result of an experiment to findings of a report. They have no forecast, because the layout of a run is
    random."""
    layout = answer.get("layout")
    if not layout or not layout["sensitive"]:
        return []
    worst = min(layout["factors"], key=lambda factor: factor["p"])
    return [{"rule": "layout-sensitive", "subject": worst["name"], "gain": None, "confidence": "high"}]

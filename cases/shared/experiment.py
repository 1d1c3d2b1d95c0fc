"""What an experiment of holdup's says of a case, where one recording cannot tell: `holdup sweep --layout` and its like."""

import json

import case as cases

# Runs of each setting: for the line-up, in which all cases have their turn.
REPEATS = 2


def command(case, twin, holdup, more=""):
    """The shell command that asks; it runs the program many times."""
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
    """Puts what the answers in that folder raise behind what the recordings said."""
    for twin, verdict in verdicts.items():
        answer = folder / answer_of(twin)
        if answer.is_file():
            verdict["findings"] += findings(json.loads(answer.read_text()))


def findings(answer):
    """What it raises, in the words of a report's findings. It forecasts nothing: which layout a run gets is luck."""
    layout = answer.get("layout")
    if not layout or not layout["sensitive"]:
        return []
    worst = min(layout["factors"], key=lambda factor: factor["p"])
    return [{"rule": "layout-sensitive", "subject": worst["name"], "gain": None, "confidence": "high"}]

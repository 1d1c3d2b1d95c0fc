"""Scores the verdicts on a case: the culprit first on the slow twin, silence about it on the fixed one."""

import json
import statistics

# Findings about the machine, not about the program. If a case does not expect them, they have no rank, and
# are listed separately.
MACHINE = ("noisy-neighbour", "cpu-stolen")
DISTURBED_MIN = 0.05
HALF_PERCENT = 0.005
# A hint is no claim: an innocent program may get one of low confidence.
CLAIMS = ("medium", "high")


def rules_of(case, key="rule"):
    """Returns the rules of a key. `rule = "this or that"` accepts both, if two rules describe one cause from two sides."""
    return [word for word in case.get(key, "").split() if word != "or"]


def describe(finding):
    return f"{finding['rule']}: {finding['subject']}"


def rank_of_culprit(case, findings):
    """Returns the rank of the right finding, from 1, or None if it is missing."""
    for rank, finding in enumerate(findings, 1):
        if finding["rule"] in rules_of(case) and case.get("subject", "") in json.dumps(finding):
            return rank
    return None


def of_program(case, verdict):
    """Returns the findings without those about other processes, and the maximum gain that the latter forecast."""
    others = [one for one in verdict["findings"] if one["rule"] in MACHINE and one["rule"] not in rules_of(case)]
    return [one for one in verdict["findings"] if one not in others], max((one["gain"]["high"] for one in others), default=0)


def false_alarms(case, verdict, hints_count):
    """Findings on an innocent program that should not be there."""
    unwanted = rules_of(case) + rules_of(case, "silent")
    # A near miss's subject names the innocent parts. Another program that really interferes may be blamed.
    subject = case.get("subject", "") if "silent" in case else ""
    alarms = []
    for finding in verdict["findings"]:
        claim = hints_count or finding["confidence"] in CLAIMS
        named = finding["rule"] in unwanted and claim or finding["rule"] in rules_of(case, "mute")
        if named and subject in describe(finding):
            alarms.append(describe(finding))
    return alarms


def score_pair(case, speeds, verdicts):
    """Returns the table entries of a slow and a fixed program."""
    findings, disturbed = of_program(case, verdicts["slow"])
    rank = rank_of_culprit(case, findings)
    found = findings[rank - 1] if rank else None
    measured = 1 - speeds["slow"] / speeds["fixed"]
    score = {
        "expected": case["rule"],
        "first": describe(findings[0]) if findings else None,
        "rank": rank,
        "forecast": found["gain"] if found else None,
        "measured": round(measured, 4) if case["compare"] == "speed" else None,
        "covered": None,
        "disturbed": disturbed,
        "false_alarms": false_alarms(case, verdicts["fixed"], found is not None and found["confidence"] == "low"),
        "others_on_fixed": [describe(one) for one in verdicts["fixed"]["findings"] if one["confidence"] in CLAIMS],
        "cost_percent": verdicts["slow"]["cost"]["percent"],
        "findings": [describe(one) for one in findings],
    }
    if found and found["gain"] and score["measured"] is not None:
        # A report has whole percents.
        low, high = found["gain"]["low"] - HALF_PERCENT, found["gain"]["high"] + HALF_PERCENT
        score["covered"] = low <= measured <= high
    return score


def score_near_miss(case, verdict):
    findings, disturbed = of_program(case, verdict)
    return {
        "disturbed": disturbed,
        "expected": "no " + " or ".join(rules_of(case, "silent") + rules_of(case, "mute")),
        "first": describe(findings[0]) if findings else None,
        "false_alarms": false_alarms(case, verdict, hints_count=False),
        "cost_percent": verdict["cost"]["percent"],
        "findings": [describe(one) for one in findings],
    }


def complaint(score):
    """Returns why a case failed, or None if it passed."""
    wrong = []
    if "rank" in score and score["rank"] != 1:
        where = f"it is number {score['rank']}" if score["rank"] else "it is not reported"
        wrong.append(f"first is {score['first'] or 'nothing'}; {where}")
    wrong += [f"false alarm: {alarm}" for alarm in score["false_alarms"]]
    return "; ".join(wrong) or None


def percent(share):
    return "" if share is None else f"{share * 100:.0f} %"


COLUMNS = ("case", "expected", "first finding", "rank", "forecast", "measured", "false alarms", "cost", "others")
WIDTH_MAX = 36


def row(name, score):
    if "expected" not in score:
        return (name, f"({score['status']}: {score['why']})")
    forecast = score.get("forecast")
    cells = (
        name,
        score["expected"],
        score["first"] or "(none)",
        "" if "rank" not in score else str(score["rank"] or "none"),
        f"{forecast['low'] * 100:.0f} to {percent(forecast['high'])}" if forecast else "",
        percent(score.get("measured")),
        str(len(score["false_alarms"])),
        "" if score["cost_percent"] is None else f"{score['cost_percent']:.1f} %",
        percent(score["disturbed"]) if score["disturbed"] else "",
    )
    return tuple(cell if len(cell) <= WIDTH_MAX else cell[: WIDTH_MAX - 1] + "…" for cell in cells)


def table(scores):
    """The scores as text, one line a case."""
    rows = [COLUMNS, *(row(name, score) for name, score in scores.items())]
    widths = [max(len(cells[column]) for cells in rows if len(cells) > 2) for column in range(len(COLUMNS))]
    padded = ([cell.ljust(width) for cell, width in zip(cells, widths)] for cells in rows)
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def summary(scores):
    judged = [score for score in scores.values() if "expected" in score]
    pairs = [score for score in judged if "rank" in score]
    forecasts = [score for score in pairs if score["covered"] is not None]
    estimated = [score for score in forecasts if score["forecast"]["likely"] is not None]
    errors = [abs(score["forecast"]["likely"] - score["measured"]) for score in estimated]
    return {
        "cases": len(scores),
        "judged": len(judged),
        "failed": sum(score["status"] == "failed" for score in scores.values()),
        "skipped": sum(score["status"] == "skipped" for score in scores.values()),
        "pairs": len(pairs),
        "first": sum(score["rank"] == 1 for score in pairs),
        "top_three": sum(score["rank"] is not None and score["rank"] <= 3 for score in pairs),
        "false_alarms": sum(len(score["false_alarms"]) for score in judged),
        "forecasts": len(forecasts),
        "covered": sum(score["covered"] for score in forecasts),
        "disturbed": sum(score["disturbed"] >= DISTURBED_MIN for score in judged),
        "estimated": len(errors),
        "mean_error": mean(errors),
        "median_error": round(statistics.median(errors), 4) if errors else None,
    }


def mean(values):
    return round(sum(values) / len(values), 4) if values else None


def summary_line(of):
    line = f"{of['first']} of {of['pairs']} first, {of['top_three']} in top three, {of['false_alarms']} false alarms"
    if of["forecasts"]:
        line += f", forecast covered {of['covered']} of {of['forecasts']}"
    if of["estimated"]:
        line += f", likely gain of {of['estimated']}: error {of['median_error'] * 100:.0f} points in the median, {of['mean_error'] * 100:.0f} on average"
    if of["disturbed"]:
        line += f"\n{of['disturbed']} of {of['judged']} were recorded while others took CPU time: on a quiet machine they say more"
    return line

"""Keeps the results of checks, and writes docs/kernels.md from them."""

import json
import os

from .common import PROJECT, cache

HEAD = """# Kernels

Written by the checks of `./dev vm` (`--all` runs all kernels). Each row is one guest under {emulation}, with packages from Debian's archive.
Start-up is how much longer `holdup run -- true` takes than `true`. Under emulation it is many times longer than on hardware.
"Most verified" is the BPF program with the most instructions that the verifier walked, with that number.

| kernel | Linux | flavour | CPUs | programs loaded | most verified | start-up | live tests | first finding on hot-lock |
|---|---|---|---|---|---|---|---|---|
"""
CPUS = """
## CPUs that come and go, and memory nodes

holdup-dial with 12 threads, recorded on a kernel that was booted with `{append}`. "Lost" are events that holdup
lost, "skipped" are those whose BPF program the kernel skipped ([why](kernel-notes.md)). "Gaps" are spans of time without samples of a
CPU. "Migrations" are those within a node and to another node. Memory is what the machine has less of while the program runs, the
program's own memory included.

| kernel | CPUs | case | lost | skipped | gaps | unknown | threads by node | migrations | memory | result |
|---|---|---|---|---|---|---|---|---|---|---|
"""
FALLBACK = """
## Where BPF is refused

The requested program still runs, on a lower backend. holdup prints one line with the reason (`holdup run -- sh -c 'echo ran; exit 7'`).

| refused by | backend | line |
|---|---|---|
"""


def store(key, results):
    os.makedirs(cache("results"), exist_ok=True)
    with open(cache("results", f"{key}.json"), "w") as file:
        json.dump(results, file, indent=1)


def stored(key, digest):
    """Earlier results of the same guest with the same binary, or None."""
    try:
        with open(cache("results", f"{key}.json")) as file:
            results = json.load(file)
    except (OSError, ValueError):
        return None
    return results if results.get("digest") == digest else None


def row(name, results):
    """One line of the table."""
    if "skipped" in results:
        return f"| {name} | skipped: {results['skipped']} | | | | | | | |"
    parts = results.get("parts", {})
    cells = [name, results.get("release", "did not boot").split("-")[0], flavour(results), str(results.get("cpus", "")),
             programs(parts.get("programs")), most(parts.get("programs")), start(parts.get("start")), live(parts.get("live")),
             hot_lock(parts.get("hot-lock"))]
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def flavour(results):
    return " ".join(filter(None, [results.get("flavour", ""), results.get("append", "")]))


def programs(part):
    if not part:
        return ""
    if "loaded" not in part:
        return "not known"
    if not part["loaded"] and not part["missing"]:
        return "none: BPF is not available"
    text = f"{part['loaded']} of {part['loaded'] + len(part['missing'])}"
    return text + (", missing: see below" if part["missing"] else "")


def most(part):
    most_verified = (part or {}).get("most")
    return f"`{most_verified['name']}` {most_verified.get('verified_instructions') or '?'}" if most_verified else ""


def start(part):
    return f"{part['seconds']:.1f} s, {part['backend']}" if part and "seconds" in part else "failed" if part else ""


def live(part):
    if not part:
        return ""
    return f"{len(part['passed'])} passed, {len(part['failed_tests'])} failed, {len(part['skipped'])} skipped"


def hot_lock(part):
    return f"`{part['rule']}` {part['subject']}" if part and "rule" in part else "failed" if part else ""


def missing(rows):
    """A section on programs that kernels refuse: each program and reason once, with its kernels."""
    found = {}
    for name, results in rows:
        for each in results.get("parts", {}).get("programs", {}).get("missing", []):
            found.setdefault((each["program"], each["reason"]), []).append(name)
    if not found:
        return ""
    lines = [f"| `{program}` | {reason.replace('|', '/')} | {', '.join(dict.fromkeys(names))} |"
             for (program, reason), names in sorted(found.items())]
    return "\n## Programs that a kernel refuses\n\n| program | reason | kernels |\n|---|---|---|\n" + "\n".join(lines) + "\n"


def skips(rows):
    found = {}
    for name, results in rows:
        live_part = results.get("parts", {}).get("live") or {}
        for each in live_part.get("skipped", []):
            found.setdefault(each, []).append(name)
        for each in live_part.get("failed_tests", []):
            found.setdefault(f"{each}: failed", []).append(name)
    if not found:
        return ""
    lines = [f"- {each} ({', '.join(dict.fromkeys(names))})" for each, names in sorted(found.items())]
    return "\n## Live tests that were skipped or failed\n\n" + "\n".join(lines) + "\n"


def fallback(rows):
    lines = []
    for _, results in rows:
        for part in ("fallback", "lockdown"):
            for name, case in results.get("parts", {}).get(part, {}).get("cases", {}).items():
                text = case["line"].replace("|", "/") + (f" ({'; '.join(case['wrong'])})" if case["wrong"] else "")
                lines.append(f"| {name} | {case['backend']} | {text} |")
    return FALLBACK + "\n".join(lines) + "\n" if lines else ""


def cpus(rows):
    """A section on CPUs that come and go."""
    lines = []
    for name, results in rows:
        for case, found in results.get("parts", {}).get("cpus", {}).get("cases", {}).items():
            text = "; ".join(found["wrong"]) or "as it should be"
            moves = found.get("moves", {})
            near = (moves.get("same_core") or 0) + (moves.get("same_node") or 0)
            lines.append(f"| {name} | {results.get('asked_cpus')} | {case} | {found.get('lost', '')} | {found.get('skipped', '')} | {found.get('gaps', '')} "
                         f"| {100 * found.get('unknown', 0):.2f} % | {' + '.join(map(str, found.get('by_node', [])))} "
                         f"| {near}, {moves.get('other_node')} | {found.get('mib', '')} MiB | {text.replace('|', '/')} |")
    return CPUS.format(append=next((results["append"] for _, results in rows if results.get("what") == "cpus" and "append" in results), "")) + \
        "\n".join(lines) + "\n" if lines else ""


def page(rows):
    emulation = next((results["emulation"] for _, results in rows if "emulation" in results), "emulation")
    main = [row(name, results) for name, results in rows if not results.get("what")]
    return HEAD.format(emulation=emulation) + "\n".join(main) + "\n" + missing(rows) + skips(rows) + cpus(rows) + fallback(rows)


def write(rows):
    """Writes docs/kernels.md. Returns its text."""
    text = page(rows)
    with open(f"{PROJECT}/docs/kernels.md", "w") as file:
        file.write(text)
    return text

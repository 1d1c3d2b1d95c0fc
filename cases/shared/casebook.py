"""The casebook, for learning: one page per case in docs/casebook, written by running the case.

The text comes from case.toml, the head of the program and the rule's manual page. The `console` blocks hold printed output.
`stale` compares the text with the text that would be written now, and the printed verdict with the case's rule. The text can be
rewritten alone, around the earlier output.
"""

import pathlib
import re
import subprocess
import tempfile

import case as cases
import experiment
import score as scoring

HOW_TO_READ = """
## How to read a report

1. The first sentence names the main cause, its cost and the possible gain. The lines below it describe the run, lost events
   and the cost of recording. Figures of a recording that lost many events are less reliable.
2. *Where the time went* counts each thread's time once: running, blocked, or waiting for a CPU (`run-queue`). Running time is in
   the program (`useful`) or in the kernel. Blocked threads wait for a lock, another thread, work, the disk or the network. The
   total is threads times seconds. Find the longest bar that is not `useful`.
3. *What holds it up* lists the causes by expected gain. `run 76 % shorter (0–95)` gives the likely gain and its lower and upper
   bounds. The likely gain is missing if no replay reproduces the recording. `confidence: low` marks a hint.
4. *Try* lists remedies. `holdup explain RULE` prints the rule's manual page, with its blind spots.
5. `holdup diff` runs the slow and the fixed program in turn, and prints whether the difference is significant.
"""

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOOK = ROOT / "docs" / "casebook"
SOURCES = (".c", ".go", ".java", ".ml", ".rs", ".js", ".py", ".mk")
NO_PROOF = "Not by `holdup diff`, which does not start the programs that run concurrently.\n"
BLOCK = re.compile(r"```console\n(.*?)```\n", re.S)
# If the first number of pairs is not conclusive, the second number is added.
DIFF_RUNS = (3, 10)
# Rules that an experiment raises.
MANUALS_ELSEWHERE = {"layout-sensitive": "crates/findings/src/experiment/layout.rs"}
# A page should show the culprit first. On a busy machine, that may need another run.
TRIES = 3
# Where a program has several causes, its case's is at least among these.
PLACES = 3


def program_of(case):
    """The program's file: the case's own, or the one of another case that its build command names."""
    own = [path for path in sorted(case["folder"].iterdir()) if path.suffix in SOURCES]
    named = [case["folder"] / word for word in case["build_fixed"].split() if word.startswith("../") and "shared" not in word]
    # The program in the last word of the build command precedes the linked ones.
    chosen = [path for path in own if case["build_fixed"].rstrip().endswith(path.name)]
    return ([*chosen, *own, *named] or [None])[0]


def head_of(program):
    """The comment at the head of a program, as paragraphs."""
    text = program.read_text()
    mark = {".js": "//", ".go": "//", ".mk": "#"}.get(program.suffix, "//!")
    found = (
        re.match(r"\s*/\*(.*?)\*/", text, re.S)
        or re.match(r"\s*\(\*(.*?)\*\)", text, re.S)
        or re.match(r'(?:#!.*\n)?"""(.*?)"""', text, re.S)
        or re.match(rf"((?:{mark}.*\n)+)", text)
    )
    if not found:
        return ""
    lines = [re.sub(rf"^\s*(\*|//!?|{mark})? ?", "", line).rstrip() for line in found.group(1).splitlines()]
    return "\n".join(lines).strip()


def manual_of(rule):
    """The sections of a rule's manual page, by heading."""
    path = ROOT / MANUALS_ELSEWHERE.get(rule, f"crates/findings/src/rules/{rule.replace('-', '_')}.rs")
    if not path.is_file():
        return {}
    lines = [line[3:].strip() for line in path.read_text().splitlines() if line.startswith("//!")]
    parts = re.split(r"^## (.*)$", "\n".join(lines), flags=re.M)
    return {heading: text.strip() for heading, text in zip(parts[1::2], parts[2::2])}


def command(case, twin):
    """Returns the command as a user types it in the program's folder."""
    words = case[f"run_{twin}"].replace("$OUT", f"./{case['name']}-{twin}").replace("$DIR/", "./")
    return words


def sentence(text):
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def words_of(case):
    """The page, with a place for each printed block."""
    program = program_of(case)
    relative = pathlib.Path("../..") / program.resolve().relative_to(ROOT)
    rules = scoring.rules_of(case)
    manuals = [(rule, manual_of(rule)) for rule in rules]
    lines = [f"# {case['name']}", "", sentence(case["shows"]), "", f"Source: {case['source']}.", ""]
    if "tools" in case:
        lines += [f"Tools used there: {case['tools']}.", ""]
    lines += ["## The program", "", f"[{program.name}]({relative}):", "", quoted(head_of(program)), ""]
    lines += ["## The command", "", "{slow}", ""]
    lines += ["## How to read it", ""]
    if "read" in case:
        lines += [sentence(case["read"]), ""]
    for rule, manual in manuals:
        if manual:
            lines += [f"### `{rule}`", "", manual["Symptoms"], "", manual["Why it hurts"], ""]
    if "beside_slow" in case:
        lines += [f"Outside of holdup, `{case['beside_slow'].replace('$OUT', './' + case['name'] + '-slow')}` runs concurrently.", ""]
    lines += ["## The fix", ""]
    for _, manual in manuals[:1]:
        lines += [manual.get("What to do", ""), ""]
    lines += [f"The fixed version is `{command(case, 'fixed')}`, {built_from(case)}.", ""]
    lines += ["## The proof", ""]
    if "beside_slow" not in case:
        lines += ["`holdup diff` ran both versions in rounds, and compared each pair of runs.", ""]
    lines += ["{proof}", ""]
    return "\n".join(lines)


def built_from(case):
    """How the fixed twin differs from the slow one."""
    if case["build_fixed"] == case["build_slow"]:
        return "the same program with other arguments"
    return "built from the same file"


def quoted(text):
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def report_on_slow(case, out_of, directory, holdup):
    """The report on the slow twin, as printed."""
    if "experiment" in case:
        return answer_on_slow(case, out_of, directory, holdup)
    recording, report = directory / "book.holdup", directory / "book.txt"
    with cases.beside(case, "slow", out_of["slow"], directory):
        line = f'"{holdup}" run --force --report "{report}" -o "{recording}" -- {case["run_slow"]}'
        done = cases.shell(case, line, out_of["slow"], directory)
    if done.returncode != 0:
        raise cases.CaseError(f"holdup exited with {done.returncode}: {done.stderr.strip()[-300:]}")
    return f"$ holdup -- {command(case, 'slow')}\n{report.read_text()}"


def report_on_kept(case, folder, holdup):
    """Returns the report on a kept recording. Returns None without a recording, or if an experiment finds the culprit."""
    recording = folder / case["name"] / "slow.holdup" if folder else None
    if "experiment" in case or recording is None or not recording.is_dir():
        return None
    done = subprocess.run([holdup, "report", recording], capture_output=True, text=True, timeout=cases.RUN_SECONDS_MAX)
    if done.returncode != 0:
        raise cases.CaseError(f"holdup report exited with {done.returncode}: {done.stderr.strip()[-300:]}")
    told = done.stdout.replace(str(recording), "./book.holdup")
    told = re.sub(r"(/[^\s/]+)*/holdup-case-\w+", ".", told)
    return f"$ holdup -- {command(case, 'slow')}\n{told}"


def answer_on_slow(case, out_of, directory, holdup):
    """Returns the printed result of the case's experiment on the slow twin."""
    done = cases.shell(case, f'XDG_STATE_HOME="{directory}/state" {experiment.command(case, "slow", holdup)}', out_of["slow"], directory)
    if done.returncode != 0:
        raise cases.CaseError(f"{case['experiment']} exited with {done.returncode}: {done.stderr.strip()[-300:]}")
    told = done.stdout.partition("\nSaved in")[0]
    return f"$ holdup {case['experiment']} -n {experiment.REPEATS} -- {command(case, 'slow')}\n{told}"


def proof(case, out_of, directory, holdup):
    if "beside_slow" in case:
        return NO_PROOF
    commands = {twin: case[f"run_{twin}"].replace("$OUT", str(out_of[twin])) for twin in cases.TWINS}
    for runs in DIFF_RUNS:
        line = f'XDG_STATE_HOME="$DIR/state" "{holdup}" diff -n {runs} --warm-up 0 --a \'{commands["slow"]}\' --b \'{commands["fixed"]}\''
        done = cases.shell(case, line.replace("$DIR", str(directory)), out_of["slow"], directory)
        if done.returncode not in (0, 1):
            raise cases.CaseError(f"holdup diff exited with {done.returncode}: {done.stderr.strip()[-300:]}")
        if "Not decided:" not in done.stdout:
            break
    shown = f"$ holdup diff -n {runs} --a '{command(case, 'slow')}' --b '{command(case, 'fixed')}'\n"
    # The tables of functions and places vary with the report, and the path of the set with the run.
    told = (done.stdout.strip() or done.stderr.strip()).partition("\nSYSCALLS")[0].partition("\nSaved in")[0]
    return shown + told.strip() + "\n"


def shortened(text, directory):
    """Without the folder of this run, and without white space at line ends."""
    text = text.replace(f"{directory}/", "./").replace(str(directory), ".")
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def write_page(folder, holdup, kept):
    case = cases.read(folder)
    tool = cases.missing_tool(case)
    if tool:
        return f"skipped: {tool} is not installed"
    if len(case["twins"]) == 1:
        return "skipped: a near miss has no page"
    with tempfile.TemporaryDirectory(prefix="holdup-book-") as directory:
        blocks = first_right(case, pathlib.Path(directory), holdup, kept)
    weave(case, blocks)
    return "written"


def first_right(case, directory, holdup, kept):
    """Returns printed output with the culprit first. In the last try, other findings may come before it."""
    known, printed = report_on_kept(case, kept, holdup), printed_on(case)
    if known and len(printed) == 2 and tells(case, known):
        return {"slow": shortened(known, directory), "proof": printed[1]}
    out_of = {twin: cases.build(case, twin, directory) for twin in cases.TWINS}
    for nth in range(TRIES + 1):
        slow = known if nth == 0 else report_on_slow(case, out_of, directory, holdup)
        if slow is None:
            continue
        if tells(case, slow, at_last=nth == TRIES):
            blocks = {"slow": slow, "proof": proof(case, out_of, directory, holdup)}
            return {name: shortened(text, directory) for name, text in blocks.items()}
    raise cases.CaseError(f"the reports of {TRIES} runs did not list {case['rule']}, so the page is unchanged")


def weave(case, blocks):
    """Writes the page from its text and the printed output."""
    page = words_of(case)
    for name, text in blocks.items():
        page = page.replace("{" + name + "}", f"```console\n{text}\n```" if text.startswith("$") else text)
    BOOK.mkdir(parents=True, exist_ok=True)
    (BOOK / f"{case['name']}.md").write_text(page)


def printed_on(case):
    """Returns the two console blocks of a case's page. NO_PROOF replaces a missing second block. Empty without a page."""
    page = BOOK / f"{case['name']}.md"
    blocks = [block.strip("\n") for block in BLOCK.findall(page.read_text())] if page.is_file() else []
    return [*blocks, NO_PROOF.strip()][:2] if blocks else []


def reword(folders):
    """Rewrites the text of existing pages, and keeps the printed output. Returns the exit status."""
    for folder in folders:
        page = BOOK / f"{folder.name}.md"
        if page.is_file():
            case = cases.read(folder)
            weave(case, dict(zip(("slow", "proof"), printed_on(case))))
            print(f"page {folder.name}: text rewritten")
    write_index()
    return 0


def write_pages(folders, holdup, kept, reason):
    """Exit status. Pages of cases that fail stay as they were."""
    if reason:
        print(f"casebook: skipped: {reason}")
        return 1
    failures = 0
    for folder in folders:
        try:
            said = write_page(folder, holdup, kept)
        except cases.Skipped as error:
            said = f"skipped: {error}"
        except (cases.CaseError, OSError, ValueError, subprocess.TimeoutExpired) as error:
            said, failures = f"failed: {error}", failures + 1
        print(f"page {folder.name}: {said}", flush=True)
    write_index()
    return int(failures > 0)


def write_index():
    lines = ["# The casebook", "", "Each program here is slow for one known reason. The pages show how holdup finds it."]
    lines += ["`cases/run --casebook` writes the pages. Their boxes show real output, recorded on a shared machine.", ""]
    lines += [*HOW_TO_READ.strip().splitlines(), "", "## The pages", ""]
    for page in sorted(BOOK.glob("*.md")):
        if page.name != "README.md":
            shows = page.read_text().splitlines()[2]
            lines.append(f"- [{page.stem}]({page.name}): {shows}")
    (BOOK / "README.md").write_text("\n".join(lines) + "\n")


def stale(folder):
    """Returns why a page differs from the text that would be written now, or None if it is up to date."""
    page = BOOK / f"{folder.name}.md"
    case = cases.read(folder)
    text = page.read_text()
    blocks = BLOCK.findall(text)
    wanted = words_of(case)
    if "beside_slow" in case:
        wanted = wanted.replace("{proof}", NO_PROOF.strip())
    if BLOCK.sub("{}\n", text) != re.sub(r"\{\w+\}", "{}", wanted):
        return "its text differs from case.toml, the program's head or the rule's manual page"
    return None if blocks and tells(case, blocks[0]) else f"its report does not list {case['rule']}"


def tells(case, report, at_last=True):
    """Returns whether the first finding of a printed report is the case's. With `at_last`, findings about other processes may
    come before it, and two other causes in the program."""
    if "experiment" in case:
        return any(f"{rule}:" in report for rule in scoring.rules_of(case))
    verdict = report.partition("WHAT HOLDS IT UP")[2]
    rules = [found.group(1) for found in re.finditer(r"^\s*\d+ ([a-z-]+)   \S", verdict, re.M)]
    wanted = scoring.rules_of(case)
    if at_last:
        rules = [rule for rule in rules if rule not in scoring.MACHINE or rule in wanted]
    return any(rule in wanted for rule in rules[: PLACES if at_last else 1])


def print_stale(folders):
    """Returns 1 if a page is stale, otherwise 0. A case without a page is printed, and does not fail. A near miss needs no
    page."""
    found = 0
    there = [folder for folder in folders if (BOOK / f"{folder.name}.md").is_file()]
    without = [folder.name for folder in folders if folder not in there and not folder.name.startswith("near-")]
    for folder in there:
        try:
            why = stale(folder)
        except (cases.CaseError, OSError) as error:
            why = str(error)
        if why:
            found += 1
            print(f"page {folder.name}: stale: {why}")
    print(f"casebook: {found} of {len(there)} pages are stale. Not written yet: {', '.join(without) or 'none'}")
    return int(found > 0)

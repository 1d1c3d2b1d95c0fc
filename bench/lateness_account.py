"""Derives the cause of each late stop-the-world pause of OCaml 5.3 from the kernel's switches and the runtime's ring alone.

bpftrace records every switch and every wakeup of the program's threads. The ring has the requester, the last domain to arrive,
and the times. The time of the last thread from the request to its arrival is added up by state. The state with the most time is
the cause.
"""

import bisect
import collections
import os
import pathlib
import re
import subprocess
import time

import ocaml_rings
from ocaml_rings import BEGIN, END

# Phases of OCaml 5.3: one domain leads a pause, and each arrives at its barrier.
BARRIER, LEADER = 33, 35
NAME = "lateness"
# Kept in the kernel until the end: a reader woken for every event would influence scheduling. For other
# programs, only the occupant of a CPU that our thread left is recorded, until our thread has the CPU again.
NOTES = f"""
tracepoint:sched:sched_switch /comm == "{NAME}"/ {{ @left[cpu] = 1; @t[pid, tid] = 1; }}
tracepoint:sched:sched_switch /@left[cpu] || args->next_comm == "{NAME}"/ {{
    @s[nsecs, cpu, args->prev_pid, args->prev_state, args->next_pid] = 1;
    if (args->next_comm == "{NAME}") {{ @left[cpu] = 0; }}
}}
tracepoint:sched:sched_waking /args->comm == "{NAME}"/ {{ @w[nsecs, args->pid] = 1; }}
"""
KEYS_MAX = 2_000_000
# Bits of a switch's prev_state with the reason for sleeping. Without any of them, the thread was runnable.
SLEEPS = 0xFF
# Time between the kernel's timestamp of a switch and bpftrace's, in which other tracers run (ns). If two
# causes differ by less than this per switch, both count as right.
DOUBT_NS = 10_000

Pause = collections.namedtuple("Pause", "last causes occupants made")


class Switches:
    """Runs bpftrace during a run, then parses its output."""

    def __init__(self, directory):
        self.file = pathlib.Path(directory) / "switches"
        with open(self.file, "w") as out:
            self.process = subprocess.Popen(["bpftrace", "-e", NOTES], stdout=out, stderr=subprocess.DEVNULL,
                                            env=os.environ | {"BPFTRACE_MAP_KEYS_MAX": str(KEYS_MAX)})
        time.sleep(4)  # holdup prints that it attaches before it has attached.

    def finish(self):
        self.process.send_signal(2)
        self.process.wait()
        self.courses, self.cpus, self.threads = collections.defaultdict(list), collections.defaultdict(list), {}
        # What one moment has two of: a thread leaves before the next comes, and is woken before it runs.
        for kind, key in re.findall(r"@([stw])\[([-\d, ]+)\]: 1", self.file.read_text()):
            key = [int(word) for word in key.split(",")]
            if kind == "t":
                self.threads[key[1]] = key[0]
            elif kind == "w":
                self.courses[key[1]].append((key[0], 1, "woken", None))
            else:
                when, cpu, before, state, after = key
                self.courses[before].append((when, 0, "asleep" if state & SLEEPS else "queued", cpu))
                self.courses[after].append((when, 2, "runs", cpu))
                self.cpus[cpu].append((when, after))
        for course in [*self.courses.values(), *self.cpus.values()]:
            course.sort()
        for course in self.courses.values():
            wake_after_sleep(course)
        return self

    def course(self, tid, from_, until):
        """What a thread did between two moments: (from, until, state, CPU)."""
        rows, state, cpu = self.courses.get(tid, []), "unknown", None
        start = bisect.bisect_right(rows, (from_, 3))
        # A wakeup only matters for a sleeping thread. The previous state decides.
        for place in range(max(start - 8, 0), len(rows)):
            when, _, new, where = rows[place]
            if when >= until:
                break
            if new == "woken" and state not in ("asleep", "unknown"):
                continue
            if new == "woken":
                # The thread waits on the CPU on which it then runs. A thread woken before the request was
                # runnable when it came.
                where = next((row[3] for row in rows[place:place + 3] if row[2] == "runs"), cpu)
                new = "queued" if when <= from_ else new
            if when > from_:
                yield from_, when, state, cpu
                from_ = when
            state, cpu = new, where if where is not None else cpu
        yield from_, until, state, cpu

    def occupants(self, cpu, from_, until):
        """Returns the time of each thread on a CPU between two times (ns), and the number of switches."""
        rows, sums = self.cpus.get(cpu, []), collections.Counter()
        first = place = max(bisect.bisect_right(rows, (from_, 1 << 40)) - 1, 0)
        while place < len(rows) and rows[place][0] < until:
            end = rows[place + 1][0] if place + 1 < len(rows) else until
            sums[rows[place][1]] += max(min(end, until) - max(rows[place][0], from_), 0)
            place += 1
        return sums, max(place - first - 1, 0)

    def running(self, when, program):
        """The threads of a program that had a CPU at a moment."""
        rows = ((rows, bisect.bisect_right(rows, (when, 1 << 40)) - 1) for rows in self.cpus.values())
        tids = {rows[place][1] for rows, place in rows if place >= 0}
        return {tid for tid in tids if self.threads.get(tid) == program}


def wake_after_sleep(course):
    """A thread may be woken while it is on its way out: then the wakeup is noted first, and no other follows."""
    for place in range(1, len(course) - 1):
        (when, _, woken, _), (asleep_at, _, asleep, _) = course[place - 1:place + 1]
        if (woken, asleep, course[place + 1][2]) == ("woken", "asleep", "runs") and asleep_at - when < 2 * DOUBT_NS:
            course[place - 1], course[place] = course[place], (asleep_at, 1, "woken", None)


def most(sums, doubt_ns):
    """Returns the names with the greatest sum, and those within `doubt_ns` of it."""
    greatest = max(sums.values(), default=0)
    return [what for what, ns in sums.items() if ns >= greatest - doubt_ns and ns > 0]


def asked(ring):
    """When each pause was asked for, and when which domain came and went on: (moment, {domain: (moment, moment)})."""
    rows, pauses = [], []
    for domain, lost, told in ocaml_rings.messages(ring):
        ends = [one.when for one in told if (one.kind, one.phase) == (END, BARRIER)]
        for one in told if not lost else []:
            if one.kind == BEGIN and one.phase in (BARRIER, LEADER):
                end = bisect.bisect_left(ends, one.when)
                rows.append((one.when, one.phase, domain, ends[end] if end < len(ends) else one.when))
    for when, phase, domain, end in sorted(rows):
        if phase == LEADER:
            pauses.append((when, {}))
        elif pauses:
            pauses[-1][1].setdefault(domain, (when, end))
    return [pause for pause in pauses if len(pause[1]) > 1]


def domains(pauses, switches, program):
    """Returns the thread of each domain except the first. The first domain's thread is in `join`, and other threads answer for
    it."""
    seen = collections.defaultdict(collections.Counter)
    for _, came in pauses:
        for domain, (when, _) in came.items():
            seen[domain].update(switches.running(when, program))
    return {domain: tids.most_common(1)[0][0] for domain, tids in seen.items() if domain and tids}


def account(ring, switches, fault, truth):
    """Returns the `Pause` of each request time (ns): the last thread to arrive, the causes, and the occupants of its CPU."""
    pauses, program = asked(ring), truth["tids"]["main"]
    owners, causes = domains(pauses, switches, program), {}
    for when, came in pauses:
        # If two arrive at the same time, the one that continues first did not wait for the other.
        domain, (until, _) = max(came.items(), key=lambda row: (row[1][0], -row[1][1]))
        answers = switches.running(until, program) - set(owners.values())
        last = owners.get(domain) or (answers.pop() if len(answers) == 1 else None)
        if last is not None:
            causes[when] = judge(switches, last, (when, until), (fault, truth))
    return causes


def judge(switches, last, span, made):
    """Returns the main causes of a pause's lateness, and whether most of it is within the injected fault."""
    fault, truth = made
    sums, occupants = collections.Counter(), collections.Counter()
    inside = within(truth["stretches"], *span) if last == truth["tids"].get("late") else 0
    is_made = 2 * inside > span[1] - span[0]
    sleeps, faults = fault == "sleep" and inside > 0, fault == "fault" and is_made
    names = {
        "runs": "page-faults" if faults else "ran-on", "queued": "no-cpu", "unknown": "unknown",
        "asleep": "slept-in-a-call" if sleeps else "asked-late",
        # Its own timer woke it: no waker was late.
        "woken": "no-cpu" if sleeps else "woken-late",
    }
    pieces = list(switches.course(last, *span))
    turns = 0
    for from_, until, state, cpu in pieces:
        sums[names[state]] += until - from_
        if names[state] == "no-cpu":
            had, changes = switches.occupants(cpu, from_, until)
            occupants.update(had)
            turns += changes
    # At each end one has more and the other less.
    return Pause(last, most(sums, 2 * DOUBT_NS * (len(pieces) - 1)), most(occupants, 2 * DOUBT_NS * turns), is_made)


def within(stretches, from_, until):
    """How much of a span lies within stretches (ns)."""
    first = max(bisect.bisect_right(stretches, [from_]) - 1, 0)
    sum_ = 0
    for start, end, _ in stretches[first:]:
        if start >= until:
            break
        sum_ += max(min(end, until) - max(start, from_), 0)
    return sum_

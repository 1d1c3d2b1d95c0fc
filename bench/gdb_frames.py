"""Run inside gdb: writes each thread's frames to the file in HOLDUP_FRAMES, one line a thread, the innermost first.

TID, then name@address for frames that are calls, (name) for those that the compiler inlined. Tail calls, which gdb
infers and which are not on the stack, are left out.
"""

import os

import gdb

for setting in ("past-main on", "past-entry on", "limit 400"):
    gdb.execute(f"set backtrace {setting}")


def frames():
    frame = gdb.newest_frame()
    while frame is not None:
        name = (frame.name() or "?").replace("|", "/")
        if frame.type() == gdb.INLINE_FRAME:
            yield f"({name})"
        elif frame.type() != gdb.TAILCALL_FRAME:
            yield f"{name}@{frame.pc():x}"
        frame = frame.older()


with open(os.environ["HOLDUP_FRAMES"], "w") as out:
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        out.write(f"{thread.ptid[1]} {'|'.join(frames())}\n")

#!/usr/bin/env python3
"""Runs a command for which seccomp refuses bpf() with EPERM, as container runtimes do: without_bpf.py COMMAND ..."""

import ctypes
import os
import struct
import sys

BPF_X86_64 = 321
EPERM = 1
RETURN_ERRNO, RETURN_ALLOW = 0x00050000, 0x7FFF0000
PR_SET_SECCOMP, MODE_FILTER = 22, 2
# Classic BPF: load the syscall's number, compare it with bpf's number, return.
LOAD_WORD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06


def install_filter():
    steps = [(LOAD_WORD, 0, 0, 0), (JUMP_EQUAL, 0, 1, BPF_X86_64), (RETURN, 0, 0, RETURN_ERRNO | EPERM),
             (RETURN, 0, 0, RETURN_ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    # Root needs no PR_SET_NO_NEW_PRIVS, which would change what holdup may do.
    if libc.prctl(PR_SET_SECCOMP, MODE_FILTER, program, 0, 0):
        sys.exit(f"without_bpf.py: seccomp: {os.strerror(ctypes.get_errno())}")


install_filter()
os.execvp(sys.argv[1], sys.argv[1:])

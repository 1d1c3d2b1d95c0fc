"""Paths and messages that every part uses."""

import os
import sys

HERE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
PROJECT = os.path.dirname(HERE)
GUEST = f"{HERE}/guest"


class Failure(Exception):
    """Something is broken: the run fails."""


class Unavailable(Exception):
    """Something cannot be fetched or installed here: the run is skipped, with this reason."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def cache(*parts):
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "holdup", "vm", *parts)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Shared code of the programs around the Python wrapper of libpmix."""

import sys


def must(what, status):
    """Exits unless the status is success."""
    if status != 0:
        sys.exit(f"{what}: {status}")


def text_of(value):
    """Returns a text, which the wrapper sometimes returns as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def info(key, value, kind):
    """Returns an info in the form of the wrapper."""
    return {"key": key, "value": value, "val_type": kind}

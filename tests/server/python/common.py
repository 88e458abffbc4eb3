# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the programs around the Python wrapper of libpmix have in common."""

import sys


def must(what, status):
    """The status must be success."""
    if status != 0:
        sys.exit(f"{what}: {status}")


def text_of(value):
    """The wrapper hands some texts out as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def info(key, value, kind):
    """An info, as the wrapper wants it."""
    return {"key": key, "value": value, "val_type": kind}

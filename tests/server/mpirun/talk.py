# SPDX-License-Identifier: MIT OR Apache-2.0
"""`talk.py KIND`: two processes that print, read and end in the way of KIND, as those of talk.c."""

import os
import signal
import sys
import time

from mpi4py import MPI

RANK = MPI.COMM_WORLD.rank


def before(flushes):
    """Prints a line before the end of the job, so that a launcher that ends it must not lose the line."""
    print(f"rank {RANK} before", flush=flushes)
    MPI.COMM_WORLD.Barrier()


def show(kind):
    """Prints or reads."""
    if kind == "lines":
        for line in range(3):
            print(f"rank {RANK} line {line}")
    elif kind == "flushed":
        for _ in range(3):
            print(f"rank {RANK} at {time.time():.4f}", flush=True)
            time.sleep(0.15)
    elif kind == "bytes" and RANK == 0:
        sys.stdout.buffer.write(bytes(range(256)))
    elif kind == "both":
        print(f"rank {RANK} error", file=sys.stderr)
        print(f"rank {RANK} output", flush=True)
        time.sleep(0.05)
        print(f"rank {RANK} error 2", file=sys.stderr)
    elif kind == "input":
        number = 0
        for line in sys.stdin:
            print(f"rank {RANK} read {line}", end="")
            number += 1
        print(f"rank {RANK} lines {number}")


def end(kind):
    """Ends the process, or waits for the end of the job."""
    if kind == "finalized":
        before(False)
        MPI.Finalize()
        sys.exit(3 if RANK == 1 else 0)
    elif kind in ("exit", "abort", "crash", "hang", "silent"):
        before(kind != "silent")
        if RANK == 1 and kind == "exit":
            os._exit(3)
        elif RANK == 1 and kind == "abort":
            MPI.COMM_WORLD.Abort(7)
        elif RANK == 1 and kind == "crash":
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(60)


show(sys.argv[1])
end(sys.argv[1])

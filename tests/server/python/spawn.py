# SPDX-License-Identifier: MIT OR Apache-2.0
"""`spawn.py KIND`: processes of mpi4py that spawn others and communicate with them; KIND as in `../mpi/spawn.c`.
Exits with 1 on a failure."""

import os
import sys
import time

from mpi4py import MPI

WORLD = MPI.COMM_WORLD


def exchange(inter, is_parent):
    """Exchanges the size of each side, and a text of its first process."""
    root = 0
    if is_parent:
        root = MPI.ROOT if WORLD.rank == 0 else MPI.PROC_NULL
    said = inter.bcast(7 if is_parent else None, root=root)
    if not is_parent and said != 7:
        sys.exit(f"the parents said {said!r}")
    total = inter.allreduce(1)
    if total != inter.remote_size:
        sys.exit(f"{total} of {inter.remote_size} on the other side")


def start(kind, number):
    """Spawns children from all processes of this job."""
    return WORLD.Spawn(sys.executable, args=[__file__, kind], maxprocs=number)


def be_child(parents, kind):
    if kind == "child-dies" and WORLD.rank == 0:
        os._exit(3)
    if kind in ("child-dies", "child-parent"):
        # The call fails, or the job is killed during it.
        try:
            parents.bcast(None, root=0)
        finally:
            os._exit(0)
    exchange(parents, False)
    if kind == "child-nested":
        children = start("child", 1)
        exchange(children, True)
        children.Disconnect()
    if kind == "child-multiple":
        number = WORLD.Get_attr(MPI.APPNUM)
        if (WORLD.size, number) != (3, 0 if WORLD.rank == 0 else 1):
            sys.exit(f"rank {WORLD.rank} of {WORLD.size} is of application {number}")
    parents.Disconnect()


def meet(children):
    exchange(children, True)
    children.Disconnect()


def be_parent(kind):
    if kind == "once":
        meet(start("child", 2))
    elif kind == "nested":
        meet(start("child-nested", 1))
    elif kind == "multiple":
        words = [__file__, "child-multiple"]
        meet(WORLD.Spawn_multiple([sys.executable] * 2, args=[words, words], maxprocs=[1, 2]))
    elif kind == "row":
        for _ in range(20):
            meet(start("child", 1))
    elif kind == "fails":
        # Each process spawns alone: Open MPI 4 leaves the other members of a communicator waiting.
        try:
            MPI.COMM_SELF.Spawn("/no/such/program", maxprocs=1)
        except MPI.Exception:
            return
        sys.exit("a program that is not there was started")
    elif kind in ("dies", "parent"):
        children = start(f"child-{kind}", 2)
        if kind == "parent" and WORLD.rank == 0:
            os._exit(5)
        try:
            children.bcast(None, root=MPI.ROOT if WORLD.rank == 0 else MPI.PROC_NULL)
            children.Barrier()
        except MPI.Exception:
            pass
        # The launcher ends all processes.
        time.sleep(60)
    else:
        sys.exit(f"no such kind: {kind}")


def main():
    parents = MPI.Comm.Get_parent()
    if parents != MPI.COMM_NULL:
        be_child(parents, sys.argv[1])
    else:
        be_parent(sys.argv[1])
        if WORLD.allreduce(1) != WORLD.size:
            sys.exit("not all are there")


main()

"""`sessions.py SIZE`: communicators created from groups, without MPI_Init. Process sets of the launcher are
omitted, as in the program in C."""

import sys

import mpi4py

mpi4py.rc.initialize = False
from mpi4py import MPI  # noqa: E402

size = int(sys.argv[1])
session = MPI.Session.Init()
names = [session.Get_nth_pset(place) for place in range(session.Get_num_psets())]
assert "mpi://WORLD" in names and "mpi://SELF" in names, names
world, own = session.Create_group("mpi://WORLD"), session.Create_group("mpi://SELF")
assert (world.size, own.size) == (size, 1)
rank = world.rank


def count(group, tag):
    """Counts the members of a group in a communicator."""
    comm = MPI.Intracomm.Create_from_group(group, tag)
    assert comm.allreduce(1) == group.size
    comm.Free()


for tag in ("first", "second", "first"):
    count(world, tag)
count(own, "self")
if size > 1:
    half = world.Range_incl([(rank % 2, size - 1, 2)])
    other = world.Range_incl([(1 - rank % 2, size - 1, 2)])
    count(half, "half")
    between = MPI.Intercomm.Create_from_groups(half, 0, other, 0, "between")
    assert between.allreduce(1) == other.size
    between.Free()
session.Finalize()
print("rank", rank, "of", size, "is content")

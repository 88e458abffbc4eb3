/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `split SIZE`: communicators of even and odd ranks in reverse order, and of the ranks of this node. */
#include "mpi_check.h"

int main(int argc, char **argv)
{
    int rank = -1, size = 0, part_rank = -1, part_size = 0, first = 0;
    mpi_begin(argc, argv, &rank, &size);
    MPI_Comm part, node;
    require(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part) == MPI_SUCCESS);
    MPI_Comm_rank(part, &part_rank);
    MPI_Comm_size(part, &part_size);
    require(part_size == (size + 1 - rank % 2) / 2);
    /* The highest rank of the same parity comes first. */
    first = rank;
    MPI_Bcast(&first, 1, MPI_INT, 0, part);
    require(first == rank + 2 * part_rank);

    require(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node)
            == MPI_SUCCESS);
    int here = 0;
    MPI_Comm_size(node, &here);
    require(here == size);
    MPI_Comm_free(&part);
    MPI_Comm_free(&node);
    MPI_Finalize();
    return 0;
}

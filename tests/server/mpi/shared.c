/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `shared SIZE`: all ranks share a node and memory. */
#include "mpi_check.h"

int main(int argc, char **argv)
{
    int rank = -1, size = 0;
    mpi_begin(argc, argv, &rank, &size);
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    int local_rank = -1, local_size = 0;
    MPI_Comm_rank(node, &local_rank);
    MPI_Comm_size(node, &local_size);
    require(local_rank == rank && local_size == size);

    int *mine = NULL;
    MPI_Win window;
    MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, node, &mine, &window);
    MPI_Win_fence(0, window);
    *mine = 1000 + rank;
    MPI_Win_fence(0, window);
    for (int other = 0; other < size; other++) {
        MPI_Aint len = 0;
        int unit = 0, *theirs = NULL;
        MPI_Win_shared_query(window, other, &len, &unit, &theirs);
        require(len == sizeof(int) && *theirs == 1000 + other);
    }
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    MPI_Comm_free(&node);
    MPI_Finalize();
    return 0;
}

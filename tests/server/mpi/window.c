/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `window SIZE`: every rank puts into, accumulates in and gets from the memory of passive others. */
#include "mpi_check.h"

int main(int argc, char **argv)
{
    int rank = -1, size = 0;
    mpi_begin(argc, argv, &rank, &size);
    long *memory = NULL;
    MPI_Win window;
    MPI_Win_allocate((MPI_Aint) ((size_t) (size + 1) * sizeof(long)), sizeof(long), MPI_INFO_NULL,
                     MPI_COMM_WORLD, &memory, &window);
    for (int i = 0; i <= size; i++) {
        memory[i] = 0;
    }
    MPI_Win_fence(0, window);
    long mine = 100 + rank, one = 1;
    for (int to = 0; to < size; to++) {
        MPI_Put(&mine, 1, MPI_LONG, to, rank, 1, MPI_LONG, window);
        MPI_Accumulate(&one, 1, MPI_LONG, to, size, 1, MPI_LONG, MPI_SUM, window);
    }
    MPI_Win_fence(0, window);
    for (int from = 0; from < size; from++) {
        require(memory[from] == 100 + from);
    }
    require(memory[size] == size);

    int next = (rank + 1) % size;
    long got = -1;
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, window);
    MPI_Get(&got, 1, MPI_LONG, next, rank, 1, MPI_LONG, window);
    MPI_Win_unlock(next, window);
    require(got == 100 + rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}

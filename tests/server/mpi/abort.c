/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `abort SIZE`: the last rank aborts the job with 9 while the others wait for it. */
#include "mpi_check.h"

int main(int argc, char **argv)
{
    int rank = -1, size = 0;
    mpi_begin(argc, argv, &rank, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) {
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    sleep(30);
    return 0;
}

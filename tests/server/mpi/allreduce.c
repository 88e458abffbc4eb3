/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `allreduce SIZE`: sums over all ranks, short and long. */
#include "mpi_check.h"

#define LONG 20000

int main(int argc, char **argv)
{
    int rank = -1, size = 0;
    mpi_begin(argc, argv, &rank, &size);
    long mine = rank + 1, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    require(sum == (long) size * (size + 1) / 2);
    double *values = malloc(LONG * sizeof(*values)), *most = malloc(LONG * sizeof(*most));
    for (int i = 0; i < LONG; i++) {
        values[i] = (i + rank) % size;
    }
    MPI_Allreduce(values, most, LONG, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < LONG; i++) {
        require(most[i] == size - 1);
    }
    free(values);
    free(most);
    MPI_Finalize();
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `bcast SIZE`: every rank in turn broadcasts data, short and long. */
#include "mpi_check.h"

#define LONG 50000

int main(int argc, char **argv)
{
    int rank = -1, size = 0;
    mpi_begin(argc, argv, &rank, &size);
    int *values = malloc(LONG * sizeof(*values));
    for (int root = 0; root < size; root++) {
        for (int len = 1; len <= LONG; len += LONG - 1) {
            for (int i = 0; i < len; i++) {
                values[i] = rank == root ? root * 1000000 + i : -1;
            }
            MPI_Bcast(values, len, MPI_INT, root, MPI_COMM_WORLD);
            for (int i = 0; i < len; i++) {
                require(values[i] == root * 1000000 + i);
            }
        }
    }
    free(values);
    MPI_Finalize();
    return 0;
}

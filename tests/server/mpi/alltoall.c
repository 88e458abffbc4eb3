/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `alltoall SIZE`: every rank sends each other one different data, short and long. */
#include "mpi_check.h"

static void exchange(int rank, int size, int each)
{
    int *out = calloc((size_t) (size * each), sizeof(int));
    int *in = calloc((size_t) (size * each), sizeof(int));
    for (int to = 0; to < size; to++) {
        for (int i = 0; i < each; i++) {
            out[to * each + i] = rank * 100000 + to * 1000 + i % 1000;
        }
    }
    MPI_Alltoall(out, each, MPI_INT, in, each, MPI_INT, MPI_COMM_WORLD);
    for (int from = 0; from < size; from++) {
        for (int i = 0; i < each; i++) {
            require(in[from * each + i] == from * 100000 + rank * 1000 + i % 1000);
        }
    }
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    int rank = -1, size = 0;
    mpi_begin(argc, argv, &rank, &size);
    exchange(rank, size, 1);
    exchange(rank, size, 5000);
    MPI_Finalize();
    return 0;
}

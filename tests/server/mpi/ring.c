/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `ring SIZE`: messages of 64 KiB travel around the ring until each is back at its origin. */
#include "mpi_check.h"

#define LEN 65536

int main(int argc, char **argv)
{
    int rank = -1, size = 0;
    mpi_begin(argc, argv, &rank, &size);
    unsigned char *out = malloc(LEN), *in = malloc(LEN);
    for (int i = 0; i < LEN; i++) {
        out[i] = (unsigned char) (rank * 31 + i * 7);
    }
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int step = 1; step <= size; step++) {
        MPI_Status status;
        MPI_Sendrecv(out, LEN, MPI_BYTE, right, step, in, LEN, MPI_BYTE, left, step,
                     MPI_COMM_WORLD, &status);
        int len = 0, origin = (rank + size - step) % size;
        MPI_Get_count(&status, MPI_BYTE, &len);
        require(len == LEN && status.MPI_SOURCE == left);
        for (int i = 0; i < LEN; i++) {
            require(in[i] == (unsigned char) (origin * 31 + i * 7));
        }
        unsigned char *swap = out;
        out = in;
        in = swap;
    }
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}

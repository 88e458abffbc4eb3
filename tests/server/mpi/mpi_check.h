/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared code of the MPI programs: a failed check exits with 1. */
#ifndef PMIXRS_SERVER_MPI_CHECK_H
#define PMIXRS_SERVER_MPI_CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define require(fact)                                                               \
    do {                                                                            \
        if (!(fact)) {                                                              \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #fact);      \
            _exit(1);                                                               \
        }                                                                           \
    } while (0)

/* Calls MPI_Init and returns the rank and size; `argv[1]` is the expected number of processes. */
static inline void mpi_begin(int argc, char **argv, int *rank, int *size)
{
    require(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, size);
    require(argc > 1 && *size == atoi(argv[1]));
}

#endif

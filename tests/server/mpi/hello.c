/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `hello SIZE`: every rank prints its rank and enters a barrier. */
#include "mpi_check.h"

int main(int argc, char **argv)
{
    int rank = -1, size = 0, len = 0;
    char host[MPI_MAX_PROCESSOR_NAME];
    mpi_begin(argc, argv, &rank, &size);
    MPI_Get_processor_name(host, &len);
    printf("rank %d of %d on %s\n", rank, size, host);
    require(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
    MPI_Finalize();
    return 0;
}

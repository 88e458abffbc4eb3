/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `spawn SIZE`: a spawn that the launcher does not offer is an error that the program sees, and the
 * job goes on. */
#include "mpi_check.h"

int main(int argc, char **argv)
{
    int rank = -1, size = 0, fault = 0;
    mpi_begin(argc, argv, &rank, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm children = MPI_COMM_NULL;
    int status = MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF,
                                &children, &fault);
    require(status != MPI_SUCCESS);
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    require(sum == size);
    MPI_Finalize();
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `part LOCAL SIZE`: only the first LOCAL of SIZE ranks run, and communicate among themselves. */
#include "mpi_check.h"

int main(int argc, char **argv)
{
    int rank = -1, size = 0, sum = 0;
    require(argc == 3 && MPI_Init(&argc, &argv) == MPI_SUCCESS);
    int num_local = atoi(argv[1]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    require(size == atoi(argv[2]) && rank < num_local);

    MPI_Group world, here;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int range[1][3] = {{0, num_local - 1, 1}};
    MPI_Group_range_incl(world, 1, range, &here);
    MPI_Comm local;
    MPI_Comm_create_group(MPI_COMM_WORLD, here, 7, &local);
    int mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, local);
    require(sum == num_local * (num_local + 1) / 2);
    MPI_Comm_free(&local);
    MPI_Group_free(&here);
    MPI_Group_free(&world);
    MPI_Finalize();
    return 0;
}

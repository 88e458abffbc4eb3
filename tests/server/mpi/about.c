/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `about SIZE`: checks MPI's information about the job: the universe, the application, the node and the command
 * line. */
#define _GNU_SOURCE
#include "mpi_check.h"

#include <errno.h>
#include <string.h>

static int attribute(int key)
{
    int *value = NULL, found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &found);
    require(found && NULL != value);
    return *value;
}

int main(int argc, char **argv)
{
    int rank = -1, size = 0, len = 0, found = 0;
    mpi_begin(argc, argv, &rank, &size);
    require(attribute(MPI_UNIVERSE_SIZE) == size);
    require(attribute(MPI_APPNUM) == 0);

    char name[MPI_MAX_PROCESSOR_NAME], host[256] = "";
    MPI_Get_processor_name(name, &len);
    require(len > 0 && (size_t) len == strlen(name));
    require(0 == gethostname(host, sizeof(host) - 1) && 0 == strcmp(name, host));

    char value[MPI_MAX_INFO_VAL];
    MPI_Info_get(MPI_INFO_ENV, "command", sizeof(value) - 1, value, &found);
    require(found && NULL != strstr(value, program_invocation_short_name));
    MPI_Info_get(MPI_INFO_ENV, "maxprocs", sizeof(value) - 1, value, &found);
    require(found && atoi(value) == size);
    MPI_Finalize();
    return 0;
}

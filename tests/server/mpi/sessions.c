/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `sessions SIZE`: communicators created from groups, without MPI_Init. Process sets of the launcher are omitted:
 * Open MPI 5.0 lists none under any launcher. */
#include "mpi_check.h"

#include <string.h>

static MPI_Session session;

/* Returns 1 if a process set is listed. */
static int is_listed(const char *wanted)
{
    int count = 0;
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count);
    for (int i = 0; i < count; i++) {
        char name[MPI_MAX_PSET_NAME_LEN];
        int len = sizeof name;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, name);
        if (strcmp(name, wanted) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Returns the group of a process set. */
static MPI_Group of_set(const char *set, int expected)
{
    MPI_Group group;
    int size = 0;
    require(is_listed(set));
    require(MPI_Group_from_session_pset(session, set, &group) == MPI_SUCCESS);
    MPI_Group_size(group, &size);
    require(size == expected);
    return group;
}

/* Counts the members of a group in a communicator. */
static void count(MPI_Group group, const char *tag, int expected)
{
    MPI_Comm comm;
    int one = 1, total = 0;
    require(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm)
            == MPI_SUCCESS);
    require(MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
    require(total == expected);
    MPI_Comm_free(&comm);
}

/* Returns every second process of a group, from rank `first` on. */
static MPI_Group every_second(MPI_Group world, int first, int size)
{
    MPI_Group half;
    int range[1][3] = {{first, size - 1, 2}};
    require(MPI_Group_range_incl(world, 1, range, &half) == MPI_SUCCESS);
    return half;
}

int main(int argc, char **argv)
{
    int size = argc > 1 ? atoi(argv[1]) : 0, rank = -1;
    require(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    MPI_Group world = of_set("mpi://WORLD", size), self = of_set("mpi://SELF", 1);
    MPI_Group_rank(world, &rank);
    count(world, "first", size);
    count(world, "second", size);
    count(world, "first", size);
    count(self, "self", 1);

    /* Two halves, each with a communicator with the same tag at the same time, and one between them. */
    if (size > 1) {
        MPI_Group own = every_second(world, rank % 2, size);
        MPI_Group other = every_second(world, 1 - rank % 2, size);
        count(own, "half", (size + 1 - rank % 2) / 2);
        MPI_Comm between;
        int one = 1, total = 0;
        require(MPI_Intercomm_create_from_groups(own, 0, other, 0, "between", MPI_INFO_NULL,
                                                 MPI_ERRORS_RETURN, &between)
                == MPI_SUCCESS);
        require(MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, between) == MPI_SUCCESS);
        require(total == (size + rank % 2) / 2);
        MPI_Comm_free(&between);
        MPI_Group_free(&own);
        MPI_Group_free(&other);
    }

    MPI_Group_free(&self);
    MPI_Group_free(&world);
    require(MPI_Session_finalize(&session) == MPI_SUCCESS);
    return 0;
}

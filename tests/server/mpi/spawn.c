/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `spawn SIZE KIND`: processes that spawn others and communicate with them. The kinds are:
 *   once      all spawn a job of 2
 *   multiple  1 and 2 processes of two command lines
 *   row       20 spawns one after the other
 *   nested    the child spawns another job
 *   fails     spawning a missing program returns an error
 *   dies      a child exits with 3 while its parents wait for it
 *   apart     a child exits with 3 after it has disconnected, and its parents continue
 *   parent    a parent exits with 5 while its children wait */
#include "mpi_check.h"

#include <string.h>
#include <unistd.h>

static void exchange(MPI_Comm inter, int value, int is_parent, int rank)
{
    int got = is_parent ? value : -1, sum = 0;
    int root = is_parent ? (rank == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0;
    MPI_Bcast(&got, 1, MPI_INT, root, inter);
    require(got == value);
    int one = 1, theirs = 0;
    MPI_Comm_remote_size(inter, &theirs);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter);
    require(sum == theirs);
}

static MPI_Comm start(char *program, const char *size, const char *kind, int number)
{
    char *words[] = {(char *) size, (char *) kind, NULL};
    MPI_Comm children = MPI_COMM_NULL;
    int status = MPI_Comm_spawn(program, words, number, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                                &children, MPI_ERRCODES_IGNORE);
    require(status == MPI_SUCCESS);
    return children;
}

static void be_child(MPI_Comm parents, int rank, char **argv)
{
    const char *kind = argv[2];
    if (strcmp(kind, "child-dies") == 0 && rank == 0) {
        _exit(3);
    }
    if (strcmp(kind, "child-parent") == 0 || strcmp(kind, "child-dies") == 0) {
        /* The call fails, or the job is killed during it. */
        int none = 0;
        MPI_Bcast(&none, 1, MPI_INT, 0, parents);
        _exit(0);
    }
    exchange(parents, 7, 0, rank);
    if (strcmp(kind, "child-nested") == 0) {
        MPI_Comm children = start(argv[0], argv[1], "child", 1);
        exchange(children, 7, 1, rank);
        MPI_Comm_disconnect(&children);
    }
    if (strcmp(kind, "child-multiple") == 0) {
        int size = 0, *number = NULL, found = 0;
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        require(size == 3);
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &found);
        require(found && *number == (rank == 0 ? 0 : 1));
    }
    MPI_Comm_disconnect(&parents);
    if (strcmp(kind, "child-apart") == 0) {
        _exit(3);
    }
}

static void be_parent(int rank, char **argv)
{
    const char *kind = argv[2];
    MPI_Comm children = MPI_COMM_NULL;
    if (strcmp(kind, "once") == 0) {
        children = start(argv[0], argv[1], "child", 2);
    } else if (strcmp(kind, "nested") == 0) {
        children = start(argv[0], argv[1], "child-nested", 1);
    } else if (strcmp(kind, "apart") == 0) {
        children = start(argv[0], argv[1], "child-apart", 1);
        exchange(children, 7, 1, rank);
        MPI_Comm_disconnect(&children);
        /* The launcher has time to see the end of the child, which would end this job as well. */
        sleep(1);
        if (rank == 0) {
            puts("the parents continue");
            fflush(stdout);
        }
        return;
    } else if (strcmp(kind, "multiple") == 0) {
        char *words[] = {argv[1], (char *) "child-multiple", NULL};
        char *programs[] = {argv[0], argv[0]}, **arguments[] = {words, words};
        int numbers[] = {1, 2};
        MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
        int status = MPI_Comm_spawn_multiple(2, programs, arguments, numbers, infos, 0,
                                             MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
        require(status == MPI_SUCCESS);
    } else if (strcmp(kind, "row") == 0) {
        for (int turn = 0; turn < 20; turn++) {
            children = start(argv[0], argv[1], "child", 1);
            exchange(children, 7, 1, rank);
            MPI_Comm_disconnect(&children);
        }
        return;
    } else if (strcmp(kind, "fails") == 0) {
        /* Each process spawns alone: Open MPI 4 leaves the other members of a communicator waiting. */
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        int status = MPI_Comm_spawn("/no/such/program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0,
                                    MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
        require(status != MPI_SUCCESS);
        return;
    } else {
        children = start(argv[0], argv[1],
                         strcmp(kind, "dies") == 0 ? "child-dies" : "child-parent", 2);
        if (strcmp(kind, "parent") == 0 && rank == 0) {
            _exit(5);
        }
        int none = 0;
        MPI_Comm_set_errhandler(children, MPI_ERRORS_RETURN);
        MPI_Bcast(&none, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, children);
        MPI_Barrier(children);
        for (;;) {
            pause();
        }
    }
    exchange(children, 7, 1, rank);
    MPI_Comm_disconnect(&children);
}

int main(int argc, char **argv)
{
    int rank = -1, size = 0;
    MPI_Comm parents = MPI_COMM_NULL;
    if (argc > 2 && strncmp(argv[2], "child", 5) == 0) {
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_get_parent(&parents);
        require(parents != MPI_COMM_NULL);
        be_child(parents, rank, argv);
    } else {
        mpi_begin(argc, argv, &rank, &size);
        MPI_Comm_get_parent(&parents);
        require(argc > 2 && parents == MPI_COMM_NULL);
        be_parent(rank, argv);
        int one = 1, sum = 0;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        require(sum == size);
    }
    MPI_Finalize();
    return 0;
}

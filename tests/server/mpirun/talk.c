/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `talk KIND`: two processes that print, read and end in the way of KIND. The kinds are in tests/interop/src/mpirun. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void nap(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}

/* Prints a line before the end of the job, so that a launcher that ends it must not lose the line. */
static void before(int rank, int flushes)
{
    printf("rank %d before\n", rank);
    if (flushes) {
        fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void print(const char *kind, int rank)
{
    if (strcmp(kind, "lines") == 0) {
        for (int line = 0; line < 3; line++) {
            printf("rank %d line %d\n", rank, line);
        }
    } else if (strcmp(kind, "flushed") == 0) {
        for (int line = 0; line < 3; line++) {
            printf("rank %d at %.4f\n", rank, now());
            fflush(stdout);
            nap(150);
        }
    } else if (strcmp(kind, "partial") == 0 && rank == 0) {
        printf("rank 0 half at %.4f ", now());
        fflush(stdout);
        nap(300);
        puts("rest");
    } else if (strcmp(kind, "unended") == 0 && rank == 0) {
        printf("rank 0 has no end");
    } else if (strcmp(kind, "long") == 0 && rank == 0) {
        for (int byte = 0; byte < 100000; byte++) {
            putchar('a' + byte % 26);
        }
        putchar('\n');
    } else if (strcmp(kind, "bytes") == 0 && rank == 0) {
        for (int byte = 0; byte < 256; byte++) {
            putchar(byte);
        }
    } else if (strcmp(kind, "both") == 0) {
        fprintf(stderr, "rank %d error\n", rank);
        printf("rank %d output\n", rank);
        fflush(stdout);
        nap(50);
        fprintf(stderr, "rank %d error 2\n", rank);
    } else if (strcmp(kind, "input") == 0) {
        char line[64];
        int number = 0;
        for (; fgets(line, sizeof line, stdin) != NULL; number++) {
            printf("rank %d read %s", rank, line);
        }
        printf("rank %d lines %d\n", rank, number);
    }
}

static void end(const char *kind, int rank)
{
    if (strcmp(kind, "finalized") == 0) {
        before(rank, 0);
        MPI_Finalize();
        exit(rank == 1 ? 3 : 0);
    } else if (strcmp(kind, "exit") == 0) {
        before(rank, 1);
        if (rank == 1) {
            exit(3);
        }
        nap(20000);
    } else if (strcmp(kind, "abort") == 0) {
        before(rank, 1);
        if (rank == 1) {
            MPI_Abort(MPI_COMM_WORLD, 7);
        }
        nap(20000);
    } else if (strcmp(kind, "term") == 0 || strcmp(kind, "kill") == 0 || strcmp(kind, "crash") == 0) {
        int number = strcmp(kind, "term") == 0 ? SIGTERM : strcmp(kind, "kill") == 0 ? SIGKILL : SIGSEGV;
        before(rank, 1);
        if (rank == 1) {
            signal(number, SIG_DFL);
            raise(number);
        }
        nap(20000);
    } else if (strcmp(kind, "hang") == 0 || strcmp(kind, "silent") == 0) {
        before(rank, strcmp(kind, "hang") == 0);
        nap(60000);
    }
}

int main(int argc, char **argv)
{
    int rank = -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 2) {
        MPI_Abort(MPI_COMM_WORLD, 99);
    }
    print(argv[1], rank);
    end(argv[1], rank);
    MPI_Finalize();
    return 0;
}

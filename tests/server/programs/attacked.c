/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `attacked DONE PROGRAM ARGUMENTS`: the last process executes a program that attacks the server. The others put,
 * fence among themselves and get until a file exists. */
#define _GNU_SOURCE
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The limit of a fence in nanoseconds. */
#define LONGEST 5000000000u

/* The first of the others checks for the file and announces the last turn, so that all end after the same one. */
static bool turn(unsigned number, const pmix_proc_t *others, const char *done)
{
    char key[32];
    bool yes = true;
    pmix_info_t collect;
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    snprintf(key, sizeof(key), "a.turn%u", number);
    bool seen = 0 == me.rank && 0 == access(done, F_OK);
    put_number(PMIX_GLOBAL, key, seen ? 1 : 1000 + me.rank);
    must("PMIx_Commit", PMIx_Commit());
    must("PMIx_Fence", PMIx_Fence(others, size - 1, &collect, 1));
    for (pmix_rank_t rank = 1; rank < size - 1; rank++) {
        require(get_number(rank, key) == 1000 + rank);
    }
    uint32_t first = get_number(0, key);
    require(1 == first || 1000 == first);
    return 1 == first;
}

int main(int argc, char **argv)
{
    const char *rank = getenv("PMIX_RANK"), *tasks = getenv("SLURM_NTASKS");
    if (argc < 3 || NULL == rank || NULL == tasks) {
        fputs("attacked DONE PROGRAM ARGUMENTS, as a process of a step\n", stderr);
        return 2;
    }
    if (atoi(rank) == atoi(tasks) - 1) {
        execv(argv[2], argv + 2);
        perror(argv[2]);
        return 2;
    }
    begin();
    pmix_proc_t *others = calloc(size, sizeof(*others));
    for (pmix_rank_t other = 0; other < size - 1; other++) {
        others[other] = peer(other);
    }
    unsigned number = 0;
    uint64_t longest = 0;
    for (bool last = false; !last; number++) {
        uint64_t begun = now_ns();
        last = turn(number, others, argv[1]);
        uint64_t took = now_ns() - begun;
        longest = took > longest ? took : longest;
        usleep(2000);
    }
    require(number > 1);
    if (longest > LONGEST) {
        wrong("a fence took %u ms", (unsigned) (longest / 1000000));
    }
    if (0 == me.rank) {
        printf("attacked: %u fences, the longest %u us\n", number, (unsigned) (longest / 1000));
    }
    free(others);
    end();
    return 0;
}

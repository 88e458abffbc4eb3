/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `groups [ROUNDS]`: repeatedly constructs and destructs groups of all processes. Rank 0 prints as JSON the mean
 * times of an empty fence and of a construct with a destruct, and the memory growth of the server, its parent
 * process, from the first tenth of the rounds to the last. */
#define _GNU_SOURCE
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void make_and_take_apart(unsigned number)
{
    char name[32];
    pmix_info_t *results = NULL;
    size_t count = 0;

    snprintf(name, sizeof(name), "group-%u", number);
    must("PMIx_Group_construct", PMIx_Group_construct(name, &job, 1, NULL, 0, &results, &count));
    if (NULL != results) {
        PMIX_INFO_FREE(results, count);
    }
    must("PMIx_Group_destruct", PMIx_Group_destruct(name, NULL, 0));
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? (unsigned) strtoul(argv[1], NULL, 10) : 20;
    uint64_t begun, fence, group, before = 0, after;

    begin();
    make_and_take_apart(rounds);
    fence_all(false);
    begun = now_ns();
    for (unsigned i = 0; i < rounds; i++) {
        fence_all(false);
    }
    fence = (now_ns() - begun) / rounds;
    begun = now_ns();
    for (unsigned i = 0; i < rounds; i++) {
        make_and_take_apart(i);
        if (0 == me.rank && i == rounds / 10) {
            before = memory_kib(getppid(), "VmRSS");
        }
    }
    group = (now_ns() - begun) / rounds;
    fence_all(false);
    after = memory_kib(getppid(), "VmRSS");
    if (0 == me.rank) {
        printf("{\"fence_ns\": %" PRIu64 ", \"group_ns\": %" PRIu64 ", \"growth_kib\": %" PRIu64 "}\n", fence,
               group, after > before ? after - before : 0);
    }
    end();
    return 0;
}

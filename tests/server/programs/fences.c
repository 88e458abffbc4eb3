/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Fences of all processes, of some, in sequence, and several at the same time. */
#define _GNU_SOURCE
#include "check.h"

#include <stdlib.h>

/* Lists the ranks of the same parity as this one, in ascending or descending order. */
static size_t my_half(pmix_proc_t *procs, bool backwards)
{
    size_t count = 0;
    for (pmix_rank_t i = 0; i < size; i++) {
        pmix_rank_t rank = backwards ? size - 1 - i : i;
        if (rank % 2 == me.rank % 2) {
            procs[count++] = peer(rank);
        }
    }
    return count;
}

/* Runs fences with data in each half independently. */
static void halves(pmix_proc_t *procs)
{
    size_t count = my_half(procs, false);
    unsigned rounds = me.rank % 2 == 0 ? 5 : 9;
    for (unsigned i = 0; i < rounds; i++) {
        must("a fence of a half", PMIx_Fence(procs, count, NULL, 0));
    }
    put_number(PMIX_GLOBAL, "f.half", 30 + me.rank);
    must("PMIx_Commit", PMIx_Commit());
    bool yes = true;
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    must("a collecting fence of a half", PMIx_Fence(procs, count, &info, 1));
    for (pmix_rank_t rank = me.rank % 2; rank < size; rank += 2) {
        require(get_number(rank, "f.half") == 30 + rank);
    }
}

/* Runs two fences with different members at the same time. */
static void two_at_once(pmix_proc_t *procs)
{
    arrival_t arrival = ARRIVAL;
    size_t count = my_half(procs, false);
    must("PMIx_Fence_nb", PMIx_Fence_nb(&job, 1, NULL, 0, op_done, &arrival));
    must("PMIx_Fence_nb", PMIx_Fence_nb(procs, count, NULL, 0, op_done, &arrival));
    require(await(&arrival, 2, 20000));
    must("a fence beside another", arrival.status);
}

/* Delays one member: no process may leave the fence before it enters. */
static void a_late_one(void)
{
    arrival_t arrival = ARRIVAL;
    if (me.rank == 0) {
        fence_all(false);
        fence_all(false);
        return;
    }
    must("PMIx_Fence_nb", PMIx_Fence_nb(&job, 1, NULL, 0, op_done, &arrival));
    require(await(&arrival, 1, 20000));
    fence_all(false);
}

int main(void)
{
    begin();
    pmix_proc_t *procs = calloc(size, sizeof(*procs));
    for (unsigned i = 0; i < 50; i++) {
        must("a fence of all", PMIx_Fence(NULL, 0, NULL, 0));
    }
    halves(procs);
    two_at_once(procs);
    a_late_one();
    must("a fence of myself", PMIx_Fence(&me, 1, NULL, 0));
    free(procs);
    fence_all(false);
    end();
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Gets without a collecting fence, from peers that have committed, that commit later, and that never do. */
#define _GNU_SOURCE
#include "check.h"

#include <stdio.h>
#include <unistd.h>

/* Gets with a time limit. */
static pmix_status_t get_within(pmix_rank_t rank, const char *key, int seconds)
{
    pmix_proc_t proc = peer(rank);
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&proc, key, &info, 1, &value);
    if (PMIX_SUCCESS == status) {
        PMIX_VALUE_RELEASE(value);
    }
    return status;
}

/* Fences without data, which orders the commits, so that every get goes through the server. */
static void after_a_plain_fence(void)
{
    put_number(PMIX_GLOBAL, "d.early", 10 + me.rank);
    must("PMIx_Commit", PMIx_Commit());
    fence_all(false);
    for (pmix_rank_t rank = 0; rank < size; rank++) {
        require(get_number(rank, "d.early") == 10 + rank);
    }
}

/* Gets data before the next rank commits them; the get must wait. */
static void before_the_commit(void)
{
    pmix_rank_t next = (me.rank + 1) % size;
    if (me.rank % 2 == 1) {
        usleep(100000);
    }
    put_number(PMIX_GLOBAL, "d.late", 20 + me.rank);
    must("PMIx_Commit", PMIx_Commit());
    require(get_number(next, "d.late") == 20 + next);
}

/* Gets missing data: the time limit, PMIX_IMMEDIATE or an invalid rank must end the get. */
static void what_never_comes(void)
{
    pmix_rank_t next = (me.rank + 1) % size;
    uint64_t begun = now_ns();
    must_be("an immediate get", get_now(next, "d.never"), PMIX_ERR_NOT_FOUND);
    require(now_ns() - begun < 20000000000u);
    begun = now_ns();
    pmix_status_t status = get_within(next, "d.never", 1);
    if (PMIX_ERR_TIMEOUT != status && PMIX_ERR_NOT_FOUND != status) {
        wrong("a get with a time limit: %s (%d)", PMIx_Error_string(status), status);
    }
    require(now_ns() - begun < 20000000000u);
    /* The connection must still work after the failed gets. */
    require(get_number(next, "d.early") == 10 + next);
}

int main(void)
{
    begin();
    after_a_plain_fence();
    before_the_commit();
    fence_all(false);
    what_never_comes();
    fence_all(false);
    end();
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Publish, lookup with and without waiting, and unpublish. */
#define _GNU_SOURCE
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void name_of(char *key, pmix_rank_t rank)
{
    snprintf(key, PMIX_MAX_KEYLEN, "p.%s.%u", me.nspace, rank);
}

static void publish(void)
{
    char key[PMIX_MAX_KEYLEN + 1];
    pmix_data_range_t range = PMIX_RANGE_SESSION;
    pmix_persistence_t kept = PMIX_PERSIST_APP;
    uint32_t number = 500 + me.rank;
    pmix_info_t infos[3];
    name_of(key, me.rank);
    PMIX_INFO_LOAD(&infos[0], key, &number, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[1], PMIX_RANGE, &range, PMIX_DATA_RANGE);
    PMIX_INFO_LOAD(&infos[2], PMIX_PERSISTENCE, &kept, PMIX_PERSIST);
    must("PMIx_Publish", PMIx_Publish(infos, 3));
}

static pmix_status_t lookup(pmix_rank_t rank, bool wait, pmix_pdata_t *data)
{
    int all = 0, seconds = 10;
    pmix_info_t infos[2];
    PMIX_INFO_LOAD(&infos[0], PMIX_WAIT, &all, PMIX_INT);
    PMIX_INFO_LOAD(&infos[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
    memset(data, 0, sizeof(*data));
    name_of(data->key, rank);
    return PMIx_Lookup(data, 1, wait ? infos : NULL, wait ? 2 : 0);
}

static void check_found(pmix_rank_t rank, const pmix_pdata_t *data)
{
    require(data->proc.rank == rank && 0 == strcmp(data->proc.nspace, me.nspace));
    require(data->value.type == PMIX_UINT32 && data->value.data.uint32 == 500 + rank);
}

int main(void)
{
    begin();
    pmix_pdata_t data;
    must_be("a lookup before anything is there", lookup(size + 5, false, &data), PMIX_ERR_NOT_FOUND);
    fence_all(false);
    /* Most lookups of the even ranks arrive before the odd ranks publish. */
    if (me.rank % 2 == 1) {
        publish();
    }
    for (pmix_rank_t rank = 1; rank < size; rank += 2) {
        must("a lookup that waits", lookup(rank, true, &data));
        check_found(rank, &data);
    }
    if (me.rank % 2 == 0) {
        publish();
    }
    fence_all(false);
    for (pmix_rank_t rank = 0; rank < size; rank++) {
        must("a lookup", lookup(rank, false, &data));
        check_found(rank, &data);
    }
    fence_all(false);
    char key[PMIX_MAX_KEYLEN + 1], *keys[2] = {key, NULL};
    name_of(key, me.rank);
    must("PMIx_Unpublish", PMIx_Unpublish(keys, NULL, 0));
    fence_all(false);
    must_be("a lookup of what is gone", lookup((me.rank + 1) % size, false, &data),
            PMIX_ERR_NOT_FOUND);
    fence_all(false);
    end();
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `unasked`: a reply also contains data that other processes put, and the library answers later gets from its cache.
 * No data are added to replies after a process has put a key again. Only our server does this. */
#include "check.h"

#include <stdlib.h>

#define KEY "unasked.key"

/* Gets a value from the library's cache, without a request to the server. */
static pmix_status_t held(pmix_rank_t rank, uint32_t *number)
{
    pmix_proc_t proc = peer(rank);
    pmix_value_t *value = NULL;
    pmix_info_t info;
    bool yes = true;
    PMIX_INFO_LOAD(&info, PMIX_OPTIONAL, &yes, PMIX_BOOL);
    pmix_status_t status = PMIx_Get(&proc, KEY, &info, 1, &value);
    if (PMIX_SUCCESS == status) {
        require(PMIX_UINT32 == value->type);
        *number = value->data.uint32;
        PMIX_VALUE_RELEASE(value);
    }
    return status;
}

/* Gets the server's value. */
static uint32_t refreshed(pmix_rank_t rank)
{
    pmix_proc_t proc = peer(rank);
    pmix_value_t *value = NULL;
    pmix_info_t info;
    bool yes = true;
    PMIX_INFO_LOAD(&info, PMIX_GET_REFRESH_CACHE, &yes, PMIX_BOOL);
    must("a get that refreshes", PMIx_Get(&proc, KEY, &info, 1, &value));
    uint32_t number = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return number;
}

int main(void)
{
    uint32_t number = 0;
    begin();
    require(size >= 4);
    put_number(PMIX_GLOBAL, KEY, 100 + me.rank);
    must("PMIx_Commit", PMIx_Commit());
    fence_all(true);
    if (0 == me.rank) {
        for (pmix_rank_t rank = 1; rank < size; rank++) {
            must_be("a get of nobody's", held(rank, &number), PMIX_ERR_NOT_FOUND);
        }
        require(101 == get_number(1, KEY));
        for (pmix_rank_t rank = 2; rank < size; rank++) {
            must("a get of what was brought", held(rank, &number));
            require(100 + rank == number);
        }
    }
    fence_all(false);
    if (2 == me.rank) {
        put_number(PMIX_GLOBAL, KEY, 200);
        must("PMIx_Commit", PMIx_Commit());
    }
    fence_all(true);
    if (0 == me.rank) {
        /* This process has the old value in its cache and uses it unless it requests a refresh. */
        require(102 == get_number(2, KEY));
        require(200 == refreshed(2));
        require(200 == get_number(2, KEY));
    } else if (1 == me.rank) {
        require(103 == get_number(3, KEY));
        must_be("a get of what is not brought", held(2, &number), PMIX_ERR_NOT_FOUND);
        require(200 == get_number(2, KEY));
    }
    fence_all(false);
    end();
    return 0;
}

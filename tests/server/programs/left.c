/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Groups that are not completed or destructed: "ocean" waits for rank 2, which never calls, and "ice" of ranks 0 and
 * 1 is left. The launcher must report them at the end. */
#include "check.h"

static pmix_status_t construct(const char *name, size_t count, int limit)
{
    pmix_proc_t procs[4];
    pmix_info_t info, *results = NULL;
    size_t num_results = 0;

    for (pmix_rank_t rank = 0; rank < count; rank++) {
        PMIX_LOAD_PROCID(&procs[rank], me.nspace, rank);
    }
    PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &limit, PMIX_INT);
    pmix_status_t made = PMIx_Group_construct(name, procs, count, &info, 1, &results, &num_results);
    PMIX_INFO_FREE(results, num_results);
    return made;
}

int main(void)
{
    begin();
    require(4 == size);
    if (2 != me.rank) {
        require(PMIX_ERR_TIMEOUT == construct("ocean", size, 1));
    }
    if (2 > me.rank) {
        must("PMIx_Group_construct", construct("ice", 2, 60));
    }
    must("PMIx_Fence", PMIx_Fence(NULL, 0, NULL, 0));
    end();
    return 0;
}

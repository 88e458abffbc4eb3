/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Checks that every process gets the data of all processes on all nodes after a fence. */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
    begin();
    put_number(PMIX_GLOBAL, "n.number", me.rank * 7);
    must("PMIx_Commit", PMIx_Commit());
    fence_all(true);
    for (pmix_rank_t rank = 0; rank < size; rank++) {
        require(get_number(rank, "n.number") == rank * 7);
    }
    fence_all(false);
    end();
    return 0;
}

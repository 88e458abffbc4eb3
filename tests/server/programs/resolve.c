/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which processes are on a node, and which nodes a job has. */
#define _GNU_SOURCE
#include "check.h"

#include <stdlib.h>
#include <string.h>

static void check_peers(const char *node)
{
    pmix_proc_t *procs = NULL;
    size_t count = 0;
    must("PMIx_Resolve_peers", PMIx_Resolve_peers(node, me.nspace, &procs, &count));
    require(count == size);
    for (pmix_rank_t rank = 0; rank < size; rank++) {
        require(procs[rank].rank == rank && 0 == strcmp(procs[rank].nspace, me.nspace));
    }
    PMIX_PROC_FREE(procs, count);
}

int main(void)
{
    begin();
    char *nodes = NULL, *here = get_text(me.rank, PMIX_HOSTNAME);
    check_peers(NULL);
    check_peers(here);
    must("PMIx_Resolve_nodes", PMIx_Resolve_nodes(me.nspace, &nodes));
    require(0 == strcmp(nodes, here));
    free(nodes);
    free(here);
    fence_all(false);
    end();
    return 0;
}

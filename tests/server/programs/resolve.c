/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `resolve [null]`: the processes of a node, and the nodes of a job; with `null`, the processes of the server's
 * node, which is not named. */
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

int main(int argc, char **argv)
{
    begin();
    if (argc > 1 && 0 == strcmp(argv[1], "null")) {
        check_peers(NULL);
    }
    char *nodes = NULL, *here = get_text(me.rank, PMIX_HOSTNAME);
    check_peers(here);
    must("PMIx_Resolve_nodes", PMIx_Resolve_nodes(me.nspace, &nodes));
    require(0 == strcmp(nodes, here));
    free(nodes);
    free(here);
    fence_all(false);
    end();
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * `long_map RANKS`: a process map of that many ranks on four nodes, passed on as Slurm's plug-in does. The plug-in
 * takes the result of PMIx_generate_ppn for a string and copies it up to the first NUL. A server that registers the
 * copy must still know on which node each rank is.
 */
#include <pmix.h>
#include <pmix_server.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

#define NODES 4

/* Returns the ranks of each node, in cyclic distribution, which no encoder folds into a few ranges. */
static char *distribution(uint32_t size)
{
    char *ranks = malloc((size_t) size * 12), *end = ranks;
    for (uint32_t node = 0; node < NODES; node++) {
        for (uint32_t rank = node; rank < size; rank += NODES) {
            end += sprintf(end, "%s%u", rank == node ? "" : ",", rank);
        }
        end += sprintf(end, "%s", node + 1 < NODES ? ";" : "");
    }
    return ranks;
}

int main(int argc, char **argv)
{
    pmix_server_module_t module;
    pmix_info_t name, infos[3];
    pmix_proc_t last;
    pmix_value_t *found = NULL;
    char *nodes = NULL, *procs = NULL, *text;
    uint32_t size = argc > 1 ? (uint32_t) strtoul(argv[1], NULL, 10) : 0;
    char *ranks = distribution(size);

    alarm(60);
    memset(&module, 0, sizeof(module));
    PMIX_INFO_LOAD(&name, PMIX_HOSTNAME, "n1", PMIX_STRING);
    IS(PMIX_SUCCESS, PMIx_server_init(&module, &name, 1));
    IS(PMIX_SUCCESS, PMIx_generate_regex("n1,n2,n3,n4", &nodes));
    IS(PMIX_SUCCESS, PMIx_generate_ppn(ranks, &procs));
    text = strdup(procs);
    printf("%u ranks: %zu bytes up to the first NUL\n", size, strlen(text));
    fflush(stdout);
    PMIX_INFO_LOAD(&infos[0], PMIX_NODE_MAP, nodes, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_PROC_MAP, text, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[2], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    PMIX_LOAD_PROCID(&last, "job", size - 1);
    pmix_status_t status = PMIx_server_register_nspace(last.nspace, 0, infos, 3, NULL, NULL);
    HOLDS(PMIX_SUCCESS == status || PMIX_OPERATION_SUCCEEDED == status);
    IS(PMIX_SUCCESS, PMIx_Get(&last, PMIX_HOSTNAME, NULL, 0, &found));
    HOLDS(PMIX_STRING == found->type && 'n' == found->data.string[0]);
    HOLDS(found->data.string[1] == (char) ('1' + (size - 1) % NODES));
    PMIX_VALUE_RELEASE(found);
    for (int i = 0; i < 3; i++) {
        PMIX_INFO_DESTRUCT(&infos[i]);
    }
    free(text);
    free(procs);
    free(nodes);
    free(ranks);
    IS(PMIX_SUCCESS, PMIx_server_finalize());
    return 0;
}

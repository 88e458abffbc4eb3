/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `jobinfo NUM_PROCS`: the gets of MPI about a job whose processes are all on this node. */
#define _GNU_SOURCE
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint16_t get_short(pmix_rank_t rank, const char *key)
{
    pmix_proc_t proc = peer(rank);
    pmix_value_t *value = NULL;
    must(key, PMIx_Get(&proc, key, NULL, 0, &value));
    require(value->type == PMIX_UINT16);
    uint16_t number = value->data.uint16;
    PMIX_VALUE_RELEASE(value);
    return number;
}

/* Returns "0,1,...": the ranks of a job on one node. */
static char *all_ranks(void)
{
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    for (pmix_rank_t rank = 0; rank < size; rank++) {
        fprintf(file, 0 == rank ? "%u" : ",%u", rank);
    }
    fclose(file);
    return text;
}

static void of_the_job(uint32_t expected)
{
    require(size == expected);
    require(get_number(PMIX_RANK_WILDCARD, PMIX_MAX_PROCS) >= expected);
    require(get_number(PMIX_RANK_WILDCARD, PMIX_UNIV_SIZE) > 0);
    require(get_number(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE) == expected);
    require(get_number(PMIX_RANK_WILDCARD, PMIX_NUM_NODES) == 1);
    char *ranks = all_ranks(), *peers = get_text(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS);
    require(0 == strcmp(ranks, peers));
    free(ranks);
    free(peers);
    char *nodes = get_text(PMIX_RANK_WILDCARD, PMIX_NODE_LIST);
    char *here = get_text(me.rank, PMIX_HOSTNAME);
    require(0 == strcmp(nodes, here));
    free(nodes);
    free(here);
}

static void of_a_process(pmix_rank_t rank)
{
    require(get_short(rank, PMIX_LOCAL_RANK) == rank);
    require(get_short(rank, PMIX_NODE_RANK) == rank);
    char *here = get_text(me.rank, PMIX_HOSTNAME), *there = get_text(rank, PMIX_HOSTNAME);
    require(0 == strcmp(here, there));
    free(here);
    free(there);
    require(get_number(rank, PMIX_NODEID) == get_number(me.rank, PMIX_NODEID));
}

/* Gets unknown reserved keys, which must fail without waiting. */
static void of_nothing(void)
{
    static const char *const keys[] = {PMIX_DEBUG_STOP_IN_INIT, "pmix.no.such.key"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        uint64_t begun = now_ns();
        pmix_value_t *value = NULL;
        must_be(keys[i], PMIx_Get(&job, keys[i], NULL, 0, &value), PMIX_ERR_NOT_FOUND);
        must_be(keys[i], PMIx_Get(&me, keys[i], NULL, 0, &value), PMIX_ERR_NOT_FOUND);
        require(now_ns() - begun < 20000000000u);
    }
}

int main(int argc, char **argv)
{
    begin();
    of_the_job(argc > 1 ? (uint32_t) strtoul(argv[1], NULL, 10) : size);
    for (pmix_rank_t rank = 0; rank < size; rank++) {
        of_a_process(rank);
    }
    of_nothing();
    fence_all(false);
    end();
    return 0;
}

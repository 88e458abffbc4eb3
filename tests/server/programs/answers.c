/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `answers RANK...`: gets all available data about these ranks, their nodes and applications, and the job. Rank 0
 * writes a line for each get with its status and value. Each get is repeated, as a client caches values and may not
 * find them again. */
#define _GNU_SOURCE
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys of applications, nodes and sessions come first: for these a client uses the process data that it has already. */
static const char *const of_procs[] = {
    PMIX_APP_SIZE,     PMIX_APPLDR,      PMIX_WDIR,       PMIX_SESSION_ID, PMIX_UNIV_SIZE,
    PMIX_LOCAL_PEERS,  PMIX_LOCAL_SIZE,  PMIX_LOCALLDR,   PMIX_NODE_SIZE,  PMIX_HOSTNAME,
    PMIX_NODEID,       PMIX_LOCAL_RANK,  PMIX_NODE_RANK,  PMIX_GLOBAL_RANK, PMIX_APP_RANK,
    PMIX_APPNUM,       PMIX_LOCALITY_STRING, PMIX_REINCARNATION,
};
static const char *const of_nodes[] = {
    PMIX_LOCAL_PEERS, PMIX_LOCAL_SIZE, PMIX_LOCALLDR, PMIX_NODE_SIZE, PMIX_HOSTNAME, PMIX_NODEID,
};
static const char *const of_apps[] = {PMIX_APP_SIZE, PMIX_APPLDR, PMIX_WDIR, PMIX_APPNUM};
static const char *const of_job[] = {
    PMIX_JOB_SIZE, PMIX_MAX_PROCS, PMIX_NUM_NODES, PMIX_NODE_LIST, PMIX_JOB_NUM_APPS,
    PMIX_UNIV_SIZE, PMIX_SESSION_ID, PMIX_LOCAL_PEERS, PMIX_LOCAL_SIZE, PMIX_NODE_MAP,
    PMIX_ANL_MAP, PMIX_APP_SIZE, PMIX_LOCAL_RANK,
};

#define EACH(i, list) size_t i = 0; i < sizeof(list) / sizeof(*list); i++

/* Returns the status and value of a get as text. */
static char *answer(pmix_rank_t rank, const char *key, const pmix_info_t *infos, size_t count)
{
    pmix_proc_t proc = peer(rank);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&proc, key, infos, count, &value);
    char *text = NULL, *line = NULL;
    if (PMIX_SUCCESS == status && NULL != value) {
        text = PMIx_Value_string(value);
        PMIX_VALUE_RELEASE(value);
    }
    if (asprintf(&line, "%d %s", status, NULL == text ? "" : text) < 0) {
        wrong("no memory");
    }
    free(text);
    return line;
}

/* Gets twice and writes the answer. */
static void ask(const char *about, pmix_rank_t rank, const char *key, const pmix_info_t *infos,
                size_t count)
{
    char *first = answer(rank, key, infos, count), *again = answer(rank, key, infos, count);
    const char *changed = 0 == strcmp(first, again) ? "" : again;
    if (0 == me.rank) {
        printf("%s, %s of %u: %s%s%s\n", about, key, rank, first, *changed ? " then " : "",
               changed);
    }
    free(first);
    free(again);
}

/* Gets node keys with the name or the ID of a rank's node. */
static void ask_of_node(const char *about, const char *name, const void *value,
                        pmix_data_type_t type, pmix_rank_t rank)
{
    bool yes = true;
    pmix_info_t infos[2];
    PMIX_INFO_LOAD(&infos[0], PMIX_NODE_INFO, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], name, value, type);
    for (EACH(i, of_nodes)) {
        ask(about, rank, of_nodes[i], infos, 2);
    }
    PMIX_INFO_DESTRUCT(&infos[1]);
}

static void resolve(const char *node)
{
    pmix_proc_t *procs = NULL;
    size_t count = 0;
    pmix_status_t status = PMIx_Resolve_peers(node, me.nspace, &procs, &count);
    if (0 == me.rank) {
        printf("peers on %s: %d", node, status);
        for (size_t i = 0; i < count; i++) {
            printf(" %u", procs[i].rank);
        }
        printf("\n");
    }
    PMIX_PROC_FREE(procs, count);
}

static void ask_of_proc(pmix_rank_t rank)
{
    for (EACH(i, of_procs)) {
        ask("process", rank, of_procs[i], NULL, 0);
    }
    pmix_proc_t proc = peer(rank);
    pmix_value_t *value = NULL;
    if (PMIX_SUCCESS == PMIx_Get(&proc, PMIX_HOSTNAME, NULL, 0, &value)) {
        ask_of_node("by name", PMIX_HOSTNAME, value->data.string, PMIX_STRING, PMIX_RANK_WILDCARD);
        resolve(value->data.string);
        PMIX_VALUE_RELEASE(value);
    }
    if (PMIX_SUCCESS == PMIx_Get(&proc, PMIX_NODEID, NULL, 0, &value)) {
        ask_of_node("by number", PMIX_NODEID, &value->data.uint32, PMIX_UINT32, PMIX_RANK_WILDCARD);
        PMIX_VALUE_RELEASE(value);
    }
}

int main(int argc, char **argv)
{
    begin();
    for (int i = 1; i < argc; i++) {
        ask_of_proc((pmix_rank_t) strtoul(argv[i], NULL, 10));
    }
    for (EACH(i, of_job)) {
        ask("job", PMIX_RANK_WILDCARD, of_job[i], NULL, 0);
    }
    for (uint32_t number = 0; number < 2; number++) {
        bool yes = true;
        pmix_info_t infos[2];
        PMIX_INFO_LOAD(&infos[0], PMIX_APP_INFO, &yes, PMIX_BOOL);
        PMIX_INFO_LOAD(&infos[1], PMIX_APPNUM, &number, PMIX_UINT32);
        for (EACH(k, of_apps)) {
            ask(0 == number ? "application 0" : "application 1", PMIX_RANK_WILDCARD, of_apps[k],
                infos, 2);
        }
    }
    char *nodes = NULL;
    pmix_status_t status = PMIx_Resolve_nodes(me.nspace, &nodes);
    if (0 == me.rank) {
        printf("nodes: %d %s\n", status, NULL == nodes ? "" : nodes);
        fflush(stdout);
    }
    free(nodes);
    end();
    return 0;
}

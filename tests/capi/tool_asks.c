/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A tool that queries its server, which has its files below A, about the job `one.job`. The first argument selects the
 * case:
 *   queries A    all that the server and this library know
 *   resolves A   the processes of the job on the tool's own node
 */
#define _GNU_SOURCE
#include "tools.h"

/* Queries one key with qualifiers. */
static pmix_status_t answer_to(const char *key, const pmix_info_t *qualifiers, size_t nqual, pmix_value_t *value)
{
    pmix_query_t query;
    pmix_info_t *found = NULL;
    pmix_status_t status;
    size_t count = 0, n;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(count, query.keys, key);
    if (nqual > 0) {
        PMIX_QUERY_QUALIFIERS_CREATE(&query, nqual);
        for (n = 0; n < nqual; n++) {
            PMIX_INFO_XFER(&query.qualifiers[n], &qualifiers[n]);
        }
    }
    count = 0;
    status = PMIx_Query_info(&query, 1, &found, &count);
    if (PMIX_SUCCESS == status) {
        HOLDS(count == 1 && 0 == strcmp(found[0].key, key));
        PMIX_VALUE_XFER(status, value, &found[0].value);
    } else {
        HOLDS(count == 0);
    }
    if (NULL != found) {
        PMIX_INFO_FREE(found, count);
    }
    PMIX_QUERY_DESTRUCT(&query);
    return status;
}

/* Checks that the reply about a function's attributes at a level has the function's name as its key. */
static void supports(const char *level, const char *function)
{
    pmix_info_t qualifier;
    pmix_value_t value;
    pmix_info_t *first;
    PMIX_INFO_LOAD(&qualifier, level, function, PMIX_STRING);
    IS(PMIX_SUCCESS, answer_to(PMIX_QUERY_ATTRIBUTE_SUPPORT, &qualifier, 1, &value));
    HOLDS(PMIX_DATA_ARRAY == value.type && PMIX_INFO == value.data.darray->type);
    HOLDS(1 == value.data.darray->size);
    first = value.data.darray->array;
    HOLDS(0 == strcmp(first->key, function) && PMIX_DATA_ARRAY == first->value.type);
    HOLDS(PMIX_REGATTR == first->value.data.darray->type && 0 < first->value.data.darray->size);
    PMIX_VALUE_DESTRUCT(&value);
    PMIX_INFO_DESTRUCT(&qualifier);
}

/* The server has a job of three processes on two nodes, and a host without functions. */
static void queries(const char *directory)
{
    pmix_proc_t own, asked;
    pmix_value_t value;
    pmix_info_t nodes[2], now, none;
    uint32_t id;
    bool yes = true;

    IS(PMIX_SUCCESS, below(directory, NULL, &own, NULL, 1));
    supports(PMIX_CLIENT_ATTRIBUTES, "PMIx_Get");
    supports(PMIX_TOOL_ATTRIBUTES, "PMIx_tool_init");
    supports(PMIX_SERVER_ATTRIBUTES, "PMIx_Fence");
    PMIX_INFO_LOAD(&none, PMIX_HOST_ATTRIBUTES, "PMIx_Spawn", PMIX_STRING);
    IS(PMIX_ERR_NOT_SUPPORTED, answer_to(PMIX_QUERY_ATTRIBUTE_SUPPORT, &none, 1, &value));
    PMIX_INFO_DESTRUCT(&none);
    IS(PMIX_SUCCESS, answer_to(PMIX_QUERY_STABLE_ABI_VERSION, NULL, 0, &value));
    HOLDS(PMIX_STRING == value.type);
    PMIX_VALUE_DESTRUCT(&value);
    IS(PMIX_SUCCESS, answer_to(PMIX_QUERY_PROVISIONAL_ABI_VERSION, NULL, 0, &value));
    HOLDS(PMIX_STRING == value.type);
    PMIX_VALUE_DESTRUCT(&value);
    IS(PMIX_SUCCESS, answer_to(PMIX_QUERY_NUM_PSETS, NULL, 0, &value));
    HOLDS(PMIX_SIZE == value.type && 0 == value.data.size);
    IS(PMIX_SUCCESS, answer_to(PMIX_QUERY_NUM_GROUPS, NULL, 0, &value));
    HOLDS(PMIX_SIZE == value.type && 0 == value.data.size);
    IS(PMIX_SUCCESS, answer_to(PMIX_QUERY_JOB_STATUS, NULL, 0, &value));
    HOLDS(PMIX_STATUS == value.type && PMIX_SUCCESS == value.data.status);
    IS(PMIX_SUCCESS, answer_to(PMIX_QUERY_AVAIL_SERVERS, NULL, 0, &value));
    HOLDS(PMIX_DATA_ARRAY == value.type && 1 == value.data.darray->size);
    HOLDS(0 == strcmp(((pmix_info_t *) value.data.darray->array)->key, PMIX_SERVER_INFO_ARRAY));
    PMIX_VALUE_DESTRUCT(&value);
    IS(PMIX_SUCCESS, answer_to(PMIX_SERVER_START_TIME, NULL, 0, &value));
    HOLDS(PMIX_STRING == value.type && 24 == strlen(value.data.string));
    PMIX_VALUE_DESTRUCT(&value);
    IS(PMIX_SUCCESS, answer_to(PMIX_QUERY_NAMESPACE_INFO, NULL, 0, &value));
    HOLDS(PMIX_DATA_ARRAY == value.type && 1 == value.data.darray->size);
    PMIX_VALUE_DESTRUCT(&value);
    IS(PMIX_SUCCESS, answer_to(PMIX_QUERY_PROC_TABLE, NULL, 0, &value));
    HOLDS(PMIX_PROC_INFO == value.data.darray->type && 3 == value.data.darray->size);
    PMIX_VALUE_DESTRUCT(&value);
    pmix_nspace_t all_jobs = {0};
    pmix_proc_t *peers = NULL;
    size_t npeers = 0;
    char *names = NULL;
    IS(PMIX_SUCCESS, PMIx_Resolve_peers("n01", all_jobs, &peers, &npeers));
    HOLDS(2 == npeers && 0 == peers[0].rank && 1 == peers[1].rank);
    PMIX_PROC_FREE(peers, npeers);
    IS(PMIX_SUCCESS, PMIx_Resolve_nodes(all_jobs, &names));
    HOLDS(NULL != strstr(names, "n01"));
    free(names);
    PMIX_INFO_LOAD(&none, PMIX_HOSTNAME, "n01", PMIX_STRING);
    IS(PMIX_SUCCESS, answer_to(PMIX_QUERY_LOCAL_PROC_TABLE, &none, 1, &value));
    PMIX_INFO_DESTRUCT(&none);
    HOLDS(PMIX_PROC_INFO == value.data.darray->type && 2 == value.data.darray->size);
    PMIX_VALUE_DESTRUCT(&value);
    PMIX_INFO_LOAD(&now, PMIX_QUERY_REFRESH_CACHE, &yes, PMIX_BOOL);
    IS(PMIX_SUCCESS, answer_to(PMIX_JOB_SIZE, &now, 1, &value));
    HOLDS(PMIX_UINT32 == value.type && 3 == value.data.uint32);
    /* Several nodes, as the RFC allows. */
    for (id = 0; id < 2; id++) {
        PMIX_INFO_LOAD(&nodes[id], PMIX_NODEID, &id, PMIX_UINT32);
    }
    IS(PMIX_SUCCESS, answer_to(PMIX_LOCAL_PROCS, nodes, 2, &value));
    HOLDS(PMIX_DATA_ARRAY == value.type && PMIX_PROC == value.data.darray->type);
    HOLDS(3 == value.data.darray->size);
    PMIX_VALUE_DESTRUCT(&value);
    IS(PMIX_SUCCESS, answer_to(PMIX_LOCAL_PROCS, &nodes[1], 1, &value));
    HOLDS(1 == value.data.darray->size && 2 == ((pmix_proc_t *) value.data.darray->array)->rank);
    PMIX_VALUE_DESTRUCT(&value);
    /* A process, by its name. */
    PMIX_LOAD_PROCID(&asked, "one.job", 2);
    PMIX_INFO_LOAD(&none, PMIX_PROCID, &asked, PMIX_PROC);
    IS(PMIX_SUCCESS, answer_to(PMIX_NODEID, &none, 1, &value));
    HOLDS(PMIX_UINT32 == value.type && 1 == value.data.uint32);
    PMIX_INFO_DESTRUCT(&none);
    IS(PMIX_ERR_NOT_SUPPORTED, answer_to(PMIX_QUERY_QUEUE_LIST, NULL, 0, &value));
    IS(PMIX_ERR_NOT_SUPPORTED, answer_to(PMIX_QUERY_ALLOC_STATUS, NULL, 0, &value));
    IS(PMIX_SUCCESS, PMIx_tool_finalize());
}

/* Without a node, the processes are those on the node of the tool. */
static void resolves(const char *directory)
{
    pmix_nspace_t all_jobs = {0}, job = "one.job";
    pmix_proc_t own, *peers = NULL;
    size_t npeers = 0;

    IS(PMIX_SUCCESS, below(directory, NULL, &own, NULL, 1));
    IS(PMIX_SUCCESS, PMIx_Resolve_peers(NULL, all_jobs, &peers, &npeers));
    HOLDS(2 == npeers && 0 == peers[0].rank && 1 == peers[1].rank);
    PMIX_PROC_FREE(peers, npeers);
    IS(PMIX_SUCCESS, PMIx_Resolve_peers(NULL, job, &peers, &npeers));
    HOLDS(2 == npeers && 0 == strcmp(peers[1].nspace, job));
    PMIX_PROC_FREE(peers, npeers);
    IS(PMIX_SUCCESS, PMIx_tool_finalize());
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *first = argc > 2 ? argv[2] : NULL;

    alarm(120);
    if (0 == strcmp(what, "queries")) {
        queries(first);
    } else if (0 == strcmp(what, "resolves")) {
        resolves(first);
    } else {
        return 2;
    }
    printf("%s: ok\n", what);
    return 0;
}

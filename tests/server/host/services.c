/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Services that the programs of the release comparison need: groups, a query, and output of rank 0. */
#define _GNU_SOURCE
#include "host.h"

#include <stdlib.h>
#include <string.h>

/* The context ID of every group that requests one. */
#define CONTEXT_ID 77

static const options_t *job;

void services_of(const options_t *options)
{
    job = options;
}

static void free_infos(void *cbdata)
{
    pmix_info_t *info = cbdata;
    PMIX_INFO_FREE(info, 1);
}

/* The answer to a group operation, which must not be sent before the upcall has returned. */
typedef struct {
    pmix_info_cbfunc_t done;
    void *cbdata;
    pmix_info_t *infos;
    size_t num_infos;
} results_t;

static void free_results(void *cbdata)
{
    results_t *results = cbdata;
    if (NULL != results->infos) {
        PMIX_INFO_FREE(results->infos, 2);
    }
    free(results);
}

static void *give_results(void *context)
{
    results_t *results = context;
    results->done(PMIX_SUCCESS, results->infos, results->num_infos, results->cbdata, free_results,
                  results);
    return NULL;
}

/* A construct completes with the members, without which a server of 5.0 makes no group, and with a context ID if one
 * is requested. A group named "bare" gets no results. A destruct completes at once: if the answer comes later, a
 * server of 5.0 calls the host a second time, and frees the arguments twice. A group named "later" shows this. */
static pmix_status_t group(pmix_group_operation_t operation, char name[], const pmix_proc_t procs[],
                           size_t num_procs, const pmix_info_t directives[], size_t num_directives,
                           pmix_info_cbfunc_t done, void *cbdata)
{
    if (PMIX_GROUP_DESTRUCT == operation && 0 != strcmp(name, "later")) {
        return PMIX_OPERATION_SUCCEEDED;
    }
    results_t *results = calloc(1, sizeof(*results));
    *results = (results_t){.done = done, .cbdata = cbdata};
    if (PMIX_GROUP_CONSTRUCT == operation && 0 != strcmp(name, "bare")) {
        size_t context_id = CONTEXT_ID;
        pmix_data_array_t members = {
            .type = PMIX_PROC, .size = num_procs, .array = (void *) procs};
        PMIX_INFO_CREATE(results->infos, 2);
        PMIX_INFO_LOAD(&results->infos[0], PMIX_GROUP_MEMBERSHIP, &members, PMIX_DATA_ARRAY);
        PMIX_INFO_LOAD(&results->infos[1], PMIX_GROUP_CONTEXT_ID, &context_id, PMIX_SIZE);
        results->num_infos = 1;
    }
    for (size_t i = 0; i < num_directives && NULL != results->infos; i++) {
        if (PMIX_CHECK_KEY(&directives[i], PMIX_GROUP_ASSIGN_CONTEXT_ID)) {
            results->num_infos = 2;
        }
    }
    pthread_t thread;
    if (0 != pthread_create(&thread, NULL, give_results, results)) {
        free_results(results);
        return PMIX_ERR_NOMEM;
    }
    pthread_detach(thread);
    return PMIX_SUCCESS;
}

/* Answers a query for the names of the jobs: there is one. */
static pmix_status_t query(pmix_proc_t *proc, pmix_query_t *queries, size_t num_queries,
                           pmix_info_cbfunc_t done, void *cbdata)
{
    (void) proc;
    bool known = 1 == num_queries && NULL != queries[0].keys && NULL != queries[0].keys[0] &&
                 0 == strcmp(queries[0].keys[0], PMIX_QUERY_NAMESPACES);
    if (!known) {
        done(PMIX_ERR_NOT_FOUND, NULL, 0, cbdata, NULL, NULL);
        return PMIX_SUCCESS;
    }
    pmix_info_t *info;
    PMIX_INFO_CREATE(info, 1);
    PMIX_INFO_LOAD(info, PMIX_QUERY_NAMESPACES, job->nspace, PMIX_STRING);
    done(PMIX_SUCCESS, info, 1, cbdata, free_infos, info);
    return PMIX_SUCCESS;
}

static pmix_status_t iof_pull(const pmix_proc_t procs[], size_t num_procs,
                              const pmix_info_t directives[], size_t num_directives,
                              pmix_iof_channel_t channels, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) procs, (void) num_procs, (void) directives, (void) num_directives, (void) channels;
    (void) done, (void) cbdata;
    return PMIX_OPERATION_SUCCEEDED;
}

void deliver_output(const char *text)
{
    pmix_proc_t source;
    PMIX_LOAD_PROCID(&source, job->nspace, 0);
    pmix_byte_object_t bytes = {.bytes = (char *) text, .size = strlen(text)};
    PMIx_server_IOF_deliver(&source, PMIX_FWD_STDOUT_CHANNEL, &bytes, NULL, 0, NULL, NULL);
}

void services_join(pmix_server_module_t *module)
{
    module->group = group;
    module->query = query;
    module->iof_pull = iof_pull;
}

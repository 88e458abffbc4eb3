/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Queries that only the launcher can answer: the state and the processes of the job, debugger support, memory use,
 * and the allocated node. Queries for the scheduler must be refused. */
#define _GNU_SOURCE
#include "check.h"

#include <string.h>
#include <unistd.h>

/* Releases without this name pass the key through unchanged. */
#ifndef PMIX_QUERY_ALLOCATION
#    define PMIX_QUERY_ALLOCATION "pmix.query.allc"
#endif

/* Queries a key about this job. */
static pmix_status_t ask(const char *key, bool names_job, pmix_info_t **results, size_t *count)
{
    pmix_query_t query;
    pmix_status_t added;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(added, query.keys, key);
    must("a key for a query", added);
    if (names_job) {
        PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
        PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, me.nspace, PMIX_STRING);
    }
    *results = NULL;
    *count = 0;
    pmix_status_t status = PMIx_Query_info(&query, 1, results, count);
    PMIX_QUERY_DESTRUCT(&query);
    return status;
}

/* Returns the only result of a query, which must have this type. */
static pmix_info_t *answer(const char *key, bool names_job, pmix_data_type_t type)
{
    pmix_info_t *results;
    size_t count;
    must(key, ask(key, names_job, &results, &count));
    if (1 != count || type != results[0].value.type || !PMIX_CHECK_KEY(&results[0], key)) {
        wrong("%s: %zu answers, of which the first is %s of type %s", key, count,
              0 < count ? results[0].key : "none",
              0 < count ? PMIx_Data_type_string(results[0].value.type) : "none");
    }
    return results;
}

static void job_does_well(void)
{
    pmix_info_t *found = answer(PMIX_QUERY_JOB_STATUS, true, PMIX_STATUS);
    require(PMIX_SUCCESS == found->value.data.status);
    PMIX_INFO_FREE(found, 1);
}

/* Checks a table of all processes, in which this one is running. */
static void has_table(const char *key)
{
    pmix_info_t *found = answer(key, true, PMIX_DATA_ARRAY);
    pmix_data_array_t *rows = found->value.data.darray;
    require(PMIX_PROC_INFO == rows->type && size == rows->size);
    pmix_proc_info_t *procs = rows->array;
    bool has_own = false;
    for (size_t n = 0; n < rows->size; n++) {
        require(0 == strcmp(procs[n].proc.nspace, me.nspace) && NULL != procs[n].hostname);
        require(NULL != procs[n].executable_name
                && NULL != strstr(procs[n].executable_name, "asked"));
        require(0 < procs[n].pid && PMIX_PROC_STATE_UNTERMINATED > procs[n].state);
        has_own |= procs[n].proc.rank == me.rank && procs[n].pid == getpid();
    }
    require(has_own);
    PMIX_INFO_FREE(found, 1);
}

static void lists(const char *key, const char *attribute)
{
    pmix_info_t *found = answer(key, false, PMIX_STRING);
    if (NULL == strstr(found->value.data.string, attribute)) {
        wrong("%s: no %s in %s", key, attribute, found->value.data.string);
    }
    PMIX_INFO_FREE(found, 1);
}

/* Returns true if an array of infos contains the key at any depth. */
static bool has_key(const pmix_value_t *value, const char *key)
{
    if (PMIX_DATA_ARRAY != value->type || NULL == value->data.darray
        || PMIX_INFO != value->data.darray->type) {
        return false;
    }
    pmix_info_t *infos = value->data.darray->array;
    for (size_t n = 0; n < value->data.darray->size; n++) {
        if (PMIX_CHECK_KEY(&infos[n], key) || has_key(&infos[n].value, key)) {
            return true;
        }
    }
    return false;
}

static void has(const char *key, const char *what)
{
    pmix_info_t *found = answer(key, false, PMIX_DATA_ARRAY);
    if (!has_key(&found->value, what)) {
        wrong("%s: no %s", key, what);
    }
    PMIX_INFO_FREE(found, 1);
}

static void is_refused(const char *key)
{
    pmix_info_t *results;
    size_t count;
    must_be(key, ask(key, false, &results, &count), PMIX_ERR_NOT_SUPPORTED);
    PMIX_INFO_FREE(results, count);
}

int main(void)
{
    begin();
    /* Wait until all processes have started: earlier ones have no process ID yet. */
    fence_all(false);
    job_does_well();
    has_table(PMIX_QUERY_PROC_TABLE);
    has_table(PMIX_QUERY_LOCAL_PROC_TABLE);
    lists(PMIX_QUERY_DEBUG_SUPPORT, PMIX_DEBUG_STOP_IN_INIT);
    lists(PMIX_QUERY_SPAWN_SUPPORT, PMIX_MAPBY);
    has(PMIX_QUERY_MEMORY_USAGE, PMIX_DAEMON_MEMORY);
    has(PMIX_QUERY_ALLOCATION, PMIX_AVAIL_PHYS_MEMORY);
    is_refused(PMIX_QUERY_QUEUE_LIST);
    is_refused(PMIX_QUERY_ALLOC_STATUS);
    /* Stay until the others have queried this process. */
    fence_all(false);
    end();
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Requests to the launcher that are not about the job: a monitored file, resource use of processes and the node,
 * credentials for others to validate, and log channels. */
#define _GNU_SOURCE
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Releases that declare the types lack the names of the requests, and vice versa. */
#ifndef PMIX_MONITOR_PROC_RESOURCE_USAGE
#    define PMIX_MONITOR_PROC_RESOURCE_USAGE "pmix.monitor.presuse"
#    define PMIX_MONITOR_NODE_RESOURCE_USAGE "pmix.monitor.ndresuse"
#endif
#ifndef PMIX_QUERY_PROC_RESOURCE_USAGE
#    define PMIX_QUERY_PROC_RESOURCE_USAGE "pmix.qry.pres"
#endif
#ifndef PMIX_PROC_RSS
#    define PMIX_PROC_RSS "pmix.proc.rss"
#endif

static arrival_t alert = ARRIVAL;
static arrival_t registered = ARRIVAL;

static void heard(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                  size_t ninfo, pmix_info_t *results, size_t nresults,
                  pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id;
    (void) source;
    (void) results;
    (void) nresults;
    bool names = false;
    for (size_t n = 0; n < ninfo; n++)
        if (PMIX_CHECK_KEY(&info[n], PMIX_MONITOR_ID))
            names = 0 == strcmp(info[n].value.data.string, "steps");
    arrive(&alert, names ? status : PMIX_ERROR, 0);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static void is_registered(pmix_status_t status, size_t reference, void *cbdata)
{
    arrive(cbdata, status, reference);
}

/* Has a file monitored by rank 0 that no process writes; all processes receive the event. */
static void watch_file(void)
{
    pmix_status_t code = PMIX_MONITOR_FILE_ALERT;
    PMIx_Register_event_handler(&code, 1, NULL, 0, heard, is_registered, &registered);
    require(await(&registered, 1, 60000));
    fence_all(false);
    pmix_info_t monitor;
    if (0 == me.rank) {
        char path[] = "/tmp/pmix-watched-XXXXXX";
        int file = mkstemp(path);
        require(0 <= file);
        uint32_t seconds = 1;
        pmix_info_t infos[3];
        PMIX_INFO_LOAD(&monitor, PMIX_MONITOR_FILE, path, PMIX_STRING);
        PMIX_INFO_LOAD(&infos[0], PMIX_MONITOR_FILE_CHECK_TIME, &seconds, PMIX_UINT32);
        PMIX_INFO_LOAD(&infos[1], PMIX_MONITOR_FILE_SIZE, NULL, PMIX_BOOL);
        PMIX_INFO_LOAD(&infos[2], PMIX_MONITOR_ID, "steps", PMIX_STRING);
        pmix_info_t *results = NULL;
        size_t count = 0;
        must("PMIx_Process_monitor of a file",
             PMIx_Process_monitor(&monitor, PMIX_MONITOR_FILE_ALERT, infos, 3, &results, &count));
        PMIX_INFO_DESTRUCT(&monitor);
        require(await(&alert, 1, 60000) && PMIX_MONITOR_FILE_ALERT == alert.status);
        PMIX_INFO_LOAD(&monitor, PMIX_MONITOR_CANCEL, "steps", PMIX_STRING);
        must("to cancel a monitor",
             PMIx_Process_monitor(&monitor, PMIX_SUCCESS, NULL, 0, &results, &count));
        PMIX_INFO_DESTRUCT(&monitor);
        close(file);
        unlink(path);
    }
    require(await(&alert, 1, 60000) && PMIX_MONITOR_FILE_ALERT == alert.status);
}

static pmix_info_t *measured(const char *key, pmix_data_type_t type, size_t *count)
{
    pmix_data_array_t none = {.type = type, .size = 0, .array = NULL};
    pmix_info_t monitor;
    PMIX_INFO_CONSTRUCT(&monitor);
    PMIX_LOAD_KEY(monitor.key, key);
    monitor.value.type = PMIX_DATA_ARRAY;
    monitor.value.data.darray = &none;
    pmix_info_t *results = NULL;
    must(key, PMIx_Process_monitor(&monitor, PMIX_SUCCESS, NULL, 0, &results, count));
    for (size_t n = 0; n < *count; n++)
        require(PMIX_DATA_ARRAY == results[n].value.type);
    return results;
}

/* Monitors the resource use of each process of the job. */
static void use_monitored(void)
{
    size_t count = 0;
    pmix_info_t *results = measured(PMIX_MONITOR_PROC_RESOURCE_USAGE, PMIX_INFO, &count);
    require(size == count);
    bool has_own = false;
    for (size_t n = 0; n < count; n++) {
        pmix_info_t *figures = results[n].value.data.darray->array;
        require(PMIX_CHECK_KEY(&figures[0], PMIX_PROCID) && PMIX_PROC == figures[0].value.type);
        require(PMIX_CHECK_KEY(&figures[1], PMIX_PROC_PID));
        has_own |= figures[0].value.data.proc->rank == me.rank && getpid() == figures[1].value.data.pid;
    }
    require(has_own);
    PMIX_INFO_FREE(results, count);
}

#ifdef PMIX_NODE_STATS
/* Monitors the resource use of the node, in this release's type. The type for processes is omitted, as the release
 * cannot read its own packed form. */
static void use_typed(void)
{
    size_t count = 0;
    pmix_info_t *results = measured(PMIX_MONITOR_NODE_RESOURCE_USAGE, PMIX_NODE_STATS, &count);
    require(1 == count);
    pmix_data_array_t *found = results[0].value.data.darray;
    require(PMIX_NODE_STATS == found->type && 1 == found->size);
    pmix_node_stats_t *stats = found->array;
    require(0 < stats->total_mem && stats->free_mem < stats->total_mem && NULL != stats->node);
    PMIX_INFO_FREE(results, count);
}
#endif

/* Queries the resource use of this process. */
static void use_queried(void)
{
    pmix_query_t query;
    PMIX_QUERY_CONSTRUCT(&query);
    pmix_status_t added;
    PMIX_ARGV_APPEND(added, query.keys, PMIX_QUERY_PROC_RESOURCE_USAGE);
    must("a key for a query", added);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 3);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, me.nspace, PMIX_STRING);
    PMIX_INFO_LOAD(&query.qualifiers[1], PMIX_RANK, &me.rank, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&query.qualifiers[2], PMIX_PROC_RSS, NULL, PMIX_BOOL);
    pmix_info_t *results = NULL;
    size_t count = 0;
    must("PMIx_Query_info", PMIx_Query_info(&query, 1, &results, &count));
    require(1 == count && PMIX_DATA_ARRAY == results[0].value.type);
    pmix_data_array_t *found = results[0].value.data.darray;
    require(PMIX_INFO == found->type && 1 == found->size);
    pmix_info_t *process = found->array;
    require(PMIX_DATA_ARRAY == process->value.type);
    found = process->value.data.darray;
    pmix_info_t *figures = found->array;
    bool has_memory = false;
    for (size_t n = 0; n < found->size; n++)
        if (PMIX_CHECK_KEY(&figures[n], PMIX_PROC_RSS))
            has_memory = PMIX_FLOAT == figures[n].value.type && 0 < figures[n].value.data.fval;
    require(has_memory);
    PMIX_INFO_FREE(results, count);
    PMIX_QUERY_DESTRUCT(&query);
}

static void validate(const pmix_byte_object_t *credential, pmix_status_t expected)
{
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status = PMIx_Validate_credential(credential, NULL, 0, &results, &count);
    must_be("PMIx_Validate_credential", status, expected);
    bool is_own = PMIX_SUCCESS != expected;
    for (size_t n = 0; n < count; n++)
        if (PMIX_CHECK_KEY(&results[n], PMIX_USERID))
            is_own = geteuid() == results[n].value.data.uint32;
    require(is_own);
    PMIX_INFO_FREE(results, count);
}

static void use_credentials(void)
{
    pmix_byte_object_t credential = {0};
    must("PMIx_Get_credential", PMIx_Get_credential(NULL, 0, &credential));
    require(0 < credential.size);
    validate(&credential, PMIX_SUCCESS);
    credential.bytes[0] ^= 1;
    validate(&credential, PMIX_ERR_INVALID_CRED);
    PMIX_BYTE_OBJECT_DESTRUCT(&credential);
}

static void log_text(void)
{
    pmix_info_t infos[2];
    PMIX_INFO_LOAD(&infos[0], PMIX_LOG_STDERR, "a line for the log\n", PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_LOG_EMAIL, "a letter", PMIX_STRING);
    must_be("PMIx_Log", PMIx_Log(infos, 2, NULL, 0), PMIX_ERR_PARTIAL_SUCCESS);
    PMIX_INFO_DESTRUCT(&infos[0]);
    PMIX_INFO_DESTRUCT(&infos[1]);
}

int main(void)
{
    begin();
    /* Wait until all processes have started: earlier ones use no resources yet. */
    fence_all(false);
    use_monitored();
#ifdef PMIX_NODE_STATS
    use_typed();
#endif
    use_queried();
    use_credentials();
    log_text();
    watch_file();
    end();
    return 0;
}

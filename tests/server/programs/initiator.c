/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `initiator LAUNCHER ARGS...`: a tool with a server of its own starts a launcher as a child, which connects to it
 * (PMIX_LAUNCHER_RNDZ_URI). The tool sends its requests over that connection: the job must stop in PMIx_Init, and is
 * released when all of its processes are there. */
#define _GNU_SOURCE
#include "check.h"

#include <pmix_tool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The time limit of each step. */
#define PATIENCE 30000

static arrival_t ready = ARRIVAL, lost = ARRIVAL, registered = ARRIVAL;
static pmix_nspace_t started;

static void on_event(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                     pmix_info_t *infos, size_t num_infos, pmix_info_t *results, size_t num_results,
                     pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    size_t n;
    (void) reference, (void) source, (void) results, (void) num_results;
    for (n = 0; n < num_infos; n++) {
        if (PMIX_CHECK_KEY(&infos[n], PMIX_NSPACE)) {
            PMIX_LOAD_NSPACE(started, infos[n].value.data.string);
        }
    }
    if (NULL != done) {
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    }
    arrive(PMIX_READY_FOR_DEBUG == status ? &ready : &lost, status, 0);
}

static void on_registered(pmix_status_t status, size_t reference, void *cbdata)
{
    arrive(cbdata, status, reference);
}

static void listen_for(pmix_status_t code, unsigned count)
{
    PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, on_registered, &registered);
    require(await(&registered, count, PATIENCE));
    must("registering for an event", registered.status);
}

static void release(pmix_proc_t *proc)
{
    bool yes = true;
    pmix_info_t infos[2];
    pmix_data_array_t range = {.type = PMIX_PROC, .size = 1, .array = proc};
    PMIX_INFO_LOAD(&infos[0], PMIX_EVENT_CUSTOM_RANGE, &range, PMIX_DATA_ARRAY);
    PMIX_INFO_LOAD(&infos[1], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    pmix_status_t status
        = PMIx_Notify_event(PMIX_DEBUGGER_RELEASE, &me, PMIX_RANGE_CUSTOM, infos, 2, NULL, NULL);
    if (PMIX_OPERATION_SUCCEEDED != status) {
        must("releasing", status);
    }
}

/* Starts the launcher and returns its name. */
static pmix_proc_t start(int argc, char **argv)
{
    bool yes = true;
    char *address = NULL;
    pmix_value_t *uri = NULL;
    pmix_app_t app;
    pmix_info_t infos[2], directive;
    pmix_data_array_t directives = {.type = PMIX_INFO, .size = 1, .array = &directive};
    pmix_proc_t launcher;
    pmix_nspace_t nspace;
    pmix_status_t status;
    int n;

    must("PMIx_Get of PMIX_MYSERVER_URI", PMIx_Get(&me, PMIX_MYSERVER_URI, NULL, 0, &uri));
    require(-1 != asprintf(&address, "PMIX_LAUNCHER_RNDZ_URI=%s", uri->data.string));
    PMIX_VALUE_RELEASE(uri);
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup(argv[1]);
    app.maxprocs = 1;
    for (n = 1; n < argc; n++) {
        PMIX_ARGV_APPEND(status, app.argv, argv[n]);
        must("a word", status);
    }
    PMIX_ARGV_APPEND(status, app.env, address);
    must("a variable", status);
    free(address);
    PMIX_INFO_LOAD(&directive, PMIX_DEBUG_STOP_IN_INIT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[0], PMIX_SPAWN_TOOL, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_LAUNCH_DIRECTIVES, &directives, PMIX_DATA_ARRAY);
    must("PMIx_Spawn", PMIx_Spawn(infos, 2, &app, 1, nspace));
    PMIX_APP_DESTRUCT(&app);
    PMIX_LOAD_PROCID(&launcher, nspace, 0);
    return launcher;
}

int main(int argc, char **argv)
{
    bool yes = true;
    int seconds = PATIENCE / 1000;
    pmix_info_t infos[2], *found = NULL;
    pmix_query_t query;
    size_t num_found = 0;
    pmix_proc_t launcher, debugged;
    pmix_status_t status;

    require(argc > 1);
    PMIX_INFO_LOAD(&infos[0], PMIX_TOOL_DO_NOT_CONNECT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_LAUNCHER, &yes, PMIX_BOOL);
    must("PMIx_tool_init", PMIx_tool_init(&me, infos, 2));
    launcher = start(argc, argv);
    PMIX_INFO_LOAD(&infos[0], PMIX_WAIT_FOR_CONNECTION, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
    must("PMIx_tool_set_server", PMIx_tool_set_server(&launcher, infos, 2));
    printf("the launcher has connected\n");
    fflush(stdout);
    listen_for(PMIX_READY_FOR_DEBUG, 1);
    listen_for(PMIX_ERR_LOST_CONNECTION, 2);
    release(&launcher);
    require(await(&ready, 1, PATIENCE));
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_PROC_TABLE);
    must("a key", status);
    PMIX_INFO_CREATE(query.qualifiers, 1);
    query.nqual = 1;
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, started, PMIX_STRING);
    must("PMIx_Query_info", PMIx_Query_info(&query, 1, &found, &num_found));
    require(1 == num_found && PMIX_DATA_ARRAY == found[0].value.type);
    printf("%zu processes wait\n", found[0].value.data.darray->size);
    fflush(stdout);
    PMIX_INFO_FREE(found, num_found);
    PMIX_QUERY_DESTRUCT(&query);
    PMIX_LOAD_PROCID(&debugged, started, PMIX_RANK_WILDCARD);
    release(&debugged);
    require(await(&lost, 1, PATIENCE));
    printf("the launcher has ended\n");
    fflush(stdout);
    must("PMIx_tool_finalize", PMIx_tool_finalize());
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `stopped`: a process that a debugger may stop prints a line when it begins, after init and at the end. If its job
 * is to stop in the application (PMIX_DEBUG_STOP_IN_APP), it reports that it is ready, and waits for its release. */
#define _GNU_SOURCE
#include "check.h"

#include <stdio.h>
#include <string.h>

/* Headers before 4.2 only have the older names. */
#ifndef PMIX_DEBUG_STOP_IN_APP
#    define PMIX_DEBUG_STOP_IN_APP PMIX_DEBUG_WAIT_FOR_NOTIFY
#endif

/* The time limit of the release. */
#define PATIENCE 20000

static arrival_t registered = ARRIVAL, told = ARRIVAL, released = ARRIVAL;

static void say(const char *what)
{
    printf("rank %u %s\n", me.rank, what);
    fflush(stdout);
}

static void on_release(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                       pmix_info_t *infos, size_t num_infos, pmix_info_t *results,
                       size_t num_results, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) reference, (void) source, (void) infos, (void) num_infos, (void) results;
    (void) num_results;
    if (NULL != done) {
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    }
    arrive(&released, status, 0);
}

static void on_registered(pmix_status_t status, size_t reference, void *cbdata)
{
    arrive(cbdata, status, reference);
}

/* Returns true if this process must stop: the value of its job is true, or names it. */
static bool is_to_stop(void)
{
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&job, PMIX_DEBUG_STOP_IN_APP, NULL, 0, &value);
    if (PMIX_ERR_NOT_FOUND == status) {
        return false;
    }
    must("PMIx_Get of PMIX_DEBUG_STOP_IN_APP", status);
    bool stops = PMIX_BOOL == value->type && value->data.flag;
    if (PMIX_PROC_RANK == value->type) {
        stops = PMIX_RANK_WILDCARD == value->data.rank || me.rank == value->data.rank;
    }
    PMIX_VALUE_RELEASE(value);
    return stops;
}

static void stop(void)
{
    /* Register before the report, so that no release is missed. */
    pmix_status_t code = PMIX_DEBUGGER_RELEASE;
    PMIx_Register_event_handler(&code, 1, NULL, 0, on_release, on_registered, &registered);
    require(await(&registered, 1, PATIENCE));
    must("registering for the release", registered.status);
    bool yes = true;
    pmix_info_t infos[2];
    PMIX_INFO_LOAD(&infos[0], PMIX_BREAKPOINT, "before the loop", PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    pmix_status_t status
        = PMIx_Notify_event(PMIX_READY_FOR_DEBUG, &me, PMIX_RANGE_RM, infos, 2, op_done, &told);
    if (PMIX_OPERATION_SUCCEEDED != status) {
        must("notifying", status);
        require(await(&told, 1, PATIENCE));
        must("notifying", told.status);
    }
    require(await(&released, 1, PATIENCE));
    must_be("the release", released.status, PMIX_DEBUGGER_RELEASE);
}

int main(void)
{
    printf("a process begins\n");
    fflush(stdout);
    begin();
    say("has initialised");
    if (is_to_stop()) {
        stop();
    }
    fence_all(false);
    say("goes on");
    end();
    return 0;
}

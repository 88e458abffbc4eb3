/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `order`: the order in which the handlers of a process are called, the results that each sees of the others, and
 * the end of the chain. Every rank only notifies itself. */
#define _GNU_SOURCE
#include "check.h"

#include <stdio.h>
#include <string.h>

/* Codes of the range that PMIx leaves to its users. */
#define WATCHED (PMIX_EXTERNAL_ERR_BASE - 1)
#define OTHER (PMIX_EXTERNAL_ERR_BASE - 2)
#define ENDING (PMIX_EXTERNAL_ERR_BASE - 3)

/* The time limit of local calls, in milliseconds. */
#define PATIENCE 10000

static arrival_t arrived = ARRIVAL, registering = ARRIVAL, notified = ARRIVAL;
static unsigned num_arrived, num_registered, num_notified;
/* The names of the called handlers, each with the number of results that it saw. A result is the status and the info
 * of an earlier handler. */
static char told[512];
/* The result of every handler, which must stay valid until all have seen it. */
static pmix_info_t result;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Records the name of a handler, returns a result, and continues. The handler "end" ends the chain; the handler "z"
 * is the last. */
static void handler(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                    pmix_info_t *infos, size_t num_infos, pmix_info_t *results, size_t num_results,
                    pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    const char *name = "?";
    size_t used;

    (void) reference, (void) results;
    require(source->rank == me.rank);
    for (size_t i = 0; i < num_infos; i++) {
        if (PMIX_CHECK_KEY(&infos[i], PMIX_EVENT_HDLR_NAME)) {
            name = infos[i].value.data.string;
        }
    }
    pthread_mutex_lock(&lock);
    used = strlen(told);
    snprintf(told + used, sizeof(told) - used, "%s%zu ", name, num_results);
    pthread_mutex_unlock(&lock);
    bool ends = 0 == strcmp(name, "end"), last = 0 == strcmp(name, "z");
    done(ends ? PMIX_EVENT_ACTION_COMPLETE : PMIX_EVENT_NO_ACTION_TAKEN, &result, 1, NULL, NULL, cbdata);
    if (ends || last) {
        arrive(&arrived, status, 0);
    }
}

static void registered(pmix_status_t status, size_t reference, void *cbdata)
{
    arrive(cbdata, status, reference);
}

/* Registers a handler with a name and one directive, and returns the status. */
static pmix_status_t add(const char *name, const char *directive, const void *value,
                         pmix_data_type_t type, const pmix_status_t *codes, size_t num_codes)
{
    pmix_info_t infos[2];
    pmix_status_t status;
    size_t count = 1;

    PMIX_INFO_LOAD(&infos[0], PMIX_EVENT_HDLR_NAME, name, PMIX_STRING);
    if (NULL != directive) {
        PMIX_INFO_LOAD(&infos[1], directive, value, type);
        count = 2;
    }
    PMIx_Register_event_handler((pmix_status_t *) codes, num_codes, infos, count, handler, registered,
                                &registering);
    require(await(&registering, ++num_registered, PATIENCE));
    status = registering.status;
    PMIX_INFO_DESTRUCT(&infos[0]);
    if (NULL != directive) {
        PMIX_INFO_DESTRUCT(&infos[1]);
    }
    return status;
}

/* Notifies this process of an event, and checks the record of its handlers. */
static void expect(pmix_status_t code, const char *expected)
{
    told[0] = '\0';
    pmix_status_t status = PMIx_Notify_event(code, &me, PMIX_RANGE_PROC_LOCAL, NULL, 0, op_done, &notified);
    if (PMIX_SUCCESS == status) {
        require(await(&notified, ++num_notified, PATIENCE));
        must("the report", notified.status);
    } else {
        must_be("the report", status, PMIX_OPERATION_SUCCEEDED);
    }
    require(await(&arrived, ++num_arrived, PATIENCE));
    pthread_mutex_lock(&lock);
    if (0 != strcmp(told, expected)) {
        wrong("told %s, not %s", told, expected);
    }
    pthread_mutex_unlock(&lock);
}

int main(void)
{
    const pmix_status_t one[] = {WATCHED}, several[] = {OTHER, WATCHED}, ending[] = {ENDING};
    const bool yes = true;

    begin();
    PMIX_INFO_LOAD(&result, "order.result", "done", PMIX_STRING);
    must("last", add("z", PMIX_EVENT_HDLR_LAST, &yes, PMIX_BOOL, NULL, 0));
    must("default", add("d1", NULL, NULL, 0, NULL, 0));
    must("default", add("d2", NULL, NULL, 0, NULL, 0));
    must("several", add("m1", NULL, NULL, 0, several, 2));
    must("several", add("m2", PMIX_EVENT_HDLR_APPEND, &yes, PMIX_BOOL, several, 2));
    must("one", add("s1", NULL, NULL, 0, one, 1));
    must("one", add("s2", NULL, NULL, 0, one, 1));
    must("one", add("s3", PMIX_EVENT_HDLR_APPEND, &yes, PMIX_BOOL, one, 1));
    must("one", add("s4", PMIX_EVENT_HDLR_PREPEND, &yes, PMIX_BOOL, one, 1));
    must("one", add("s5", PMIX_EVENT_HDLR_LAST_IN_CATEGORY, &yes, PMIX_BOOL, one, 1));
    must("one", add("s6", PMIX_EVENT_HDLR_APPEND, &yes, PMIX_BOOL, one, 1));
    must("one", add("s7", PMIX_EVENT_HDLR_FIRST_IN_CATEGORY, &yes, PMIX_BOOL, one, 1));
    must("one", add("s8", PMIX_EVENT_HDLR_PREPEND, &yes, PMIX_BOOL, one, 1));
    must("first", add("a", PMIX_EVENT_HDLR_FIRST, &yes, PMIX_BOOL, one, 1));
    must("one", add("end", NULL, NULL, 0, ending, 1));

    expect(WATCHED, "a0 s72 s84 s46 s28 s110 s312 s614 s516 m118 m220 d222 d124 z26 ");
    expect(OTHER, "m10 m22 d24 d16 z8 ");
    expect(ENDING, "end0 ");

    /* The positions for a single handler are taken. */
    require(PMIX_SUCCESS != add("b", PMIX_EVENT_HDLR_FIRST, &yes, PMIX_BOOL, one, 1));
    require(PMIX_SUCCESS != add("y", PMIX_EVENT_HDLR_LAST, &yes, PMIX_BOOL, one, 1));
    expect(OTHER, "m10 m22 d24 d16 z8 ");
    end();
    return 0;
}

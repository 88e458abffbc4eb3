/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Checks of messages that the server sends later: events, output, and replies with callbacks. */
#define _GNU_SOURCE
#include "skew.h"

#include <pmix_tool.h>
#include <stdio.h>
#include <string.h>

/* A code of the range that PMIx leaves to its users. */
#define TOLD (PMIX_EXTERNAL_ERR_BASE - 1)
#define TEXT "output of rank 0\n"

static arrival_t told = ARRIVAL, written = ARRIVAL;
static volatile uint32_t number;

pmix_info_t info_of_number(const char *key, uint32_t value)
{
    pmix_info_t info = {.value = {.type = PMIX_UINT32, .data.uint32 = value}};
    snprintf(info.key, sizeof(info.key), "%s", key);
    return info;
}

pmix_info_t info_of_yes(const char *key)
{
    pmix_info_t info = {.value = {.type = PMIX_BOOL, .data.flag = true}};
    snprintf(info.key, sizeof(info.key), "%s", key);
    return info;
}

static void on_told(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                    pmix_info_t *infos, size_t num_infos, pmix_info_t *results, size_t num_results,
                    pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) reference, (void) results, (void) num_results;
    for (size_t i = 0; i < num_infos; i++) {
        if (PMIX_CHECK_KEY(&infos[i], "skew.number")) {
            number = infos[i].value.data.uint32;
        }
    }
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    arrive(&told, status, source->rank);
}

static void registered(pmix_status_t status, size_t reference, void *cbdata)
{
    arrive(cbdata, status, reference);
}

/* Checks that all processes receive an event of the first one. */
void events(void)
{
    arrival_t listening = ARRIVAL, sent = ARRIVAL;
    pmix_status_t code = TOLD;
    begin();
    PMIx_Register_event_handler(&code, 1, NULL, 0, on_told, registered, &listening);
    require(await(&listening, 1, PATIENCE));
    must("registering a handler", listening.status);
    fence_all(false);
    if (0 == me.rank) {
        pmix_info_t infos[] = {info_of_number("skew.number", 400),
                               info_of_yes(PMIX_EVENT_NON_DEFAULT)};
        pmix_status_t status = PMIx_Notify_event(TOLD, &me, PMIX_RANGE_NAMESPACE, infos, 2,
                                                 op_done, &sent);
        if (PMIX_OPERATION_SUCCEEDED != status) {
            must("PMIx_Notify_event", status);
            require(await(&sent, 1, PATIENCE));
        }
    }
    require(await(&told, 1, PATIENCE));
    require(TOLD == told.status && 0 == told.reference && 400 == number);
    fence_all(false);
    end();
}

static void answered(pmix_status_t status, pmix_info_t *infos, size_t num_infos, void *cbdata,
                     pmix_release_cbfunc_t release, void *release_data)
{
    bool named = 1 == num_infos && PMIX_STRING == infos[0].value.type &&
                 0 == strcmp(infos[0].value.data.string, me.nspace);
    if (NULL != release) {
        release(release_data);
    }
    arrive(cbdata, status, named);
}

/* Checks that the host returns the name of its job. */
void query(void)
{
    arrival_t answer = ARRIVAL;
    char *keys[] = {(char *) PMIX_QUERY_NAMESPACES, NULL};
    pmix_query_t queries[] = {{.keys = keys}};
    begin();
    must("PMIx_Query_info_nb", PMIx_Query_info_nb(queries, 1, answered, &answer));
    require(await(&answer, 1, PATIENCE));
    must("the answer", answer.status);
    require(1 == answer.reference);
    fence_all(false);
    end();
}

static void log_text(const char *key, const char *text)
{
    pmix_info_t info = {.value = {.type = PMIX_STRING, .data.string = (char *) text}};
    arrival_t logged = ARRIVAL;
    snprintf(info.key, sizeof(info.key), "%s", key);
    pmix_status_t status = PMIx_Log_nb(&info, 1, NULL, 0, op_done, &logged);
    if (PMIX_OPERATION_SUCCEEDED != status) {
        must("PMIx_Log_nb", status);
        require(await(&logged, 1, PATIENCE));
        must("the answer", logged.status);
    }
}

/* Logs a line by the host. */
void log_line(void)
{
    begin();
    log_text(PMIX_LOG_STDERR, "the line of the check");
    fence_all(false);
    end();
}

static void on_output(size_t handler, pmix_iof_channel_t channel, pmix_proc_t *source,
                      pmix_byte_object_t *bytes, pmix_info_t infos[], size_t num_infos)
{
    (void) handler, (void) infos, (void) num_infos;
    if (NULL == bytes || 0 == bytes->size) {
        return;
    }
    bool same = PMIX_FWD_STDOUT_CHANNEL == channel && 0 == source->rank &&
                bytes->size == strlen(TEXT) && 0 == memcmp(bytes->bytes, TEXT, bytes->size);
    arrive(&written, same ? PMIX_SUCCESS : PMIX_ERROR, 0);
}

/* Pulls in the last process the output that the host delivers for the first one on request. */
void output(void)
{
    arrival_t pulling = ARRIVAL;
    begin();
    if (me.rank == size - 1) {
        pmix_proc_t first = peer(0);
        pmix_status_t status = PMIx_IOF_pull(&first, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, on_output,
                                             registered, &pulling);
        must("PMIx_IOF_pull", status);
        require(await(&pulling, 1, PATIENCE));
        must("pulling", pulling.status);
        log_text("host.output", TEXT);
        require(await(&written, 1, PATIENCE));
        must("what came", written.status);
    }
    fence_all(false);
    end();
}

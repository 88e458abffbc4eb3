/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `events [default]`: events between ranks: a code, the order of handlers, a single target, and no event after
 * deregistration. With `default`, events without a registered code reach the default handler. */
#define _GNU_SOURCE
#include "check.h"

#include <string.h>

/* Codes of the range that PMIx leaves to its users. */
#define TO_ALL (PMIX_EXTERNAL_ERR_BASE - 1)
#define TO_ONE (PMIX_EXTERNAL_ERR_BASE - 2)
#define UNHEARD (PMIX_EXTERNAL_ERR_BASE - 3)

/* The time limit of an event on one node, in milliseconds. */
#define PATIENCE 10000

static arrival_t of_all = ARRIVAL, of_one = ARRIVAL, by_default = ARRIVAL;
/* The order in which the two handlers of a code ran, as digits. */
static volatile unsigned order;
static volatile uint32_t payload;
static volatile pmix_rank_t origin;

static void carry_on(pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    if (NULL != done) {
        done(PMIX_SUCCESS, NULL, 0, NULL, NULL, cbdata);
    }
}

static void on_all(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                   pmix_info_t *infos, size_t num_infos, pmix_info_t *results, size_t num_results,
                   pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) reference, (void) results, (void) num_results;
    for (size_t i = 0; i < num_infos; i++) {
        if (PMIX_CHECK_KEY(&infos[i], "e.payload")) {
            payload = infos[i].value.data.uint32;
        }
    }
    origin = source->rank;
    order = order * 10 + 2;
    carry_on(done, cbdata);
    arrive(&of_all, status, 0);
}

static void on_all_first(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                         pmix_info_t *infos, size_t num_infos, pmix_info_t *results,
                         size_t num_results, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) reference, (void) status, (void) source, (void) infos, (void) num_infos;
    (void) results, (void) num_results;
    order = order * 10 + 1;
    carry_on(done, cbdata);
}

static void on_one(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                   pmix_info_t *infos, size_t num_infos, pmix_info_t *results, size_t num_results,
                   pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) reference, (void) source, (void) infos, (void) num_infos, (void) results;
    (void) num_results;
    carry_on(done, cbdata);
    arrive(&of_one, status, 0);
}

static void on_anything(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                        pmix_info_t *infos, size_t num_infos, pmix_info_t *results,
                        size_t num_results, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) reference, (void) source, (void) infos, (void) num_infos, (void) results;
    (void) num_results;
    carry_on(done, cbdata);
    if (UNHEARD == status) {
        arrive(&by_default, status, 0);
    }
}

static void registered(pmix_status_t status, size_t reference, void *cbdata)
{
    arrive(cbdata, status, reference);
}

static size_t listen_to(pmix_status_t *code, pmix_info_t *infos, size_t num_infos,
                        pmix_notification_fn_t handler)
{
    arrival_t arrival = ARRIVAL;
    PMIx_Register_event_handler(code, NULL == code ? 0 : 1, infos, num_infos, handler, registered,
                                &arrival);
    require(await(&arrival, 1, PATIENCE));
    must("registering a handler", arrival.status);
    return arrival.reference;
}

static void stop_listening(size_t reference)
{
    arrival_t arrival = ARRIVAL;
    pmix_status_t status = PMIx_Deregister_event_handler(reference, op_done, &arrival);
    if (PMIX_OPERATION_SUCCEEDED != status) {
        must("deregistering a handler", status);
        require(await(&arrival, 1, PATIENCE));
        must("deregistering a handler", arrival.status);
    }
}

static void notify(pmix_status_t code, pmix_data_range_t range, pmix_info_t *infos, size_t count)
{
    arrival_t arrival = ARRIVAL;
    pmix_status_t status = PMIx_Notify_event(code, &me, range, infos, count, op_done, &arrival);
    if (PMIX_OPERATION_SUCCEEDED != status) {
        must("notifying", status);
        require(await(&arrival, 1, PATIENCE));
        must("notifying", arrival.status);
    }
}

/* Notifies all ranks from rank 0. */
static void to_all(void)
{
    uint32_t number = 123456;
    bool yes = true;
    pmix_info_t infos[2];
    PMIX_INFO_LOAD(&infos[0], "e.payload", &number, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[1], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    if (me.rank == 0) {
        notify(TO_ALL, PMIX_RANGE_NAMESPACE, infos, 2);
    }
    require(await(&of_all, 1, PATIENCE));
    require(of_all.status == TO_ALL && payload == number && origin == 0);
    require(order == 12);
}

/* Notifies only the previous rank from the last rank. */
static void to_one(void)
{
    pmix_rank_t target = size - 2;
    if (me.rank == size - 1) {
        pmix_proc_t proc = peer(target);
        pmix_data_array_t only = {.type = PMIX_PROC, .size = 1, .array = &proc};
        pmix_info_t info;
        PMIX_INFO_LOAD(&info, PMIX_EVENT_CUSTOM_RANGE, &only, PMIX_DATA_ARRAY);
        notify(TO_ONE, PMIX_RANGE_CUSTOM, &info, 1);
        PMIX_INFO_DESTRUCT(&info);
    }
    if (me.rank == target) {
        require(await(&of_one, 1, PATIENCE));
    }
    fence_all(false);
    require(of_one.arrived == (me.rank == target ? 1 : 0));
}

/* Checks that a code without a handler reaches the default handlers. */
static void unheard(void)
{
    if (me.rank == size - 1) {
        notify(UNHEARD, PMIX_RANGE_NAMESPACE, NULL, 0);
    }
    require(await(&by_default, 1, PATIENCE));
    fence_all(false);
    require(by_default.arrived == 1);
}

int main(int argc, char **argv)
{
    begin();
    require(size >= 2);
    if (argc > 1 && 0 == strcmp(argv[1], "default")) {
        listen_to(NULL, NULL, 0, on_anything);
        fence_all(false);
        unheard();
        end();
        return 0;
    }
    pmix_status_t all = TO_ALL, one = TO_ONE;
    bool yes = true;
    pmix_info_t first;
    PMIX_INFO_LOAD(&first, PMIX_EVENT_HDLR_FIRST, &yes, PMIX_BOOL);
    size_t second_handler = listen_to(&all, NULL, 0, on_all);
    size_t first_handler = listen_to(&all, &first, 1, on_all_first);
    listen_to(&one, NULL, 0, on_one);
    fence_all(false);
    to_all();
    to_one();
    stop_listening(second_handler);
    stop_listening(first_handler);
    fence_all(false);
    if (me.rank == 0) {
        pmix_info_t info;
        PMIX_INFO_LOAD(&info, PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
        notify(TO_ALL, PMIX_RANGE_NAMESPACE, &info, 1);
    }
    fence_all(false);
    require(of_all.arrived == 1);
    end();
    return 0;
}

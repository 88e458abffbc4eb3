/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An event that the host relays as if to another node. A server of pmix-rs adds the user that may receive the event,
 * removes this info before the delivery, and drops it if rank 0 sets it. For other servers it is an ordinary info,
 * which the host's library carries unchanged. */
#define _GNU_SOURCE
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RELAYED (PMIX_EXTERNAL_ERR_BASE - 11)
#define TOLD (PMIX_EXTERNAL_ERR_BASE - 12)
#define ONLY_USER "pmixrs.event.user"

/* The time limit of an event on one node, in milliseconds. */
#define PATIENCE 10000

static arrival_t come = ARRIVAL;
/* The values of the event's infos; -1 if missing. */
static volatile int64_t said_user = -1, host_user = -1, reason = -1;

static int64_t number_of(const pmix_info_t *info)
{
    require(PMIX_UINT32 == info->value.type);
    return info->value.data.uint32;
}

static void on_told(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                    pmix_info_t *infos, size_t num_infos, pmix_info_t *results, size_t num_results,
                    pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) reference, (void) source, (void) results, (void) num_results;
    for (size_t i = 0; i < num_infos; i++) {
        if (PMIX_CHECK_KEY(&infos[i], ONLY_USER)) {
            said_user = number_of(&infos[i]);
        } else if (PMIX_CHECK_KEY(&infos[i], "host.user")) {
            host_user = number_of(&infos[i]);
        } else if (PMIX_CHECK_KEY(&infos[i], "why")) {
            reason = number_of(&infos[i]);
        }
    }
    if (NULL != done) {
        done(PMIX_SUCCESS, NULL, 0, NULL, NULL, cbdata);
    }
    arrive(&come, status, 0);
}

static void registered(pmix_status_t status, size_t reference, void *cbdata)
{
    arrive(cbdata, status, reference);
}

static void notify(uint32_t user)
{
    arrival_t arrival = ARRIVAL;
    uint32_t why = 42;
    pmix_info_t infos[2];
    PMIX_INFO_LOAD(&infos[0], ONLY_USER, &user, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[1], "why", &why, PMIX_UINT32);
    pmix_status_t status
        = PMIx_Notify_event(RELAYED, &me, PMIX_RANGE_GLOBAL, infos, 2, op_done, &arrival);
    if (PMIX_OPERATION_SUCCEEDED != status) {
        must("notifying", status);
        require(await(&arrival, 1, PATIENCE));
        must("notifying", arrival.status);
    }
}

int main(void)
{
    /* A user ID of no process here. */
    uint32_t nobody = (uint32_t) getuid() + 1;
    bool is_ours = NULL != getenv("PMIXRS_PREFETCH_SERVER");
    pmix_status_t code = TOLD;
    arrival_t arrival = ARRIVAL;

    begin();
    PMIx_Register_event_handler(&code, 1, NULL, 0, on_told, registered, &arrival);
    require(await(&arrival, 1, PATIENCE));
    must("registering a handler", arrival.status);
    fence_all(false);
    if (me.rank == 0) {
        notify(nobody);
    }
    require(await(&come, 1, PATIENCE));
    must_be("the event", come.status, TOLD);
    require(42 == reason);
    if (is_ours) {
        require((int64_t) getuid() == host_user && -1 == said_user);
    } else {
        require(nobody == host_user && nobody == said_user);
    }
    fence_all(false);
    end();
    return 0;
}

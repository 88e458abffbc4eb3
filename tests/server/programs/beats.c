/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Heartbeats: rank 0 has itself monitored and sends them, so no event is generated. After it stops sending, the
 * other ranks receive the event of the missed heartbeats. */
#include "check.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The time between heartbeats, and the number that may be missed. OpenPMIx generates the event after the first
 * missed one. */
#define SECONDS 1
#define DROPS 1
/* The number of heartbeats by each function, which takes longer than the monitor's limit. */
#define NUM_BEATS 10
#define EACH_MS 250
#define BEATING_MS (2 * NUM_BEATS * EACH_MS)

/* A macro of the headers of OpenPMIx, and a function of ours, which the libraries of OpenPMIx lack. */
#ifdef PMIx_Heartbeat
#define HAS_HEARTBEAT true
#else
#pragma weak PMIx_Heartbeat
#define HAS_HEARTBEAT (NULL != (void *) PMIx_Heartbeat)
#endif

static arrival_t alert = ARRIVAL;
static arrival_t registered = ARRIVAL;

static bool names_rank_0(const pmix_proc_t *source, const pmix_info_t *info, size_t ninfo)
{
    for (size_t n = 0; n < ninfo; n++)
        if (PMIX_CHECK_KEY(&info[n], PMIX_EVENT_AFFECTED_PROC))
            source = info[n].value.data.proc;
    return 0 == source->rank && PMIX_CHECK_NSPACE(source->nspace, me.nspace);
}

static void heard(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                  pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id;
    (void) results;
    (void) nresults;
    arrive(&alert, names_rank_0(source, info, ninfo) ? status : PMIX_ERROR, 0);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static void is_registered(pmix_status_t status, size_t reference, void *cbdata)
{
    arrive(cbdata, status, reference);
}

static void begin_monitor(void)
{
    uint32_t seconds = SECONDS, drops = DROPS;
    pmix_info_t monitor, infos[3], *results = NULL;
    size_t count = 0;
    PMIX_INFO_LOAD(&monitor, PMIX_MONITOR_HEARTBEAT, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[0], PMIX_MONITOR_HEARTBEAT_TIME, &seconds, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[1], PMIX_MONITOR_HEARTBEAT_DROPS, &drops, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[2], PMIX_MONITOR_ID, "beats", PMIX_STRING);
    pmix_status_t status =
        PMIx_Process_monitor(&monitor, PMIX_MONITOR_HEARTBEAT_ALERT, infos, 3, &results, &count);
    if (PMIX_OPERATION_SUCCEEDED != status)
        must("PMIx_Process_monitor of heartbeats", status);
}

static void taken(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *cbdata,
                  pmix_release_cbfunc_t release, void *release_cbdata)
{
    (void) status;
    (void) info;
    (void) ninfo;
    (void) cbdata;
    if (NULL != release)
        release(release_cbdata);
}

/* Sends a heartbeat by one of two functions. OpenPMIx does not call the callback of the second one, so that its
 * blocking form never returns. */
static void beat(unsigned number)
{
    static pmix_info_t monitor;
    if (number < NUM_BEATS && HAS_HEARTBEAT) {
        PMIx_Heartbeat();
        return;
    }
    PMIX_INFO_LOAD(&monitor, PMIX_SEND_HEARTBEAT, NULL, PMIX_BOOL);
    must("PMIx_Process_monitor_nb that sends a heartbeat",
         PMIx_Process_monitor_nb(&monitor, PMIX_SUCCESS, NULL, 0, taken, NULL));
}

int main(void)
{
    begin();
    require(2 <= size);
    pmix_status_t code = PMIX_MONITOR_HEARTBEAT_ALERT;
    PMIx_Register_event_handler(&code, 1, NULL, 0, heard, is_registered, &registered);
    require(await(&registered, 1, 60000));
    fence_all(false);
    if (0 == me.rank) {
        begin_monitor();
        for (unsigned number = 0; number < 2 * NUM_BEATS; number++) {
            beat(number);
            usleep(EACH_MS * 1000);
        }
    } else {
        require(!await(&alert, 1, BEATING_MS));
        require(await(&alert, 1, 60000));
        require(PMIX_MONITOR_HEARTBEAT_ALERT == alert.status);
    }
    fence_all(false);
    end();
    return 0;
}

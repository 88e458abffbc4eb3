/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Spawns a job of this many processes of `true`, as one application or as many as a second argument says with that
 * number of processes each, and waits for its end. Prints the time as {"spawn_ns":N}. */
#define _GNU_SOURCE
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The time limit of the job. */
#define LIMIT_MS 60000

static arrival_t registered = ARRIVAL;
static arrival_t ended = ARRIVAL;

static void when_ended(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                       pmix_info_t infos[], size_t num_infos, pmix_info_t results[],
                       size_t num_results, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) reference, (void) source, (void) infos, (void) num_infos;
    (void) results, (void) num_results;
    arrive(&ended, status, 0);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static void when_registered(pmix_status_t status, size_t reference, void *cbdata)
{
    arrive(cbdata, status, reference);
}

int main(int argc, char **argv)
{
    pmix_app_t *apps;
    size_t num_apps = 1;
    char child[PMIX_MAX_NSLEN + 1];
    pmix_status_t code = PMIX_EVENT_JOB_END;

    require(argc == 2 || argc == 3);
    if (argc == 3) {
        num_apps = (size_t) atoi(argv[2]);
    }
    require(num_apps > 0);
    begin();
    PMIx_Register_event_handler(&code, 1, NULL, 0, when_ended, when_registered, &registered);
    require(await(&registered, 1, LIMIT_MS));
    apps = calloc(num_apps, sizeof(*apps));
    require(apps != NULL);
    for (size_t app = 0; app < num_apps; app++) {
        PMIX_APP_CONSTRUCT(&apps[app]);
        apps[app].cmd = "true";
        apps[app].maxprocs = atoi(argv[1]);
    }
    uint64_t begun = now_ns();
    must("PMIx_Spawn", PMIx_Spawn(NULL, 0, apps, num_apps, child));
    require(await(&ended, 1, LIMIT_MS));
    printf("{\"spawn_ns\":%" PRIu64 "}\n", now_ns() - begun);
    fflush(stdout);
    free(apps);
    end();
    return 0;
}

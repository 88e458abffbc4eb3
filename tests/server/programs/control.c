/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Other calls within a job: connect, log, cleanup registration, credentials, and repeated init. */
#define _GNU_SOURCE
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void connect_all(void)
{
    must("PMIx_Connect", PMIx_Connect(&job, 1, NULL, 0));
    must("PMIx_Disconnect", PMIx_Disconnect(&job, 1, NULL, 0));
}

static void log_text(void)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_LOG_STDERR, "a line for the log\n", PMIX_STRING);
    must("PMIx_Log", PMIx_Log(&info, 1, NULL, 0));
    PMIX_INFO_DESTRUCT(&info);
}

/* Checks that the library counts inits: only the last finalize disconnects. */
static void initialise_again(void)
{
    pmix_proc_t again;
    must("a second PMIx_Init", PMIx_Init(&again, NULL, 0));
    require(again.rank == me.rank && 0 == strcmp(again.nspace, me.nspace));
    must("the first PMIx_Finalize", PMIx_Finalize(NULL, 0));
    require(PMIx_Initialized());
    fence_all(false);
}

static void register_cleanup(void)
{
    char path[64];
    snprintf(path, sizeof(path), "/nonexistent/control-%u", me.rank);
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_REGISTER_CLEANUP, path, PMIX_STRING);
    pmix_info_t *results = NULL;
    size_t count = 0;
    must("PMIx_Job_control", PMIx_Job_control(&me, 1, &info, 1, &results, &count));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_FREE(results, count);
}

int main(void)
{
    begin();
    connect_all();
    log_text();
    register_cleanup();
    initialise_again();
    end();
    require(!PMIx_Initialized());
    return 0;
}

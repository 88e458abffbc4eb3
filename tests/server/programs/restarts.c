/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A process that fails is restarted as often as its spawn requests, and reads the number of its restarts. */
#define _GNU_SOURCE
#include "check.h"

#include <string.h>
#include <unistd.h>

/* The number of restarts requested. */
#define MOST 2

/* Returns the number of restarts of this process; 0 if the key is missing. */
static uint32_t num_restarts(void)
{
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&me, PMIX_REINCARNATION, NULL, 0, &value);
    if (PMIX_ERR_NOT_FOUND == status) {
        return 0;
    }
    must("PMIx_Get of PMIX_REINCARNATION", status);
    require(PMIX_UINT32 == value->type);
    uint32_t number = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return number;
}

static void spawn(const char *program)
{
    uint32_t most = MOST;
    char *argv[] = {(char *) program, (char *) "child", NULL};
    pmix_app_t app;
    memset(&app, 0, sizeof(app));
    app.cmd = argv[0];
    app.argv = argv;
    app.maxprocs = 1;
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_MAX_RESTARTS, &most, PMIX_UINT32);
    pmix_nspace_t nspace;
    must("PMIx_Spawn", PMIx_Spawn(&info, 1, &app, 1, nspace));
}

int main(int argc, char **argv)
{
    begin();
    if (argc > 1 && 0 == strcmp(argv[1], "child")) {
        if (num_restarts() < MOST) {
            _exit(3);
        }
    } else if (0 == me.rank) {
        require(0 == num_restarts());
        spawn(argv[0]);
    }
    end();
    return 0;
}

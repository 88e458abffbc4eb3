/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A spawn that the launcher does not support fails at once, and other calls still work. */
#define _GNU_SOURCE
#include "check.h"

#include <stdlib.h>
#include <string.h>

int main(void)
{
    begin();
    fence_all(false);
    if (me.rank == 0) {
        char *argv[] = {(char *) "true", NULL};
        pmix_app_t app;
        memset(&app, 0, sizeof(app));
        app.cmd = argv[0];
        app.argv = argv;
        app.maxprocs = 1;
        pmix_nspace_t nspace;
        must_be("PMIx_Spawn", PMIx_Spawn(NULL, 0, &app, 1, nspace), PMIX_ERR_NOT_SUPPORTED);
    }
    put_number(PMIX_GLOBAL, "s.after", me.rank);
    must("PMIx_Commit", PMIx_Commit());
    fence_all(true);
    require(get_number(0, "s.after") == 0);
    end();
    return 0;
}

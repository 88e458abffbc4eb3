/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `stuck [killed|left]`: a fence that cannot complete: the last process never enters it, is killed in it, or exits
 * without it. No process may leave the fence. The last process prints a line when all have started. */
#define _GNU_SOURCE
#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    arrival_t ended = ARRIVAL;
    bool yes = true;
    pmix_info_t collect;
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    begin();
    fence_all(true);
    if (me.rank == size - 1) {
        puts("the last process waits");
        fflush(stdout);
        if (0 == strcmp(how, "killed")) {
            must("PMIx_Fence_nb", PMIx_Fence_nb(&job, 1, &collect, 1, op_done, &ended));
            usleep(300000);
            kill(getpid(), SIGKILL);
        } else if (0 == strcmp(how, "left")) {
            _exit(5);
        }
        sleep(120);
        wrong("it was left alone");
    }
    pmix_status_t status = PMIx_Fence(&job, 1, &collect, 1);
    if (PMIX_SUCCESS == status) {
        wrong("the fence ended");
    }
    fprintf(stderr, "stuck, rank %u: %s\n", me.rank, PMIx_Error_string(status));
    return 3;
}

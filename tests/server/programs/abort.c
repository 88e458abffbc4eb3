/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One rank aborts the job with 7 while the others wait for it in a fence, which must not complete. */
#define _GNU_SOURCE
#include "check.h"

#include <unistd.h>

int main(void)
{
    begin();
    fence_all(false);
    if (me.rank == size - 1) {
        PMIx_Abort(7, "the reason of the test", NULL, 0);
        sleep(30);
        wrong("it lives on after aborting");
    }
    fence_all(false);
    sleep(30);
    wrong("it lives on after the abort of another");
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `modex`: the usual start of a parallel program: put a kilobyte, collect by a fence, and get the data of every
 * other process. Every rank prints the times of its start and of its finalize as one line of JSON. The clock is the
 * same on nodes that are namespaces of one machine. */
#define _GNU_SOURCE
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DATA 1024

int main(void)
{
    uint64_t begun = now_ns();
    char text[DATA + 1];

    begin();
    memset(text, 'a' + (int) (me.rank % 26), DATA);
    text[DATA] = '\0';
    put_text(PMIX_GLOBAL, "modex.data", text);
    must("PMIx_Commit", PMIx_Commit());
    fence_all(true);
    for (uint32_t i = 1; i < size; i++) {
        /* Start with the next rank, so that the load is spread. */
        pmix_rank_t rank = (me.rank + i) % size;
        char *said = get_text(rank, "modex.data");
        require(DATA == strlen(said) && (int) ('a' + rank % 26) == said[0]);
        free(said);
    }
    end();
    /* Use one write, so that the lines of several processes do not mix. */
    char line[128];
    int len = snprintf(line, sizeof(line),
                       "{\"rank\":%" PRIu32 ",\"begun_ns\":%" PRIu64 ",\"ended_ns\":%" PRIu64 "}\n",
                       me.rank, begun, now_ns());
    require(len > 0 && (size_t) len < sizeof(line));
    require(len == write(STDOUT_FILENO, line, (size_t) len));
    return 0;
}

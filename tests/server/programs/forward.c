/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The last rank pulls the output of rank 0 and pushes its input. Rank 0 reads a question on its standard input and
 * answers on its standard output. */
#define _GNU_SOURCE
#include "check.h"

#include <pmix_tool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define QUESTION "is anybody there?\n"
#define ANSWER "rank 0 read: " QUESTION

static arrival_t whole = ARRIVAL;
static char output[1024];
static size_t len;

static void written(size_t handler, pmix_iof_channel_t channel, pmix_proc_t *source,
                    pmix_byte_object_t *bytes, pmix_info_t infos[], size_t num_infos)
{
    (void) handler, (void) infos, (void) num_infos;
    require(PMIX_FWD_STDOUT_CHANNEL == channel && 0 == source->rank);
    require(PMIX_CHECK_NSPACE(source->nspace, me.nspace));
    if (NULL == bytes || len + bytes->size >= sizeof(output)) {
        return;
    }
    memcpy(output + len, bytes->bytes, bytes->size);
    len += bytes->size;
    if (NULL != strstr(output, ANSWER)) {
        arrive(&whole, PMIX_SUCCESS, 0);
    }
}

static void ask(void)
{
    pmix_proc_t rank0 = peer(0);
    pmix_byte_object_t question = {.bytes = (char *) QUESTION, .size = strlen(QUESTION)};
    arrival_t pushed = ARRIVAL;
    must("PMIx_IOF_push", PMIx_IOF_push(&rank0, 1, &question, NULL, 0, op_done, &pushed));
    require(await(&pushed, 1, 10000));
    must("pushing", pushed.status);
    require(await(&whole, 1, 10000));
}

static void answer(void)
{
    char line[256];
    require(NULL != fgets(line, sizeof(line), stdin));
    require(0 == strcmp(line, QUESTION));
    printf("rank 0 read: %s", line);
    fflush(stdout);
}

int main(void)
{
    begin();
    require(size > 1);
    bool asks = me.rank == size - 1;
    size_t handler = 0;
    if (asks) {
        pmix_proc_t rank0 = peer(0);
        pmix_status_t pulled = PMIx_IOF_pull(&rank0, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, written,
                                             NULL, NULL);
        require(pulled >= 0);
        handler = (size_t) pulled;
    }
    fence_all(false);
    if (asks) {
        ask();
        /* Without a callback, real libraries may wait for a reply that has arrived. */
        arrival_t over = ARRIVAL;
        must("PMIx_IOF_deregister", PMIx_IOF_deregister(handler, NULL, 0, op_done, &over));
        require(await(&over, 1, 10000));
        must("deregistering", over.status);
    } else if (0 == me.rank) {
        answer();
    }
    fence_all(false);
    end();
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Requests beyond a limit of the server are refused with a status that names the limit; requests within it are
 * answered, and the connection stays usable. */
#define _GNU_SOURCE
#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_MS 30000

/* The size of each request in bytes; the limits are 16 MiB of waiting and 64 MiB of published data. */
#define LARGE (3u << 20)
#define PUBLISHED (20u << 20)

typedef struct {
    arrival_t arrival;
    unsigned found;
    unsigned refused;
} answers_t;

static answers_t answers = {.arrival = ARRIVAL};

static void answered(pmix_status_t status, pmix_value_t *value, void *cbdata)
{
    (void) cbdata;
    if (PMIX_SUCCESS == status) {
        require(NULL != value && PMIX_UINT32 == value->type);
        answers.found++;
    } else {
        must_be("a get that is refused", status, PMIX_ERR_OUT_OF_RESOURCE);
        answers.refused++;
    }
    arrive(&answers.arrival, status, 0);
}

static void load_large(pmix_info_t *info, const char *key, size_t length)
{
    static char *bytes;
    if (NULL == bytes) {
        bytes = calloc(1, PUBLISHED);
        require(NULL != bytes);
    }
    pmix_byte_object_t object = {.bytes = bytes, .size = length};
    PMIX_INFO_LOAD(info, key, &object, PMIX_BYTE_OBJECT);
}

/* Gets data of all others before they commit: some gets are refused at once, the others complete in the end. */
static void ask(void)
{
    pmix_info_t info;
    load_large(&info, "r.large", LARGE);
    for (pmix_rank_t rank = 1; rank < size; rank++) {
        pmix_proc_t proc = peer(rank);
        must("PMIx_Get_nb", PMIx_Get_nb(&proc, "r.late", &info, 1, answered, NULL));
    }
    if (!await(&answers.arrival, 1, MOST_MS)) {
        wrong("no get is refused");
    }
    require(0 == answers.found && answers.refused > 0);
}

static void all_are_answered(void)
{
    if (!await(&answers.arrival, size - 1, MOST_MS)) {
        wrong("%u of %u gets are answered", answers.arrival.arrived, size - 1);
    }
    require(answers.found > 0 && answers.found + answers.refused == size - 1);
    /* A process may repeat a refused get. */
    for (pmix_rank_t rank = 1; rank < size; rank++) {
        require(get_number(rank, "r.late") == 30 + rank);
    }
}

static void publish_too_much(void)
{
    pmix_info_t info;
    pmix_status_t status = PMIX_SUCCESS;
    for (int i = 0; i < 5 && PMIX_SUCCESS == status; i++) {
        char key[PMIX_MAX_KEYLEN];
        snprintf(key, sizeof(key), "r.published.%d", i);
        load_large(&info, key, PUBLISHED);
        status = PMIx_Publish(&info, 1);
    }
    must_be("what is published beyond the limit", status, PMIX_ERR_OUT_OF_RESOURCE);
    must("PMIx_Unpublish", PMIx_Unpublish(NULL, NULL, 0));
    must("PMIx_Publish, when there is room again", PMIx_Publish(&info, 1));
}

/* Lets the others continue: while its requests wait, rank 0 can send no other request, so it signals rank 1, which
 * notifies them. */
static void go(pid_t first)
{
    require(0 == kill(first, SIGUSR1));
}

static void wait_to_go(const sigset_t *signals)
{
    int number;
    if (1 == me.rank) {
        require(0 == sigwait(signals, &number));
    }
    pmix_proc_t others[size - 1];
    for (pmix_rank_t rank = 1; rank < size; rank++) {
        others[rank - 1] = peer(rank);
    }
    must("PMIx_Fence of the others", PMIx_Fence(others, size - 1, NULL, 0));
}

int main(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    begin();
    require(size > 8);
    put_number(PMIX_GLOBAL, "r.pid", (uint32_t) getpid());
    if (me.rank <= 1) {
        must("PMIx_Commit", PMIx_Commit());
    }
    fence_all(true);
    if (0 == me.rank) {
        pid_t first = (pid_t) get_number(1, "r.pid");
        ask();
        go(first);
        all_are_answered();
        publish_too_much();
    } else {
        wait_to_go(&signals);
        put_number(PMIX_GLOBAL, "r.late", 30 + me.rank);
        must("PMIx_Commit", PMIx_Commit());
    }
    fence_all(false);
    end();
    return 0;
}

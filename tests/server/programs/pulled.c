/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Rank 1 is a tool that finds the server by its process ID. It pushes lines to rank 0 and pulls the replies: the
 * first line by one pull, which it then ends, and the second by another. */
#define _GNU_SOURCE
#include "check.h"

#include <pmix_tool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE 20000

/* The output of a pull. */
typedef struct {
    const char *awaited;
    arrival_t whole;
    char text[1024];
    size_t len;
} pulled_t;

static pulled_t first = {.awaited = "heard one\n", .whole = ARRIVAL};
static pulled_t second = {.awaited = "heard two\n", .whole = ARRIVAL};
static char *nspace;

static void take(pulled_t *pulled, pmix_iof_channel_t channel, const pmix_proc_t *source,
                 const pmix_byte_object_t *bytes)
{
    require(PMIX_FWD_STDOUT_CHANNEL == channel && 0 == source->rank);
    require(PMIX_CHECK_NSPACE(source->nspace, nspace));
    if (NULL == bytes || NULL == bytes->bytes
        || pulled->len + bytes->size >= sizeof(pulled->text)) {
        return;
    }
    memcpy(pulled->text + pulled->len, bytes->bytes, bytes->size);
    pulled->len += bytes->size;
    if (NULL != strstr(pulled->text, pulled->awaited)) {
        arrive(&pulled->whole, PMIX_SUCCESS, 0);
    }
}

static void to_first(size_t handler, pmix_iof_channel_t channel, pmix_proc_t *source,
                     pmix_byte_object_t *bytes, pmix_info_t infos[], size_t num_infos)
{
    (void) handler, (void) infos, (void) num_infos;
    take(&first, channel, source, bytes);
}

static void to_second(size_t handler, pmix_iof_channel_t channel, pmix_proc_t *source,
                      pmix_byte_object_t *bytes, pmix_info_t infos[], size_t num_infos)
{
    (void) handler, (void) infos, (void) num_infos;
    take(&second, channel, source, bytes);
}

static size_t pull(const pmix_proc_t *rank0, pmix_iof_cbfunc_t function)
{
    pmix_status_t handler
        = PMIx_IOF_pull(rank0, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, function, NULL, NULL);
    require(handler >= 0);
    return (size_t) handler;
}

static void end_pull(size_t handler)
{
    arrival_t over = ARRIVAL;
    must("PMIx_IOF_deregister", PMIx_IOF_deregister(handler, NULL, 0, op_done, &over));
    require(await(&over, 1, PATIENCE));
    must("deregistering", over.status);
}

static void push(const pmix_proc_t *rank0, const char *line)
{
    pmix_byte_object_t bytes = {.bytes = (char *) line, .size = strlen(line)};
    arrival_t pushed = ARRIVAL;
    must("PMIx_IOF_push", PMIx_IOF_push(rank0, 1, &bytes, NULL, 0, op_done, &pushed));
    require(await(&pushed, 1, PATIENCE));
    must("pushing", pushed.status);
}

static void be_tool(void)
{
    pmix_proc_t own, rank0;
    pmix_info_t info;
    pid_t pid = getppid();
    forget_the_server();
    PMIX_INFO_LOAD(&info, PMIX_SERVER_PIDINFO, &pid, PMIX_PID);
    must("PMIx_tool_init", PMIx_tool_init(&own, &info, 1));
    PMIX_LOAD_PROCID(&rank0, nspace, 0);
    size_t handler = pull(&rank0, to_first);
    push(&rank0, "one\n");
    require(await(&first.whole, 1, PATIENCE));
    end_pull(handler);
    size_t len = first.len;
    handler = pull(&rank0, to_second);
    push(&rank0, "two\n");
    require(await(&second.whole, 1, PATIENCE));
    /* The ended pull must not deliver more output. */
    require(len == first.len && NULL == strstr(first.text, "two"));
    end_pull(handler);
    must("PMIx_tool_finalize", PMIx_tool_finalize());
}

/* Echoes its input until the tool has received both lines. */
static void be_heard(void)
{
    char line[64];
    begin();
    for (int n = 0; n < 2; n++) {
        require(NULL != fgets(line, sizeof(line), stdin));
        printf("heard %s", line);
        fflush(stdout);
    }
    end();
}

int main(void)
{
    nspace = strdup(getenv("PMIX_NAMESPACE"));
    if (0 == strcmp("1", getenv("PMIX_RANK"))) {
        be_tool();
    } else {
        be_heard();
    }
    free(nspace);
    return 0;
}

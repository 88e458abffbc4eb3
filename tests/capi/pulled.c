/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A tool that pulls the output of the job `one.job` from the server below a directory. It prints the line `ready` when
 * the pull is active, and ends when it reads a line. The first argument selects the case:
 *   shows A K...     the library writes the output in the format that the keys request
 *   gathers A N T    a callback receives N bytes at once, or fewer after T seconds; it prints a line for each call
 *   keeps A N new    the server keeps N bytes while the tool does not read, and drops new output; or `old`. The tool
 *                    prints the numbers of the first piece, of the first after the last gap (-1 without one), and of
 *                    the last
 *   refused A        the pull requires a directive that is not supported
 */
#define _GNU_SOURCE
#include <pmix_tool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static pmix_proc_t all;
static long first = -1, last = -1, behind_gap = -1;

static void says(size_t handler, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *bytes,
                 pmix_info_t infos[], size_t num_infos)
{
    (void) handler, (void) infos, (void) num_infos;
    HOLDS(0 == strcmp(source->nspace, all.nspace));
    printf("%u %s %zu:%.*s\n", source->rank, PMIX_FWD_STDOUT_CHANNEL == channel ? "out" : "err", bytes->size,
           (int) bytes->size, bytes->size > 0 ? bytes->bytes : "");
    fflush(stdout);
}

/* Each piece begins with its number. */
static void counts(size_t handler, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *bytes,
                   pmix_info_t infos[], size_t num_infos)
{
    (void) handler, (void) channel, (void) source, (void) infos, (void) num_infos;
    if (bytes->size == 0) {
        printf("%ld %ld %ld\n", first, behind_gap, last);
        fflush(stdout);
        return;
    }
    long number = strtol(bytes->bytes, NULL, 10);
    if (first < 0) {
        first = number;
    } else if (number != last + 1) {
        behind_gap = number;
    }
    last = number;
}

static void begin(const char *directory)
{
    pmix_proc_t own;
    pmix_info_t infos[2];
    PMIX_INFO_LOAD(&infos[0], PMIX_SERVER_TMPDIR, directory, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_SYSTEM_TMPDIR, directory, PMIX_STRING);
    IS(PMIX_SUCCESS, PMIx_tool_init(&own, infos, 2));
    PMIX_INFO_DESTRUCT(&infos[0]);
    PMIX_INFO_DESTRUCT(&infos[1]);
    PMIX_LOAD_PROCID(&all, "one.job", PMIX_RANK_WILDCARD);
}

static size_t pulls(const pmix_info_t *infos, size_t num_infos, pmix_iof_cbfunc_t function)
{
    pmix_status_t handler = PMIx_IOF_pull(&all, 1, infos, num_infos, PMIX_FWD_STDOUT_CHANNEL | PMIX_FWD_STDERR_CHANNEL,
                                          function, NULL, NULL);
    if (handler < 0) {
        fprintf(stderr, "no pull: %s\n", PMIx_Error_string(handler));
        exit(1);
    }
    puts("ready");
    fflush(stdout);
    return (size_t) handler;
}

static void waits(void)
{
    char line[16];
    HOLDS(NULL != fgets(line, sizeof(line), stdin));
}

static void shows(int count, char **keys)
{
    pmix_info_t infos[4];
    bool yes = true;
    HOLDS(count <= 4);
    for (int n = 0; n < count; n++) {
        PMIX_INFO_LOAD(&infos[n], keys[n], &yes, PMIX_BOOL);
        PMIX_INFO_REQUIRED(&infos[n]);
    }
    pulls(infos, (size_t) count, NULL);
    waits();
}

/* Buffered output that was not delivered arrives when the pull ends. */
static void gathers(uint32_t size, uint32_t time)
{
    pmix_info_t infos[2];
    PMIX_INFO_LOAD(&infos[0], PMIX_IOF_BUFFERING_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[1], PMIX_IOF_BUFFERING_TIME, &time, PMIX_UINT32);
    PMIX_INFO_REQUIRED(&infos[0]);
    PMIX_INFO_REQUIRED(&infos[1]);
    size_t handler = pulls(infos, 2, says);
    waits();
    IS(PMIX_SUCCESS, PMIx_IOF_deregister(handler, NULL, 0, NULL, NULL));
    waits();
}

static void keeps(uint32_t size, const char *which)
{
    pmix_info_t infos[2];
    bool yes = true;
    int drops_new = 0 == strcmp(which, "new");
    PMIX_INFO_LOAD(&infos[0], PMIX_IOF_CACHE_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[1], drops_new ? PMIX_IOF_DROP_NEWEST : PMIX_IOF_DROP_OLDEST, &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&infos[0]);
    PMIX_INFO_REQUIRED(&infos[1]);
    pulls(infos, 2, counts);
    waits();
}

static void refused(void)
{
    pmix_info_t info;
    bool yes = true;
    uint32_t some = 7;

    /* A format needs a pull without a callback, and buffering needs one with a callback. */
    PMIX_INFO_LOAD(&info, PMIX_IOF_TAG_OUTPUT, &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&info);
    IS(PMIX_ERR_NOT_SUPPORTED, PMIx_IOF_pull(&all, 1, &info, 1, PMIX_FWD_STDOUT_CHANNEL, says, NULL, NULL));
    PMIX_INFO_LOAD(&info, PMIX_IOF_BUFFERING_SIZE, &some, PMIX_UINT32);
    PMIX_INFO_REQUIRED(&info);
    IS(PMIX_ERR_NOT_SUPPORTED, PMIx_IOF_pull(&all, 1, &info, 1, PMIX_FWD_STDOUT_CHANNEL, NULL, NULL, NULL));
    PMIX_INFO_LOAD(&info, PMIX_IOF_BUFFERING_SIZE, "many", PMIX_STRING);
    IS(PMIX_ERR_BAD_PARAM, PMIx_IOF_pull(&all, 1, &info, 1, PMIX_FWD_STDOUT_CHANNEL, says, NULL, NULL));
    PMIX_INFO_DESTRUCT(&info);
    /* The host decides about the other directives. */
    PMIX_INFO_LOAD(&info, PMIX_IOF_REDIRECT, &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&info);
    IS(PMIX_ERR_NOT_SUPPORTED, PMIx_IOF_pull(&all, 1, &info, 1, PMIX_FWD_STDOUT_CHANNEL, says, NULL, NULL));
}

int main(int argc, char **argv)
{
    alarm(120);
    if (argc < 3) {
        return 2;
    }
    begin(argv[2]);
    if (0 == strcmp(argv[1], "shows")) {
        shows(argc - 3, argv + 3);
    } else if (0 == strcmp(argv[1], "gathers") && argc == 5) {
        gathers((uint32_t) atoi(argv[3]), (uint32_t) atoi(argv[4]));
    } else if (0 == strcmp(argv[1], "keeps") && argc == 5) {
        keeps((uint32_t) atoi(argv[3]), argv[4]);
    } else if (0 == strcmp(argv[1], "refused")) {
        refused();
    } else {
        return 2;
    }
    IS(PMIX_SUCCESS, PMIx_tool_finalize());
    puts("ok");
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Common code of tools: finds the server that has its files below a directory, and queries the jobs of the primary
 * server. Included by tool.c, tool_asks.c, tool_serves.c and scheduler.c, which define _GNU_SOURCE first.
 */
#include <pmix_tool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static inline pmix_status_t below(const char *directory, const pmix_info_t *more, pmix_proc_t *own,
                           pmix_proc_t *server, int is_init)
{
    pmix_info_t infos[3];
    pmix_status_t status;
    size_t count = 2;
    PMIX_INFO_LOAD(&infos[0], PMIX_SERVER_TMPDIR, directory, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_SYSTEM_TMPDIR, directory, PMIX_STRING);
    if (NULL != more) {
        infos[count++] = *more;
    }
    status = is_init ? PMIx_tool_init(own, infos, count)
                     : PMIx_tool_attach_to_server(own, server, infos, count);
    PMIX_INFO_DESTRUCT(&infos[0]);
    PMIX_INFO_DESTRUCT(&infos[1]);
    return status;
}

/* Checks the first job that the primary server reports. */
static inline void asks(const char *expected)
{
    pmix_query_t query;
    pmix_info_t *found = NULL;
    size_t count = 0;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(count, query.keys, PMIX_QUERY_NAMESPACES);
    count = 0;
    IS(PMIX_SUCCESS, PMIx_Query_info(&query, 1, &found, &count));
    HOLDS(count == 1 && PMIX_STRING == found[0].value.type);
    HOLDS(0 == strcmp(found[0].value.data.string, expected));
    PMIX_INFO_FREE(found, count);
    PMIX_QUERY_DESTRUCT(&query);
}

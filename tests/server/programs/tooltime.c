/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A tool that attaches to a server by its URI, queries the jobs, and finalizes. Prints the time as {"tool_ns":N}. */
#define _GNU_SOURCE
#include "check.h"

#include <inttypes.h>
#include <pmix_tool.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    pmix_proc_t own;
    pmix_info_t info;
    pmix_query_t query;
    pmix_info_t *found = NULL;
    pmix_status_t added;
    size_t count = 0;

    require(argc == 2);
    uint64_t begun = now_ns();
    PMIX_INFO_LOAD(&info, PMIX_SERVER_URI, argv[1], PMIX_STRING);
    must("PMIx_tool_init", PMIx_tool_init(&own, &info, 1));
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(added, query.keys, PMIX_QUERY_NAMESPACES);
    must("PMIX_ARGV_APPEND", added);
    must("PMIx_Query_info", PMIx_Query_info(&query, 1, &found, &count));
    require(count >= 1);
    must("PMIx_tool_finalize", PMIx_tool_finalize());
    printf("{\"tool_ns\":%" PRIu64 "}\n", now_ns() - begun);
    return 0;
}

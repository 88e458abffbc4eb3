/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A tool of the server that started this process: with the name of that process ("started"), or as a tool that only
 * knows the server's process ID ("by-pid"). The headers of the releases declare these functions. */
#define _GNU_SOURCE
#include "check.h"

#include <pmix_tool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void have_one_server(void)
{
    pmix_proc_t *servers = NULL, none;
    size_t count = 0;
    must("PMIx_tool_get_servers", PMIx_tool_get_servers(&servers, &count));
    require(count == 1 && servers[0].nspace[0] != '\0');
    must("PMIx_tool_set_server", PMIx_tool_set_server(&servers[0], NULL, 0));
    PMIX_PROC_FREE(servers, count);
    PMIX_LOAD_PROCID(&none, "nobody.is.called.so", 0);
    require(PMIX_SUCCESS != PMIx_tool_set_server(&none, NULL, 0));
}

/* Checks the size of a job. */
static void job_has(const char *nspace, uint32_t expected)
{
    pmix_value_t *found = NULL;
    pmix_proc_t all;
    PMIX_LOAD_PROCID(&all, nspace, PMIX_RANK_WILDCARD);
    must("PMIx_Get", PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &found));
    require(PMIX_UINT32 == found->type && expected == found->data.uint32);
    PMIX_VALUE_RELEASE(found);
}

int main(int argc, char **argv)
{
    char *nspace = strdup(getenv("PMIX_NAMESPACE"));
    uint32_t rank = (uint32_t) strtoul(getenv("PMIX_RANK"), NULL, 10);
    pmix_proc_t own;
    pmix_info_t info;
    pid_t pid = getppid();

    if (argc > 1 && 0 == strcmp(argv[1], "by-pid")) {
        forget_the_server();
        PMIX_INFO_LOAD(&info, PMIX_SERVER_PIDINFO, &pid, PMIX_PID);
        must("PMIx_tool_init", PMIx_tool_init(&own, &info, 1));
        require(0 != strcmp(own.nspace, nspace));
    } else {
        must("PMIx_tool_init", PMIx_tool_init(&own, NULL, 0));
        require(0 == strcmp(own.nspace, nspace) && own.rank == rank);
    }
    require(PMIx_Initialized());
    have_one_server();
    job_has(nspace, 2);
    must("PMIx_tool_finalize", PMIx_tool_finalize());
    require(!PMIx_Initialized());
    free(nspace);
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A scheduler and the runtime environment. The first argument selects the role, the second is the system directory:
 *   tool        a tool of the scheduler
 *   controlled  a tool of the system controller
 *   rte         a server that connects to the scheduler
 *   second      a second scheduler on the node
 */
#define _GNU_SOURCE
#include <pmix_server.h>

#include "tools.h"

static pmix_status_t control(void)
{
    bool yes = true;
    pmix_info_t info;
    pmix_status_t status;

    PMIX_INFO_LOAD(&info, PMIX_SESSION_PAUSE, &yes, PMIX_BOOL);
    status = PMIx_Session_control(7, &info, 1, NULL, NULL);
    PMIX_INFO_DESTRUCT(&info);
    return status;
}

static void tool(const char *key, const char *top)
{
    bool yes = true;
    pmix_info_t info;
    pmix_proc_t own, *servers = NULL;
    size_t count = 0;

    PMIX_INFO_LOAD(&info, key, &yes, PMIX_BOOL);
    IS(PMIX_SUCCESS, below(top, &info, &own, NULL, 1));
    IS(PMIX_SUCCESS, control());
    /* A process that is its own server uses its own host, and this process has none. */
    IS(PMIX_SUCCESS, PMIx_tool_set_server(&own, NULL, 0));
    HOLDS(!PMIx_tool_is_connected());
    IS(PMIX_ERR_UNREACH, control());
    IS(PMIX_SUCCESS, PMIx_tool_get_servers(&servers, &count));
    HOLDS(count == 1);
    IS(PMIX_SUCCESS, PMIx_tool_set_server(&servers[0], NULL, 0));
    HOLDS(PMIx_tool_is_connected());
    IS(PMIX_SUCCESS, control());
    PMIX_PROC_FREE(servers, count);
    IS(PMIX_SUCCESS, PMIx_tool_finalize());
    PMIX_INFO_DESTRUCT(&info);
}

static void rte(const char *top)
{
    bool yes = true;
    pmix_info_t info;
    pmix_proc_t own, scheduler;
    pmix_server_module_t module;

    memset(&module, 0, sizeof module);
    PMIX_INFO_LOAD(&info, PMIX_CONNECT_TO_SCHEDULER, &yes, PMIX_BOOL);
    IS(PMIX_ERR_INIT, below(top, &info, &own, &scheduler, 0));
    IS(PMIX_SUCCESS, PMIx_server_init(&module, NULL, 0));
    IS(PMIX_ERR_NOT_SUPPORTED, control());
    IS(PMIX_SUCCESS, below(top, &info, &own, &scheduler, 0));
    /* Its own host handles its requests until it selects another server. */
    IS(PMIX_ERR_NOT_SUPPORTED, control());
    IS(PMIX_SUCCESS, PMIx_tool_set_server(&scheduler, NULL, 0));
    IS(PMIX_SUCCESS, control());
    IS(PMIX_SUCCESS, PMIx_tool_set_server(&own, NULL, 0));
    IS(PMIX_ERR_NOT_SUPPORTED, control());
    IS(PMIX_SUCCESS, PMIx_server_finalize());
    HOLDS(!PMIx_Initialized());
    PMIX_INFO_DESTRUCT(&info);
}

static void second(const char *top)
{
    bool yes = true;
    pmix_info_t infos[2];

    PMIX_INFO_LOAD(&infos[0], PMIX_SERVER_SCHEDULER, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_SYSTEM_TMPDIR, top, PMIX_STRING);
    IS(PMIX_ERR_EXISTS, PMIx_server_init(NULL, infos, 2));
    HOLDS(!PMIx_Initialized());
    PMIX_INFO_DESTRUCT(&infos[1]);
}

int main(int argc, char **argv)
{
    HOLDS(argc == 3);
    if (0 == strcmp(argv[1], "tool")) {
        tool(PMIX_CONNECT_TO_SCHEDULER, argv[2]);
    } else if (0 == strcmp(argv[1], "controlled")) {
        tool(PMIX_CONNECT_TO_SYS_CONTROLLER, argv[2]);
    } else if (0 == strcmp(argv[1], "rte")) {
        rte(argv[2]);
    } else {
        second(argv[2]);
    }
    printf("%s: ok\n", argv[1]);
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A tool that is also a server. The first argument selects the role:
 *   serves A F   a tool of the server below A, and a launcher with a job of its own, whose file is F
 *   finds F      a tool of the launcher whose file is F
 *   client       the process of that job
 */
#define _GNU_SOURCE
#include <pmix_server.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "tools.h"

static void client(void)
{
    pmix_proc_t own, job;
    pmix_value_t *found = NULL;

    IS(PMIX_SUCCESS, PMIx_Init(&own, NULL, 0));
    PMIX_LOAD_PROCID(&job, own.nspace, PMIX_RANK_WILDCARD);
    IS(PMIX_SUCCESS, PMIx_Get(&job, PMIX_JOBID, NULL, 0, &found));
    HOLDS(PMIX_STRING == found->type && 0 == strcmp(found->data.string, "hello"));
    PMIX_VALUE_RELEASE(found);
    IS(PMIX_SUCCESS, PMIx_Abort(3, "as asked", NULL, 0));
    IS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
}

static atomic_int aborted;

static pmix_status_t aborts(const pmix_proc_t *proc, void *object, int status, const char *message,
                            pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) object, (void) procs, (void) nprocs, (void) done, (void) cbdata;
    HOLDS(0 == strcmp(proc->nspace, "launched") && status == 3 && 0 == strcmp(message, "as asked"));
    aborted++;
    return PMIX_OPERATION_SUCCEEDED;
}

/* A tool of the launcher. The file names the launcher, under its name as a tool of its own server. */
static void finds(const char *file)
{
    pmix_proc_t own;
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_TOOL_ATTACHMENT_FILE, file, PMIX_STRING);
    IS(PMIX_SUCCESS, PMIx_tool_init(&own, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
    asks("launched");
    IS(PMIX_SUCCESS, PMIx_tool_finalize());
}

/* Runs this program as another process with another role. */
static void runs(const char *self, const char *what, const char *with, char **env)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        for (; NULL != env && NULL != *env; env++) {
            putenv(*env);
        }
        alarm(60);
        execl(self, self, what, with, (char *) NULL);
        _exit(127);
    }
    HOLDS(waitpid(pid, &status, 0) == pid && status == 0);
}

static void serves(const char *self, const char *directory, const char *file)
{
    pmix_server_module_t module;
    pmix_proc_t own, proc;
    pmix_info_t info, infos[4];
    pmix_value_t *found = NULL;
    bool yes = true;
    char **env = NULL;
    size_t n;

    PMIX_INFO_LOAD(&infos[0], PMIX_LAUNCHER, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_LAUNCHER_RENDEZVOUS_FILE, file, PMIX_STRING);
    PMIX_INFO_REQUIRED(&infos[1]);
    PMIX_INFO_LOAD(&infos[2], PMIX_SERVER_TMPDIR, directory, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[3], PMIX_SYSTEM_TMPDIR, directory, PMIX_STRING);
    IS(PMIX_SUCCESS, PMIx_tool_init(&own, infos, 4));
    for (n = 0; n < 4; n++) {
        PMIX_INFO_DESTRUCT(&infos[n]);
    }
    /* No client may connect before there are functions that handle its requests. */
    HOLDS(0 != access(file, F_OK));
    memset(&module, 0, sizeof(module));
    module.abort = aborts;
    IS(PMIX_SUCCESS, PMIx_tool_set_server_module(&module));
    HOLDS(0 == access(file, R_OK));
    IS(PMIX_ERR_EXISTS, PMIx_tool_set_server_module(&module));
    PMIX_LOAD_PROCID(&proc, "launched", 0);
    PMIX_INFO_LOAD(&info, PMIX_JOBID, "hello", PMIX_STRING);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_nspace(proc.nspace, 1, &info, 1, NULL, NULL));
    PMIX_INFO_DESTRUCT(&info);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL));
    IS(PMIX_SUCCESS, PMIx_server_setup_fork(&proc, &env));
    runs(self, "client", NULL, env);
    HOLDS(aborted == 1);
    HOLDS(0 == access(file, R_OK));
    runs(self, "finds", file, NULL);
    PMIX_ARGV_FREE(env);
    /* The tool knows the job that it registered; for other jobs its server is asked. */
    proc.rank = PMIX_RANK_WILDCARD;
    IS(PMIX_SUCCESS, PMIx_Get(&proc, PMIX_JOBID, NULL, 0, &found));
    HOLDS(0 == strcmp(found->data.string, "hello"));
    PMIX_VALUE_RELEASE(found);
    asks("one.job");
    IS(PMIX_SUCCESS, PMIx_tool_finalize());
    HOLDS(!PMIx_Initialized() && 0 != access(file, F_OK));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *first = argc > 2 ? argv[2] : NULL, *second = argc > 3 ? argv[3] : NULL;

    alarm(120);
    if (0 == strcmp(what, "serves")) {
        serves(argv[0], first, second);
        printf("%s: ok\n", what);
    } else if (0 == strcmp(what, "finds")) {
        finds(first);
    } else if (0 == strcmp(what, "client")) {
        client();
    } else {
        return 2;
    }
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host without monitors, whose client has a file monitored. The library watches the file in place of the host. With an
 * argument, the program is its own client; the argument is the path of the file.
 */
#include <pmix.h>
#include <pmix_server.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static atomic_int num_alerts, num_registered, num_requests;

/* Refuses each request, as hosts do that have the function but no monitors. */
static pmix_status_t refuses(const pmix_proc_t *proc, const pmix_info_t *monitor, pmix_status_t error,
                             const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t done, void *cbdata)
{
    (void)proc, (void)monitor, (void)error, (void)directives, (void)ndirs, (void)done, (void)cbdata;
    atomic_fetch_add(&num_requests, 1);
    return PMIX_ERR_NOT_SUPPORTED;
}

static void alerted(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void)id, (void)source, (void)infos, (void)ninfos, (void)results, (void)nresults;
    HOLDS(status == PMIX_MONITOR_FILE_ALERT);
    atomic_fetch_add(&num_alerts, 1);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static void is_registered(pmix_status_t status, size_t id, void *cbdata)
{
    (void)id, (void)cbdata;
    IS(PMIX_SUCCESS, status);
    atomic_fetch_add(&num_registered, 1);
}

static void wait_for(atomic_int *count)
{
    while (atomic_load(count) == 0) {
        usleep(1000);
    }
}

static pmix_status_t monitor(const char *key, const char *value, pmix_info_t *directives, size_t num)
{
    pmix_info_t info, *results = NULL;
    size_t num_results = 0;
    pmix_status_t status;

    PMIX_INFO_LOAD(&info, key, value, PMIX_STRING);
    status = PMIx_Process_monitor(&info, PMIX_MONITOR_FILE_ALERT, directives, num, &results, &num_results);
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_FREE(results, num_results);
    return status;
}

static int client(const char *path)
{
    pmix_status_t code = PMIX_MONITOR_FILE_ALERT;
    pmix_info_t directives[4];
    uint32_t seconds = 1, drops = 1;
    pmix_proc_t own;

    IS(PMIX_SUCCESS, PMIx_Init(&own, NULL, 0));
    PMIx_Register_event_handler(&code, 1, NULL, 0, alerted, is_registered, NULL);
    wait_for(&num_registered);
    PMIX_INFO_LOAD(&directives[0], PMIX_MONITOR_FILE_CHECK_TIME, &seconds, PMIX_UINT32);
    PMIX_INFO_LOAD(&directives[1], PMIX_MONITOR_FILE_DROPS, &drops, PMIX_UINT32);
    PMIX_INFO_LOAD(&directives[2], PMIX_MONITOR_FILE_SIZE, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&directives[3], PMIX_MONITOR_ID, "log", PMIX_STRING);
    /* Without a time between checks nothing can be watched. */
    IS(PMIX_ERR_BAD_PARAM, monitor(PMIX_MONITOR_FILE, path, NULL, 0));
    IS(PMIX_SUCCESS, monitor(PMIX_MONITOR_FILE, path, directives, 4));
    wait_for(&num_alerts);
    IS(PMIX_SUCCESS, monitor(PMIX_MONITOR_CANCEL, "log", NULL, 0));
    IS(PMIX_ERR_NOT_FOUND, monitor(PMIX_MONITOR_CANCEL, "log", NULL, 0));
    IS(PMIX_ERR_NOT_SUPPORTED, monitor("site.monitor", path, NULL, 0));
    /* The process ends with a monitor, and so does the server. */
    IS(PMIX_SUCCESS, monitor(PMIX_MONITOR_FILE, path, directives, 4));
    PMIX_INFO_DESTRUCT(&directives[3]);
    IS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    return 0;
}

static int runs(const char *self, const char *path, const pmix_proc_t *proc)
{
    char **env = NULL;
    int i, status = -1;
    pid_t pid;

    IS(PMIX_SUCCESS, PMIx_server_setup_fork(proc, &env));
    pid = fork();
    if (pid == 0) {
        for (i = 0; env[i] != NULL; i++) {
            putenv(env[i]);
        }
        alarm(60);
        execl(self, self, path, (char *)NULL);
        _exit(127);
    }
    if (pid > 0 && waitpid(pid, &status, 0) != pid) {
        status = -1;
    }
    PMIX_ARGV_FREE(env);
    return status;
}

int main(int argc, char **argv)
{
    pmix_server_module_t module;
    pmix_proc_t proc;
    pmix_info_t infos[2];
    int has_function;

    if (argc > 1) {
        return client(argv[1]);
    }
    alarm(120);
    for (has_function = 0; has_function < 2; has_function++) {
        memset(&module, 0, sizeof(module));
        module.monitor = has_function ? refuses : NULL;
        IS(PMIX_SUCCESS, PMIx_server_init(&module, NULL, 0));
        PMIX_LOAD_PROCID(&proc, "job", 0);
        PMIX_INFO_LOAD(&infos[0], PMIX_NODE_MAP, "localhost", PMIX_STRING);
        PMIX_INFO_LOAD(&infos[1], PMIX_PROC_MAP, "0", PMIX_STRING);
        IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_nspace(proc.nspace, 1, infos, 2, NULL, NULL));
        IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL));
        /* The program itself is a file that does not change. */
        HOLDS(0 == runs(argv[0], argv[0], &proc));
        HOLDS(has_function == (0 < atomic_load(&num_requests)));
        IS(PMIX_SUCCESS, PMIx_server_finalize());
        PMIX_INFO_DESTRUCT(&infos[0]);
        PMIX_INFO_DESTRUCT(&infos[1]);
    }
    puts("monitored: ok");
    return 0;
}

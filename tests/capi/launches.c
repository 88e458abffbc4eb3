/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A tool without a server that starts launchers itself. The first argument selects the case, the others are the
 * command line of the launcher:
 *   connects   the launcher connects, and is queried for its jobs until it exits
 *   ends       the launcher exits without connecting
 *   stays      the launcher runs when the tool ends
 *   leaves     as "stays", with the launcher as the server of the tool
 *   stopped    as "leaves", with a launcher that is stopped and does not reply
 *   client     this program is started as a client, without the URI of the tool
 *   refused    the arguments do not describe a launcher that can be started
 */
#define _GNU_SOURCE
#include <pmix_server.h>
#include <pmix_tool.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int num_registered, num_ended, num_lost, exit_code = -1;
static pmix_proc_t own, launcher, teller;
static bool is_told = true;

static void heard(size_t reference, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *infos,
                  size_t num_infos, pmix_info_t *results, size_t num_results,
                  pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    size_t n;
    (void) reference, (void) results, (void) num_results;
    pthread_mutex_lock(&mutex);
    teller = *source;
    for (n = 0; n < num_infos; n++) {
        if (PMIX_CHECK_KEY(&infos[n], PMIX_EXIT_CODE)) {
            exit_code = infos[n].value.data.integer;
        }
    }
    num_ended += PMIX_EVENT_JOB_END == status;
    num_lost += PMIX_ERR_LOST_CONNECTION == status;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static void registered(pmix_status_t status, size_t reference, void *cbdata)
{
    (void) reference, (void) cbdata;
    IS(PMIX_SUCCESS, status);
    pthread_mutex_lock(&mutex);
    num_registered++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

/* Waits without a limit, since the test has one. The event must come from the launcher, whose name the handler may
 * not know yet. */
static void wait_for(const int *number)
{
    pthread_mutex_lock(&mutex);
    while (0 == *number) {
        pthread_cond_wait(&changed, &mutex);
    }
    HOLDS(number == &num_registered || PMIX_CHECK_PROCID(&teller, &launcher));
    pthread_mutex_unlock(&mutex);
}

static void listen_for_ends(void)
{
    pmix_status_t codes[] = {PMIX_EVENT_JOB_END, PMIX_ERR_LOST_CONNECTION};
    PMIx_Register_event_handler(codes, 2, NULL, 0, heard, registered, NULL);
    wait_for(&num_registered);
}

/* Starts the words as a launcher that connects to this tool. */
static pmix_status_t start(char **words, int maxprocs, pmix_info_t *more)
{
    pmix_value_t *uri = NULL;
    pmix_app_t app;
    pmix_info_t infos[3], directive;
    pmix_data_array_t directives = {.type = PMIX_INFO, .size = 1, .array = &directive};
    pmix_status_t status;
    pmix_nspace_t nspace;
    char *address = NULL;
    bool yes = true;
    IS(PMIX_SUCCESS, PMIx_Get(&own, PMIX_MYSERVER_URI, NULL, 0, &uri));
    HOLDS(-1 != asprintf(&address, "PMIX_LAUNCHER_RNDZ_URI=%s", uri->data.string));
    PMIX_VALUE_RELEASE(uri);
    PMIX_APP_CONSTRUCT(&app);
    app.maxprocs = maxprocs;
    for (; NULL != *words; words++) {
        PMIX_ARGV_APPEND(status, app.argv, *words);
        IS(PMIX_SUCCESS, status);
    }
    if (is_told) {
        PMIX_ARGV_APPEND(status, app.env, address);
        IS(PMIX_SUCCESS, status);
    }
    free(address);
    PMIX_INFO_LOAD(&directive, PMIX_TAG_OUTPUT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[0], PMIX_SPAWN_TOOL, &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&infos[0]);
    PMIX_INFO_LOAD(&infos[1], PMIX_LAUNCH_DIRECTIVES, &directives, PMIX_DATA_ARRAY);
    if (NULL != more) {
        infos[2] = *more;
    }
    status = PMIx_Spawn(infos, NULL == more ? 2 : 3, &app, 1, nspace);
    if (PMIX_SUCCESS == status) {
        PMIX_LOAD_PROCID(&launcher, nspace, 0);
    }
    PMIX_INFO_DESTRUCT(&infos[1]);
    PMIX_APP_DESTRUCT(&app);
    return status;
}

static pmix_status_t make_server(void)
{
    bool yes = true;
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_WAIT_FOR_CONNECTION, &yes, PMIX_BOOL);
    return PMIx_tool_set_server(&launcher, &info, 1);
}

static void connects(char **words)
{
    pmix_query_t query;
    pmix_info_t *found = NULL;
    pmix_proc_t *servers = NULL;
    pmix_status_t status;
    size_t count = 0;
    bool yes = true;
    listen_for_ends();
    IS(PMIX_SUCCESS, start(words, 1, NULL));
    IS(PMIX_SUCCESS, make_server());
    HOLDS(PMIx_tool_is_connected());
    IS(PMIX_SUCCESS, PMIx_tool_get_servers(&servers, &count));
    HOLDS(1 == count && PMIX_CHECK_PROCID(servers, &launcher));
    PMIX_PROC_FREE(servers, count);
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_NAMESPACES);
    IS(PMIX_SUCCESS, status);
    IS(PMIX_SUCCESS, PMIx_Query_info(&query, 1, &found, &count));
    HOLDS(1 == count && 0 == strcmp(found[0].value.data.string, "launched"));
    PMIX_INFO_FREE(found, count);
    PMIX_QUERY_DESTRUCT(&query);
    /* An event of this tool reaches its server, the launcher. */
    pmix_data_array_t range = {.type = PMIX_PROC, .size = 1, .array = &launcher};
    pmix_info_t infos[2];
    PMIX_INFO_LOAD(&infos[0], PMIX_EVENT_CUSTOM_RANGE, &range, PMIX_DATA_ARRAY);
    PMIX_INFO_LOAD(&infos[1], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    IS(PMIX_SUCCESS, PMIx_Notify_event(PMIX_DEBUGGER_RELEASE, &own, PMIX_RANGE_CUSTOM, infos, 2, NULL, NULL));
    PMIX_INFO_DESTRUCT(&infos[0]);
    wait_for(&num_lost);
    wait_for(&num_ended);
    HOLDS(3 == exit_code && !PMIx_tool_is_connected());
    IS(PMIX_ERR_UNREACH, make_server());
}

/* Stops the launcher, which has written its pid to a file. */
static void stop(void)
{
    FILE *file = fopen("launcher.pid", "r");
    siginfo_t info;
    int pid = 0;
    HOLDS(NULL != file && 1 == fscanf(file, "%d", &pid));
    fclose(file);
    HOLDS(0 == kill(pid, SIGSTOP) && 0 == waitid(P_PID, pid, &info, WSTOPPED | WNOWAIT));
}

/* The spawn function of a host, which the tool passes to its server after init. */
static pmix_status_t spawns(const pmix_proc_t *proc, const pmix_info_t infos[], size_t num_infos,
                            const pmix_app_t apps[], size_t num_apps, pmix_spawn_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) infos, (void) num_infos, (void) apps, (void) num_apps, (void) done, (void) cbdata;
    return PMIX_ERR_JOB_ALLOC_FAILED;
}

static void refused(char **words)
{
    char *nothing[] = {"/no/such/launcher", NULL}, *empty[] = {NULL};
    pmix_server_module_t module = {.spawn = spawns};
    pmix_info_t info;
    bool yes = true;
    IS(PMIX_ERR_JOB_EXE_NOT_FOUND, start(nothing, 1, NULL));
    IS(PMIX_ERR_JOB_NO_EXE_SPECIFIED, start(empty, 1, NULL));
    IS(PMIX_ERR_NOT_SUPPORTED, start(words, 2, NULL));
    PMIX_INFO_LOAD(&info, PMIX_TAG_OUTPUT, &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&info);
    IS(PMIX_ERR_NOT_SUPPORTED, start(words, 1, &info));
    PMIX_INFO_LOAD(&info, PMIX_WDIR, "/no/such/place", PMIX_STRING);
    IS(PMIX_ERR_JOB_WDIR_NOT_FOUND, start(words, 1, &info));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_LOAD_PROCID(&launcher, "nobody", 0);
    IS(PMIX_ERR_NOT_FOUND, PMIx_tool_set_server(&launcher, NULL, 0));
    IS(PMIX_SUCCESS, PMIx_tool_set_server_module(&module));
    IS(PMIX_ERR_EXISTS, PMIx_tool_set_server_module(&module));
    IS(PMIX_ERR_JOB_ALLOC_FAILED, start(words, 1, NULL));
}

int main(int argc, char **argv)
{
    pmix_info_t infos[2];
    bool yes = true;
    char **words = argv + 2;
    if (2 == argc) {
        IS(PMIX_SUCCESS, PMIx_Init(&own, NULL, 0));
        IS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, NULL, 0));
        IS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
        return 0;
    }
    HOLDS(argc > 2);
    PMIX_INFO_LOAD(&infos[0], PMIX_TOOL_DO_NOT_CONNECT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_LAUNCHER, &yes, PMIX_BOOL);
    IS(PMIX_SUCCESS, PMIx_tool_init(&own, infos, 2));
    HOLDS('\0' != own.nspace[0] && !PMIx_tool_is_connected());
    if (0 == strcmp(argv[1], "connects")) {
        connects(words);
    } else if (0 == strcmp(argv[1], "ends")) {
        IS(PMIX_SUCCESS, start(words, 1, NULL));
        IS(PMIX_ERR_UNREACH, make_server());
    } else if (0 == strcmp(argv[1], "stays")) {
        IS(PMIX_SUCCESS, start(words, 1, NULL));
    } else if (0 == strcmp(argv[1], "leaves")) {
        IS(PMIX_SUCCESS, start(words, 1, NULL));
        IS(PMIX_SUCCESS, make_server());
    } else if (0 == strcmp(argv[1], "client")) {
        char *client[] = {argv[0], "client", NULL};
        is_told = false;
        listen_for_ends();
        IS(PMIX_SUCCESS, start(client, 1, NULL));
        wait_for(&num_ended);
        HOLDS(0 == exit_code);
    } else if (0 == strcmp(argv[1], "stopped")) {
        IS(PMIX_SUCCESS, start(words, 1, NULL));
        IS(PMIX_SUCCESS, make_server());
        stop();
    } else {
        refused(words);
    }
    IS(PMIX_SUCCESS, PMIx_tool_finalize());
    printf("%s: ok\n", argv[1]);
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Children of forks, while threads of the parent hold each lock of the library as often as possible. Every call of a
 * child returns, and the child may become a server itself. A child that hangs is ended by its alarm.
 */
#include <pmix_server.h>
#include <pmix_tool.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define CODE (-4711)
#define NUM_KINDS 5

static pmix_server_module_t module;
static atomic_int ended;

static void hears(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                  pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void)id, (void)status, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    if (done != NULL) {
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    }
}

static void is_done(pmix_status_t status, void *cbdata)
{
    (void)status;
    atomic_fetch_add((atomic_int *)cbdata, 1);
}

static void modex_came(pmix_status_t status, char *data, size_t ndata, void *cbdata)
{
    (void)status, (void)data, (void)ndata, (void)cbdata;
}

/* Calls functions that take one of the locks each. */
static void call(int kind)
{
    static atomic_int told;
    pmix_status_t code = CODE, id;
    pmix_proc_t proc;
    pmix_nspace_t nobody;
    int i;

    PMIX_LOAD_PROCID(&proc, "job", 0);
    PMIX_LOAD_NSPACE(nobody, "nobody");
    switch (kind) {
    case 0: /* event handlers */
        id = PMIx_Register_event_handler(&code, 1, NULL, 0, hears, NULL, NULL);
        if (id >= 0) {
            PMIx_Deregister_event_handler((size_t)id, NULL, NULL);
        }
        break;
    case 1: /* callbacks that wait for their thread */
        PMIx_server_deregister_nspace(nobody, is_done, (void *)&told);
        break;
    case 2: /* constant texts */
        for (i = 0; i < 100; i++) {
            HOLDS(PMIx_Data_type_string((pmix_data_type_t)i) != NULL && PMIx_Scope_string(PMIX_GLOBAL) != NULL);
        }
        break;
    case 3: /* open direct modex requests */
        PMIx_server_dmodex_request(&proc, modex_came, NULL);
        break;
    default: /* events on the way to their handlers */
        PMIx_Notify_event(code, &proc, PMIX_RANGE_LOCAL, NULL, 0, is_done, (void *)&told);
    }
}

static void *calls(void *kind)
{
    while (!ended) {
        call(*(const int *)kind);
    }
    return NULL;
}

static void child(int with_server)
{
    int kind;

    alarm(60);
    HOLDS(!PMIx_Initialized());
    if (with_server) {
        IS(PMIX_SUCCESS, PMIx_server_init(&module, NULL, 0));
    }
    for (kind = 0; kind < NUM_KINDS; kind++) {
        call(kind);
    }
    if (with_server) {
        IS(PMIX_SUCCESS, PMIx_server_finalize());
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    int forks = argc > 1 ? atoi(argv[1]) : 20, kinds[NUM_KINDS], i, status;
    pthread_t threads[NUM_KINDS];
    pid_t pid;

    IS(PMIX_SUCCESS, PMIx_server_init(&module, NULL, 0));
    for (i = 0; i < NUM_KINDS; i++) {
        kinds[i] = i;
        HOLDS(0 == pthread_create(&threads[i], NULL, calls, &kinds[i]));
    }
    for (i = 0; i < forks; i++) {
        pid = fork();
        if (0 == pid) {
            child(i % 4 == 3);
        }
        HOLDS(pid > 0 && waitpid(pid, &status, 0) == pid);
        HOLDS(0 == status);
    }
    ended = 1;
    for (i = 0; i < NUM_KINDS; i++) {
        pthread_join(threads[i], NULL);
    }
    IS(PMIX_SUCCESS, PMIx_server_finalize());
    printf("children: ok\n");
    return 0;
}

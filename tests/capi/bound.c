/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The threads of the library run on the CPUs that init names (PMIX_BIND_PROGRESS_THREAD), and a required binding that
 * cannot be made fails (PMIX_BIND_REQUIRED). The argument selects the init function: "client", "tool" or "server".
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pmix.h>
#include <pmix_server.h>
#include <pmix_tool.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

static const char *role;
static atomic_int told;

static void registered(pmix_status_t status, size_t id, void *cbdata)
{
    (void)id, (void)cbdata;
    HOLDS(status >= 0);
    atomic_fetch_add(&told, 1);
}

static void handler(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void)id, (void)code, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static pmix_status_t init(pmix_info_t *infos, size_t ninfo)
{
    static pmix_server_module_t module;
    pmix_proc_t proc;

    if (strcmp(role, "server") == 0) {
        return PMIx_server_init(&module, infos, ninfo);
    }
    return strcmp(role, "tool") == 0 ? PMIx_tool_init(&proc, infos, ninfo) : PMIx_Init(&proc, infos, ninfo);
}

static void finalize(void)
{
    if (strcmp(role, "server") == 0) {
        IS(PMIX_SUCCESS, PMIx_server_finalize());
    } else if (strcmp(role, "tool") == 0) {
        IS(PMIX_SUCCESS, PMIx_tool_finalize());
    } else {
        IS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    }
}

/* Returns the only CPU that a thread may run on, or -1. */
static int only_cpu(pid_t thread)
{
    cpu_set_t set;
    int found = -1;

    if (sched_getaffinity(thread, sizeof set, &set) != 0 || CPU_COUNT(&set) != 1) {
        return -1;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        found = CPU_ISSET(cpu, &set) ? cpu : found;
    }
    return found;
}

/* The threads that ran before init, such as the one that a sanitizer starts with the first thread of the program. */
static pid_t earlier[16];
static int num_earlier;

static bool is_earlier(pid_t thread)
{
    for (int k = 0; k < num_earlier; k++) {
        if (earlier[k] == thread) {
            return true;
        }
    }
    return false;
}

static void *nothing(void *arg)
{
    return arg;
}

static void remember_threads(void)
{
    DIR *tasks;
    struct dirent *entry;
    pthread_t first;

    HOLDS(pthread_create(&first, NULL, nothing, NULL) == 0 && pthread_join(first, NULL) == 0);
    tasks = opendir("/proc/self/task");
    HOLDS(tasks != NULL);
    while ((entry = readdir(tasks)) != NULL) {
        pid_t thread = atoi(entry->d_name);
        if (thread != 0) {
            HOLDS(num_earlier < 16);
            earlier[num_earlier++] = thread;
        }
    }
    closedir(tasks);
}

/* Counts the threads of the library, all of which must run on `cpu` only. With -1 they may run anywhere. */
static int threads_on(int cpu)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    int count = 0;

    HOLDS(tasks != NULL);
    while ((entry = readdir(tasks)) != NULL) {
        pid_t thread = atoi(entry->d_name);
        if (thread == 0 || thread == (pid_t)syscall(SYS_gettid) || is_earlier(thread)) {
            continue;
        }
        count++;
        HOLDS(cpu < 0 || only_cpu(thread) == cpu);
    }
    closedir(tasks);
    return count;
}

/* Makes the library run a callback, so that its threads have started. */
static void call_back(void)
{
    pmix_status_t code = -4711;
    int before = atomic_load(&told);

    PMIx_Register_event_handler(&code, 1, NULL, 0, handler, registered, NULL);
    while (atomic_load(&told) == before) {
        usleep(1000);
    }
}

int main(int argc, char **argv)
{
    pmix_info_t infos[3];
    cpu_set_t before, after;
    char list[16];
    bool yes = true, no = false;
    int last = -1;

    alarm(120);
    HOLDS(argc == 2);
    role = argv[1];
    remember_threads();
    HOLDS(sched_getaffinity(0, sizeof before, &before) == 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        last = CPU_ISSET(cpu, &before) ? cpu : last;
    }
    snprintf(list, sizeof list, "%d", last);

    /* No machine has this CPU. The status differs from that of an invalid list. */
    PMIX_INFO_LOAD(&infos[0], PMIX_BIND_PROGRESS_THREAD, "65535", PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_BIND_REQUIRED, &yes, PMIX_BOOL);
    IS(PMIX_ERR_NOT_SUPPORTED, init(infos, 2));
    PMIX_INFO_REQUIRED(&infos[0]);
    IS(PMIX_ERR_NOT_SUPPORTED, init(infos, 1));
    PMIX_INFO_DESTRUCT(&infos[0]);
    PMIX_INFO_LOAD(&infos[0], PMIX_BIND_PROGRESS_THREAD, "1;2", PMIX_STRING);
    IS(PMIX_ERR_BAD_PARAM, init(infos, 1));
    PMIX_INFO_DESTRUCT(&infos[0]);
    PMIX_INFO_LOAD(&infos[2], PMIX_EXTERNAL_PROGRESS, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[0], PMIX_BIND_PROGRESS_THREAD, list, PMIX_STRING);
    if (strcmp(role, "tool") != 0) {
        IS(PMIX_ERR_NOT_SUPPORTED, init(infos, 3));
    }

    /* PMIX_BIND_REQUIRED without a list requires nothing. */
    IS(PMIX_SUCCESS, init(&infos[1], 1));
    finalize();
    /* The binding is not required, so its failure is ignored. */
    PMIX_INFO_DESTRUCT(&infos[0]);
    PMIX_INFO_LOAD(&infos[0], PMIX_BIND_PROGRESS_THREAD, "65535", PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_BIND_REQUIRED, &no, PMIX_BOOL);
    IS(PMIX_SUCCESS, init(infos, 2));
    call_back();
    HOLDS(threads_on(-1) > 0);
    finalize();

    PMIX_INFO_DESTRUCT(&infos[0]);
    PMIX_INFO_LOAD(&infos[0], PMIX_BIND_PROGRESS_THREAD, list, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_BIND_REQUIRED, &yes, PMIX_BOOL);
    IS(PMIX_SUCCESS, init(infos, 2));
    call_back();
    HOLDS(threads_on(last) > 0);
    /* The binding of the caller is unchanged. Another init may request the same binding, but no other. */
    HOLDS(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&before, &after));
    IS(PMIX_SUCCESS, init(infos, 2));
    if (CPU_COUNT(&before) > 1) {
        PMIX_INFO_DESTRUCT(&infos[0]);
        PMIX_INFO_LOAD(&infos[0], PMIX_BIND_PROGRESS_THREAD, CPU_ISSET(0, &before) ? "0" : "1", PMIX_STRING);
        IS(PMIX_ERR_NOT_SUPPORTED, init(infos, 2));
    }
    finalize();
    finalize();
    PMIX_INFO_DESTRUCT(&infos[0]);
    printf("bound: ok\n");
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A client whose program drives the library (PMIX_EXTERNAL_PROGRESS). Every callback and event handler runs in
 * PMIx_Progress, and the process has one thread from start to end.
 */
#include <dirent.h>
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OURS (-4713)

static pthread_t own_thread;
static int in_progress, fenced, got, heard, registered;

static void must(const char *what, int holds)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

/* Checks that a callback runs in PMIx_Progress, on the thread that called it. */
static void check_caller(void)
{
    must("a callback comes from elsewhere", in_progress && pthread_equal(own_thread, pthread_self()));
}

static void on_fence(pmix_status_t status, void *cbdata)
{
    (void)cbdata;
    check_caller();
    must("the fence fails", status == PMIX_SUCCESS);
    fenced = 1;
}

static void on_value(pmix_status_t status, pmix_value_t *value, void *cbdata)
{
    check_caller();
    must("the value is not there", status == PMIX_SUCCESS && value->data.uint32 == *(uint32_t *)cbdata);
    got = 1;
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                     size_t ninfo, pmix_info_t *results, size_t nresults,
                     pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void)id, (void)source, (void)info, (void)ninfo;
    check_caller();
    /* The result of the handler before this one. */
    must("one result", nresults == 1 && strcmp(results[0].key, "before") == 0);
    must("its status", results[0].value.type == PMIX_STATUS
                           && results[0].value.data.status == PMIX_EVENT_PARTIAL_ACTION_TAKEN);
    heard += status == OURS;
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

/* The handler that was registered last is called first. */
static void on_event_before(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                            size_t ninfo, pmix_info_t *results, size_t nresults,
                            pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void)id, (void)status, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    check_caller();
    done(PMIX_EVENT_PARTIAL_ACTION_TAKEN, NULL, 0, NULL, NULL, cbdata);
}

static void on_handler(pmix_status_t status, size_t id, void *cbdata)
{
    (void)id, (void)cbdata;
    check_caller();
    must("no handler is registered", status == PMIX_SUCCESS);
    registered = 1;
}

static void progress_until(const int *holds)
{
    for (int i = 0; !*holds; i++) {
        must("nothing comes for a minute", i < 60000);
        in_progress = 1;
        PMIx_Progress();
        in_progress = 0;
        usleep(1000);
    }
}

static int num_threads(void)
{
    int count = 0;
    struct dirent *entry;
    DIR *tasks = opendir("/proc/self/task");
    while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
        count += entry->d_name[0] != '.';
    }
    if (tasks != NULL) {
        closedir(tasks);
    }
    return count;
}

int main(void)
{
    pmix_proc_t own, job, next;
    pmix_info_t info;
    pmix_value_t value, *size = NULL;
    pmix_status_t code = OURS;
    bool yes = true;

    own_thread = pthread_self();
    PMIX_INFO_LOAD(&info, PMIX_EXTERNAL_PROGRESS, &yes, PMIX_BOOL);
    must("init", PMIx_Init(&own, &info, 1) == PMIX_SUCCESS);
    PMIX_INFO_DESTRUCT(&info);
    PMIX_LOAD_PROCID(&job, own.nspace, PMIX_RANK_WILDCARD);
    must("size", PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &size) == PMIX_SUCCESS);

    PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, on_handler, NULL);
    progress_until(&registered);
    registered = 0;
    PMIX_INFO_LOAD(&info, PMIX_EVENT_HDLR_NAME, "before", PMIX_STRING);
    PMIx_Register_event_handler(&code, 1, &info, 1, on_event_before, on_handler, NULL);
    progress_until(&registered);
    PMIX_INFO_DESTRUCT(&info);
    value.type = PMIX_UINT32;
    value.data.uint32 = own.rank;
    must("put", PMIx_Put(PMIX_GLOBAL, "card", &value) == PMIX_SUCCESS);
    must("commit", PMIx_Commit() == PMIX_SUCCESS);
    must("fence", PMIx_Fence_nb(NULL, 0, NULL, 0, on_fence, NULL) == PMIX_SUCCESS);
    progress_until(&fenced);

    uint32_t expected = (own.rank + 1) % size->data.uint32;
    PMIX_LOAD_PROCID(&next, own.nspace, expected);
    must("get", PMIx_Get_nb(&next, "card", NULL, 0, on_value, &expected) == PMIX_SUCCESS);
    progress_until(&got);
    if (own.rank == 0) {
        must("notify", PMIx_Notify_event(OURS, &own, PMIX_RANGE_GLOBAL, NULL, 0, NULL, NULL) == PMIX_SUCCESS);
    }
    progress_until(&heard);
    /* A blocking call drives the library itself. */
    must("the last fence", PMIx_Fence(NULL, 0, NULL, 0) == PMIX_SUCCESS);
    must("there are other threads", num_threads() == 1);
    must("finalize", PMIx_Finalize(NULL, 0) == PMIX_SUCCESS);
    printf("rank %u of %u: ok\n", own.rank, size->data.uint32);
    PMIX_VALUE_RELEASE(size);
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A typical client: init, put, commit, fence with data, get from every peer, a value of the job, events, finalize. It
 * prints a line for its rank, and exits with 0 if every check held.
 */
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TO_ALL (-4711)
#define TO_LAST (-4712)

static void must(const char *what, pmix_status_t status)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s (%d)\n", what, PMIx_Error_string(status), status);
        exit(1);
    }
}

static uint32_t size_of_job(const pmix_proc_t *own)
{
    pmix_proc_t job;
    pmix_value_t *value = NULL;
    uint32_t size = 0;

    PMIX_LOAD_PROCID(&job, own->nspace, PMIX_RANK_WILDCARD);
    must("size of the job", PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value));
    size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return size;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int heard_by_all, heard_by_last, told_of_handlers;

static void heard(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                  size_t ninfo, pmix_info_t *results, size_t nresults,
                  pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void)id, (void)info, (void)ninfo;
    pthread_mutex_lock(&lock);
    if (status == TO_ALL && source->rank == 0 && nresults == 0 && results == NULL) {
        heard_by_all++;
    } else if (status == TO_LAST) {
        heard_by_last++;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static void told_of_handler(pmix_status_t status, void *cbdata)
{
    (void)status, (void)cbdata;
    pthread_mutex_lock(&lock);
    told_of_handlers++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Waits until a number is not zero, for at most a minute. */
static int wait_for(const int *number)
{
    struct timespec end;
    int late = 0, come;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 60;
    pthread_mutex_lock(&lock);
    while (*number == 0 && late == 0) {
        late = pthread_cond_timedwait(&changed, &lock, &end);
    }
    come = *number;
    pthread_mutex_unlock(&lock);
    return come;
}

/* Rank 0 notifies all processes, then only the last rank. Handlers are registered without a callback. */
static void events(const pmix_proc_t *own, uint32_t size)
{
    pmix_status_t codes[2] = {TO_ALL, TO_LAST}, id;
    pmix_proc_t last;
    pmix_info_t info;

    id = PMIx_Register_event_handler(codes, 2, NULL, 0, heard, NULL, NULL);
    if (id < 0) {
        must("register", id);
    }
    must("fence", PMIx_Fence(NULL, 0, NULL, 0));
    if (own->rank == 0) {
        must("notify", PMIx_Notify_event(TO_ALL, own, PMIX_RANGE_NAMESPACE, NULL, 0, NULL, NULL));
        PMIX_LOAD_PROCID(&last, own->nspace, size - 1);
        PMIX_INFO_LOAD(&info, PMIX_EVENT_CUSTOM_RANGE, &last, PMIX_PROC);
        must("notify one", PMIx_Notify_event(TO_LAST, own, PMIX_RANGE_CUSTOM, &info, 1, NULL, NULL));
        PMIX_INFO_DESTRUCT(&info);
    }
    if (wait_for(&heard_by_all) != 1 || (own->rank == size - 1 && wait_for(&heard_by_last) != 1)) {
        fprintf(stderr, "rank %u: an event did not come\n", own->rank);
        exit(1);
    }
    must("fence", PMIx_Fence(NULL, 0, NULL, 0));
    if (own->rank != size - 1 && heard_by_last != 0) {
        fprintf(stderr, "rank %u: an event came that is not for it\n", own->rank);
        exit(1);
    }
    must("deregister", PMIx_Deregister_event_handler((size_t)id, NULL, NULL));
    /* Programs wait for the callback, even if the handler is not registered. */
    must("deregister again", PMIx_Deregister_event_handler((size_t)id, told_of_handler, NULL));
    if (wait_for(&told_of_handlers) != 1) {
        fprintf(stderr, "rank %u: nobody was told that a handler is gone\n", own->rank);
        exit(1);
    }
}

int main(void)
{
    pmix_proc_t own, peer;
    pmix_value_t value, *found = NULL;
    pmix_info_t info;
    uint32_t size = 0, rank = 0;
    char text[64], name[64];
    bool collect = true;

    must("init", PMIx_Init(&own, NULL, 0));
    must("second init", PMIx_Init(NULL, NULL, 0));
    must("first finalize", PMIx_Finalize(NULL, 0));
    size = size_of_job(&own);

    snprintf(text, sizeof(text), "card of %u", own.rank);
    PMIX_VALUE_LOAD(&value, text, PMIX_STRING);
    must("put", PMIx_Put(PMIX_GLOBAL, "card", &value));
    PMIX_VALUE_DESTRUCT(&value);
    rank = own.rank * 7;
    PMIX_VALUE_LOAD(&value, &rank, PMIX_UINT32);
    must("put of a number", PMIx_Put(PMIX_GLOBAL, "number", &value));
    PMIX_VALUE_DESTRUCT(&value);
    PMIX_VALUE_LOAD(&value, "raw:n1,n2", PMIX_REGEX);
    must("put of a map", PMIx_Put(PMIX_GLOBAL, "map", &value));
    must("put of what is taken back", PMIx_Put(PMIX_GLOBAL, "passing", &value));
    PMIX_VALUE_DESTRUCT(&value);
    must("commit", PMIx_Commit());
    must("removal", PMIx_Put(PMIX_DEL_GLOBAL, "passing", NULL));
    must("commit of a removal", PMIx_Commit());

    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    must("fence", PMIx_Fence(NULL, 0, &info, 1));
    PMIX_INFO_DESTRUCT(&info);

    for (rank = 0; rank < size; rank++) {
        PMIX_LOAD_PROCID(&peer, own.nspace, rank);
        must("get", PMIx_Get(&peer, "card", NULL, 0, &found));
        snprintf(name, sizeof(name), "card of %u", rank);
        if (found->type != PMIX_STRING || strcmp(found->data.string, name) != 0) {
            fprintf(stderr, "rank %u: a wrong card of %u\n", own.rank, rank);
            return 1;
        }
        PMIX_VALUE_RELEASE(found);
        must("get of a number", PMIx_Get(&peer, "number", NULL, 0, &found));
        if (found->type != PMIX_UINT32 || found->data.uint32 != rank * 7) {
            fprintf(stderr, "rank %u: a wrong number of %u\n", own.rank, rank);
            return 1;
        }
        PMIX_VALUE_RELEASE(found);
        must("get of a map", PMIx_Get(&peer, "map", NULL, 0, &found));
        if (found->type != PMIX_REGEX || strcmp(found->data.bo.bytes, "raw:n1,n2") != 0) {
            fprintf(stderr, "rank %u: a wrong map of %u\n", own.rank, rank);
            return 1;
        }
        PMIX_VALUE_RELEASE(found);
    }
    PMIX_LOAD_PROCID(&peer, own.nspace, 0);
    if (PMIx_Get(&peer, "passing", NULL, 0, &found) == PMIX_SUCCESS) {
        fprintf(stderr, "rank %u: there is what was taken back\n", own.rank);
        return 1;
    }
    if (PMIx_Get(&peer, "nobody.put.this", NULL, 0, &found) == PMIX_SUCCESS) {
        fprintf(stderr, "rank %u: there is what nobody put\n", own.rank);
        return 1;
    }
    events(&own, size);
    must("last fence", PMIx_Fence(NULL, 0, NULL, 0));
    must("finalize", PMIx_Finalize(NULL, 0));
    printf("rank %u of %u: ok\n", own.rank, size);
    return 0;
}

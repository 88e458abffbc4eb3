/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The data that a process of a job knows about itself, also where its server knows nothing or waits for a commit, and
 * events that arrive before their handler. Without an argument the program checks this library; with "4" or "5" it
 * checks only what OpenPMIx 4.2.2 or 5.0.11 does as well.
 */
#include <pmix.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

#define EARLY (-3200)

static pmix_proc_t self;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int told;

static void handler(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void)id;
    (void)info;
    (void)ninfo;
    (void)results;
    (void)nresults;
    HOLDS(code == EARLY && source->rank == 0);
    pthread_mutex_lock(&lock);
    told++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

/* Returns true if an array of infos has a key. */
static bool has(const pmix_data_array_t *array, const char *key)
{
    const pmix_info_t *infos = array->array;
    for (size_t at = 0; at < array->size; at++) {
        if (strcmp(infos[at].key, key) == 0) {
            return true;
        }
    }
    return false;
}

static void check_gets(bool is_ours, bool is_4)
{
    static pmix_value_t mark;
    pmix_value_t *value = &mark, given, put;
    pmix_value_t *fixed = &given;
    pmix_proc_t proc;
    pmix_info_t info;
    bool yes = true;

    IS(PMIX_ERR_NOT_FOUND, PMIx_Get(&self, "pmix.nowhere", NULL, 0, &value));
    HOLDS(value == NULL);
    PMIX_LOAD_PROCID(&proc, self.nspace, PMIX_RANK_INVALID);
    IS(PMIX_SUCCESS, PMIx_Get(&proc, PMIX_RANK, NULL, 0, &value));
    HOLDS(value->type == PMIX_PROC_RANK && value->data.rank == self.rank);
    PMIX_VALUE_RELEASE(value);
    IS(PMIX_SUCCESS, PMIx_Get(NULL, PMIX_SERVER_URI, NULL, 0, &value));
    HOLDS(value->type == PMIX_STRING && strstr(value->data.string, ";tcp4://") != NULL);
    PMIX_VALUE_RELEASE(value);
    IS(PMIX_SUCCESS, PMIx_Get(&self, NULL, NULL, 0, &value));
    HOLDS(value->type == PMIX_DATA_ARRAY && value->data.darray->type == PMIX_INFO);
    /* 4.2.2 and 5.0.11 list the rank after a get of it. */
    HOLDS(!is_ours || (has(value->data.darray, PMIX_RANK) && has(value->data.darray, PMIX_SERVER_URI)));
    HOLDS(has(value->data.darray, PMIX_LOCAL_RANK) && has(value->data.darray, PMIX_HOSTNAME));
    PMIX_VALUE_RELEASE(value);
    value = &mark;
    IS(PMIX_ERR_BAD_PARAM, PMIx_Get(NULL, NULL, NULL, 0, &value));
    HOLDS(is_4 || value == NULL);
    if (!is_ours) {
        return;
    }
    proc.rank = PMIX_RANK_UNDEF;
    IS(PMIX_SUCCESS, PMIx_Get(&proc, PMIX_RANK, NULL, 0, &value));
    HOLDS(value->data.rank == self.rank);
    PMIX_VALUE_RELEASE(value);
    /* Memory of the caller is not replaced after an error. */
    PMIX_INFO_LOAD(&info, PMIX_GET_STATIC_VALUES, &yes, PMIX_BOOL);
    IS(PMIX_ERR_NOT_FOUND, PMIx_Get(&self, "pmix.nowhere", &info, 1, &fixed));
    HOLDS(fixed == &given);
    /* The OpenPMIx releases ask the server, which waits for the commit of this process. */
    PMIX_INFO_LOAD(&info, PMIX_GET_REFRESH_CACHE, &yes, PMIX_BOOL);
    put.type = PMIX_UINT32;
    put.data.uint32 = 9;
    IS(PMIX_SUCCESS, PMIx_Store_internal(&self, "stored", &put));
    IS(PMIX_SUCCESS, PMIx_Put(PMIX_INTERNAL, "internal", &put));
    IS(PMIX_SUCCESS, PMIx_Put(PMIX_GLOBAL, "global", &put));
    const char *keys[] = {"stored", "internal", "global"};
    for (size_t at = 0; at < sizeof(keys) / sizeof(keys[0]); at++) {
        IS(PMIX_SUCCESS, PMIx_Get(&self, keys[at], &info, 1, &value));
        HOLDS(value->type == PMIX_UINT32 && value->data.uint32 == 9);
        PMIX_VALUE_RELEASE(value);
    }
    IS(PMIX_SUCCESS, PMIx_Get(&self, NULL, NULL, 0, &value));
    HOLDS(has(value->data.darray, "stored") && has(value->data.darray, "global"));
    PMIX_VALUE_RELEASE(value);
}

/* The library keeps the process's own event for a later handler, as the server does for other processes; 5.0.11
 * does so only for PMIX_RANGE_PROC_LOCAL. */
static void check_events(bool is_5)
{
    pmix_status_t code = EARLY;

    if (self.rank == 0) {
        IS(PMIX_SUCCESS, PMIx_Notify_event(EARLY, &self, PMIX_RANGE_NAMESPACE, NULL, 0, NULL, NULL));
    }
    IS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, NULL, 0));
    HOLDS(PMIx_Register_event_handler(&code, 1, NULL, 0, handler, NULL, NULL) >= 0);
    if (is_5 && self.rank == 0) {
        return;
    }
    pthread_mutex_lock(&lock);
    while (told == 0) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv)
{
    pmix_proc_t job;
    pmix_value_t *size;
    const char *release = argc > 1 ? argv[1] : "";

    /* A call that never returns fails the test. */
    alarm(120);
    IS(PMIX_SUCCESS, PMIx_Init(&self, NULL, 0));
    check_gets(argc < 2, strcmp(release, "4") == 0);
    check_events(strcmp(release, "5") == 0);
    PMIX_LOAD_PROCID(&job, self.nspace, PMIX_RANK_WILDCARD);
    IS(PMIX_SUCCESS, PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &size));
    IS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, NULL, 0));
    HOLDS(told <= 1);
    IS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    printf("rank %u of %u: ok\n", self.rank, size->data.uint32);
    PMIX_VALUE_RELEASE(size);
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A process that no launcher started: PMIx_Init returns PMIX_ERR_UNREACH, and the process is a job of one. Without an
 * argument the program checks what OpenPMIx 4.2.2 and 5.0.11 do; with "all" it also checks what only this library
 * does.
 */
#define _GNU_SOURCE
#include <pmix.h>
#include <pmix_tool.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

/* True if the program checks this library. */
static bool all;

static pmix_proc_t self;
static pmix_proc_t job;

/* The result of the last callback, and the number of callbacks. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int answered;
static pmix_status_t answer;
static size_t registered;
static int told;
static pmix_status_t told_code;

static void finish(pmix_status_t status)
{
    pthread_mutex_lock(&lock);
    answered++;
    answer = status;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static pmix_status_t wait_for_answer(void)
{
    pthread_mutex_lock(&lock);
    while (answered == 0) {
        pthread_cond_wait(&changed, &lock);
    }
    answered--;
    pthread_mutex_unlock(&lock);
    return answer;
}

/* Waits until the event handler has run, and returns the code of its event. */
static pmix_status_t wait_for_event(void)
{
    pthread_mutex_lock(&lock);
    while (told == 0) {
        pthread_cond_wait(&changed, &lock);
    }
    told--;
    pthread_mutex_unlock(&lock);
    return told_code;
}

static void op_done(pmix_status_t status, void *cbdata)
{
    (void)cbdata;
    finish(status);
}

static void value_done(pmix_status_t status, pmix_value_t *value, void *cbdata)
{
    (void)cbdata;
    HOLDS((status == PMIX_SUCCESS) == (value != NULL));
    finish(status);
}

static void handler_done(pmix_status_t status, size_t id, void *cbdata)
{
    (void)cbdata;
    registered = id;
    finish(status);
}

static void handler(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void)id;
    (void)info;
    (void)ninfo;
    (void)results;
    (void)nresults;
    HOLDS(PMIX_CHECK_PROCID(source, &self));
    pthread_mutex_lock(&lock);
    told++;
    told_code = code;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

/* Returns the value as a number, whatever its type is. */
static long number(const pmix_value_t *value)
{
    switch (value->type) {
    case PMIX_UINT16:
        return value->data.uint16;
    case PMIX_UINT32:
        return value->data.uint32;
    case PMIX_INT:
        return value->data.integer;
    case PMIX_PROC_RANK:
        return value->data.rank;
    default:
        fprintf(stderr, "no number: type %d\n", (int)value->type);
        exit(1);
    }
}

/* A key of the job or of the process. `in_4` and `in_5` are true if OpenPMIx 4.2.2 and 5.0.11 have it as well. */
struct key {
    const char *key;
    bool of_job;
    bool in_4;
    bool in_5;
    long number;
    const char *text;
};

static void check_keys(bool is_4)
{
    char host[256];
    HOLDS(gethostname(host, sizeof(host)) == 0);
    const struct key keys[] = {
        {PMIX_JOB_SIZE, true, true, true, 1, NULL},
        {PMIX_MAX_PROCS, true, true, true, 1, NULL},
        {PMIX_NPROC_OFFSET, true, true, true, 0, NULL},
        {PMIX_LOCAL_SIZE, true, true, false, 1, NULL},
        {PMIX_NODE_SIZE, true, true, false, 1, NULL},
        {PMIX_LOCALLDR, true, true, false, 0, NULL},
        {PMIX_LOCAL_PEERS, true, true, false, 0, "0"},
        {PMIX_JOBID, true, true, true, 0, self.nspace},
        {PMIX_NODE_MAP, true, true, true, 0, host},
        {PMIX_PROC_MAP, true, true, true, 0, "0"},
        {PMIX_NUM_NODES, true, false, false, 1, NULL},
        {PMIX_LOCAL_RANK, false, true, true, 0, NULL},
        {PMIX_APPNUM, false, true, true, 0, NULL},
        {PMIX_APP_RANK, false, true, true, 0, NULL},
        {PMIX_GLOBAL_RANK, false, true, true, 0, NULL},
        {PMIX_RANK, false, true, true, 0, NULL},
        {PMIX_HOSTNAME, false, true, true, 0, host},
        {PMIX_APPLDR, false, true, false, 0, NULL},
        {PMIX_NODE_RANK, false, false, false, 0, NULL},
        {PMIX_NODEID, false, false, false, 0, NULL},
    };
    const char *nowhere[] = {PMIX_UNIV_SIZE, PMIX_PARENT_ID, PMIX_SERVER_NSPACE, PMIX_CLUSTER_ID,
                             PMIX_TMPDIR,    PMIX_CPUSET,    PMIX_SPAWNED,       "my.key"};
    for (size_t at = 0; at < sizeof(keys) / sizeof(keys[0]); at++) {
        const struct key *key = &keys[at];
        pmix_value_t *value = NULL;
        pmix_status_t found = PMIx_Get(key->of_job ? &job : &self, key->key, NULL, 0, &value);
        bool expected = all || (is_4 ? key->in_4 : key->in_5);
        if ((found == PMIX_SUCCESS) != expected) {
            fprintf(stderr, "%s: %s\n", key->key, PMIx_Error_string(found));
            exit(1);
        }
        if (found != PMIX_SUCCESS) {
            IS(PMIX_ERR_NOT_FOUND, found);
            continue;
        }
        if (key->text != NULL) {
            HOLDS(value->type == PMIX_STRING && strcmp(value->data.string, key->text) == 0);
        } else if (number(value) != key->number) {
            fprintf(stderr, "%s: %ld\n", key->key, number(value));
            exit(1);
        }
        PMIX_VALUE_RELEASE(value);
    }
    for (size_t at = 0; at < sizeof(nowhere) / sizeof(nowhere[0]); at++) {
        pmix_value_t *value = NULL;
        IS(PMIX_ERR_NOT_FOUND, PMIx_Get(&self, nowhere[at], NULL, 0, &value));
        IS(PMIX_ERR_NOT_FOUND, PMIx_Get(&job, nowhere[at], NULL, 0, &value));
    }
    IS(PMIX_SUCCESS, PMIx_Get_nb(&job, PMIX_JOB_SIZE, NULL, 0, value_done, NULL));
    IS(PMIX_SUCCESS, wait_for_answer());
    IS(PMIX_SUCCESS, PMIx_Get_nb(&self, "my.key", NULL, 0, value_done, NULL));
    IS(PMIX_ERR_NOT_FOUND, wait_for_answer());
}

/* A failed get leaves no value, and own data are found without a server. */
static void check_gets(void)
{
    static pmix_value_t mark;
    pmix_value_t put, *value = &mark, *array;
    pmix_proc_t proc;
    pmix_info_t info;
    bool refresh = true;

    IS(PMIX_ERR_NOT_FOUND, PMIx_Get(&self, "my.key", NULL, 0, &value));
    HOLDS(value == NULL);
    IS(PMIX_SUCCESS, PMIx_Get(&self, NULL, NULL, 0, &array));
    HOLDS(array->type == PMIX_DATA_ARRAY && array->data.darray->type == PMIX_INFO && array->data.darray->size >= 7);
    PMIX_VALUE_RELEASE(array);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Get(NULL, NULL, NULL, 0, &value));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Get(&job, NULL, NULL, 0, &value));
    if (!all) {
        return;
    }
    IS(PMIX_SUCCESS, PMIx_Get_nb(&self, NULL, NULL, 0, value_done, NULL));
    IS(PMIX_SUCCESS, wait_for_answer());
    /* 4.2.2 does not find the rank, and 5.0.11 waits forever if data must be refreshed. */
    memcpy(&proc, &self, sizeof(proc));
    proc.rank = PMIX_RANK_INVALID;
    IS(PMIX_SUCCESS, PMIx_Get(&proc, PMIX_RANK, NULL, 0, &value));
    HOLDS(number(value) == self.rank);
    PMIX_VALUE_RELEASE(value);
    PMIX_INFO_LOAD(&info, PMIX_GET_REFRESH_CACHE, &refresh, PMIX_BOOL);
    put.type = PMIX_UINT32;
    put.data.uint32 = 9;
    IS(PMIX_SUCCESS, PMIx_Store_internal(&self, "kept", &put));
    IS(PMIX_SUCCESS, PMIx_Get(&self, "kept", &info, 1, &value));
    HOLDS(number(value) == 9);
    PMIX_VALUE_RELEASE(value);
    IS(PMIX_SUCCESS, PMIx_Get(&self, PMIX_LOCAL_RANK, &info, 1, &value));
    PMIX_VALUE_RELEASE(value);
}

static void check_data(void)
{
    const pmix_scope_t scopes[] = {PMIX_LOCAL, PMIX_REMOTE, PMIX_GLOBAL, PMIX_INTERNAL};
    pmix_value_t *value = NULL;
    pmix_value_t put;
    put.type = PMIX_UINT32;
    for (size_t at = 0; at < sizeof(scopes) / sizeof(scopes[0]); at++) {
        char key[32];
        snprintf(key, sizeof(key), "key.%zu", at);
        put.data.uint32 = (uint32_t)at;
        IS(PMIX_SUCCESS, PMIx_Put(scopes[at], key, &put));
        IS(PMIX_SUCCESS, PMIx_Commit());
        IS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, NULL, 0));
        IS(PMIX_SUCCESS, PMIx_Get(&self, key, NULL, 0, &value));
        HOLDS(number(value) == (long)at);
        PMIX_VALUE_RELEASE(value);
    }
    IS(PMIX_SUCCESS, PMIx_Store_internal(&self, "stored", &put));
    IS(PMIX_SUCCESS, PMIx_Get(&self, "stored", NULL, 0, &value));
    PMIX_VALUE_RELEASE(value);
    IS(PMIX_SUCCESS, PMIx_Commit());
    IS(PMIX_SUCCESS, PMIx_Fence(&self, 1, NULL, 0));
    IS(PMIX_SUCCESS, PMIx_Fence(&job, 1, NULL, 0));
    bool collect = true;
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    IS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, &info, 1));
}

/* Only this library has these: calls with a callback, and an error for processes that do not exist. */
static void check_more_fences(void)
{
    pmix_proc_t others[2];
    IS(PMIX_SUCCESS, PMIx_Fence_nb(NULL, 0, NULL, 0, op_done, NULL));
    IS(PMIX_SUCCESS, wait_for_answer());
    PMIX_LOAD_PROCID(&others[0], self.nspace, self.rank);
    PMIX_LOAD_PROCID(&others[1], self.nspace, 1);
    IS(PMIX_ERR_UNREACH, PMIx_Fence(others, 2, NULL, 0));
    IS(PMIX_ERR_UNREACH, PMIx_Fence_nb(others, 2, NULL, 0, op_done, NULL));
    IS(PMIX_ERR_UNREACH, PMIx_Connect(others, 2, NULL, 0));
    IS(PMIX_SUCCESS, PMIx_Connect(&self, 1, NULL, 0));
    IS(PMIX_SUCCESS, PMIx_Disconnect(&self, 1, NULL, 0));
    IS(PMIX_SUCCESS, PMIx_Connect_nb(&job, 1, NULL, 0, op_done, NULL));
    IS(PMIX_SUCCESS, wait_for_answer());
    IS(PMIX_SUCCESS, PMIx_Disconnect_nb(&job, 1, NULL, 0, op_done, NULL));
    IS(PMIX_SUCCESS, wait_for_answer());
    PMIX_LOAD_PROCID(&others[0], "other", 0);
    IS(PMIX_ERR_UNREACH, PMIx_Fence(others, 1, NULL, 0));
    IS(PMIX_ERR_UNREACH, PMIx_Disconnect(others, 1, NULL, 0));
}

/* Requests that need a server fail at once. */
static void check_requests(void)
{
    int one = 1;
    char *keys[] = {"published", NULL};
    char *asked[] = {PMIX_QUERY_NAMESPACES, NULL};
    char *words[] = {"true", NULL};
    char nspace[PMIX_MAX_NSLEN + 1];
    pmix_info_t info, *results;
    pmix_pdata_t found;
    pmix_query_t query;
    pmix_app_t app;
    size_t count;

    PMIX_INFO_LOAD(&info, "published", &one, PMIX_INT);
    PMIX_PDATA_CONSTRUCT(&found);
    PMIX_LOAD_KEY(found.key, "published");
    PMIX_QUERY_CONSTRUCT(&query);
    query.keys = asked;
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = "true";
    app.argv = words;
    app.maxprocs = 1;
    IS(PMIX_ERR_UNREACH, PMIx_Publish(&info, 1));
    IS(PMIX_ERR_UNREACH, PMIx_Publish_nb(&info, 1, op_done, NULL));
    IS(PMIX_ERR_UNREACH, PMIx_Lookup(&found, 1, NULL, 0));
    IS(PMIX_ERR_UNREACH, PMIx_Unpublish(keys, NULL, 0));
    IS(PMIX_ERR_UNREACH, PMIx_Unpublish_nb(keys, NULL, 0, op_done, NULL));
    IS(PMIX_ERR_UNREACH, PMIx_Spawn(NULL, 0, &app, 1, nspace));
    IS(PMIX_ERR_UNREACH, PMIx_Query_info(&query, 1, &results, &count));
    IS(PMIX_ERR_UNREACH, PMIx_Log(&info, 1, NULL, 0));
    IS(PMIX_ERR_UNREACH, PMIx_Log_nb(&info, 1, NULL, 0, op_done, NULL));
    IS(PMIX_ERR_UNREACH, PMIx_Job_control(NULL, 0, &info, 1, &results, &count));
    IS(PMIX_ERR_UNREACH, PMIx_Allocation_request(PMIX_ALLOC_NEW, &info, 1, &results, &count));
    IS(PMIX_ERR_UNREACH, PMIx_Process_monitor(&info, PMIX_MONITOR_FILE_ALERT, NULL, 0, &results, &count));
    IS(PMIX_ERR_UNREACH, PMIx_Abort(1, "ended by itself", NULL, 0));
    IS(PMIX_ERR_UNREACH, PMIx_Group_construct("group", &self, 1, NULL, 0, &results, &count));
    IS(PMIX_ERR_UNREACH, PMIx_Group_invite("group", &self, 1, NULL, 0, &results, &count));
    IS(PMIX_ERR_UNREACH, PMIx_Group_join("group", &self, PMIX_GROUP_ACCEPT, NULL, 0, &results, &count));
    IS(PMIX_ERR_UNREACH, PMIx_Group_leave("group", NULL, 0));
    IS(PMIX_ERR_UNREACH, PMIx_Group_destruct("group", NULL, 0));
    IS(PMIX_ERR_UNREACH, PMIx_IOF_pull(&self, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, NULL, NULL, NULL));
    PMIx_Heartbeat();
    if (all) {
        pmix_byte_object_t bytes = {"x", 1};
        /* The released libraries wait forever here, or return another status. */
        IS(PMIX_ERR_UNREACH, PMIx_IOF_push(&self, 1, &bytes, NULL, 0, NULL, NULL));
        IS(PMIX_ERR_UNREACH, PMIx_IOF_push(&self, 1, &bytes, NULL, 0, op_done, NULL));
        IS(PMIX_ERR_UNREACH, PMIx_Get_credential(NULL, 0, &bytes));
    }
}

static void check_events(void)
{
    pmix_status_t code = -3100;
    const pmix_data_range_t wide[] = {PMIX_RANGE_LOCAL, PMIX_RANGE_SESSION, PMIX_RANGE_GLOBAL, PMIX_RANGE_RM};

    PMIx_Register_event_handler(&code, 1, NULL, 0, handler, handler_done, NULL);
    IS(PMIX_SUCCESS, wait_for_answer());
    IS(PMIX_SUCCESS, PMIx_Notify_event(code, &self, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
    IS(code, wait_for_event());
    IS(PMIX_SUCCESS, PMIx_Notify_event(code, &self, PMIX_RANGE_PROC_LOCAL, NULL, 0, op_done, NULL));
    IS(PMIX_SUCCESS, wait_for_answer());
    IS(code, wait_for_event());
    for (size_t at = 0; at < sizeof(wide) / sizeof(wide[0]); at++) {
        IS(PMIX_ERR_UNREACH, PMIx_Notify_event(code, &self, wide[at], NULL, 0, NULL, NULL));
    }
    if (all) {
        pmix_info_t info;
        IS(PMIX_SUCCESS, PMIx_Notify_event(code, &self, PMIX_RANGE_NAMESPACE, NULL, 0, op_done, NULL));
        IS(PMIX_SUCCESS, wait_for_answer());
        IS(code, wait_for_event());
        PMIX_INFO_LOAD(&info, PMIX_EVENT_CUSTOM_RANGE, &self, PMIX_PROC);
        IS(PMIX_SUCCESS, PMIx_Notify_event(code, &self, PMIX_RANGE_CUSTOM, &info, 1, NULL, NULL));
        IS(code, wait_for_event());
        PMIX_INFO_DESTRUCT(&info);
    }
    IS(PMIX_SUCCESS, PMIx_Deregister_event_handler(registered, op_done, NULL));
    IS(PMIX_SUCCESS, wait_for_answer());
    /* An event without a handler is kept for the next handler, which is a default handler here. */
    IS(PMIX_SUCCESS, PMIx_Notify_event(code, &self, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
    if (all) {
        IS(PMIX_SUCCESS, PMIx_Notify_event(code, &self, PMIX_RANGE_NAMESPACE, NULL, 0, NULL, NULL));
    }
    int id = PMIx_Register_event_handler(NULL, 0, NULL, 0, handler, NULL, NULL);
    HOLDS(id >= 0);
    IS(code, wait_for_event());
    if (all) {
        IS(code, wait_for_event());
    }
    IS(PMIX_SUCCESS, PMIx_Deregister_event_handler((size_t)id, NULL, NULL));
    if (all) {
        HOLDS(told == 0);
    }
    told = 0;
}

int main(int argc, char **argv)
{
    pmix_proc_t other;
    pmix_proc_t *peers = NULL;
    size_t count = 0;

    /* A call that never returns fails the test. */
    alarm(120);
    all = argc > 1 && strcmp(argv[1], "all") == 0;
    /* The second finalize of OpenPMIx 5.0.11 frees hwloc's topology twice. */
    for (int turn = 0; turn < (all ? 2 : 1); turn++) {
        HOLDS(PMIx_Initialized() == 0);
        IS(PMIX_ERR_UNREACH, PMIx_Init(&self, NULL, 0));
        HOLDS(PMIx_Initialized() == 1);
        HOLDS(strncmp(self.nspace, "singleton.", 10) == 0 && self.rank == 0);
        PMIX_LOAD_PROCID(&job, self.nspace, PMIX_RANK_WILDCARD);
        check_keys(strncmp(PMIx_Get_version(), "OpenPMIx 4", 10) == 0);
        check_gets();
        check_data();
        check_requests();
        check_events();
        if (all) {
            check_more_fences();
            IS(PMIX_SUCCESS, PMIx_Resolve_peers(NULL, self.nspace, &peers, &count));
            HOLDS(count == 1 && PMIX_CHECK_PROCID(&peers[0], &self));
            PMIX_PROC_FREE(peers, count);
        }
        /* A second init returns the same status, and the first finalize only decrements the init count. */
        IS(PMIX_ERR_UNREACH, PMIx_Init(&other, NULL, 0));
        HOLDS(PMIX_CHECK_PROCID(&other, &self));
        IS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
        HOLDS(PMIx_Initialized() == 1);
        IS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
        HOLDS(PMIx_Initialized() == 0);
        IS(PMIX_ERR_INIT, PMIx_Commit());
    }
    if (all) {
        IS(PMIX_ERR_UNREACH, PMIx_Init(NULL, NULL, 0));
        IS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    }
    printf("singleton: ok\n");
    return 0;
}

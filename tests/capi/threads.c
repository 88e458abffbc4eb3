/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A client in which many threads call the library at once. Each thread initializes, puts, commits, gets, registers
 * an event handler, receives an event, deregisters the handler and finalizes, again and again. Meanwhile the main
 * thread forks children without a role. Arguments: the number of threads, of rounds for each, and of forks.
 */
#define _GNU_SOURCE
#include <pmix.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 256
#define FIRST_CODE (-50000)

static int threads = 64, rounds = 10, forks = 20;
static atomic_int running;

static void must_be(int line, const char *what, pmix_status_t status, pmix_status_t expected)
{
    if (status != expected) {
        fprintf(stderr, "line %d: %s: %s (%d), not %d\n", line, what, PMIx_Error_string(status), status, expected);
        _exit(1);
    }
}
#define MUST(call) must_be(__LINE__, #call, call, PMIX_SUCCESS)

/* The events received for one thread, which the handler finds by their code. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int heard, registered;
    size_t handler;
} ear_t;

static ear_t ears[MOST];

static void hears(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                  pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    ear_t *ear = &ears[FIRST_CODE - status];
    (void)id, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    pthread_mutex_lock(&ear->lock);
    ear->heard++;
    pthread_cond_signal(&ear->changed);
    pthread_mutex_unlock(&ear->lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static void is_registered(pmix_status_t status, size_t id, void *cbdata)
{
    ear_t *ear = cbdata;
    must_be(__LINE__, "a handler", status, PMIX_SUCCESS);
    pthread_mutex_lock(&ear->lock);
    ear->handler = id;
    ear->registered = 1;
    pthread_cond_signal(&ear->changed);
    pthread_mutex_unlock(&ear->lock);
}

/* Waits until a count is not 0, and resets it. */
static void wait_for(ear_t *ear, int *count)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&ear->lock);
    while (*count == 0) {
        if (pthread_cond_timedwait(&ear->changed, &ear->lock, &until) != 0) {
            fprintf(stderr, "nothing was heard for a minute\n");
            _exit(1);
        }
    }
    *count = 0;
    pthread_mutex_unlock(&ear->lock);
}

static void hear_one(int number)
{
    ear_t *ear = &ears[number];
    pmix_status_t code = FIRST_CODE - number;
    pmix_proc_t all;

    PMIX_LOAD_PROCID(&all, "", PMIX_RANK_WILDCARD);
    PMIx_Register_event_handler(&code, 1, NULL, 0, hears, is_registered, ear);
    wait_for(ear, &ear->registered);
    MUST(PMIx_Notify_event(code, NULL, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
    wait_for(ear, &ear->heard);
    MUST(PMIx_Deregister_event_handler(ear->handler, NULL, NULL));
}

static void *acts(void *given)
{
    int number = (int)((ear_t *)given - ears);
    char key[32], text[32];
    int round;

    for (round = 0; round < rounds; round++) {
        pmix_proc_t own, job;
        pmix_value_t value, *found = NULL;

        MUST(PMIx_Init(&own, NULL, 0));
        snprintf(key, sizeof(key), "of.%d", number);
        snprintf(text, sizeof(text), "%d.%d", number, round);
        PMIX_VALUE_LOAD(&value, text, PMIX_STRING);
        MUST(PMIx_Put(PMIX_GLOBAL, key, &value));
        PMIX_VALUE_DESTRUCT(&value);
        MUST(PMIx_Commit());
        MUST(PMIx_Get(&own, key, NULL, 0, &found));
        must_be(__LINE__, "what was put", strcmp(found->data.string, text), 0);
        PMIX_VALUE_RELEASE(found);
        PMIX_LOAD_PROCID(&job, own.nspace, PMIX_RANK_WILDCARD);
        MUST(PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &found));
        must_be(__LINE__, "the size of the job", (int)found->data.uint32, 1);
        PMIX_VALUE_RELEASE(found);
        hear_one(number);
        MUST(PMIx_Finalize(NULL, 0));
    }
    running--;
    return NULL;
}

/* The child of a fork is not initialized, whatever the threads of the parent were doing. */
static int child(void)
{
    pmix_proc_t own;
    pmix_value_t *found = NULL;
    pmix_info_t *infos;

    PMIX_LOAD_PROCID(&own, "job", 0);
    if (PMIx_Initialized() || PMIx_Commit() != PMIX_ERR_INIT || PMIx_Finalize(NULL, 0) != PMIX_ERR_INIT) {
        return 2;
    }
    if (PMIx_Get(&own, PMIX_JOB_SIZE, NULL, 0, &found) != PMIX_ERR_INIT || PMIx_Fence(NULL, 0, NULL, 0) != PMIX_ERR_INIT) {
        return 3;
    }
    PMIX_INFO_CREATE(infos, 2);
    PMIX_INFO_LOAD(&infos[0], PMIX_HOSTNAME, "here", PMIX_STRING);
    PMIX_INFO_FREE(infos, 2);
    return strcmp(PMIx_Error_string(PMIX_ERR_INIT), "PMIX_ERR_INIT") == 0 ? 0 : 4;
}

static void forks_one(int number)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        alarm(30);
        _exit(child());
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "fork %d: status %d\n", number, status);
        _exit(1);
    }
}

int main(int argc, char **argv)
{
    pthread_t all[MOST];
    int i;

    threads = argc > 1 ? atoi(argv[1]) : threads;
    rounds = argc > 2 ? atoi(argv[2]) : rounds;
    forks = argc > 3 ? atoi(argv[3]) : forks;
    if (threads < 1 || threads > MOST) {
        return 64;
    }
    alarm(150);
    for (i = 0; i < threads; i++) {
        pthread_mutex_init(&ears[i].lock, NULL);
        pthread_cond_init(&ears[i].changed, NULL);
    }
    running = threads;
    for (i = 0; i < threads; i++) {
        if (pthread_create(&all[i], NULL, acts, &ears[i]) != 0) {
            return 1;
        }
    }
    for (i = 0; i < forks && running > 0; i++) {
        forks_one(i);
    }
    for (i = 0; i < threads; i++) {
        pthread_join(all[i], NULL);
    }
    if (PMIx_Initialized()) {
        fprintf(stderr, "still initialised\n");
        return 1;
    }
    printf("threads: ok\n");
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The header that the example programs of libpmix-dev include but the package lacks: a lock to wait for a callback. */
#ifndef PMIXRS_SERVER_EXAMPLES_H
#define PMIXRS_SERVER_EXAMPLES_H

#include <pmix_common.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    bool waiting;
    /* The status passed to the callback. */
    pmix_status_t status;
    size_t evhandler_ref;
    int count;
} mylock_t;

/* A lock that the library passes through as the object of an event handler. */
typedef struct {
    mylock_t lock;
    char *nspace;
    int exit_code;
    bool exit_code_given;
} myrel_t;

/* The results of a query. Some programs wait for the lock, one polls the flag. */
typedef struct {
    volatile bool active;
    mylock_t lock;
    pmix_info_t *info;
    size_t ninfo;
} myquery_data_t;

static inline void lock_make(mylock_t *lock)
{
    memset(lock, 0, sizeof(*lock));
    pthread_mutex_init(&lock->mutex, NULL);
    pthread_cond_init(&lock->woken, NULL);
    lock->waiting = true;
}

static inline void lock_wait(mylock_t *lock)
{
    pthread_mutex_lock(&lock->mutex);
    while (lock->waiting) {
        pthread_cond_wait(&lock->woken, &lock->mutex);
    }
    pthread_mutex_unlock(&lock->mutex);
}

static inline void lock_wake(mylock_t *lock)
{
    pthread_mutex_lock(&lock->mutex);
    lock->waiting = false;
    pthread_cond_broadcast(&lock->woken);
    pthread_mutex_unlock(&lock->mutex);
}

static inline void lock_drop(mylock_t *lock)
{
    pthread_cond_destroy(&lock->woken);
    pthread_mutex_destroy(&lock->mutex);
}

static inline void release_make(myrel_t *release)
{
    memset(release, 0, sizeof(*release));
    lock_make(&release->lock);
}

static inline void release_drop(myrel_t *release)
{
    lock_drop(&release->lock);
    free(release->nspace);
}

static inline void query_make(myquery_data_t *query)
{
    memset(query, 0, sizeof(*query));
    lock_make(&query->lock);
}

static inline void query_drop(myquery_data_t *query)
{
    lock_drop(&query->lock);
    if (query->info != NULL) {
        PMIX_INFO_FREE(query->info, query->ninfo);
    }
}

static inline void take_any(int first, ...)
{
    (void) first;
}

#define DEBUG_CONSTRUCT_LOCK(lock) lock_make(lock)
#define DEBUG_DESTRUCT_LOCK(lock) lock_drop(lock)
#define DEBUG_WAIT_THREAD(lock) lock_wait(lock)
#define DEBUG_WAKEUP_THREAD(lock) lock_wake(lock)
#define DEBUG_CONSTRUCT_MYREL(release) release_make(release)
#define DEBUG_DESTRUCT_MYREL(release) release_drop(release)
#define DEBUG_CONSTRUCT_MYQUERY(query) query_make(query)
#define DEBUG_DESTRUCT_MYQUERY(query) query_drop(query)
#define EXAMPLES_HIDE_UNUSED_PARAMS(...) take_any(0, __VA_ARGS__)

#endif

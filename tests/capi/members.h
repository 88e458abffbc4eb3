/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Common code of the members of groups. A member ends with 1 after a failed check, and prints a line for its rank.
 * Handlers count the events that they receive. Included by led.c and invite.c.
 */
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pmix_proc_t own;

static inline void must_be(const char *what, pmix_status_t expected, pmix_status_t status)
{
    if (status != expected) {
        fprintf(stderr, "rank %u: %s: %s (%d)\n", own.rank, what, PMIx_Error_string(status), status);
        exit(1);
    }
}

static inline void must(const char *what, pmix_status_t status)
{
    must_be(what, PMIX_SUCCESS, status);
}

static inline void must_hold(const char *what, int holds)
{
    if (!holds) {
        fprintf(stderr, "rank %u: %s\n", own.rank, what);
        exit(1);
    }
}

/* Waits until a count is at least `expected`, for at most a minute. Returns the count. */
static inline int wait_for_at_least(const char *what, const int *count, int expected)
{
    struct timespec end;
    int late = 0, found;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 60;
    pthread_mutex_lock(&lock);
    while (*count < expected && late == 0) {
        late = pthread_cond_timedwait(&changed, &lock, &end);
    }
    found = *count;
    pthread_mutex_unlock(&lock);
    must_hold(what, found >= expected);
    return found;
}

/* Waits until a count is `expected`, and checks that it is not larger. */
static inline void wait_for(const char *what, const int *count, int expected)
{
    must_hold(what, wait_for_at_least(what, count, expected) == expected);
}

static inline void counted(int *count)
{
    pthread_mutex_lock(&lock);
    (*count)++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static inline void expect(pmix_status_t status, pmix_notification_fn_t handler)
{
    pmix_status_t id = PMIx_Register_event_handler(&status, 1, NULL, 0, handler, NULL, NULL);

    must_hold("a handler is not registered", id >= 0);
}

/* Fences the members of a group, or of the job if the name is NULL. */
static inline void fence(const char *name)
{
    pmix_proc_t group;

    if (name != NULL) {
        PMIX_LOAD_PROCID(&group, name, PMIX_RANK_WILDCARD);
    }
    must("fence", PMIx_Fence(name == NULL ? NULL : &group, name == NULL ? 0 : 1, NULL, 0));
}

static inline void destruct(const char *name)
{
    bool yes = true;
    pmix_info_t local;

    PMIX_INFO_LOAD(&local, PMIX_GROUP_LOCAL_ONLY, &yes, PMIX_BOOL);
    must("destruct", PMIx_Group_destruct(name, &local, 1));
    PMIX_INFO_DESTRUCT(&local);
}

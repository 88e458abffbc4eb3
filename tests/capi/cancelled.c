/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads of a client that are canceled while they wait in the library. Each ends at its next cancellation point
 * after the call, and the client continues. The other process of the job never takes part.
 */
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 4
#define IS(expected, found) is(__LINE__, #found, expected, found)

static void is(int line, const char *what, long expected, long found)
{
    if (found != expected) {
        fprintf(stderr, "line %d: %s: %ld, not %ld\n", line, what, found, expected);
        exit(1);
    }
}

static pmix_proc_t own;
static pthread_barrier_t begun;
static int returned[THREADS];

static void *waits(void *place)
{
    int number = (int)(size_t)place;
    pmix_value_t *value = NULL;
    pmix_proc_t other = own;
    int state;

    pthread_barrier_wait(&begun);
    other.rank = 1;
    if (number % 2 == 0) {
        PMIx_Get(&other, "never", NULL, 0, &value);
    } else {
        other.rank = PMIX_RANK_WILDCARD;
        PMIx_Fence(&other, 1, NULL, 0);
    }
    returned[number] = 1;
    /* The cancellation state is the one from before the call. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    returned[number] += state == PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pthread_testcancel();
    return NULL;
}

/* A call leaves cancellation disabled if the caller has disabled it. */
static void stays_as_it_was(void)
{
    int state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    IS(PMIX_SUCCESS, PMIx_Fence(&own, 1, NULL, 0));
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    IS(PTHREAD_CANCEL_DISABLE, state);
    IS(PMIX_SUCCESS, PMIx_Fence(&own, 1, NULL, 0));
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    IS(PTHREAD_CANCEL_ENABLE, state);
}

int main(void)
{
    pthread_t threads[THREADS];
    size_t i;

    alarm(120);
    IS(PMIX_SUCCESS, PMIx_Init(&own, NULL, 0));
    stays_as_it_was();
    pthread_barrier_init(&begun, NULL, THREADS + 1);
    for (i = 0; i < THREADS; i++) {
        IS(0, pthread_create(&threads[i], NULL, waits, (void *)i));
    }
    pthread_barrier_wait(&begun);
    /* Some threads are in the call by then, others enter it with a pending cancellation. The call unwinds neither. */
    for (i = 0; i < THREADS; i++) {
        IS(PMIX_SUCCESS, PMIx_Fence(&own, 1, NULL, 0));
        IS(0, pthread_cancel(threads[i]));
    }
    IS(PMIX_SUCCESS, PMIx_Fence(&own, 1, NULL, 0));
    IS(PMIX_SUCCESS, PMIx_Commit());
    /* Finalize ends the calls that still wait. */
    IS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    for (i = 0; i < THREADS; i++) {
        void *end = NULL;

        IS(0, pthread_join(threads[i], &end));
        IS(1, end == PTHREAD_CANCELED);
        IS(2, returned[i]);
    }
    printf("cancelled: ok\n");
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A client in a process that cannot start another thread. A call with a callback fails, other calls succeed, and
 * the same call succeeds when a thread can be started again.
 */
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define IS(expected, found) is(__LINE__, #found, expected, found)

static void is(int line, const char *what, long expected, long found)
{
    if (found != expected) {
        fprintf(stderr, "line %d: %s: %ld, not %ld\n", line, what, found, expected);
        exit(1);
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int called;

static void ends(pmix_status_t status, void *cbdata)
{
    (void)cbdata;
    pthread_mutex_lock(&lock);
    called = status == PMIX_SUCCESS ? 1 : -1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

int main(void)
{
    struct rlimit before, small;
    unsigned long pages = 0;
    pmix_proc_t own;
    FILE *file;

    alarm(120);
    IS(PMIX_SUCCESS, PMIx_Init(&own, NULL, 0));
    IS(PMIX_SUCCESS, PMIx_Fence(&own, 1, NULL, 0));
    file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lu", &pages) != 1 || getrlimit(RLIMIT_AS, &before) != 0) {
        return 2;
    }
    fclose(file);
    /* There is enough memory for a call, but not for the stack of a thread. */
    small = before;
    small.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + (256 << 10);
    IS(0, setrlimit(RLIMIT_AS, &small));
    IS(PMIX_ERR_OUT_OF_RESOURCE, PMIx_Fence_nb(&own, 1, NULL, 0, ends, NULL));
    IS(PMIX_SUCCESS, PMIx_Fence(&own, 1, NULL, 0));
    IS(0, setrlimit(RLIMIT_AS, &before));
    IS(0, called);
    IS(PMIX_SUCCESS, PMIx_Fence_nb(&own, 1, NULL, 0, ends, NULL));
    pthread_mutex_lock(&lock);
    while (!called) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    IS(1, called);
    IS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    printf("unthreaded: ok\n");
    return 0;
}

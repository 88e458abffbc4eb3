/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Processes that construct groups. All of them construct one, which the last process leaves and the others
 * destruct, and then another one of the same name. They fence by its name. Each process prints a line for its
 * rank, and exits with 0 if every check held.
 */
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIZE 3
#define GROUP "C group"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int num_left;

static void must_be(const char *what, pmix_status_t expected, pmix_status_t status)
{
    if (status != expected) {
        fprintf(stderr, "%s: %s (%d)\n", what, PMIx_Error_string(status), status);
        exit(1);
    }
}

static void must(const char *what, pmix_status_t status)
{
    must_be(what, PMIX_SUCCESS, status);
}

static void left(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                 size_t ninfo, pmix_info_t *results, size_t nresults,
                 pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void)id, (void)info, (void)ninfo, (void)results, (void)nresults;
    pthread_mutex_lock(&lock);
    if (status == PMIX_GROUP_LEFT && source->rank == SIZE - 1) {
        num_left++;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

/* Waits until a member has left, for at most a minute. */
static void wait_until_left(void)
{
    struct timespec end;
    int late = 0, come;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 60;
    pthread_mutex_lock(&lock);
    while (num_left == 0 && late == 0) {
        late = pthread_cond_timedwait(&changed, &lock, &end);
    }
    come = num_left;
    pthread_mutex_unlock(&lock);
    if (come != 1) {
        fprintf(stderr, "%d members left, not one\n", come);
        exit(1);
    }
}

/* Loads the directives of each construct and destruct: no host is needed, and a timeout of a minute. */
static void load(pmix_info_t directives[2])
{
    bool yes = true;
    int limit = 60;

    PMIX_INFO_LOAD(&directives[0], PMIX_GROUP_LOCAL_ONLY, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&directives[1], PMIX_TIMEOUT, &limit, PMIX_INT);
}

static void unload(pmix_info_t directives[2])
{
    PMIX_INFO_DESTRUCT(&directives[0]);
    PMIX_INFO_DESTRUCT(&directives[1]);
}

/* Constructs the group with all ranks in descending order, which becomes their order in the group. */
static void construct(const pmix_proc_t *own, uint32_t size)
{
    pmix_proc_t procs[SIZE];
    pmix_info_t directives[2], *results = NULL;
    size_t num_results = 0;
    uint32_t rank;

    for (rank = 0; rank < size; rank++) {
        PMIX_LOAD_PROCID(&procs[rank], own->nspace, size - 1 - rank);
    }
    load(directives);
    must("construct", PMIx_Group_construct(GROUP, procs, size, directives, 2, &results, &num_results));
    PMIX_INFO_FREE(results, num_results);
    must_be("construct again", PMIX_ERR_EXISTS,
            PMIx_Group_construct(GROUP, procs, size, directives, 2, NULL, NULL));
    unload(directives);
}

static void fence(pmix_rank_t rank)
{
    pmix_proc_t group;
    pmix_info_t info;
    int limit = 60;

    PMIX_LOAD_PROCID(&group, GROUP, rank);
    PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &limit, PMIX_INT);
    must("fence by the name of the group", PMIx_Fence(&group, 1, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
}

static void destruct(pmix_status_t expected)
{
    pmix_info_t directives[2];

    load(directives);
    must_be("destruct", expected, PMIx_Group_destruct(GROUP, directives, 2));
    unload(directives);
}

int main(void)
{
    pmix_proc_t own;
    pmix_status_t code = PMIX_GROUP_LEFT, id;

    alarm(120);
    must("init", PMIx_Init(&own, NULL, 0));
    id = PMIx_Register_event_handler(&code, 1, NULL, 0, left, NULL, NULL);
    if (id < 0) {
        must("register", id);
    }
    construct(&own, SIZE);
    fence(PMIX_RANK_WILDCARD);
    if (own.rank == SIZE - 1) {
        must("leave", PMIx_Group_leave(GROUP, NULL, 0));
        must_be("leave again", PMIX_ERR_NOT_FOUND, PMIx_Group_leave(GROUP, NULL, 0));
        destruct(PMIX_ERR_NOT_FOUND);
    } else {
        wait_until_left();
        fence(PMIX_RANK_WILDCARD);
        destruct(PMIX_SUCCESS);
    }
    must("fence", PMIx_Fence(NULL, 0, NULL, 0));
    construct(&own, SIZE);
    /* The rank of this process in the group follows from the order above. */
    fence(SIZE - 1 - own.rank);
    destruct(PMIX_SUCCESS);
    destruct(PMIX_ERR_NOT_FOUND);
    must("finalize", PMIx_Finalize(NULL, 0));
    printf("rank %u of %u: ok\n", own.rank, (unsigned)SIZE);
    return 0;
}

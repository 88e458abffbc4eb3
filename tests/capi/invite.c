/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Processes that form groups by invitation, with rank 0 as the leader. One process joins from its event handler,
 * one from its main thread. In other groups a process leaves, declines, does not answer, or is lost. Each process
 * prints a line for its rank, and exits with 0 if every check held.
 */
#include "members.h"

#include <string.h>
#include <unistd.h>

#define SIZE 3

static pmix_proc_t leader;
/* The number of invitations received, the number handled, and the group of the last one. */
static int num_invited, num_taken;
static char invited_to[PMIX_MAX_NSLEN + 1];
/* The number of joins completed from handlers, and the result of the last one. */
static int num_joined;
static pmix_status_t joined;
static size_t num_members;
static int num_complete, num_declined, num_left;

static size_t members_among(const pmix_info_t *infos, size_t count)
{
    size_t place;

    for (place = 0; place < count; place++) {
        if (PMIX_CHECK_KEY(&infos[place], PMIX_GROUP_MEMBERSHIP)) {
            return infos[place].value.data.darray->size;
        }
    }
    return 0;
}

static void on_joined(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *cbdata,
                      pmix_release_cbfunc_t release, void *release_cbdata)
{
    (void)cbdata;
    pthread_mutex_lock(&lock);
    joined = status;
    num_members = members_among(info, ninfo);
    num_joined++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (release != NULL) {
        release(release_cbdata);
    }
}

/* Rank 1 accepts in the handler, where it must not block. */
static void on_invited(size_t id, pmix_status_t status, const pmix_proc_t *source,
                       pmix_info_t info[], size_t ninfo, pmix_info_t *results, size_t nresults,
                       pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    size_t place;

    (void)id, (void)status, (void)results, (void)nresults;
    pthread_mutex_lock(&lock);
    leader = *source;
    for (place = 0; place < ninfo; place++) {
        if (PMIX_CHECK_KEY(&info[place], PMIX_GROUP_ID)) {
            strncpy(invited_to, info[place].value.data.string, PMIX_MAX_NSLEN);
        }
    }
    num_invited++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (own.rank == 1 && strncmp(invited_to, "silent", 6) != 0) {
        must_be("a join that waits in a handler", PMIX_ERR_WOULD_BLOCK,
                PMIx_Group_join(invited_to, source, PMIX_GROUP_ACCEPT, NULL, 0, NULL, NULL));
        must("join in a handler",
             PMIx_Group_join_nb(invited_to, source, PMIX_GROUP_ACCEPT, NULL, 0, on_joined, NULL));
    }
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                     size_t ninfo, pmix_info_t *results, size_t nresults,
                     pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void)id, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    pthread_mutex_lock(&lock);
    num_complete += status == PMIX_GROUP_CONSTRUCT_COMPLETE;
    num_left += status == PMIX_GROUP_LEFT;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

/* The group "smaller" is formed without the process that declines; any other group is aborted. */
static void on_declined(size_t id, pmix_status_t status, const pmix_proc_t *source,
                        pmix_info_t info[], size_t ninfo, pmix_info_t *results, size_t nresults,
                        pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    pmix_info_t said;
    bool yes = true;
    size_t place;
    int is_smaller = 0;

    (void)id, (void)status, (void)results, (void)nresults;
    must_hold("another declined than rank 2", source->rank == 2);
    for (place = 0; place < ninfo; place++) {
        is_smaller |= PMIX_CHECK_KEY(&info[place], PMIX_GROUP_ID)
                      && strcmp(info[place].value.data.string, "smaller") == 0;
    }
    pthread_mutex_lock(&lock);
    num_declined++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    PMIX_INFO_LOAD(&said, PMIX_GROUP_OPTIONAL, &yes, PMIX_BOOL);
    done(is_smaller ? PMIX_SUCCESS : PMIX_GROUP_CONSTRUCT_ABORT, &said, is_smaller ? 1 : 0, NULL, NULL,
         cbdata);
    PMIX_INFO_DESTRUCT(&said);
}

static pmix_status_t invite(const char *name, int limit, size_t *found)
{
    pmix_proc_t procs[SIZE];
    pmix_info_t info, *results = NULL;
    pmix_status_t status;
    size_t num_results = 0;
    uint32_t rank;

    for (rank = 0; rank < SIZE; rank++) {
        PMIX_LOAD_PROCID(&procs[rank], own.nspace, rank);
    }
    PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &limit, PMIX_INT);
    status = PMIx_Group_invite(name, procs, SIZE, &info, 1, &results, &num_results);
    *found = members_among(results, num_results);
    PMIX_INFO_FREE(results, num_results);
    PMIX_INFO_DESTRUCT(&info);
    return status;
}

/* Waits for the next invitation, which must name this group. */
static void take(const char *name)
{
    wait_for("no invitation came", &num_invited, ++num_taken);
    must_hold("invited to another group", strcmp(invited_to, name) == 0);
}

static pmix_status_t join(const char *name, size_t *found)
{
    pmix_info_t *results = NULL;
    pmix_status_t status;
    size_t num_results = 0;

    take(name);
    /* The library knows the leader from the invitation. */
    status = PMIx_Group_join(name, NULL, PMIX_GROUP_ACCEPT, NULL, 0, &results, &num_results);
    *found = members_among(results, num_results);
    PMIX_INFO_FREE(results, num_results);
    return status;
}

/* Waits for the join that the handler of rank 1 started. */
static pmix_status_t join_of_handler(const char *name, int number, size_t *found)
{
    take(name);
    wait_for("the callback of a join", &num_joined, number);
    *found = num_members;
    return joined;
}

static void all_join(void)
{
    size_t found = 0;

    switch (own.rank) {
    case 0:
        must("invite", invite("whole", 60, &found));
        break;
    case 1:
        must("join", join_of_handler("whole", 1, &found));
        break;
    default:
        must("join", join("whole", &found));
    }
    must_hold("not three members", found == SIZE);
    wait_for("the group is complete", &num_complete, 1);
    fence("whole");
    if (own.rank == 2) {
        must("leave", PMIx_Group_leave("whole", NULL, 0));
        must_be("leave again", PMIX_ERR_NOT_FOUND, PMIx_Group_leave("whole", NULL, 0));
    } else {
        wait_for("a member left", &num_left, 1);
        fence("whole");
        destruct("whole");
    }
    fence(NULL);
}

/* Rank 2 declines: the group is formed without it, or aborted. */
static void one_declines(const char *name, int number, pmix_status_t led, pmix_status_t followed)
{
    size_t found = 0;

    switch (own.rank) {
    case 0:
        must_be("invite", led, invite(name, 60, &found));
        wait_for("one declined", &num_declined, number - 1);
        break;
    case 1:
        must_be("join", followed, join_of_handler(name, number, &found));
        break;
    default:
        take(name);
        must("decline", PMIx_Group_join(name, NULL, PMIX_GROUP_DECLINE, NULL, 0, NULL, NULL));
    }
    if (own.rank != 2 && led == PMIX_SUCCESS) {
        must_hold("not two members", found == 2);
        wait_for("the group is complete", &num_complete, 2);
        fence(name);
        destruct(name);
    }
    fence(NULL);
}

static void nobody_answers(void)
{
    size_t found;

    if (own.rank == 0) {
        must_be("invite", PMIX_ERR_TIMEOUT, invite("silent", 1, &found));
    } else {
        take("silent");
    }
    fence(NULL);
}

static void what_is_wrong_is_refused(void)
{
    pmix_proc_t other;

    PMIX_LOAD_PROCID(&other, own.nspace, own.rank + 1);
    must_be("invite nobody", PMIX_ERR_BAD_PARAM,
            PMIx_Group_invite("x", NULL, 0, NULL, 0, NULL, NULL));
    must_be("invite without a name", PMIX_ERR_BAD_PARAM,
            PMIx_Group_invite(NULL, &own, 1, NULL, 0, NULL, NULL));
    must_be("join without an invitation", PMIX_ERR_NOT_FOUND,
            PMIx_Group_join("x", NULL, PMIX_GROUP_ACCEPT, NULL, 0, NULL, NULL));
    must_be("join oneself", PMIX_ERR_BAD_PARAM,
            PMIx_Group_join_nb("x", &own, PMIX_GROUP_ACCEPT, NULL, 0, on_joined, NULL));
    must_be("answer neither yes nor no", PMIX_ERR_BAD_PARAM,
            PMIx_Group_join("x", &other, (pmix_group_opt_t)7, NULL, 0, NULL, NULL));
}

/* Rank 2 is lost after it has been invited. */
static void one_is_lost(void)
{
    size_t found;

    switch (own.rank) {
    case 0:
        must_be("invite", PMIX_GROUP_CONSTRUCT_ABORT, invite("lost", 60, &found));
        break;
    case 1:
        must_be("join", PMIX_GROUP_CONSTRUCT_ABORT, join_of_handler("lost", 4, &found));
        break;
    default:
        take("lost");
        printf("rank %u of %u: ok\n", own.rank, (unsigned)SIZE);
        fflush(stdout);
        _exit(0);
    }
}

int main(void)
{
    alarm(120);
    must("init", PMIx_Init(&own, NULL, 0));
    expect(PMIX_GROUP_INVITED, on_invited);
    expect(PMIX_GROUP_INVITE_DECLINED, on_declined);
    expect(PMIX_GROUP_CONSTRUCT_COMPLETE, on_event);
    expect(PMIX_GROUP_LEFT, on_event);
    fence(NULL);
    all_join();
    one_declines("smaller", 2, PMIX_SUCCESS, PMIX_SUCCESS);
    one_declines("none", 3, PMIX_GROUP_CONSTRUCT_ABORT, PMIX_GROUP_CONSTRUCT_ABORT);
    nobody_answers();
    what_is_wrong_is_refused();
    fence(NULL);
    one_is_lost();
    must("finalize", PMIx_Finalize(NULL, 0));
    printf("rank %u of %u: ok\n", own.rank, (unsigned)SIZE);
    return 0;
}

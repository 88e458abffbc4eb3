/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Processes that construct groups with a leader. The leader is lost and another process leads, or a member is lost
 * and the leader continues without it or aborts. The results of the event handlers decide. Each process prints a
 * line for its rank, and exits with 0 if every check held.
 */
#include "members.h"

#include <string.h>
#include <unistd.h>

#define SIZE 3

static int num_made, num_failed, num_selected;
static pmix_status_t made;
static size_t num_members;
static pmix_rank_t selected = PMIX_RANK_INVALID;

static void on_made(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *cbdata,
                    pmix_release_cbfunc_t release, void *release_cbdata)
{
    size_t place;

    (void)cbdata;
    made = status;
    for (place = 0; place < ninfo; place++) {
        if (PMIX_CHECK_KEY(&info[place], PMIX_GROUP_MEMBERSHIP)) {
            num_members = info[place].value.data.darray->size;
        }
    }
    counted(&num_made);
    if (release != NULL) {
        release(release_cbdata);
    }
}

static int is_named(const char *name, const pmix_info_t *info, size_t ninfo)
{
    size_t place;

    for (place = 0; place < ninfo; place++) {
        if (PMIX_CHECK_KEY(&info[place], PMIX_GROUP_ID)) {
            return strcmp(info[place].value.data.string, name) == 0;
        }
    }
    return 0;
}

/* Rank 0 becomes the leader in place of the lost one; the other processes do not. */
static void on_leader_failed(size_t id, pmix_status_t status, const pmix_proc_t *source,
                             pmix_info_t info[], size_t ninfo, pmix_info_t *results, size_t nresults,
                             pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    pmix_info_t said;
    bool yes = true;

    (void)id, (void)status, (void)source, (void)results, (void)nresults;
    must_hold("another group", is_named("left", info, ninfo));
    PMIX_INFO_LOAD(&said, PMIX_GROUP_LEADER, &yes, PMIX_BOOL);
    done(PMIX_EVENT_ACTION_COMPLETE, &said, own.rank == 0 ? 1 : 0, NULL, NULL, cbdata);
    PMIX_INFO_DESTRUCT(&said);
}

static void on_selected(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                        size_t ninfo, pmix_info_t *results, size_t nresults,
                        pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    size_t place;

    (void)id, (void)status, (void)source, (void)results, (void)nresults;
    for (place = 0; place < ninfo; place++) {
        if (PMIX_CHECK_KEY(&info[place], PMIX_GROUP_LEADER)) {
            selected = info[place].value.data.proc->rank;
        }
    }
    counted(&num_selected);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

/* The group "smaller" is formed without the lost process; any other group is aborted. */
static void on_failed(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                      size_t ninfo, pmix_info_t *results, size_t nresults,
                      pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    pmix_info_t said;
    bool yes = true;
    int is_smaller = is_named("smaller", info, ninfo);

    (void)id, (void)status, (void)source, (void)results, (void)nresults;
    PMIX_INFO_LOAD(&said, PMIX_GROUP_OPTIONAL, &yes, PMIX_BOOL);
    counted(&num_failed);
    done(is_smaller ? PMIX_SUCCESS : PMIX_GROUP_CONSTRUCT_ABORT, &said, is_smaller ? 1 : 0, NULL, NULL,
         cbdata);
    PMIX_INFO_DESTRUCT(&said);
}

static void construct(const char *name, bool leads)
{
    pmix_proc_t procs[SIZE];
    pmix_info_t infos[2];
    bool yes = true;
    uint32_t rank;

    for (rank = 0; rank < SIZE; rank++) {
        PMIX_LOAD_PROCID(&procs[rank], own.nspace, rank);
    }
    PMIX_INFO_LOAD(&infos[0], PMIX_GROUP_LOCAL_ONLY, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_GROUP_LEADER, &leads, PMIX_BOOL);
    must("construct", PMIx_Group_construct_nb(name, procs, SIZE, infos, 2, on_made, NULL));
}

static void fence_of_two(void)
{
    pmix_proc_t procs[2];
    uint32_t rank;

    for (rank = 0; rank < 2; rank++) {
        PMIX_LOAD_PROCID(&procs[rank], own.nspace, rank);
    }
    must("fence of two", PMIx_Fence(procs, 2, NULL, 0));
}

static void end_well(void)
{
    printf("rank %u of %u: ok\n", own.rank, (unsigned)SIZE);
    fflush(stdout);
}

/* Rank 2 leads and is lost after rank 0 has called, which becomes the leader. */
static void leader_is_lost(void)
{
    pmix_proc_t first;
    pmix_value_t value, *called = NULL;

    switch (own.rank) {
    case 2:
        construct("left", true);
        PMIX_LOAD_PROCID(&first, own.nspace, 0);
        must("get", PMIx_Get(&first, "called", NULL, 0, &called));
        end_well();
        _exit(0);
    case 0:
        construct("left", false);
        value.type = PMIX_BOOL;
        value.data.flag = true;
        must("put", PMIx_Put(PMIX_GLOBAL, "called", &value));
        must("commit", PMIx_Commit());
        break;
    default:
        wait_for_at_least("another leads", &num_selected, 1);
        construct("left", false);
    }
    wait_for_at_least("another leads", &num_selected, 1);
    must_hold("rank 0 does not lead", selected == 0);
    wait_for_at_least("the group", &num_made, 1);
    must("construct", made);
    must_hold("not two members", num_members == 2);
    fence("left");
    destruct("left");
}

/* Rank 0 leads and is notified that rank 2 is lost: it continues without it, or aborts. */
static void member_is_gone(const char *name, int number, pmix_status_t expected)
{
    if (own.rank == 0) {
        construct(name, true);
        wait_for_at_least("rank 2 is gone", &num_failed, number - 1);
    }
    fence_of_two();
    if (own.rank != 0) {
        construct(name, false);
    }
    wait_for_at_least("the group", &num_made, number);
    must_be("construct", expected, made);
    if (expected == PMIX_SUCCESS) {
        must_hold("not two members", num_members == 2);
        fence(name);
        destruct(name);
    }
    fence_of_two();
}

int main(void)
{
    alarm(120);
    must("init", PMIx_Init(&own, NULL, 0));
    expect(PMIX_GROUP_LEADER_FAILED, on_leader_failed);
    expect(PMIX_GROUP_LEADER_SELECTED, on_selected);
    expect(PMIX_GROUP_INVITE_FAILED, on_failed);
    must("fence", PMIx_Fence(NULL, 0, NULL, 0));
    leader_is_lost();
    member_is_gone("smaller", 2, PMIX_SUCCESS);
    member_is_gone("none", 3, PMIX_GROUP_CONSTRUCT_ABORT);
    must("finalize", PMIx_Finalize(NULL, 0));
    end_well();
    return 0;
}

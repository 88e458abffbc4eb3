/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `group_calls KIND [RELEASE]` on four processes: the ten group functions. The kinds are:
 *   called    construct, destruct and leave, each in both forms
 *   invited   invite and join in both forms, and one process that declines
 *   led       the leader is lost, and the handler of a member that joined takes over
 * RELEASE names a server of another implementation. Such servers do not support leave, and keep the data that
 * members share only if their host does. Servers of 4 return no members of a construct, and find no data by the rank
 * in a group. */
#define _GNU_SOURCE
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 4
#define PATIENCE 20000

static arrival_t invited = ARRIVAL, joined = ARRIVAL, done = ARRIVAL, left = ARRIVAL, declined = ARRIVAL;
static arrival_t failed = ARRIVAL, selected = ARRIVAL;
static pmix_proc_t leader;
static char invited_to[PMIX_MAX_NSLEN + 1];
/* The members in the results of the last construct, invite or join. */
static size_t num_members;
/* Properties of the server. */
static bool knows_leave = true, is_old;

static pmix_info_t yes(const char *key)
{
    pmix_info_t info = {.value = {.type = PMIX_BOOL, .data.flag = true}};
    snprintf(info.key, sizeof(info.key), "%s", key);
    return info;
}

static const pmix_info_t *find(const char *key, const pmix_info_t *infos, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (PMIX_CHECK_KEY(&infos[i], key)) {
            return &infos[i];
        }
    }
    return NULL;
}

static size_t members_among(const pmix_info_t *infos, size_t count)
{
    const pmix_info_t *members = find(PMIX_GROUP_MEMBERSHIP, infos, count);
    return NULL == members ? 0 : members->value.data.darray->size;
}

/* The callback of a construct, an invite or a join; `cbdata` is the arrival. */
static void made(pmix_status_t status, pmix_info_t *infos, size_t count, void *cbdata,
                 pmix_release_cbfunc_t release, void *release_data)
{
    num_members = members_among(infos, count);
    if (NULL != release) {
        release(release_data);
    }
    arrive(cbdata, status, 0);
}

static void must_arrive(const char *what, arrival_t *arrival, unsigned count, pmix_status_t status)
{
    if (!await(arrival, count, PATIENCE)) {
        wrong("%s: it did not come", what);
    }
    must_be(what, arrival->status, status);
}

/* Constructs a group and checks its number of members. */
static void construct(const char *name, const pmix_proc_t *procs, size_t count)
{
    pmix_info_t *results = NULL;
    size_t num_results = 0;
    must(name, PMIx_Group_construct(name, procs, count, NULL, 0, &results, &num_results));
    require(members_among(results, num_results) == (is_old ? 0 : count));
    PMIX_INFO_FREE(results, num_results);
}

static void hear(pmix_status_t code, pmix_notification_fn_t handler)
{
    pmix_status_t reference = PMIx_Register_event_handler(&code, 1, NULL, 0, handler, NULL, NULL);
    if (reference < 0) {
        must("registering a handler", reference);
    }
}

static void on_left(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                    pmix_info_t *infos, size_t num_infos, pmix_info_t *results, size_t num_results,
                    pmix_event_notification_cbfunc_fn_t next, void *cbdata)
{
    (void) reference, (void) infos, (void) num_infos, (void) results, (void) num_results;
    next(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    arrive(&left, status, source->rank);
}

/* Lets two members leave, each by one form; the others receive the events and destruct the group. */
static void leave(const pmix_proc_t *procs)
{
    construct("some leave", procs, SIZE);
    if (3 == me.rank) {
        must("PMIx_Group_leave", PMIx_Group_leave("some leave", NULL, 0));
        must_be("leave again", PMIx_Group_leave("some leave", NULL, 0), PMIX_ERR_NOT_FOUND);
    } else {
        must_arrive("rank 3 has left", &left, 1, PMIX_GROUP_LEFT);
    }
    if (2 == me.rank) {
        must("PMIx_Group_leave_nb", PMIx_Group_leave_nb("some leave", NULL, 0, op_done, &done));
        must_arrive("leaving", &done, 1, PMIX_SUCCESS);
    } else if (me.rank < 2) {
        must_arrive("rank 2 has left", &left, 2, PMIX_GROUP_LEFT);
        must("destruct of who is left", PMIx_Group_destruct("some leave", NULL, 0));
    }
    fence_all(false);
}

/* Uses the group's name for its members: in a fence for all of them, in a get for one by its rank in the group. The
 * list is sorted, so that the ranks are the same under every server. */
static void name_it(const char *name, const pmix_proc_t *procs, size_t count)
{
    pmix_proc_t group = {.rank = PMIX_RANK_WILDCARD};
    pmix_value_t *value = NULL;
    construct(name, procs, count);
    PMIX_LOAD_NSPACE(group.nspace, name);
    must("a fence by the name of a group", PMIx_Fence(&group, 1, NULL, 0));
    /* A server of 4 finds no value here, with any client. */
    for (group.rank = 0; !is_old && group.rank < count; group.rank++) {
        must("a get by the rank in a group", PMIx_Get(&group, "g.rank", NULL, 0, &value));
        require(PMIX_UINT32 == value->type && procs[group.rank].rank == value->data.uint32);
        PMIX_VALUE_RELEASE(value);
    }
    group.rank = (pmix_rank_t) count;
    if (PMIX_SUCCESS == PMIx_Get(&group, "g.rank", NULL, 0, &value)) {
        wrong("a rank beyond the group has a value");
    }
    must("destruct", PMIx_Group_destruct(name, NULL, 0));
}

/* Destructs a group alone with a time limit: no other member calls, and the time limit expires. A server of 4.2.2
 * crashes then, with any client. */
static void destruct_alone(const pmix_proc_t *procs)
{
    pmix_info_t limit = {.value = {.type = PMIX_INT, .data.integer = 1}};
    PMIX_LOAD_KEY(limit.key, PMIX_TIMEOUT);
    construct("late", procs, SIZE);
    if (0 == me.rank) {
        must_be("a destruct that nobody joins", PMIx_Group_destruct("late", &limit, 1), PMIX_ERR_TIMEOUT);
    }
    fence_all(false);
}

/* Gets the data that each member shared by the context ID, also after the group was destructed. */
static void share(const pmix_proc_t *procs)
{
    size_t local = 100 + me.rank, num_results = 0;
    pmix_info_t own = {.value = {.type = PMIX_SIZE, .data.size = local}};
    pmix_data_array_t shared = {.type = PMIX_INFO, .size = 1, .array = &own};
    pmix_info_t asked[2] = {yes(PMIX_GROUP_ASSIGN_CONTEXT_ID),
                            {.value = {.type = PMIX_DATA_ARRAY, .data.darray = &shared}}};
    pmix_info_t *results = NULL;
    PMIX_LOAD_KEY(own.key, PMIX_GROUP_LOCAL_CID);
    PMIX_LOAD_KEY(asked[1].key, PMIX_GROUP_INFO);
    must("construct", PMIx_Group_construct("sharing", procs, SIZE, asked, 2, &results, &num_results));
    const pmix_info_t *found = find(PMIX_GROUP_CONTEXT_ID, results, num_results);
    require(NULL != found);
    pmix_info_t context = *found;
    PMIX_INFO_SET_QUALIFIER(&context);
    must("destruct", PMIx_Group_destruct("sharing", NULL, 0));
    for (pmix_rank_t rank = 0; rank < SIZE; rank++) {
        pmix_proc_t proc = peer(rank);
        pmix_value_t *value = NULL;
        must("a local context id", PMIx_Get(&proc, PMIX_GROUP_LOCAL_CID, &context, 1, &value));
        require(PMIX_SIZE == value->type && 100 + rank == value->data.size);
        PMIX_VALUE_RELEASE(value);
    }
    PMIX_INFO_FREE(results, num_results);
}

/* Checks that a server without support for leave says so, and that the group is unchanged. */
static void stay(const pmix_proc_t *procs)
{
    construct("none leave", procs, SIZE);
    pmix_status_t status = PMIx_Group_leave("none leave", NULL, 0);
    if (PMIX_SUCCESS == status) {
        wrong("left a group of a server that knows no leave");
    }
    status = PMIx_Group_leave_nb("none leave", NULL, 0, op_done, &done);
    if (PMIX_SUCCESS == status) {
        require(await(&done, 1, PATIENCE) && PMIX_SUCCESS != done.status);
    }
    must("destruct after a leave that was refused", PMIx_Group_destruct("none leave", NULL, 0));
    fence_all(false);
}

static void called(void)
{
    pmix_proc_t all[SIZE], two[] = {peer(1), peer(0)};
    for (pmix_rank_t rank = 0; rank < SIZE; rank++) {
        all[rank] = peer(SIZE - 1 - rank);
    }
    pmix_proc_t sorted[SIZE] = {peer(0), peer(1), peer(2), peer(3)};
    hear(PMIX_GROUP_LEFT, on_left);
    put_number(PMIX_GLOBAL, "g.rank", me.rank);
    must("PMIx_Commit", PMIx_Commit());
    fence_all(false);
    if (me.rank > 1) {
        name_it("named", &sorted[2], 2);
    }
    name_it("whole", sorted, SIZE);
    if (knows_leave) {
        share(sorted);
    }
    construct("all", all, SIZE);
    must("PMIx_Group_destruct", PMIx_Group_destruct("all", NULL, 0));
    require(PMIX_SUCCESS != PMIx_Group_destruct("all", NULL, 0));
    if (me.rank < 2) {
        arrival_t there = ARRIVAL, gone = ARRIVAL;
        must("PMIx_Group_construct_nb", PMIx_Group_construct_nb("two", two, 2, NULL, 0, made, &there));
        must_arrive("constructing", &there, 1, PMIX_SUCCESS);
        require((is_old ? 0 : 2) == num_members);
        must("PMIx_Group_destruct_nb", PMIx_Group_destruct_nb("two", NULL, 0, op_done, &gone));
        must_arrive("destructing", &gone, 1, PMIX_SUCCESS);
    }
    fence_all(false);
    (knows_leave ? leave : stay)(all);
    if (!is_old) {
        destruct_alone(sorted);
    }
}

static void on_invited(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                       pmix_info_t *infos, size_t num_infos, pmix_info_t *results, size_t num_results,
                       pmix_event_notification_cbfunc_fn_t next, void *cbdata)
{
    const pmix_info_t *name = find(PMIX_GROUP_ID, infos, num_infos);
    (void) reference, (void) results, (void) num_results;
    leader = *source;
    if (NULL != name) {
        snprintf(invited_to, sizeof(invited_to), "%s", name->value.data.string);
    }
    next(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    arrive(&invited, status, source->rank);
}

/* Handles a declined invitation; the group is formed without that process. */
static void on_declined(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                        pmix_info_t *infos, size_t num_infos, pmix_info_t *results, size_t num_results,
                        pmix_event_notification_cbfunc_fn_t next, void *cbdata)
{
    pmix_info_t without = yes(PMIX_GROUP_OPTIONAL);
    (void) reference, (void) infos, (void) num_infos, (void) results, (void) num_results;
    next(PMIX_SUCCESS, &without, 1, NULL, NULL, cbdata);
    arrive(&declined, status, source->rank);
}

/* Waits for an invitation to this group. */
static void take(const char *name, unsigned number)
{
    must_arrive("an invitation", &invited, number, PMIX_GROUP_INVITED);
    if (0 != strcmp(name, invited_to)) {
        wrong("invited to %s, not to %s", invited_to, name);
    }
}

/* Invites from rank 0 by one form. Rank 1 joins by callback and rank 2 blocks; rank 3 joins the first group and
 * declines the second. */
static void invited_by(bool waits, const char *name, unsigned number, size_t expected)
{
    pmix_proc_t procs[SIZE];
    pmix_info_t *results = NULL;
    size_t num_results = 0;
    for (pmix_rank_t rank = 0; rank < SIZE; rank++) {
        procs[rank] = peer(rank);
    }
    if (0 == me.rank && waits) {
        must("PMIx_Group_invite", PMIx_Group_invite(name, procs, SIZE, NULL, 0, &results, &num_results));
        num_members = members_among(results, num_results);
    } else if (0 == me.rank) {
        must("PMIx_Group_invite_nb", PMIx_Group_invite_nb(name, procs, SIZE, NULL, 0, made, &done));
        must_arrive("inviting", &done, 1, PMIX_SUCCESS);
    } else {
        take(name, number);
    }
    if (1 == me.rank) {
        must("PMIx_Group_join_nb",
             PMIx_Group_join_nb(name, &leader, PMIX_GROUP_ACCEPT, NULL, 0, made, &joined));
        must_arrive("joining", &joined, number, PMIX_SUCCESS);
    } else if (3 == me.rank && SIZE != expected) {
        must("declining", PMIx_Group_join(name, &leader, PMIX_GROUP_DECLINE, NULL, 0, NULL, NULL));
        num_members = expected;
    } else if (0 != me.rank) {
        must("PMIx_Group_join",
             PMIx_Group_join(name, &leader, PMIX_GROUP_ACCEPT, NULL, 0, &results, &num_results));
        num_members = members_among(results, num_results);
    }
    if (expected != num_members) {
        wrong("%s has %zu members, not %zu", name, num_members, expected);
    }
    PMIX_INFO_FREE(results, num_results);
    fence_all(false);
    if (me.rank < expected) {
        must("destruct", PMIx_Group_destruct(name, NULL, 0));
    }
    fence_all(false);
}

static void by_invitation(void)
{
    hear(PMIX_GROUP_INVITED, on_invited);
    hear(PMIX_GROUP_INVITE_DECLINED, on_declined);
    fence_all(false);
    invited_by(true, "whole", 1, SIZE);
    invited_by(false, "smaller", 2, SIZE - 1);
    if (0 == me.rank) {
        require(1 == declined.arrived && 3 == declined.reference);
    }
}

/* Makes rank 2 the new leader. */
static void on_leader_failed(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                             pmix_info_t *infos, size_t num_infos, pmix_info_t *results,
                             size_t num_results, pmix_event_notification_cbfunc_fn_t next, void *cbdata)
{
    pmix_info_t leads = yes(PMIX_GROUP_LEADER);
    (void) reference, (void) source, (void) infos, (void) num_infos, (void) results, (void) num_results;
    next(PMIX_SUCCESS, &leads, 2 == me.rank ? 1 : 0, NULL, NULL, cbdata);
    arrive(&failed, status, 0);
}

static void on_selected(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                        pmix_info_t *infos, size_t num_infos, pmix_info_t *results, size_t num_results,
                        pmix_event_notification_cbfunc_fn_t next, void *cbdata)
{
    const pmix_info_t *new_leader = find(PMIX_GROUP_LEADER, infos, num_infos);
    (void) reference, (void) source, (void) results, (void) num_results;
    pmix_rank_t rank = PMIX_RANK_UNDEF;
    if (NULL != new_leader && PMIX_PROC == new_leader->value.type) {
        rank = new_leader->value.data.proc->rank;
    }
    next(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    arrive(&selected, status, rank);
}

/* Invites all from rank 0, which is lost after ranks 1 and 2 have joined. Rank 2 becomes the leader, and its library
 * invites the others again: that of rank 1 joins by itself, and rank 3 joins now. */
static void led(void)
{
    pmix_proc_t procs[SIZE];
    for (pmix_rank_t rank = 0; rank < SIZE; rank++) {
        procs[rank] = peer(rank);
    }
    hear(PMIX_GROUP_INVITED, on_invited);
    hear(PMIX_GROUP_LEADER_FAILED, on_leader_failed);
    hear(PMIX_GROUP_LEADER_SELECTED, on_selected);
    fence_all(false);
    if (0 == me.rank) {
        must("PMIx_Group_invite_nb", PMIx_Group_invite_nb("led", procs, SIZE, NULL, 0, made, &done));
        /* The commits of the others reached the server after their replies to the invitation. */
        require(1 == get_number(1, "g.joined") && 1 == get_number(2, "g.joined"));
        _exit(0);
    }
    take("led", 1);
    if (3 != me.rank) {
        must("joining", PMIx_Group_join_nb("led", &leader, PMIX_GROUP_ACCEPT, NULL, 0, made, &joined));
        put_number(PMIX_GLOBAL, "g.joined", 1);
        must("PMIx_Commit", PMIx_Commit());
    }
    must_arrive("the leader is lost", &failed, 1, PMIX_GROUP_LEADER_FAILED);
    must_arrive("another leads", &selected, 1, PMIX_GROUP_LEADER_SELECTED);
    require(2 == selected.reference);
    if (3 == me.rank) {
        take("led", 2);
        require(2 == leader.rank);
        must("joining", PMIx_Group_join_nb("led", &leader, PMIX_GROUP_ACCEPT, NULL, 0, made, &joined));
    }
    must_arrive("the group is there", &joined, 1, PMIX_SUCCESS);
    require(SIZE - 1 == num_members);
    must("destruct", PMIx_Group_destruct("led", NULL, 0));
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    if (argc > 2) {
        knows_leave = false;
        is_old = '4' == argv[2][0];
    }
    begin();
    require(SIZE == size);
    if (0 == strcmp(kind, "called")) {
        called();
    } else if (0 == strcmp(kind, "invited")) {
        by_invitation();
    } else if (0 == strcmp(kind, "led")) {
        led();
    } else {
        wrong("group_calls called|invited|led");
    }
    end();
    return 0;
}

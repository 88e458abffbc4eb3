/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The name of a group in other calls, on four processes of which three are members: with the wildcard it means all
 * members, with a rank in the group one of them. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#define NAME "named"
#define CODE (-4000)
#define PATIENCE 20000

/* Sorted, so that the rank in the group is the same in all libraries. */
static const pmix_rank_t members[] = {0, 2, 3};
#define COUNT (sizeof members / sizeof members[0])

static arrival_t heard = ARRIVAL;

static pmix_proc_t in_group(pmix_rank_t rank)
{
    pmix_proc_t group = {.rank = rank};
    PMIX_LOAD_NSPACE(group.nspace, NAME);
    return group;
}

static void on_event(size_t reference, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *infos,
                     size_t num_infos, pmix_info_t *results, size_t num_results,
                     pmix_event_notification_cbfunc_fn_t next, void *cbdata)
{
    (void) reference, (void) infos, (void) num_infos, (void) results, (void) num_results;
    next(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    arrive(&heard, status, source->rank);
}

/* Notifies the whole group, and then one member. */
static void tell(const pmix_proc_t *to)
{
    pmix_proc_t *procs;
    pmix_data_array_t range;
    pmix_info_t info;
    PMIX_DATA_ARRAY_CONSTRUCT(&range, 1, PMIX_PROC);
    procs = range.array;
    procs[0] = *to;
    PMIX_INFO_LOAD(&info, PMIX_EVENT_CUSTOM_RANGE, &range, PMIX_DATA_ARRAY);
    must("an event for a group", PMIx_Notify_event(CODE, &me, PMIX_RANGE_CUSTOM, &info, 1, NULL, NULL));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_DATA_ARRAY_DESTRUCT(&range);
}

static void events(size_t place)
{
    const pmix_proc_t whole = in_group(PMIX_RANK_WILDCARD), last = in_group(COUNT - 1);
    if (0 == place) {
        tell(&whole);
        tell(&last);
        return;
    }
    unsigned expected = COUNT - 1 == place ? 2 : 1;
    if (!await(&heard, expected, PATIENCE)) {
        wrong("%u of %u events came", heard.arrived, expected);
    }
    must_be("the event", heard.status, CODE);
}

/* Checks the members by a query. */
static void is_listed(void)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    pmix_status_t added;
    size_t count = 0;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(added, query.keys, PMIX_QUERY_GROUP_MEMBERSHIP);
    must("a key for a query", added);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_GROUP_ID, NAME, PMIX_STRING);
    must("a query for members", PMIx_Query_info(&query, 1, &results, &count));
    require(1 == count && PMIX_DATA_ARRAY == results[0].value.type);
    const pmix_data_array_t *listed = results[0].value.data.darray;
    require(PMIX_PROC == listed->type && COUNT == listed->size);
    for (size_t n = 0; n < COUNT; n++) {
        require(members[n] == ((const pmix_proc_t *) listed->array)[n].rank);
    }
    PMIX_INFO_FREE(results, count);
    PMIX_QUERY_DESTRUCT(&query);
}

static void use(size_t place)
{
    const pmix_proc_t whole = in_group(PMIX_RANK_WILDCARD);
    pmix_proc_t each[COUNT];
    for (size_t n = 0; n < COUNT; n++) {
        each[n] = in_group((pmix_rank_t) n);
    }
    must("a fence by the name", PMIx_Fence(&whole, 1, NULL, 0));
    must("a connect by the name", PMIx_Connect(&whole, 1, NULL, 0));
    must("a disconnect by the name", PMIx_Disconnect(&whole, 1, NULL, 0));
    must("a fence by the ranks", PMIx_Fence(each, COUNT, NULL, 0));
    must("a connect by the ranks", PMIx_Connect(each, COUNT, NULL, 0));
    must("a disconnect by the ranks", PMIx_Disconnect(each, COUNT, NULL, 0));
    for (size_t n = 0; n < COUNT; n++) {
        pmix_value_t *value;
        must("a get by the rank in the group", PMIx_Get(&each[n], "own rank", NULL, 0, &value));
        require(PMIX_UINT32 == value->type && members[n] == value->data.uint32);
        PMIX_VALUE_RELEASE(value);
    }
    is_listed();
    events(place);
}

int main(void)
{
    const pmix_status_t code = CODE;
    pmix_proc_t procs[COUNT];
    begin();
    put_number(PMIX_GLOBAL, "own rank", me.rank);
    must("PMIx_Commit", PMIx_Commit());
    if (PMIx_Register_event_handler((pmix_status_t *) &code, 1, NULL, 0, on_event, NULL, NULL) < 0) {
        wrong("no handler");
    }
    fence_all(false);
    for (size_t n = 0; n < COUNT; n++) {
        procs[n] = peer(members[n]);
    }
    for (size_t n = 0; n < COUNT; n++) {
        pmix_info_t *results = NULL;
        size_t count = 0;
        if (members[n] != me.rank) {
            continue;
        }
        must("PMIx_Group_construct", PMIx_Group_construct(NAME, procs, COUNT, NULL, 0, &results, &count));
        PMIX_INFO_FREE(results, count);
        use(n);
        must("PMIx_Group_destruct", PMIx_Group_destruct(NAME, NULL, 0));
    }
    fence_all(false);
    /* The process outside of the group must not have received an event. */
    require(1 != me.rank || 0 == heard.arrived);
    end();
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Queries of process sets, on four processes of `pmix run --pset odd=1,3 --pset low=0-2`: their number and names in
 * one query, as Open MPI 5 does, and then their members. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

/* Queries one or two keys, about one set if it is named. */
static pmix_status_t ask(const char *first, const char *second, const char *set, pmix_info_t **results, size_t *count)
{
    pmix_query_t query;
    pmix_status_t added;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(added, query.keys, first);
    must("a key for a query", added);
    if (NULL != second) {
        PMIX_ARGV_APPEND(added, query.keys, second);
        must("another key for a query", added);
    }
    if (NULL != set) {
        PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
        PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_PSET_NAME, set, PMIX_STRING);
    }
    *results = NULL;
    *count = 0;
    pmix_status_t status = PMIx_Query_info(&query, 1, results, count);
    PMIX_QUERY_DESTRUCT(&query);
    return status;
}

/* Checks that exactly these two sets exist, in any order. */
static void are_found(void)
{
    pmix_info_t *results;
    size_t count, num_sets = 0;
    const char *names = NULL;
    must("a query for process sets", ask(PMIX_QUERY_NUM_PSETS, PMIX_QUERY_PSET_NAMES, NULL, &results, &count));
    for (size_t n = 0; n < count; n++) {
        if (PMIX_CHECK_KEY(&results[n], PMIX_QUERY_NUM_PSETS)) {
            require(PMIX_SIZE == results[n].value.type);
            num_sets = results[n].value.data.size;
        } else if (PMIX_CHECK_KEY(&results[n], PMIX_QUERY_PSET_NAMES)) {
            require(PMIX_STRING == results[n].value.type);
            names = results[n].value.data.string;
        }
    }
    require(2 == num_sets && NULL != names);
    require(0 == strcmp(names, "low,odd") || 0 == strcmp(names, "odd,low"));
    PMIX_INFO_FREE(results, count);
}

/* Checks that a set consists of these ranks of this job. */
static void is_made_of(const char *set, const pmix_rank_t *ranks, size_t num_ranks)
{
    pmix_info_t *results;
    size_t count;
    must(set, ask(PMIX_QUERY_PSET_MEMBERSHIP, NULL, set, &results, &count));
    require(1 == count && PMIX_DATA_ARRAY == results[0].value.type);
    const pmix_data_array_t *members = results[0].value.data.darray;
    require(PMIX_PROC == members->type && num_ranks == members->size);
    const pmix_proc_t *procs = members->array;
    for (size_t n = 0; n < num_ranks; n++) {
        require(0 == strcmp(procs[n].nspace, me.nspace) && ranks[n] == procs[n].rank);
    }
    PMIX_INFO_FREE(results, count);
}

int main(void)
{
    const pmix_rank_t odd[] = {1, 3}, low[] = {0, 1, 2};
    pmix_info_t *results;
    size_t count;
    begin();
    are_found();
    is_made_of("odd", odd, 2);
    is_made_of("low", low, 3);
    if (PMIX_SUCCESS == ask(PMIX_QUERY_PSET_MEMBERSHIP, NULL, "even", &results, &count)) {
        wrong("a set that nobody defined has %zu answers", count);
    }
    /* Stay until the others have queried this process. */
    fence_all(false);
    end();
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Groups whose members do not all know each other. Ranks 0 and 1 lead and add the others, first as leaders that list
 * each other, then as leaders that only know their number. The group's name is used in other calls, and the group is
 * destructed. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

/* Attributes of releases after 4.2 and 5.0. */
#ifndef PMIX_GROUP_BOOTSTRAP
#define PMIX_GROUP_BOOTSTRAP "pmix.grp.btstrp"
#endif
#ifndef PMIX_GROUP_FINAL_MEMBERSHIP_ORDER
#define PMIX_GROUP_FINAL_MEMBERSHIP_ORDER "pmix.grp.finord"
#endif

#define LEADERS 2

static void load_procs(pmix_info_t *info, const char *key, const pmix_proc_t *procs, size_t count)
{
    pmix_data_array_t array = {.type = PMIX_PROC, .size = count, .array = (void *) procs};
    PMIX_INFO_LOAD(info, key, &array, PMIX_DATA_ARRAY);
}

/* Checks that all processes of the job are members, in descending order or sorted by the library. */
static void check_members(const pmix_info_t *info)
{
    const pmix_data_array_t *array = info->value.data.darray;
    const pmix_proc_t *procs = array->array;

    require(PMIX_DATA_ARRAY == info->value.type && PMIX_PROC == array->type);
    require(size == array->size);
    bool rises = 0 == procs[0].rank;
    for (pmix_rank_t place = 0; place < size; place++) {
        require(0 == strcmp(me.nspace, procs[place].nspace));
        require((rises ? place : size - 1 - place) == procs[place].rank);
    }
}

static void use(const char *name, const pmix_info_t *results, size_t count)
{
    bool has_context = false;
    pmix_proc_t whole;

    for (size_t i = 0; i < count; i++) {
        if (PMIX_CHECK_KEY(&results[i], PMIX_GROUP_CONTEXT_ID)) {
            has_context = true;
            require(PMIX_SIZE == results[i].value.type && 0 < results[i].value.data.size);
        } else if (PMIX_CHECK_KEY(&results[i], PMIX_GROUP_MEMBERSHIP)) {
            check_members(&results[i]);
        }
    }
    require(has_context);
    PMIX_LOAD_PROCID(&whole, name, PMIX_RANK_WILDCARD);
    must("PMIx_Fence by name", PMIx_Fence(&whole, 1, NULL, 0));
    must("PMIx_Group_destruct", PMIx_Group_destruct(name, NULL, 0));
}

static void construct(const char *name, const pmix_proc_t *procs, size_t nprocs, const pmix_info_t *infos,
                      size_t ninfos)
{
    pmix_info_t *results = NULL;
    size_t count = 0;

    must("PMIx_Group_construct", PMIx_Group_construct(name, procs, nprocs, infos, ninfos, &results, &count));
    use(name, results, count);
    if (NULL != results) {
        PMIX_INFO_FREE(results, count);
    }
}

/* Joins as an added member, which knows no other member. Releases up to 5.0 accept no empty list: there the process
 * names itself, and declares that there is no leader. */
static void join(const char *name)
{
    pmix_info_t *results = NULL;
    size_t count = 0, none = 0;
    pmix_status_t status = PMIx_Group_construct(name, NULL, 0, NULL, 0, &results, &count);

    if (PMIX_ERR_BAD_PARAM == status) {
        pmix_info_t info;
        PMIX_INFO_LOAD(&info, PMIX_GROUP_BOOTSTRAP, &none, PMIX_SIZE);
        construct(name, &me, 1, &info, 1);
        return;
    }
    must("PMIx_Group_construct without a list", status);
    use(name, results, count);
    if (NULL != results) {
        PMIX_INFO_FREE(results, count);
    }
}

int main(void)
{
    pmix_proc_t *falling;
    pmix_proc_t leaders[LEADERS];
    pmix_info_t infos[4];
    size_t num_leaders = LEADERS;
    bool assign = true;

    begin();
    falling = calloc(size, sizeof(*falling));
    require(NULL != falling && LEADERS < size);
    for (pmix_rank_t place = 0; place < size; place++) {
        falling[place] = peer(size - 1 - place);
    }
    leaders[0] = peer(0);
    leaders[1] = peer(1);
    PMIX_INFO_LOAD(&infos[0], PMIX_GROUP_ASSIGN_CONTEXT_ID, &assign, PMIX_BOOL);
    load_procs(&infos[1], PMIX_GROUP_FINAL_MEMBERSHIP_ORDER, falling, size);
    if (0 == me.rank) {
        load_procs(&infos[2], PMIX_GROUP_ADD_MEMBERS, falling, size - LEADERS);
        construct("listed", leaders, LEADERS, infos, 3);
    } else if (1 == me.rank) {
        construct("listed", leaders, LEADERS, NULL, 0);
    } else {
        join("listed");
    }
    if (0 == me.rank) {
        PMIX_INFO_LOAD(&infos[3], PMIX_GROUP_BOOTSTRAP, &num_leaders, PMIX_SIZE);
        construct("counted", &me, 1, infos, 4);
    } else if (1 == me.rank) {
        load_procs(&infos[2], PMIX_GROUP_ADD_MEMBERS, falling, 1);
        PMIX_INFO_LOAD(&infos[3], PMIX_GROUP_BOOTSTRAP, &num_leaders, PMIX_SIZE);
        construct("counted", &me, 1, infos, 4);
    } else {
        join("counted");
    }
    fence_all(false);
    free(falling);
    end();
    return 0;
}

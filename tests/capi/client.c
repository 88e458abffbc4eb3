/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A client as programs have them: init, put, commit, fence with data, get of every peer, a value
 * of the job, finalize. It prints one line for its rank and ends with 0 if all of it held.
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(const char *what, pmix_status_t status)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s (%d)\n", what, PMIx_Error_string(status), status);
        exit(1);
    }
}

static uint32_t size_of_job(const pmix_proc_t *own)
{
    pmix_proc_t job;
    pmix_value_t *value = NULL;
    uint32_t size = 0;

    PMIX_LOAD_PROCID(&job, own->nspace, PMIX_RANK_WILDCARD);
    must("size of the job", PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value));
    size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return size;
}

int main(void)
{
    pmix_proc_t own, peer;
    pmix_value_t value, *found = NULL;
    pmix_info_t info;
    uint32_t size = 0, rank = 0;
    char text[64], name[64];
    bool collect = true;

    must("init", PMIx_Init(&own, NULL, 0));
    must("second init", PMIx_Init(NULL, NULL, 0));
    must("first finalize", PMIx_Finalize(NULL, 0));
    size = size_of_job(&own);

    snprintf(text, sizeof(text), "card of %u", own.rank);
    PMIX_VALUE_LOAD(&value, text, PMIX_STRING);
    must("put", PMIx_Put(PMIX_GLOBAL, "card", &value));
    PMIX_VALUE_DESTRUCT(&value);
    rank = own.rank * 7;
    PMIX_VALUE_LOAD(&value, &rank, PMIX_UINT32);
    must("put of a number", PMIx_Put(PMIX_GLOBAL, "number", &value));
    must("commit", PMIx_Commit());

    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    must("fence", PMIx_Fence(NULL, 0, &info, 1));
    PMIX_INFO_DESTRUCT(&info);

    for (rank = 0; rank < size; rank++) {
        PMIX_LOAD_PROCID(&peer, own.nspace, rank);
        must("get", PMIx_Get(&peer, "card", NULL, 0, &found));
        snprintf(name, sizeof(name), "card of %u", rank);
        if (found->type != PMIX_STRING || strcmp(found->data.string, name) != 0) {
            fprintf(stderr, "rank %u: a wrong card of %u\n", own.rank, rank);
            return 1;
        }
        PMIX_VALUE_RELEASE(found);
        must("get of a number", PMIx_Get(&peer, "number", NULL, 0, &found));
        if (found->type != PMIX_UINT32 || found->data.uint32 != rank * 7) {
            fprintf(stderr, "rank %u: a wrong number of %u\n", own.rank, rank);
            return 1;
        }
        PMIX_VALUE_RELEASE(found);
    }
    PMIX_LOAD_PROCID(&peer, own.nspace, 0);
    if (PMIx_Get(&peer, "nobody.put.this", NULL, 0, &found) == PMIX_SUCCESS) {
        fprintf(stderr, "rank %u: there is what nobody put\n", own.rank);
        return 1;
    }
    must("last fence", PMIx_Fence(NULL, 0, NULL, 0));
    must("finalize", PMIx_Finalize(NULL, 0));
    printf("rank %u of %u: ok\n", own.rank, size);
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `together KIB`: one process requests large data of all others at the same time. No fence collects them, so each
 * get is a direct modex, and the replies together far exceed the server's queue for one peer. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The time limit of all replies. */
#define MOST_MS 60000

static size_t length;
static arrival_t answers = ARRIVAL;

/* Returns a word that identifies the rank and the place in its data. */
static uint64_t word(pmix_rank_t rank, size_t place)
{
    return ((uint64_t) rank << 48) ^ ((uint64_t) place * 0x9e3779b97f4a7c15u);
}

static void put_large(void)
{
    uint64_t *words = malloc(length);
    require(NULL != words);
    for (size_t i = 0; i < length / sizeof(*words); i++) {
        words[i] = word(me.rank, i);
    }
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    value.data.bo.bytes = (char *) words;
    value.data.bo.size = length;
    must("PMIx_Put", PMIx_Put(PMIX_GLOBAL, "t.large", &value));
    free(words);
    must("PMIx_Commit", PMIx_Commit());
}

static void answered(pmix_status_t status, pmix_value_t *value, void *cbdata)
{
    pmix_rank_t rank = (pmix_rank_t) (uintptr_t) cbdata;
    if (PMIX_SUCCESS != status || NULL == value) {
        wrong("get of rank %u: %s (%d)", rank, PMIx_Error_string(status), status);
    }
    require(PMIX_BYTE_OBJECT == value->type && length == value->data.bo.size);
    for (size_t i = 0; i < length / sizeof(uint64_t); i++) {
        uint64_t found;
        memcpy(&found, value->data.bo.bytes + i * sizeof(found), sizeof(found));
        if (found != word(rank, i)) {
            wrong("the data of rank %u differ in word %zu", rank, i);
        }
    }
    arrive(&answers, status, rank);
}

static void get_all(void)
{
    for (pmix_rank_t rank = 1; rank < size; rank++) {
        pmix_proc_t proc = peer(rank);
        void *which = (void *) (uintptr_t) rank;
        must("PMIx_Get_nb", PMIx_Get_nb(&proc, "t.large", NULL, 0, answered, which));
    }
    if (!await(&answers, size - 1, MOST_MS)) {
        wrong("%u of %u gets are answered", answers.arrived, size - 1);
    }
}

int main(int argc, char **argv)
{
    length = (size_t) (argc > 1 ? strtoul(argv[1], NULL, 10) : 1024) << 10;
    begin();
    put_large();
    fence_all(false);
    if (0 == me.rank) {
        get_all();
    }
    fence_all(false);
    end();
    return 0;
}

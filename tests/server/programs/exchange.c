/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Put, commit, a collecting fence, and gets from every peer: each scope, many types, twice. */
#define _GNU_SOURCE
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Long enough to be compressed by the releases that compress strings; the same on every rank. */
#define LONG_TEXT 20000
#define BYTES 777

static void put(pmix_scope_t scope, const char *key, pmix_value_t value)
{
    must(key, PMIx_Put(scope, key, &value));
}

static char *long_text(void)
{
    char *text = malloc(LONG_TEXT + 1);
    for (size_t i = 0; i < LONG_TEXT; i++) {
        text[i] = (char) ('a' + i * i % 17);
    }
    text[LONG_TEXT] = '\0';
    return text;
}

/* Commits in parts: a server must merge each commit with the earlier ones, and keep the last value of a key. */
static void put_in_parts(void)
{
    put_text(PMIX_GLOBAL, "y.anew", "as it was");
    put_number(PMIX_GLOBAL, "y.first", 10 + me.rank);
    must("PMIx_Commit", PMIx_Commit());
    put_text(PMIX_GLOBAL, "y.anew", "as it is in the commit after it");
    put_number(PMIX_GLOBAL, "y.second", 20 + me.rank);
    must("PMIx_Commit", PMIx_Commit());
    must("PMIx_Commit", PMIx_Commit());
}

static void put_all(void)
{
    char *text = long_text(), bytes[BYTES];
    for (size_t i = 0; i < BYTES; i++) {
        bytes[i] = (char) (i * 7 + me.rank);
    }
    double halves[3] = {0.5, -1.5, me.rank + 0.25};
    pmix_data_array_t array = {.type = PMIX_DOUBLE, .size = 3, .array = halves};
    put_text(PMIX_LOCAL, "x.local", "for this node");
    put_text(PMIX_REMOTE, "x.remote", "for other nodes");
    put_text(PMIX_GLOBAL, "x.global", "for all");
    put_text(PMIX_GLOBAL, "x.long", text);
    put_text(PMIX_GLOBAL, "x.empty", "");
    put_number(PMIX_GLOBAL, "x.number", 4000000000u + me.rank);
    put(PMIX_GLOBAL, "x.int64", (pmix_value_t){.type = PMIX_INT64, .data.int64 = INT64_MIN + me.rank});
    put(PMIX_GLOBAL, "x.double", (pmix_value_t){.type = PMIX_DOUBLE, .data.dval = 1.0 / 3.0});
    put(PMIX_GLOBAL, "x.flag", (pmix_value_t){.type = PMIX_BOOL, .data.flag = me.rank % 2 == 1});
    put(PMIX_GLOBAL, "x.bytes",
        (pmix_value_t){.type = PMIX_BYTE_OBJECT, .data.bo = {.bytes = bytes, .size = BYTES}});
    put(PMIX_GLOBAL, "x.array", (pmix_value_t){.type = PMIX_DATA_ARRAY, .data.darray = &array});
    put(PMIX_GLOBAL, "x.proc", (pmix_value_t){.type = PMIX_PROC, .data.proc = &me});
    free(text);
    must("PMIx_Commit", PMIx_Commit());
}

static pmix_value_t *get(pmix_rank_t rank, const char *key, pmix_data_type_t type)
{
    pmix_proc_t proc = peer(rank);
    pmix_value_t *value = NULL;
    must(key, PMIx_Get(&proc, key, NULL, 0, &value));
    require(value->type == type);
    return value;
}

static void require_text(pmix_rank_t rank, const char *key, const char *expected)
{
    char *text = get_text(rank, key);
    if (0 != strcmp(text, expected)) {
        wrong("%s of rank %u is %.60s", key, rank, text);
    }
    free(text);
}

static void check_numbers(pmix_rank_t rank)
{
    require(get_number(rank, "x.number") == 4000000000u + rank);
    pmix_value_t *value = get(rank, "x.int64", PMIX_INT64);
    require(value->data.int64 == INT64_MIN + rank);
    PMIX_VALUE_RELEASE(value);
    /* Doubles are packed as text with a limited number of digits. */
    value = get(rank, "x.double", PMIX_DOUBLE);
    require(value->data.dval > 0.33333 && value->data.dval < 0.33334);
    PMIX_VALUE_RELEASE(value);
    value = get(rank, "x.flag", PMIX_BOOL);
    require(value->data.flag == (rank % 2 == 1));
    PMIX_VALUE_RELEASE(value);
}

static void check_containers(pmix_rank_t rank)
{
    pmix_value_t *value = get(rank, "x.bytes", PMIX_BYTE_OBJECT);
    require(value->data.bo.size == BYTES);
    for (size_t i = 0; i < BYTES; i++) {
        require(value->data.bo.bytes[i] == (char) (i * 7 + rank));
    }
    PMIX_VALUE_RELEASE(value);
    value = get(rank, "x.array", PMIX_DATA_ARRAY);
    require(value->data.darray->type == PMIX_DOUBLE && value->data.darray->size == 3);
    require(((double *) value->data.darray->array)[2] == rank + 0.25);
    PMIX_VALUE_RELEASE(value);
    value = get(rank, "x.proc", PMIX_PROC);
    require(value->data.proc->rank == rank && 0 == strcmp(value->data.proc->nspace, me.nspace));
    PMIX_VALUE_RELEASE(value);
}

/* Checks a long text. A library of the 5.0 series compresses it and returns the compressed form, which must then
 * equal the compressed form of this rank's own text. */
static void check_long(pmix_rank_t rank)
{
    pmix_value_t *value = NULL, *mine = NULL;
    pmix_proc_t proc = peer(rank);
    must("x.long", PMIx_Get(&proc, "x.long", NULL, 0, &value));
    must("my x.long", PMIx_Get(&me, "x.long", NULL, 0, &mine));
    require(value->type == mine->type);
    if (PMIX_STRING == value->type) {
        char *text = long_text();
        require(0 == strcmp(value->data.string, text));
        free(text);
    } else {
        require(value->type == PMIX_COMPRESSED_STRING);
        require(value->data.bo.size > 4 && value->data.bo.size == mine->data.bo.size);
        require(0 == memcmp(value->data.bo.bytes, mine->data.bo.bytes, mine->data.bo.size));
    }
    PMIX_VALUE_RELEASE(mine);
    PMIX_VALUE_RELEASE(value);
}

static void check(pmix_rank_t rank)
{
    require_text(rank, "y.anew", "as it is in the commit after it");
    require(get_number(rank, "y.first") == 10 + rank && get_number(rank, "y.second") == 20 + rank);
    require_text(rank, "x.local", "for this node");
    require_text(rank, "x.global", "for all");
    require_text(rank, "x.empty", "");
    check_long(rank);
    check_numbers(rank);
    check_containers(rank);
    if (rank != me.rank) {
        pmix_status_t status = get_now(rank, "x.remote");
        require(PMIX_ERR_NOT_FOUND == status || PMIX_ERR_EXISTS_OUTSIDE_SCOPE == status);
    }
}

int main(void)
{
    begin();
    put_in_parts();
    put_all();
    fence_all(true);
    for (pmix_rank_t rank = 0; rank < size; rank++) {
        check(rank);
    }
    /* A later commit must add to the earlier data. */
    put_number(PMIX_GLOBAL, "x.later", 77 + me.rank);
    must("PMIx_Commit", PMIx_Commit());
    fence_all(true);
    for (pmix_rank_t rank = size; rank-- > 0;) {
        require(get_number(rank, "x.later") == 77 + rank);
        require(get_number(rank, "x.number") == 4000000000u + rank);
    }
    fence_all(false);
    end();
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Passes a value of each type that every release has from one process to the next. */
#define _GNU_SOURCE
#include "skew.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS 3

/* Fills in the values of a rank: extreme numbers, texts, bytes, structures, and arrays of them. */
static size_t fill(pmix_rank_t rank, pmix_value_t *values)
{
    static uint32_t numbers[NUMBERS];
    static char *texts[2] = {(char *) "one", (char *) ""};
    static pmix_data_array_t of_numbers, of_texts;
    static pmix_proc_t proc;
    static char bytes[5] = {1, 0, -1, 3, 0};
    size_t n = 0;
#define ADD(kind, field, given) values[n++] = (pmix_value_t) {.type = kind, .data.field = given}
    ADD(PMIX_BOOL, flag, 1 == rank % 2);
    ADD(PMIX_BYTE, byte, 0xfe);
    ADD(PMIX_STRING, string, (char *) "text");
    ADD(PMIX_SIZE, size, SIZE_MAX - rank);
    ADD(PMIX_PID, pid, 4711);
    ADD(PMIX_INT, integer, -1 - (int) rank);
    ADD(PMIX_INT8, int8, INT8_MIN);
    ADD(PMIX_INT16, int16, INT16_MIN);
    ADD(PMIX_INT32, int32, INT32_MIN);
    ADD(PMIX_INT64, int64, INT64_MIN + rank);
    ADD(PMIX_UINT, uint, 5u + rank);
    ADD(PMIX_UINT8, uint8, UINT8_MAX);
    ADD(PMIX_UINT16, uint16, UINT16_MAX);
    ADD(PMIX_UINT32, uint32, UINT32_MAX - rank);
    ADD(PMIX_UINT64, uint64, UINT64_MAX - rank);
    ADD(PMIX_FLOAT, fval, 0.5f);
    ADD(PMIX_DOUBLE, dval, -1024.25);
    ADD(PMIX_TIME, time, 1234567890);
    ADD(PMIX_STATUS, status, PMIX_ERR_TIMEOUT);
    ADD(PMIX_PROC_RANK, rank, rank);
    ADD(PMIX_PERSIST, persist, PMIX_PERSIST_APP);
    ADD(PMIX_SCOPE, scope, PMIX_GLOBAL);
    ADD(PMIX_DATA_RANGE, range, PMIX_RANGE_SESSION);
    ADD(PMIX_PROC_STATE, state, 15);
#undef ADD
    values[n++] = (pmix_value_t) {.type = PMIX_TIMEVAL, .data.tv = {.tv_sec = 9, .tv_usec = 8}};
    values[n++] = (pmix_value_t) {.type = PMIX_BYTE_OBJECT,
                                  .data.bo = {.bytes = bytes, .size = sizeof(bytes)}};
    PMIX_LOAD_PROCID(&proc, me.nspace, rank);
    values[n++] = (pmix_value_t) {.type = PMIX_PROC, .data.proc = &proc};
    for (uint32_t i = 0; i < NUMBERS; i++) {
        numbers[i] = rank * NUMBERS + i;
    }
    of_numbers = (pmix_data_array_t) {.type = PMIX_UINT32, .size = NUMBERS, .array = numbers};
    of_texts = (pmix_data_array_t) {.type = PMIX_STRING, .size = 2, .array = texts};
    values[n++] = (pmix_value_t) {.type = PMIX_DATA_ARRAY, .data.darray = &of_numbers};
    values[n++] = (pmix_value_t) {.type = PMIX_DATA_ARRAY, .data.darray = &of_texts};
    return n;
}

#define MOST 64

/* Formats a value by this program, as no two releases print alike. */
static void show(const pmix_value_t *value, char *text, size_t room)
{
    const pmix_data_array_t *array = value->data.darray;
    switch (value->type) {
    case PMIX_STRING:
        snprintf(text, room, "%s", value->data.string);
        break;
    case PMIX_BOOL:
        snprintf(text, room, "%d", value->data.flag);
        break;
    case PMIX_BYTE: case PMIX_INT8: case PMIX_UINT8: case PMIX_PERSIST: case PMIX_SCOPE:
    case PMIX_DATA_RANGE: case PMIX_PROC_STATE:
        snprintf(text, room, "%u", value->data.uint8);
        break;
    case PMIX_INT16: case PMIX_UINT16:
        snprintf(text, room, "%u", value->data.uint16);
        break;
    case PMIX_SIZE: case PMIX_INT64: case PMIX_UINT64: case PMIX_TIME: case PMIX_DOUBLE:
        snprintf(text, room, "%lx", (unsigned long) value->data.uint64);
        break;
    case PMIX_TIMEVAL:
        snprintf(text, room, "%ld.%ld", (long) value->data.tv.tv_sec, (long) value->data.tv.tv_usec);
        break;
    case PMIX_BYTE_OBJECT:
        require(5 == value->data.bo.size);
        snprintf(text, room, "%d %d", value->data.bo.bytes[2], value->data.bo.bytes[3]);
        break;
    case PMIX_PROC:
        snprintf(text, room, "%s:%u", value->data.proc->nspace, value->data.proc->rank);
        break;
    case PMIX_DATA_ARRAY:
        if (PMIX_STRING == array->type) {
            require(2 == array->size);
            snprintf(text, room, "%s,%s", ((char **) array->array)[0], ((char **) array->array)[1]);
        } else {
            require(NUMBERS == array->size && PMIX_UINT32 == array->type);
            snprintf(text, room, "%u..%u", ((uint32_t *) array->array)[0],
                     ((uint32_t *) array->array)[NUMBERS - 1]);
        }
        break;
    default:
        snprintf(text, room, "%x", value->data.uint32);
    }
}

void types(void)
{
    pmix_value_t values[MOST];
    char key[32], expected[512], found[512];
    begin();
    size_t count = fill(me.rank, values);
    for (size_t i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "skew.type.%zu", i);
        must(key, PMIx_Put(PMIX_GLOBAL, key, &values[i]));
    }
    must("PMIx_Commit", PMIx_Commit());
    fence_all(true);
    pmix_proc_t next = peer((me.rank + 1) % size);
    count = fill(next.rank, values);
    for (size_t i = 0; i < count; i++) {
        pmix_value_t *value = NULL;
        snprintf(key, sizeof(key), "skew.type.%zu", i);
        must(key, PMIx_Get(&next, key, NULL, 0, &value));
        if (values[i].type != value->type) {
            wrong("type %u came as %u", values[i].type, value->type);
        }
        show(&values[i], expected, sizeof(expected));
        show(value, found, sizeof(found));
        if (0 != strcmp(expected, found)) {
            wrong("type %u: %s, not %s", value->type, found, expected);
        }
    }
    fence_all(false);
    end();
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Encoded maps (PMIX_REGEX): a `char *` that ends at its NUL or at the length in its frame, in every function that
 * takes or returns one. The bytes are those that OpenPMIx 4.2.2 and 5.0.11 pack.
 */
#include <pmix_server.h>
#include <pmix_extend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* A map and its size in bytes, which includes the NUL of a text. */
typedef struct {
    char *bytes;
    size_t size;
} map_t;

/* The names n0 to n399. */
static char names[4096];

static map_t text(const char *map)
{
    map_t made = {strdup(map), strlen(map) + 1};
    return made;
}

/* Returns the list of names in the frame in which OpenPMIx 5 compresses long lists. */
static map_t blob(void)
{
    uint8_t *payload = NULL;
    size_t size = 0, at = 0;
    char head[64];
    int len;
    map_t made;

    for (int n = 0; n < 400; n++) {
        at += (size_t)snprintf(names + at, sizeof(names) - at, "%sn%d", n > 0 ? "," : "", n);
    }
    HOLDS(PMIx_Data_compress((uint8_t *)names, strlen(names), &payload, &size));
    len = snprintf(head, sizeof(head), "blob:%ccomponent=zlib:%csize=%zu:", 0, 0, size) + 1;
    /* Allocates exactly this size, so that valgrind detects a read past the end. */
    made.size = (size_t)len + size;
    made.bytes = malloc(made.size);
    memcpy(made.bytes, head, (size_t)len);
    memcpy(made.bytes + len, payload, size);
    free(payload);
    return made;
}

static void is_map(const map_t *map, const char *at)
{
    HOLDS(at != NULL && at != map->bytes && memcmp(at, map->bytes, map->size) == 0);
}

static void packed(const map_t *map)
{
    pmix_data_buffer_t buffer = PMIX_DATA_BUFFER_STATIC_INIT;
    char *given[2] = {map->bytes, map->bytes}, *got[2] = {NULL, NULL};
    int32_t count = 2;

    IS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, given, 2, PMIX_REGEX));
    HOLDS(buffer.bytes_used == 1 + 2 * map->size && buffer.base_ptr[0] == 4);
    is_map(map, buffer.base_ptr + 1);
    is_map(map, buffer.base_ptr + 1 + map->size);
    IS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, &buffer, got, &count, PMIX_REGEX));
    HOLDS(count == 2);
    is_map(map, got[0]);
    is_map(map, got[1]);
    free(got[0]);
    free(got[1]);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
    given[1] = NULL;
    IS(PMIX_ERR_BAD_PARAM, PMIx_Data_pack(NULL, &buffer, given, 2, PMIX_REGEX));
    HOLDS(buffer.base_ptr == NULL);
}

static void copied(const map_t *map)
{
    char *copy = NULL, *line = NULL;

    IS(PMIX_SUCCESS, PMIx_Data_copy((void **)&copy, map->bytes, PMIX_REGEX));
    is_map(map, copy);
    free(copy);
    IS(PMIX_SUCCESS, PMIx_Data_print(&line, NULL, map->bytes, PMIX_REGEX));
    HOLDS(strstr(line, "PMIX_REGEX") != NULL);
    free(line);
}

static void in_values(const map_t *map)
{
    pmix_value_t value = PMIX_VALUE_STATIC_INIT, other = PMIX_VALUE_STATIC_INIT;
    pmix_data_buffer_t buffer = PMIX_DATA_BUFFER_STATIC_INIT;
    char *back = NULL;
    size_t size = 0;
    int32_t count = 1;

    IS(PMIX_SUCCESS, PMIx_Value_load(&value, map->bytes, PMIX_REGEX));
    HOLDS(value.data.bo.size == map->size);
    is_map(map, value.data.bo.bytes);
    IS(PMIX_SUCCESS, PMIx_Value_unload(&value, (void **)&back, &size));
    HOLDS(size == map->size && back != value.data.bo.bytes);
    is_map(map, back);
    free(back);
    IS(PMIX_SUCCESS, PMIx_Value_xfer(&other, &value));
    HOLDS(other.data.bo.size == map->size);
    is_map(map, other.data.bo.bytes);
    HOLDS(PMIx_Value_compare(&value, &other) == PMIX_EQUAL);
    PMIX_VALUE_DESTRUCT(&other);
    back = PMIx_Value_string(&value);
    HOLDS(back != NULL);
    free(back);
    IS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, &value, 1, PMIX_VALUE));
    HOLDS(buffer.bytes_used == 2 + map->size && buffer.base_ptr[1] == PMIX_REGEX);
    is_map(map, buffer.base_ptr + 2);
    IS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, &buffer, &other, &count, PMIX_VALUE));
    HOLDS(other.type == PMIX_REGEX && other.data.bo.size == map->size);
    is_map(map, other.data.bo.bytes);
    PMIX_VALUE_DESTRUCT(&other);
    PMIX_VALUE_DESTRUCT(&value);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
}

static void in_arrays(const map_t *map)
{
    pmix_data_array_t *array = PMIx_Data_array_create(2, PMIX_REGEX), *copy = NULL;
    pmix_info_t info;
    char **maps;

    HOLDS(array != NULL);
    maps = array->array;
    IS(PMIX_SUCCESS, PMIx_Data_copy((void **)&maps[0], map->bytes, PMIX_REGEX));
    IS(PMIX_SUCCESS, PMIx_Data_copy((void **)&maps[1], map->bytes, PMIX_REGEX));
    IS(PMIX_SUCCESS, PMIx_Data_copy((void **)&copy, array, PMIX_DATA_ARRAY));
    PMIX_DATA_ARRAY_FREE(array);
    HOLDS(copy->size == 2 && copy->type == PMIX_REGEX);
    is_map(map, ((char **)copy->array)[1]);
    IS(PMIX_SUCCESS, PMIx_Info_load(&info, "maps", copy, PMIX_DATA_ARRAY));
    PMIX_DATA_ARRAY_FREE(copy);
    is_map(map, ((char **)info.value.data.darray->array)[0]);
    PMIX_INFO_DESTRUCT(&info);
}

/* Registers a job with a map as its node list. */
static void registered(const map_t *map, const char *hosts, bool without_nul)
{
    pmix_info_t infos[2];
    pmix_proc_t job;
    pmix_value_t *value = NULL;
    char ranks[2048];
    size_t at = 0;
    int count = 1;

    for (const char *comma = hosts; (comma = strchr(comma, ',')) != NULL; comma++) {
        count++;
    }
    for (int rank = 0; rank < count; rank++) {
        at += (size_t)snprintf(ranks + at, sizeof(ranks) - at, "%s%d", rank > 0 ? ";" : "", rank);
    }

    IS(PMIX_SUCCESS, PMIx_Info_load(&infos[0], PMIX_NODE_MAP, map->bytes, PMIX_REGEX));
    HOLDS(infos[0].value.data.bo.size == map->size);
    if (without_nul && map->size == strlen(map->bytes) + 1) {
        /* A host that fills in the object itself may not count the NUL. */
        infos[0].value.data.bo.size -= 1;
    }
    IS(PMIX_SUCCESS, PMIx_Info_load(&infos[1], PMIX_PROC_MAP, ranks, PMIX_STRING));
    PMIX_LOAD_PROCID(&job, "maps", PMIX_RANK_WILDCARD);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_nspace(job.nspace, 0, infos, 2, NULL, NULL));
    IS(PMIX_SUCCESS, PMIx_Get(&job, PMIX_NODE_LIST, NULL, 0, &value));
    HOLDS(value->type == PMIX_STRING && strcmp(value->data.string, hosts) == 0);
    PMIX_VALUE_RELEASE(value);
    PMIx_server_deregister_nspace(job.nspace, NULL, NULL);
    PMIX_INFO_DESTRUCT(&infos[0]);
    PMIX_INFO_DESTRUCT(&infos[1]);
}

/* Checks that bytes that begin like a frame, and NULL, are rejected. */
static void damaged(void)
{
    pmix_value_t value = PMIX_VALUE_STATIC_INIT;
    char cut[] = "blob:\0other", *map = cut;
    pmix_data_buffer_t buffer = PMIX_DATA_BUFFER_STATIC_INIT;

    IS(PMIX_ERR_BAD_PARAM, PMIx_Value_load(&value, cut, PMIX_REGEX));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Data_pack(NULL, &buffer, &map, 1, PMIX_REGEX));
    IS(PMIX_SUCCESS, PMIx_Value_load(&value, NULL, PMIX_REGEX));
    HOLDS(value.type == PMIX_REGEX && value.data.bo.bytes == NULL && value.data.bo.size == 0);
    PMIX_VALUE_DESTRUCT(&value);
}

int main(void)
{
    map_t maps[] = {text("pmix[n[1:1-3],n[2:10]]"), text("raw:n1,n2"), blob()};
    char *regex = NULL;

    IS(PMIX_SUCCESS, PMIx_server_init(NULL, NULL, 0));
    for (size_t n = 0; n < sizeof(maps) / sizeof(maps[0]); n++) {
        packed(&maps[n]);
        copied(&maps[n]);
        in_values(&maps[n]);
        in_arrays(&maps[n]);
    }
    for (int without_nul = 0; without_nul < 2; without_nul++) {
        registered(&maps[1], "n1,n2", without_nul);
        registered(&maps[2], names, without_nul);
    }
    damaged();
    /* A text that no encoder recognizes, which OpenPMIx cannot pack. */
    IS(PMIX_SUCCESS, PMIx_Data_copy((void **)&regex, (void *)"n1,n2", PMIX_REGEX));
    HOLDS(strcmp(regex, "n1,n2") == 0);
    free(regex);
    for (size_t n = 0; n < sizeof(maps) / sizeof(maps[0]); n++) {
        free(maps[n].bytes);
    }
    IS(PMIX_SUCCESS, PMIx_server_finalize());
    puts("maps: ok");
    return 0;
}

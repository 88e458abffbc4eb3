/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reads infos from the words of a request: `KEY TYPE HEX`, or `KEY info_array ( ... )`; a question mark before a key
 * makes it a qualifier. */
#include "gds.h"

#include <stdlib.h>
#include <string.h>

char *next_word(words_t *words)
{
    return strtok_r(NULL, " \n", &words->at);
}

/* Reads a decimal number in the width of the type. */
static int read_number(pmix_value_t *value, const char *type, const char *text)
{
    unsigned long long number = strtoull(text, NULL, 10);
    if (0 == strcmp(type, "bool")) {
        value->type = PMIX_BOOL;
        value->data.flag = 0 != number;
    } else if (0 == strcmp(type, "u16")) {
        value->type = PMIX_UINT16;
        value->data.uint16 = (uint16_t) number;
    } else if (0 == strcmp(type, "u32")) {
        value->type = PMIX_UINT32;
        value->data.uint32 = (uint32_t) number;
    } else if (0 == strcmp(type, "u64")) {
        value->type = PMIX_UINT64;
        value->data.uint64 = number;
    } else if (0 == strcmp(type, "rank")) {
        value->type = PMIX_PROC_RANK;
        value->data.rank = (pmix_rank_t) number;
    } else {
        return -1;
    }
    return 0;
}

/* Returns the size of a map: text forms include their NUL, and a compressed one contains its size. */
static size_t map_size(const char *map)
{
    static const char frame[] = "blob:\0component=zlib:\0size=";
    if (0 != strcmp(map, "blob:")) {
        return strlen(map) + 1;
    }
    const char *size = map + sizeof(frame) - 1;
    return (size_t) (size - map) + strlen(size) + 1 + strtoull(size, NULL, 10);
}

/* The number of PMIX_REGEX2, which the headers of older releases lack. */
#define REGEX2 74

/* Reads a map: a list for the library to encode, or a text that is used unchanged. */
static int read_map(pmix_value_t *value, const char *type, char *text)
{
    char *map = NULL;
    pmix_status_t status = PMIX_SUCCESS;
    if (0 == strcmp(type, "noderx")) {
        status = PMIx_generate_regex(text, &map);
    } else if (0 == strcmp(type, "procrx")) {
        status = PMIx_generate_ppn(text, &map);
    } else if (0 == strcmp(type, "regex")) {
        map = text;
    } else if (0 == strcmp(type, "rx2")) {
        /* A library that supports the type would read a pointer to its structure here. */
        value->type = REGEX2;
        value->data.bo.bytes = NULL;
        value->data.bo.size = 0;
        return 0;
    } else {
        return -1;
    }
    if (PMIX_SUCCESS != status || NULL == map) {
        return -1;
    }
    value->type = PMIX_REGEX;
    value->data.bo.bytes = map;
    value->data.bo.size = map_size(map);
    return 0;
}

static int read_array(pmix_value_t *value, words_t *words, const char **fault)
{
    char *open = next_word(words);
    if (NULL == open || 0 != strcmp(open, "(")) {
        *fault = "expected ( behind info_array";
        return -1;
    }
    pmix_data_array_t *array = calloc(1, sizeof(*array));
    if (NULL == array) {
        *fault = "out of memory";
        return -1;
    }
    array->type = PMIX_INFO;
    array->array = read_infos(words, &array->size, fault);
    value->type = PMIX_DATA_ARRAY;
    value->data.darray = array;
    return NULL == *fault ? 0 : -1;
}

static int read_value(pmix_value_t *value, const char *type, words_t *words, const char **fault)
{
    bytes_t text;
    if (0 == strcmp(type, "info_array")) {
        return read_array(value, words, fault);
    }
    char *hex = next_word(words);
    if (NULL == hex || bytes_from_hex(hex, &text) != 0) {
        *fault = "expected a value in hex";
        return -1;
    }
    if (0 == strcmp(type, "str")) {
        value->type = PMIX_STRING;
        value->data.string = text.data;
        return 0;
    }
    if (0 == read_number(value, type, text.data) || 0 == read_map(value, type, text.data)) {
        return 0;
    }
    *fault = "a type that is not known, or a list that the library does not encode";
    return -1;
}

pmix_info_t *read_infos(words_t *words, size_t *count, const char **fault)
{
    pmix_info_t *infos = NULL;
    char *key;
    *count = 0;
    *fault = NULL;
    while (NULL != (key = next_word(words)) && 0 != strcmp(key, ")")) {
        char *type = next_word(words);
        pmix_info_t *more = realloc(infos, (*count + 1) * sizeof(*infos));
        if (NULL == type || NULL == more) {
            *fault = "expected KEY TYPE VALUE";
            return infos;
        }
        infos = more;
        memset(&infos[*count], 0, sizeof(*infos));
        if ('?' == *key) {
            key++;
            infos[*count].flags = PMIX_INFO_QUALIFIER;
        }
        strncpy(infos[*count].key, key, PMIX_MAX_KEYLEN);
        if (read_value(&infos[*count].value, type, words, fault) != 0) {
            return infos;
        }
        (*count)++;
    }
    return infos;
}

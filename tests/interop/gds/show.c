/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Prints values in the form of the vectors: {"data":...,"type":"PMIX_...","type_id":N}. */
#include "gds.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void show_text(const char *text)
{
    if (NULL == text) {
        fputs("null", stdout);
        return;
    }
    putchar('"');
    for (; '\0' != *text; text++) {
        unsigned char c = (unsigned char) *text;
        if ('"' == c || '\\' == c) {
            printf("\\%c", c);
        } else if (c < 0x20) {
            printf("\\u%04x", c);
        } else {
            putchar(c);
        }
    }
    putchar('"');
}

static void show_proc(const pmix_proc_t *proc)
{
    fputs("{\"nspace\":", stdout);
    show_text(proc->nspace);
    printf(",\"rank\":%" PRIu32 "}", proc->rank);
}

static void show_info(const pmix_info_t *info)
{
    fputs("{\"key\":", stdout);
    show_text(info->key);
    fputs(",\"value\":", stdout);
    show_value(&info->value);
    putchar('}');
}

/* Prints an element of an array: an info, a process or a number; null for other types. */
static void show_item(const pmix_data_array_t *array, size_t i)
{
    switch (array->type) {
    case PMIX_INFO:
        show_info(&((const pmix_info_t *) array->array)[i]);
        break;
    case PMIX_PROC:
        show_proc(&((const pmix_proc_t *) array->array)[i]);
        break;
    case PMIX_STRING:
        show_text(((char *const *) array->array)[i]);
        break;
    case PMIX_UINT32:
    case PMIX_PROC_RANK:
        printf("%" PRIu32, ((const uint32_t *) array->array)[i]);
        break;
    default:
        fputs("null", stdout);
    }
}

static void show_array(const pmix_data_array_t *array)
{
    if (NULL == array) {
        fputs("null", stdout);
        return;
    }
    printf("{\"array_of\":\"%s\",\"items\":[", PMIx_Data_type_string(array->type));
    for (size_t i = 0; i < array->size; i++) {
        if (i > 0) {
            putchar(',');
        }
        show_item(array, i);
    }
    fputs("]}", stdout);
}

static void show_data(const pmix_value_t *value)
{
    switch (value->type) {
    case PMIX_STRING:
        show_text(value->data.string);
        break;
    case PMIX_BOOL:
        fputs(value->data.flag ? "true" : "false", stdout);
        break;
    case PMIX_UINT16:
        printf("%" PRIu16, value->data.uint16);
        break;
    case PMIX_UINT32:
    case PMIX_PROC_RANK:
        printf("%" PRIu32, value->data.uint32);
        break;
    case PMIX_UINT64:
        printf("%" PRIu64, value->data.uint64);
        break;
    case PMIX_PROC:
        show_proc(value->data.proc);
        break;
    case PMIX_DATA_ARRAY:
        show_array(value->data.darray);
        break;
    default:
        fputs("null", stdout);
    }
}

void show_value(const pmix_value_t *value)
{
    if (NULL == value) {
        fputs("null", stdout);
        return;
    }
    fputs("{\"data\":", stdout);
    show_data(value);
    printf(",\"type\":\"%s\",\"type_id\":%d}", PMIx_Data_type_string(value->type), value->type);
}

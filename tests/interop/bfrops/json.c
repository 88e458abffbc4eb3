/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Data as JSON: members in alphabetical order, no blanks. */
#include "data.h"

#include <inttypes.h>
#include <pmix_server.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void text_room(text_t *to, size_t more)
{
    if (to->len + more <= to->room) {
        return;
    }
    to->room = 2 * (to->len + more);
    to->data = realloc(to->data, to->room);
    if (NULL == to->data) {
        fputs("out of memory\n", stderr);
        exit(70);
    }
}

void text_add(text_t *to, const char *data, size_t len)
{
    text_room(to, len);
    memcpy(to->data + to->len, data, len);
    to->len += len;
}

void text_add_char(text_t *to, char c)
{
    text_add(to, &c, 1);
}

static void text_add_word(text_t *to, const char *word)
{
    text_add(to, word, strlen(word));
}

void text_add_hex(text_t *to, const void *data, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes = data;
    text_room(to, 2 * len);
    for (size_t i = 0; i < len; i++) {
        to->data[to->len++] = digits[bytes[i] >> 4];
        to->data[to->len++] = digits[bytes[i] & 15];
    }
}

/* Returns the number of bytes of a UTF-8 character, or 0 if it is invalid. */
static size_t utf8_character(const unsigned char *at, const unsigned char *end)
{
    static const struct {
        unsigned char first_low, first_high, second_low, second_high;
        size_t len;
    } forms[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    if (*at < 0x80) {
        return 1;
    }
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        if (*at < forms[i].first_low || *at > forms[i].first_high
            || (size_t) (end - at) < forms[i].len || at[1] < forms[i].second_low
            || at[1] > forms[i].second_high) {
            continue;
        }
        for (size_t j = 2; j < forms[i].len; j++) {
            if (at[j] < 0x80 || at[j] > 0xbf) {
                return 0;
            }
        }
        return forms[i].len;
    }
    return 0;
}

static bool is_utf8(const char *text, size_t len)
{
    const unsigned char *at = (const unsigned char *) text, *end = at + len;
    while (at < end) {
        size_t step = utf8_character(at, end);
        if (0 == step) {
            return false;
        }
        at += step;
    }
    return true;
}

static void json_hex(text_t *to, const void *data, size_t len)
{
    text_add_word(to, "{\"hex\":\"");
    text_add_hex(to, data, len);
    text_add_word(to, "\"}");
}

static void json_string(text_t *to, const char *text, size_t len)
{
    static const char escaped[] = "\b\t\n\f\r\"\\", letters[] = "btnfr\"\\";
    if (!is_utf8(text, len)) {
        json_hex(to, text, len);
        return;
    }
    text_add_char(to, '"');
    for (size_t i = 0; i < len; i++) {
        const char *special = strchr(escaped, text[i]);
        if (NULL != special) {
            text_add_char(to, '\\');
            text_add_char(to, letters[special - escaped]);
        } else if ((unsigned char) text[i] < 0x20) {
            char code[8];
            text_add(to, code, (size_t) snprintf(code, sizeof(code), "\\u%04x", text[i]));
        } else {
            text_add_char(to, text[i]);
        }
    }
    text_add_char(to, '"');
}

static void json_argv(text_t *to, char **argv)
{
    if (NULL == argv || NULL == argv[0]) {
        text_add_word(to, "null");
        return;
    }
    text_add_char(to, '[');
    for (size_t i = 0; NULL != argv[i]; i++) {
        if (i > 0) {
            text_add_char(to, ',');
        }
        json_string(to, argv[i], strlen(argv[i]));
    }
    text_add_char(to, ']');
}

static void json_number(text_t *to, const type_t *type, const void *data)
{
    uint64_t number = 0;
    char digits[32];
    int len;
    memcpy(&number, data, type->size);
    if (SHAPE_SIGNED == type->shape) {
        unsigned unused = 64 - 8 * (unsigned) type->size;
        int64_t value = (int64_t) (number << unused) >> unused;
        len = snprintf(digits, sizeof(digits), "%" PRId64, value);
    } else {
        len = snprintf(digits, sizeof(digits), "%" PRIu64, number);
    }
    text_add(to, digits, (size_t) len);
}

static void json_float(text_t *to, const type_t *type, const void *data)
{
    char digits[64];
    int len;
    if (SHAPE_DOUBLE == type->shape) {
        len = snprintf(digits, sizeof(digits), "\"%.17g\"", *(const double *) data);
    } else {
        const char *form = SHAPE_MEASURE == type->shape ? "%.9g" : "\"%.9g\"";
        len = snprintf(digits, sizeof(digits), form, (double) *(const float *) data);
    }
    text_add(to, digits, (size_t) len);
}

/* The library prints a set of processors as "hwloc:" and a list. */
static void json_cpuset(text_t *to, const pmix_cpuset_t *set)
{
    char *words = NULL;
    text_add_word(to, "{\"bitmap\":");
    if (NULL == set->bitmap || PMIX_SUCCESS != PMIx_server_generate_cpuset_string(set, &words)
        || NULL == words) {
        text_add_word(to, "null");
    } else {
        const char *list = strchr(words, ':');
        list = NULL == list ? words : list + 1;
        json_string(to, list, strlen(list));
    }
    free(words);
    text_add_word(to, ",\"source\":");
    if (NULL == set->source) {
        text_add_word(to, "null");
    } else {
        json_string(to, set->source, strlen(set->source));
    }
    text_add_char(to, '}');
}

/* Prints tagged text, or the compressed form, whose frame contains its size. */
static void json_regex(text_t *to, const char *map)
{
    static const char frame[] = "blob:\0component=zlib:\0size=";
    if (NULL == map) {
        text_add_word(to, "null");
    } else if (0 == strcmp(map, "blob:")) {
        char *end;
        size_t len = strtoul(map + sizeof(frame) - 1, &end, 10);
        text_add_word(to, "{\"blob_payload_hex\":\"");
        text_add_hex(to, end + 2, len);
        text_add_word(to, "\"}");
    } else {
        text_add_word(to, "{\"string\":");
        json_string(to, map, strlen(map));
        text_add_char(to, '}');
    }
}

static void json_typename(text_t *to, unsigned type)
{
    const char *name = type < TYPE_KEY ? type_of(type)->name : NULL;
    char number[16];
    if (NULL == name) {
        text_add(to, number, (size_t) snprintf(number, sizeof(number), "%u", type));
    } else {
        json_string(to, name, strlen(name));
    }
}

static void json_datum(text_t *to, unsigned type, const void *data);

static void json_struct(text_t *to, const field_t *field, const char *data)
{
    char separator = '{';
    for (; NULL != field->name; field++) {
        const void *member = data + field->offset;
        text_add_char(to, separator);
        json_string(to, field->name, strlen(field->name));
        text_add_char(to, ':');
        if (0 == field->count_offset) {
            json_datum(to, field->type, member);
        } else {
            json_list(to, field->type, *(void *const *) member,
                      *(const size_t *) (data + field->count_offset));
        }
        separator = ',';
    }
    text_add_char(to, '}');
}

static void json_value(text_t *to, const pmix_value_t *value)
{
    const void *data = value_data(value);
    if (NULL == data) {
        text_add_word(to, "null");
    } else {
        json_datum(to, value->type, data);
    }
}

static void json_array(text_t *to, const pmix_data_array_t *array)
{
    text_add_word(to, "{\"array\":");
    json_list(to, array->type, array->array, array->size);
    text_add_word(to, ",\"type\":");
    json_typename(to, array->type);
    text_add_char(to, '}');
}

/* Prints types that contain bytes or text. */
static void json_text(text_t *to, const type_t *type, const void *data)
{
    const pmix_byte_object_t *bytes = data;
    const pmix_data_buffer_t *buffer = data;
    const char *string = SHAPE_FIXED == type->shape ? data : *(char *const *) data;
    switch (type->shape) {
    case SHAPE_BYTES:
        json_hex(to, bytes->bytes, NULL == bytes->bytes ? 0 : bytes->size);
        break;
    case SHAPE_DIGITS:
        text_add_char(to, '"');
        text_add_hex(to, bytes->bytes, NULL == bytes->bytes ? 0 : bytes->size);
        text_add_char(to, '"');
        break;
    case SHAPE_BUFFER:
        json_hex(to, buffer->base_ptr, buffer->bytes_used);
        break;
    default:
        if (NULL == string) {
            text_add_word(to, "null");
        } else {
            json_string(to, string, strlen(string));
        }
    }
}

static void json_datum(text_t *to, unsigned id, const void *data)
{
    const type_t *type = type_of(id);
    switch (type->shape) {
    case SHAPE_BOOL:
        text_add_word(to, *(const uint8_t *) data ? "true" : "false");
        break;
    case SHAPE_UNSIGNED: case SHAPE_SIGNED: case SHAPE_RANK:
        json_number(to, type, data);
        break;
    case SHAPE_FLOAT: case SHAPE_DOUBLE: case SHAPE_MEASURE:
        json_float(to, type, data);
        break;
    case SHAPE_STRING: case SHAPE_FIXED: case SHAPE_BYTES: case SHAPE_DIGITS: case SHAPE_BUFFER:
        json_text(to, type, data);
        break;
    case SHAPE_ARGV:
        json_argv(to, *(char **const *) data);
        break;
    case SHAPE_CPUSET:
        json_cpuset(to, data);
        break;
    case SHAPE_REGEX:
        json_regex(to, *(char *const *) data);
        break;
    case SHAPE_VALUE:
        json_value(to, data);
        break;
    case SHAPE_TYPENAME:
        json_typename(to, ((const pmix_value_t *) data)->type);
        break;
    case SHAPE_ARRAY:
        json_array(to, data);
        break;
    case SHAPE_STRUCT:
        json_struct(to, type->fields, data);
        break;
    default: /* PMIX_UNDEF, PMIX_POINTER and unknown types */
        text_add_word(to, "null");
    }
}

void json_list(text_t *to, unsigned type, const void *data, size_t count)
{
    text_add_char(to, '[');
    for (size_t i = 0; i < count && NULL != data; i++) {
        if (i > 0) {
            text_add_char(to, ',');
        }
        json_datum(to, type, (const char *) data + i * type_of(type)->size);
    }
    text_add_char(to, ']');
}

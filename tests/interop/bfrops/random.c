/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Random data with the extremes of each type, and with null or empty data wherever the wire supports these.
 *
 * Omitted, as the wire does not carry them: digits of a float after the sixth decimal of "%f", the sign of a NaN,
 * and members that are not packed (in all releases, or by module v12). */
#include "data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

/* Seeds xorshift64* so that consecutive seeds give unrelated numbers. */
void random_seed(uint64_t seed)
{
    state = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
    state ^= state >> 32;
    state |= 1;
}

static uint64_t random_bits(void)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(0x2545F4914F6CDD1D);
}

uint64_t random_below(uint64_t bound)
{
    return (random_bits() >> 11) % bound;
}

static bool one_in(unsigned n)
{
    return 0 == random_below(n);
}

static void *must(void *memory)
{
    if (NULL == memory) {
        fputs("out of memory\n", stderr);
        exit(70);
    }
    return memory;
}

/* Returns any number; half of them are small or next to a power of two, where encodings change. */
static uint64_t random_number(void)
{
    uint64_t bits = random_bits(), power = UINT64_C(1) << random_below(64);
    switch (random_below(8)) {
    case 0:
        return bits % 4;
    case 1:
        return bits % 256;
    case 2:
        return power - 1;
    case 3:
        return power;
    case 4:
        return ~power;
    case 5:
        return UINT64_MAX - bits % 4;
    default:
        return bits >> random_below(64);
    }
}

static const char *random_character(size_t *len)
{
    static const char *const wide[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x90\xa7", "\xce\xb1"};
    static char one[2];
    const char *chosen = one;
    switch (random_below(16)) {
    case 0:
        chosen = wide[random_below(4)];
        break;
    case 1: /* any byte, including control characters and invalid UTF-8 */
        one[0] = (char) (1 + random_below(255));
        break;
    default:
        one[0] = (char) (' ' + random_below(95));
    }
    *len = strlen(chosen);
    return chosen;
}

/* Returns a text of at most `most` bytes. */
static char *random_text(size_t most)
{
    size_t wanted = one_in(64) ? random_below(most + 1) : random_below(most < 24 ? most + 1 : 24);
    bool plain = !one_in(4);
    char *text = must(malloc(wanted + 1));
    size_t len = 0, step;
    while (len < wanted) {
        const char *character = random_character(&step);
        if (plain || len + step > wanted) {
            text[len++] = (char) ('a' + random_below(26));
        } else {
            memcpy(text + len, character, step);
            len += step;
        }
    }
    text[len] = '\0';
    return text;
}

static void random_fixed(char *to, size_t size)
{
    char *text = random_text(size - 1);
    memset(to, 0, size);
    memcpy(to, text, strlen(text));
    free(text);
}

static char **random_argv(void)
{
    size_t count = random_below(4);
    char **argv = 0 == count ? NULL : must(calloc(count + 1, sizeof(char *)));
    for (size_t i = 0; i < count; i++) {
        argv[i] = random_text(600);
    }
    return argv;
}

static void random_bytes(pmix_byte_object_t *to)
{
    to->size = one_in(64) ? random_below(5000) : random_below(20);
    to->bytes = 0 == to->size ? NULL : must(malloc(to->size));
    for (size_t i = 0; i < to->size; i++) {
        to->bytes[i] = (char) random_bits();
    }
}

static void random_buffer(pmix_data_buffer_t *to)
{
    pmix_byte_object_t bytes;
    random_bytes(&bytes);
    memset(to, 0, sizeof(*to));
    to->base_ptr = to->unpack_ptr = bytes.bytes;
    to->pack_ptr = NULL == bytes.bytes ? NULL : bytes.bytes + bytes.size;
    to->bytes_allocated = to->bytes_used = bytes.size;
}

/* Returns a self-delimiting map: tagged text, or the compressed form. */
static char *random_regex(void)
{
    unsigned first = (unsigned) random_below(1000), second = (unsigned) random_below(1000);
    size_t payload = random_below(40);
    char *map = must(malloc(128)), *end = map;
    switch (random_below(abilities.flawed_blob ? 2 : 3)) {
    case 0:
        sprintf(map, "pmix[n%u[%u:%u-%u]]", first, 1 + first % 5, first, second);
        return map;
    case 1:
        sprintf(map, "raw:n%u,m%u", first, second);
        return map;
    default:
        end += 1 + sprintf(end, "blob:");
        end += 1 + sprintf(end, "component=zlib:");
        end += 1 + sprintf(end, "size=%zu:", payload);
        for (size_t i = 0; i < payload; i++) {
            *end++ = (char) random_bits();
        }
        return map;
    }
}

static double random_double(void)
{
    static const double ends[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e15, 0.5, 1e-6, 1e-7};
    double number = (double) (int64_t) random_number();
    switch (random_below(6)) {
    case 0:
        return ends[random_below(sizeof(ends) / sizeof(*ends))];
    case 1:
        return number;
    case 2:
        return ldexp(number, (int) random_below(1900) - 1000);
    default:
        return number / (double) (1 + random_below(1000000));
    }
}

/* Rounds a number to the digits that "%f" prints, as the wire carries no more. */
static void random_float(shape_t shape, void *to)
{
    char digits[512];
    double number = random_double();
    float narrow = SHAPE_MEASURE == shape ? (float) random_below(1u << 20) / 8 : (float) number;
    if (SHAPE_DOUBLE == shape) {
        snprintf(digits, sizeof(digits), "%f", number);
        *(double *) to = strtod(digits, NULL);
    } else {
        snprintf(digits, sizeof(digits), "%f", (double) narrow);
        *(float *) to = strtof(digits, NULL);
    }
}

/* Excludes two ranks that module v12 translates in one direction only. */
static pmix_rank_t random_rank(void)
{
    pmix_rank_t rank = (pmix_rank_t) random_number();
    return abilities.is_v12 && (INT32_MAX == rank || INT32_MAX - 1 == rank) ? 0 : rank;
}

static void random_cpuset(pmix_cpuset_t *to)
{
    to->source = must(strdup("hwloc"));
    to->bitmap = NULL;
}

static void random_value(pmix_value_t *to, unsigned depth)
{
    unsigned type = abilities.values[random_below(abilities.num_values)];
    if (PMIX_DATA_ARRAY == type && 0 == depth) {
        type = PMIX_INT32;
    }
    memset(to, 0, sizeof(*to));
    to->type = (pmix_data_type_t) type;
    if (UNION_POINTER == type_of(type)->in_union) {
        to->data.ptr = must(calloc(1, type_of(type)->size));
    }
    random_data(type, value_data(to), 1, depth);
}

/* Generates an array; at the last level of nesting its elements are plain types. */
static void random_array(pmix_data_array_t *to, unsigned depth)
{
    static const unsigned flat[] = {PMIX_STRING, PMIX_INT32, PMIX_UINT64, PMIX_PROC};
    unsigned type = 0 == depth ? flat[random_below(4)]
                               : abilities.arrays[random_below(abilities.num_arrays)];
    to->type = (pmix_data_type_t) type;
    to->size = random_below(5);
    to->array = 0 == to->size ? NULL : data_room(type, to->size);
    random_data(type, to->array, to->size, 0 == depth ? 0 : depth - 1);
}

static void random_struct(const field_t *field, char *data, unsigned depth)
{
    for (; NULL != field->name; field++) {
        void *member = data + field->offset;
        if (0 == field->count_offset) {
            random_data(field->type, member, 1, depth);
            continue;
        }
        /* Fields without a type are lists that no release packs, and stay empty. */
        size_t count = PMIX_UNDEF == field->type ? 0 : random_below(4);
        *(size_t *) (data + field->count_offset) = count;
        *(void **) member = 0 == count ? NULL : data_room(field->type, count);
        random_data(field->type, *(void **) member, count, 0 == depth ? 0 : depth - 1);
    }
}

/* Clears the members that module v12 does not pack. */
static void leave_out_of_v12(unsigned type, void *datum)
{
    if (PMIX_INFO == type) {
        ((pmix_info_t *) datum)->flags = 0;
    } else if (PMIX_APP == type) {
        free(((pmix_app_t *) datum)->cwd);
        ((pmix_app_t *) datum)->cwd = NULL;
    }
}

static void random_datum(unsigned id, const type_t *type, void *datum, unsigned depth)
{
    uint64_t number = random_number();
    switch (type->shape) {
    case SHAPE_BOOL:
        *(bool *) datum = one_in(2);
        break;
    case SHAPE_UNSIGNED: case SHAPE_SIGNED:
        number = TYPE_UNSENT_INT == id ? 0 : number;
        memcpy(datum, &number, type->size);
        break;
    case SHAPE_RANK:
        *(pmix_rank_t *) datum = random_rank();
        break;
    case SHAPE_FLOAT: case SHAPE_DOUBLE: case SHAPE_MEASURE:
        if (TYPE_UNSENT_FLOAT != id) {
            random_float(type->shape, datum);
        }
        break;
    case SHAPE_STRING:
        *(char **) datum = one_in(10) ? NULL : random_text(9000);
        break;
    case SHAPE_FIXED:
        random_fixed(datum, type->size);
        break;
    case SHAPE_ARGV:
        *(char ***) datum = random_argv();
        break;
    case SHAPE_BYTES: case SHAPE_DIGITS:
        random_bytes(datum);
        break;
    case SHAPE_POINTER:
        *(void **) datum = (void *) (uintptr_t) number;
        break;
    case SHAPE_CPUSET:
        random_cpuset(datum);
        break;
    case SHAPE_BUFFER:
        random_buffer(datum);
        break;
    case SHAPE_REGEX:
        *(char **) datum = random_regex();
        break;
    case SHAPE_VALUE:
        random_value(datum, depth);
        break;
    case SHAPE_ARRAY:
        random_array(datum, depth);
        break;
    case SHAPE_STRUCT:
        random_struct(type->fields, datum, depth);
        break;
    default:
        break;
    }
    if (abilities.is_v12) {
        leave_out_of_v12(id, datum);
    }
}

void random_data(unsigned id, void *data, size_t count, unsigned depth)
{
    const type_t *type = type_of(id);
    for (size_t i = 0; i < count; i++) {
        random_datum(id, type, (char *) data + i * type->size, depth);
    }
}

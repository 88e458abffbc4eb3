/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Finds out which types the library carries in which places: packs and unpacks some data of each type at the top
 * level, in a value, and as the elements of an array.
 *
 * Random values and arrays only contain types that did not come back changed. Types that the library cannot read
 * itself are reported with the statuses of both calls, so that the caller lists them. */
#include "data.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLES 12

/* Unpacking succeeded with other data. */
#define CHANGED PMIX_ERR_PACK_MISMATCH

abilities_t abilities;

size_t most_at_once(unsigned type)
{
    bool wide = PMIX_COMMAND == type
                || (abilities.is_v12
                    && (PMIX_PERSIST == type || PMIX_SCOPE == type || PMIX_DATA_RANGE == type
                        || PMIX_DATA_TYPE == type));
    return abilities.wide_bytes && wide ? 1 : 8;
}

static bool same_text(const text_t *a, const text_t *b)
{
    return a->len == b->len && 0 == memcmp(a->data, b->data, a->len);
}

/* Packs and unpacks a datum and compares its printed form. */
static places_t round_trip(unsigned type, const void *datum)
{
    text_t bytes = {NULL, 0, 0}, before = {NULL, 0, 0}, after = {NULL, 0, 0};
    places_t result = {call_pack(&bytes, type, datum, 1), PMIX_ERR_NOT_AVAILABLE};
    if (PMIX_SUCCESS == result.pack) {
        int32_t count = 1;
        size_t left = 0;
        void *back = data_room(type, 1);
        result.unpack = call_unpack(bytes.data, bytes.len, type, back, &count, &left);
        if (PMIX_SUCCESS == result.unpack) {
            data_mend(type, back, 1);
            json_list(&before, type, datum, 1);
            json_list(&after, type, back, 1);
            if (1 != count || 0 != left || !same_text(&before, &after)) {
                result.unpack = CHANGED;
            } else {
                data_release(type, back, 1);
            }
        }
        free(back);
    }
    free(bytes.data);
    free(before.data);
    free(after.data);
    return result;
}

/* Tries several samples and returns the first failure. */
static places_t try_samples(unsigned type, void (*sample)(unsigned type, unsigned wanted, void *),
                            unsigned wanted)
{
    places_t result = {PMIX_SUCCESS, PMIX_SUCCESS};
    for (unsigned i = 0; i < SAMPLES && PMIX_SUCCESS == result.pack
                         && PMIX_SUCCESS == result.unpack; i++) {
        void *datum = data_room(type, 1);
        random_seed(i);
        sample(type, wanted, datum);
        result = round_trip(type, datum);
        data_release(type, datum, 1);
        free(datum);
    }
    return result;
}

static void sample_top(unsigned type, unsigned wanted, void *datum)
{
    (void) wanted;
    random_data(type, datum, 1, 2);
}

static void sample_value(unsigned type, unsigned wanted, void *datum)
{
    pmix_value_t *value = datum;
    (void) type;
    value->type = (pmix_data_type_t) wanted;
    if (UNION_POINTER == type_of(wanted)->in_union) {
        value->data.ptr = data_room(wanted, 1);
    }
    random_data(wanted, value_data(value), 1, 2);
}

static void sample_array(unsigned type, unsigned wanted, void *datum)
{
    pmix_data_array_t *array = datum;
    (void) type;
    array->type = (pmix_data_type_t) wanted;
    array->size = 1 + random_below(3);
    array->array = data_room(wanted, array->size);
    random_data(wanted, array->array, array->size, 1);
}

static bool whole(places_t at)
{
    return PMIX_SUCCESS == at.pack && PMIX_SUCCESS == at.unpack;
}

/* Returns true if the library packs the type correctly, even if it cannot read it. */
static bool told(unsigned type, places_t at)
{
    bool wide = abilities.wide_bytes && 1 == most_at_once(type);
    return PMIX_SUCCESS == at.pack && CHANGED != at.unpack && !wide;
}

static const places_t not_tried = {PMIX_ERR_NOT_AVAILABLE, PMIX_ERR_NOT_AVAILABLE};

static bool is_v20(void)
{
    return abilities.wide_bytes && !abilities.is_v12;
}

/* Module v20 reads a PMIX_PERSIST in a value as a PMIX_PROC and so overruns the memory of the value. */
static void probe_places(void)
{
    /* Until the lists are complete, values and arrays contain types that every module carries. */
    unsigned values[TYPE_COUNT], arrays[TYPE_COUNT];
    size_t num_values = 0, num_arrays = 0;
    for (unsigned type = 0; type < TYPE_KEY; type++) {
        abilities.top[type] = abilities.in_value[type] = abilities.in_array[type] = not_tried;
        if (SHAPE_NONE == type_of(type)->shape) {
            continue;
        }
        if (PMIX_UNDEF != type) {
            abilities.top[type] = try_samples(type, sample_top, 0);
            abilities.in_array[type] = try_samples(PMIX_DATA_ARRAY, sample_array, type);
        }
        if (UNION_NO != type_of(type)->in_union && !(PMIX_PERSIST == type && is_v20())) {
            abilities.in_value[type] = try_samples(PMIX_VALUE, sample_value, type);
        }
        if (told(type, abilities.in_value[type])) {
            values[num_values++] = type;
        }
        if (told(type, abilities.in_array[type])) {
            arrays[num_arrays++] = type;
        }
    }
    memcpy(abilities.values, values, sizeof(values));
    memcpy(abilities.arrays, arrays, sizeof(arrays));
    abilities.num_values = num_values;
    abilities.num_arrays = num_arrays > 0 ? num_arrays : 1;
    if (0 == num_arrays) {
        abilities.arrays[0] = PMIX_INT32;
    }
}

/* Returns true if the compressed form of a map is packed completely. */
static bool packs_whole_blob(void)
{
    static char blob[] = "blob:\0component=zlib:\0size=3:\0xyz";
    const char *map = blob;
    size_t len = sizeof(blob) - 1;
    text_t bytes = {NULL, 0, 0};
    pmix_status_t status = call_pack(&bytes, PMIX_REGEX, &map, 1);
    bool whole = PMIX_SUCCESS == status && bytes.len > len
                 && 0 == memcmp(bytes.data + bytes.len - len, blob, len);
    free(bytes.data);
    return whole;
}

void probe(void)
{
    const char *module = getenv("PMIX_MCA_bfrops");
    pmix_data_type_t type = PMIX_REGATTR;
    abilities.is_v12 = NULL != module && 0 == strcmp(module, "v12");
    abilities.wide_bytes =
        abilities.is_v12 || (NULL != module && 0 == strcmp(module, "v20"));
    abilities.values[0] = abilities.arrays[0] = PMIX_INT32;
    abilities.num_values = abilities.num_arrays = 1;
    abilities.refold = !whole(round_trip(PMIX_DATA_TYPE, &type));

    abilities.flawed_blob = !packs_whole_blob();
    probe_places();
}

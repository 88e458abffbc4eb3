/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Walks over data: release of memory, and correction of the library's faults. */
#include "data.h"

#include <stdlib.h>

static void release_argv(char **argv)
{
    for (size_t i = 0; NULL != argv && NULL != argv[i]; i++) {
        free(argv[i]);
    }
    free(argv);
}

static void release_struct(const field_t *field, char *data)
{
    for (; NULL != field->name; field++) {
        void *member = data + field->offset;
        if (0 == field->count_offset) {
            data_release(field->type, member, 1);
        } else {
            void *items = *(void **) member;
            data_release(field->type, items, *(size_t *) (data + field->count_offset));
            free(items);
        }
    }
}

static void release_datum(const type_t *type, void *data)
{
    pmix_value_t *value = data;
    pmix_data_array_t *array = data;
    switch (type->shape) {
    case SHAPE_STRING: case SHAPE_REGEX:
        free(*(char **) data);
        break;
    case SHAPE_ARGV:
        release_argv(*(char ***) data);
        break;
    case SHAPE_BYTES: case SHAPE_DIGITS:
        free(((pmix_byte_object_t *) data)->bytes);
        break;
    case SHAPE_BUFFER:
        free(((pmix_data_buffer_t *) data)->base_ptr);
        break;
    case SHAPE_CPUSET: /* only the library can free the set itself */
        free(((pmix_cpuset_t *) data)->source);
        break;
    case SHAPE_VALUE:
        if (NULL != value_data(value)) {
            data_release(value->type, value_data(value), 1);
        }
        if (UNION_POINTER == type_of(value->type)->in_union) {
            free(value->data.ptr);
        }
        break;
    case SHAPE_ARRAY:
        data_release(array->type, array->array, array->size);
        free(array->array);
        break;
    case SHAPE_STRUCT:
        release_struct(type->fields, data);
        break;
    default:
        break;
    }
}

void data_release(unsigned id, void *data, size_t count)
{
    const type_t *type = type_of(id);
    for (size_t i = 0; NULL != data && i < count; i++) {
        release_datum(type, (char *) data + i * type->size);
    }
}

static void mend_struct(const field_t *field, char *data)
{
    for (; NULL != field->name; field++) {
        void *member = data + field->offset;
        if (0 == field->count_offset) {
            data_mend(field->type, member, 1);
        } else {
            data_mend(field->type, *(void **) member, *(size_t *) (data + field->count_offset));
        }
    }
}

/* Folds a number that was folded for the wire as unsigned and unfolded as signed. */
static pmix_data_type_t folded(pmix_data_type_t type)
{
    int16_t number = (int16_t) type;
    return (pmix_data_type_t) (number < 0 ? 2 * (-number - 1) + 1 : 2 * number);
}

void data_mend(unsigned id, void *data, size_t count)
{
    const type_t *type = type_of(id);
    for (size_t i = 0; NULL != data && i < count; i++) {
        void *datum = (char *) data + i * type->size;
        pmix_value_t *value = datum;
        pmix_data_array_t *array = datum;
        if (PMIX_INFO == id && abilities.is_v12) {
            ((pmix_info_t *) datum)->flags = 0; /* v12 leaves the flags uninitialized */
        }
        if (PMIX_DATA_TYPE == id && abilities.refold) {
            *(pmix_data_type_t *) datum = folded(*(pmix_data_type_t *) datum);
        } else if (SHAPE_VALUE == type->shape && NULL != value_data(value)) {
            data_mend(value->type, value_data(value), 1);
        } else if (SHAPE_ARRAY == type->shape) {
            data_mend(array->type, array->array, array->size);
        } else if (SHAPE_STRUCT == type->shape) {
            mend_struct(type->fields, datum);
        }
    }
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Descriptions of the data types.
 *
 * The peer prints, generates and frees data by walking these descriptions, so a type is one line in types.c. */
#ifndef PMIXRS_INTEROP_DATA_H
#define PMIXRS_INTEROP_DATA_H

#include <pmix.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The layout of a datum in memory. */
typedef enum {
    SHAPE_NONE,     /* no such type */
    SHAPE_NOTHING,  /* PMIX_UNDEF: no bytes */
    SHAPE_BOOL,
    SHAPE_UNSIGNED, /* as wide as the type's size */
    SHAPE_SIGNED,
    SHAPE_RANK,
    SHAPE_FLOAT,
    SHAPE_DOUBLE,
    SHAPE_MEASURE,  /* a float that is a JSON number */
    SHAPE_STRING,   /* char *, may be NULL */
    SHAPE_FIXED,    /* char[size], ends with a NUL */
    SHAPE_ARGV,     /* char **, ends with a NULL; NULL when there are none */
    SHAPE_BYTES,    /* pmix_byte_object_t */
    SHAPE_DIGITS,   /* the same, printed as a plain string of hex */
    SHAPE_POINTER,  /* a pointer, which is not carried */
    SHAPE_CPUSET,
    SHAPE_BUFFER,   /* pmix_data_buffer_t */
    SHAPE_REGEX,    /* char * to self-delimiting bytes, as the library packs them */
    SHAPE_VALUE,    /* the data of a pmix_value_t */
    SHAPE_TYPENAME, /* the type of a pmix_value_t, printed beside its data */
    SHAPE_ARRAY,    /* pmix_data_array_t */
    SHAPE_STRUCT,   /* fields */
} shape_t;

/* The place of a type's data in the union of a value. */
typedef enum { UNION_NO, UNION_HERE, UNION_POINTER } union_t;

/* Types of fields only, after the numbers of the public types. */
enum {
    TYPE_KEY = 80,
    TYPE_ARGV,
    TYPE_MEASURE,
    TYPE_DIGITS,
    TYPE_VALUE_DATA,
    TYPE_VALUE_TYPE,
    TYPE_UNSENT_INT,   /* a member that is not packed */
    TYPE_UNSENT_FLOAT,
    TYPE_CHAR,
    TYPE_COUNT
};

/* A field of a structure: a datum, or a pointer to as many as the size_t at `count_offset` says. */
typedef struct {
    const char *name;
    size_t offset;
    unsigned type;
    size_t count_offset; /* 0: one datum */
} field_t;

typedef struct {
    const char *name;
    size_t size;
    shape_t shape;
    union_t in_union;
    const field_t *fields; /* the last one has no name */
} type_t;

/* types.c */
const type_t *type_of(unsigned id);
/* Returns 0 if no public type has this name. */
unsigned type_by_name(const char *name);
/* Returns the datum of a value: in its union, or at a pointer there. */
void *value_data(const pmix_value_t *value);

/* A growing text. */
typedef struct {
    char *data;
    size_t len, room;
} text_t;

/* json.c */
void text_add(text_t *to, const char *data, size_t len);
void text_add_char(text_t *to, char c);
void text_add_hex(text_t *to, const void *data, size_t len);
void json_list(text_t *to, unsigned type, const void *data, size_t count);

/* walk.c: frees the memory that data own, but not the data themselves. */
void data_release(unsigned type, void *data, size_t count);
/* Undoes two faults of unpacking: the number of a PMIX_DATA_TYPE, and flags that v12 does not pack. */
void data_mend(unsigned type, void *data, size_t count);

/* random.c */
void random_seed(uint64_t seed);
uint64_t random_below(uint64_t bound);
/* Generates `count` random data that nest at most `depth` levels. */
void random_data(unsigned type, void *data, size_t count, unsigned depth);

/* The places in which a release and module can carry a type. */
typedef struct {
    pmix_status_t pack, unpack;
} places_t;

/* probe.c: tries every type at the top level, in a value and in an array. */
typedef struct {
    places_t top[TYPE_COUNT], in_value[TYPE_COUNT], in_array[TYPE_COUNT];
    unsigned values[TYPE_COUNT], arrays[TYPE_COUNT]; /* the types in values and arrays */
    size_t num_values, num_arrays;
    bool is_v12;     /* some members are not packed */
    bool wide_bytes; /* one-byte numbers are read as wider ones, so a call has only one */
    bool refold;     /* unpacking a PMIX_DATA_TYPE gives another number */
    bool flawed_blob; /* the compressed form of a map is packed incompletely */
} abilities_t;

extern abilities_t abilities;
void probe(void);
/* Returns the most data of this type that a call can carry correctly. */
size_t most_at_once(unsigned type);

/* call.c: one call of the library on plain bytes. */
pmix_status_t call_pack(text_t *out, unsigned type, const void *data, size_t count);
/* `data` has room for `count` zeroed data; the number of bytes that are left over is returned, too. */
pmix_status_t call_unpack(char *bytes, size_t len, unsigned type, void *data, int32_t *count,
                          size_t *left);
void *data_room(unsigned type, size_t count);

#endif

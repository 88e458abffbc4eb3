/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Bytes in and out: hex and files. */
#ifndef PMIXRS_INTEROP_BYTES_H
#define PMIXRS_INTEROP_BYTES_H

#include <stddef.h>

/* Bytes with a length; the data is followed by a NUL that the length does not count. */
typedef struct {
    char *data;
    size_t len;
} bytes_t;

/* Not 0 if the text is not hex, or the file cannot be read. */
int bytes_from_hex(const char *hex, bytes_t *out);
int bytes_from_file(const char *path, bytes_t *out);
/* Appends to a value that starts as {NULL, 0}; ends the program when memory does. */
void bytes_append(bytes_t *to, const char *data, size_t len);
void bytes_print_hex(bytes_t value);

#endif

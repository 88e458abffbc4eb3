/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Byte strings: hexadecimal text and files. */
#ifndef PMIXRS_INTEROP_BYTES_H
#define PMIXRS_INTEROP_BYTES_H

#include <stddef.h>

/* Bytes with a length; a NUL that is not counted follows the data. */
typedef struct {
    char *data;
    size_t len;
} bytes_t;

/* Return a nonzero value if the text is not hexadecimal, or if the file cannot be read. */
int bytes_from_hex(const char *hex, bytes_t *out);
int bytes_from_file(const char *path, bytes_t *out);
/* Appends to a value that starts as {NULL, 0}; exits if no memory is left. */
void bytes_append(bytes_t *to, const char *data, size_t len);
void bytes_print_hex(bytes_t value);

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Byte strings: hexadecimal text and files. */
#include "bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *memory)
{
    if (NULL == memory) {
        fputs("out of memory\n", stderr);
        exit(70);
    }
    return memory;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "-" means no bytes, so that no word of a request is empty. */
int bytes_from_hex(const char *hex, bytes_t *out)
{
    size_t digits = 0 == strcmp(hex, "-") ? 0 : strlen(hex);
    if (digits % 2 != 0) {
        return -1;
    }
    out->len = digits / 2;
    out->data = must(malloc(out->len + 1));
    for (size_t i = 0; i < out->len; i++) {
        int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
        if (high < 0 || low < 0) {
            free(out->data);
            return -1;
        }
        out->data[i] = (char) (high * 16 + low);
    }
    out->data[out->len] = '\0';
    return 0;
}

int bytes_from_file(const char *path, bytes_t *out)
{
    FILE *file = fopen(path, "rb");
    if (NULL == file) {
        return -1;
    }
    char part[65536];
    size_t got;
    out->data = NULL;
    out->len = 0;
    bytes_append(out, "", 0);
    while ((got = fread(part, 1, sizeof(part), file)) > 0) {
        bytes_append(out, part, got);
    }
    int failed = ferror(file);
    fclose(file);
    return failed ? -1 : 0;
}

/* The room grows by powers of two. */
void bytes_append(bytes_t *to, const char *data, size_t len)
{
    size_t before = 64, after = 64;
    while (before < to->len + 1) {
        before *= 2;
    }
    while (after < to->len + len + 1) {
        after *= 2;
    }
    if (NULL == to->data || after != before) {
        to->data = must(realloc(to->data, after));
    }
    memcpy(to->data + to->len, data, len);
    to->len += len;
    to->data[to->len] = '\0';
}

void bytes_print_hex(bytes_t value)
{
    static const char digits[] = "0123456789abcdef";
    if (0 == value.len) {
        putchar('-');
    }
    for (size_t i = 0; i < value.len; i++) {
        unsigned char byte = (unsigned char) value.data[i];
        putchar(digits[byte >> 4]);
        putchar(digits[byte & 15]);
    }
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What zlib and plain copying cost on a file: `zlib deflate|inflate|memcpy FILE RUNS CAP_MS`
 * prints `STATUS MIN_NS MEDIAN_NS RUNS BYTES`, the bytes being those of the zlib stream at level 9
 * (deflate), or of the text (inflate, memcpy).
 */
#include "bytes.h"
#include "timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

typedef struct {
    bytes_t text;
    bytes_t stream;
    bytes_t copy;
    uLongf stream_len;
} buffers_t;

static int time_deflate(void *context, uint64_t *took_ns, size_t *made)
{
    buffers_t *b = context;
    uint64_t start = clock_ns();
    b->stream_len = (uLongf) b->stream.len;
    int status = compress2((Bytef *) b->stream.data, &b->stream_len, (Bytef *) b->text.data,
                           (uLong) b->text.len, 9);
    *took_ns = clock_ns() - start;
    *made = b->stream_len;
    return status;
}

static int time_inflate(void *context, uint64_t *took_ns, size_t *made)
{
    buffers_t *b = context;
    uLongf len = (uLongf) b->copy.len;
    uint64_t start = clock_ns();
    int status = uncompress((Bytef *) b->copy.data, &len, (Bytef *) b->stream.data, b->stream_len);
    *took_ns = clock_ns() - start;
    *made = len;
    return status;
}

static int time_memcpy(void *context, uint64_t *took_ns, size_t *made)
{
    buffers_t *b = context;
    uint64_t start = clock_ns();
    memcpy(b->copy.data, b->text.data, b->text.len);
    *took_ns = clock_ns() - start;
    *made = b->copy.len;
    return 0 != memcmp(b->copy.data, b->text.data, b->text.len);
}

/* Memory that has been written to, so that no run pays for its first touch. */
static bytes_t touched(size_t len)
{
    bytes_t all = {malloc(len + 1), len};
    if (NULL == all.data) {
        fputs("out of memory\n", stderr);
        exit(70);
    }
    memset(all.data, 1, len + 1);
    return all;
}

int main(int argc, char **argv)
{
    buffers_t b;
    if (argc != 5 || bytes_from_file(argv[2], &b.text) != 0) {
        fputs("usage: zlib deflate|inflate|memcpy FILE RUNS CAP_MS\n", stderr);
        return 2;
    }
    unsigned runs = (unsigned) strtoul(argv[3], NULL, 10);
    unsigned cap_ms = (unsigned) strtoul(argv[4], NULL, 10);
    b.stream = touched(compressBound((uLong) b.text.len));
    b.copy = touched(b.text.len);
    uint64_t took;
    size_t made;
    if (0 == strcmp(argv[1], "deflate")) {
        print_timing(time_deflate, &b, runs, cap_ms);
    } else if (0 == strcmp(argv[1], "memcpy")) {
        print_timing(time_memcpy, &b, runs, cap_ms);
    } else if (0 == time_deflate(&b, &took, &made)) {
        print_timing(time_inflate, &b, runs, cap_ms);
    }
    free(b.text.data);
    free(b.stream.data);
    free(b.copy.data);
    return 0;
}

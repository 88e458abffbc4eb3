/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Times repeated calls: the minimum and the median. */
#include "timing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *) a, right = *(const uint64_t *) b;
    return (left > right) - (left < right);
}

void print_timing(timed_fn call, void *context, unsigned runs, unsigned cap_ms)
{
    uint64_t *times = runs > 0 ? calloc(runs, sizeof(*times)) : NULL;
    uint64_t spent = 0;
    unsigned done = 0;
    size_t made = 0;
    int status = 0;
    if (NULL == times) {
        puts("error no runs");
        return;
    }
    while (done < runs && 0 == status && (0 == done || spent < cap_ms * UINT64_C(1000000))) {
        status = call(context, &times[done], &made);
        spent += times[done++];
    }
    qsort(times, done, sizeof(*times), ascending);
    printf("%d %" PRIu64 " %" PRIu64 " %u %zu\n", status, times[0], times[done / 2], done, made);
    free(times);
}

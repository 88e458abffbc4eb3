/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How long one call takes: the least and the median of several runs. */
#ifndef PMIXRS_INTEROP_TIMING_H
#define PMIXRS_INTEROP_TIMING_H

#include <stddef.h>
#include <stdint.h>

/* One run: returns a status (0 is good), how long it took and how many bytes came out. */
typedef int (*timed_fn)(void *context, uint64_t *took_ns, size_t *made);

/* Nanoseconds of a clock that only goes forward. */
uint64_t clock_ns(void);

/*
 * Repeats the call `runs` times, fewer once `cap_ms` have been spent in it or when it fails, and
 * prints `STATUS MIN_NS MEDIAN_NS RUNS BYTES`.
 */
void print_timing(timed_fn call, void *context, unsigned runs, unsigned cap_ms);

#endif

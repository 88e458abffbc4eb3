/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Times repeated calls: the minimum and the median. */
#ifndef PMIXRS_INTEROP_TIMING_H
#define PMIXRS_INTEROP_TIMING_H

#include <stddef.h>
#include <stdint.h>

/* One run: returns a status (0 is success), its duration and the number of bytes produced. */
typedef int (*timed_fn)(void *context, uint64_t *took_ns, size_t *made);

/* Returns the time of a monotonic clock in nanoseconds. */
uint64_t clock_ns(void);

/* Repeats the call `runs` times, or until it fails or has taken `cap_ms` in total, and prints `STATUS MIN_NS
 * MEDIAN_NS RUNS BYTES`. */
void print_timing(timed_fn call, void *context, unsigned runs, unsigned cap_ms);

#endif

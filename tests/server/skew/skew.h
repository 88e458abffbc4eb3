/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared declarations of the program that compares releases. */
#ifndef PMIXRS_SERVER_SKEW_H
#define PMIXRS_SERVER_SKEW_H

#include "../programs/check.h"

/* The time limit of a callback on a busy machine, in milliseconds. */
#define PATIENCE 20000

/* Returns an info whose value needs no memory. */
pmix_info_t info_of_number(const char *key, uint32_t number);
pmix_info_t info_of_yes(const char *key);

/* The checks that wait for callbacks, and the one of every type. */
void events(void);
void query(void);
void log_line(void);
void output(void);
void types(void);

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the parts of the gds peer share.
 *
 * A server on a real PMIx library that registers a job and is then asked for values, on the public
 * API alone. The requests are described in ../README.md.
 */
#ifndef PMIXRS_INTEROP_GDS_H
#define PMIXRS_INTEROP_GDS_H

#include "../bytes.h"

#include <pmix.h>
#include <pmix_server.h>
#include <stdio.h>

/* The words of a request; `at` is the next one. */
typedef struct {
    char *at;
} words_t;

/* info.c: the next word, or NULL at the end of the line. */
char *next_word(words_t *words);
/* info.c: reads infos up to the end of the line, or to the closing parenthesis that belongs to
 * them. NULL and a reason if they cannot be read. The infos live until the program ends. */
pmix_info_t *read_infos(words_t *words, size_t *count, const char **fault);

/* show.c: prints a value as the golden vectors write it. */
void show_value(const pmix_value_t *value);

/* server.c: answers requests with a server of its own until they end; its files are in the
 * directory. */
int serve(FILE *requests, const char *directory);

/* How the answer to a request that ended the server begins. */
#define CRASHED "crashed"

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared declarations of the gds peer.
 *
 * The peer is a server on a real PMIx library that registers a job and returns its values through the public API.
 * The requests are described in ../README.md. */
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

/* info.c: returns the next word, or NULL at the end of the line. */
char *next_word(words_t *words);
/* info.c: reads infos up to the end of the line, or up to the closing parenthesis. Returns NULL and a reason if they
 * cannot be read. The infos are never freed. */
pmix_info_t *read_infos(words_t *words, size_t *count, const char **fault);

/* show.c: prints a value in the form of the vectors. */
void show_value(const pmix_value_t *value);

/* server.c: answers requests with a server of its own until their end; the directory holds its files. */
int serve(FILE *requests, const char *directory);

/* The beginning of the answer to a request that ended the server. */
#define CRASHED "crashed"

#endif

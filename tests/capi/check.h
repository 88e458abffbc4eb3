/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checks for the programs in this directory. A failed check ends the program with 1, and prints the line and the
 * difference. The program includes pmix.h, stdio.h and stdlib.h first.
 */
#define IS(expected, call)                                                                        \
    do {                                                                                          \
        pmix_status_t is_ = (call);                                                               \
        if (is_ != (expected)) {                                                                  \
            fprintf(stderr, "line %d: %s: %s, not %s\n", __LINE__, #call, PMIx_Error_string(is_), \
                    PMIx_Error_string(expected));                                                 \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)
#define HOLDS(what)                                                    \
    do {                                                               \
        if (!(what)) {                                                 \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Times one public call on input from a file. */
#include "peer.h"
#include "timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int time_regex(void *input, uint64_t *took_ns, size_t *made)
{
    char *out = NULL;
    uint64_t start = clock_ns();
    pmix_status_t status = generate_regex(((bytes_t *) input)->data, &out);
    *took_ns = clock_ns() - start;
    *made = NULL == out ? 0 : framed_len(out);
    free(out);
    return status;
}

static int time_ppn(void *input, uint64_t *took_ns, size_t *made)
{
    char *out = NULL;
    uint64_t start = clock_ns();
    pmix_status_t status = generate_ppn(((bytes_t *) input)->data, &out);
    *took_ns = clock_ns() - start;
    *made = NULL == out ? 0 : framed_len(out);
    free(out);
    return status;
}

static int time_register(void *input, uint64_t *took_ns, size_t *made)
{
    pmix_proc_t job;
    uint64_t start = clock_ns();
    pmix_status_t status = register_nodes(*(bytes_t *) input, &job);
    *took_ns = clock_ns() - start;
    *made = 0;
    drop_job(&job);
    return status;
}

void time_request(const char *what, const char *path, unsigned runs, unsigned cap_ms)
{
    bytes_t input;
    timed_fn call = 0 == strcmp(what, "regex") ? time_regex
                    : 0 == strcmp(what, "ppn") ? time_ppn
                                               : time_register;
    if (bytes_from_file(path, &input) != 0) {
        printf("error cannot read %s\n", path);
        return;
    }
    print_timing(call, &input, runs, cap_ms);
    free(input.data);
}

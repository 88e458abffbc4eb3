/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reads names separated by commas from a file and prints them folded by libslurm. */
#include "bytes.h"

#include <slurm/slurm.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    bytes_t text;
    if (argc != 2 || bytes_from_file(argv[1], &text) != 0) {
        fputs("usage: slurm_fold FILE\n", stderr);
        return 2;
    }
    hostlist_t list = slurm_hostlist_create(text.data);
    char *folded = NULL == list ? NULL : slurm_hostlist_ranged_string_malloc(list);
    if (NULL == folded) {
        fputs("libslurm refuses the list\n", stderr);
        return 1;
    }
    puts(folded);
    free(folded);
    slurm_hostlist_destroy(list);
    free(text.data);
    return 0;
}

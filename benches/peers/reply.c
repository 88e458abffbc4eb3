/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A real PMIx server whose clients ask about their job: `reply NODE_MAP PROC_MAP NUM_NODES
 * NUM_PROCS [procs]`.
 *
 * The job is registered twice, as `built` with one local process, for which a server builds the
 * answer anew each time, and as `shared` with many, which get the one that was built for the
 * first. With `procs` every process has an array of its own, too, as in our own program. The
 * variables that a launched process of `built` gets go to standard output, one a line, then an
 * empty line; the end of standard input ends the program.
 */
#include "bytes.h"

#include <pmix.h>
#include <pmix_server.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How many values an array of a process has, its rank included. */
#define VALUES 7

static void fail(const char *what, int status)
{
    fprintf(stderr, "%s: %d\n", what, status);
    exit(1);
}

static bool good(pmix_status_t status)
{
    return PMIX_SUCCESS == status || PMIX_OPERATION_SUCCEEDED == status;
}

static void fill(pmix_info_t *info, const char *key, pmix_data_type_t type)
{
    memset(info, 0, sizeof(*info));
    strncpy(info->key, key, PMIX_MAX_KEYLEN);
    info->value.type = type;
}

static void read_map(pmix_info_t *info, const char *key, const char *path)
{
    bytes_t map;
    if (bytes_from_file(path, &map) != 0) {
        fail(path, 0);
    }
    fill(info, key, PMIX_REGEX);
    info->value.data.bo.bytes = map.data;
    info->value.data.bo.size = map.len + 1;
}

static void fill_rank(pmix_info_t *info, const char *key, pmix_rank_t rank)
{
    fill(info, key, PMIX_PROC_RANK);
    info->value.data.rank = rank;
}

static void fill_number(pmix_info_t *info, const char *key, pmix_data_type_t type, uint32_t number)
{
    fill(info, key, type);
    if (PMIX_UINT16 == type) {
        info->value.data.uint16 = (uint16_t) number;
    } else {
        info->value.data.uint32 = number;
    }
}

/* What a host may state of a process of a job placed by blocks. */
static void describe(pmix_info_t *info, pmix_rank_t rank, uint32_t each)
{
    pmix_data_array_t *array = calloc(1, sizeof(*array));
    pmix_info_t *values = calloc(VALUES, sizeof(*values));
    if (NULL == array || NULL == values) {
        fail("memory", 0);
    }
    fill_rank(&values[0], PMIX_RANK, rank);
    fill_number(&values[1], PMIX_APPNUM, PMIX_UINT32, 0);
    fill_rank(&values[2], PMIX_GLOBAL_RANK, rank);
    fill_rank(&values[3], PMIX_APP_RANK, rank);
    fill_number(&values[4], PMIX_LOCAL_RANK, PMIX_UINT16, rank % each);
    fill_number(&values[5], PMIX_NODE_RANK, PMIX_UINT16, rank % each);
    fill_number(&values[6], PMIX_NODEID, PMIX_UINT32, rank / each);
    array->type = PMIX_INFO;
    array->array = values;
    array->size = VALUES;
    fill(info, PMIX_PROC_DATA, PMIX_DATA_ARRAY);
    info->value.data.darray = array;
}

static void register_job(pmix_proc_t *first, const char *name, int num_local, pmix_info_t *infos,
                         size_t count)
{
    memset(first, 0, sizeof(*first));
    strcpy(first->nspace, name);
    pmix_status_t status
        = PMIx_server_register_nspace(first->nspace, num_local, infos, count, NULL, NULL);
    if (!good(status)) {
        fail("PMIx_server_register_nspace", status);
    }
    status = PMIx_server_register_client(first, geteuid(), getegid(), NULL, NULL, NULL);
    if (!good(status)) {
        fail("PMIx_server_register_client", status);
    }
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fputs("usage: reply NODE_MAP PROC_MAP NUM_NODES NUM_PROCS [procs]\n", stderr);
        return 2;
    }
    uint32_t num_nodes = (uint32_t) strtoul(argv[3], NULL, 10);
    uint32_t num_procs = (uint32_t) strtoul(argv[4], NULL, 10);
    uint32_t described = argc > 5 && 0 == strcmp(argv[5], "procs") ? num_procs : 0;
    pmix_info_t *infos = calloc(2 + described, sizeof(*infos));
    pmix_proc_t built, shared;
    char **variables = NULL;
    pmix_status_t status = PMIx_server_init(NULL, NULL, 0);
    if (PMIX_SUCCESS != status || NULL == infos || 0 == num_nodes) {
        fail("PMIx_server_init", status);
    }
    read_map(&infos[0], PMIX_NODE_MAP, argv[1]);
    read_map(&infos[1], PMIX_PROC_MAP, argv[2]);
    for (pmix_rank_t rank = 0; rank < described; rank++) {
        describe(&infos[2 + rank], rank, num_procs / num_nodes);
    }
    register_job(&built, "built", 1, infos, 2 + described);
    register_job(&shared, "shared", 1000000, infos, 2 + described);
    status = PMIx_server_setup_fork(&built, &variables);
    if (PMIX_SUCCESS != status) {
        fail("PMIx_server_setup_fork", status);
    }
    for (size_t i = 0; NULL != variables && NULL != variables[i]; i++) {
        puts(variables[i]);
    }
    puts("");
    fflush(stdout);
    while (EOF != getchar()) {
    }
    PMIx_server_finalize();
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The job: its maps, and the local processes. */
#define _GNU_SOURCE
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

uint32_t job_size(const options_t *options)
{
    uint32_t size = options->num_local;
    for (size_t i = 0; i < options->num_far; i++) {
        size += options->far[i].nodes * options->far[i].each;
    }
    return size;
}

/* Writes names and ranks as text: this node first, then the others. */
static void write_lists(const options_t *options, FILE *names, FILE *ranks)
{
    char here[256];
    gethostname(here, sizeof(here));
    fputs(here, names);
    uint32_t rank = 0, node = 0;
    for (; rank < options->num_local; rank++) {
        fprintf(ranks, 0 == rank ? "%u" : ",%u", rank);
    }
    for (size_t i = 0; i < options->num_far; i++) {
        for (uint32_t n = 0; n < options->far[i].nodes; n++) {
            fprintf(names, ",far%06u", ++node);
            for (uint32_t k = 0; k < options->far[i].each; k++) {
                fprintf(ranks, 0 == k ? ";%u" : ",%u", rank++);
            }
        }
    }
}

/* Has the library encode the two maps. */
static void make_maps(const options_t *options, char **node_map, char **proc_map)
{
    char *names = NULL, *ranks = NULL;
    size_t len = 0;
    FILE *name_file = open_memstream(&names, &len), *rank_file = open_memstream(&ranks, &len);
    if (NULL == name_file || NULL == rank_file) {
        fatal("no memory for the maps", PMIX_ERR_NOMEM);
    }
    write_lists(options, name_file, rank_file);
    fclose(name_file);
    fclose(rank_file);
    pmix_status_t status = PMIx_generate_regex(names, node_map);
    if (PMIX_SUCCESS == status) {
        status = PMIx_generate_ppn(ranks, proc_map);
    }
    if (PMIX_SUCCESS != status) {
        fatal("encoding the maps", status);
    }
    free(names);
    free(ranks);
}

/* Loads the session as an array of its info; it has slots for twice the job. */
static void load_session(const options_t *options, uint32_t size, pmix_info_t *info)
{
    uint32_t room = 2 * size;
    pmix_info_t *about;
    PMIX_INFO_CREATE(about, 2);
    PMIX_INFO_LOAD(&about[0], PMIX_SESSION_ID, &options->session, PMIX_UINT32);
    PMIX_INFO_LOAD(&about[1], PMIX_UNIV_SIZE, &room, PMIX_UINT32);
    pmix_data_array_t array = {.type = PMIX_INFO, .size = 2, .array = about};
    PMIX_INFO_LOAD(info, PMIX_SESSION_INFO_ARRAY, &array, PMIX_DATA_ARRAY);
    PMIX_INFO_FREE(about, 2);
}

/* Loads what hosts state about each process: its rank and its application. The hash store of 5.0.7 cannot pack a job
 * without it, and other releases then derive fewer values from the maps. */
static void load_proc(uint32_t rank, pmix_info_t *info)
{
    pmix_rank_t number = rank;
    uint32_t app = 0;
    pmix_info_t *about;
    PMIX_INFO_CREATE(about, 2);
    PMIX_INFO_LOAD(&about[0], PMIX_RANK, &number, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&about[1], PMIX_APPNUM, &app, PMIX_UINT32);
    pmix_data_array_t array = {.type = PMIX_INFO, .size = 2, .array = about};
    PMIX_INFO_LOAD(info, PMIX_PROC_INFO_ARRAY, &array, PMIX_DATA_ARRAY);
    PMIX_INFO_FREE(about, 2);
}

void register_job(const options_t *options)
{
    char *node_map = NULL, *proc_map = NULL;
    make_maps(options, &node_map, &proc_map);
    uint32_t size = job_size(options), apps = 1;
    pmix_info_t *infos;
    PMIX_INFO_CREATE(infos, 7 + size);
    size_t num_infos = 6;
    PMIX_INFO_LOAD(&infos[0], PMIX_NODE_MAP, node_map, PMIX_REGEX);
    PMIX_INFO_LOAD(&infos[1], PMIX_PROC_MAP, proc_map, PMIX_REGEX);
    PMIX_INFO_LOAD(&infos[2], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[3], PMIX_UNIV_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[4], PMIX_MAX_PROCS, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[5], PMIX_JOB_NUM_APPS, &apps, PMIX_UINT32);
    if (0 != options->session) {
        load_session(options, size, &infos[num_infos++]);
    }
    for (uint32_t rank = 0; options->states_procs && rank < size; rank++) {
        load_proc(rank, &infos[num_infos++]);
    }
    answer_t answer;
    answer_reset(&answer);
    pmix_status_t status = PMIx_server_register_nspace(options->nspace, (int) options->num_local,
                                                       infos, num_infos, answer_arrived, &answer);
    status = answer_of(&answer, status);
    if (PMIX_SUCCESS != status) {
        fatal("PMIx_server_register_nspace", status);
    }
    pmix_proc_t proc;
    for (uint32_t rank = 0; rank < options->num_local; rank++) {
        PMIX_LOAD_PROCID(&proc, options->nspace, rank);
        answer_reset(&answer);
        uid_t user = options->foreign ? geteuid() + 1 : geteuid();
        status = PMIx_server_register_client(&proc, user, getegid(), NULL, answer_arrived, &answer);
        status = answer_of(&answer, status);
        if (PMIX_SUCCESS != status) {
            fatal("PMIx_server_register_client", status);
        }
    }
    PMIX_INFO_FREE(infos, 7 + size);
    free(node_map);
    free(proc_map);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host with the fewest calls, `HOST MANNER [-n N] [-r N] PROGRAM ARGS...`, for the manners in which hosts complete
 * client_connected (slot 1) and client_connected2 (slot 2):
 *
 * | MANNER     | slot | the function                                          | hosts                    |
 * | ---------- | ---- | ----------------------------------------------------- | ------------------------ |
 * | none       | -    | both are NULL                                         | flux-pmix                |
 * | never      | 1    | returns PMIX_SUCCESS and never calls back             | Slurm before 25.11       |
 * | inside     | 1    | calls back, then returns PMIX_SUCCESS                 | Slurm 25.11, CraneSched  |
 * | succeeded  | 1    | returns PMIX_OPERATION_SUCCEEDED without the callback | OpenPBS                  |
 * | later      | 1    | returns PMIX_SUCCESS, another thread calls back       | none that is known       |
 * | inside2    | 2    | as `inside`                                           | none that is known       |
 * | succeeded2 | 2    | as `succeeded`                                        | PRRTE                    |
 * | later2     | 2    | as `later`                                            | ParaStation              |
 *
 * client_finalized completes in the same manner; for `never` it returns PMIX_OPERATION_SUCCEEDED, as Slurm does.
 */
#define _GNU_SOURCE
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const pmix_nspace_t NSPACE = "connected";

static const char *manner;

/* A callback for the main thread. */
typedef struct {
    pmix_op_cbfunc_t done;
    void *cbdata;
} later_t;

static void call_back(void *arg)
{
    later_t *later = arg;
    later->done(PMIX_SUCCESS, later->cbdata);
    free(later);
}

static pmix_status_t complete(pmix_op_cbfunc_t done, void *cbdata)
{
    if (0 == strncmp(manner, "succeeded", 9)) {
        return PMIX_OPERATION_SUCCEEDED;
    }
    if (NULL != done && 0 == strncmp(manner, "inside", 6)) {
        done(PMIX_SUCCESS, cbdata);
    } else if (NULL != done && 0 == strncmp(manner, "later", 5)) {
        later_t *later = allocate(sizeof(*later));
        *later = (later_t) {.done = done, .cbdata = cbdata};
        post(call_back, later);
    }
    return PMIX_SUCCESS;
}

static pmix_status_t client_connected(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) object;
    return complete(done, cbdata);
}

static pmix_status_t client_connected2(const pmix_proc_t *proc, void *object, pmix_info_t infos[], size_t ninfos,
                                       pmix_op_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) object, (void) infos, (void) ninfos;
    return complete(done, cbdata);
}

static pmix_status_t client_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) object;
    return 0 == strcmp(manner, "never") ? PMIX_OPERATION_SUCCEEDED : complete(done, cbdata);
}

static void init(void)
{
    static pmix_server_module_t module;
    pmix_info_t info;
    bool is_second = '2' == manner[strlen(manner) - 1];
    if (0 != strcmp(manner, "none")) {
        module.client_finalized = client_finalized;
        module.client_connected = is_second ? NULL : client_connected;
        module.client_connected2 = is_second ? client_connected2 : NULL;
    }
    load(&info, PMIX_SERVER_TMPDIR, job.directory, PMIX_STRING);
    must_be("PMIx_server_init", PMIx_server_init(&module, &info, 1), PMIX_SUCCESS);
}

static void register_job(void)
{
    char *node_map = NULL, *proc_map = NULL;
    must_be("PMIx_generate_regex", PMIx_generate_regex(job.nodes, &node_map), PMIX_SUCCESS);
    must_be("PMIx_generate_ppn", PMIx_generate_ppn(job.ranks, &proc_map), PMIX_SUCCESS);
    pmix_info_t infos[4];
    load(&infos[0], PMIX_NODE_MAP, node_map, PMIX_REGEX);
    load(&infos[1], PMIX_PROC_MAP, proc_map, PMIX_REGEX);
    load(&infos[2], PMIX_JOB_SIZE, &job.size, PMIX_UINT32);
    load(&infos[3], PMIX_UNIV_SIZE, &job.size, PMIX_UINT32);
    must_be("PMIx_server_register_nspace",
            PMIx_server_register_nspace(NSPACE, (int) job.num_local, infos, 4, NULL, NULL), PMIX_OPERATION_SUCCEEDED);
    free(node_map);
    free(proc_map);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs("usage: connected MANNER [-n N] [-r N] PROGRAM ARGS...\n", stderr);
        return 64;
    }
    manner = argv[1];
    job_read(argv + 1);
    init();
    register_job();
    for (pmix_rank_t rank = 0; rank < job.num_local; rank++) {
        pmix_proc_t proc;
        char **variables = NULL;
        PMIX_LOAD_PROCID(&proc, NSPACE, rank);
        must_be("PMIx_server_register_client",
                PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL), PMIX_OPERATION_SUCCEEDED);
        must_be("PMIx_server_setup_fork", PMIx_server_setup_fork(&proc, &variables), PMIX_SUCCESS);
        rank_start(rank, variables);
    }
    int code = ranks_wait(NULL);
    must_be("PMIx_server_finalize", PMIx_server_finalize(), PMIX_SUCCESS);
    job_end(code);
}

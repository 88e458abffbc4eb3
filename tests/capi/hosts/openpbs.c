/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host that makes the calls of OpenPBS (pbs_mom, mom_pmix.c):
 *
 * 1. PMIx_server_init without infos. The module has the functions of release 1.
 * 2. When the job arrives: PMIx_generate_regex, PMIx_generate_ppn, and PMIx_server_register_nspace with a callback, for
 *    which MoM waits whatever the call returned. Infos: PMIX_UNIV_SIZE, PMIX_MAX_PROCS, PMIX_JOB_SIZE (uint32),
 *    PMIX_NODE_MAP, PMIX_PROC_MAP (strings), PMIX_SPAWNED (a uint32 instead of a bool), PMIX_LOCAL_SIZE,
 *    PMIX_NODE_SIZE, PMIX_NUM_NODES (uint32), PMIX_LOCAL_PEERS (string), PMIX_LOCALLDR (rank), PMIX_NODEID (uint32),
 *    PMIX_JOBID (string), PMIX_JOB_NUM_APPS (uint32). No info describes a single rank.
 * 3. For each task PMIx_server_register_client with a callback, for which MoM waits in the same way, and then
 *    PMIx_server_setup_fork with the whole environment of the task.
 * 4. After the end of each task PMIx_Notify_event of PMIX_ERR_JOB_TERMINATED with a callback, for PMIX_RANGE_SESSION,
 *    from rank PMIX_RANK_UNDEF. Infos: PMIX_EVENT_NON_DEFAULT (bool), PMIX_JOB_TERM_STATUS (status),
 *    PMIX_EVENT_AFFECTED_PROC (process, the rank is a wildcard).
 * 5. PMIx_server_deregister_nspace with a callback, for which MoM waits. At the end of MoM PMIx_server_finalize.
 *
 * Each function of the module completes when it returns: client_connected, client_finalized and fence_nb with
 * PMIX_OPERATION_SUCCEEDED, so that a fence returns no data of other nodes, and all others with
 * PMIX_ERR_NOT_IMPLEMENTED. An abort does not end the job.
 */
#define _GNU_SOURCE
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const pmix_nspace_t NSPACE = "4711.pbs";

extern char **environ;

static pmix_status_t client_connected(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) object, (void) done, (void) cbdata;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t client_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) object, (void) done, (void) cbdata;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t job_abort(const pmix_proc_t *proc, void *object, int status, const char text[],
                               pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) object, (void) procs, (void) nprocs, (void) done, (void) cbdata;
    fprintf(stderr, "openpbs: rank %u, abort status: %d, abort message: %s\n", proc->rank, status,
            NULL == text ? "" : text);
    return PMIX_ERR_NOT_IMPLEMENTED;
}

static pmix_status_t fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t infos[], size_t ninfos,
                           char *data, size_t ndata, pmix_modex_cbfunc_t done, void *cbdata)
{
    (void) nprocs, (void) infos, (void) ninfos, (void) data, (void) ndata, (void) done, (void) cbdata;
    /* A job that MoM does not know. */
    return 0 == strcmp(procs[0].nspace, NSPACE) ? PMIX_OPERATION_SUCCEEDED : PMIX_ERROR;
}

static int init(void)
{
    static pmix_server_module_t module;
    refusal = PMIX_ERR_NOT_IMPLEMENTED;
    module.client_connected = client_connected;
    module.client_finalized = client_finalized;
    module.abort = job_abort;
    module.fence_nb = fence;
    module.direct_modex = refusals.direct_modex;
    module.publish = refusals.publish;
    module.lookup = refusals.lookup;
    module.unpublish = refusals.unpublish;
    module.spawn = refusals.spawn;
    module.connect = refusals.connect;
    module.disconnect = refusals.disconnect;
    module.register_events = refusals.register_events;
    module.deregister_events = refusals.deregister_events;
    return PMIx_server_init(&module, NULL, 0);
}

static void register_job(void)
{
    char *node_map = NULL, *proc_map = NULL;
    PMIx_generate_regex(job.nodes, &node_map);
    PMIx_generate_ppn(job.ranks, &proc_map);
    uint32_t zero = 0, one = 1;
    pmix_rank_t leader = 0;
    pmix_info_t *infos;
    PMIX_INFO_CREATE(infos, 14);
    load(&infos[0], PMIX_UNIV_SIZE, &job.size, PMIX_UINT32);
    load(&infos[1], PMIX_MAX_PROCS, &job.size, PMIX_UINT32);
    load(&infos[2], PMIX_JOB_SIZE, &job.size, PMIX_UINT32);
    load(&infos[3], PMIX_NODE_MAP, node_map, PMIX_STRING);
    load(&infos[4], PMIX_PROC_MAP, proc_map, PMIX_STRING);
    load(&infos[5], PMIX_SPAWNED, &zero, PMIX_UINT32);
    load(&infos[6], PMIX_LOCAL_SIZE, &job.num_local, PMIX_UINT32);
    load(&infos[7], PMIX_NODE_SIZE, &job.num_local, PMIX_UINT32);
    load(&infos[8], PMIX_NUM_NODES, &job.num_nodes, PMIX_UINT32);
    load(&infos[9], PMIX_LOCAL_PEERS, job.local_ranks, PMIX_STRING);
    load(&infos[10], PMIX_LOCALLDR, &leader, PMIX_PROC_RANK);
    load(&infos[11], PMIX_NODEID, &zero, PMIX_UINT32);
    load(&infos[12], PMIX_JOBID, NSPACE, PMIX_STRING);
    load(&infos[13], PMIX_JOB_NUM_APPS, &one, PMIX_UINT32);
    answer_t answer = ANSWER;
    pmix_status_t status =
        PMIx_server_register_nspace(NSPACE, (int) job.num_local, infos, 14, answer_arrived, &answer);
    answer_of(&answer);
    PMIX_INFO_FREE(infos, 14);
    must_be("PMIx_server_register_nspace", status, PMIX_SUCCESS);
    free(node_map);
    free(proc_map);
}

/* Returns a copy of the environment to which the library may add variables. */
static char **environment(void)
{
    size_t count = 0;
    while (NULL != environ[count]) {
        count++;
    }
    char **copy = allocate((count + 1) * sizeof(*copy));
    for (size_t i = 0; i < count; i++) {
        copy[i] = copy_of(environ[i], strlen(environ[i]));
    }
    return copy;
}

static void start(pmix_rank_t rank)
{
    pmix_proc_t proc;
    answer_t answer = ANSWER;
    PMIX_LOAD_PROCID(&proc, NSPACE, rank);
    pmix_status_t status = PMIx_server_register_client(&proc, getuid(), getgid(), NULL, answer_arrived, &answer);
    answer_of(&answer);
    must_be("PMIx_server_register_client", status, PMIX_SUCCESS);
    char **variables = environment();
    must_be("PMIx_server_setup_fork", PMIx_server_setup_fork(&proc, &variables), PMIX_SUCCESS);
    rank_start(rank, variables);
}

static void notified(pmix_status_t status, void *cbdata)
{
    (void) status, (void) cbdata;
}

static void ended(pmix_rank_t rank, int code)
{
    (void) rank;
    pmix_proc_t affected, source;
    bool yes = true;
    pmix_info_t *infos;
    PMIX_INFO_CREATE(infos, 3);
    load(&infos[0], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    load(&infos[1], PMIX_JOB_TERM_STATUS, &code, PMIX_STATUS);
    PMIX_LOAD_PROCID(&affected, NSPACE, PMIX_RANK_WILDCARD);
    load(&infos[2], PMIX_EVENT_AFFECTED_PROC, &affected, PMIX_PROC);
    PMIX_LOAD_PROCID(&source, NSPACE, PMIX_RANK_UNDEF);
    /* MoM never frees the infos. */
    pmix_status_t status =
        PMIx_Notify_event(PMIX_ERR_JOB_TERMINATED, &source, PMIX_RANGE_SESSION, infos, 3, notified, NULL);
    must_be("PMIx_Notify_event", status, PMIX_SUCCESS);
}

int main(int argc, char **argv)
{
    (void) argc;
    job_read(argv);
    must_be("PMIx_server_init", init(), PMIX_SUCCESS);
    register_job();
    for (pmix_rank_t rank = 0; rank < job.num_local; rank++) {
        start(rank);
    }
    int code = ranks_wait(ended);
    answer_t answer = ANSWER;
    PMIx_server_deregister_nspace(NSPACE, answer_arrived, &answer);
    answer_of(&answer);
    must_be("PMIx_server_finalize", PMIx_server_finalize(), PMIX_SUCCESS);
    job_end(code);
}

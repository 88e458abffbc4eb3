/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host that makes the calls of flux-pmix (plug-in of the Flux shell):
 *
 * 1. PMIx_server_init with PMIX_SERVER_TMPDIR (string) and PMIX_SERVER_RANK (rank), both filled in by hand. The module
 *    has three functions: fence_nb, abort, direct_modex. client_connected and client_finalized are NULL.
 * 2. PMIx_Register_event_handler for all codes without a callback; the result is the number of the handler. The handler
 *    never completes its event.
 * 3. PMIx_generate_regex, PMIx_generate_ppn, then PMIx_server_register_nspace without a callback, which must return
 *    PMIX_OPERATION_SUCCEEDED. Infos: PMIX_JOBID, PMIX_LOCAL_PEERS, PMIX_NODE_MAP, PMIX_PROC_MAP (strings),
 *    PMIX_TDIR_RMCLEAN (bool), PMIX_JOB_NUM_APPS (uint32), PMIX_TMPDIR (string), PMIX_LOCAL_SIZE, PMIX_UNIV_SIZE,
 *    PMIX_JOB_SIZE, PMIX_APPNUM (uint32), and for each rank a PMIX_PROC_INFO_ARRAY with PMIX_RANK, PMIX_NODEID
 *    (uint32), PMIX_LOCAL_RANK, PMIX_NODE_RANK (uint16).
 * 4. For each task PMIx_server_setup_fork with an empty environment, and only then PMIx_server_register_client without
 *    a callback, which must return PMIX_OPERATION_SUCCEEDED.
 * 5. PMIx_Deregister_event_handler without a callback, PMIx_server_finalize. The nspace stays registered.
 *
 * Each function of the module returns PMIX_SUCCESS and passes its arguments to the main thread, which calls back later:
 * a fence of a whole job succeeds, with a copy of the data if PMIX_COLLECT_DATA is true, and `free` as its release; a
 * fence of some processes is PMIX_ERR_NOT_SUPPORTED, and an unknown required info is PMIX_ERR_BAD_PARAM; a direct modex
 * is PMIX_ERR_NOT_IMPLEMENTED; an abort ends the job and then releases the caller.
 */
#define _GNU_SOURCE
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const pmix_nspace_t NSPACE = "f7Kq2wXJ9d";

/* The arguments of a call of the server, for the main thread. */
typedef struct {
    pmix_status_t status;
    char *data;
    size_t len;
    pmix_modex_cbfunc_t done;
    pmix_op_cbfunc_t op_done;
    void *cbdata;
} call_t;

static void complete_modex(void *arg)
{
    call_t *call = arg;
    call->done(call->status, call->data, call->len, call->cbdata, NULL == call->data ? NULL : free, call->data);
    free(call);
}

/* Returns the status of a fence, and in `collect` the value of PMIX_COLLECT_DATA. */
static pmix_status_t read_fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t infos[], size_t ninfos,
                                bool *collect)
{
    if (nprocs > 1 || PMIX_RANK_WILDCARD != procs[0].rank) {
        return PMIX_ERR_NOT_SUPPORTED;
    }
    for (size_t i = 0; i < ninfos; i++) {
        if (0 == strcmp(infos[i].key, PMIX_COLLECT_DATA)) {
            if (PMIX_BOOL != infos[i].value.type) {
                return PMIX_ERR_BAD_PARAM;
            }
            *collect = infos[i].value.data.flag;
        } else if (0 != (infos[i].flags & PMIX_INFO_REQD)) {
            return PMIX_ERR_BAD_PARAM;
        }
    }
    return PMIX_SUCCESS;
}

static pmix_status_t fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t infos[], size_t ninfos,
                           char *data, size_t ndata, pmix_modex_cbfunc_t done, void *cbdata)
{
    call_t *call = allocate(sizeof(*call));
    bool collect = false;
    call->status = read_fence(procs, nprocs, infos, ninfos, &collect);
    if (PMIX_SUCCESS == call->status) {
        call->len = collect ? ndata : 0;
        call->data = copy_of(data, call->len);
    }
    call->done = done;
    call->cbdata = cbdata;
    post(complete_modex, call);
    return PMIX_SUCCESS;
}

static pmix_status_t direct_modex(const pmix_proc_t *proc, const pmix_info_t infos[], size_t ninfos,
                                  pmix_modex_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) infos, (void) ninfos;
    call_t *call = allocate(sizeof(*call));
    call->status = PMIX_ERR_NOT_IMPLEMENTED;
    call->done = done;
    call->cbdata = cbdata;
    post(complete_modex, call);
    return PMIX_SUCCESS;
}

static void complete_abort(void *arg)
{
    call_t *call = arg;
    ranks_kill();
    if (NULL != call->op_done) {
        call->op_done(PMIX_SUCCESS, call->cbdata);
    }
    free(call);
}

static pmix_status_t job_abort(const pmix_proc_t *proc, void *object, int status, const char text[],
                               pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) object, (void) procs, (void) nprocs;
    fprintf(stderr, "flux: %s.%u called PMIx_Abort (status=%d): %s\n", proc->nspace, proc->rank, status,
            NULL == text ? "(no message)" : text);
    call_t *call = allocate(sizeof(*call));
    call->op_done = done;
    call->cbdata = cbdata;
    post(complete_abort, call);
    return PMIX_SUCCESS;
}

static void notified(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id, (void) infos, (void) ninfos, (void) results, (void) nresults, (void) done, (void) cbdata;
    fprintf(stderr, "flux: notify source=%s.%u event-status=%d\n", source->nspace, source->rank, status);
}

static int init(void)
{
    static pmix_server_module_t module;
    pmix_info_t infos[2];
    module.fence_nb = fence;
    module.abort = job_abort;
    module.direct_modex = direct_modex;
    memset(infos, 0, sizeof(infos));
    strcpy(infos[0].key, PMIX_SERVER_TMPDIR);
    infos[0].value.type = PMIX_STRING;
    infos[0].value.data.string = job.directory;
    strcpy(infos[1].key, PMIX_SERVER_RANK);
    infos[1].value.type = PMIX_PROC_RANK;
    infos[1].value.data.rank = 0;
    must_be("PMIx_server_init", PMIx_server_init(&module, infos, 2), PMIX_SUCCESS);
    int handler = PMIx_Register_event_handler(NULL, 0, NULL, 0, notified, NULL, NULL);
    if (handler < 0) {
        must_be("PMIx_Register_event_handler", handler, 0);
    }
    return handler;
}

static void load_rank(pmix_info_t *info, pmix_rank_t rank)
{
    uint32_t node = rank < job.num_local ? 0 : 1;
    uint16_t local = local_rank_of(rank);
    pmix_info_t *about;
    PMIX_INFO_CREATE(about, 4);
    load(&about[0], PMIX_RANK, &rank, PMIX_PROC_RANK);
    load(&about[1], PMIX_NODEID, &node, PMIX_UINT32);
    load(&about[2], PMIX_LOCAL_RANK, &local, PMIX_UINT16);
    load(&about[3], PMIX_NODE_RANK, &local, PMIX_UINT16);
    load_array(info, PMIX_PROC_INFO_ARRAY, about, 4);
}

static void register_job(void)
{
    char *node_map = NULL, *proc_map = NULL;
    must_be("PMIx_generate_regex", PMIx_generate_regex(job.nodes, &node_map), PMIX_SUCCESS);
    must_be("PMIx_generate_ppn", PMIx_generate_ppn(job.ranks, &proc_map), PMIX_SUCCESS);
    uint32_t apps = 1, app = 0;
    bool yes = true;
    size_t count = 11 + job.size;
    pmix_info_t *infos;
    PMIX_INFO_CREATE(infos, count);
    load(&infos[0], PMIX_JOBID, NSPACE, PMIX_STRING);
    load(&infos[1], PMIX_LOCAL_PEERS, job.local_ranks, PMIX_STRING);
    load(&infos[2], PMIX_NODE_MAP, node_map, PMIX_STRING);
    load(&infos[3], PMIX_PROC_MAP, proc_map, PMIX_STRING);
    load(&infos[4], PMIX_TDIR_RMCLEAN, &yes, PMIX_BOOL);
    load(&infos[5], PMIX_JOB_NUM_APPS, &apps, PMIX_UINT32);
    load(&infos[6], PMIX_TMPDIR, job.directory, PMIX_STRING);
    load(&infos[7], PMIX_LOCAL_SIZE, &job.num_local, PMIX_UINT32);
    load(&infos[8], PMIX_UNIV_SIZE, &job.size, PMIX_UINT32);
    load(&infos[9], PMIX_JOB_SIZE, &job.size, PMIX_UINT32);
    load(&infos[10], PMIX_APPNUM, &app, PMIX_UINT32);
    for (pmix_rank_t rank = 0; rank < job.size; rank++) {
        load_rank(&infos[11 + rank], rank);
    }
    must_be("PMIx_server_register_nspace",
            PMIx_server_register_nspace(NSPACE, (int) job.num_local, infos, count, NULL, NULL),
            PMIX_OPERATION_SUCCEEDED);
    PMIX_INFO_FREE(infos, count);
    free(node_map);
    free(proc_map);
}

int main(int argc, char **argv)
{
    (void) argc;
    job_read(argv);
    int handler = init();
    register_job();
    for (pmix_rank_t rank = 0; rank < job.num_local; rank++) {
        pmix_proc_t proc;
        char **variables = NULL;
        PMIX_LOAD_PROCID(&proc, NSPACE, rank);
        must_be("PMIx_server_setup_fork", PMIx_server_setup_fork(&proc, &variables), PMIX_SUCCESS);
        must_be("PMIx_server_register_client",
                PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL), PMIX_OPERATION_SUCCEEDED);
        rank_start(rank, variables);
    }
    int code = ranks_wait(NULL);
    PMIx_Deregister_event_handler((size_t) handler, NULL, NULL);
    must_be("PMIx_server_finalize", PMIx_server_finalize(), PMIX_SUCCESS);
    job_end(code);
}

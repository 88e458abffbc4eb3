/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host that makes the calls of CraneSched (supervisor of a step):
 *
 * 1. PMIx_server_init with PMIX_SERVER_TMPDIR (string), and below release 5 PMIX_USERID (uint32) before it. The module
 *    has twelve functions.
 * 2. PMIx_Register_event_handler for all codes, with a callback for which the supervisor does not wait.
 * 3. PMIx_server_setup_application without infos; the supervisor waits for the callback, and does not release the
 *    results.
 * 4. PMIx_server_register_nspace with a callback. Infos: PMIX_SPAWNED, PMIX_TDIR_RMCLEAN (bool), PMIX_JOBID (string),
 *    PMIX_NODEID (uint32), for each rank a PMIX_PROC_DATA with PMIX_RANK, PMIX_APPNUM, PMIX_APPLDR (int),
 *    PMIX_GLOBAL_RANK, PMIX_APP_RANK (uint32), PMIX_NODE_RANK, PMIX_LOCAL_RANK (uint16), PMIX_HOSTNAME (string) and
 *    PMIX_NODEID (uint32), where the two infos before PMIX_HOSTNAME stay empty for ranks of other nodes; PMIX_UNIV_SIZE,
 *    PMIX_JOB_SIZE, PMIX_LOCAL_SIZE, PMIX_NODE_SIZE, PMIX_MAX_PROCS and, from release 5 on, PMIX_USERID (uint32);
 *    PMIX_NODE_MAP, PMIX_PROC_MAP, PMIX_ANL_MAP (the process map again), PMIX_LOCAL_PEERS (strings), PMIX_LOCALLDR
 *    (uint32).
 * 5. PMIx_server_setup_local_support without infos, then PMIx_server_register_client for each rank, each with a
 *    callback. The three calls must return PMIX_SUCCESS.
 * 6. For each task PMIx_server_setup_fork with an empty environment.
 * 7. At the end PMIx_Deregister_event_handler with a callback but no data for it, unless the number of the handler is 0;
 *    PMIx_server_deregister_nspace with a callback; PMIx_server_finalize.
 *
 * client_connected, client_finalized and abort call back before they return PMIX_SUCCESS; an abort ends the job. A fence
 * calls back under a lock that the release of the data takes as well: on one node before it returns, otherwise when the
 * other node has contributed. A direct modex is answered by the server of its node. All others return
 * PMIX_ERR_NOT_SUPPORTED; job_control calls back as well.
 */
#define _GNU_SOURCE
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const pmix_nspace_t NSPACE = "crane.pmix.11.0";

/* The lock of the collectives. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The number of the event handler. */
static size_t handler;

static pmix_status_t client_event(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) object;
    if (NULL != done) {
        done(PMIX_SUCCESS, cbdata);
    }
    return PMIX_SUCCESS;
}

static pmix_status_t job_abort(const pmix_proc_t *proc, void *object, int status, const char text[],
                               pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) object, (void) procs, (void) nprocs;
    fprintf(stderr, "cranesched: PMIx Abort invoked: status=%d, msg=%s\n", status, text);
    ranks_kill();
    if (NULL != done) {
        done(PMIX_SUCCESS, cbdata);
    }
    return PMIX_SUCCESS;
}

/* The contribution of this node, and the callback of a fence. */
typedef struct {
    char *data;
    size_t len;
    pmix_modex_cbfunc_t done;
    void *cbdata;
} ring_t;

static void release(void *arg)
{
    ring_t *ring = arg;
    pthread_mutex_lock(&lock);
    free(ring->data);
    free(ring);
    pthread_mutex_unlock(&lock);
}

/* Called with the lock held. */
static void ring_complete(ring_t *ring)
{
    ring->done(PMIX_SUCCESS, ring->data, ring->len, ring->cbdata, release, ring);
}

static void neighbor_contributed(void *arg)
{
    pthread_mutex_lock(&lock);
    ring_complete(arg);
    pthread_mutex_unlock(&lock);
}

static pmix_status_t fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t infos[], size_t ninfos,
                           char *data, size_t ndata, pmix_modex_cbfunc_t done, void *cbdata)
{
    (void) procs, (void) nprocs, (void) infos, (void) ninfos;
    if (NULL == data && ndata > 0) {
        done(PMIX_ERROR, NULL, 0, cbdata, NULL, NULL);
        return PMIX_ERROR;
    }
    ring_t *ring = allocate(sizeof(*ring));
    *ring = (ring_t) {.data = copy_of(data, ndata), .len = ndata, .done = done, .cbdata = cbdata};
    pthread_mutex_lock(&lock);
    if (0 == job.num_remote) {
        ring_complete(ring);
    } else {
        post(neighbor_contributed, ring);
    }
    pthread_mutex_unlock(&lock);
    return PMIX_SUCCESS;
}

/* A direct modex on its way to the node of its process. */
typedef struct {
    pmix_proc_t proc;
    pmix_modex_cbfunc_t done;
    void *cbdata;
} modex_t;

static void modex_answered(pmix_status_t status, char *data, size_t len, void *cbdata)
{
    modex_t *modex = cbdata;
    modex->done(status, data, len, modex->cbdata, NULL, NULL);
    free(modex);
}

static void modex_arrived(void *arg)
{
    modex_t *modex = arg;
    /* The node that does not exist answers that its rank has ended. */
    pmix_status_t status = modex->proc.rank < job.num_local
                               ? PMIx_server_dmodex_request(&modex->proc, modex_answered, modex)
                               : PMIX_ERR_NOT_FOUND;
    if (PMIX_SUCCESS != status) {
        modex_answered(status, NULL, 0, modex);
    }
}

static pmix_status_t direct_modex(const pmix_proc_t *proc, const pmix_info_t infos[], size_t ninfos,
                                  pmix_modex_cbfunc_t done, void *cbdata)
{
    (void) infos, (void) ninfos;
    if (0 != strcmp(proc->nspace, NSPACE) || proc->rank >= job.size) {
        done(PMIX_ERROR, NULL, 0, cbdata, NULL, NULL);
        return PMIX_ERROR;
    }
    modex_t *modex = allocate(sizeof(*modex));
    *modex = (modex_t) {.proc = *proc, .done = done, .cbdata = cbdata};
    post(modex_arrived, modex);
    return PMIX_SUCCESS;
}

static pmix_status_t job_control(const pmix_proc_t *proc, const pmix_proc_t targets[], size_t ntargets,
                                 const pmix_info_t infos[], size_t ninfos, pmix_info_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) targets, (void) ntargets, (void) infos, (void) ninfos;
    if (NULL != done) {
        done(PMIX_ERR_NOT_SUPPORTED, NULL, 0, cbdata, NULL, NULL);
    }
    return PMIX_ERR_NOT_SUPPORTED;
}

static void failed(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                   pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id, (void) source, (void) infos, (void) ninfos, (void) results, (void) nresults;
    fprintf(stderr, "cranesched: error handler invoked: status=%d\n", status);
    ranks_kill();
    if (NULL != done) {
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    }
}

static void handler_registered(pmix_status_t status, size_t id, void *cbdata)
{
    (void) cbdata;
    if (PMIX_SUCCESS == status) {
        handler = id;
    }
}

/* CraneSched passes no data with this callback, and uses them: its supervisor would end here. */
static void handler_deregistered(pmix_status_t status, void *cbdata)
{
    fprintf(stderr, "cranesched: handler %zu deregistered, status %d, data %s\n", handler, status,
            NULL == cbdata ? "missing" : "present");
}

static void application_set_up(pmix_status_t status, pmix_info_t infos[], size_t ninfos, void *provided,
                               pmix_op_cbfunc_t done, void *cbdata)
{
    (void) infos, (void) ninfos, (void) done, (void) cbdata;
    answer_arrived(status, provided);
}

static void load_rank(pmix_info_t *info, pmix_rank_t rank)
{
    int zero = 0;
    uint32_t node = rank < job.num_local ? 0 : 1;
    uint16_t local = local_rank_of(rank);
    pmix_data_array_t *array;
    PMIX_DATA_ARRAY_CREATE(array, 9, PMIX_INFO);
    pmix_info_t *about = array->array;
    load(&about[0], PMIX_RANK, &rank, PMIX_PROC_RANK);
    load(&about[1], PMIX_APPNUM, &zero, PMIX_INT);
    load(&about[2], PMIX_APPLDR, &zero, PMIX_INT);
    load(&about[3], PMIX_GLOBAL_RANK, &rank, PMIX_UINT32);
    load(&about[4], PMIX_APP_RANK, &rank, PMIX_UINT32);
    if (0 == node) {
        load(&about[5], PMIX_NODE_RANK, &local, PMIX_UINT16);
        load(&about[6], PMIX_LOCAL_RANK, &local, PMIX_UINT16);
    }
    load(&about[7], PMIX_HOSTNAME, node_of(rank), PMIX_STRING);
    load(&about[8], PMIX_NODEID, &node, PMIX_UINT32);
    PMIX_INFO_CONSTRUCT(info);
    PMIX_LOAD_KEY(info->key, PMIX_PROC_DATA);
    info->value.type = PMIX_DATA_ARRAY;
    info->value.data.darray = array;
}

static void init(void)
{
    static pmix_server_module_t module;
    module.client_connected = client_event;
    module.client_finalized = client_event;
    module.abort = job_abort;
    module.fence_nb = fence;
    module.direct_modex = direct_modex;
    module.publish = refusals.publish;
    module.lookup = refusals.lookup;
    module.unpublish = refusals.unpublish;
    module.spawn = refusals.spawn;
    module.connect = refusals.connect;
    module.disconnect = refusals.disconnect;
    module.job_control = job_control;
    uint32_t user = getuid();
    size_t count = PMIX_VERSION_MAJOR < 5 ? 2 : 1;
    pmix_info_t *infos;
    PMIX_INFO_CREATE(infos, count);
    if (PMIX_VERSION_MAJOR < 5) {
        load(&infos[0], PMIX_USERID, &user, PMIX_UINT32);
    }
    load(&infos[count - 1], PMIX_SERVER_TMPDIR, job.directory, PMIX_STRING);
    must_be("PMIx_server_init", PMIx_server_init(&module, infos, count), PMIX_SUCCESS);
    PMIX_INFO_FREE(infos, count);
    PMIx_Register_event_handler(NULL, 0, NULL, 0, failed, handler_registered, NULL);
    answer_t answer = ANSWER;
    must_be("PMIx_server_setup_application",
            PMIx_server_setup_application(NSPACE, NULL, 0, application_set_up, &answer), PMIX_SUCCESS);
    answer_of(&answer);
}

static void register_job(void)
{
    bool yes = true, no = false;
    uint32_t zero = 0, user = getuid();
    char *node_map = NULL, *proc_map = NULL;
    must_be("PMIx_generate_regex", PMIx_generate_regex(job.nodes, &node_map), PMIX_SUCCESS);
    must_be("PMIx_generate_ppn", PMIx_generate_ppn(job.ranks, &proc_map), PMIX_SUCCESS);
    size_t count = job.size + (PMIX_VERSION_MAJOR < 5 ? 14 : 15), n = 0;
    pmix_info_t *infos;
    PMIX_INFO_CREATE(infos, count);
    load(&infos[n++], PMIX_SPAWNED, &no, PMIX_BOOL);
    load(&infos[n++], PMIX_TDIR_RMCLEAN, &yes, PMIX_BOOL);
    load(&infos[n++], PMIX_JOBID, "11", PMIX_STRING);
    load(&infos[n++], PMIX_NODEID, &zero, PMIX_UINT32);
    for (pmix_rank_t rank = 0; rank < job.size; rank++) {
        load_rank(&infos[n++], rank);
    }
    load(&infos[n++], PMIX_UNIV_SIZE, &job.size, PMIX_UINT32);
    load(&infos[n++], PMIX_JOB_SIZE, &job.size, PMIX_UINT32);
    load(&infos[n++], PMIX_LOCAL_SIZE, &job.num_local, PMIX_UINT32);
    load(&infos[n++], PMIX_NODE_SIZE, &job.num_local, PMIX_UINT32);
    load(&infos[n++], PMIX_MAX_PROCS, &job.size, PMIX_UINT32);
    if (PMIX_VERSION_MAJOR >= 5) {
        load(&infos[n++], PMIX_USERID, &user, PMIX_UINT32);
    }
    load(&infos[n++], PMIX_NODE_MAP, node_map, PMIX_STRING);
    load(&infos[n++], PMIX_PROC_MAP, proc_map, PMIX_STRING);
    load(&infos[n++], PMIX_ANL_MAP, proc_map, PMIX_STRING);
    load(&infos[n++], PMIX_LOCAL_PEERS, job.local_ranks, PMIX_STRING);
    load(&infos[n++], PMIX_LOCALLDR, &zero, PMIX_UINT32);
    answer_t registered = ANSWER, supported = ANSWER;
    must_be("PMIx_server_register_nspace",
            PMIx_server_register_nspace(NSPACE, (int) job.num_local, infos, n, answer_arrived, &registered),
            PMIX_SUCCESS);
    answer_of(&registered);
    PMIX_INFO_FREE(infos, count);
    free(node_map);
    free(proc_map);
    must_be("PMIx_server_setup_local_support",
            PMIx_server_setup_local_support(NSPACE, NULL, 0, answer_arrived, &supported), PMIX_SUCCESS);
    answer_of(&supported);
}

int main(int argc, char **argv)
{
    (void) argc;
    job_read(argv);
    init();
    register_job();
    pmix_proc_t proc;
    for (pmix_rank_t rank = 0; rank < job.num_local; rank++) {
        answer_t answer = ANSWER;
        PMIX_LOAD_PROCID(&proc, NSPACE, rank);
        must_be("PMIx_server_register_client",
                PMIx_server_register_client(&proc, getuid(), getgid(), NULL, answer_arrived, &answer), PMIX_SUCCESS);
        answer_of(&answer);
    }
    for (pmix_rank_t rank = 0; rank < job.num_local; rank++) {
        char **variables = NULL;
        PMIX_LOAD_PROCID(&proc, NSPACE, rank);
        must_be("PMIx_server_setup_fork", PMIx_server_setup_fork(&proc, &variables), PMIX_SUCCESS);
        rank_start(rank, variables);
    }
    int code = ranks_wait(NULL);
    if (0 != handler) {
        PMIx_Deregister_event_handler(handler, handler_deregistered, NULL);
    }
    answer_t answer = ANSWER;
    PMIx_server_deregister_nspace(NSPACE, answer_arrived, &answer);
    answer_of(&answer);
    must_be("PMIx_server_finalize", PMIx_server_finalize(), PMIX_SUCCESS);
    job_end(code);
}

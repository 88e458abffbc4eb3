/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host that makes the calls of ParaStation (psmgmt, pspmix), whose user server serves the jobs of a user on a node:
 *
 * 1. PMIx_server_init with PMIX_SERVER_NSPACE (string), PMIX_SERVER_RANK (rank), PMIX_SERVER_TMPDIR, PMIX_SYSTEM_TMPDIR
 *    (strings), and as false PMIX_SERVER_TOOL_SUPPORT, PMIX_SERVER_SYSTEM_SUPPORT, PMIX_SERVER_SESSION_SUPPORT,
 *    PMIX_SERVER_GATEWAY, PMIX_SERVER_SCHEDULER. All arrays of infos are made with PMIx_Info_list_start and its
 *    companions.
 * 2. PMIx_server_register_resources with a PMIX_SESSION_INFO_ARRAY: PMIX_CLUSTER_ID (string), PMIX_SESSION_ID
 *    (UINT32_MAX, for every session), PMIX_RM_NAME, PMIX_RM_VERSION, PMIX_SERVER_HOSTNAME (strings).
 * 3. PMIx_Register_event_handler for all codes without a callback; the result is the number of the handler.
 * 4. PMIx_server_register_nspace with a callback. Infos: PMIX_SERVER_NSPACE, PMIX_SERVER_RANK, PMIX_JOB_SIZE;
 *    PMIX_SESSION_INFO_ARRAY, PMIX_JOB_INFO_ARRAY, PMIX_APP_INFO_ARRAY, for each node a PMIX_NODE_INFO_ARRAY, for each
 *    rank a PMIX_PROC_INFO_ARRAY, as in the functions below. PMIX_NODEID of a node is its place in the job, that of a
 *    rank is the number of the node in the cluster. PMIx_server_generate_locality_string for the local ranks.
 * 5. PMIx_server_setup_local_support without infos, PMIx_server_define_process_set of the reservation.
 * 6. For each rank PMIx_server_register_client with an object and a callback, then PMIx_server_setup_fork with an empty
 *    environment.
 * 7. PMIx_server_deregister_nspace with a callback, PMIx_Deregister_event_handler without, PMIx_server_finalize.
 *
 * client_connected is NULL. client_connected2 and client_finalized return PMIX_SUCCESS if the object of the client is
 * present; a thread of its own calls back when the forwarder of the client has answered. An abort of the whole job ends
 * the job and returns PMIX_OPERATION_SUCCEEDED. A fence of this node alone returns PMIX_OPERATION_SUCCEEDED without
 * data; other fences and direct modexes return PMIX_SUCCESS and complete later, with a release of their data. A spawn
 * that cannot be made is called back with PMIX_ERROR. Logs to the standard streams are called back from a thread. All
 * others return PMIX_ERR_NOT_SUPPORTED.
 */
#define _GNU_SOURCE
#include "parastation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A callback that a thread of its own makes once the upcall has returned. */
typedef struct {
    pmix_op_cbfunc_t done;
    void *cbdata;
    pmix_status_t status;
} finished_t;

static void *call_back(void *arg)
{
    finished_t *finished = arg;
    finished->done(finished->status, finished->cbdata);
    free(finished);
    return NULL;
}

/* The forwarder has answered; runs on the main thread. */
static void forwarder_answered(void *arg)
{
    pthread_t thread;
    if (0 == pthread_create(&thread, NULL, call_back, arg)) {
        pthread_detach(thread);
    }
}

static void finish_later(pmix_status_t status, pmix_op_cbfunc_t done, void *cbdata)
{
    if (NULL != done) {
        finished_t *finished = allocate(sizeof(*finished));
        *finished = (finished_t) {.done = done, .cbdata = cbdata, .status = status};
        post(forwarder_answered, finished);
    }
}

static pmix_status_t client_connected2(const pmix_proc_t *proc, void *object, pmix_info_t infos[], size_t ninfos,
                                       pmix_op_cbfunc_t done, void *cbdata)
{
    (void) infos, (void) ninfos;
    if (NULL == object || *(pmix_rank_t *) object != proc->rank) {
        return PMIX_ERR_BAD_PARAM;
    }
    finish_later(PMIX_SUCCESS, done, cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t client_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *cbdata)
{
    return client_connected2(proc, object, NULL, 0, done, cbdata);
}

static pmix_status_t job_abort(const pmix_proc_t *proc, void *object, int status, const char text[],
                               pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) object, (void) status, (void) done, (void) cbdata;
    if (NULL != procs && (nprocs != 1 || PMIX_RANK_WILDCARD != procs[0].rank)) {
        return PMIX_ERR_PARAM_VALUE_NOT_SUPPORTED;
    }
    fprintf(stderr, "parastation: on users request from rank %u: %s\n", proc->rank, NULL == text ? "" : text);
    ranks_kill();
    return PMIX_OPERATION_SUCCEEDED;
}

/* The data of a fence or of a direct modex. */
typedef struct {
    char *data;
    size_t len;
    pmix_status_t status;
    pmix_modex_cbfunc_t done;
    void *cbdata;
} modex_t;

static void release(void *arg)
{
    modex_t *modex = arg;
    free(modex->data);
    free(modex);
}

static void modex_completed(void *arg)
{
    modex_t *modex = arg;
    modex->done(modex->status, modex->data, modex->len, modex->cbdata, release, modex);
}

static pmix_status_t fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t infos[], size_t ninfos,
                           char *data, size_t ndata, pmix_modex_cbfunc_t done, void *cbdata)
{
    (void) infos, (void) ninfos;
    bool is_local = 0 == job.num_remote;
    for (size_t i = 0; i < nprocs && !is_local; i++) {
        is_local = nprocs - 1 == i && procs[i].rank < job.num_local;
    }
    if (is_local) {
        free(data);
        return PMIX_OPERATION_SUCCEEDED;
    }
    modex_t *modex = allocate(sizeof(*modex));
    *modex = (modex_t) {.data = data, .len = ndata, .status = PMIX_SUCCESS, .done = done, .cbdata = cbdata};
    post(modex_completed, modex);
    return PMIX_SUCCESS;
}

static pmix_status_t direct_modex(const pmix_proc_t *proc, const pmix_info_t infos[], size_t ninfos,
                                  pmix_modex_cbfunc_t done, void *cbdata)
{
    for (size_t i = 0; i < ninfos; i++) {
        bool is_known = 0 == strcmp(infos[i].key, PMIX_REQUIRED_KEY) || 0 == strcmp(infos[i].key, PMIX_TIMEOUT) ||
                        0 == strcmp(infos[i].key, PMIX_GET_REFRESH_CACHE);
        if (!is_known && 0 != (infos[i].flags & PMIX_INFO_REQD)) {
            return PMIX_ERR_NOT_SUPPORTED;
        }
    }
    if (proc->rank >= job.size) {
        return PMIX_ERROR;
    }
    /* The other node has no such rank, and answers with the status of its server. */
    modex_t *modex = allocate(sizeof(*modex));
    *modex = (modex_t) {.status = PMIX_ERR_NOT_FOUND, .done = done, .cbdata = cbdata};
    post(modex_completed, modex);
    return PMIX_SUCCESS;
}

/* A spawn that cannot be made. */
typedef struct {
    pmix_spawn_cbfunc_t done;
    void *cbdata;
} spawn_t;

static void spawn_failed(void *arg)
{
    spawn_t *spawn = arg;
    pmix_nspace_t nspace;
    PMIX_LOAD_NSPACE(nspace, "none");
    spawn->done(PMIX_ERROR, nspace, spawn->cbdata);
    free(spawn);
}

static pmix_status_t spawn(const pmix_proc_t *proc, const pmix_info_t infos[], size_t ninfos, const pmix_app_t apps[],
                           size_t napps, pmix_spawn_cbfunc_t done, void *cbdata)
{
    if (NULL == proc || (0 != ninfos && NULL == infos) || 0 == napps || NULL == apps[0].cmd || NULL == apps[0].argv) {
        return PMIX_ERR_BAD_PARAM;
    }
    spawn_t *spawn = allocate(sizeof(*spawn));
    *spawn = (spawn_t) {.done = done, .cbdata = cbdata};
    post(spawn_failed, spawn);
    return PMIX_SUCCESS;
}

static void log_data(const pmix_proc_t *proc, const pmix_info_t data[], size_t ndata, const pmix_info_t infos[],
                     size_t ninfos, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) infos, (void) ninfos;
    pmix_status_t status = PMIX_ERR_BAD_PARAM;
    for (size_t i = 0; i < ndata; i++) {
        bool to_stderr = 0 == strcmp(data[i].key, PMIX_LOG_STDERR);
        if (to_stderr || 0 == strcmp(data[i].key, PMIX_LOG_STDOUT)) {
            fputs(data[i].value.data.string, to_stderr ? stderr : stdout);
            fflush(NULL);
            status = PMIX_SUCCESS;
        }
    }
    finish_later(status, done, cbdata);
}

static void notified(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t infos[], size_t ninfos,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id, (void) infos, (void) ninfos, (void) results, (void) nresults;
    fprintf(stderr, "parastation: %s:%u: %s\n", source->nspace, source->rank, PMIx_Error_string(status));
    if (NULL != done) {
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    }
}

static void set_slots(pmix_server_module_t *module)
{
    *module = refusals;
    module->client_connected2 = client_connected2;
    module->client_finalized = client_finalized;
    module->abort = job_abort;
    module->fence_nb = fence;
    module->direct_modex = direct_modex;
    module->spawn = spawn;
    module->log = log_data;
}

int main(int argc, char **argv)
{
    (void) argc;
    static pmix_server_module_t module;
    job_read(argv);
    set_slots(&module);
    parastation_init(&module);
    int handler = PMIx_Register_event_handler(NULL, 0, NULL, 0, notified, NULL, NULL);
    if (handler < 0) {
        must_be("PMIx_Register_event_handler", handler, 0);
    }
    parastation_register();
    pmix_rank_t *objects = allocate(job.num_local * sizeof(*objects));
    for (pmix_rank_t rank = 0; rank < job.num_local; rank++) {
        pmix_proc_t proc;
        answer_t answer = ANSWER;
        char **variables = NULL;
        objects[rank] = rank;
        PMIX_LOAD_PROCID(&proc, NSPACE, rank);
        must_be("PMIx_server_register_client",
                PMIx_server_register_client(&proc, getuid(), getgid(), &objects[rank], answer_arrived, &answer),
                PMIX_SUCCESS);
        must_be("the client", answer_of(&answer), PMIX_SUCCESS);
        must_be("PMIx_server_setup_fork", PMIx_server_setup_fork(&proc, &variables), PMIX_SUCCESS);
        rank_start(rank, variables);
    }
    int code = ranks_wait(NULL);
    answer_t answer = ANSWER;
    PMIx_server_deregister_nspace(NSPACE, answer_arrived, &answer);
    must_be("PMIx_server_deregister_nspace", answer_of(&answer), PMIX_SUCCESS);
    PMIx_Deregister_event_handler((size_t) handler, NULL, NULL);
    must_be("PMIx_server_finalize", PMIx_server_finalize(), PMIX_SUCCESS);
    free(objects);
    job_end(code);
}

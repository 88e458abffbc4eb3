/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The upcalls of the host, which has no other node to reach. */
#define _GNU_SOURCE
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pmix_status_t client_connected2(const pmix_proc_t *proc, void *object, pmix_info_t *infos,
                                       size_t num_infos, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) object, (void) infos, (void) num_infos;
    if (NULL != done) {
        done(PMIX_SUCCESS, cbdata);
    }
    return PMIX_SUCCESS;
}

static pmix_status_t client_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done,
                                      void *cbdata)
{
    (void) proc, (void) object, (void) done, (void) cbdata;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t aborted(const pmix_proc_t *proc, void *object, int status, const char *message,
                             pmix_proc_t *procs, size_t num_procs, pmix_op_cbfunc_t done,
                             void *cbdata)
{
    (void) object, (void) procs, (void) num_procs, (void) done, (void) cbdata;
    fprintf(stderr, "host: rank %u aborts with %d: %s\n", proc->rank, status,
            NULL == message ? "no reason" : message);
    abort_job(status);
    return PMIX_OPERATION_SUCCEEDED;
}

/* Completes a fence with remote members, which contribute no data. */
static pmix_status_t fence(const pmix_proc_t *procs, size_t num_procs, const pmix_info_t *infos,
                           size_t num_infos, char *data, size_t len, pmix_modex_cbfunc_t done,
                           void *cbdata)
{
    (void) procs, (void) num_procs, (void) infos, (void) num_infos;
    char *copy = 0 == len ? NULL : malloc(len);
    if (NULL != copy) {
        memcpy(copy, data, len);
    }
    done(PMIX_SUCCESS, copy, NULL == copy ? 0 : len, cbdata, free, copy);
    return PMIX_SUCCESS;
}

static pmix_status_t direct_modex(const pmix_proc_t *proc, const pmix_info_t *infos,
                                  size_t num_infos, pmix_modex_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) infos, (void) num_infos, (void) done, (void) cbdata;
    return PMIX_ERR_NOT_FOUND;
}

static pmix_status_t connected(const pmix_proc_t *procs, size_t num_procs, const pmix_info_t *infos,
                               size_t num_infos, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) procs, (void) num_procs, (void) infos, (void) num_infos, (void) done, (void) cbdata;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t register_events(pmix_status_t *codes, size_t num_codes,
                                     const pmix_info_t *infos, size_t num_infos,
                                     pmix_op_cbfunc_t done, void *cbdata)
{
    (void) codes, (void) num_codes, (void) infos, (void) num_infos, (void) done, (void) cbdata;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t deregister_events(pmix_status_t *codes, size_t num_codes,
                                       pmix_op_cbfunc_t done, void *cbdata)
{
    (void) codes, (void) num_codes, (void) done, (void) cbdata;
    return PMIX_OPERATION_SUCCEEDED;
}

/* The event that the program `relayed` generates, and the event that it receives as if from another node. */
#define RELAYED (PMIX_EXTERNAL_ERR_BASE - 11)
#define TOLD (PMIX_EXTERNAL_ERR_BASE - 12)

/* The key by which servers of pmix-rs name the only user that may receive an event. */
#define ONLY_USER "pmixrs.event.user"

/* An event that is being delivered. */
typedef struct {
    pmix_info_t *infos;
    size_t num_infos;
} event_t;

static void told(pmix_status_t status, void *cbdata)
{
    event_t *event = cbdata;
    if (PMIX_SUCCESS != status && PMIX_OPERATION_SUCCEEDED != status) {
        fatal("telling an event", status);
    }
    PMIX_INFO_FREE(event->infos, event->num_infos);
    free(event);
}

/* Packs and unpacks infos, as a host does that sends them to another node. */
static void carry(pmix_info_t *infos, size_t num_infos, pmix_info_t *to)
{
    pmix_data_buffer_t buffer;
    int32_t count = (int32_t) num_infos;
    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    pmix_status_t status = PMIx_Data_pack(NULL, &buffer, infos, count, PMIX_INFO);
    if (PMIX_SUCCESS == status) {
        status = PMIx_Data_unpack(NULL, &buffer, to, &count, PMIX_INFO);
    }
    if (PMIX_SUCCESS != status || (size_t) count != num_infos) {
        fatal("carrying an event", status);
    }
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
}

/* Delivers an event as the host of another node would, with the user that it knows. */
static void relay(const pmix_proc_t *source, pmix_info_t *infos, size_t num_infos)
{
    event_t *event = malloc(sizeof(*event));
    pmix_proc_t elsewhere;
    uint32_t user = UINT32_MAX;
    if (NULL == event) {
        fatal("an event", PMIX_ERR_NOMEM);
    }
    for (size_t n = 0; n < num_infos; n++) {
        if (PMIX_CHECK_KEY(&infos[n], ONLY_USER) && PMIX_UINT32 == infos[n].value.type) {
            user = infos[n].value.data.uint32;
        }
    }
    event->num_infos = num_infos + 1;
    PMIX_INFO_CREATE(event->infos, event->num_infos);
    if (0 < num_infos) {
        carry(infos, num_infos, event->infos);
    }
    PMIX_INFO_LOAD(&event->infos[num_infos], "host.user", &user, PMIX_UINT32);
    PMIX_LOAD_PROCID(&elsewhere, source->nspace, PMIX_RANK_UNDEF);
    pmix_status_t status = PMIx_Notify_event(TOLD, &elsewhere, PMIX_RANGE_GLOBAL, event->infos,
                                             event->num_infos, told, event);
    if (PMIX_SUCCESS != status) {
        told(status, event);
    }
}

static pmix_status_t notify_event(pmix_status_t code, const pmix_proc_t *source,
                                  pmix_data_range_t range, pmix_info_t *infos, size_t num_infos,
                                  pmix_op_cbfunc_t done, void *cbdata)
{
    (void) range, (void) done, (void) cbdata;
    if (RELAYED == code) {
        relay(source, infos, num_infos);
    }
    return PMIX_OPERATION_SUCCEEDED;
}

/* An answer that must not be sent before the upcall has returned. */
typedef struct {
    pmix_op_cbfunc_t done;
    void *cbdata;
    /* Output to deliver before the answer, or NULL. */
    char *output;
} later_t;

static void *give_answer(void *context)
{
    later_t later = *(later_t *) context;
    free(context);
    if (NULL != later.output) {
        deliver_output(later.output);
        free(later.output);
    }
    later.done(PMIX_SUCCESS, later.cbdata);
    return NULL;
}

static void answer_later(pmix_op_cbfunc_t done, void *cbdata, char *output)
{
    later_t *later = malloc(sizeof(*later));
    *later = (later_t){.done = done, .cbdata = cbdata, .output = output};
    pthread_t thread;
    pthread_create(&thread, NULL, give_answer, later);
    pthread_detach(thread);
}

static void log_it(const pmix_proc_t *client, const pmix_info_t *data, size_t num_data,
                   const pmix_info_t *directives, size_t num_directives, pmix_op_cbfunc_t done,
                   void *cbdata)
{
    (void) directives, (void) num_directives;
    char *output = NULL;
    for (size_t i = 0; i < num_data; i++) {
        if (PMIX_STRING != data[i].value.type) {
            continue;
        }
        if (PMIX_CHECK_KEY(&data[i], "host.output") && NULL == output) {
            output = strdup(data[i].value.data.string);
        } else {
            fprintf(stderr, "host: log of rank %u: %s\n", client->rank, data[i].value.data.string);
        }
    }
    answer_later(done, cbdata, output);
}

static pmix_status_t job_control(const pmix_proc_t *client, const pmix_proc_t *targets,
                                 size_t num_targets, const pmix_info_t *directives,
                                 size_t num_directives, pmix_info_cbfunc_t done, void *cbdata)
{
    (void) client, (void) targets, (void) num_targets, (void) directives, (void) num_directives;
    done(PMIX_SUCCESS, NULL, 0, cbdata, NULL, NULL);
    return PMIX_SUCCESS;
}

/* Accepts a tool with its own name, or assigns one. */
static void tool_connected(pmix_info_t *infos, size_t num_infos, pmix_tool_connection_cbfunc_t done,
                           void *cbdata)
{
    static unsigned tools;
    pmix_proc_t proc;
    char name[64];
    snprintf(name, sizeof(name), "host.tool.%u", ++tools);
    PMIX_LOAD_PROCID(&proc, name, 0);
    for (size_t i = 0; i < num_infos; i++) {
        if (PMIX_CHECK_KEY(&infos[i], PMIX_NSPACE) && PMIX_STRING == infos[i].value.type) {
            PMIX_LOAD_NSPACE(proc.nspace, infos[i].value.data.string);
        } else if (PMIX_CHECK_KEY(&infos[i], PMIX_RANK) && PMIX_PROC_RANK == infos[i].value.type) {
            proc.rank = infos[i].value.data.rank;
        }
    }
    done(PMIX_SUCCESS, &proc, cbdata);
}

/* A later library copies a longer table than this header declares; the bytes after ours must be NULL. */
static struct {
    pmix_server_module_t module;
    void *later[32];
} table = {
    .module = {
        .client_connected2 = client_connected2,
        .client_finalized = client_finalized,
        .abort = aborted,
        .fence_nb = fence,
        .direct_modex = direct_modex,
        .connect = connected,
        .disconnect = connected,
        .register_events = register_events,
        .deregister_events = deregister_events,
        .notify_event = notify_event,
        .tool_connected = tool_connected,
        .log = log_it,
        .job_control = job_control,
    },
};

pmix_server_module_t *host_module(void)
{
    board_join(&table.module);
    services_join(&table.module);
    return &table.module;
}

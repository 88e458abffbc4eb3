/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Functions of a module that only return a status, as most functions of the products do. */
#define _GNU_SOURCE
#include "host.h"

pmix_status_t refusal = PMIX_ERR_NOT_SUPPORTED;

static pmix_status_t abort_procs(const pmix_proc_t *proc, void *object, int status, const char text[],
                                 pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) object, (void) status, (void) text, (void) procs, (void) nprocs, (void) done, (void) cbdata;
    return refusal;
}

static pmix_status_t direct_modex(const pmix_proc_t *proc, const pmix_info_t infos[], size_t ninfos,
                                  pmix_modex_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) infos, (void) ninfos, (void) done, (void) cbdata;
    return refusal;
}

static pmix_status_t publish(const pmix_proc_t *proc, const pmix_info_t infos[], size_t ninfos, pmix_op_cbfunc_t done,
                             void *cbdata)
{
    (void) proc, (void) infos, (void) ninfos, (void) done, (void) cbdata;
    return refusal;
}

static pmix_status_t lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t infos[], size_t ninfos,
                            pmix_lookup_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) keys, (void) infos, (void) ninfos, (void) done, (void) cbdata;
    return refusal;
}

static pmix_status_t unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t infos[], size_t ninfos,
                               pmix_op_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) keys, (void) infos, (void) ninfos, (void) done, (void) cbdata;
    return refusal;
}

static pmix_status_t spawn(const pmix_proc_t *proc, const pmix_info_t infos[], size_t ninfos, const pmix_app_t apps[],
                           size_t napps, pmix_spawn_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) infos, (void) ninfos, (void) apps, (void) napps, (void) done, (void) cbdata;
    return refusal;
}

static pmix_status_t connect_procs(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t infos[], size_t ninfos,
                                   pmix_op_cbfunc_t done, void *cbdata)
{
    (void) procs, (void) nprocs, (void) infos, (void) ninfos, (void) done, (void) cbdata;
    return refusal;
}

static pmix_status_t register_events(pmix_status_t *codes, size_t ncodes, const pmix_info_t infos[], size_t ninfos,
                                     pmix_op_cbfunc_t done, void *cbdata)
{
    (void) codes, (void) ncodes, (void) infos, (void) ninfos, (void) done, (void) cbdata;
    return refusal;
}

static pmix_status_t deregister_events(pmix_status_t *codes, size_t ncodes, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) codes, (void) ncodes, (void) done, (void) cbdata;
    return refusal;
}

static pmix_status_t notify_event(pmix_status_t code, const pmix_proc_t *source, pmix_data_range_t range,
                                  pmix_info_t infos[], size_t ninfos, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) code, (void) source, (void) range, (void) infos, (void) ninfos, (void) done, (void) cbdata;
    return refusal;
}

static pmix_status_t query(pmix_proc_t *proc, pmix_query_t *queries, size_t nqueries, pmix_info_cbfunc_t done,
                           void *cbdata)
{
    (void) proc, (void) queries, (void) nqueries, (void) done, (void) cbdata;
    return refusal;
}

static void tool_connected(pmix_info_t *infos, size_t ninfos, pmix_tool_connection_cbfunc_t done, void *cbdata)
{
    (void) infos, (void) ninfos, (void) done, (void) cbdata;
}

static pmix_status_t allocate_nodes(const pmix_proc_t *proc, pmix_alloc_directive_t directive,
                                    const pmix_info_t infos[], size_t ninfos, pmix_info_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) directive, (void) infos, (void) ninfos, (void) done, (void) cbdata;
    return refusal;
}

static pmix_status_t job_control(const pmix_proc_t *proc, const pmix_proc_t targets[], size_t ntargets,
                                 const pmix_info_t infos[], size_t ninfos, pmix_info_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) targets, (void) ntargets, (void) infos, (void) ninfos, (void) done, (void) cbdata;
    return refusal;
}

static pmix_status_t monitor(const pmix_proc_t *proc, const pmix_info_t *kind, pmix_status_t error,
                             const pmix_info_t infos[], size_t ninfos, pmix_info_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) kind, (void) error, (void) infos, (void) ninfos, (void) done, (void) cbdata;
    return refusal;
}

static pmix_status_t get_credential(const pmix_proc_t *proc, const pmix_info_t infos[], size_t ninfos,
                                    pmix_credential_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) infos, (void) ninfos, (void) done, (void) cbdata;
    return refusal;
}

static pmix_status_t validate_credential(const pmix_proc_t *proc, const pmix_byte_object_t *credential,
                                         const pmix_info_t infos[], size_t ninfos, pmix_validation_cbfunc_t done,
                                         void *cbdata)
{
    (void) proc, (void) credential, (void) infos, (void) ninfos, (void) done, (void) cbdata;
    return refusal;
}

static pmix_status_t pull_output(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t infos[], size_t ninfos,
                                 pmix_iof_channel_t channels, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) procs, (void) nprocs, (void) infos, (void) ninfos, (void) channels, (void) done, (void) cbdata;
    return refusal;
}

static pmix_status_t push_stdin(const pmix_proc_t *source, const pmix_proc_t targets[], size_t ntargets,
                                const pmix_info_t infos[], size_t ninfos, const pmix_byte_object_t *bytes,
                                pmix_op_cbfunc_t done, void *cbdata)
{
    (void) source, (void) targets, (void) ntargets, (void) infos, (void) ninfos, (void) bytes, (void) done;
    (void) cbdata;
    return refusal;
}

static pmix_status_t group(pmix_group_operation_t operation, char name[], const pmix_proc_t procs[], size_t nprocs,
                           const pmix_info_t infos[], size_t ninfos, pmix_info_cbfunc_t done, void *cbdata)
{
    (void) operation, (void) name, (void) procs, (void) nprocs, (void) infos, (void) ninfos, (void) done;
    (void) cbdata;
    return refusal;
}

static pmix_status_t fabric(const pmix_proc_t *proc, pmix_fabric_operation_t operation, const pmix_info_t infos[],
                            size_t ninfos, pmix_info_cbfunc_t done, void *cbdata)
{
    (void) proc, (void) operation, (void) infos, (void) ninfos, (void) done, (void) cbdata;
    return refusal;
}

const pmix_server_module_t refusals = {
    .abort = abort_procs,
    .direct_modex = direct_modex,
    .publish = publish,
    .lookup = lookup,
    .unpublish = unpublish,
    .spawn = spawn,
    .connect = connect_procs,
    .disconnect = connect_procs,
    .register_events = register_events,
    .deregister_events = deregister_events,
    .notify_event = notify_event,
    .query = query,
    .tool_connected = tool_connected,
    .allocate = allocate_nodes,
    .job_control = job_control,
    .monitor = monitor,
    .get_credential = get_credential,
    .validate_credential = validate_credential,
    .iof_pull = pull_output,
    .push_stdin = push_stdin,
    .group = group,
    .fabric = fabric,
};

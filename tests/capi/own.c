/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Requests of the process of a server: it reads what was registered and what it put, and its host handles the rest.
 * With "all" the program also makes the requests that the OpenPMIx releases do not handle.
 */
#include <pmix_server.h>
#include <pmix_tool.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static const pmix_status_t MISSING = -40;
static const pmix_nspace_t job = "job";
static pmix_proc_t own;
static atomic_int done;
static _Atomic pmix_status_t told;

static void is_own(const pmix_proc_t *proc)
{
    HOLDS(0 == strcmp(proc->nspace, own.nspace) && proc->rank == own.rank);
}

static pmix_status_t query(pmix_proc_t *proc, pmix_query_t *queries, size_t nqueries,
                           pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    pmix_info_t info;

    is_own(proc);
    HOLDS(nqueries == 1 && 0 == strcmp(queries[0].keys[0], PMIX_QUERY_QUEUE_LIST));
    PMIX_INFO_LOAD(&info, PMIX_QUERY_QUEUE_LIST, "long", PMIX_STRING);
    cbfunc(PMIX_SUCCESS, &info, 1, cbdata, NULL, NULL);
    PMIX_INFO_DESTRUCT(&info);
    return PMIX_SUCCESS;
}

static pmix_status_t job_control(const pmix_proc_t *proc, const pmix_proc_t targets[], size_t ntargets,
                                 const pmix_info_t directives[], size_t ndirs,
                                 pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    is_own(proc);
    HOLDS(ntargets == 1 && targets[0].rank == 1 && ndirs == 1);
    HOLDS(0 == strcmp(directives[0].key, PMIX_JOB_CTRL_KILL));
    cbfunc(PMIX_SUCCESS, NULL, 0, cbdata, NULL, NULL);
    return PMIX_SUCCESS;
}

static pmix_status_t monitor(const pmix_proc_t *proc, const pmix_info_t *what, pmix_status_t error,
                             const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc,
                             void *cbdata)
{
    (void) directives;
    is_own(proc);
    HOLDS(error == MISSING && ndirs == 0 && 0 == strcmp(what->key, PMIX_MONITOR_HEARTBEAT));
    cbfunc(PMIX_SUCCESS, NULL, 0, cbdata, NULL, NULL);
    return PMIX_SUCCESS;
}

static pmix_status_t spawn(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                           const pmix_app_t apps[], size_t napps, pmix_spawn_cbfunc_t cbfunc, void *cbdata)
{
    (void) info;
    (void) ninfo;
    is_own(proc);
    HOLDS(napps == 1 && 0 == strcmp(apps[0].cmd, "program") && apps[0].maxprocs == 2);
    cbfunc(PMIX_SUCCESS, "spawned", cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t credential(const pmix_proc_t *proc, const pmix_info_t directives[], size_t ndirs,
                                pmix_credential_cbfunc_t cbfunc, void *cbdata)
{
    pmix_byte_object_t made = {"secret", 6};

    (void) directives;
    is_own(proc);
    HOLDS(ndirs == 0);
    cbfunc(PMIX_SUCCESS, &made, NULL, 0, cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t published(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                               pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    is_own(proc);
    HOLDS(ninfo >= 1 && 0 == strcmp(info[0].key, "card"));
    cbfunc(PMIX_SUCCESS, cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t ninfo,
                            pmix_lookup_cbfunc_t cbfunc, void *cbdata)
{
    pmix_pdata_t found;

    (void) info;
    (void) ninfo;
    is_own(proc);
    if (0 != strcmp(keys[0], "card")) {
        return PMIX_ERR_NOT_FOUND;
    }
    pmix_status_t status = NULL == keys[1] ? PMIX_SUCCESS : PMIX_ERR_PARTIAL_SUCCESS;
    PMIX_PDATA_CONSTRUCT(&found);
    PMIX_LOAD_KEY(found.key, "card");
    found.proc = *proc;
    PMIX_VALUE_LOAD(&found.value, "ib0", PMIX_STRING);
    cbfunc(status, &found, 1, cbdata);
    PMIX_PDATA_DESTRUCT(&found);
    return PMIX_SUCCESS;
}

static pmix_status_t unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                               size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void) info;
    (void) ninfo;
    (void) cbfunc;
    (void) cbdata;
    is_own(proc);
    HOLDS(0 == strcmp(keys[0], "card") && keys[1] == NULL);
    return PMIX_OPERATION_SUCCEEDED;
}

static void logs(const pmix_proc_t *proc, const pmix_info_t data[], size_t ndata,
                 const pmix_info_t directives[], size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    is_own(proc);
    HOLDS(ndata == 1 && 0 == strcmp(data[0].value.data.string, "a line"));
    HOLDS(ndirs == 1 && 0 == strcmp(directives[0].key, PMIX_LOG_SOURCE));
    is_own(directives[0].value.data.proc);
    cbfunc(PMIX_SUCCESS, cbdata);
}

static int pulls;

static pmix_status_t iof_pull(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t directives[],
                              size_t ndirs, pmix_iof_channel_t channels, pmix_op_cbfunc_t cbfunc,
                              void *cbdata)
{
    (void) cbfunc;
    (void) cbdata;
    HOLDS(nprocs == 1 && procs[0].rank == 1 && channels == PMIX_FWD_STDOUT_CHANNEL);
    pulls += ndirs == 1 && 0 == strcmp(directives[0].key, PMIX_IOF_STOP) ? -1 : 1;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t push_stdin(const pmix_proc_t *source, const pmix_proc_t targets[], size_t ntargets,
                                const pmix_info_t directives[], size_t ndirs,
                                const pmix_byte_object_t *bytes, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void) directives;
    (void) ndirs;
    is_own(source);
    HOLDS(ntargets == 1 && targets[0].rank == 1 && bytes->size == 5);
    cbfunc(PMIX_SUCCESS, cbdata);
    return PMIX_SUCCESS;
}

static void is_done(pmix_status_t status, void *cbdata)
{
    (void) cbdata;
    told = status;
    done = 1;
}

static void answered(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *cbdata,
                     pmix_release_cbfunc_t release, void *release_cbdata)
{
    HOLDS(ninfo == 1 && 0 == strcmp(info[0].value.data.string, "long"));
    if (NULL != release) {
        release(release_cbdata);
    }
    is_done(status, cbdata);
}

static pmix_status_t wait_for_it(void)
{
    int tenths;

    for (tenths = 0; !done && tenths < 300; tenths++) {
        usleep(100000);
    }
    HOLDS(done);
    done = 0;
    return told;
}

static pmix_value_t *get(const char *nspace, pmix_rank_t rank, const char *key)
{
    pmix_proc_t proc;
    pmix_value_t *value = NULL;

    PMIX_LOAD_PROCID(&proc, nspace, rank);
    IS(PMIX_SUCCESS, PMIx_Get(&proc, key, NULL, 0, &value));
    return value;
}

static void is_text(const char *expected, pmix_value_t *value)
{
    HOLDS(value->type == PMIX_STRING && 0 == strcmp(expected, value->data.string));
    PMIX_VALUE_RELEASE(value);
}

static void is_number(uint32_t expected, pmix_value_t *value)
{
    HOLDS(expected == (value->type == PMIX_UINT16 ? value->data.uint16 : value->data.uint32));
    PMIX_VALUE_RELEASE(value);
}

static void registers(void)
{
    pmix_info_t infos[3];
    uint32_t size = 4;
    char *nodes, *ranks;

    IS(PMIX_SUCCESS, PMIx_generate_regex("n1,n2", &nodes));
    IS(PMIX_SUCCESS, PMIx_generate_ppn("0,1;2,3", &ranks));
    PMIX_INFO_LOAD(&infos[0], PMIX_NODE_MAP, nodes, PMIX_REGEX);
    PMIX_INFO_LOAD(&infos[1], PMIX_PROC_MAP, ranks, PMIX_REGEX);
    PMIX_INFO_LOAD(&infos[2], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    IS(PMIX_SUCCESS, PMIx_server_register_nspace(job, 2, infos, 3, is_done, NULL));
    IS(PMIX_SUCCESS, wait_for_it());
    PMIX_INFO_DESTRUCT(&infos[0]);
    PMIX_INFO_DESTRUCT(&infos[1]);
    free(nodes);
    free(ranks);
}

/* Resolves the processes of a job on a node, and checks their number. */
static void peers(pmix_status_t expected, size_t count, const char *node, const char *nspace)
{
    pmix_proc_t *procs = (pmix_proc_t *) &own;
    size_t nprocs = 77;
    pmix_nspace_t name;

    PMIX_LOAD_NSPACE(name, nspace);
    IS(expected, PMIx_Resolve_peers(node, NULL == nspace ? NULL : name, &procs, &nprocs));
    HOLDS(count == nprocs && (0 == count) == (NULL == procs));
    PMIX_PROC_FREE(procs, nprocs);
}

/* Resolves the nodes of a job; NULL expects none. */
static void nodes(pmix_status_t expected, const char *names, const char *nspace)
{
    char *list = (char *) &own;
    pmix_nspace_t name;

    PMIX_LOAD_NSPACE(name, nspace);
    IS(expected, PMIx_Resolve_nodes(NULL == nspace ? NULL : name, &list));
    HOLDS(NULL == names ? NULL == list : 0 == strcmp(names, list));
    free(list);
}

/* A server without jobs has no processes on any node: the only case in which an empty result is a success. */
static void resolves_nothing(void)
{
    peers(PMIX_SUCCESS, 0, NULL, NULL);
    peers(PMIX_SUCCESS, 0, "n1", NULL);
    nodes(PMIX_SUCCESS, NULL, NULL);
}

/* For the jobs that the server has registered, 5.0.11 also calls the host. */
static void resolves(void)
{
    pmix_info_t info;

    peers(PMIX_SUCCESS, 2, "n1", "job");
    peers(PMIX_SUCCESS, 2, "n2", "job");
    nodes(PMIX_SUCCESS, "n1,n2", "job");
    peers(PMIX_SUCCESS, 2, "n1", NULL);
    nodes(PMIX_SUCCESS, "n1,n2", NULL);
    peers(PMIX_SUCCESS, 0, "n3", "job");
    peers(PMIX_SUCCESS, 0, "n3", NULL);
    peers(PMIX_ERR_NOT_FOUND, 0, "n1", "nobody");
    nodes(PMIX_ERR_NOT_FOUND, NULL, "nobody");
    /* An empty list is not a list of nodes. */
    PMIX_INFO_LOAD(&info, PMIX_NODE_LIST, "", PMIX_STRING);
    pmix_nspace_t bare = "bare";
    IS(PMIX_SUCCESS, PMIx_server_register_nspace(bare, 0, &info, 1, is_done, NULL));
    IS(PMIX_SUCCESS, wait_for_it());
    nodes(PMIX_ERR_NOT_FOUND, NULL, "bare");
    PMIx_server_deregister_nspace(bare, is_done, NULL);
    wait_for_it();
    PMIX_INFO_DESTRUCT(&info);
}

static void reads(void)
{
    pmix_value_t value, *got = NULL;
    pmix_proc_t other;

    is_number(4, get("job", PMIX_RANK_WILDCARD, PMIX_JOB_SIZE));
    is_number(1, get("job", 1, PMIX_LOCAL_RANK));
    is_text("n2", get("job", 2, PMIX_HOSTNAME));
    is_text("n1,n2", get("job", PMIX_RANK_WILDCARD, PMIX_NODE_LIST));
    PMIX_LOAD_PROCID(&other, "job", 0);
    IS(PMIX_ERR_NOT_FOUND, PMIx_Get(&other, "nothing", NULL, 0, &got));
    PMIX_LOAD_PROCID(&other, "nobody", 0);
    IS(PMIX_ERR_NOT_FOUND, PMIx_Get(&other, PMIX_JOB_SIZE, NULL, 0, &got));
    PMIX_VALUE_LOAD(&value, "ib0", PMIX_STRING);
    IS(PMIX_SUCCESS, PMIx_Put(PMIX_GLOBAL, "card", &value));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Put(99, "card", &value));
    IS(PMIX_SUCCESS, PMIx_Commit());
    is_text("ib0", get(own.nspace, own.rank, "card"));
    PMIX_LOAD_PROCID(&other, "job", 1);
    IS(PMIX_SUCCESS, PMIx_Store_internal(&other, "note", &value));
    is_text("ib0", get("job", 1, "note"));
    is_text("ib0", get("job", PMIX_RANK_UNDEF, "note"));
    PMIX_VALUE_DESTRUCT(&value);
}

static int says(const pmix_data_array_t *infos, const char *key)
{
    const pmix_info_t *all = infos->array;
    size_t i;

    for (i = 0; i < infos->size; i++) {
        if (0 == strcmp(all[i].key, key)) {
            return 1;
        }
    }
    return 0;
}

static void value_is_done(pmix_status_t status, pmix_value_t *value, void *cbdata)
{
    HOLDS(PMIX_SUCCESS != status || (PMIX_DATA_ARRAY == value->type && says(value->data.darray, PMIX_LOCAL_RANK)));
    is_done(status, cbdata);
}

/* A get without a key returns all data of a process or a job, as in the releases. */
static void reads_all(bool ours)
{
    pmix_proc_t proc;
    pmix_value_t *got = NULL;
    pmix_info_t optional;
    bool yes = true;

    PMIX_INFO_LOAD(&optional, PMIX_OPTIONAL, &yes, PMIX_BOOL);
    PMIX_LOAD_PROCID(&proc, "job", 2);
    IS(PMIX_SUCCESS, PMIx_Get(&proc, NULL, &optional, 1, &got));
    HOLDS(PMIX_DATA_ARRAY == got->type && PMIX_INFO == got->data.darray->type);
    HOLDS(says(got->data.darray, PMIX_HOSTNAME) && says(got->data.darray, PMIX_LOCAL_RANK));
    PMIX_VALUE_RELEASE(got);
    if (!ours) {
        return;
    }
    proc.rank = 1;
    IS(PMIX_SUCCESS, PMIx_Get(&proc, NULL, NULL, 0, &got));
    HOLDS(says(got->data.darray, "note") && !says(got->data.darray, PMIX_JOB_SIZE));
    PMIX_VALUE_RELEASE(got);
    proc.rank = PMIX_RANK_WILDCARD;
    IS(PMIX_SUCCESS, PMIx_Get(&proc, NULL, NULL, 0, &got));
    HOLDS(says(got->data.darray, PMIX_JOB_SIZE) && says(got->data.darray, PMIX_NODE_LIST));
    PMIX_VALUE_RELEASE(got);
    IS(PMIX_SUCCESS, PMIx_Get(&own, NULL, NULL, 0, &got));
    HOLDS(1 == got->data.darray->size && says(got->data.darray, "card"));
    PMIX_VALUE_RELEASE(got);
    proc.rank = 0;
    IS(PMIX_SUCCESS, PMIx_Get_nb(&proc, NULL, NULL, 0, value_is_done, NULL));
    IS(PMIX_SUCCESS, wait_for_it());
    PMIX_LOAD_PROCID(&proc, "nobody", 0);
    IS(PMIX_ERR_NOT_FOUND, PMIx_Get(&proc, NULL, NULL, 0, &got));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Get(&own, "", NULL, 0, &got));
}

static atomic_int ended;

static void is_ended(pmix_status_t status, void *cbdata)
{
    HOLDS(PMIX_ERR_COMM_FAILURE == status && &ended == cbdata);
    ended++;
}

static void infos_are_ended(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *cbdata,
                            pmix_release_cbfunc_t release, void *release_cbdata)
{
    HOLDS(NULL == info && 0 == ninfo);
    if (NULL != release) {
        release(release_cbdata);
    }
    is_ended(status, cbdata);
}

static void modex_is_ended(pmix_status_t status, char *data, size_t size, void *cbdata)
{
    HOLDS(NULL == data && 0 == size);
    is_ended(status, cbdata);
}

/* The host never replies to this directive. */
static pmix_status_t allocates(const pmix_proc_t *proc, pmix_alloc_directive_t directive,
                               const pmix_info_t data[], size_t ndata, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    (void) data, (void) ndata, (void) cbfunc, (void) cbdata;
    is_own(proc);
    return PMIX_ALLOC_EXTEND == directive ? PMIX_SUCCESS : PMIX_ERR_NOT_SUPPORTED;
}

/* A fabric with an index and a vendor; an update returns the number of updates. */
static pmix_status_t fabric_asked(const pmix_proc_t *proc, pmix_fabric_operation_t operation,
                                  const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc,
                                  void *cbdata)
{
    static pmix_info_t told[2];
    static uint32_t updates;
    size_t index = 7;

    is_own(proc);
    if (PMIX_FABRIC_UPDATE_INFO == operation) {
        HOLDS(1 == ndirs && PMIX_CHECK_KEY(&directives[0], PMIX_FABRIC_INDEX)
              && 7 == directives[0].value.data.size);
        updates++;
    } else {
        HOLDS(PMIX_FABRIC_REQUEST_INFO == operation && 1 == ndirs
              && PMIX_CHECK_KEY(&directives[0], PMIX_FABRIC_PLANE));
    }
    PMIX_INFO_LOAD(&told[0], PMIX_FABRIC_INDEX, &index, PMIX_SIZE);
    PMIX_INFO_LOAD(&told[1], PMIX_FABRIC_NUM_DEVICES, &updates, PMIX_UINT32);
    cbfunc(PMIX_SUCCESS, told, 2, cbdata, NULL, NULL);
    return PMIX_SUCCESS;
}

static void is_fabric(const pmix_fabric_t *fabric, uint32_t updates)
{
    HOLDS(7 == fabric->index && 2 == fabric->ninfo && NULL != fabric->info);
    HOLDS(PMIX_CHECK_KEY(&fabric->info[1], PMIX_FABRIC_NUM_DEVICES));
    HOLDS(updates == fabric->info[1].value.data.uint32);
}

static atomic_int fabric_told;

static void fabric_is_told(pmix_status_t status, void *cbdata)
{
    IS(PMIX_SUCCESS, status);
    is_fabric(cbdata, 2);
    fabric_told = 1;
}

/* Registers, updates and deregisters a fabric. */
static void asks_about_fabrics(void)
{
    pmix_fabric_t fabric;
    pmix_info_t plane;

    memset(&fabric, 0, sizeof(fabric));
    PMIX_INFO_LOAD(&plane, PMIX_FABRIC_PLANE, "plane0", PMIX_STRING);
    IS(PMIX_SUCCESS, PMIx_Fabric_register(&fabric, &plane, 1));
    PMIX_INFO_DESTRUCT(&plane);
    is_fabric(&fabric, 0);
    IS(PMIX_SUCCESS, PMIx_Fabric_update(&fabric));
    is_fabric(&fabric, 1);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Fabric_update_nb(&fabric, NULL, NULL));
    IS(PMIX_SUCCESS, PMIx_Fabric_update_nb(&fabric, fabric_is_told, &fabric));
    for (int i = 0; i < 10000 && !fabric_told; i++) {
        usleep(1000);
    }
    HOLDS(fabric_told);
    IS(PMIX_SUCCESS, PMIx_Fabric_deregister(&fabric));
    HOLDS(NULL == fabric.info && 0 == fabric.ninfo);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Fabric_register(NULL, NULL, 0));
}

/* Checks that the end of the server completes all open requests. */
static void leaves_open(void)
{
    pmix_proc_t first;

    PMIX_LOAD_PROCID(&first, job, 0);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_client(&first, getuid(), getgid(), NULL, NULL, NULL));
    IS(PMIX_SUCCESS, PMIx_server_dmodex_request(&first, modex_is_ended, (void *) &ended));
    IS(PMIX_SUCCESS, PMIx_Allocation_request_nb(PMIX_ALLOC_EXTEND, NULL, 0, infos_are_ended, (void *) &ended));
    HOLDS(0 == ended);
}

static void append(char ***keys, const char *key)
{
    pmix_status_t added;

    PMIX_ARGV_APPEND(added, *keys, key);
    IS(PMIX_SUCCESS, added);
}

static void asks(void)
{
    pmix_query_t queried;
    pmix_info_t *results = NULL, info;
    pmix_byte_object_t secret = {NULL, 0};
    pmix_proc_t target;
    pmix_app_t app;
    pmix_nspace_t nspace;
    size_t nresults = 0;
    bool yes = true;

    PMIX_QUERY_CONSTRUCT(&queried);
    append(&queried.keys, PMIX_QUERY_QUEUE_LIST);
    IS(PMIX_SUCCESS, PMIx_Query_info(&queried, 1, &results, &nresults));
    HOLDS(nresults == 1 && 0 == strcmp(results[0].value.data.string, "long"));
    PMIX_INFO_FREE(results, nresults);
    IS(PMIX_SUCCESS, PMIx_Query_info_nb(&queried, 1, answered, NULL));
    IS(PMIX_SUCCESS, wait_for_it());
    PMIX_QUERY_DESTRUCT(&queried);

    PMIX_LOAD_PROCID(&target, "job", 1);
    PMIX_INFO_LOAD(&info, PMIX_JOB_CTRL_KILL, &yes, PMIX_BOOL);
    IS(PMIX_SUCCESS, PMIx_Job_control(&target, 1, &info, 1, &results, &nresults));
    PMIX_INFO_LOAD(&info, PMIX_MONITOR_HEARTBEAT, NULL, PMIX_POINTER);
    IS(PMIX_SUCCESS, PMIx_Process_monitor(&info, MISSING, NULL, 0, &results, &nresults));

    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup("program");
    app.maxprocs = 2;
    IS(PMIX_SUCCESS, PMIx_Spawn(NULL, 0, &app, 1, nspace));
    HOLDS(0 == strcmp(nspace, "spawned"));
    PMIX_APP_DESTRUCT(&app);

    IS(PMIX_SUCCESS, PMIx_Get_credential(NULL, 0, &secret));
    HOLDS(secret.size == 6 && 0 == memcmp(secret.bytes, "secret", 6));
    PMIX_BYTE_OBJECT_DESTRUCT(&secret);
}

static size_t handler;
static atomic_int lines;

static void is_registered(pmix_status_t status, size_t number, void *cbdata)
{
    handler = number;
    is_done(status, cbdata);
}

static void is_read(size_t number, pmix_iof_channel_t channel, pmix_proc_t *source,
                    pmix_byte_object_t *bytes, pmix_info_t info[], size_t ninfo)
{
    (void) info;
    HOLDS(number > 0 && channel == PMIX_FWD_STDOUT_CHANNEL && source->rank == 1 && ninfo == 0);
    HOLDS(bytes->size == 5 && 0 == memcmp(bytes->bytes, "line\n", 5));
    lines++;
}

static void forwards(void)
{
    pmix_byte_object_t line = {"line\n", 5};
    pmix_proc_t source, other;
    pmix_status_t second;

    PMIX_LOAD_PROCID(&source, job, 1);
    PMIX_LOAD_PROCID(&other, job, 0);
    IS(PMIX_ERR_BAD_PARAM,
       PMIx_IOF_pull(&source, 1, NULL, 0, PMIX_FWD_STDIN_CHANNEL, is_read, is_registered, NULL));
    IS(PMIX_ERR_BAD_PARAM,
       PMIx_IOF_pull(NULL, 0, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, is_read, is_registered, NULL));
    IS(PMIX_SUCCESS,
       PMIx_IOF_pull(&source, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, is_read, is_registered, NULL));
    IS(PMIX_SUCCESS, wait_for_it());
    second = PMIx_IOF_pull(&source, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, is_read, NULL, NULL);
    HOLDS(second > 0 && (size_t) second != handler && pulls == 2);
    IS(PMIX_OPERATION_SUCCEEDED,
       PMIx_server_IOF_deliver(&other, PMIX_FWD_STDOUT_CHANNEL, &line, NULL, 0, NULL, NULL));
    IS(PMIX_OPERATION_SUCCEEDED,
       PMIx_server_IOF_deliver(&source, PMIX_FWD_STDERR_CHANNEL, &line, NULL, 0, NULL, NULL));
    /* Callbacks run in order, so those for the output precede the last one. */
    IS(PMIX_SUCCESS,
       PMIx_server_IOF_deliver(&source, PMIX_FWD_STDOUT_CHANNEL, &line, NULL, 0, is_done, NULL));
    IS(PMIX_SUCCESS, wait_for_it());
    HOLDS(lines == 2);
    IS(PMIX_SUCCESS, PMIx_IOF_push(&source, 1, &line, NULL, 0, NULL, NULL));
    IS(PMIX_SUCCESS, PMIx_IOF_push(&source, 1, &line, NULL, 0, is_done, NULL));
    IS(PMIX_SUCCESS, wait_for_it());
    IS(PMIX_SUCCESS, PMIx_IOF_deregister(handler, NULL, 0, NULL, NULL));
    IS(PMIX_ERR_NOT_FOUND, PMIx_IOF_deregister(handler, NULL, 0, NULL, NULL));
    IS(PMIX_SUCCESS, PMIx_IOF_deregister((size_t) second, NULL, 0, is_done, NULL));
    IS(PMIX_SUCCESS, wait_for_it());
    HOLDS(pulls == 0);
}

/* Requests that 4.2.2 and 5.0.11 reject, or that hang there. */
static void asks_more(void)
{
    pmix_info_t info;
    pmix_pdata_t data;
    pmix_info_t *results = NULL;
    pmix_proc_t *peers = NULL;
    size_t npeers = 0, nresults = 0;
    char *card[] = {"card", NULL}, *nodes = NULL;

    PMIX_INFO_LOAD(&info, "card", "ib0", PMIX_STRING);
    IS(PMIX_SUCCESS, PMIx_Publish(&info, 1));
    IS(PMIX_SUCCESS, PMIx_Publish_nb(&info, 1, is_done, NULL));
    PMIX_INFO_DESTRUCT(&info);
    IS(PMIX_SUCCESS, wait_for_it());
    PMIX_PDATA_CONSTRUCT(&data);
    PMIX_LOAD_KEY(data.key, "card");
    IS(PMIX_SUCCESS, PMIx_Lookup(&data, 1, NULL, 0));
    HOLDS(0 == strcmp(data.value.data.string, "ib0"));
    is_own(&data.proc);
    PMIX_PDATA_DESTRUCT(&data);
    pmix_pdata_t both[2];
    PMIX_PDATA_CONSTRUCT(&both[0]);
    PMIX_PDATA_CONSTRUCT(&both[1]);
    PMIX_LOAD_KEY(both[0].key, "card");
    PMIX_LOAD_KEY(both[1].key, "other");
    IS(PMIX_ERR_PARTIAL_SUCCESS, PMIx_Lookup(both, 2, NULL, 0));
    HOLDS(PMIX_STRING == both[0].value.type && PMIX_UNDEF == both[1].value.type);
    PMIX_PDATA_DESTRUCT(&both[0]);
    PMIX_PDATA_CONSTRUCT(&data);
    PMIX_LOAD_KEY(data.key, "other");
    IS(PMIX_ERR_NOT_FOUND, PMIx_Lookup(&data, 1, NULL, 0));
    IS(PMIX_SUCCESS, PMIx_Unpublish(card, NULL, 0));
    IS(PMIX_SUCCESS, PMIx_Unpublish_nb(card, NULL, 0, is_done, NULL));
    IS(PMIX_SUCCESS, wait_for_it());

    PMIX_INFO_LOAD(&info, PMIX_LOG_STDERR, "a line", PMIX_STRING);
    IS(PMIX_SUCCESS, PMIx_Log(&info, 1, NULL, 0));
    IS(PMIX_SUCCESS, PMIx_Log_nb(&info, 1, NULL, 0, is_done, NULL));
    PMIX_INFO_DESTRUCT(&info);
    IS(PMIX_SUCCESS, wait_for_it());

    IS(PMIX_SUCCESS, PMIx_Resolve_peers("n1", job, &peers, &npeers));
    HOLDS(npeers == 2 && peers[1].rank == 1);
    PMIX_PROC_FREE(peers, npeers);
    IS(PMIX_SUCCESS, PMIx_Resolve_nodes(job, &nodes));
    HOLDS(0 == strcmp(nodes, "n1,n2"));
    free(nodes);

    IS(PMIX_ERR_NOT_SUPPORTED, PMIx_Allocation_request(PMIX_ALLOC_NEW, NULL, 0, &results, &nresults));

    /* Collectives need a connection to a server, which this process does not have. */
    IS(PMIX_ERR_UNREACH, PMIx_Fence(NULL, 0, NULL, 0));
    IS(PMIX_ERR_UNREACH, PMIx_Connect(&own, 1, NULL, 0));
    IS(PMIX_ERR_NOT_SUPPORTED, PMIx_Abort(3, "why", NULL, 0));
}

/* The version of the interface can be queried before init. */
static void asks_before_init(void)
{
    pmix_query_t queries[2];
    pmix_info_t *results = NULL;
    size_t nresults = 0;

    PMIX_QUERY_CONSTRUCT(&queries[0]);
    PMIX_QUERY_CONSTRUCT(&queries[1]);
    append(&queries[0].keys, PMIX_QUERY_STABLE_ABI_VERSION);
    append(&queries[1].keys, PMIX_QUERY_PROVISIONAL_ABI_VERSION);
    IS(PMIX_SUCCESS, PMIx_Query_info(queries, 2, &results, &nresults));
    HOLDS(nresults == 2 && 0 == strcmp(results[1].key, PMIX_QUERY_PROVISIONAL_ABI_VERSION));
    HOLDS(NULL != strstr(PMIx_Get_version(), results[0].value.data.string));
    PMIX_INFO_FREE(results, nresults);
    append(&queries[1].keys, PMIX_QUERY_NAMESPACES);
    IS(PMIX_ERR_INIT, PMIx_Query_info(queries, 2, &results, &nresults));
    PMIX_QUERY_DESTRUCT(&queries[0]);
    PMIX_QUERY_DESTRUCT(&queries[1]);
}

/* Checks that the attributes registered by a host are the reply to queries for them. */
static void supports(void)
{
    char *names[] = {"PMIX_COLLECT_DATA", "PMIX_TIMEOUT", "PMIX_OF_NOBODY", NULL};
    pmix_query_t query;
    pmix_info_t *found = NULL, *functions;
    size_t count = 0;
    pmix_status_t rc;

    IS(PMIX_SUCCESS, PMIx_Register_attributes("PMIx_Fence", names));
    IS(PMIX_ERR_REPEAT_ATTR_REGISTRATION, PMIx_Register_attributes("PMIx_Fence", names));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Register_attributes(NULL, names));
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(rc, query.keys, PMIX_QUERY_ATTRIBUTE_SUPPORT);
    IS(PMIX_SUCCESS, rc);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_HOST_ATTRIBUTES, "PMIx_Fence", PMIX_STRING);
    IS(PMIX_SUCCESS, PMIx_Query_info(&query, 1, &found, &count));
    HOLDS(count == 1 && PMIX_DATA_ARRAY == found[0].value.type);
    HOLDS(1 == found[0].value.data.darray->size);
    functions = found[0].value.data.darray->array;
    HOLDS(PMIX_CHECK_KEY(&functions[0], "PMIx_Fence"));
    HOLDS(PMIX_REGATTR == functions[0].value.data.darray->type);
    HOLDS(2 == functions[0].value.data.darray->size);
    PMIX_INFO_FREE(found, count);
    PMIX_QUERY_DESTRUCT(&query);
}

#ifdef PMIXRS_SERVER_MODULE_SIZE
static int num_newer;

/* The slots after those that every release has. */
static pmix_status_t logs2(const pmix_proc_t *proc, const pmix_info_t data[], size_t ndata,
                           const pmix_info_t directives[], size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    num_newer++;
    logs(proc, data, ndata, directives, ndirs, cbfunc, cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t session(const pmix_proc_t *proc, uint32_t number, const pmix_info_t directives[], size_t ndirs,
                             pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    is_own(proc);
    HOLDS(17 == number && 1 == ndirs && 0 == strcmp(directives[0].key, PMIX_SESSION_TERMINATE));
    num_newer++;
    cbfunc(PMIX_SUCCESS, NULL, 0, cbdata, NULL, NULL);
    return PMIX_SUCCESS;
}

static pmix_status_t block(const pmix_proc_t *proc, pmix_resource_block_directive_t directive, const char *name,
                           const pmix_resource_unit_t *units, size_t nunits, const pmix_info_t *info, size_t ninfo,
                           pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void) info;
    (void) cbfunc;
    (void) cbdata;
    is_own(proc);
    HOLDS(PMIX_RESOURCE_BLOCK_DEFINE == directive && 0 == strcmp(name, "block"));
    HOLDS(1 == nunits && 4 == units[0].count && 0 == ninfo);
    num_newer++;
    return PMIX_OPERATION_SUCCEEDED;
}

/* Checks that `count` of the three functions are in slots that the library reads. */
static void newer_slots_are_called(int count)
{
    pmix_info_t line, ends;
    pmix_resource_unit_t unit;
    bool yes = true;

    num_newer = 0;
    PMIX_INFO_LOAD(&line, PMIX_LOG_STDERR, "a line", PMIX_STRING);
    IS(PMIX_SUCCESS, PMIx_Log(&line, 1, NULL, 0));
    PMIX_INFO_LOAD(&ends, PMIX_SESSION_TERMINATE, &yes, PMIX_BOOL);
    IS(0 < count ? PMIX_SUCCESS : PMIX_ERR_NOT_SUPPORTED, PMIx_Session_control(17, &ends, 1, NULL, NULL));
    memset(&unit, 0, sizeof unit);
    unit.count = 4;
    IS(3 == count ? PMIX_SUCCESS : PMIX_ERR_NOT_SUPPORTED,
       PMIx_Resource_block(PMIX_RESOURCE_BLOCK_DEFINE, "block", &unit, 1, NULL, 0));
    HOLDS(count == num_newer);
    PMIX_INFO_DESTRUCT(&line);
}

/* Initializes a server whose module has the given size; 0 passes no size. */
static void becomes(pmix_status_t expected, pmix_server_module_t *module, size_t bytes)
{
    pmix_info_t infos[3];

    PMIX_INFO_LOAD(&infos[0], PMIX_SERVER_NSPACE, own.nspace, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_SERVER_RANK, &own.rank, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&infos[2], PMIXRS_SERVER_MODULE_SIZE, &bytes, PMIX_SIZE);
    IS(expected, PMIx_server_init(module, infos, 0 == bytes ? 2 : 3));
    PMIX_INFO_DESTRUCT(&infos[0]);
}

/* The module of 5.0 has 232 bytes, with session control in the last slot. */
static void modules_have_their_sizes(pmix_server_module_t *module)
{
    module->log2 = logs2;
    module->session_control = session;
    module->resource_block = block;
    becomes(PMIX_SUCCESS, module, 0);
    newer_slots_are_called(0);
    IS(PMIX_SUCCESS, PMIx_server_finalize());
    becomes(PMIX_SUCCESS, module, sizeof *module);
    newer_slots_are_called(3);
    IS(PMIX_SUCCESS, PMIx_server_finalize());
    memcpy((char *) module + 224, &module->session_control, sizeof module->session_control);
    becomes(PMIX_SUCCESS, module, 232);
    newer_slots_are_called(1);
    IS(PMIX_SUCCESS, PMIx_server_finalize());
    becomes(PMIX_ERR_BAD_PARAM, module, 100);
}
#endif

int main(int argc, char **argv)
{
    pmix_server_module_t module;
    pmix_info_t infos[2];
    bool all = argc > 1 && 0 == strcmp(argv[1], "all");

    alarm(120);
    if (all) {
        asks_before_init();
    }
    memset(&module, 0, sizeof(module));
    module.query = query;
    module.job_control = job_control;
    module.monitor = monitor;
    module.spawn = spawn;
    module.get_credential = credential;
    module.publish = published;
    module.lookup = lookup;
    module.unpublish = unpublish;
    module.log = logs;
    module.iof_pull = iof_pull;
    module.push_stdin = push_stdin;
    module.allocate = allocates;
    module.fabric = fabric_asked;
    PMIX_LOAD_PROCID(&own, "host", 3);
    PMIX_INFO_LOAD(&infos[0], PMIX_SERVER_NSPACE, own.nspace, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_SERVER_RANK, &own.rank, PMIX_PROC_RANK);
    IS(PMIX_SUCCESS, PMIx_server_init(&module, infos, 2));
    PMIX_INFO_DESTRUCT(&infos[0]);
    if (all) {
        resolves_nothing();
    }
    registers();
    if (all) {
        resolves();
    }
    reads();
    reads_all(all);
    asks();
    if (all) {
        supports();
        asks_more();
        asks_about_fabrics();
        forwards();
        leaves_open();
    }
    IS(PMIX_SUCCESS, PMIx_server_finalize());
    HOLDS(!all || 2 == ended);
#ifdef PMIXRS_SERVER_MODULE_SIZE
    modules_have_their_sizes(&module);
#endif
    puts("own: ok");
    return 0;
}

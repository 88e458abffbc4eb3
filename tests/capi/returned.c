/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Counts, for each function with a callback, the callbacks that run before the call has returned: "returned
 * server|client|tool CALLS [DIRECTORY]". Half of the calls wait for their callback, the others follow each other
 * at once. Each call has a flag that is set right after the function has returned, so a callback that finds the
 * flag unset came early. The program prints a line for each function: its name, and the numbers of calls, of
 * callbacks and of early ones. A function that a release does not have is skipped.
 */
#define _GNU_SOURCE
#include <pmix_server.h>
#include <pmix_tool.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static atomic_int *flags;
static atomic_int num_called, num_early;
static sem_t called;
static int num_calls;
static pmix_proc_t own, job;
static size_t refs[1 << 16];

static void judge(void *cbdata)
{
    size_t number = (size_t) (uintptr_t) cbdata - 1;
    if (!atomic_load_explicit(&flags[number], memory_order_acquire)) {
        num_early++;
    }
    num_called++;
    sem_post(&called);
}

static void op(pmix_status_t status, void *cbdata)
{
    (void) status;
    judge(cbdata);
}

static void value(pmix_status_t status, pmix_value_t *kv, void *cbdata)
{
    (void) status;
    (void) kv;
    judge(cbdata);
}

static void infos(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *cbdata,
                  pmix_release_cbfunc_t release, void *release_cbdata)
{
    (void) status;
    (void) info;
    (void) ninfo;
    if (NULL != release) {
        release(release_cbdata);
    }
    judge(cbdata);
}

static void looked_up(pmix_status_t status, pmix_pdata_t data[], size_t ndata, void *cbdata)
{
    (void) status;
    (void) data;
    (void) ndata;
    judge(cbdata);
}

static void distances(pmix_status_t status, pmix_device_distance_t *dist, size_t ndist, void *cbdata,
                      pmix_release_cbfunc_t release, void *release_cbdata)
{
    (void) dist;
    infos(status, NULL, ndist, cbdata, release, release_cbdata);
}

static void spawned(pmix_status_t status, pmix_nspace_t nspace, void *cbdata)
{
    (void) status;
    (void) nspace;
    judge(cbdata);
}

static void credential(pmix_status_t status, pmix_byte_object_t *made, pmix_info_t info[], size_t ninfo, void *cbdata)
{
    (void) status;
    (void) made;
    (void) info;
    (void) ninfo;
    judge(cbdata);
}

static void validated(pmix_status_t status, pmix_info_t info[], size_t ninfo, void *cbdata)
{
    (void) status;
    (void) info;
    (void) ninfo;
    judge(cbdata);
}

static void registered(pmix_status_t status, size_t ref, void *cbdata)
{
    refs[(size_t) (uintptr_t) cbdata - 1] = PMIX_SUCCESS == status ? ref : SIZE_MAX;
    judge(cbdata);
}

static void setup(pmix_status_t status, pmix_info_t info[], size_t ninfo, void *cbdata, pmix_op_cbfunc_t done,
                  void *done_cbdata)
{
    (void) status;
    (void) info;
    (void) ninfo;
    if (NULL != done) {
        done(PMIX_SUCCESS, done_cbdata);
    }
    judge(cbdata);
}

static void modex(pmix_status_t status, char *data, size_t size, void *cbdata)
{
    (void) status;
    (void) data;
    (void) size;
    judge(cbdata);
}

static void handler(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t next, void *cbdata)
{
    (void) id;
    (void) status;
    (void) source;
    (void) info;
    (void) ninfo;
    (void) results;
    (void) nresults;
    if (NULL != next) {
        next(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    }
}

static void output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *bytes,
                   pmix_info_t info[], size_t ninfo)
{
    (void) id;
    (void) channel;
    (void) source;
    (void) bytes;
    (void) info;
    (void) ninfo;
}

static void wait_for(int count)
{
    struct timespec limit;

    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 120;
    while (num_called < count) {
        if (0 != sem_timedwait(&called, &limit)) {
            fprintf(stderr, "%d of %d callbacks came\n", num_called, count);
            exit(1);
        }
    }
}

static void print(const char *name)
{
    printf("%s %d %d %d\n", name, num_calls, num_called, num_early);
    fflush(stdout);
}

/* The function returns a status, which tells if its callback will run. */
#define COUNT(name, call)                                                           \
    do {                                                                            \
        int i, due = 0;                                                             \
        num_called = num_early = 0;                                                 \
        while (0 == sem_trywait(&called)) {                                         \
        }                                                                           \
        for (i = 0; i < num_calls; i++) {                                           \
            void *cbdata = (void *) (uintptr_t) (i + 1);                            \
            atomic_store(&flags[i], 0);                                             \
            pmix_status_t status_ = (call);                                         \
            atomic_store_explicit(&flags[i], 1, memory_order_release);              \
            due += PMIX_SUCCESS == status_;                                         \
            if (PMIX_SUCCESS != status_ && PMIX_OPERATION_SUCCEEDED != status_ && 0 == i) { \
                fprintf(stderr, "%s: %s\n", name, PMIx_Error_string(status_));      \
            }                                                                       \
            if (i % 2) {                                                            \
                wait_for(due);                                                      \
            }                                                                       \
        }                                                                           \
        wait_for(due);                                                              \
        print(name);                                                                \
    } while (0)

/* As COUNT, for a function without a result. */
#define COUNT_VOID(name, call) COUNT(name, ((call), PMIX_SUCCESS))

/* Returns the name of a job or group, in an array as the headers require. */
static char *numbered(const char *prefix, int number)
{
    static pmix_nspace_t name;
    snprintf(name, sizeof name, "%s%d", prefix, number);
    return name;
}

static pmix_proc_t *proc_of(const char *nspace, pmix_rank_t rank)
{
    static pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, nspace, rank);
    return &proc;
}

/* The functions for clients, tools and servers. */
static void all_have(void)
{
    pmix_status_t code = -4000;
    pmix_info_t info, line, beat;
    pmix_query_t query;
    pmix_app_t app;
    pmix_byte_object_t bytes = {"data", 4};
    char *keys[] = {"card", NULL};
    pmix_status_t made;

    PMIX_INFO_LOAD(&info, "card", "ib0", PMIX_STRING);
    PMIX_INFO_LOAD(&line, PMIX_LOG_SYSLOG, "a line", PMIX_STRING);
    PMIX_INFO_LOAD(&beat, PMIX_MONITOR_FILE, "/nowhere", PMIX_STRING);
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(made, query.keys, PMIX_QUERY_NAMESPACES);
    HOLDS(PMIX_SUCCESS == made);
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup("true");
    app.maxprocs = 1;
    COUNT("PMIx_Get_nb", PMIx_Get_nb(&job, i % 4 < 2 ? PMIX_JOB_SIZE : "no.such", NULL, 0, value, cbdata));
    COUNT("PMIx_Register_event_handler",
          PMIx_Register_event_handler(&code, 1, NULL, 0, handler, registered, cbdata));
    COUNT("PMIx_Deregister_event_handler", PMIx_Deregister_event_handler(refs[i], op, cbdata));
    COUNT("PMIx_Notify_event",
          PMIx_Notify_event(code, &own, i % 4 < 2 ? PMIX_RANGE_LOCAL : PMIX_RANGE_PROC_LOCAL, NULL, 0, op, cbdata));
    COUNT("PMIx_Query_info_nb", PMIx_Query_info_nb(&query, 1, infos, cbdata));
    COUNT("PMIx_Log_nb", PMIx_Log_nb(&line, 1, NULL, 0, op, cbdata));
    COUNT("PMIx_Publish_nb", PMIx_Publish_nb(&info, 1, op, cbdata));
    COUNT("PMIx_Lookup_nb", PMIx_Lookup_nb(keys, NULL, 0, looked_up, cbdata));
    COUNT("PMIx_Unpublish_nb", PMIx_Unpublish_nb(keys, NULL, 0, op, cbdata));
    COUNT("PMIx_Spawn_nb", PMIx_Spawn_nb(NULL, 0, &app, 1, spawned, cbdata));
    COUNT("PMIx_Allocation_request_nb", PMIx_Allocation_request_nb(PMIX_ALLOC_NEW, &info, 1, infos, cbdata));
    COUNT("PMIx_Job_control_nb", PMIx_Job_control_nb(&job, 1, &info, 1, infos, cbdata));
    COUNT("PMIx_Process_monitor_nb", PMIx_Process_monitor_nb(&beat, code, NULL, 0, infos, cbdata));
    COUNT("PMIx_Get_credential_nb", PMIx_Get_credential_nb(NULL, 0, credential, cbdata));
    COUNT("PMIx_Validate_credential_nb", PMIx_Validate_credential_nb(&bytes, NULL, 0, validated, cbdata));
    COUNT("PMIx_IOF_pull", PMIx_IOF_pull(&job, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, output, registered, cbdata));
    COUNT("PMIx_IOF_deregister", PMIx_IOF_deregister(refs[i], NULL, 0, op, cbdata));
    COUNT("PMIx_IOF_push", PMIx_IOF_push(&job, 1, &bytes, NULL, 0, op, cbdata));
    {
        pmix_topology_t topo = {NULL, NULL};
        pmix_cpuset_t cpuset = {NULL, NULL};
        pmix_fabric_t fabric;
        memset(&fabric, 0, sizeof fabric);
        if (PMIX_SUCCESS == PMIx_Load_topology(&topo)) {
            HOLDS(PMIX_SUCCESS == PMIx_Get_cpuset(&cpuset, PMIX_CPUBIND_PROCESS));
        }
        COUNT("PMIx_Compute_distances_nb", PMIx_Compute_distances_nb(&topo, &cpuset, NULL, 0, distances, cbdata));
        COUNT("PMIx_Fabric_register_nb", PMIx_Fabric_register_nb(&fabric, NULL, 0, op, cbdata));
        COUNT("PMIx_Fabric_update_nb", PMIx_Fabric_update_nb(&fabric, op, cbdata));
        COUNT("PMIx_Fabric_deregister_nb", PMIx_Fabric_deregister_nb(&fabric, op, cbdata));
        PMIx_Cpuset_destruct(&cpuset);
        PMIx_Topology_destruct(&topo);
    }
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_DESTRUCT(&line);
    PMIX_INFO_DESTRUCT(&beat);
    PMIX_APP_DESTRUCT(&app);
    PMIX_QUERY_DESTRUCT(&query);
}

/* The functions for clients that their server completes. */
static void clients_have(void)
{
    pmix_info_t info;

    PMIX_INFO_LOAD(&info, "card", "ib0", PMIX_STRING);
    COUNT("PMIx_Fence_nb", PMIx_Fence_nb(NULL, 0, NULL, 0, op, cbdata));
    COUNT("PMIx_Connect_nb", PMIx_Connect_nb(&own, 1, NULL, 0, op, cbdata));
    COUNT("PMIx_Disconnect_nb", PMIx_Disconnect_nb(&own, 1, NULL, 0, op, cbdata));
    COUNT("PMIx_Group_construct_nb", PMIx_Group_construct_nb(numbered("g", i), &own, 1, NULL, 0, infos, cbdata));
    COUNT("PMIx_Group_leave_nb", PMIx_Group_leave_nb(numbered("g", i % 2 ? i : 0), NULL, 0, op, cbdata));
    COUNT("PMIx_Group_destruct_nb", PMIx_Group_destruct_nb(numbered("g", i), NULL, 0, op, cbdata));
    COUNT("PMIx_Group_invite_nb", PMIx_Group_invite_nb(numbered("i", i), &own, 1, NULL, 0, infos, cbdata));
    COUNT("PMIx_Group_join_nb",
          PMIx_Group_join_nb(numbered("j", i), &own, PMIX_GROUP_DECLINE, NULL, 0, infos, cbdata));
#if PMIX_NUMERIC_VERSION >= 0x00050000
    COUNT("PMIx_Session_control", PMIx_Session_control(0, &info, 1, infos, cbdata));
#endif
#ifdef PMIX_CAP_REGEX2
    {
        pmix_resource_unit_t unit;
        memset(&unit, 0, sizeof unit);
        COUNT("PMIx_Resource_block_nb",
              PMIx_Resource_block_nb(PMIX_RESOURCE_BLOCK_DEFINE, "block", &unit, 1, NULL, 0, op, cbdata));
    }
#endif
    PMIX_INFO_DESTRUCT(&info);
}

/* The functions for servers only. */
static void servers_have(void)
{
    pmix_info_t info, setting;
    pmix_byte_object_t bytes = {"data", 4};
    uint32_t size = 1;
    bool yes = true;

    PMIX_INFO_LOAD(&info, PMIX_JOB_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&setting, PMIX_SETUP_APP_ENVARS, &yes, PMIX_BOOL);
    COUNT("PMIx_server_register_nspace",
          PMIx_server_register_nspace(numbered("job", i), 1, &info, 1, op, cbdata));
    COUNT("PMIx_server_register_client",
          PMIx_server_register_client(proc_of(numbered("job", i), 0), getuid(), getgid(), NULL, op, cbdata));
    COUNT("PMIx_server_setup_local_support",
          PMIx_server_setup_local_support(numbered("job", i), NULL, 0, op, cbdata));
    COUNT("PMIx_server_setup_application",
          PMIx_server_setup_application(numbered("job", i), &setting, 1, setup, cbdata));
    COUNT("PMIx_server_dmodex_request",
          PMIx_server_dmodex_request(proc_of(numbered("job", i), PMIX_RANK_WILDCARD), modex, cbdata));
    COUNT("PMIx_server_IOF_deliver",
          PMIx_server_IOF_deliver(proc_of("job0", 0), PMIX_FWD_STDOUT_CHANNEL, &bytes, NULL, 0, op, cbdata));
#ifdef PMIX_CAP_REGEX2
    COUNT("PMIx_server_IOF_flow_control",
          PMIx_server_IOF_flow_control(proc_of("job0", 0), PMIX_FWD_STDIN_CHANNEL, i % 2, NULL, 0, op, cbdata));
#endif
    COUNT_VOID("PMIx_server_deregister_client", PMIx_server_deregister_client(proc_of(numbered("job", i), 0), op, cbdata));
    COUNT_VOID("PMIx_server_deregister_nspace", PMIx_server_deregister_nspace(numbered("job", i), op, cbdata));
    COUNT("PMIx_server_register_resources", PMIx_server_register_resources(&info, 1, op, cbdata));
    COUNT("PMIx_server_deregister_resources", PMIx_server_deregister_resources(&info, 1, op, cbdata));
    COUNT("PMIx_server_collect_inventory", PMIx_server_collect_inventory(NULL, 0, infos, cbdata));
    COUNT("PMIx_server_deliver_inventory", PMIx_server_deliver_inventory(NULL, 0, NULL, 0, op, cbdata));
    PMIX_INFO_DESTRUCT(&setting);
}

/* A host that completes each request before its function returns. */
static pmix_status_t published(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                               pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void) proc;
    (void) info;
    (void) ninfo;
    cbfunc(PMIX_SUCCESS, cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t queried(pmix_proc_t *proc, pmix_query_t *queries, size_t nqueries, pmix_info_cbfunc_t cbfunc,
                             void *cbdata)
{
    pmix_info_t info;

    (void) proc;
    (void) queries;
    (void) nqueries;
    PMIX_INFO_LOAD(&info, PMIX_QUERY_NAMESPACES, "job", PMIX_STRING);
    cbfunc(PMIX_SUCCESS, &info, 1, cbdata, NULL, NULL);
    PMIX_INFO_DESTRUCT(&info);
    return PMIX_SUCCESS;
}

static pmix_status_t pulled(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t directives[], size_t ndirs,
                            pmix_iof_channel_t channels, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void) procs;
    (void) nprocs;
    (void) directives;
    (void) ndirs;
    (void) channels;
    cbfunc(PMIX_SUCCESS, cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t pushed(const pmix_proc_t *source, const pmix_proc_t targets[], size_t ntargets,
                            const pmix_info_t directives[], size_t ndirs, const pmix_byte_object_t *bytes,
                            pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void) source;
    (void) targets;
    (void) ntargets;
    (void) directives;
    (void) ndirs;
    (void) bytes;
    cbfunc(PMIX_SUCCESS, cbdata);
    return PMIX_SUCCESS;
}

int main(int argc, char **argv)
{
    bool is_tool = argc > 3 && 0 == strcmp(argv[1], "tool");

    HOLDS(argc > 2);
    num_calls = atoi(argv[2]);
    HOLDS(0 < num_calls && num_calls <= (int) (sizeof refs / sizeof *refs));
    flags = calloc((size_t) num_calls, sizeof *flags);
    HOLDS(0 == sem_init(&called, 0, 0));
    if (0 == strcmp(argv[1], "server")) {
        static pmix_server_module_t module;
        pmix_info_t info;
        uint32_t size = 1;

        module.publish = published;
        module.query = queried;
        module.iof_pull = pulled;
        module.push_stdin = pushed;
        IS(PMIX_SUCCESS, PMIx_server_init(&module, NULL, 0));
        PMIX_INFO_LOAD(&info, PMIX_JOB_SIZE, &size, PMIX_UINT32);
        PMIX_LOAD_PROCID(&job, "job", PMIX_RANK_WILDCARD);
        PMIX_LOAD_PROCID(&own, "job", 0);
        pmix_status_t status = PMIx_server_register_nspace(job.nspace, 1, &info, 1, NULL, NULL);
        HOLDS(PMIX_SUCCESS == status || PMIX_OPERATION_SUCCEEDED == status);
        servers_have();
        all_have();
        IS(PMIX_SUCCESS, PMIx_server_finalize());
    } else if (is_tool) {
        pmix_info_t infos[2];

        PMIX_INFO_LOAD(&infos[0], PMIX_SERVER_TMPDIR, argv[3], PMIX_STRING);
        PMIX_INFO_LOAD(&infos[1], PMIX_SYSTEM_TMPDIR, argv[3], PMIX_STRING);
        IS(PMIX_SUCCESS, PMIx_tool_init(&own, infos, 2));
        PMIX_INFO_DESTRUCT(&infos[0]);
        PMIX_INFO_DESTRUCT(&infos[1]);
        PMIX_LOAD_PROCID(&job, "calls.job", PMIX_RANK_WILDCARD);
        all_have();
        IS(PMIX_SUCCESS, PMIx_tool_finalize());
    } else {
        IS(PMIX_SUCCESS, PMIx_Init(&own, NULL, 0));
        PMIX_LOAD_PROCID(&job, own.nspace, PMIX_RANK_WILDCARD);
        all_have();
        clients_have();
        IS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    }
    return 0;
}

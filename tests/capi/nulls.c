/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls every function with valid arguments, and with NULL or 0 for each of them in turn. Each call runs in a process
 * of its own, whose state is the first argument: nothing yet, a tool, a server, a client, or one of these after its
 * finalize. The calls are in nulls_calls.h, which the test generates from the table of functions. For each call the
 * program prints the function, the argument and the result: "returned STATUS" or "killed SIGNAL".
 *
 * With RANDOM defined, it calls every function with random arguments instead. Further arguments give the seed and the
 * number of calls of each function, which run in one process; the status is then the number of the last call.
 */
#define _GNU_SOURCE
#define PMIX_WANT_RELEASE_3
#include <pmix_extend.h>
#include <pmix_server.h>
#include <pmix_tool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_ONCE 6

typedef struct {
    const char *function;
    const char *argument;
    int without;
    long (*call)(int without);
    /* The time limit of a call that no other process completes. */
    unsigned milliseconds;
} call_t;

/* A call with all arguments missing. */
#define ALL (-2)

static int lacks(int without, int place)
{
    return without == place || without == ALL;
}

/* Valid arguments. Each is newly allocated, because functions free what they are given. */

static void *object(size_t size)
{
    void *made = calloc(1, size);
    if (NULL == made) {
        abort();
    }
    return made;
}

/* The job of this process, or the job that it serves. */
static char job[PMIX_MAX_NSLEN + 1] = "job";

static char *text(void)
{
    return strcpy(object(4096), job);
}

static char **strings(void)
{
    char **made = object(4 * sizeof(char *));
    made[0] = strdup("job");
    return made;
}

static char ***place_of_strings(void)
{
    char ***made = object(sizeof(char **));
    *made = strings();
    return made;
}

static pmix_proc_t *proc(void)
{
    pmix_proc_t *made = object(4 * sizeof(*made));
    strcpy(made->nspace, job);
    return made;
}

static void fill_value(pmix_value_t *value)
{
    value->type = PMIX_STRING;
    value->data.string = strdup("17");
}

static pmix_value_t *value(void)
{
    pmix_value_t *made = object(sizeof(*made));
    fill_value(made);
    return made;
}

static pmix_info_t *info(void)
{
    pmix_info_t *made = object(sizeof(*made));
    strcpy(made->key, "a.key");
    fill_value(&made->value);
    return made;
}

static pmix_pdata_t *pdata(void)
{
    pmix_pdata_t *made = object(sizeof(*made));
    strcpy(made->key, "a.key");
    return made;
}

static pmix_query_t *query(void)
{
    pmix_query_t *made = object(sizeof(*made));
    made->keys = strings();
    return made;
}

static pmix_app_t *app(void)
{
    pmix_app_t *made = object(sizeof(*made));
    made->cmd = strdup("true");
    made->argv = strings();
    made->maxprocs = 1;
    return made;
}

static pmix_byte_object_t *bytes(void)
{
    pmix_byte_object_t *made = object(sizeof(*made));
    made->bytes = object(8);
    made->size = 8;
    return made;
}

static pmix_data_buffer_t *buffer(void)
{
    pmix_data_buffer_t *made = object(sizeof(*made));
    char *packed = text();
    PMIx_Data_buffer_construct(made);
    if (PMIX_SUCCESS != PMIx_Data_pack(NULL, made, &packed, 1, PMIX_STRING)) {
        abort();
    }
    return made;
}

static int32_t *one(void)
{
    int32_t *made = object(sizeof(*made));
    *made = 1;
    return made;
}

static void *list(void)
{
    void *made = PMIx_Info_list_start();
    PMIx_Info_list_add(made, "a.key", "17", PMIX_STRING);
    return made;
}

/* Callbacks. They release what they receive, if they may. */

static void op_done(pmix_status_t status, void *cbdata)
{
    (void) status, (void) cbdata;
}

static void infos_done(pmix_status_t status, pmix_info_t *given, size_t ninfo, void *cbdata,
                       pmix_release_cbfunc_t release, void *release_cbdata)
{
    (void) status, (void) given, (void) ninfo, (void) cbdata;
    if (NULL != release) {
        release(release_cbdata);
    }
}

static void value_done(pmix_status_t status, pmix_value_t *given, void *cbdata)
{
    (void) status, (void) given, (void) cbdata;
}

static void lookup_done(pmix_status_t status, pmix_pdata_t data[], size_t ndata, void *cbdata)
{
    (void) status, (void) data, (void) ndata, (void) cbdata;
}

static void spawn_done(pmix_status_t status, char nspace[], void *cbdata)
{
    (void) status, (void) nspace, (void) cbdata;
}

static void credential_done(pmix_status_t status, pmix_byte_object_t *credential, pmix_info_t given[],
                            size_t ninfo, void *cbdata)
{
    (void) status, (void) credential, (void) given, (void) ninfo, (void) cbdata;
}

static void validation_done(pmix_status_t status, pmix_info_t given[], size_t ninfo, void *cbdata)
{
    (void) status, (void) given, (void) ninfo, (void) cbdata;
}

static void handler_done(pmix_status_t status, size_t id, void *cbdata)
{
    (void) status, (void) id, (void) cbdata;
}

static void handler(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t given[],
                    size_t ninfo, pmix_info_t results[], size_t nresults,
                    pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id, (void) status, (void) source, (void) given, (void) ninfo, (void) results, (void) nresults;
    if (NULL != done) {
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    }
}

static void distances_done(pmix_status_t status, pmix_device_distance_t *distances, size_t count, void *cbdata,
                           pmix_release_cbfunc_t release, void *release_cbdata)
{
    (void) status, (void) distances, (void) count, (void) cbdata;
    if (NULL != release) {
        release(release_cbdata);
    }
}

static void modex_done(pmix_status_t status, char *data, size_t size, void *cbdata)
{
    (void) status, (void) data, (void) size, (void) cbdata;
}

static void setup_done(pmix_status_t status, pmix_info_t given[], size_t ninfo, void *provided,
                       pmix_op_cbfunc_t done, void *cbdata)
{
    (void) status, (void) given, (void) ninfo, (void) provided;
    if (NULL != done) {
        done(PMIX_SUCCESS, cbdata);
    }
}

static void output_came(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source,
                        pmix_byte_object_t *payload, pmix_info_t given[], size_t ninfo)
{
    (void) id, (void) channel, (void) source, (void) payload, (void) given, (void) ninfo;
}

#ifdef RANDOM
#include "random.h"
#include "random_calls.h"
#else
#include "nulls_calls.h"
#endif

#define CALLS (sizeof(calls) / sizeof(calls[0]))

/* A server function without a callback is complete when it returns. */
static void must(const char *what, pmix_status_t status)
{
    if (PMIX_SUCCESS != status && PMIX_OPERATION_SUCCEEDED != status) {
        fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
        _exit(100);
    }
}

/* A host that completes every request at once. */

static pmix_status_t aborts(const pmix_proc_t *who, void *server_object, int status, const char msg[],
                            pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) who, (void) server_object, (void) status, (void) msg, (void) procs, (void) nprocs, (void) done, (void) cbdata;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t publishes(const pmix_proc_t *who, const pmix_info_t given[], size_t ninfo,
                               pmix_op_cbfunc_t done, void *cbdata)
{
    (void) who, (void) given, (void) ninfo, (void) done, (void) cbdata;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t unpublishes(const pmix_proc_t *who, char **keys, const pmix_info_t given[], size_t ninfo,
                                 pmix_op_cbfunc_t done, void *cbdata)
{
    (void) who, (void) keys, (void) given, (void) ninfo, (void) done, (void) cbdata;
    return PMIX_OPERATION_SUCCEEDED;
}

static void logs(const pmix_proc_t *who, const pmix_info_t data[], size_t ndata, const pmix_info_t given[],
                 size_t ninfo, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) who, (void) data, (void) ndata, (void) given, (void) ninfo;
    done(PMIX_SUCCESS, cbdata);
}

static pmix_status_t answers(pmix_proc_t *who, pmix_query_t *queries, size_t nqueries,
                             pmix_info_cbfunc_t done, void *cbdata)
{
    (void) who, (void) queries, (void) nqueries;
    done(PMIX_SUCCESS, NULL, 0, cbdata, NULL, NULL);
    return PMIX_SUCCESS;
}

static pmix_status_t controls(const pmix_proc_t *who, const pmix_proc_t targets[], size_t ntargets,
                              const pmix_info_t given[], size_t ninfo, pmix_info_cbfunc_t done, void *cbdata)
{
    (void) who, (void) targets, (void) ntargets, (void) given, (void) ninfo;
    done(PMIX_SUCCESS, NULL, 0, cbdata, NULL, NULL);
    return PMIX_SUCCESS;
}

static pmix_status_t spawns(const pmix_proc_t *who, const pmix_info_t given[], size_t ninfo,
                            const pmix_app_t apps[], size_t napps, pmix_spawn_cbfunc_t done, void *cbdata)
{
    char name[PMIX_MAX_NSLEN + 1] = "spawned";
    (void) who, (void) given, (void) ninfo, (void) apps, (void) napps;
    done(PMIX_SUCCESS, name, cbdata);
    return PMIX_SUCCESS;
}

static void become_server(void)
{
    static pmix_server_module_t module;
    pmix_proc_t *first = proc();
    module.abort = aborts;
    module.publish = publishes;
    module.unpublish = unpublishes;
    module.log = logs;
    module.query = answers;
    module.job_control = controls;
    module.spawn = spawns;
    must("server", PMIx_server_init(&module, NULL, 0));
    must("job", PMIx_server_register_nspace(first->nspace, 1, NULL, 0, NULL, NULL));
    must("client", PMIx_server_register_client(first, getuid(), getgid(), NULL, NULL, NULL));
}

static void become_tool(void)
{
    pmix_info_t wishes[2];
    bool yes = true;
    PMIX_INFO_LOAD(&wishes[0], PMIX_TOOL_DO_NOT_CONNECT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&wishes[1], PMIX_TOOL_NSPACE, "tool", PMIX_STRING);
    must("tool", PMIx_tool_init(NULL, wishes, 2));
}

/* Each client is the only process of a job of its own. */
static void become_client(size_t number)
{
    snprintf(job, sizeof(job), "job.%zu", number);
    setenv("PMIX_NAMESPACE", job, 1);
    must("client", PMIx_Init(NULL, NULL, 0));
}

static void become(const char *what, size_t number)
{
    if (0 == strcmp(what, "server")) {
        become_server();
    } else if (0 == strcmp(what, "ended-server")) {
        become_server();
        must("end", PMIx_server_finalize());
    } else if (0 == strcmp(what, "tool")) {
        become_tool();
    } else if (0 == strcmp(what, "ended-tool")) {
        become_tool();
        must("end", PMIx_tool_finalize());
    } else if (0 == strcmp(what, "client")) {
        become_client(number);
    } else if (0 == strcmp(what, "ended-client")) {
        become_client(number);
        must("end", PMIx_Finalize(NULL, 0));
    }
}

/* All callbacks run before the last of these calls returns. */
static void end_all(void)
{
    int i;
    for (i = 0; i < 3 && PMIx_Initialized(); i++) {
        PMIx_Finalize(NULL, 0);
        PMIx_tool_finalize();
        PMIx_server_finalize();
    }
}

static void time_is_over_in(unsigned milliseconds)
{
    struct itimerval timer;
    memset(&timer, 0, sizeof(timer));
    timer.it_value.tv_sec = milliseconds / 1000;
    timer.it_value.tv_usec = milliseconds % 1000 * 1000;
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* The seed of random calls, and the number of calls of each function. */
static unsigned long long seed;
static long rounds = 1;

static void run(const char *what, size_t number, volatile long *status)
{
    const call_t *call = &calls[number];
    time_is_over_in(60000);
    become(what, number);
    time_is_over_in(call->milliseconds);
#ifdef RANDOM
    for (; *status < rounds; ++*status) {
        begin_random(seed, number, (size_t) *status);
        call->call(call->without);
    }
#else
    *status = call->call(call->without);
#endif
    end_all();
    _exit(0);
}

static void print(const call_t *call, int ended, long status)
{
    printf("%s\t%s\t", call->function, call->argument);
    if (WIFSIGNALED(ended)) {
        printf("killed %d after %ld\n", WTERMSIG(ended), status);
    } else if (0 != WEXITSTATUS(ended)) {
        printf("exited %d after %ld\n", WEXITSTATUS(ended), status);
    } else {
        printf("returned %ld\n", status);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "nothing";
    size_t room = CALLS * sizeof(long), begun = 0, running = 0, i;
    struct rlimit none = {0, 0};
    pid_t pids[CALLS];
    volatile long *statuses;

    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    rounds = argc > 3 ? strtol(argv[3], NULL, 10) : 1;
    setrlimit(RLIMIT_CORE, &none);
    statuses = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == (void *) statuses) {
        return 70;
    }
    while (begun < CALLS || 0 < running) {
        if (begun < CALLS && running < AT_ONCE) {
            fflush(stdout);
            pids[begun] = fork();
            if (0 == pids[begun]) {
                /* The output of the functions must not be mixed with that of this program. */
                if (NULL == freopen("/dev/null", "w", stdout)) {
                    _exit(101);
                }
                run(what, begun, &statuses[begun]);
            }
            begun++;
            running++;
        } else {
            int ended = 0;
            pid_t pid = wait(&ended);
            for (i = 0; i < begun && pids[i] != pid; i++) {
            }
            if (i < begun) {
                print(&calls[i], ended, statuses[i]);
                pids[i] = -1;
                running--;
            }
        }
    }
    return 0;
}

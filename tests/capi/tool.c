/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A tool and its servers. The first argument selects the case:
 *   alone        a tool without a server
 *   two A B      a tool of the two servers that have their files below A and B
 *   several A    the search finds several servers below A
 *   ways A B U   finds the system server and the server of a session below A, whose URI is U, in every possible way,
 *                and as far as possible the server of a session below B
 *   loses A B    loses the connection to the server below A, which ends when the tool asks for it
 *   started      a tool that a server started
 */
#define _GNU_SOURCE
#include <pmix_server.h>
#include <pthread.h>

#include "tools.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int heard;
static pmix_proc_t told_by;

static int same(const pmix_proc_t *one, const pmix_proc_t *other)
{
    return 0 == strcmp(one->nspace, other->nspace) && one->rank == other->rank;
}

static void no_tool(void)
{
    pmix_proc_t proc, *servers = NULL;
    pmix_server_module_t module;
    size_t count = 7;

    memset(&module, 0, sizeof(module));
    PMIX_LOAD_PROCID(&proc, "nobody", 0);
    IS(PMIX_ERR_INIT, PMIx_tool_attach_to_server(NULL, NULL, NULL, 0));
    IS(PMIX_ERR_INIT, PMIx_tool_disconnect(&proc));
    IS(PMIX_ERR_INIT, PMIx_tool_get_servers(&servers, &count));
    IS(PMIX_ERR_INIT, PMIx_tool_set_server(&proc, NULL, 0));
    IS(PMIX_ERR_INIT, PMIx_tool_set_server_module(&module));
    IS(PMIX_ERR_INIT, PMIx_tool_finalize());
    HOLDS(!PMIx_tool_is_connected() && !PMIx_Initialized());
}

static void alone(const char *empty)
{
    pmix_proc_t proc, *servers = NULL;
    pmix_info_t infos[3];
    pmix_rank_t rank = 7;
    pmix_value_t *value = NULL;
    size_t count = 7;
    int one = 1;
    bool yes = true;

    no_tool();
    IS(PMIX_ERR_UNREACH, below(empty, NULL, &proc, NULL, 1));
    HOLDS(!PMIx_Initialized());
    PMIX_INFO_LOAD(&infos[0], PMIX_TOOL_CONNECT_OPTIONAL, &yes, PMIX_BOOL);
    IS(PMIX_SUCCESS, below(empty, &infos[0], &proc, NULL, 1));
    HOLDS(proc.nspace[0] == 0 && proc.rank == PMIX_RANK_UNDEF);
    HOLDS(PMIx_Initialized() && !PMIx_tool_is_connected());
    IS(PMIX_ERR_UNREACH, PMIx_tool_get_servers(&servers, &count));
    HOLDS(servers == NULL && count == 0);
    IS(PMIX_ERR_UNREACH, PMIx_Commit());
    IS(PMIX_ERR_UNREACH, PMIx_Get(NULL, "some key", NULL, 0, &value));
    IS(PMIX_ERR_UNREACH, below(empty, NULL, NULL, NULL, 0));
    IS(PMIX_ERR_BAD_PARAM, PMIx_tool_disconnect(NULL));
    IS(PMIX_ERR_BAD_PARAM, PMIx_tool_set_server(NULL, NULL, 0));
    IS(PMIX_ERR_BAD_PARAM, PMIx_tool_set_server_module(NULL));
    IS(PMIX_ERR_BAD_PARAM, PMIx_tool_get_servers(NULL, &count));
    IS(PMIX_ERR_BAD_PARAM, PMIx_tool_get_servers(&servers, NULL));
    PMIX_LOAD_PROCID(&proc, "nobody", 0);
    IS(PMIX_ERR_NOT_FOUND, PMIx_tool_disconnect(&proc));
    IS(PMIX_ERR_NOT_FOUND, PMIx_tool_set_server(&proc, NULL, 0));
    PMIX_INFO_LOAD(&infos[1], PMIX_WAIT_FOR_CONNECTION, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[2], PMIX_TIMEOUT, &one, PMIX_INT);
    IS(PMIX_ERR_TIMEOUT, PMIx_tool_set_server(&proc, &infos[1], 2));
    IS(PMIX_SUCCESS, PMIx_tool_finalize());
    HOLDS(!PMIx_Initialized());

    PMIX_INFO_LOAD(&infos[0], PMIX_TOOL_DO_NOT_CONNECT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_TOOL_NSPACE, "my.tool", PMIX_STRING);
    PMIX_INFO_LOAD(&infos[2], PMIX_TOOL_RANK, &rank, PMIX_PROC_RANK);
    IS(PMIX_SUCCESS, PMIx_tool_init(&proc, infos, 3));
    HOLDS(0 == strcmp(proc.nspace, "my.tool") && proc.rank == 7);
    /* Inits are counted, and PMIx_Init counts as well. */
    IS(PMIX_SUCCESS, PMIx_tool_init(NULL, infos, 3));
    IS(PMIX_SUCCESS, PMIx_Init(&proc, NULL, 0));
    HOLDS(0 == strcmp(proc.nspace, "my.tool") && proc.rank == 7);
    IS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    IS(PMIX_SUCCESS, PMIx_tool_finalize());
    HOLDS(PMIx_Initialized());
    IS(PMIX_SUCCESS, PMIx_tool_finalize());
    PMIX_INFO_DESTRUCT(&infos[1]);
    no_tool();
}

static void two(const char *first, const char *second)
{
    pmix_proc_t own, again, none, one, other, *servers = NULL;
    pmix_info_t primary, uri;
    size_t count = 0;
    bool yes = true;

    IS(PMIX_SUCCESS, below(first, NULL, &own, NULL, 1));
    HOLDS(own.nspace[0] != 0 && PMIx_tool_is_connected());
    IS(PMIX_SUCCESS, PMIx_tool_get_servers(&servers, &count));
    HOLDS(count == 1 && 0 == strcmp(servers[0].nspace, "one"));
    one = servers[0];
    PMIX_PROC_FREE(servers, count);
    asks("one.job");
    /* The second connection to a server is an error. */
    IS(PMIX_ERR_EXISTS, below(first, NULL, NULL, &other, 0));

    IS(PMIX_SUCCESS, below(second, NULL, &again, &other, 0));
    HOLDS(same(&own, &again) && 0 == strcmp(other.nspace, "two"));
    asks("one.job");
    IS(PMIX_SUCCESS, PMIx_tool_get_servers(&servers, &count));
    HOLDS(count == 2 && same(&servers[0], &one) && same(&servers[1], &other));
    PMIX_PROC_FREE(servers, count);
    IS(PMIX_SUCCESS, PMIx_tool_set_server(&other, NULL, 0));
    asks("two.job");
    IS(PMIX_SUCCESS, PMIx_tool_get_servers(&servers, &count));
    HOLDS(count == 2 && same(&servers[0], &other) && same(&servers[1], &one));
    PMIX_PROC_FREE(servers, count);

    IS(PMIX_SUCCESS, PMIx_tool_disconnect(&one));
    asks("two.job");
    PMIX_INFO_LOAD(&primary, PMIX_PRIMARY_SERVER, &yes, PMIX_BOOL);
    IS(PMIX_SUCCESS, below(first, &primary, NULL, NULL, 0));
    asks("one.job");
    IS(PMIX_SUCCESS, PMIx_tool_disconnect(&one));
    asks("two.job");
    IS(PMIX_SUCCESS, PMIx_tool_disconnect(&other));
    HOLDS(!PMIx_tool_is_connected());
    IS(PMIX_ERR_NOT_FOUND, PMIx_tool_disconnect(&other));

    /* The deprecated function disconnects from the previous primary server. */
    IS(PMIX_SUCCESS, below(first, NULL, NULL, NULL, 0));
    PMIX_LOAD_PROCID(&none, "none", 0);
    PMIX_INFO_LOAD(&uri, PMIX_SERVER_TMPDIR, second, PMIX_STRING);
    IS(PMIX_SUCCESS, PMIx_tool_connect_to_server(&none, &uri, 1));
    PMIX_INFO_DESTRUCT(&uri);
    HOLDS(same(&none, &own));
    asks("two.job");
    IS(PMIX_SUCCESS, PMIx_tool_get_servers(&servers, &count));
    HOLDS(count == 1 && same(&servers[0], &other));
    PMIX_PROC_FREE(servers, count);
    IS(PMIX_SUCCESS, PMIx_tool_finalize());
    HOLDS(!PMIx_Initialized() && !PMIx_tool_is_connected());
}

/* Searches below a directory with one attribute; after a success, queries the server. */
static void by(const char *directory, pmix_info_t *info, pmix_status_t expected, const char *job)
{
    pmix_proc_t own;
    IS(expected, below(directory, info, &own, NULL, 1));
    if (PMIX_SUCCESS == expected) {
        asks(job);
        IS(PMIX_SUCCESS, PMIx_tool_finalize());
    }
    HOLDS(!PMIx_Initialized());
    PMIX_INFO_DESTRUCT(info);
}

static void ways(const char *first, const char *second, const char *uri)
{
    pmix_info_t info, infos[4];
    pid_t parent = getppid();
    pmix_proc_t own;
    uint32_t retries = 2, delay = 0;
    bool yes = true;

    PMIX_INFO_LOAD(&info, PMIX_SERVER_URI, uri, PMIX_STRING);
    by(second, &info, PMIX_SUCCESS, "one.job");
    PMIX_INFO_LOAD(&info, PMIX_SERVER_PIDINFO, &parent, PMIX_PID);
    by(first, &info, PMIX_SUCCESS, "one.job");
    parent = 1;
    PMIX_INFO_LOAD(&info, PMIX_SERVER_PIDINFO, &parent, PMIX_PID);
    by(first, &info, PMIX_ERR_UNREACH, NULL);
    PMIX_INFO_LOAD(&info, PMIX_SERVER_NSPACE, "two", PMIX_STRING);
    by(second, &info, PMIX_SUCCESS, "two.job");
    PMIX_INFO_LOAD(&info, PMIX_SERVER_NSPACE, "two", PMIX_STRING);
    by(first, &info, PMIX_ERR_UNREACH, NULL);
    PMIX_INFO_LOAD(&info, PMIX_CONNECT_TO_SYSTEM, &yes, PMIX_BOOL);
    by(first, &info, PMIX_SUCCESS, "one.job");
    PMIX_INFO_LOAD(&info, PMIX_CONNECT_TO_SYSTEM, &yes, PMIX_BOOL);
    by(second, &info, PMIX_ERR_UNREACH, NULL);
    PMIX_INFO_LOAD(&info, PMIX_CONNECT_SYSTEM_FIRST, &yes, PMIX_BOOL);
    by(first, &info, PMIX_SUCCESS, "one.job");
    PMIX_INFO_LOAD(&info, PMIX_CONNECT_SYSTEM_FIRST, &yes, PMIX_BOOL);
    by(second, &info, PMIX_SUCCESS, "two.job");
    PMIX_INFO_LOAD(&info, PMIX_CONNECT_TO_SCHEDULER, &yes, PMIX_BOOL);
    by(first, &info, PMIX_ERR_UNREACH, NULL);
    PMIX_INFO_LOAD(&info, PMIX_CONNECT_TO_SYS_CONTROLLER, &yes, PMIX_BOOL);
    by(first, &info, PMIX_ERR_UNREACH, NULL);
    /* A search with a number of retries ends. */
    PMIX_INFO_LOAD(&infos[0], PMIX_SERVER_TMPDIR, "/no/such/directory", PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_SYSTEM_TMPDIR, "/no/such/directory", PMIX_STRING);
    PMIX_INFO_LOAD(&infos[2], PMIX_CONNECT_MAX_RETRIES, &retries, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[3], PMIX_CONNECT_RETRY_DELAY, &delay, PMIX_UINT32);
    IS(PMIX_ERR_UNREACH, PMIx_tool_init(&own, infos, 4));
    PMIX_INFO_DESTRUCT(&infos[0]);
    PMIX_INFO_DESTRUCT(&infos[1]);
}

static void lost(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                 pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id, (void) info, (void) ninfo, (void) results, (void) nresults;
    pthread_mutex_lock(&mutex);
    heard = status;
    told_by = *source;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static void waits_for(pmix_status_t status)
{
    pthread_mutex_lock(&mutex);
    while (heard != status) {
        pthread_cond_wait(&changed, &mutex);
    }
    heard = 0;
    pthread_mutex_unlock(&mutex);
}

/* The handler is registered with one server. The other server receives the registration when it becomes the
 * primary server. */
static void loses(const char *first, const char *second)
{
    pmix_status_t codes[2] = {PMIX_ERR_LOST_CONNECTION, PMIX_ERR_PROC_RESTART};
    pmix_proc_t own, after, one, other, *servers = NULL;
    size_t count = 0;
    char line[16];

    IS(PMIX_SUCCESS, below(first, NULL, &own, NULL, 1));
    IS(PMIX_SUCCESS, PMIx_tool_get_servers(&servers, &count));
    one = servers[0];
    PMIX_PROC_FREE(servers, count);
    HOLDS(0 <= PMIx_Register_event_handler(codes, 2, NULL, 0, lost, NULL, NULL));
    puts("end one");
    fflush(stdout);
    waits_for(PMIX_ERR_LOST_CONNECTION);
    HOLDS(same(&told_by, &one) && !PMIx_tool_is_connected());
    IS(PMIX_ERR_UNREACH, PMIx_tool_get_servers(&servers, &count));
    IS(PMIX_SUCCESS, below(second, NULL, &after, &other, 0));
    HOLDS(same(&own, &after) && PMIx_tool_is_connected());
    asks("two.job");
    puts("tell");
    fflush(stdout);
    waits_for(PMIX_ERR_PROC_RESTART);
    HOLDS(same(&told_by, &other));
    puts("leave");
    fflush(stdout);
    HOLDS(NULL != fgets(line, sizeof(line), stdin));
    IS(PMIX_SUCCESS, PMIx_tool_finalize());
    /* A server from which the tool disconnects is not lost. */
    HOLDS(heard == 0);
}

static void started(void)
{
    pmix_proc_t own, job, *servers = NULL;
    pmix_value_t value, *found = NULL;
    pmix_info_t collect;
    size_t count = 0;
    uint32_t number = 17;
    bool yes = true;

    IS(PMIX_SUCCESS, PMIx_tool_init(&own, NULL, 0));
    HOLDS(0 == strcmp(own.nspace, getenv("PMIX_NAMESPACE")));
    HOLDS(own.rank == (pmix_rank_t) atoi(getenv("PMIX_RANK")));
    HOLDS(PMIx_tool_is_connected());
    IS(PMIX_SUCCESS, PMIx_tool_get_servers(&servers, &count));
    HOLDS(count == 1);
    PMIX_PROC_FREE(servers, count);
    /* The tool is a process of its job, and can do what clients do. */
    PMIX_LOAD_PROCID(&job, own.nspace, PMIX_RANK_WILDCARD);
    IS(PMIX_SUCCESS, PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &found));
    HOLDS(PMIX_UINT32 == found->type && 1 == found->data.uint32);
    PMIX_VALUE_RELEASE(found);
    PMIX_VALUE_LOAD(&value, &number, PMIX_UINT32);
    IS(PMIX_SUCCESS, PMIx_Put(PMIX_GLOBAL, "number", &value));
    IS(PMIX_SUCCESS, PMIx_Commit());
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    IS(PMIX_SUCCESS, PMIx_Fence(&job, 1, &collect, 1));
    IS(PMIX_SUCCESS, PMIx_Get(&own, "number", NULL, 0, &found));
    HOLDS(PMIX_UINT32 == found->type && number == found->data.uint32);
    PMIX_VALUE_RELEASE(found);
    IS(PMIX_SUCCESS, PMIx_tool_finalize());
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *first = argc > 2 ? argv[2] : NULL, *second = argc > 3 ? argv[3] : NULL;

    alarm(120);
    if (0 == strcmp(what, "alone")) {
        alone(first);
    } else if (0 == strcmp(what, "two")) {
        two(first, second);
    } else if (0 == strcmp(what, "several")) {
        pmix_proc_t proc;
        IS(PMIX_ERR_BAD_PARAM, below(first, NULL, &proc, NULL, 1));
    } else if (0 == strcmp(what, "ways")) {
        ways(first, second, argc > 4 ? argv[4] : NULL);
    } else if (0 == strcmp(what, "loses")) {
        loses(first, second);
    } else if (0 == strcmp(what, "started")) {
        started();
    } else {
        return 2;
    }
    printf("%s: ok\n", what);
    return 0;
}

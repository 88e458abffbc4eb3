/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host that registers resources, collects and delivers inventories, collects the information of its jobs, and
 * pauses the input of its process. With a descriptor as its argument, the program is its own client, which writes to
 * the descriptor when its input has reached the server.
 */
#include <pmix_server.h>
#include <pmix_tool.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static int num_answers;
static pmix_status_t answered;
static pmix_info_t *inventory;
static size_t num_inventory;
static atomic_int num_pushes;

/* A server function without a callback is complete when it returns. */
static void must(const char *what, pmix_status_t status)
{
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
        fprintf(stderr, "%s: %s (%d)\n", what, PMIx_Error_string(status), status);
        exit(1);
    }
}

static void require(const char *what, int holds)
{
    if (!holds) {
        fprintf(stderr, "%s does not hold\n", what);
        exit(1);
    }
}

/* Loads an unknown directive that is required. */
static void required(pmix_info_t *info)
{
    PMIX_INFO_LOAD(info, "nobody.knows", NULL, PMIX_BOOL);
    PMIX_INFO_REQUIRED(info);
}

static void answer(pmix_status_t status, void *cbdata)
{
    (void)cbdata;
    pthread_mutex_lock(&lock);
    answered = status;
    num_answers++;
    pthread_cond_signal(&told);
    pthread_mutex_unlock(&lock);
}

static void collected(pmix_status_t status, pmix_info_t *infos, size_t ninfos, void *cbdata,
                      pmix_release_cbfunc_t release, void *data)
{
    size_t i;

    PMIX_INFO_CREATE(inventory, ninfos);
    for (i = 0; i < ninfos; i++) {
        PMIX_INFO_XFER(&inventory[i], &infos[i]);
    }
    num_inventory = ninfos;
    if (release != NULL) {
        release(data);
    }
    answer(status, cbdata);
}

/* Waits for the callback of a request. */
static void called_back(const char *what, pmix_status_t asked)
{
    must(what, asked);
    pthread_mutex_lock(&lock);
    while (num_answers == 0) {
        pthread_cond_wait(&told, &lock);
    }
    num_answers--;
    pthread_mutex_unlock(&lock);
    must(what, answered);
}

static pmix_status_t connects(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *cbdata)
{
    (void)proc, (void)object, (void)done, (void)cbdata;
    return PMIX_SUCCESS;
}

static pmix_status_t fence(const pmix_proc_t *procs, size_t nprocs, const pmix_info_t *infos, size_t ninfos,
                           char *data, size_t ndata, pmix_modex_cbfunc_t done, void *cbdata)
{
    (void)procs, (void)nprocs, (void)infos, (void)ninfos;
    done(PMIX_SUCCESS, data, ndata, cbdata, free, data);
    return PMIX_SUCCESS;
}

static pmix_status_t push_stdin(const pmix_proc_t *source, const pmix_proc_t targets[], size_t ntargets,
                                const pmix_info_t directives[], size_t ndirs, const pmix_byte_object_t *bo,
                                pmix_op_cbfunc_t done, void *cbdata)
{
    (void)source, (void)targets, (void)ntargets, (void)directives, (void)ndirs;
    /* The first input is accepted, and the rest is paused. */
    atomic_fetch_add(&num_pushes, 1);
    done(bo->size == 1 && bo->bytes[0] == '1' ? PMIX_ERR_IOF_XOFF : PMIX_SUCCESS, cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t size_of(const char *name, const char *hostname, pmix_value_t **found)
{
    pmix_proc_t all;
    pmix_info_t infos[2];
    bool yes = true;
    pmix_status_t status;

    PMIX_LOAD_PROCID(&all, name, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&infos[0], PMIX_NODE_INFO, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_HOSTNAME, hostname, PMIX_STRING);
    status = PMIx_Get(&all, PMIX_HWLOC_XML_V2, infos, 2, found);
    PMIX_INFO_DESTRUCT(&infos[0]);
    PMIX_INFO_DESTRUCT(&infos[1]);
    return status;
}

static int client(int descriptor)
{
    pmix_proc_t own, all;
    pmix_value_t *found = NULL;
    pmix_byte_object_t bo = {"1", 1};

    must("init", PMIx_Init(&own, NULL, 0));
    PMIX_LOAD_PROCID(&all, own.nspace, PMIX_RANK_WILDCARD);
    must("a resource", PMIx_Get(&all, "site.name", NULL, 0, &found));
    require("what was registered last", found->type == PMIX_STRING && strcmp(found->data.string, "new") == 0);
    PMIX_VALUE_RELEASE(found);
    must("the inventory of another node", size_of(own.nspace, "far", &found));
    require("its topology", found->type == PMIX_STRING && strcmp(found->data.string, "<topology/>") == 0);
    PMIX_VALUE_RELEASE(found);
    must("input", PMIx_IOF_push(&own, 1, &bo, NULL, 0, NULL, NULL));
    bo.bytes = "2";
    must("more input", PMIx_IOF_push(&own, 1, &bo, NULL, 0, answer, NULL));
    /* The server processes messages in order, so it has the push when it replies to the fence. */
    must("fence", PMIx_Fence(NULL, 0, NULL, 0));
    require("an answer that waits", num_answers == 0);
    require("a pipe", write(descriptor, "x", 1) == 1);
    called_back("more input", PMIX_SUCCESS);
    must("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}

/* Starts the client, resumes its input when the client signals a pause, and waits for the client to exit. */
static int runs(const char *self, const pmix_proc_t *proc)
{
    char **env = NULL, number[16], letter;
    int i, status = -1, pipes[2];
    pmix_info_t unknown;
    pid_t pid;

    required(&unknown);
    require("a pipe", pipe(pipes) == 0);
    snprintf(number, sizeof(number), "%d", pipes[1]);
    must("setup_fork", PMIx_server_setup_fork(proc, &env));
    pid = fork();
    if (pid == 0) {
        for (i = 0; env[i] != NULL; i++) {
            putenv(env[i]);
        }
        alarm(60);
        execl(self, self, number, (char *)NULL);
        _exit(127);
    }
    close(pipes[1]);
    require("input that waits", read(pipes[0], &letter, 1) == 1 && atomic_load(&num_pushes) == 1);
    require("output is not suspended",
            PMIx_server_IOF_flow_control(proc, PMIX_FWD_STDOUT_CHANNEL, true, NULL, 0, NULL, NULL)
                == PMIX_ERR_NOT_SUPPORTED);
    require("a required directive of flow control",
            PMIx_server_IOF_flow_control(proc, PMIX_FWD_STDIN_CHANNEL, false, &unknown, 1, answer, NULL)
                == PMIX_ERR_NOT_SUPPORTED);
    called_back("resume", PMIx_server_IOF_flow_control(proc, PMIX_FWD_STDIN_CHANNEL, false, NULL, 0, answer, NULL));
    if (pid > 0 && waitpid(pid, &status, 0) != pid) {
        status = -1;
    }
    close(pipes[0]);
    PMIX_ARGV_FREE(env);
    return status;
}

/* Checks that the inventory contains this node, its topology and its name. */
static void check_inventory(void)
{
    pmix_info_t *about;
    size_t i, known = 0;

    called_back("collect", PMIx_server_collect_inventory(NULL, 0, collected, NULL));
    require("one node", num_inventory == 1 && PMIX_CHECK_KEY(&inventory[0], PMIX_NODE_INFO_ARRAY));
    about = inventory[0].value.data.darray->array;
    for (i = 0; i < inventory[0].value.data.darray->size; i++) {
        known += PMIX_CHECK_KEY(&about[i], PMIX_HOSTNAME) && strcmp(about[i].value.data.string, "here") == 0;
        known += PMIX_CHECK_KEY(&about[i], PMIX_HWLOC_XML_V2) && strlen(about[i].value.data.string) > 100;
    }
    require("its name and topology", known == 2);
    PMIX_INFO_FREE(inventory, num_inventory);
}

static void deliver(void)
{
    pmix_info_t info, unknown, *about;
    pmix_data_array_t array;

    PMIX_INFO_CREATE(about, 2);
    PMIX_INFO_LOAD(&about[0], PMIX_HOSTNAME, "far", PMIX_STRING);
    PMIX_INFO_LOAD(&about[1], PMIX_HWLOC_XML_V2, "<topology/>", PMIX_STRING);
    array.type = PMIX_INFO;
    array.size = 2;
    array.array = about;
    PMIX_INFO_LOAD(&info, PMIX_NODE_INFO_ARRAY, &array, PMIX_DATA_ARRAY);
    required(&unknown);
    require("a required directive of an inventory",
            PMIx_server_deliver_inventory(&info, 1, &unknown, 1, NULL, NULL) == PMIX_ERR_NOT_SUPPORTED);
    unknown.flags = 0;
    must("deliver", PMIx_server_deliver_inventory(&info, 1, &unknown, 1, NULL, NULL));
    called_back("deliver", PMIx_server_deliver_inventory(&info, 1, NULL, 0, answer, NULL));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_FREE(about, 2);
}

/* Checks that the collected information is that of one job only, and that it can be unpacked. */
static void check_job_info(pmix_proc_t *proc)
{
    pmix_data_buffer_t buffer, inner;
    pmix_byte_object_t packed, again;
    pmix_proc_t procs[3];
    pmix_info_t info;
    char *name = NULL;
    int32_t count = 1;

    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    procs[0] = procs[1] = procs[2] = *proc;
    PMIX_LOAD_NSPACE(procs[1].nspace, "unknown");
    must("collect", PMIx_server_collect_job_info(procs, 3, &buffer));
    must("the job", PMIx_Data_unpack(NULL, &buffer, &packed, &count, PMIX_BYTE_OBJECT));
    require("one job", PMIx_Data_unpack(NULL, &buffer, &again, &count, PMIX_BYTE_OBJECT)
                           == PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER);
    PMIX_DATA_BUFFER_CONSTRUCT(&inner);
    /* The number is 0 after an error. */
    count = 1;
    must("its bytes", PMIx_Data_load(&inner, &packed));
    must("its name", PMIx_Data_unpack(NULL, &inner, &name, &count, PMIX_STRING));
    require("its name", strcmp(name, proc->nspace) == 0);
    free(name);
    PMIX_DATA_BUFFER_DESTRUCT(&inner);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    must("collect again", PMIx_server_collect_job_info(proc, 1, &buffer));
    must("unload", PMIx_Data_unload(&buffer, &packed));
    PMIX_INFO_LOAD(&info, PMIX_GROUP_JOB_INFO, &packed, PMIX_BYTE_OBJECT);
    must("take", PMIx_server_register_resources(&info, 1, NULL, NULL));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_BYTE_OBJECT_DESTRUCT(&packed);
    require("nobody", PMIx_server_collect_job_info(NULL, 0, &buffer) == PMIX_ERR_BAD_PARAM);
}

static void register_job(const pmix_proc_t *proc)
{
    pmix_info_t infos[2];

    PMIX_INFO_LOAD(&infos[0], PMIX_NODE_MAP, "here", PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_PROC_MAP, "0", PMIX_STRING);
    must("job", PMIx_server_register_nspace(proc->nspace, 1, infos, 2, NULL, NULL));
    must("client", PMIx_server_register_client(proc, getuid(), getgid(), NULL, NULL, NULL));
    PMIX_INFO_DESTRUCT(&infos[0]);
    PMIX_INFO_DESTRUCT(&infos[1]);
}

int main(int argc, char **argv)
{
    pmix_server_module_t module;
    pmix_proc_t proc, later;
    pmix_info_t info;
    pmix_value_t *found = NULL;
    int status;

    if (argc > 1) {
        return client(atoi(argv[1]));
    }
    alarm(120);
    require("init comes first", PMIx_server_register_resources(NULL, 0, NULL, NULL) == PMIX_ERR_INIT);
    memset(&module, 0, sizeof(module));
    module.client_connected = connects;
    module.fence_nb = fence;
    module.push_stdin = push_stdin;
    PMIX_INFO_LOAD(&info, PMIX_HOSTNAME, "here", PMIX_STRING);
    must("server", PMIx_server_init(&module, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_LOAD(&info, "site.name", "old", PMIX_STRING);
    must("register", PMIx_server_register_resources(&info, 1, NULL, NULL));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_LOAD(&info, "site.name", "new", PMIX_STRING);
    called_back("register", PMIx_server_register_resources(&info, 1, answer, NULL));
    must("a resource of no job", PMIx_Get(NULL, "site.name", NULL, 0, &found));
    require("the last one", found->type == PMIX_STRING && 0 == strcmp(found->data.string, "new"));
    PMIX_VALUE_RELEASE(found);
    check_inventory();
    deliver();
    PMIX_LOAD_PROCID(&proc, "job", 0);
    register_job(&proc);
    check_job_info(&proc);
    status = runs(argv[0], &proc);
    called_back("deregister", PMIx_server_deregister_resources(&info, 1, answer, NULL));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_LOAD_PROCID(&later, "later", 0);
    register_job(&later);
    later.rank = PMIX_RANK_WILDCARD;
    require("what is forgotten", PMIx_Get(&later, "site.name", NULL, 0, &found) == PMIX_ERR_NOT_FOUND);
    must("end", PMIx_server_finalize());
    require("the client ends well, and both pieces came", status == 0 && atomic_load(&num_pushes) == 2);
    puts("resources: ok");
    return 0;
}

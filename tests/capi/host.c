/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host with one process of a job on two nodes. Like Slurm, it calls back from within its own function, under a lock
 * that the release of the data takes as well. Like OpenPBS, it completes the last fence by the status of its function.
 * With an argument, the program is its own client.
 */
#include <pmix_server.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int answered, succeeded, released, connected, finalized;

/* A server function without a callback is complete when it returns. */
static void must(const char *what, pmix_status_t status)
{
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
        fprintf(stderr, "%s: %s (%d)\n", what, PMIx_Error_string(status), status);
        exit(1);
    }
}

static void release(void *data)
{
    pthread_mutex_lock(&lock);
    free(data);
    released++;
    pthread_mutex_unlock(&lock);
}

static pmix_status_t fence(const pmix_proc_t *procs, size_t nprocs, const pmix_info_t *infos,
                           size_t ninfos, char *data, size_t ndata, pmix_modex_cbfunc_t done,
                           void *cbdata)
{
    char *copy = malloc(ndata + 1);

    (void)procs, (void)nprocs, (void)infos, (void)ninfos;
    if (copy == NULL) {
        return PMIX_ERR_NOMEM;
    }
    if (answered == 3) {
        free(copy);
        free(data);
        succeeded++;
        return PMIX_OPERATION_SUCCEEDED;
    }
    memset(copy, 0, ndata + 1);
    if (ndata > 0) {
        memcpy(copy, data, ndata);
    }
    free(data);
    pthread_mutex_lock(&lock);
    answered++;
    done(PMIX_SUCCESS, copy, ndata, cbdata, release, copy);
    pthread_mutex_unlock(&lock);
    return PMIX_SUCCESS;
}

static pmix_status_t connects(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *cbdata)
{
    (void)proc, (void)object;
    connected++;
    // Hosts call back without a test for NULL.
    done(PMIX_SUCCESS, cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t finalizes(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *cbdata)
{
    (void)proc, (void)object, (void)done, (void)cbdata;
    finalized++;
    return PMIX_OPERATION_SUCCEEDED;
}

static int client(void)
{
    pmix_proc_t own;
    pmix_value_t value, *found = NULL;
    pmix_info_t info;
    bool collect = true;
    uint32_t number = 17;
    int i;

    must("init", PMIx_Init(&own, NULL, 0));
    PMIX_VALUE_LOAD(&value, &number, PMIX_UINT32);
    must("put", PMIx_Put(PMIX_GLOBAL, "number", &value));
    must("commit", PMIx_Commit());
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    for (i = 0; i < 4; i++) {
        must("fence", PMIx_Fence(NULL, 0, &info, 1));
    }
    PMIX_INFO_DESTRUCT(&info);
    must("get", PMIx_Get(&own, "number", NULL, 0, &found));
    if (found->type != PMIX_UINT32 || found->data.uint32 != number) {
        return 1;
    }
    PMIX_VALUE_RELEASE(found);
    must("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}

static int runs(const char *self, const pmix_proc_t *proc)
{
    char **env = NULL;
    char *argv[3];
    int i, status = -1;
    pid_t pid;

    argv[0] = strdup(self);
    argv[1] = strdup("client");
    argv[2] = NULL;
    must("setup_fork", PMIx_server_setup_fork(proc, &env));
    pid = fork();
    if (pid == 0) {
        for (i = 0; env[i] != NULL; i++) {
            putenv(env[i]);
        }
        alarm(60);
        execv(self, argv);
        _exit(127);
    }
    if (pid > 0 && waitpid(pid, &status, 0) != pid) {
        status = -1;
    }
    for (i = 0; env[i] != NULL; i++) {
        free(env[i]);
    }
    free(env);
    free(argv[0]);
    free(argv[1]);
    return status;
}

int main(int argc, char **argv)
{
    pmix_server_module_t module;
    pmix_proc_t proc;
    pmix_info_t infos[2], name;
    char *nodes = NULL, *procs = NULL;
    int status;

    if (argc > 1) {
        return client();
    }
    alarm(120);
    memset(&module, 0, sizeof(module));
    module.client_connected = connects;
    module.client_finalized = finalizes;
    module.fence_nb = fence;
    PMIX_INFO_LOAD(&name, PMIX_HOSTNAME, "here", PMIX_STRING);
    must("server", PMIx_server_init(&module, &name, 1));
    PMIX_INFO_DESTRUCT(&name);
    must("node map", PMIx_generate_regex("here,there", &nodes));
    must("process map", PMIx_generate_ppn("0;1", &procs));
    PMIX_INFO_LOAD(&infos[0], PMIX_NODE_MAP, nodes, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_PROC_MAP, procs, PMIX_STRING);
    PMIX_LOAD_PROCID(&proc, "job", 0);
    must("job", PMIx_server_register_nspace(proc.nspace, 1, infos, 2, NULL, NULL));
    must("client", PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL));
    PMIX_INFO_DESTRUCT(&infos[0]);
    PMIX_INFO_DESTRUCT(&infos[1]);
    free(nodes);
    free(procs);
    status = runs(argv[0], &proc);
    must("end", PMIx_server_finalize());
    if (status != 0 || answered != 3 || succeeded != 1 || released != 3 || connected != 1 || finalized != 1) {
        fprintf(stderr, "status %d, %d and %d fences, %d released, %d connected, %d finalized\n", status, answered,
                succeeded, released, connected, finalized);
        return 1;
    }
    puts("host: ok");
    return 0;
}

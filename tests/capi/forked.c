/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host that forks without exec while its other threads call the library, as slurmstepd does. The child prepares the
 * environment of a process and has no other role, and the parent continues.
 */
#include <pmix_server.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS 40

extern char **environ;

static pmix_server_module_t module;
static atomic_int ended;

/* A server function without a callback is complete when it returns. */
static void must(const char *what, pmix_status_t status)
{
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
        fprintf(stderr, "%s: %s (%d)\n", what, PMIx_Error_string(status), status);
        exit(1);
    }
}

/* Holds the locks of the library as often as possible. */
static void *busy(void *unused)
{
    pmix_proc_t proc;
    char **env;
    int i;

    (void)unused;
    PMIX_LOAD_PROCID(&proc, "job", 1);
    while (!ended) {
        env = NULL;
        must("setup_fork of a thread", PMIx_server_setup_fork(&proc, &env));
        for (i = 0; env[i] != NULL; i++) {
            free(env[i]);
        }
        free(env);
        PMIx_Initialized();
    }
    return NULL;
}

static int child(const pmix_proc_t *proc)
{
    char **env = NULL;
    int i, found = 0;

    if (PMIx_server_setup_fork(proc, &env) != PMIX_SUCCESS || env == NULL) {
        return 2;
    }
    for (i = 0; env[i] != NULL; i++) {
        found += strcmp(env[i], "PMIX_NAMESPACE=job") == 0;
        found += strcmp(env[i], "PMIX_RANK=0") == 0;
    }
    if (found != 2) {
        return 3;
    }
    return PMIx_Initialized() != 0 || PMIx_Commit() != PMIX_ERR_INIT;
}

int main(void)
{
    pmix_proc_t proc;
    pthread_t thread;
    pmix_info_t infos[2];
    char *nodes = NULL, *procs = NULL;
    int i, status;

    must("server", PMIx_server_init(&module, NULL, 0));
    must("node map", PMIx_generate_regex("localhost", &nodes));
    must("process map", PMIx_generate_ppn("0,1", &procs));
    PMIX_INFO_LOAD(&infos[0], PMIX_NODE_MAP, nodes, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_PROC_MAP, procs, PMIX_STRING);
    PMIX_LOAD_PROCID(&proc, "job", 0);
    must("job", PMIx_server_register_nspace(proc.nspace, 2, infos, 2, NULL, NULL));
    for (i = 0; i < 2; i++) {
        PMIX_LOAD_PROCID(&proc, "job", (pmix_rank_t)i);
        must("client", PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL));
    }
    PMIX_LOAD_PROCID(&proc, "job", 0);
    if (pthread_create(&thread, NULL, busy, NULL) != 0) {
        return 1;
    }
    for (i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            alarm(20);
            status = child(&proc);
            if (status == 0) {
                /* Hosts exec as well. At an exit, memory referenced only from the stacks of the other threads
                 * would count as leaked. */
                execlp("true", "true", (char *)NULL);
                status = 4;
            }
            _exit(status);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
            fprintf(stderr, "fork %d: status %d\n", i, status);
            return 1;
        }
    }
    ended = 1;
    pthread_join(thread, NULL);
    PMIX_LOAD_PROCID(&proc, "other", 0);
    must("another job", PMIx_server_register_nspace(proc.nspace, 2, infos, 2, NULL, NULL));
    PMIX_INFO_DESTRUCT(&infos[0]);
    PMIX_INFO_DESTRUCT(&infos[1]);
    free(nodes);
    free(procs);
    must("end", PMIx_server_finalize());
    puts("forked: ok");
    return 0;
}

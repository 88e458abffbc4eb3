/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host that registers two sessions, one before its job and one that no job names, and the strict checks of names. With
 * an argument, the program is its own client, which reads both sessions.
 */
#include <pmix.h>
#include <pmix_server.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int num_answers;

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

static void answer(pmix_status_t status, void *cbdata)
{
    must(cbdata, status);
    atomic_fetch_add(&num_answers, 1);
}

static void wait_for_answers(int num)
{
    while (atomic_load(&num_answers) < num) {
        usleep(1000);
    }
}

static pmix_status_t connects(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *cbdata)
{
    (void)proc, (void)object, (void)done, (void)cbdata;
    return PMIX_OPERATION_SUCCEEDED;
}

/* Gets the cluster of a session, or, without a number, of the session of the job. */
static pmix_status_t cluster_of(const pmix_proc_t *proc, uint32_t session, char *name, size_t size)
{
    pmix_info_t infos[2];
    pmix_value_t *found = NULL;
    bool yes = true;
    pmix_status_t status;

    PMIX_INFO_LOAD(&infos[0], PMIX_SESSION_INFO, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_SESSION_ID, &session, PMIX_UINT32);
    status = PMIx_Get(proc, PMIX_CLUSTER_ID, infos, session == 0 ? 1 : 2, &found);
    if (status == PMIX_SUCCESS) {
        require("a string", found->type == PMIX_STRING);
        snprintf(name, size, "%s", found->data.string);
        PMIX_VALUE_RELEASE(found);
    }
    return status;
}

static int client(void)
{
    pmix_proc_t own, all;
    char name[64];

    must("init", PMIx_Init(&own, NULL, 0));
    PMIX_LOAD_PROCID(&all, own.nspace, PMIX_RANK_WILDCARD);
    must("the session of the job", cluster_of(&all, 0, name, sizeof(name)));
    require("its description, not that of the job", 0 == strcmp(name, "first"));
    must("the session by its number", cluster_of(&all, 7, name, sizeof(name)));
    require("the same", 0 == strcmp(name, "first"));
    must("a session without jobs", cluster_of(&all, 8, name, sizeof(name)));
    require("its description", 0 == strcmp(name, "second"));
    require("a session that is unknown", cluster_of(&all, 9, name, sizeof(name)) == PMIX_ERR_NOT_FOUND);
    must("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}

static void register_job(const pmix_proc_t *proc)
{
    pmix_info_t infos[3], *about;
    pmix_data_array_t array;
    uint32_t session = 7;

    PMIX_INFO_CREATE(about, 2);
    PMIX_INFO_LOAD(&about[0], PMIX_SESSION_ID, &session, PMIX_UINT32);
    PMIX_INFO_LOAD(&about[1], PMIX_CLUSTER_ID, "of the job", PMIX_STRING);
    array.type = PMIX_INFO;
    array.size = 2;
    array.array = about;
    PMIX_INFO_LOAD(&infos[0], PMIX_NODE_MAP, "here", PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_PROC_MAP, "0", PMIX_STRING);
    PMIX_INFO_LOAD(&infos[2], PMIX_SESSION_INFO_ARRAY, &array, PMIX_DATA_ARRAY);
    must("job", PMIx_server_register_nspace(proc->nspace, 1, infos, 3, NULL, NULL));
    must("client", PMIx_server_register_client(proc, getuid(), getgid(), NULL, NULL, NULL));
    PMIX_INFO_DESTRUCT(&infos[0]);
    PMIX_INFO_DESTRUCT(&infos[1]);
    PMIX_INFO_DESTRUCT(&infos[2]);
    PMIX_INFO_FREE(about, 2);
}

static int runs(const char *self, const pmix_proc_t *proc)
{
    char **env = NULL;
    int i, status = -1;
    pid_t pid;

    must("setup_fork", PMIx_server_setup_fork(proc, &env));
    pid = fork();
    if (pid == 0) {
        for (i = 0; env[i] != NULL; i++) {
            putenv(env[i]);
        }
        alarm(60);
        execl(self, self, "client", (char *)NULL);
        _exit(127);
    }
    if (pid > 0 && waitpid(pid, &status, 0) != pid) {
        status = -1;
    }
    PMIX_ARGV_FREE(env);
    return status;
}

static void check_strict(void)
{
    pmix_proc_t one, other;

    require("the same nspace", PMIX_CHECK_NSPACE_STRICT("job", "job"));
    require("another nspace", !PMIx_Check_nspace_strict("job", "other"));
    require("an empty nspace", PMIX_CHECK_NSPACE("job", "") && !PMIx_Check_nspace_strict("job", ""));
    require("two empty nspaces", !PMIx_Check_nspace_strict("", ""));
    require("no nspaces", !PMIx_Check_nspace_strict(NULL, "job") && !PMIx_Check_nspace_strict(NULL, NULL));
    PMIX_LOAD_PROCID(&one, "job", 1);
    PMIX_LOAD_PROCID(&other, "job", 1);
    require("the same process", PMIX_CHECK_PROCID_STRICT(&one, &other));
    other.rank = PMIX_RANK_WILDCARD;
    require("a wildcard", PMIX_CHECK_PROCID(&one, &other) && !PMIx_Check_procid_strict(&one, &other));
    one.rank = PMIX_RANK_WILDCARD;
    require("two wildcards", PMIx_Check_procid_strict(&one, &other));
    PMIX_LOAD_NSPACE(other.nspace, "");
    require("a process without a job", !PMIx_Check_procid_strict(&one, &other));
    require("no processes", !PMIx_Check_procid_strict(&one, NULL) && !PMIx_Check_procid_strict(NULL, NULL));
}

int main(int argc, char **argv)
{
    pmix_server_module_t module;
    pmix_proc_t proc, other;
    pmix_info_t info;
    char name[64];
    int status;

    if (argc > 1) {
        return client();
    }
    alarm(120);
    check_strict();
    require("init comes first", PMIx_server_register_session(7, NULL, 0, NULL, NULL) == PMIX_ERR_INIT);
    memset(&module, 0, sizeof(module));
    module.client_connected = connects;
    PMIX_INFO_LOAD(&info, PMIX_HOSTNAME, "here", PMIX_STRING);
    must("server", PMIx_server_init(&module, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_CLUSTER_ID, "first", PMIX_STRING);
    require("a session", PMIx_server_register_session(7, &info, 1, NULL, NULL) == PMIX_SUCCESS);
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_CLUSTER_ID, "second", PMIX_STRING);
    require("the same session", PMIx_server_register_session(7, &info, 1, NULL, NULL) == PMIX_SUCCESS);
    require("another session", PMIx_server_register_session(8, &info, 1, answer, "register") == PMIX_SUCCESS);
    wait_for_answers(1);
    require("no session", PMIx_server_register_session(UINT32_MAX, &info, 1, NULL, NULL) == PMIX_ERR_BAD_PARAM);
    PMIX_INFO_DESTRUCT(&info);
    PMIX_LOAD_PROCID(&proc, "job", 0);
    register_job(&proc);
    status = runs(argv[0], &proc);
    require("the client ends well", status == 0);

    /* The session outlives its job, until the host deregisters it. */
    PMIx_server_deregister_nspace(proc.nspace, answer, "deregister the job");
    wait_for_answers(2);
    PMIX_LOAD_PROCID(&other, "job", PMIX_RANK_WILDCARD);
    must("a session without its job", cluster_of(&other, 7, name, sizeof(name)));
    require("its description", 0 == strcmp(name, "first"));
    PMIx_server_deregister_session(7, answer, "deregister");
    wait_for_answers(3);
    PMIx_server_deregister_session(8, NULL, NULL);
    require("a session that has ended", cluster_of(&other, 7, name, sizeof(name)) != PMIX_SUCCESS);
    require("the other one", cluster_of(&other, 8, name, sizeof(name)) != PMIX_SUCCESS);
    must("end", PMIx_server_finalize());
    puts("sessions: ok");
    return 0;
}

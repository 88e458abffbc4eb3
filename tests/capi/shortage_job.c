/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Registers, describes and asks for a job of many nodes while memory is short, as shortage.h says.
 *
 * The environment is that of rank 0 of the job "job@1", which has as many processes as the job that is made here, each
 * on a node of its own.
 */
#include "pmix.h"

#include "pmix_server.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#define ROOM_STEP 2
#include "shortage.h"

/* The nodes of the job, the processes that are described, and the bytes of a value of each. */
#define NODES 20000
#define DESCRIBED 3000
#define VALUE 400

/* Arguments, which are made before the limit is set. */
static char *names, *ranks, *node_map, *proc_map;
static pmix_info_t *job_infos;
static size_t num_infos;
static pmix_regex2_t encoded_names;
static pmix_nspace_t job_of_server = "job";

static void set_text(pmix_info_t *info, const char *key, const char *text)
{
    IS(PMIX_SUCCESS, PMIx_Info_load(info, key, text, PMIX_STRING));
}

/* The description of one process: its rank and a value of its own. */
static void describe(pmix_info_t *info, uint32_t rank)
{
    char value[VALUE + 1];
    pmix_data_array_t array = {.type = PMIX_INFO, .size = 2, .array = NULL};
    pmix_info_t *members;
    PMIX_INFO_CREATE(members, 2);
    IS(PMIX_SUCCESS, PMIx_Info_load(&members[0], PMIX_RANK, &rank, PMIX_PROC_RANK));
    for (size_t at = 0; at < VALUE; at++) {
        value[at] = (char) ('a' + (at * 5 + rank) % 26);
    }
    value[VALUE] = '\0';
    set_text(&members[1], "app.of.rank", value);
    array.array = members;
    IS(PMIX_SUCCESS, PMIx_Info_load(info, PMIX_PROC_DATA, &array, PMIX_DATA_ARRAY));
    PMIX_INFO_FREE(members, 2);
}

/* Lists of names that do not fold well, and of one rank for each. */
static void make(void)
{
    uint32_t seed = 1, size = NODES;
    char *name = names = malloc((size_t) NODES * 32), *rank = ranks = malloc((size_t) NODES * 8);
    for (uint32_t at = 0; at < NODES; at++) {
        seed = seed * 1664525 + 1013904223;
        name += at == 0 ? sprintf(name, "localhost") : sprintf(name, ",n%xrack%u-%u", seed, at % 7, seed >> 20);
        rank += sprintf(rank, at == 0 ? "%u" : ";%u", at);
    }
    IS(PMIX_SUCCESS, PMIx_generate_regex(names, &node_map));
    IS(PMIX_SUCCESS, PMIx_generate_ppn(ranks, &proc_map));
    num_infos = DESCRIBED + 3;
    PMIX_INFO_CREATE(job_infos, num_infos);
    IS(PMIX_SUCCESS, PMIx_Info_load(&job_infos[0], PMIX_NODE_MAP, node_map, PMIX_REGEX));
    IS(PMIX_SUCCESS, PMIx_Info_load(&job_infos[1], PMIX_PROC_MAP, proc_map, PMIX_REGEX));
    IS(PMIX_SUCCESS, PMIx_Info_load(&job_infos[2], PMIX_JOB_SIZE, &size, PMIX_UINT32));
    for (uint32_t at = 0; at < DESCRIBED; at++) {
        describe(&job_infos[3 + at], at);
    }
    IS(PMIX_SUCCESS, PMIx_generate_regex2(names, NULL, 0, &encoded_names));
}

static pmix_status_t done(pmix_status_t status)
{
    unlimited();
    return status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status;
}

/* Callbacks write the status into a pipe; who waits reads it. */
static int answers[2];

static void answered(pmix_status_t status, void *data)
{
    (void) data;
    if (write(answers[1], &status, sizeof(status)) != sizeof(status)) {
        _exit(4);
    }
}

static void set_up(pmix_status_t status, pmix_info_t *infos, size_t count, void *data, pmix_op_cbfunc_t release,
                   void *release_data)
{
    (void) infos;
    (void) count;
    answered(status, data);
    if (release != NULL) {
        release(PMIX_SUCCESS, release_data);
    }
}

static void sent(pmix_status_t status, char *bytes, size_t size, void *data)
{
    (void) bytes;
    (void) size;
    answered(status, data);
}

/* The status of a call, or what its callback gets. */
static pmix_status_t outcome(pmix_status_t called)
{
    pmix_status_t status = called;
    if (called == PMIX_SUCCESS && read(answers[0], &status, sizeof(status)) != sizeof(status)) {
        exit(4);
    }
    return done(status);
}

/* Calls of a server. */

static pmix_status_t register_job(void)
{
    return PMIx_server_register_nspace(job_of_server, 1, job_infos, num_infos, NULL, NULL);
}

static pmix_status_t registered(void)
{
    limit(room);
    return done(register_job());
}

static pmix_status_t registered_maps(void)
{
    limit(room);
    return done(PMIx_server_register_nspace(job_of_server, 1, job_infos, 3, NULL, NULL));
}

static pmix_status_t registered_again(void)
{
    IS(PMIX_OPERATION_SUCCEEDED, register_job());
    limit(room);
    return done(register_job());
}

static pmix_status_t texts(void)
{
    pmix_info_t infos[3];
    set_text(&infos[0], PMIX_NODE_MAP, names);
    set_text(&infos[1], PMIX_PROC_MAP, ranks);
    infos[2] = job_infos[2];
    limit(room);
    return done(PMIx_server_register_nspace(job_of_server, 1, infos, 3, NULL, NULL));
}

static pmix_status_t encode_names(void)
{
    char *made = NULL;
    limit(room);
    return done(PMIx_generate_regex(names, &made));
}

static pmix_status_t encode_ranks(void)
{
    char *made = NULL;
    limit(room);
    return done(PMIx_generate_ppn(ranks, &made));
}

static pmix_status_t encode_names2(void)
{
    pmix_regex2_t made;
    limit(room);
    return done(PMIx_generate_regex2(names, NULL, 0, &made));
}

static pmix_status_t decode_names2(void)
{
    char *list = NULL;
    limit(room);
    return done(PMIx_parse_regex2(&encoded_names, NULL, 0, &list));
}

static pmix_status_t setup_application(void)
{
    limit(room);
    return outcome(PMIx_server_setup_application(job_of_server, job_infos, num_infos, set_up, NULL));
}

static pmix_status_t setup_local(void)
{
    IS(PMIX_OPERATION_SUCCEEDED, register_job());
    limit(room);
    return outcome(PMIx_server_setup_local_support(job_of_server, job_infos, num_infos, answered, NULL));
}

static pmix_status_t collect(void)
{
    pmix_data_buffer_t buffer;
    pmix_proc_t job;
    IS(PMIX_OPERATION_SUCCEEDED, register_job());
    PMIX_LOAD_PROCID(&job, job_of_server, PMIX_RANK_WILDCARD);
    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    limit(room);
    return done(PMIx_server_collect_job_info(&job, 1, &buffer));
}

static pmix_status_t modex_of_job(void)
{
    pmix_proc_t job;
    IS(PMIX_OPERATION_SUCCEEDED, register_job());
    PMIX_LOAD_PROCID(&job, job_of_server, PMIX_RANK_WILDCARD);
    limit(room);
    return outcome(PMIx_server_dmodex_request(&job, sent, NULL));
}

/* What both roles ask for. */

static const char *job_name(void)
{
    return strcmp(self.nspace, "short") == 0 ? job_of_server : self.nspace;
}

static void know_job(void)
{
    if (job_name() == job_of_server) {
        IS(PMIX_OPERATION_SUCCEEDED, register_job());
    }
}

static pmix_status_t peers(void)
{
    pmix_proc_t *found = NULL;
    size_t count = 0;
    know_job();
    limit(room);
    return done(PMIx_Resolve_peers("localhost", job_name(), &found, &count));
}

static pmix_status_t nodes(void)
{
    char *found = NULL;
    know_job();
    limit(room);
    return done(PMIx_Resolve_nodes(job_name(), &found));
}

static pmix_status_t all_nodes(void)
{
    char *found = NULL;
    know_job();
    limit(room);
    return done(PMIx_Resolve_nodes(NULL, &found));
}

static pmix_status_t get(const char *key, pmix_rank_t rank)
{
    pmix_proc_t proc;
    pmix_value_t *value = NULL;
    know_job();
    PMIX_LOAD_PROCID(&proc, job_name(), rank);
    limit(room);
    return done(PMIx_Get(&proc, key, NULL, 0, &value));
}

static pmix_status_t get_node_map(void) { return get(PMIX_NODE_MAP_RAW, PMIX_RANK_WILDCARD); }
static pmix_status_t get_proc_map(void) { return get(PMIX_PROC_MAP_RAW, PMIX_RANK_WILDCARD); }
static pmix_status_t get_node_list(void) { return get(PMIX_NODE_LIST, PMIX_RANK_WILDCARD); }
static pmix_status_t get_num_nodes(void) { return get(PMIX_NUM_NODES, PMIX_RANK_WILDCARD); }
static pmix_status_t get_job(void) { return get(NULL, PMIX_RANK_WILDCARD); }
static pmix_status_t get_process(void) { return get(NULL, 0); }
static pmix_status_t get_last(void) { return get(PMIX_HOSTNAME, NODES - 1); }

static pmix_status_t get_many(void)
{
    pmix_status_t status = PMIX_SUCCESS;
    pmix_value_t *value = NULL;
    pmix_proc_t proc;
    know_job();
    PMIX_LOAD_PROCID(&proc, job_name(), 0);
    limit(room);
    for (proc.rank = 0; proc.rank < 1000 && status == PMIX_SUCCESS; proc.rank++) {
        status = PMIx_Get(&proc, PMIX_HOSTNAME, NULL, 0, &value);
    }
    return done(status);
}

/* A client while memory is short, and a server that serves one. */

static pmix_status_t init_client(void)
{
    pmix_status_t status;
    limit(room);
    status = done(PMIx_Init(&self, NULL, 0));
    if (status == PMIX_SUCCESS) {
        PMIx_Finalize(NULL, 0);
    }
    return status;
}

static pmix_status_t init_server(void)
{
    pmix_status_t status;
    unsetenv("PMIX_NAMESPACE");
    unsetenv("PMIX_RANK");
    limit(room);
    status = done(PMIx_server_init(&module, NULL, 0));
    if (status == PMIX_SUCCESS) {
        PMIx_server_finalize();
    }
    return status;
}

/* The process that is served: it reads its environment, an entry a line, and asks for the job. */
static int served(FILE *environment)
{
    char line[8192];
    pmix_value_t *value = NULL;
    pmix_proc_t job;
    pmix_status_t status;
    unsetenv("PMIX_NAMESPACE");
    unsetenv("PMIX_RANK");
    while (fgets(line, sizeof(line), environment) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        putenv(strdup(line));
    }
    status = PMIx_Init(&self, NULL, 0);
    if (status != PMIX_SUCCESS) {
        return 1;
    }
    PMIX_LOAD_PROCID(&job, self.nspace, PMIX_RANK_WILDCARD);
    status = PMIx_Get(&job, PMIX_NODE_LIST, NULL, 0, &value);
    PMIx_Finalize(NULL, 0);
    return status == PMIX_SUCCESS ? 0 : 1;
}

static pmix_status_t serve(void)
{
    int ends[2], ended = 0;
    char **environment = NULL;
    FILE *file;
    pid_t child;
    pmix_proc_t first;
    unsetenv("PMIX_NAMESPACE");
    unsetenv("PMIX_RANK");
    HOLDS(pipe(ends) == 0);
    /* Before the server has threads. */
    child = fork();
    if (child == 0) {
        close(ends[1]);
        alarm(100);
        _exit(served(fdopen(ends[0], "r")));
    }
    close(ends[0]);
    IS(PMIX_SUCCESS, PMIx_server_init(&module, NULL, 0));
    IS(PMIX_OPERATION_SUCCEEDED, register_job());
    PMIX_LOAD_PROCID(&first, job_of_server, 0);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_client(&first, getuid(), getgid(), NULL, NULL, NULL));
    IS(PMIX_SUCCESS, PMIx_server_setup_fork(&first, &environment));
    file = fdopen(ends[1], "w");
    for (size_t at = 0; environment[at] != NULL; at++) {
        fprintf(file, "%s\n", environment[at]);
    }
    limit(room);
    fclose(file);
    HOLDS(waitpid(child, &ended, 0) == child);
    unlimited();
    HOLDS(WIFEXITED(ended));
    PMIx_server_finalize();
    return WEXITSTATUS(ended) == 0 ? PMIX_SUCCESS : PMIX_ERR_NOMEM;
}

static const struct shortage CALLS[] = {
    {"register a job", SERVER, registered},
    {"register maps", SERVER, registered_maps},
    {"register lists", SERVER, texts},
    {"register a job again", SERVER, registered_again},
    {"encode names", NONE, encode_names},
    {"encode ranks", NONE, encode_ranks},
    {"encode names for 5.0", NONE, encode_names2},
    {"decode names", NONE, decode_names2},
    {"set up an application", SERVER, setup_application},
    {"set up local support", SERVER, setup_local},
    {"collect job info", SERVER, collect},
    {"ask for the data of a job", SERVER, modex_of_job},
    {"find peers in the server", SERVER, peers},
    {"find nodes in the server", SERVER, nodes},
    {"find all nodes in the server", SERVER, all_nodes},
    {"get the node map in the server", SERVER, get_node_map},
    {"get the process map in the server", SERVER, get_proc_map},
    {"get the nodes in the server", SERVER, get_node_list},
    {"get the data of a job in the server", SERVER, get_job},
    {"get the node of the last in the server", SERVER, get_last},
    {"find peers", CLIENT, peers},
    {"find nodes", CLIENT, nodes},
    {"find all nodes", CLIENT, all_nodes},
    {"get the node map", CLIENT, get_node_map},
    {"get the process map", CLIENT, get_proc_map},
    {"get the nodes", CLIENT, get_node_list},
    {"get the number of nodes", CLIENT, get_num_nodes},
    {"get the data of a process", CLIENT, get_process},
    {"get the node of the last", CLIENT, get_last},
    {"get nodes of many", CLIENT, get_many},
    {"become a client", NONE, init_client},
    {"become a server", NONE, init_server},
    {"serve a client", NONE, serve},
};

int main(int argc, char **argv)
{
    getrlimit(RLIMIT_AS, &before);
    HOLDS(pipe(answers) == 0);
    make();
    make_calls(CALLS, sizeof(CALLS) / sizeof(CALLS[0]), argc, argv);
    printf("shortage_job: ok\n");
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The session and the job of ParaStation, as arrays of infos. */
#define _GNU_SOURCE
#include "parastation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SERVER "pspmix_server"

const pmix_nspace_t NSPACE = "pspmix_[3:4711]";

/* The numbers of the two nodes in the cluster. */
static const uint32_t CLUSTER_NODES[] = {3, 5};

static const bool no = false;
static const uint32_t zero = 0, one = 1;

static void add(void *list, const char *key, const void *value, pmix_data_type_t type)
{
    must_be(key, PMIx_Info_list_add(list, (char *) key, (void *) value, type), PMIX_SUCCESS);
}

static pmix_data_array_t to_array(void *list)
{
    pmix_data_array_t array = PMIX_DATA_ARRAY_STATIC_INIT;
    must_be("PMIx_Info_list_convert", PMIx_Info_list_convert(list, &array), PMIX_SUCCESS);
    PMIx_Info_list_release(list);
    return array;
}

/* Adds a list as an array, which is copied. */
static void add_array(void *list, const char *key, void *about)
{
    pmix_data_array_t array = to_array(about);
    add(list, key, &array, PMIX_DATA_ARRAY);
    PMIX_DATA_ARRAY_DESTRUCT(&array);
}

static void register_resources(void)
{
    uint32_t every = UINT32_MAX;
    void *list = PMIx_Info_list_start(), *about = PMIx_Info_list_start();
    add(about, PMIX_CLUSTER_ID, "cluster", PMIX_STRING);
    add(about, PMIX_SESSION_ID, &every, PMIX_UINT32);
    add(about, PMIX_RM_NAME, "ParaStation", PMIX_STRING);
    add(about, PMIX_RM_VERSION, "6.8.1", PMIX_STRING);
    add(about, PMIX_SERVER_HOSTNAME, job.node, PMIX_STRING);
    add_array(list, PMIX_SESSION_INFO_ARRAY, about);
    pmix_data_array_t infos = to_array(list);
    answer_t answer = ANSWER;
    must_be("PMIx_server_register_resources",
            PMIx_server_register_resources(infos.array, infos.size, answer_arrived, &answer), PMIX_SUCCESS);
    must_be("the resources", answer_of(&answer), PMIX_SUCCESS);
    PMIX_DATA_ARRAY_DESTRUCT(&infos);
}

void parastation_init(pmix_server_module_t *module)
{
    static const char *const disabled[] = {PMIX_SERVER_TOOL_SUPPORT, PMIX_SERVER_SYSTEM_SUPPORT,
                                           PMIX_SERVER_SESSION_SUPPORT, PMIX_SERVER_GATEWAY, PMIX_SERVER_SCHEDULER};
    pmix_rank_t rank = 0;
    void *list = PMIx_Info_list_start();
    add(list, PMIX_SERVER_NSPACE, SERVER, PMIX_STRING);
    add(list, PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK);
    add(list, PMIX_SERVER_TMPDIR, job.directory, PMIX_STRING);
    add(list, PMIX_SYSTEM_TMPDIR, job.directory, PMIX_STRING);
    for (size_t i = 0; i < sizeof(disabled) / sizeof(disabled[0]); i++) {
        add(list, disabled[i], &no, PMIX_BOOL);
    }
    pmix_data_array_t infos = to_array(list);
    must_be("PMIx_server_init", PMIx_server_init(module, infos.array, infos.size), PMIX_SUCCESS);
    PMIX_DATA_ARRAY_DESTRUCT(&infos);
    register_resources();
}

static void add_session(void *list)
{
    uint32_t session = 4711;
    void *about = PMIx_Info_list_start();
    add(about, PMIX_SESSION_ID, &session, PMIX_UINT32);
    add(about, PMIX_UNIV_SIZE, &job.size, PMIX_UINT32);
    add(about, PMIX_MAX_PROCS, &job.size, PMIX_UINT32);
    add_array(list, PMIX_SESSION_INFO_ARRAY, about);
}

static void add_job(void *list)
{
    char *node_map = NULL, *proc_map = NULL;
    pmix_rank_t offset = 0;
    PMIx_generate_regex(job.nodes, &node_map);
    PMIx_generate_ppn(job.ranks, &proc_map);
    void *about = PMIx_Info_list_start();
    add(about, PMIX_NSPACE, NSPACE, PMIX_STRING);
    add(about, PMIX_JOBID, NSPACE, PMIX_STRING);
    add(about, PMIX_JOB_SIZE, &job.size, PMIX_UINT32);
    add(about, PMIX_MAX_PROCS, &job.size, PMIX_UINT32);
    add(about, PMIX_NODE_MAP, node_map, PMIX_STRING);
    add(about, PMIX_PROC_MAP, proc_map, PMIX_STRING);
    add(about, PMIX_JOB_NUM_APPS, &one, PMIX_UINT32);
    add(about, PMIX_NPROC_OFFSET, &offset, PMIX_PROC_RANK);
    add_array(list, PMIX_JOB_INFO_ARRAY, about);
    free(node_map);
    free(proc_map);
}

static void add_app(void *list)
{
    pmix_rank_t leader = 0;
    char *directory = getcwd(NULL, 0);
    void *about = PMIx_Info_list_start();
    add(about, PMIX_APPNUM, &zero, PMIX_UINT32);
    add(about, PMIX_APP_SIZE, &job.size, PMIX_UINT32);
    add(about, PMIX_APPLDR, &leader, PMIX_PROC_RANK);
    add(about, PMIX_WDIR, directory, PMIX_STRING);
    add(about, PMIX_APP_ARGV, job.command[0], PMIX_STRING);
    add_array(list, PMIX_APP_INFO_ARRAY, about);
    free(directory);
}

static void add_node(void *list, uint32_t node, const char *job_directory)
{
    pmix_rank_t leader = 0 == node ? 0 : job.num_local;
    const char *peers = 0 == node ? job.local_ranks : strchr(job.ranks, ';') + 1;
    void *about = PMIx_Info_list_start();
    add(about, PMIX_NODEID, &node, PMIX_UINT32);
    add(about, PMIX_HOSTNAME, node_of(leader), PMIX_STRING);
    add(about, PMIX_LOCAL_SIZE, 0 == node ? &job.num_local : &job.num_remote, PMIX_UINT32);
    add(about, PMIX_LOCALLDR, &leader, PMIX_PROC_RANK);
    add(about, PMIX_LOCAL_PEERS, peers, PMIX_STRING);
    if (0 == node) {
        add(about, PMIX_TMPDIR, job.directory, PMIX_STRING);
        add(about, PMIX_NSDIR, job_directory, PMIX_STRING);
    }
    add_array(list, PMIX_NODE_INFO_ARRAY, about);
}

/* Adds the locality of the processors of this process. ParaStation makes the bitmap with hwloc, for the processors of
 * the rank. */
static void add_locality(void *about)
{
    pmix_cpuset_t cpuset;
    char *locality = NULL;
    PMIX_CPUSET_CONSTRUCT(&cpuset);
    must_be("PMIx_Get_cpuset", PMIx_Get_cpuset(&cpuset, PMIX_CPUBIND_PROCESS), PMIX_SUCCESS);
    cpuset.source = "hwloc";
    must_be("PMIx_server_generate_locality_string", PMIx_server_generate_locality_string(&cpuset, &locality),
            PMIX_SUCCESS);
    add(about, PMIX_LOCALITY_STRING, locality, PMIX_STRING);
    free(locality);
}

static void add_rank(void *list, pmix_rank_t rank, const char *job_directory)
{
    uint16_t local = local_rank_of(rank), package = 0;
    char directory[1024];
    void *about = PMIx_Info_list_start();
    add(about, PMIX_RANK, &rank, PMIX_PROC_RANK);
    add(about, PMIX_APPNUM, &zero, PMIX_UINT32);
    add(about, PMIX_APP_RANK, &rank, PMIX_PROC_RANK);
    add(about, PMIX_GLOBAL_RANK, &rank, PMIX_PROC_RANK);
    add(about, PMIX_LOCAL_RANK, &local, PMIX_UINT16);
    add(about, PMIX_NODE_RANK, &local, PMIX_UINT16);
    add(about, PMIX_NODEID, &CLUSTER_NODES[rank < job.num_local ? 0 : 1], PMIX_UINT32);
    add(about, PMIX_SPAWNED, &no, PMIX_BOOL);
    add(about, PMIX_REINCARNATION, &zero, PMIX_UINT32);
    if (rank < job.num_local) {
        add_locality(about);
        snprintf(directory, sizeof(directory), "%s/%u", job_directory, rank);
        add(about, PMIX_PROCDIR, directory, PMIX_STRING);
        add(about, PMIX_PACKAGE_RANK, &package, PMIX_UINT16);
    }
    add_array(list, PMIX_PROC_INFO_ARRAY, about);
}

static pmix_data_array_t job_infos(void)
{
    char directory[800];
    pmix_rank_t server = 0;
    void *list = PMIx_Info_list_start();
    snprintf(directory, sizeof(directory), "%s/%s", job.directory, NSPACE);
    add(list, PMIX_SERVER_NSPACE, SERVER, PMIX_STRING);
    add(list, PMIX_SERVER_RANK, &server, PMIX_PROC_RANK);
    add(list, PMIX_JOB_SIZE, &job.size, PMIX_UINT32);
    add_session(list);
    add_job(list);
    add_app(list);
    for (uint32_t node = 0; node < job.num_nodes; node++) {
        add_node(list, node, directory);
    }
    for (pmix_rank_t rank = 0; rank < job.size; rank++) {
        add_rank(list, rank, directory);
    }
    return to_array(list);
}

static void define_set(void)
{
    pmix_proc_t *members = allocate(job.size * sizeof(*members));
    for (pmix_rank_t rank = 0; rank < job.size; rank++) {
        PMIX_LOAD_PROCID(&members[rank], NSPACE, rank);
    }
    pmix_status_t status = PMIx_server_define_process_set(members, job.size, "pspmix:reservation/17");
    /* ParaStation goes on without the set. 4.2.2 returns a number that is no status. */
    if (PMIX_SUCCESS != status && PMIX_OPERATION_SUCCEEDED != status) {
        fprintf(stderr, "parastation: failed to create process set: %d\n", status);
    }
    free(members);
}

void parastation_register(void)
{
    pmix_data_array_t infos = job_infos();
    answer_t registered = ANSWER, supported = ANSWER;
    pmix_status_t status = PMIx_server_register_nspace(NSPACE, (int) job.num_local, infos.array, infos.size,
                                                       answer_arrived, &registered);
    if (PMIX_OPERATION_SUCCEEDED != status) {
        must_be("PMIx_server_register_nspace", status, PMIX_SUCCESS);
        must_be("the nspace", answer_of(&registered), PMIX_SUCCESS);
    }
    PMIX_DATA_ARRAY_DESTRUCT(&infos);
    must_be("PMIx_server_setup_local_support",
            PMIx_server_setup_local_support(NSPACE, NULL, 0, answer_arrived, &supported), PMIX_SUCCESS);
    must_be("the local support", answer_of(&supported), PMIX_SUCCESS);
    define_set();
}

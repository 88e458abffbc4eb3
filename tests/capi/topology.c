/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The topology functions of the C interface: CPU sets, their strings and localities, the relative locality of
 * processes, and distances of devices, with valid and invalid arguments. The program is a server, or the client
 * that the environment describes. HWLOC_XMLFILE or the server describes a machine of four cores in two packages,
 * with a network interface in the second.
 */

#include <pmix.h>
#include <pmix_server.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(what)                                                        \
    do {                                                                  \
        if (!(what)) {                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);    \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

static pmix_server_module_t module;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static int calls;

static void nothing_before_init(void)
{
    pmix_topology_t topo = PMIX_TOPOLOGY_STATIC_INIT;
    pmix_cpuset_t cpus = PMIX_CPUSET_STATIC_INIT;
    pmix_locality_t shared = 0;
    pmix_device_distance_t *found = NULL;
    size_t count = 7;
    char *text = NULL;

    MUST(PMIx_Load_topology(&topo) == PMIX_ERR_INIT && topo.source == NULL);
    MUST(PMIx_Get_cpuset(&cpus, PMIX_CPUBIND_PROCESS) == PMIX_ERR_INIT);
    MUST(PMIx_Parse_cpuset_string("hwloc:0", &cpus) == PMIX_ERR_INIT);
    MUST(PMIx_server_generate_cpuset("hwloc:0", &cpus) == PMIX_ERR_INIT);
    MUST(PMIx_Get_relative_locality("CR0", "CR0", &shared) == PMIX_ERR_INIT);
    MUST(PMIx_server_generate_locality_string(&cpus, &text) == PMIX_ERR_INIT);
    MUST(PMIx_Compute_distances(&topo, &cpus, NULL, 0, &found, &count) == PMIX_ERR_INIT);
    MUST(found == NULL && count == 0 && cpus.bitmap == NULL && text == NULL);
}

static void sets(void)
{
    pmix_cpuset_t cpus, copy;
    pmix_value_t value, again;
    pmix_data_buffer_t *buffer;
    pmix_cpuset_t *one = &cpus;
    int32_t number = 1;
    char *text = NULL;

    PMIX_CPUSET_CONSTRUCT(&cpus);
    MUST(PMIx_Parse_cpuset_string(NULL, &cpus) == PMIX_ERR_BAD_PARAM);
    MUST(PMIx_Parse_cpuset_string("hwloc:0", NULL) == PMIX_ERR_BAD_PARAM);
    MUST(PMIx_Parse_cpuset_string("0-1", &cpus) == PMIX_ERR_BAD_PARAM);
    MUST(PMIx_Parse_cpuset_string("hwloc:1-", NULL) == PMIX_ERR_BAD_PARAM);
    MUST(PMIx_Parse_cpuset_string("hwloc:4294967295", &cpus) == PMIX_ERR_BAD_PARAM);
    MUST(PMIx_Parse_cpuset_string("hwloc:\377", &cpus) == PMIX_ERR_BAD_PARAM);
    MUST(PMIx_Parse_cpuset_string("other:0-1", &cpus) == PMIX_ERR_NOT_SUPPORTED);
    MUST(cpus.source == NULL && cpus.bitmap == NULL);
    MUST(PMIx_server_generate_cpuset_string(NULL, &text) == PMIX_ERR_BAD_PARAM);
    MUST(PMIx_server_generate_cpuset_string(&cpus, NULL) == PMIX_ERR_BAD_PARAM);
    MUST(PMIx_server_generate_cpuset_string(&cpus, &text) == PMIX_ERR_BAD_PARAM);
    MUST(PMIx_server_generate_cpuset("HWLOC:0,2-3", &cpus) == PMIX_SUCCESS);
    MUST(strcmp(cpus.source, "hwloc") == 0 && cpus.bitmap != NULL);
    MUST(PMIx_server_generate_cpuset_string(&cpus, &text) == PMIX_SUCCESS);
    MUST(strcmp(text, "hwloc:0,2-3") == 0);
    free(text);
    MUST(PMIx_server_generate_locality_string(&cpus, NULL) == PMIX_ERR_BAD_PARAM);
    MUST(PMIx_server_generate_locality_string(NULL, &text) == PMIX_ERR_BAD_PARAM && text == NULL);
    MUST(PMIx_server_generate_locality_string(&cpus, &text) == PMIX_SUCCESS);
    MUST(strcmp(text, "SK0-1:CR0,2-3:HT0,2-3:NM0") == 0);
    free(text);

    /* It is copied to a value and to packed data, and each copy is freed. */
    MUST(PMIx_Value_load(&value, &cpus, PMIX_PROC_CPUSET) == PMIX_SUCCESS);
    MUST(PMIx_Value_xfer(&again, &value) == PMIX_SUCCESS);
    PMIx_Value_destruct(&value);
    MUST(again.data.cpuset->bitmap != cpus.bitmap);
    MUST(PMIx_server_generate_cpuset_string(again.data.cpuset, &text) == PMIX_SUCCESS);
    MUST(strcmp(text, "hwloc:0,2-3") == 0);
    free(text);
    PMIx_Value_destruct(&again);
    buffer = PMIx_Data_buffer_create();
    MUST(PMIx_Data_pack(NULL, buffer, one, 1, PMIX_PROC_CPUSET) == PMIX_SUCCESS);
    PMIX_CPUSET_CONSTRUCT(&copy);
    MUST(PMIx_Data_unpack(NULL, buffer, &copy, &number, PMIX_PROC_CPUSET) == PMIX_SUCCESS);
    MUST(PMIx_server_generate_cpuset_string(&copy, &text) == PMIX_SUCCESS);
    MUST(strcmp(text, "hwloc:0,2-3") == 0);
    free(text);
    PMIx_Data_buffer_release(buffer);
    PMIx_Cpuset_destruct(&copy);
    PMIx_Cpuset_destruct(&cpus);
    MUST(cpus.source == NULL && cpus.bitmap == NULL);

    /* A process that is not bound has no locality. */
    text = "kept";
    MUST(PMIx_Parse_cpuset_string("hwloc:0-", &cpus) == PMIX_SUCCESS);
    MUST(PMIx_server_generate_locality_string(&cpus, &text) == PMIX_SUCCESS && text == NULL);
    PMIx_Cpuset_destruct(&cpus);
    cpus.source = strdup("hwloc");
    MUST(PMIx_server_generate_locality_string(&cpus, &text) == PMIX_SUCCESS && text == NULL);
    PMIx_Cpuset_destruct(&cpus);

    MUST(PMIx_Get_cpuset(NULL, PMIX_CPUBIND_PROCESS) == PMIX_ERR_BAD_PARAM);
    MUST(PMIx_Get_cpuset(&cpus, 9) == PMIX_ERR_BAD_PARAM);
    cpus.source = strdup("other");
    MUST(PMIx_Get_cpuset(&cpus, PMIX_CPUBIND_THREAD) == PMIX_ERR_NOT_SUPPORTED);
    PMIx_Cpuset_destruct(&cpus);
    MUST(PMIx_Get_cpuset(&cpus, PMIX_CPUBIND_THREAD) == PMIX_SUCCESS && cpus.bitmap != NULL);
    PMIx_Cpuset_destruct(&cpus);
    cpus.source = strdup("hwloc:2");
    MUST(PMIx_Get_cpuset(&cpus, PMIX_CPUBIND_PROCESS) == PMIX_SUCCESS && cpus.bitmap != NULL);
    PMIx_Cpuset_destruct(&cpus);
}

static void localities(void)
{
    pmix_locality_t shared = 0;

    MUST(PMIx_Get_relative_locality(NULL, "CR0", &shared) == PMIX_ERR_BAD_PARAM);
    MUST(PMIx_Get_relative_locality("CR0", NULL, &shared) == PMIX_ERR_BAD_PARAM);
    MUST(PMIx_Get_relative_locality("CR0", "CR0", NULL) == PMIX_ERR_BAD_PARAM);
    MUST(PMIx_Get_relative_locality("CR0", "CRx", &shared) == PMIX_ERR_BAD_PARAM && shared == 0);
    MUST(PMIx_Get_relative_locality("SK0:CR0:HT0:NM0", "hwloc:SK0:CR1:HT1:NM0", &shared)
         == PMIX_SUCCESS);
    MUST(shared
         == (PMIX_LOCALITY_SHARE_NODE | PMIX_LOCALITY_SHARE_PACKAGE | PMIX_LOCALITY_SHARE_NUMA));
}

static void take(pmix_status_t status, pmix_device_distance_t *found, size_t count, void *data,
                 pmix_release_cbfunc_t release, void *released)
{
    MUST(status == PMIX_SUCCESS && count == 1 && data == &calls);
    MUST(strcmp(found[0].osname, "eth0") == 0 && found[0].mindist == 3);
    release(released);
    pthread_mutex_lock(&lock);
    calls++;
    pthread_cond_signal(&told);
    pthread_mutex_unlock(&lock);
}

static void devices(void)
{
    pmix_topology_t topo = PMIX_TOPOLOGY_STATIC_INIT, other = PMIX_TOPOLOGY_STATIC_INIT;
    pmix_cpuset_t cpus;
    pmix_info_t info;
    pmix_device_type_t types = PMIX_DEVTYPE_NETWORK;
    pmix_device_distance_t *found = NULL;
    size_t count = 0;

    MUST(PMIx_Load_topology(NULL) == PMIX_ERR_BAD_PARAM);
    other.source = strdup("hwloc");
    MUST(PMIx_Load_topology(&other) == PMIX_ERR_NOT_SUPPORTED && other.topology == NULL);
    MUST(PMIx_Load_topology(&topo) == PMIX_SUCCESS && topo.topology != NULL);
    free(other.source);
    other.source = strdup(topo.source);
    MUST(PMIx_Load_topology(&other) == PMIX_SUCCESS && other.topology == topo.topology);
    PMIx_Topology_destruct(&other);

    MUST(PMIx_Parse_cpuset_string("hwloc:2", &cpus) == PMIX_SUCCESS);
    MUST(PMIx_Compute_distances(&topo, &cpus, NULL, 0, &found, NULL) == PMIX_ERR_BAD_PARAM);
    MUST(PMIx_Compute_distances(&topo, &cpus, NULL, 0, NULL, &count) == PMIX_ERR_BAD_PARAM);
    MUST(PMIx_Compute_distances(&topo, &cpus, NULL, 0, &found, &count) == PMIX_SUCCESS);
    MUST(count == 1 && strcmp(found[0].uuid, "ipv4://02:00:00:00:00:11") == 0);
    /* The levels are machine, package, core and thread; both are in the same package. */
    MUST(found[0].type == PMIX_DEVTYPE_NETWORK && found[0].mindist == 3 && found[0].maxdist == 3);
    PMIx_Device_distance_free(found, count);
    MUST(PMIx_Info_load(&info, PMIX_DEVICE_TYPE, &types, PMIX_DEVTYPE) == PMIX_SUCCESS);
    MUST(PMIx_Compute_distances(NULL, &cpus, &info, 1, &found, &count) == PMIX_SUCCESS);
    PMIx_Device_distance_free(found, count);
    MUST(PMIx_Compute_distances_nb(&topo, &cpus, &info, 1, NULL, NULL) == PMIX_ERR_BAD_PARAM);
    MUST(PMIx_Compute_distances_nb(&topo, &cpus, &info, 1, take, &calls) == PMIX_SUCCESS);
    pthread_mutex_lock(&lock);
    while (calls == 0) {
        pthread_cond_wait(&told, &lock);
    }
    pthread_mutex_unlock(&lock);
    PMIx_Info_destruct(&info);
    types = PMIX_DEVTYPE_DMA;
    MUST(PMIx_Info_load(&info, PMIX_DEVICE_TYPE, &types, PMIX_DEVTYPE) == PMIX_SUCCESS);
    MUST(PMIx_Compute_distances(&topo, &cpus, &info, 1, &found, &count) == PMIX_ERR_NOT_FOUND);
    MUST(found == NULL && count == 0);
    PMIx_Info_destruct(&info);
    /* The topology of another library is not dereferenced. */
    other.topology = &other;
    MUST(PMIx_Compute_distances(&other, &cpus, NULL, 0, &found, &count) == PMIX_ERR_BAD_PARAM);
    other.source = "hwloc:2.9.0";
    MUST(PMIx_Compute_distances(&other, &cpus, NULL, 0, &found, &count)
         == PMIX_ERR_NOT_SUPPORTED);
    PMIx_Cpuset_destruct(&cpus);
    PMIx_Topology_destruct(&topo);
}

/* The topology of another library belongs to the host, and a host that requires its use gets an error. */
static void given_by_the_host(void)
{
    pmix_topology_t theirs = {.source = "hwloc:2.9.0", .topology = &theirs};
    pmix_info_t info;

    PMIX_INFO_CONSTRUCT(&info);
    PMIX_LOAD_KEY(info.key, PMIX_TOPOLOGY2);
    info.value.type = PMIX_TOPO;
    info.value.data.topo = &theirs;
    MUST(PMIx_server_init(&module, &info, 1) == PMIX_SUCCESS);
    MUST(PMIx_server_finalize() == PMIX_SUCCESS);
    info.value.type = PMIX_POINTER;
    info.value.data.ptr = &theirs;
    MUST(PMIx_server_init(&module, &info, 1) == PMIX_SUCCESS);
    MUST(PMIx_server_finalize() == PMIX_SUCCESS);
    PMIX_INFO_REQUIRED(&info);
    MUST(PMIx_server_init(&module, &info, 1) == PMIX_ERR_NOT_SUPPORTED);
    info.value.type = PMIX_TOPO;
    info.value.data.topo = &theirs;
    MUST(PMIx_server_init(&module, &info, 1) == PMIX_ERR_NOT_SUPPORTED);
}

int main(int argc, char **argv)
{
    int as_server = argc > 1 && strcmp(argv[1], "server") == 0;
    pmix_proc_t me;

    nothing_before_init();
    if (as_server) {
        given_by_the_host();
        MUST(PMIx_server_init(&module, NULL, 0) == PMIX_SUCCESS);
    } else {
        MUST(PMIx_Init(&me, NULL, 0) == PMIX_SUCCESS);
    }
    sets();
    localities();
    devices();
    if (as_server) {
        MUST(PMIx_server_finalize() == PMIX_SUCCESS);
    } else {
        MUST(PMIx_Finalize(NULL, 0) == PMIX_SUCCESS);
    }
    printf("topology: ok\n");
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a job costs a real PMIx server: `gds NODE_MAP PROC_MAP NUM_NODES NUM_PROCS GETS CYCLES`.
 *
 * The maps are files in the string form. The job is registered, asked for values, deregistered;
 * then that is repeated CYCLES times without the gets. Each line of output is a figure: its name,
 * the least and the median, in nanoseconds or bytes; a get that found nothing has its status.
 */
#include "bytes.h"
#include "timing.h"

#include <inttypes.h>
#include <pmix.h>
#include <pmix_server.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As long as the API says: the library may read all of it. */
static const pmix_nspace_t nspace = "bench-gds@1";

static void fail(const char *what, int status)
{
    fprintf(stderr, "%s: %d\n", what, status);
    exit(1);
}

/* Bytes of this process that are in memory. */
static uint64_t resident(void)
{
    unsigned long size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (NULL == file || fscanf(file, "%lu %lu", &size, &pages) != 2) {
        fail("/proc/self/statm", 0);
    }
    fclose(file);
    return (uint64_t) pages * (uint64_t) sysconf(_SC_PAGESIZE);
}

static int ascending(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *) a, right = *(const uint64_t *) b;
    return (left > right) - (left < right);
}

static void show(const char *name, uint64_t *figures, size_t count)
{
    qsort(figures, count, sizeof(*figures), ascending);
    printf("%s %" PRIu64 " %" PRIu64 "\n", name, figures[0], figures[count / 2]);
    fflush(stdout);
}

static void fill(pmix_info_t *info, const char *key, pmix_data_type_t type)
{
    memset(info, 0, sizeof(*info));
    strncpy(info->key, key, PMIX_MAX_KEYLEN);
    info->value.type = type;
}

static void read_map(pmix_info_t *info, const char *key, const char *path)
{
    bytes_t map;
    if (bytes_from_file(path, &map) != 0) {
        fail(path, 0);
    }
    fill(info, key, PMIX_REGEX);
    info->value.data.bo.bytes = map.data;
    info->value.data.bo.size = map.len + 1;
}

static uint64_t register_job(pmix_info_t *maps)
{
    uint64_t start = clock_ns();
    pmix_status_t status = PMIx_server_register_nspace(nspace, 1, maps, 2, NULL, NULL);
    uint64_t took = clock_ns() - start;
    if (PMIX_SUCCESS != status && PMIX_OPERATION_SUCCEEDED != status) {
        fail("register", status);
    }
    return took;
}

static uint64_t deregister_job(void)
{
    uint64_t start = clock_ns();
    PMIx_server_deregister_nspace(nspace, NULL, NULL);
    return clock_ns() - start;
}

/* A key of some ranks, or of some nodes by their number; each get asks for another one. */
typedef struct {
    const char *name, *key;
    uint32_t num_ranks; /* 0: the job itself */
    uint32_t num_nodes; /* 0: no node is named */
} question_t;

/* So many gets are timed together, as our own program does. */
#define TOGETHER 50

static pmix_status_t get_once(const question_t *question, uint32_t turn)
{
    pmix_info_t how[3];
    pmix_proc_t proc;
    pmix_value_t *value = NULL;
    memset(&proc, 0, sizeof(proc));
    strcpy(proc.nspace, nspace);
    proc.rank = question->num_ranks > 0 ? turn % question->num_ranks : PMIX_RANK_WILDCARD;
    fill(&how[0], PMIX_OPTIONAL, PMIX_BOOL);
    how[0].value.data.flag = true;
    fill(&how[1], PMIX_NODE_INFO, PMIX_BOOL);
    how[1].value.data.flag = true;
    fill(&how[2], PMIX_NODEID, PMIX_UINT32);
    how[2].value.data.uint32 = question->num_nodes > 0 ? turn % question->num_nodes : 0;
    pmix_status_t status
        = PMIx_Get(&proc, question->key, how, question->num_nodes > 0 ? 3 : 1, &value);
    if (PMIX_SUCCESS == status) {
        PMIX_VALUE_RELEASE(value);
    }
    return status;
}

static void time_gets(const question_t *question, uint64_t *times, size_t gets)
{
    size_t batches = (gets + TOGETHER - 1) / TOGETHER;
    for (size_t batch = 0; batch < batches; batch++) {
        uint64_t start = clock_ns();
        for (uint32_t i = 0; i < TOGETHER; i++) {
            uint32_t turn = (uint32_t) batch * TOGETHER + i;
            /* A step without a pattern that any table could follow. */
            pmix_status_t status = get_once(question, turn * UINT32_C(2654435761));
            if (PMIX_SUCCESS != status) {
                printf("%s status %d\n", question->name, status);
                return;
            }
        }
        times[batch] = (clock_ns() - start) / TOGETHER;
    }
    show(question->name, times, batches);
}

int main(int argc, char **argv)
{
    if (7 != argc) {
        fputs("usage: gds NODE_MAP PROC_MAP NUM_NODES NUM_PROCS GETS CYCLES\n", stderr);
        return 2;
    }
    uint32_t num_nodes = (uint32_t) strtoul(argv[3], NULL, 10);
    uint32_t num_procs = (uint32_t) strtoul(argv[4], NULL, 10);
    size_t gets = strtoul(argv[5], NULL, 10), cycles = strtoul(argv[6], NULL, 10);
    uint64_t *times = calloc(gets + 1, sizeof(*times));
    uint64_t *registered = calloc(cycles + 1, sizeof(*registered));
    uint64_t *deregistered = calloc(cycles + 1, sizeof(*deregistered));
    pmix_info_t maps[2];
    pmix_status_t status = PMIx_server_init(NULL, NULL, 0);
    if (PMIX_SUCCESS != status || NULL == times || NULL == registered || NULL == deregistered) {
        fail("PMIx_server_init", status);
    }
    read_map(&maps[0], PMIX_NODE_MAP, argv[1]);
    read_map(&maps[1], PMIX_PROC_MAP, argv[2]);

    uint64_t before = resident();
    registered[0] = register_job(maps);
    uint64_t after = resident(), grown = after > before ? after - before : 0;
    show("memory", &grown, 1);
    const question_t questions[] = {
        {"get_job", PMIX_JOB_SIZE, 0, 0},
        {"get_rank", PMIX_HOSTNAME, num_procs, 0},
        {"get_node", PMIX_LOCAL_PEERS, 0, num_nodes},
        {"get_leader", PMIX_LOCALLDR, 0, num_nodes},
    };
    for (size_t i = 0; i < sizeof(questions) / sizeof(*questions); i++) {
        time_gets(&questions[i], times, gets);
    }
    deregistered[0] = deregister_job();
    for (size_t i = 1; i <= cycles; i++) {
        registered[i] = register_job(maps);
        deregistered[i] = deregister_job();
    }
    show("register", registered, cycles + 1);
    show("deregister", deregistered, cycles + 1);
    PMIx_server_finalize();
    return 0;
}

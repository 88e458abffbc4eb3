/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Answers questions about the machine from a library, one per line of standard input.
 *
 *   set LIST             the set "hwloc:LIST" parsed and printed, and its locality string
 *   shared ONE OTHER     the common part of two locality strings; "-" means an empty one
 *   distances LIST TYPE  the distances of devices of the types from processors ("all" for no directive)
 *   bound process|thread the processors of this process or thread
 *   load SOURCE          the name of a topology of a source; "-" means no source
 *   bitmap LIST          a set made by hwloc, printed by the library; and a set made by the library, printed, copied
 *   and freed by hwloc
 *
 * An answer is the status followed by the results; "-" means no result. */

#define _GNU_SOURCE

#include <dlfcn.h>
#include <pmix.h>
#include <pmix_server.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pmix_server_module_t module;

static const char *shown(const char *text)
{
    return text == NULL || *text == '\0' ? "-" : text;
}

/* Parses the set of a list. */
static pmix_status_t parse(const char *list, pmix_cpuset_t *set)
{
    char text[65536];

    snprintf(text, sizeof text, "hwloc:%s", strcmp(list, "-") == 0 ? "" : list);
    PMIX_CPUSET_CONSTRUCT(set);
    return PMIx_Parse_cpuset_string(text, set);
}

static void set(const char *list)
{
    pmix_cpuset_t cpus;
    char *again = NULL, *locality = NULL;
    pmix_status_t read = parse(list, &cpus), written = PMIX_ERR_INIT, told = PMIX_ERR_INIT;

    if (read == PMIX_SUCCESS) {
        written = PMIx_server_generate_cpuset_string(&cpus, &again);
        told = PMIx_server_generate_locality_string(&cpus, &locality);
    }
    printf("%d %d %s %d %s\n", read, written, shown(again), told, shown(locality));
    free(again);
    free(locality);
    PMIx_Cpuset_destruct(&cpus);
}

static void shared(const char *one, const char *other)
{
    pmix_locality_t locality = 0;
    pmix_status_t status;

    one = strcmp(one, "-") == 0 ? "" : one;
    other = strcmp(other, "-") == 0 ? "" : other;
    status = PMIx_Get_relative_locality(one, other, &locality);
    printf("%d 0x%04x\n", status, locality);
}

static void distances(const char *list, const char *types)
{
    pmix_topology_t topo;
    pmix_cpuset_t cpus;
    pmix_info_t *info = NULL;
    pmix_device_distance_t *found = NULL;
    size_t count = 0, place, directives = 0;
    pmix_device_type_t wanted = strtoull(types, NULL, 0);
    pmix_status_t status;

    memset(&topo, 0, sizeof topo);
    status = PMIx_Load_topology(&topo);
    if (status == PMIX_SUCCESS) {
        status = parse(list, &cpus);
    }
    if (status != PMIX_SUCCESS) {
        printf("%d\n", status);
        return;
    }
    if (strcmp(types, "all") != 0) {
        PMIX_INFO_CREATE(info, 1);
        directives = 1;
        if (wanted != 0) {
            PMIX_INFO_LOAD(&info[0], PMIX_DEVICE_TYPE, &wanted, PMIX_DEVTYPE);
        } else {
            PMIX_INFO_LOAD(&info[0], PMIX_DEVICE_ID, types, PMIX_STRING);
        }
    }
    status = PMIx_Compute_distances(&topo, &cpus, info, directives, &found, &count);
    printf("%d", status);
    for (place = 0; place < count; place++) {
        printf(" %s,%s,%llu,%u,%u", shown(found[place].uuid), shown(found[place].osname),
               (unsigned long long) found[place].type, (unsigned) found[place].mindist,
               (unsigned) found[place].maxdist);
    }
    printf("\n");
    PMIx_Cpuset_destruct(&cpus);
}

static void bound(const char *whose)
{
    pmix_cpuset_t cpus;
    char *list = NULL;
    pmix_status_t status;

    PMIX_CPUSET_CONSTRUCT(&cpus);
    status = PMIx_Get_cpuset(&cpus, strcmp(whose, "thread") == 0 ? PMIX_CPUBIND_THREAD
                                                                : PMIX_CPUBIND_PROCESS);
    if (status == PMIX_SUCCESS) {
        status = PMIx_server_generate_cpuset_string(&cpus, &list);
    }
    printf("%d %s\n", status, shown(list));
    free(list);
    PMIx_Cpuset_destruct(&cpus);
}

static void load(const char *source)
{
    pmix_topology_t topo;
    pmix_status_t status;

    memset(&topo, 0, sizeof topo);
    topo.source = strcmp(source, "-") == 0 ? NULL : strdup(source);
    status = PMIx_Load_topology(&topo);
    printf("%d %s %d\n", status, shown(topo.source), topo.topology != NULL);
    free(topo.source);
}

/* Functions of hwloc, declared here so that its headers need not be installed. */
static struct {
    void *(*alloc)(void);
    void (*free)(void *);
    void *(*dup)(const void *);
    int (*read)(void *, const char *);
    int (*write)(char **, const void *);
} hwloc;

static int find_hwloc(void)
{
    void *library = dlopen("libhwloc.so.15", RTLD_NOW);

    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 0;
    }
    *(void **) &hwloc.alloc = dlsym(library, "hwloc_bitmap_alloc");
    *(void **) &hwloc.free = dlsym(library, "hwloc_bitmap_free");
    *(void **) &hwloc.dup = dlsym(library, "hwloc_bitmap_dup");
    *(void **) &hwloc.read = dlsym(library, "hwloc_bitmap_list_sscanf");
    *(void **) &hwloc.write = dlsym(library, "hwloc_bitmap_list_asprintf");
    return hwloc.alloc && hwloc.free && hwloc.dup && hwloc.read && hwloc.write;
}

static void bitmap(const char *list)
{
    pmix_cpuset_t cpus;
    pmix_status_t written, read;
    char *theirs = NULL, *again = NULL;
    void *copy;

    if (hwloc.alloc == NULL && !find_hwloc()) {
        exit(3);
    }
    /* A set of hwloc, which the library prints and frees. */
    PMIX_CPUSET_CONSTRUCT(&cpus);
    cpus.source = strdup("hwloc");
    cpus.bitmap = hwloc.alloc();
    hwloc.read(cpus.bitmap, strcmp(list, "-") == 0 ? "" : list);
    written = PMIx_server_generate_cpuset_string(&cpus, &theirs);
    PMIx_Cpuset_destruct(&cpus);
    /* A set of the library, which hwloc prints and frees. */
    read = parse(list, &cpus);
    if (read == PMIX_SUCCESS) {
        copy = hwloc.dup(cpus.bitmap);
        hwloc.write(&again, copy);
        hwloc.free(copy);
        hwloc.free(cpus.bitmap);
        free(cpus.source);
    }
    printf("%d %s %d %s\n", written, shown(theirs), read, shown(again));
    free(theirs);
    free(again);
}

int main(void)
{
    static char line[200000];
    pmix_status_t status = PMIx_server_init(&module, NULL, 0);

    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "PMIx_server_init: %d\n", status);
        return 1;
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *verb = strtok(line, " \n"), *one = strtok(NULL, " \n"), *other = strtok(NULL, " \n");

        if (verb == NULL || one == NULL) {
            return 2;
        }
        if (strcmp(verb, "set") == 0) {
            set(one);
        } else if (strcmp(verb, "shared") == 0 && other != NULL) {
            shared(one, other);
        } else if (strcmp(verb, "distances") == 0 && other != NULL) {
            distances(one, other);
        } else if (strcmp(verb, "bound") == 0) {
            bound(one);
        } else if (strcmp(verb, "load") == 0) {
            load(one);
        } else if (strcmp(verb, "bitmap") == 0) {
            bitmap(one);
        } else {
            return 2;
        }
        fflush(stdout);
    }
    return PMIx_server_finalize() == PMIX_SUCCESS ? 0 : 1;
}

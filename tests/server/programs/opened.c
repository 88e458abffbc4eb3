/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `opened LIBRARY`: measures the cost of opening a PMIx library and of being a client. The process prints one line
 * of JSON: the times of opening, of the first call, which needs no server, and of init, and the memory growth, in
 * total and unshared. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

/* Returns a line of this process's page tables in KiB. */
static uint64_t pages_kib(const char *name)
{
    char line[256];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (NULL != file && NULL != fgets(line, sizeof(line), file)) {
        if (0 == strncmp(line, name, strlen(name)) && ':' == line[strlen(name)]) {
            kib = strtoull(line + strlen(name) + 1, NULL, 10);
        }
    }
    if (NULL != file) {
        fclose(file);
    }
    return kib;
}

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (NULL == found) {
        fprintf(stderr, "opened: %s\n", dlerror());
        exit(1);
    }
    return found;
}

static void must(const char *what, pmix_status_t status)
{
    if (PMIX_SUCCESS != status) {
        fprintf(stderr, "opened: %s: %d\n", what, status);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs("usage: opened LIBRARY\n", stderr);
        return 2;
    }
    /* Read the clock and the file once before, so that their memory is not counted. */
    now_ns();
    pages_kib("Rss");
    uint64_t rss = pages_kib("Rss"), own = pages_kib("Anonymous");

    uint64_t begun = now_ns();
    void *library = dlopen(argv[1], RTLD_NOW);
    if (NULL == library) {
        fprintf(stderr, "opened: %s\n", dlerror());
        return 1;
    }
    __typeof__(PMIx_Get_version) *version = symbol(library, "PMIx_Get_version");
    size_t len = strlen(version());
    uint64_t opened = now_ns();

    __typeof__(PMIx_Init) *init = symbol(library, "PMIx_Init");
    __typeof__(PMIx_Finalize) *finalize = symbol(library, "PMIx_Finalize");
    pmix_proc_t me;
    must("PMIx_Init", init(&me, NULL, 0));
    uint64_t ready = now_ns();
    uint64_t rss_after = pages_kib("Rss"), own_after = pages_kib("Anonymous");
    must("PMIx_Finalize", finalize(NULL, 0));

    printf("{\"rank\":%" PRIu32 ",\"version_len\":%zu,\"open_ns\":%" PRIu64 ",\"init_ns\":%" PRIu64
           ",\"grown_kib\":%" PRIu64 ",\"own_kib\":%" PRIu64 "}\n",
           me.rank, len, opened - begun, ready - opened, rss_after - rss, own_after - own);
    return 0;
}

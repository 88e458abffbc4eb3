/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that loads the library, is a client, and unloads it, again and again. A cycle leaves no thread,
 * descriptor or memory behind, and changes no signal, mask or environment. Arguments: the library and the number of
 * cycles.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <locale.h>
#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

#define HOLDS(what)                                                    \
    do {                                                               \
        if (!(what)) {                                                 \
            fprintf(stderr, "line %d: %s: not so\n", __LINE__, #what); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

static int entries(const char *folder)
{
    DIR *all = opendir(folder);
    int count = 0;

    HOLDS(NULL != all);
    while (NULL != readdir(all)) {
        count++;
    }
    closedir(all);
    return count;
}

/* Returns the private dirty memory of this process in KiB. */
static long private_kb(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long kb = 0;

    while (NULL != file && NULL != fgets(line, sizeof(line), file)) {
        sscanf(line, "Private_Dirty: %ld", &kb);
    }
    if (NULL != file) {
        fclose(file);
    }
    return kb;
}

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    HOLDS(NULL != found);
    return found;
}
/* The functions that a cycle calls, looked up again in each cycle. */
typedef struct {
    __typeof__(&PMIx_Init) init;
    __typeof__(&PMIx_Put) put;
    __typeof__(&PMIx_Commit) commit;
    __typeof__(&PMIx_Notify_event) notify;
    __typeof__(&PMIx_Get) get;
    __typeof__(&PMIx_Value_free) free;
    __typeof__(&PMIx_Finalize) finalize;
} calls_t;

static calls_t calls_of(void *library)
{
    static const char *const names[] = {"PMIx_Init", "PMIx_Put",        "PMIx_Commit",  "PMIx_Notify_event",
                                        "PMIx_Get",  "PMIx_Value_free", "PMIx_Finalize"};
    void *found[sizeof(names) / sizeof(names[0])];
    calls_t calls;
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        found[i] = symbol(library, names[i]);
    }
    memcpy(&calls, found, sizeof(calls));
    return calls;
}

static void cycle(const char *path, int number)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    pmix_proc_t own;
    pmix_value_t value, *found = NULL;
    calls_t of;

    if (NULL == library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    of = calls_of(library);
    HOLDS(PMIX_SUCCESS == of.init(&own, NULL, 0));
    memset(&value, 0, sizeof(value));
    value.type = PMIX_UINT32;
    value.data.uint32 = (uint32_t) number;
    HOLDS(PMIX_SUCCESS == of.put(PMIX_GLOBAL, "cycle", &value));
    HOLDS(PMIX_SUCCESS == of.commit());
    /* A thread of the library reads the data of this event and must end before the library is unloaded. */
    HOLDS(PMIX_SUCCESS == of.notify(-50000, NULL, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
    HOLDS(PMIX_SUCCESS == of.get(&own, "cycle", NULL, 0, &found));
    HOLDS(found->data.uint32 == (uint32_t) number);
    of.free(found, 1);
    HOLDS(PMIX_SUCCESS == of.finalize(NULL, 0));
    HOLDS(0 == dlclose(library));
}

typedef struct {
    const char *path;
    int number;
} cycle_t;

static void *cycle_of_a_thread(void *given)
{
    cycle_t *what = given;
    cycle(what->path, what->number);
    return NULL;
}

/* Every second cycle runs on a thread of its own, because thread-local data of the main thread stay until exit. */
static void cycle_somewhere(const char *path, int number)
{
    cycle_t what = {path, number};
    pthread_t thread;

    if (number % 2 == 0) {
        cycle(path, number);
        return;
    }
    HOLDS(0 == pthread_create(&thread, NULL, cycle_of_a_thread, &what));
    HOLDS(0 == pthread_join(thread, NULL));
}

int main(int argc, char **argv)
{
    int cycles = argc > 2 ? atoi(argv[2]) : 40, i, number, threads = 0, descriptors = 0;
    struct sigaction before[NSIG], after;
    sigset_t mask, mask_after;
    char **environment = environ;
    long kb = 0;

    HOLDS(argc > 1);
    alarm(120);
    memset(before, 0, sizeof(before));
    for (number = 1; number < NSIG; number++) {
        sigaction(number, NULL, &before[number]);
    }
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (i = 0; i < cycles; i++) {
        cycle_somewhere(argv[1], i);
        if (cycles / 2 == i) {
            threads = entries("/proc/self/task");
            descriptors = entries("/proc/self/fd");
            kb = private_kb();
        }
    }
    HOLDS(entries("/proc/self/task") == threads && entries("/proc/self/fd") == descriptors);
    /* A cycle may leak less than one page of memory. */
    if (private_kb() - kb > cycles / 2 * 4) {
        fprintf(stderr, "%ld KB became %ld\n", kb, private_kb());
        return 1;
    }
    for (number = 1; number < NSIG; number++) {
        memset(&after, 0, sizeof(after));
        if (0 == sigaction(number, NULL, &after)) {
            HOLDS(after.sa_handler == before[number].sa_handler && after.sa_flags == before[number].sa_flags);
        }
    }
    sigprocmask(SIG_SETMASK, NULL, &mask_after);
    HOLDS(0 == memcmp(&mask, &mask_after, sizeof(mask)));
    HOLDS(environment == environ && 0 == strcmp("C", setlocale(LC_ALL, NULL)));
    printf("opened: ok\n");
    return 0;
}

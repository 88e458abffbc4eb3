/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls with large arguments while the process may have little more memory than it has: each ends with success or an
 * error. A signal ends the program with 1. Every call is made in a child of its own, whose limit (RLIMIT_AS) is set
 * after its init. Without a limit each call succeeds. Include after pmix.h and check.h.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The memory that a child may have beyond what it has, in KiB. */
static const size_t ROOMS[] = {1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};
/* The places of the limits that a program uses: all, unless it defines another step. */
#ifndef ROOM_STEP
#define ROOM_STEP 1
#endif
#define NUM_ROOMS (sizeof(ROOMS) / sizeof(ROOMS[0]))

static struct rlimit before;

/* The bytes beyond what the child has; 0 is no limit. */
static size_t room;
static pmix_proc_t self;

/* The pieces that were taken so that nothing is left that was freed before. */
static void *taken;

/* Whether a thread of this process sleeps. */
static bool sleeps(const char *thread)
{
    char path[300], text[512] = "";
    FILE *file;
    char *end;
    snprintf(path, sizeof(path), "/proc/self/task/%s/stat", thread);
    file = fopen(path, "r");
    if (file == NULL) {
        return true;
    }
    end = fgets(text, sizeof(text), file) == NULL ? NULL : strrchr(text, ')');
    fclose(file);
    return end == NULL || end[2] == 'S';
}

/* Waits until all other threads sleep. A thread that starts takes memory, and none is left while a limit is set. */
static void settle(void)
{
    char own[32];
    bool busy = true;
    snprintf(own, sizeof(own), "%d", (int) getpid());
    while (busy) {
        DIR *threads = opendir("/proc/self/task");
        struct dirent *one;
        busy = false;
        HOLDS(threads != NULL);
        while ((one = readdir(threads)) != NULL) {
            busy |= one->d_name[0] != '.' && strcmp(one->d_name, own) != 0 && !sleeps(one->d_name);
        }
        closedir(threads);
        if (busy) {
            usleep(1000);
        }
    }
}

/* Leaves the process a number of bytes beyond what it has. */
static void limit(size_t bytes)
{
    unsigned long pages = 0;
    struct rlimit small = before;
    FILE *file;
    if (bytes == 0) {
        return;
    }
    settle();
    file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lu", &pages) != 1) {
        exit(2);
    }
    fclose(file);
    /* What the allocator has kept of freed memory would be room, too. */
    small.rlim_cur = pages * (size_t) sysconf(_SC_PAGESIZE);
    if (setrlimit(RLIMIT_AS, &small) != 0) {
        exit(2);
    }
    for (size_t piece = (size_t) 1 << 22; piece >= 1024; piece /= 2) {
        void **next;
        while ((next = malloc(piece)) != NULL) {
            *next = taken;
            taken = next;
        }
    }
    small.rlim_cur += bytes;
    if (setrlimit(RLIMIT_AS, &small) != 0) {
        exit(2);
    }
}

static void unlimited(void)
{
    setrlimit(RLIMIT_AS, &before);
}

typedef pmix_status_t (*call_t)(void);

/* NONE calls PMIx_Init itself, where it needs it. */
enum role { NONE, CLIENT, SERVER };

struct shortage {
    const char *name;
    enum role role;
    call_t call;
};

static pmix_server_module_t module;

/* The child: 0 if the call succeeds, 1 if it returns an error. */
static int one_call(const struct shortage *one)
{
    pmix_status_t status;
    alarm(120);
    if (one->role == CLIENT) {
        IS(PMIX_SUCCESS, PMIx_Init(&self, NULL, 0));
    } else if (one->role == SERVER) {
        unsetenv("PMIX_NAMESPACE");
        unsetenv("PMIX_RANK");
        IS(PMIX_SUCCESS, PMIx_server_init(&module, NULL, 0));
        PMIX_LOAD_PROCID(&self, "short", 0);
    }
    status = one->call();
    if (one->role == CLIENT) {
        PMIx_Finalize(NULL, 0);
    } else if (one->role == SERVER) {
        PMIx_server_finalize();
    }
    if (status != PMIX_SUCCESS && room == 0) {
        fprintf(stderr, "%s: %s\n", one->name, PMIx_Error_string(status));
    }
    return status == PMIX_SUCCESS ? 0 : 1;
}

/* Makes all calls, or the one whose place is the first argument of the program. */
static int make_calls(const struct shortage *calls, size_t num_calls, int argc, char **argv)
{
    size_t failures = 0, refused = 0, first = 0, last = num_calls;
    if (argc > 1) {
        first = (size_t) atoi(argv[1]);
        last = first + 1;
    }
    for (size_t at = first; at < last; at++) {
        for (size_t place = 0; place <= NUM_ROOMS; place += ROOM_STEP) {
            int status = 0;
            pid_t child;
            room = place < NUM_ROOMS ? ROOMS[place] << 10 : 0;
            child = fork();
            if (child == 0) {
                struct rlimit none = {0, 0};
                setrlimit(RLIMIT_CORE, &none);
                _exit(one_call(&calls[at]));
            }
            HOLDS(child > 0 && waitpid(child, &status, 0) == child);
            if (!WIFEXITED(status) || WEXITSTATUS(status) > (room == 0 ? 0 : 1)) {
                fprintf(stderr, "%zu: %s with %zu KiB: %s %d\n", at, calls[at].name, room >> 10,
                        WIFEXITED(status) ? "status" : "signal",
                        WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
                failures++;
            }
            refused += WIFEXITED(status) && WEXITSTATUS(status) == 1;
        }
    }
    /* The limits are ones that most of the calls meet. */
    HOLDS(argc > 1 || refused > num_calls);
    HOLDS(failures == 0);
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `timing MEETING LOCAL FENCES`: measures the cost of a server to its clients. LOCAL ranks synchronize through a
 * file that is empty at first. All of them thus connect at the same time, and the processor time of the server, the
 * parent process, is read between the phases. Rank 0 prints the figures as JSON. */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST_RANKS 4096
#define DATA 1024

/* The memory that the ranks share. */
typedef struct {
    atomic_uint arrived;
    /* The number of completed meetings. */
    atomic_uint met;
    uint64_t init_ns[MOST_RANKS];
    uint64_t init_cpu_ns[MOST_RANKS];
    uint64_t client_kib[MOST_RANKS];
} meeting_t;

static meeting_t *meeting;
static uint32_t num_local;
static pid_t server;
static clockid_t server_clock;

static bool leads(void)
{
    const char *rank = getenv("PMIX_RANK");
    return NULL != rank && 0 == strcmp(rank, "0");
}

/* Returns the processor time of the server without its children. */
static uint64_t server_ns(void)
{
    struct timespec t;
    if (0 != clock_gettime(server_clock, &t)) {
        wrong("no clock of the server");
    }
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

/* Returns the processor time of this process. */
static uint64_t own_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

/* Waits for all ranks; the leader reads the server's processor time while the others wait. */
static uint64_t meet(void)
{
    unsigned round = atomic_load(&meeting->met);
    atomic_fetch_add(&meeting->arrived, 1);
    if (!leads()) {
        while (atomic_load(&meeting->met) == round) {
            syscall(SYS_futex, &meeting->met, FUTEX_WAIT, round, NULL, NULL, 0);
        }
        return 0;
    }
    while (atomic_load(&meeting->arrived) < num_local * (round + 1)) {
        usleep(200);
    }
    /* Give the server time to finish its pending work. */
    usleep(5000);
    uint64_t used = server_ns();
    atomic_fetch_add(&meeting->met, 1);
    syscall(SYS_futex, &meeting->met, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return used;
}

static int ascending(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *) left, b = *(const uint64_t *) right;
    return a < b ? -1 : a > b;
}

static uint64_t median(uint64_t *values, size_t count)
{
    qsort(values, count, sizeof(*values), ascending);
    return 0 == count ? 0 : values[count / 2];
}

/* A phase of fences: the median time of a fence, and the server's time per fence. */
typedef struct {
    uint64_t median_ns;
    uint64_t server_ns;
} phase_t;

static phase_t fences(const pmix_proc_t *procs, size_t num_procs, unsigned count, bool collect)
{
    uint64_t *took = calloc(count + 1, sizeof(*took));
    char text[DATA + 1];
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    must("a fence", PMIx_Fence(procs, num_procs, NULL, 0));
    uint64_t before = meet();
    for (unsigned i = 0; i < count; i++) {
        if (collect) {
            memset(text, 'a' + (int) (i % 26), DATA);
            text[DATA] = '\0';
            put_text(PMIX_GLOBAL, "t.data", text);
            must("PMIx_Commit", PMIx_Commit());
            /* All processes must have committed before the timed fence. */
            must("a fence", PMIx_Fence(procs, num_procs, NULL, 0));
        }
        uint64_t begun = now_ns();
        must("a fence", PMIx_Fence(procs, num_procs, &info, 1));
        took[i] = now_ns() - begun;
    }
    uint64_t used = meet() - before;
    phase_t phase = {median(took, count), 0 == count ? 0 : used / count};
    free(took);
    return phase;
}

static void join_meeting(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || 0 != ftruncate(file, sizeof(*meeting))) {
        wrong("no meeting in %s", path);
    }
    meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (MAP_FAILED == meeting) {
        wrong("no meeting in %s", path);
    }
    server = getppid();
    if (leads() && 0 != clock_getcpuclockid(server, &server_clock)) {
        wrong("no clock of process %d", (int) server);
    }
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        wrong("usage: timing MEETING LOCAL FENCES");
    }
    num_local = (uint32_t) strtoul(argv[2], NULL, 10);
    require(num_local > 0 && num_local <= MOST_RANKS);
    join_meeting(argv[1]);

    uint64_t before = meet(), begun = now_ns(), begun_cpu = own_ns();
    must("PMIx_Init", PMIx_Init(&me, NULL, 0));
    require(me.rank < num_local);
    meeting->init_ns[me.rank] = now_ns() - begun;
    meeting->init_cpu_ns[me.rank] = own_ns() - begun_cpu;
    uint64_t connecting = meet() - before;
    PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
    size = get_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);

    /* The local ranks of a larger job. */
    pmix_proc_t *procs = calloc(num_local, sizeof(*procs));
    for (uint32_t rank = 0; rank < num_local; rank++) {
        procs[rank] = peer(rank);
    }
    size_t num_procs = size == num_local ? 0 : num_local;
    unsigned count = (unsigned) strtoul(argv[3], NULL, 10);
    phase_t empty = fences(0 == num_procs ? NULL : procs, num_procs, count, false);
    phase_t full = fences(0 == num_procs ? NULL : procs, num_procs, count, true);
    if (count > 0) {
        char *text = get_text((me.rank + 1) % num_local, "t.data");
        require(strlen(text) == DATA && text[0] == 'a' + (int) ((count - 1) % 26));
        free(text);
    }
    meeting->client_kib[me.rank] = memory_kib(getpid(), "VmRSS");
    meet();
    if (leads()) {
        uint64_t most = meeting->init_ns[0];
        for (uint32_t rank = 0; rank < num_local; rank++) {
            most = meeting->init_ns[rank] > most ? meeting->init_ns[rank] : most;
        }
        printf("{\"ranks\":%u,\"job\":%u,\"init_ns\":%lu,\"init_most_ns\":%lu,"
               "\"init_cpu_ns\":%lu,\"connect_cpu_ns\":%lu,\"empty_ns\":%lu,\"empty_cpu_ns\":%lu,\"full_ns\":%lu,"
               "\"full_cpu_ns\":%lu,\"server_kib\":%lu,\"server_peak_kib\":%lu,"
               "\"client_kib\":%lu}\n",
               num_local, size, median(meeting->init_ns, num_local), most,
               median(meeting->init_cpu_ns, num_local), connecting,
               empty.median_ns, empty.server_ns, full.median_ns, full.server_ns,
               memory_kib(server, "VmRSS"), memory_kib(server, "VmHWM"),
               median(meeting->client_kib, num_local));
        fflush(stdout);
    }
    free(procs);
    end();
    return 0;
}

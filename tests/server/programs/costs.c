/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * `costs ROUNDS`: what the calls of a client cost the process that makes them. Every rank prints its
 * figures as one line of JSON; `crates/pmix/benches/costs.rs` is the same program in Rust. Without
 * rounds a process calls init and finalize alone.
 */
#define _GNU_SOURCE
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DATA 1024
#define THREADS 16
/* Gets of a key that is there, for each timed run and each thread. */
#define GETS 2000

/* What a rank prints: times of one call in nanoseconds, memory in KiB. */
typedef struct {
    uint64_t init_ns, init_cpu_ns, finalize_cpu_ns;
    uint64_t get_cpu_ns, threads_cpu_ns, fence_ns, peer_get_ns;
    uint64_t idle_kib, full_kib;
} figures_t;

/* Processor time of this process so far. */
static uint64_t processor_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

/* Asks for the size of the job, which the process has been told. */
static void *get_size(void *count)
{
    for (unsigned i = 0; i < *(unsigned *) count; i++) {
        pmix_value_t *value = NULL;
        must("a get", PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value));
        require(value->data.uint32 == size);
        PMIX_VALUE_RELEASE(value);
    }
    return NULL;
}

/* Calls of a process that takes part in its job. */
static void measure(unsigned rounds, figures_t *figures)
{
    unsigned gets = GETS;
    char text[DATA + 1];

    /* All processes ask at once what they have been told. */
    fence_all(false);
    get_size(&(unsigned) {1});
    uint64_t used = processor_ns();
    get_size(&gets);
    figures->get_cpu_ns = (processor_ns() - used) / gets;
    fence_all(false);

    /* The threads of one process ask, while the others wait. */
    if (0 == me.rank) {
        pthread_t threads[THREADS];
        used = processor_ns();
        for (unsigned i = 0; i < THREADS; i++) {
            require(0 == pthread_create(&threads[i], NULL, get_size, &gets));
        }
        for (unsigned i = 0; i < THREADS; i++) {
            require(0 == pthread_join(threads[i], NULL));
        }
        figures->threads_cpu_ns = (processor_ns() - used) / (gets * THREADS);
    }

    figures->fence_ns = UINT64_MAX;
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t begun = now_ns();
        fence_all(false);
        uint64_t took = now_ns() - begun;
        figures->fence_ns = took < figures->fence_ns ? took : figures->fence_ns;
    }

    memset(text, 'a' + (int) (me.rank % 26), DATA);
    text[DATA] = '\0';
    put_text(PMIX_GLOBAL, "costs.data", text);
    must("PMIx_Commit", PMIx_Commit());
    fence_all(true);
    uint64_t begun = now_ns();
    for (pmix_rank_t rank = 0; rank < size; rank++) {
        char *said = get_text(rank, "costs.data");
        require(DATA == strlen(said) && (int) ('a' + rank % 26) == said[0]);
        free(said);
    }
    figures->peer_get_ns = (now_ns() - begun) / size;
    fence_all(false);
    figures->full_kib = memory_kib(getpid(), "VmRSS");
}

int main(int argc, char **argv)
{
    figures_t f = {0};
    uint64_t begun = now_ns(), used = processor_ns();
    begin();
    f.init_ns = now_ns() - begun;
    f.init_cpu_ns = processor_ns() - used;
    f.idle_kib = memory_kib(getpid(), "VmRSS");
    if (argc > 1) {
        measure((unsigned) strtoul(argv[1], NULL, 10), &f);
    }
    used = processor_ns();
    end();
    f.finalize_cpu_ns = processor_ns() - used;
    /* In one write, so that the lines of several processes do not mix. */
    char line[512];
    int len = snprintf(line, sizeof(line),
        "{\"rank\":%" PRIu32 ",\"init_ns\":%" PRIu64 ",\"init_cpu_ns\":%" PRIu64
        ",\"finalize_cpu_ns\":%" PRIu64 ",\"get_cpu_ns\":%" PRIu64 ",\"threads_cpu_ns\":%" PRIu64
        ",\"fence_ns\":%" PRIu64 ",\"peer_get_ns\":%" PRIu64 ",\"idle_kib\":%" PRIu64
        ",\"full_kib\":%" PRIu64 "}\n",
        me.rank, f.init_ns, f.init_cpu_ns, f.finalize_cpu_ns, f.get_cpu_ns, f.threads_cpu_ns,
        f.fence_ns, f.peer_get_ns, f.idle_kib, f.full_kib);
    require(len == write(STDOUT_FILENO, line, (size_t) len));
    return 0;
}

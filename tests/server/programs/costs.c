/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `costs [ROUNDS]`: measures the cost of a client's calls in the process that makes them. Every rank prints its
 * figures as one line of JSON; `crates/pmix/benches/costs.rs` is the same program in Rust. Without ROUNDS a process
 * only calls init and finalize. With 0 rounds it also puts, commits, fences and gets the data of every other
 * process, as most programs do. */
#define _GNU_SOURCE
#include "check.h"

#include <inttypes.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DATA 1024
#define THREADS 16
/* The gets of an existing key in each timed run and thread. */
#define GETS 2000
/* The number of descriptors that are checked for connections. */
#define MOST_FILES 1024

/* The figures of a rank: times of one call in nanoseconds, memory in KiB. */
typedef struct {
    uint64_t init_ns, init_cpu_ns, finalize_cpu_ns;
    uint64_t get_cpu_ns, threads_cpu_ns, fence_ns, peer_get_ns;
    /* The bytes that the server sends for the collecting fence and for the gets. */
    uint64_t received_bytes;
    /* Resident memory after init and after the gets, and the unshared growth by the gets. */
    uint64_t idle_kib, full_kib, added_kib;
} figures_t;

/* Returns the processor time of this process. */
static uint64_t processor_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

/* Returns the bytes received on all TCP connections of this process. */
static uint64_t received(void)
{
    uint64_t sum = 0;
    for (int file = 0; file < MOST_FILES; file++) {
        struct tcp_info info = {0};
        socklen_t len = sizeof(info);
        if (0 == getsockopt(file, IPPROTO_TCP, TCP_INFO, &info, &len)) {
            sum += info.tcpi_bytes_received;
        }
    }
    return sum;
}

/* Gets the size of the job, which is part of the job info. */
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

/* Measures gets of job info, and fences. */
static void calls(unsigned rounds, figures_t *figures)
{
    unsigned gets = GETS;

    /* All processes get at the same time. */
    fence_all(false);
    get_size(&(unsigned) {1});
    uint64_t used = processor_ns();
    get_size(&gets);
    figures->get_cpu_ns = (processor_ns() - used) / gets;
    fence_all(false);

    /* The threads of one process get while the other processes wait. */
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

    /* Fence in sequence: a single fence is shorter the later a process enters it. */
    fence_all(false);
    uint64_t begun = now_ns();
    for (unsigned i = 0; i < rounds; i++) {
        fence_all(false);
    }
    figures->fence_ns = (now_ns() - begun) / rounds;
}

/* Puts a kilobyte, and gets that of every other process after a fence. */
static void exchange(figures_t *figures)
{
    char text[DATA + 1];

    memset(text, 'a' + (int) (me.rank % 26), DATA);
    text[DATA] = '\0';
    put_text(PMIX_GLOBAL, "costs.data", text);
    must("PMIx_Commit", PMIx_Commit());
    uint64_t sent = received();
    fence_all(true);
    uint64_t own = pages_kib("Anonymous");
    uint64_t begun = now_ns();
    for (uint32_t i = 1; i < size; i++) {
        /* Start with the next rank, so that the load is spread. */
        pmix_rank_t rank = (me.rank + i) % size;
        char *said = get_text(rank, "costs.data");
        require(DATA == strlen(said) && (int) ('a' + rank % 26) == said[0]);
        free(said);
    }
    figures->peer_get_ns = (now_ns() - begun) / (size > 1 ? size - 1 : 1);
    figures->received_bytes = received() - sent;
    figures->full_kib = pages_kib("Rss");
    uint64_t now = pages_kib("Anonymous");
    figures->added_kib = now > own ? now - own : 0;
}

int main(int argc, char **argv)
{
    figures_t f = {0};
    uint64_t begun = now_ns(), used = processor_ns();
    begin();
    f.init_ns = now_ns() - begun;
    f.init_cpu_ns = processor_ns() - used;
    f.idle_kib = pages_kib("Rss");
    unsigned rounds = argc > 1 ? (unsigned) strtoul(argv[1], NULL, 10) : 0;
    if (rounds > 0) {
        calls(rounds, &f);
    }
    if (argc > 1) {
        exchange(&f);
    }
    used = processor_ns();
    end();
    f.finalize_cpu_ns = processor_ns() - used;
    /* Use one write, so that the lines of several processes do not mix. */
    char line[512];
    int len = snprintf(line, sizeof(line),
        "{\"rank\":%" PRIu32 ",\"init_ns\":%" PRIu64 ",\"init_cpu_ns\":%" PRIu64
        ",\"finalize_cpu_ns\":%" PRIu64 ",\"get_cpu_ns\":%" PRIu64 ",\"threads_cpu_ns\":%" PRIu64
        ",\"fence_ns\":%" PRIu64 ",\"peer_get_ns\":%" PRIu64 ",\"received_bytes\":%" PRIu64
        ",\"idle_kib\":%" PRIu64 ",\"full_kib\":%" PRIu64 ",\"added_kib\":%" PRIu64 "}\n",
        me.rank, f.init_ns, f.init_cpu_ns, f.finalize_cpu_ns, f.get_cpu_ns, f.threads_cpu_ns,
        f.fence_ns, f.peer_get_ns, f.received_bytes, f.idle_kib, f.full_kib, f.added_kib);
    require(len > 0 && (size_t) len < sizeof(line));
    require(len == write(STDOUT_FILENO, line, (size_t) len));
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared code of the programs, which check their own results. A failed check prints a message and exits with 1; a
 * program that exits with 0 was served correctly. */
#ifndef PMIXRS_SERVER_CHECK_H
#define PMIXRS_SERVER_CHECK_H

#include <pmix.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* This process, its job, and the size of the job. */
extern pmix_proc_t me;
extern pmix_proc_t job;
extern uint32_t size;

/* Calls PMIx_Init and gets the size of the job. The version of the library must contain the text of CHECK_LIBRARY,
 * if that variable is set. */
void begin(void);
/* Calls PMIx_Finalize. */
void end(void);

/* Removes the variables that a server sets for its processes, so that a tool has to find its server. */
void forget_the_server(void);

/* Exits with a message. */
void wrong(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Check that the status is PMIX_SUCCESS, or the expected one. */
void must(const char *what, pmix_status_t status);
void must_be(const char *what, pmix_status_t status, pmix_status_t expected);
/* Checks that a condition holds. */
#define require(fact) ((fact) ? (void) 0 : wrong("%s:%d: not so: %s", __FILE__, __LINE__, #fact))

/* Returns the name of a process of this job. */
pmix_proc_t peer(pmix_rank_t rank);
/* Fences all processes of the job, with or without the committed data. */
void fence_all(bool collect);
/* Put a string or a number. */
void put_text(pmix_scope_t scope, const char *key, const char *text);
void put_number(pmix_scope_t scope, const char *key, uint32_t number);
/* Get a value of a process and check its type. The caller frees the text. */
char *get_text(pmix_rank_t rank, const char *key);
uint32_t get_number(pmix_rank_t rank, const char *key);
/* Gets a value that the server must have, without waiting. */
pmix_status_t get_now(pmix_rank_t rank, const char *key);

/* Returns the time of a monotonic clock in nanoseconds. */
uint64_t now_ns(void);
/* Returns a line of /proc/PID/status in KiB: VmRSS, VmHWM. */
uint64_t memory_kib(pid_t pid, const char *name);
/* Returns a line of this process's page tables in KiB, as the status may be some hundred KiB out of date: Rss, or
 * Anonymous for memory that no other process shares. */
uint64_t pages_kib(const char *name);

/* A callback for which a thread can wait. */
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned arrived;
    pmix_status_t status;
    size_t reference;
} arrival_t;

#define ARRIVAL {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER}

void arrive(arrival_t *arrival, pmix_status_t status, size_t reference);
/* Waits for `count` callbacks. Returns false after `ms` milliseconds. */
bool await(arrival_t *arrival, unsigned count, unsigned ms);
/* An op callback; `cbdata` is the arrival. */
void op_done(pmix_status_t status, void *cbdata);

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What every program here shares: it checks its own answers, says what is wrong, and ends with 1.
 * A program that ends with 0 was served rightly.
 */
#ifndef PMIXRS_SERVER_CHECK_H
#define PMIXRS_SERVER_CHECK_H

#include <pmix.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* This process, its job, and how many processes the job has. */
extern pmix_proc_t me;
extern pmix_proc_t job;
extern uint32_t size;

/* PMIx_Init, and the size of the job. The version of the library has the text of CHECK_LIBRARY, if that is
 * in the environment. */
void begin(void);
/* PMIx_Finalize. */
void end(void);

/* Takes away what a server puts into the environment of a process that it starts, so that a tool finds its server
 * as others do. */
void forget_the_server(void);

/* Ends the program with what is wrong. */
void wrong(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* The status must be PMIX_SUCCESS, or the one named. */
void must(const char *what, pmix_status_t status);
void must_be(const char *what, pmix_status_t status, pmix_status_t expected);
/* The fact must hold. */
#define require(fact) ((fact) ? (void) 0 : wrong("%s:%d: not so: %s", __FILE__, __LINE__, #fact))

/* A process of this job. */
pmix_proc_t peer(pmix_rank_t rank);
/* Of all processes of the job, with or without the data that was committed. */
void fence_all(bool collect);
/* Puts a string or a number. */
void put_text(pmix_scope_t scope, const char *key, const char *text);
void put_number(pmix_scope_t scope, const char *key, uint32_t number);
/* Gets of a process; each checks the type, too. Text is freed by the caller. */
char *get_text(pmix_rank_t rank, const char *key);
uint32_t get_number(pmix_rank_t rank, const char *key);
/* A get that is answered at once from what the server has. */
pmix_status_t get_now(pmix_rank_t rank, const char *key);

/* Nanoseconds of a clock that only goes forward. */
uint64_t now_ns(void);
/* A line of /proc/PID/status in KiB: VmRSS, VmHWM. */
uint64_t memory_kib(pid_t pid, const char *name);
/* The same of this process from its page tables, where the status may be some hundred KiB behind: Rss, or
 * Anonymous for what no other process has. */
uint64_t pages_kib(const char *name);

/* A callback one waits for. */
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned arrived;
    pmix_status_t status;
    size_t reference;
} arrival_t;

#define ARRIVAL {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER}

void arrive(arrival_t *arrival, pmix_status_t status, size_t reference);
/* Waits until so many arrived; false after so many milliseconds. */
bool await(arrival_t *arrival, unsigned count, unsigned ms);
/* An op callback; `cbdata` is the arrival. */
void op_done(pmix_status_t status, void *cbdata);

#endif

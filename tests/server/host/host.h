/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A host of a real PMIx server: one node, one job, what a launcher must do and no more. */
#ifndef PMIXRS_SERVER_HOST_H
#define PMIXRS_SERVER_HOST_H

#include <pmix.h>
#include <pmix_server.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Nodes of the job that are not here: so many, so many processes on each. */
typedef struct {
    uint32_t nodes;
    uint32_t each;
} far_t;

#define MOST_FAR 8

/* What the command line says. */
typedef struct {
    /* Processes to start here: ranks 0 to num_local - 1. */
    uint32_t num_local;
    far_t far[MOST_FAR];
    size_t num_far;
    const char *nspace;
    /* Seconds until the job is killed. */
    unsigned timeout;
    /* Whether the processes are registered as those of another user. */
    bool foreign;
    /* The session of the job, or 0 for none. */
    uint32_t session;
    /* Where the summary goes, or NULL. */
    const char *json;
    /* NULL: only register the job, and end. */
    char **command;
} options_t;

/* One call of the library that answers later. */
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
    pmix_status_t status;
} answer_t;

void answer_reset(answer_t *answer);
/* An op callback; `cbdata` is the answer. */
void answer_arrived(pmix_status_t status, void *cbdata);
/* The status of a call that returned `status`: waits if there is something to wait for. */
pmix_status_t answer_of(answer_t *answer, pmix_status_t status);

/* Ends the program with what is wrong. */
void fatal(const char *what, pmix_status_t status) __attribute__((noreturn));
/* Nanoseconds: of a clock that only goes forward; of this process, its children left out. */
uint64_t now_ns(void);
uint64_t used_ns(void);

/* Processes of the whole job. */
uint32_t job_size(const options_t *options);
/* Registers the job and the processes to start. */
void register_job(const options_t *options);

/* The upcalls, for PMIx_server_init. */
pmix_server_module_t *host_module(void);
/* Adds publish, lookup and unpublish to them. */
void board_join(pmix_server_module_t *module);
/* Adds groups, queries and pulls of output; the job that they are about. */
void services_join(pmix_server_module_t *module);
void services_of(const options_t *options);
/* Hands text to those who pull the output of rank 0; not on the progress thread. */
void deliver_output(const char *text);

/* Starts the processes; the status of the first that failed, 0 if none did. */
int run_job(const options_t *options);
/* Ends the job; safe on any thread. */
void abort_job(int status);

#endif

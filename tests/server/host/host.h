/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A minimal host of a real PMIx server: one node, one job, only the required functions of a launcher. */
#ifndef PMIXRS_SERVER_HOST_H
#define PMIXRS_SERVER_HOST_H

#include <pmix.h>
#include <pmix_server.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Remote nodes of the job: the number of nodes, and of processes on each. */
typedef struct {
    uint32_t nodes;
    uint32_t each;
} far_t;

#define MOST_FAR 8

/* The options of the command line. */
typedef struct {
    /* The number of local processes: ranks 0 to num_local - 1. */
    uint32_t num_local;
    far_t far[MOST_FAR];
    size_t num_far;
    const char *nspace;
    /* The time in seconds after which the job is killed. */
    unsigned timeout;
    /* true if the processes are registered with another user. */
    bool foreign;
    /* True if the host states the application of each process, and not only the maps. */
    bool states_procs;
    /* The session of the job, or 0 for none. */
    uint32_t session;
    /* The file for the summary, or NULL. */
    const char *json;
    /* NULL: only register the job, and exit. */
    char **command;
} options_t;

/* The result of a call that completes by a callback. */
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
    pmix_status_t status;
} answer_t;

void answer_reset(answer_t *answer);
/* An op callback; `cbdata` is the answer. */
void answer_arrived(pmix_status_t status, void *cbdata);
/* Returns the final status of a call that returned `status`, and waits for its callback if there is one. */
pmix_status_t answer_of(answer_t *answer, pmix_status_t status);

/* Exits with a message. */
void fatal(const char *what, pmix_status_t status) __attribute__((noreturn));
/* Return nanoseconds of a monotonic clock, and of processor time of this process without its children. */
uint64_t now_ns(void);
uint64_t used_ns(void);

/* Returns the number of processes of the whole job. */
uint32_t job_size(const options_t *options);
/* Registers the job and the local processes. */
void register_job(const options_t *options);

/* Returns the upcalls for PMIx_server_init. */
pmix_server_module_t *host_module(void);
/* Adds publish, lookup and unpublish to the upcalls. */
void board_join(pmix_server_module_t *module);
/* Adds groups, queries and pulls of output to the upcalls, and sets their job. */
void services_join(pmix_server_module_t *module);
void services_of(const options_t *options);
/* Delivers text as output of rank 0; must not run on the progress thread. */
void deliver_output(const char *text);

/* Starts the processes; returns the status of the first that failed, or 0. */
int run_job(const options_t *options);
/* Ends the job; may be called on any thread. */
void abort_job(int status);

#endif

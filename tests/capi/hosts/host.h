/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Code that the hosts share: the job of the command line, its local ranks, and a queue to the main thread. */
#ifndef PMIXRS_HOSTS_HOST_H
#define PMIXRS_HOSTS_HOST_H

#include <pmix.h>
#include <pmix_server.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The job of `HOST [-n N] [-r N] PROGRAM ARGS...`. Ranks 0 to num_local - 1 are on this node. The ranks of `-r` belong
 * to a second node that does not exist: with them, the server asks the host to complete fences and direct modexes. */
typedef struct {
    uint32_t num_local;
    uint32_t num_remote;
    uint32_t size;
    uint32_t num_nodes;
    /* The name of this node, without its domain. */
    char node[256];
    /* The names of the nodes, `here,elsewhere`, and their ranks, `0,1;2,3`. */
    char *nodes;
    char *ranks;
    /* The ranks of this node, `0,1`. */
    char *local_ranks;
    /* A directory that is removed at the end. It is also TMPDIR. */
    char directory[512];
    char **command;
} job_t;

extern job_t job;

/* Reads the command line. A host that runs for more than 60 s is ended. */
void job_read(char **argv);
/* Returns the name of the node of a rank, and its rank there. */
const char *node_of(pmix_rank_t rank);
uint16_t local_rank_of(pmix_rank_t rank);

/* Starts PROGRAM as a rank of this node, with these variables in addition to those of the host. Frees the variables. */
void rank_start(pmix_rank_t rank, char **variables);
/* Ends all ranks that run. */
void ranks_kill(void);
/* Runs posted calls until all ranks have ended; returns the first exit code that is not 0. A rank that fails ends the
 * others. `ended` may be NULL; otherwise it is called for each rank that ended. */
int ranks_wait(void (*ended)(pmix_rank_t rank, int code));
/* Removes the directory and exits. */
void job_end(int code) __attribute__((noreturn));

/* Has the main thread make a call in ranks_wait. */
void post(void (*call)(void *), void *arg);
/* Returns zeroed memory, or exits. */
void *allocate(size_t size);
/* Returns a copy of bytes, or exits. */
char *copy_of(const char *bytes, size_t len);
/* Loads an info; a function, as PMIX_INFO_LOAD of release 4 is a block that evaluates its arguments again. */
void load(pmix_info_t *info, const char *key, const void *value, pmix_data_type_t type);
/* Loads an info with an array of `count` infos, and frees these. */
void load_array(pmix_info_t *info, const char *key, pmix_info_t *infos, size_t count);
/* Exits with a message if a call did not return the status that the product expects. */
void must_be(const char *call, pmix_status_t status, pmix_status_t expected);

/* Functions that only return the status `refusal`: every slot but those about clients, fences and logs. */
extern const pmix_server_module_t refusals;
extern pmix_status_t refusal;

/* A callback for which a thread waits. */
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
    pmix_status_t status;
} answer_t;

#define ANSWER {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER}

/* An op callback; `cbdata` is the answer. */
void answer_arrived(pmix_status_t status, void *cbdata);
/* Waits for the callback, and returns its status. */
pmix_status_t answer_of(answer_t *answer);

#endif

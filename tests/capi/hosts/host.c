/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The job of the command line and its local ranks. */
#define _GNU_SOURCE
#include "host.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The time limit of a host in seconds. */
#define LIMIT 60

/* The name of the node that does not exist. */
#define ELSEWHERE "elsewhere"

/* A call that the main thread makes. */
typedef struct {
    void (*call)(void *);
    void *arg;
} work_t;

job_t job = {.num_local = 1, .num_nodes = 1};

static int queue[2];
static pid_t *pids;
static uint32_t num_running;

static void usage(void)
{
    fputs("usage: HOST [-n N] [-r N] PROGRAM ARGS...\n", stderr);
    exit(64);
}

/* Returns the ranks from `first` on as a list. */
static char *rank_list(uint32_t first, uint32_t count)
{
    char *list = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&list, &len);
    for (uint32_t i = 0; i < count; i++) {
        fprintf(file, 0 == i ? "%u" : ",%u", first + i);
    }
    fclose(file);
    return list;
}

/* Joins two lists; without remote ranks there is only the first. */
static char *joined(const char *here, char separator, const char *elsewhere)
{
    size_t size = strlen(here) + strlen(elsewhere) + 2;
    char *list = allocate(size);
    if (0 == job.num_remote) {
        return strcpy(list, here);
    }
    snprintf(list, size, "%s%c%s", here, separator, elsewhere);
    return list;
}

void job_read(char **argv)
{
    char **word = argv + 1;
    for (; NULL != word[0] && '-' == word[0][0] && NULL != word[1]; word += 2) {
        uint32_t number = (uint32_t) strtoul(word[1], NULL, 10);
        if (0 == strcmp(word[0], "-n")) {
            job.num_local = number;
        } else if (0 == strcmp(word[0], "-r")) {
            job.num_remote = number;
        } else {
            usage();
        }
    }
    if (NULL == word[0] || 0 == job.num_local) {
        usage();
    }
    job.command = word;
    job.size = job.num_local + job.num_remote;
    job.num_nodes = 0 == job.num_remote ? 1 : 2;
    gethostname(job.node, sizeof(job.node) - 1);
    job.node[strcspn(job.node, ".")] = '\0';
    char *elsewhere = rank_list(job.num_local, job.num_remote);
    job.local_ranks = rank_list(0, job.num_local);
    job.nodes = joined(job.node, ',', ELSEWHERE);
    job.ranks = joined(job.local_ranks, ';', elsewhere);
    free(elsewhere);

    const char *top = getenv("TMPDIR");
    snprintf(job.directory, sizeof(job.directory), "%s/pmix-host-XXXXXX", NULL == top ? "/tmp" : top);
    if (NULL == mkdtemp(job.directory) || 0 != setenv("TMPDIR", job.directory, 1) || 0 != pipe(queue)) {
        perror("host");
        exit(70);
    }
    pids = allocate(job.num_local * sizeof(*pids));
    alarm(LIMIT);
}

const char *node_of(pmix_rank_t rank)
{
    return rank < job.num_local ? job.node : ELSEWHERE;
}

uint16_t local_rank_of(pmix_rank_t rank)
{
    return (uint16_t) (rank < job.num_local ? rank : rank - job.num_local);
}

void rank_start(pmix_rank_t rank, char **variables)
{
    fflush(NULL);
    pid_t pid = fork();
    if (0 == pid) {
        /* A host that is killed leaves no ranks behind. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (char **one = variables; NULL != *one; one++) {
            putenv(*one);
        }
        execvp(job.command[0], job.command);
        perror(job.command[0]);
        _exit(127);
    }
    if (pid < 0) {
        perror("host: fork");
        job_end(70);
    }
    pids[rank] = pid;
    num_running++;
    for (char **one = variables; NULL != *one; one++) {
        free(*one);
    }
    free(variables);
}

void ranks_kill(void)
{
    for (uint32_t rank = 0; rank < job.num_local; rank++) {
        if (pids[rank] > 0) {
            kill(pids[rank], SIGKILL);
        }
    }
}

/* Makes the posted calls; waits a moment for the first. */
static void make_calls(int milliseconds)
{
    work_t work;
    for (struct pollfd end = {.fd = queue[0], .events = POLLIN}; poll(&end, 1, milliseconds) > 0;
         milliseconds = 0) {
        if (read(queue[0], &work, sizeof(work)) == (ssize_t) sizeof(work)) {
            work.call(work.arg);
        }
    }
}

int ranks_wait(void (*ended)(pmix_rank_t rank, int code))
{
    int first = 0, status = 0;
    while (num_running > 0) {
        make_calls(5);
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
            int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
            pmix_rank_t rank = 0;
            while (rank < job.num_local && pids[rank] != pid) {
                rank++;
            }
            if (rank == job.num_local) {
                continue;
            }
            pids[rank] = 0;
            num_running--;
            if (NULL != ended) {
                ended(rank, code);
            }
            if (0 == first && 0 != code) {
                first = code;
                ranks_kill();
            }
        }
    }
    /* The server may wait for callbacks of ranks that have ended. */
    make_calls(50);
    return first;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void) status, (void) kind, (void) at;
    return remove(path);
}

void job_end(int code)
{
    nftw(job.directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    fflush(NULL);
    _exit(code);
}

void post(void (*call)(void *), void *arg)
{
    work_t work = {.call = call, .arg = arg};
    /* A write of so few bytes to a pipe is atomic. */
    if (write(queue[1], &work, sizeof(work)) != (ssize_t) sizeof(work)) {
        perror("host: queue");
        _exit(70);
    }
}

void *allocate(size_t size)
{
    void *memory = calloc(1, size);
    if (NULL == memory) {
        perror("host");
        _exit(70);
    }
    return memory;
}

char *copy_of(const char *bytes, size_t len)
{
    char *copy = allocate(len + 1);
    if (len > 0) {
        memcpy(copy, bytes, len);
    }
    return copy;
}

void load(pmix_info_t *info, const char *key, const void *value, pmix_data_type_t type)
{
    PMIX_INFO_LOAD(info, key, value, type);
}

void load_array(pmix_info_t *info, const char *key, pmix_info_t *infos, size_t count)
{
    pmix_data_array_t array = {.type = PMIX_INFO, .size = count, .array = infos};
    PMIX_INFO_LOAD(info, key, &array, PMIX_DATA_ARRAY);
    PMIX_INFO_FREE(infos, count);
}

void must_be(const char *call, pmix_status_t status, pmix_status_t expected)
{
    if (status != expected) {
        fprintf(stderr, "host: %s: %s (%d), not %d\n", call, PMIx_Error_string(status), status, expected);
        job_end(70);
    }
}

void answer_arrived(pmix_status_t status, void *cbdata)
{
    answer_t *answer = cbdata;
    pthread_mutex_lock(&answer->mutex);
    answer->status = status;
    answer->done = true;
    pthread_cond_signal(&answer->changed);
    pthread_mutex_unlock(&answer->mutex);
}

pmix_status_t answer_of(answer_t *answer)
{
    pthread_mutex_lock(&answer->mutex);
    while (!answer->done) {
        pthread_cond_wait(&answer->changed, &answer->mutex);
    }
    pthread_mutex_unlock(&answer->mutex);
    return answer->status;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Starts the processes and waits for them. */
#define _GNU_SOURCE
#include "host.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static pid_t *children;
static uint32_t num_children;
static volatile sig_atomic_t failure;

static void kill_all(void)
{
    for (uint32_t i = 0; i < num_children; i++) {
        if (children[i] > 0) {
            kill(-children[i], SIGKILL);
        }
    }
}

void abort_job(int status)
{
    if (0 == failure) {
        failure = 0 == status ? 1 : status & 0xff;
    }
    kill_all();
}

static void end_early(int signal)
{
    static const char text[] = "host: out of time\n";
    if (SIGALRM == signal && write(STDERR_FILENO, text, sizeof(text) - 1) < 0) {
        /* The message is lost, and there is no other way to report it. */
    }
    abort_job(SIGALRM == signal ? 124 : 128 + signal);
}

/* Starts a process in a process group of its own, with the environment that the server requires. */
static pid_t start(const options_t *options, uint32_t rank)
{
    char **environment = NULL;
    for (char **one = environ; NULL != *one; one++) {
        pmix_argv_append_nosize(&environment, *one);
    }
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, options->nspace, rank);
    pmix_status_t status = PMIx_server_setup_fork(&proc, &environment);
    if (PMIX_SUCCESS != status) {
        fatal("PMIx_server_setup_fork", status);
    }
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    pid_t pid = 0;
    int fault = posix_spawnp(&pid, options->command[0], NULL, &attributes, options->command,
                             environment);
    posix_spawnattr_destroy(&attributes);
    pmix_argv_free(environment);
    if (0 != fault) {
        fprintf(stderr, "host: %s: %s\n", options->command[0], strerror(fault));
        return -1;
    }
    return pid;
}

/* Returns the exit status of a process as a shell reports it. */
static int code_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int run_job(const options_t *options)
{
    children = calloc(options->num_local, sizeof(*children));
    signal(SIGALRM, end_early);
    signal(SIGTERM, end_early);
    signal(SIGINT, end_early);
    alarm(options->timeout);
    for (uint32_t rank = 0; rank < options->num_local && 0 == failure; rank++) {
        children[rank] = start(options, rank);
        num_children = rank + 1;
        if (children[rank] < 0) {
            abort_job(127);
        }
    }
    for (uint32_t left = num_children; left > 0;) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0 && EINTR != errno) {
            break;
        }
        for (uint32_t i = 0; pid > 0 && i < num_children; i++) {
            if (children[i] == pid) {
                children[i] = 0;
                left--;
                if (0 != code_of(status)) {
                    abort_job(code_of(status));
                }
            }
        }
    }
    alarm(0);
    return failure;
}

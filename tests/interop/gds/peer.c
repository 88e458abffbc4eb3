/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The gds peer, which passes requests to servers that may crash at any of them.
 *
 * Real releases crash on some gets. Each job is therefore registered by a server in a process and directory of its
 * own. If the server exits instead of answering, this program reports it, and the next request starts a new server
 * with the same job. */
#define _GNU_SOURCE
#include "gds.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A server process and its pipes. */
typedef struct {
    pid_t pid; /* 0 if there is none */
    FILE *requests, *answers;
    char directory[64];
} server_t;

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void) info;
    (void) kind;
    (void) where;
    return remove(path);
}

/* Ends the server if it still runs, and returns its wait status. */
static int stop(server_t *server)
{
    int how = 0;
    if (0 == server->pid) {
        return 0;
    }
    fclose(server->requests);
    fclose(server->answers);
    waitpid(server->pid, &how, 0);
    nftw(server->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    server->pid = 0;
    return how;
}

static int start(server_t *server)
{
    int to[2], from[2];
    strcpy(server->directory, "/tmp/pmix-gds-peer-XXXXXX");
    if (NULL == mkdtemp(server->directory) || pipe(to) != 0 || pipe(from) != 0) {
        return -1;
    }
    fflush(stdout);
    server->pid = fork();
    if (server->pid < 0) {
        server->pid = 0;
        return -1;
    }
    if (0 == server->pid) {
        /* The child reads a pipe, not the rest of this program's buffered input. */
        dup2(from[1], STDOUT_FILENO);
        close(to[1]);
        close(from[0]);
        close(from[1]);
        int status = serve(fdopen(to[0], "r"), server->directory);
        fflush(stdout);
        _exit(status);
    }
    close(to[0]);
    close(from[1]);
    server->requests = fdopen(to[1], "w");
    server->answers = fdopen(from[0], "r");
    return 0;
}

/* Sends one request and reads the answer into reused memory. Returns a nonzero value if the server exited. */
static int ask(server_t *server, const char *request, char **line, size_t *room)
{
    fputs(request, server->requests);
    fflush(server->requests);
    return getline(line, room, server->answers) > 0 ? 0 : -1;
}

/* Prints the signal that ended the server, or its exit status. */
static void say_how(int how)
{
    if (WIFSIGNALED(how)) {
        printf(CRASHED " signal %d\n", WTERMSIG(how));
    } else {
        printf(CRASHED " status %d\n", WEXITSTATUS(how));
    }
}

/* Passes the request to a server with this job; a new job needs a new server. */
static void answer(server_t *server, char **job, const char *request)
{
    static char *line;
    static size_t room;
    bool is_job = 0 == strncmp(request, "job ", 4);
    if (is_job) {
        stop(server);
        free(*job);
        *job = strdup(request);
    }
    if (NULL == *job) {
        puts("error no job yet");
        return;
    }
    if (0 == server->pid) {
        if (start(server) != 0) {
            puts("error no server can be started");
            return;
        }
        if (!is_job && ask(server, *job, &line, &room) != 0) {
            say_how(stop(server));
            return;
        }
    }
    if (ask(server, request, &line, &room) != 0) {
        say_how(stop(server));
    } else {
        fputs(line, stdout);
    }
}

int main(void)
{
    server_t server = {0, NULL, NULL, ""};
    char *job = NULL, *line = NULL, host[256] = "";
    size_t room = 0;
    signal(SIGPIPE, SIG_IGN);
    gethostname(host, sizeof(host) - 1);
    while (getline(&line, &room, stdin) > 0) {
        if (0 == strcmp(line, "version\n")) {
            printf("0 %s\n", PMIx_Get_version());
        } else if (0 == strcmp(line, "host\n")) {
            puts(host);
        } else {
            answer(&server, &job, line);
        }
        fflush(stdout);
    }
    stop(&server);
    free(job);
    free(line);
    return 0;
}

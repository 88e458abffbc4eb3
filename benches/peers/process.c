/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a whole process costs: `process RUNS CAP_MS INPUT COMMAND [ARGUMENT...]` prints
 * `STATUS MIN_NS MEDIAN_NS RUNS PEAK_RSS_BYTES`. INPUT is the file on its standard input, or `-`
 * for none; its output is thrown away. A small program of its own, since a child's peak memory
 * counts what it shared with its parent before it became another program.
 */
#define _GNU_SOURCE
#include "timing.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    const char *input;
    char **command;
    size_t peak;
} process_t;

static void become(const process_t *p)
{
    int in = open(0 == strcmp(p->input, "-") ? "/dev/null" : p->input, O_RDONLY);
    int out = open("/dev/null", O_WRONLY);
    if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0) {
        _exit(126);
    }
    execvp(p->command[0], p->command);
    perror(p->command[0]);
    _exit(127);
}

static int time_process(void *context, uint64_t *took_ns, size_t *made)
{
    process_t *p = context;
    struct rusage used;
    int status = -1;
    uint64_t start = clock_ns();
    pid_t child = fork();
    if (0 == child) {
        become(p);
    }
    if (child < 0 || wait4(child, &status, 0, &used) != child) {
        return -1;
    }
    *took_ns = clock_ns() - start;
    size_t peak = (size_t) used.ru_maxrss * 1024;
    p->peak = peak > p->peak ? peak : p->peak;
    *made = p->peak;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fputs("usage: process RUNS CAP_MS INPUT COMMAND [ARGUMENT...]\n", stderr);
        return 2;
    }
    process_t p = {argv[3], argv + 4, 0};
    print_timing(time_process, &p, (unsigned) strtoul(argv[1], NULL, 10),
                 (unsigned) strtoul(argv[2], NULL, 10));
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `host [-n N] [--far NODESxEACH,...] [--nspace NAME] [--timeout S] [--json FILE]
 * [--user same|other] [--session ID] [--procs stated] [PROG ARGS...]` */
#define _GNU_SOURCE
#include "host.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

void fatal(const char *what, pmix_status_t status)
{
    fprintf(stderr, "host: %s: %s (%d)\n", what, PMIx_Error_string(status), status);
    exit(70);
}

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

uint64_t used_ns(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    uint64_t micros = (uint64_t) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000u;
    return (micros + (uint64_t) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec)) * 1000u;
}

void answer_reset(answer_t *answer)
{
    pthread_mutex_init(&answer->mutex, NULL);
    pthread_cond_init(&answer->changed, NULL);
    answer->done = false;
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

pmix_status_t answer_of(answer_t *answer, pmix_status_t status)
{
    if (PMIX_OPERATION_SUCCEEDED == status) {
        return PMIX_SUCCESS;
    }
    if (PMIX_SUCCESS != status) {
        return status;
    }
    pthread_mutex_lock(&answer->mutex);
    while (!answer->done) {
        pthread_cond_wait(&answer->changed, &answer->mutex);
    }
    pthread_mutex_unlock(&answer->mutex);
    return answer->status;
}

/* Returns a line of /proc/self/status in KiB. */
static long memory_kib(const char *name)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (NULL != file && kib < 0 && NULL != fgets(line, sizeof(line), file)) {
        size_t len = strlen(name);
        if (0 == strncmp(line, name, len) && ':' == line[len]) {
            kib = strtol(line + len + 1, NULL, 10);
        }
    }
    if (NULL != file) {
        fclose(file);
    }
    return kib;
}

static void usage(void)
{
    fputs("usage: host [-n N] [--far NODESxEACH,...] [--nspace NAME] [--timeout S]\n"
          "            [--json FILE] [--user same|other] [--session ID] [--procs stated] [PROG ARGS...]\n",
          stderr);
    exit(64);
}

static void read_far(options_t *options, char *text)
{
    char *rest = NULL;
    for (char *part = strtok_r(text, ",", &rest); NULL != part; part = strtok_r(NULL, ",", &rest)) {
        far_t far;
        if (options->num_far == MOST_FAR || 2 != sscanf(part, "%ux%u", &far.nodes, &far.each)) {
            usage();
        }
        options->far[options->num_far++] = far;
    }
}

static options_t read_options(char **argv)
{
    /* Make the name unique: programs derive names of shared memory from it. */
    static char nspace[32];
    snprintf(nspace, sizeof(nspace), "host-%d", (int) getpid());
    options_t options = {.num_local = 1, .nspace = nspace, .timeout = 60};
    char **word = argv + 1;
    while (NULL != *word && '-' == **word) {
        char *name = *word++, *value = NULL == *word ? NULL : *word++;
        if (NULL == value) {
            usage();
        } else if (0 == strcmp(name, "-n")) {
            options.num_local = (uint32_t) strtoul(value, NULL, 10);
        } else if (0 == strcmp(name, "--far")) {
            read_far(&options, value);
        } else if (0 == strcmp(name, "--nspace")) {
            options.nspace = value;
        } else if (0 == strcmp(name, "--timeout")) {
            options.timeout = (unsigned) strtoul(value, NULL, 10);
        } else if (0 == strcmp(name, "--user")) {
            options.foreign = 0 == strcmp(value, "other");
        } else if (0 == strcmp(name, "--procs")) {
            options.states_procs = 0 == strcmp(value, "stated");
        } else if (0 == strcmp(name, "--session")) {
            options.session = (uint32_t) strtoul(value, NULL, 10);
        } else if (0 == strcmp(name, "--json")) {
            options.json = value;
        } else {
            usage();
        }
    }
    options.command = NULL == *word ? NULL : word;
    return options;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void) status, (void) kind, (void) at;
    return remove(path);
}

/* Creates the server's directory, which is removed at the end. */
static void make_directory(char *path, size_t room)
{
    const char *top = getenv("TMPDIR");
    snprintf(path, room, "%s/pmix-host-XXXXXX", NULL == top ? "/tmp" : top);
    if (NULL == mkdtemp(path)) {
        perror("host: mkdtemp");
        exit(70);
    }
}

int main(int argc, char **argv)
{
    (void) argc;
    options_t options = read_options(argv);
    services_of(&options);
    char directory[4096];
    make_directory(directory, sizeof(directory));

    uint64_t begun = now_ns();
    pmix_info_t infos[4];
    bool yes = true, no = false;
    PMIX_INFO_LOAD(&infos[0], PMIX_SERVER_TMPDIR, directory, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_SYSTEM_TMPDIR, directory, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[2], PMIX_SERVER_TOOL_SUPPORT, &yes, PMIX_BOOL);
    /* Delivered output is only for pulls; a real server crashes if it also writes it here. */
    PMIX_INFO_LOAD(&infos[3], PMIX_IOF_LOCAL_OUTPUT, &no, PMIX_BOOL);
    pmix_status_t status = PMIx_server_init(host_module(), infos, 4);
    if (PMIX_SUCCESS != status) {
        fatal("PMIx_server_init", status);
    }
    uint64_t ready = now_ns();
    long idle_kib = memory_kib("VmRSS");
    register_job(&options);
    uint64_t registered = now_ns();
    uint64_t used_before = used_ns();
    int code = NULL == options.command ? 0 : run_job(&options);
    uint64_t done = now_ns();

    FILE *json = NULL == options.json ? NULL : fopen(options.json, "w");
    if (NULL != json) {
        fprintf(json,
                "{\"library\":\"%s\",\"job_size\":%u,\"num_local\":%u,\"exit\":%d,"
                "\"init_ns\":%lu,\"register_ns\":%lu,\"run_ns\":%lu,\"cpu_ns\":%lu,"
                "\"cpu_run_ns\":%lu,\"idle_kib\":%ld,\"rss_kib\":%ld,\"peak_kib\":%ld}\n",
                PMIx_Get_version(), job_size(&options), options.num_local, code, ready - begun,
                registered - ready, done - registered, used_ns(), used_ns() - used_before, idle_kib,
                memory_kib("VmRSS"), memory_kib("VmHWM"));
        fclose(json);
    }
    if (0 == code) {
        PMIx_server_finalize();
    }
    nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    /* A killed job leaves connections whose loss is still being handled; they end with the host. */
    fflush(NULL);
    _exit(code);
}

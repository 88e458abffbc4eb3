/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

pmix_proc_t me;
pmix_proc_t job;
uint32_t size;

void wrong(const char *format, ...)
{
    char text[1024];
    va_list words;
    va_start(words, format);
    vsnprintf(text, sizeof(text), format, words);
    va_end(words);
    fprintf(stderr, "%s, rank %u: %s\n", program_invocation_short_name, me.rank, text);
    _exit(1);
}

void must_be(const char *what, pmix_status_t status, pmix_status_t expected)
{
    if (status != expected) {
        wrong("%s: %s (%d), not %s (%d)", what, PMIx_Error_string(status), status,
              PMIx_Error_string(expected), expected);
    }
}

void must(const char *what, pmix_status_t status)
{
    must_be(what, status, PMIX_SUCCESS);
}

void begin(void)
{
    const char *library = getenv("CHECK_LIBRARY");
    if (NULL != library && NULL == strstr(PMIx_Get_version(), library)) {
        wrong("the library is %s, not %s", PMIx_Get_version(), library);
    }
    must("PMIx_Init", PMIx_Init(&me, NULL, 0));
    PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
    size = get_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
    require(me.rank < size);
}

void forget_the_server(void)
{
    static const char *const names[] = {
        "PMIX_NAMESPACE",    "PMIX_RANK",         "PMIX_SERVER_URI61", "PMIX_SERVER_URI51",
        "PMIX_SERVER_URI41", "PMIX_SERVER_URI4",  "PMIX_SERVER_URI3",  "PMIX_SERVER_URI21",
        "PMIX_SERVER_URI2",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        unsetenv(names[i]);
    }
}

void end(void)
{
    must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
}

pmix_proc_t peer(pmix_rank_t rank)
{
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, me.nspace, rank);
    return proc;
}

void fence_all(bool collect)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    must("PMIx_Fence", PMIx_Fence(&job, 1, &info, 1));
}

void put_text(pmix_scope_t scope, const char *key, const char *text)
{
    pmix_value_t value = {.type = PMIX_STRING, .data.string = (char *) text};
    must(key, PMIx_Put(scope, key, &value));
}

void put_number(pmix_scope_t scope, const char *key, uint32_t number)
{
    pmix_value_t value = {.type = PMIX_UINT32, .data.uint32 = number};
    must(key, PMIx_Put(scope, key, &value));
}

static pmix_value_t *get(pmix_rank_t rank, const char *key, pmix_data_type_t type)
{
    pmix_proc_t proc = peer(rank);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&proc, key, NULL, 0, &value);
    if (PMIX_SUCCESS != status || NULL == value) {
        wrong("get of %s of rank %u: %s (%d)", key, rank, PMIx_Error_string(status), status);
    }
    if (type != value->type) {
        wrong("get of %s of rank %u: a %s", key, rank, PMIx_Data_type_string(value->type));
    }
    return value;
}

char *get_text(pmix_rank_t rank, const char *key)
{
    pmix_value_t *value = get(rank, key, PMIX_STRING);
    char *text = strdup(value->data.string);
    PMIX_VALUE_RELEASE(value);
    return text;
}

uint32_t get_number(pmix_rank_t rank, const char *key)
{
    pmix_value_t *value = get(rank, key, PMIX_UINT32);
    uint32_t number = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return number;
}

pmix_status_t get_now(pmix_rank_t rank, const char *key)
{
    pmix_proc_t proc = peer(rank);
    bool yes = true;
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&proc, key, &info, 1, &value);
    if (PMIX_SUCCESS == status) {
        PMIX_VALUE_RELEASE(value);
    }
    return status;
}

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

void arrive(arrival_t *arrival, pmix_status_t status, size_t reference)
{
    pthread_mutex_lock(&arrival->mutex);
    arrival->arrived++;
    arrival->status = status;
    arrival->reference = reference;
    pthread_cond_broadcast(&arrival->changed);
    pthread_mutex_unlock(&arrival->mutex);
}

bool await(arrival_t *arrival, unsigned count, unsigned ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long) (ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    int fault = 0;
    pthread_mutex_lock(&arrival->mutex);
    while (arrival->arrived < count && ETIMEDOUT != fault) {
        fault = pthread_cond_timedwait(&arrival->changed, &arrival->mutex, &until);
    }
    bool there = arrival->arrived >= count;
    pthread_mutex_unlock(&arrival->mutex);
    return there;
}

void op_done(pmix_status_t status, void *cbdata)
{
    arrive(cbdata, status, 0);
}

/* Returns the number in a line of a file. */
static uint64_t number_of(const char *path, const char *name)
{
    char line[256];
    uint64_t number = 0;
    FILE *file = fopen(path, "r");
    while (NULL != file && NULL != fgets(line, sizeof(line), file)) {
        if (0 == strncmp(line, name, strlen(name)) && ':' == line[strlen(name)]) {
            number = strtoull(line + strlen(name) + 1, NULL, 10);
        }
    }
    if (NULL != file) {
        fclose(file);
    }
    return number;
}

uint64_t memory_kib(pid_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
    return number_of(path, name);
}

uint64_t pages_kib(const char *name)
{
    return number_of("/proc/self/smaps_rollup", name);
}

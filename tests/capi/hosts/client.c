/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A process of a job of a host. Each line that it prints begins with its rank, so that the lines of two servers can be
 * sorted and compared. Argument: `abort`, for a rank 0 that aborts the job with status 7.
 */
#define _GNU_SOURCE
#include <pmix.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pmix_proc_t me;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes a line at once. */
static void say(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    printf("%u: %s\n", me.rank, line);
    fflush(stdout);
}

static void must(const char *call, pmix_status_t status)
{
    if (PMIX_SUCCESS != status) {
        say("%s: %s", call, PMIx_Error_string(status));
        exit(1);
    }
}

static pmix_proc_t proc_of(pmix_rank_t rank)
{
    pmix_proc_t proc = me;
    proc.rank = rank;
    return proc;
}

/* Says the value of a key. The names of this node, of directories and of clients differ between runs. */
static void say_value(pmix_rank_t rank, const char *key)
{
    pmix_proc_t proc = proc_of(rank);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&proc, key, NULL, 0, &value);
    if (PMIX_SUCCESS != status) {
        say("%d %s: %s", (int) rank, key, PMIx_Error_string(status));
        return;
    }
    const char *type = PMIx_Data_type_string(value->type);
    switch (value->type) {
    case PMIX_STRING:
        say("%d %s: %s %s", (int) rank, key, type, value->data.string);
        break;
    case PMIX_BOOL:
        say("%d %s: %s %d", (int) rank, key, type, value->data.flag);
        break;
    case PMIX_UINT16:
        say("%d %s: %s %u", (int) rank, key, type, value->data.uint16);
        break;
    case PMIX_INT:
    case PMIX_UINT32:
    case PMIX_PROC_RANK:
        say("%d %s: %s %u", (int) rank, key, type, value->data.uint32);
        break;
    default:
        say("%d %s: %s", (int) rank, key, type);
    }
    PMIX_VALUE_RELEASE(value);
}

static const char *const OF_JOB[] = {
    PMIX_JOB_SIZE,  PMIX_UNIV_SIZE, PMIX_MAX_PROCS, PMIX_LOCAL_SIZE, PMIX_NODE_SIZE,    PMIX_NUM_NODES,
    PMIX_JOBID,     PMIX_LOCALLDR,  PMIX_LOCAL_PEERS, PMIX_APPNUM,   PMIX_JOB_NUM_APPS, PMIX_TDIR_RMCLEAN,
    PMIX_SPAWNED,   PMIX_APP_SIZE,  PMIX_SESSION_ID, PMIX_NPROC_OFFSET,
};

static const char *const OF_RANK[] = {
    PMIX_HOSTNAME, PMIX_NODEID,  PMIX_LOCAL_RANK, PMIX_NODE_RANK,       PMIX_APPNUM,       PMIX_APP_RANK,
    PMIX_APPLDR,   PMIX_SPAWNED, PMIX_GLOBAL_RANK, PMIX_LOCALITY_STRING, PMIX_PACKAGE_RANK, PMIX_REINCARNATION,
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static uint32_t number_of(const char *key)
{
    pmix_proc_t proc = proc_of(PMIX_RANK_WILDCARD);
    pmix_value_t *value = NULL;
    must(key, PMIx_Get(&proc, key, NULL, 0, &value));
    uint32_t number = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return number;
}

static void fence(bool collect)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    must("PMIx_Fence", PMIx_Fence(NULL, 0, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
}

/* Puts a card, and gets that of the next process on this node. */
static void exchange(uint32_t num_local, unsigned round)
{
    char key[32], card[64], expected[64];
    pmix_value_t value, *found = NULL;
    pmix_proc_t next = proc_of((me.rank + 1) % num_local);
    snprintf(key, sizeof(key), "card.%u", round);
    snprintf(card, sizeof(card), "card %u of rank %u", round, me.rank);
    snprintf(expected, sizeof(expected), "card %u of rank %u", round, next.rank);
    PMIX_VALUE_LOAD(&value, card, PMIX_STRING);
    must("PMIx_Put", PMIx_Put(PMIX_GLOBAL, key, &value));
    PMIX_VALUE_DESTRUCT(&value);
    must("PMIx_Commit", PMIx_Commit());
    fence(true);
    must("PMIx_Get", PMIx_Get(&next, key, NULL, 0, &found));
    say("next has %s%s", found->data.string, 0 == strcmp(found->data.string, expected) ? "" : ", which is wrong");
    PMIX_VALUE_RELEASE(found);
}

/* Calls that most hosts refuse. */
static void call_others(uint32_t num_local)
{
    pmix_proc_t all[] = {proc_of(0), proc_of(1)}, next = proc_of((me.rank + 1) % num_local);
    pmix_info_t info;
    pmix_pdata_t found;
    pmix_value_t *value = NULL;
    PMIX_INFO_LOAD(&info, "service", "here", PMIX_STRING);
    say("PMIx_Publish: %s", PMIx_Error_string(PMIx_Publish(&info, 1)));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_PDATA_CONSTRUCT(&found);
    PMIX_LOAD_KEY(found.key, "service");
    say("PMIx_Lookup: %s", PMIx_Error_string(PMIx_Lookup(&found, 1, NULL, 0)));
    if (num_local > 1 && me.rank < 2) {
        say("PMIx_Fence of 2: %s", PMIx_Error_string(PMIx_Fence(all, 2, NULL, 0)));
        say("PMIx_Connect: %s", PMIx_Error_string(PMIx_Connect(all, 2, NULL, 0)));
    }
    if (0 == me.rank) {
        char *argv[] = {"true", NULL};
        pmix_app_t app = {.cmd = "true", .argv = argv, .maxprocs = 1};
        pmix_nspace_t nspace;
        say("PMIx_Spawn: %s", PMIx_Error_string(PMIx_Spawn(NULL, 0, &app, 1, nspace)));
    }
    int seconds = 1;
    PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
    say("PMIx_Get of no key: %s", PMIx_Error_string(PMIx_Get(&next, "no.such.key", &info, 1, &value)));
    PMIX_INFO_DESTRUCT(&info);
}

int main(int argc, char **argv)
{
    must("PMIx_Init", PMIx_Init(&me, NULL, 0));
    if (argc > 1 && 0 == strcmp(argv[1], "abort")) {
        if (0 == me.rank) {
            say("PMIx_Abort: %s", PMIx_Error_string(PMIx_Abort(7, "as requested", NULL, 0)));
            exit(7);
        }
        fence(false);
    }
    uint32_t size = number_of(PMIX_JOB_SIZE), num_local = number_of(PMIX_LOCAL_SIZE);
    for (size_t i = 0; i < COUNT(OF_JOB); i++) {
        say_value(PMIX_RANK_WILDCARD, OF_JOB[i]);
    }
    for (size_t i = 0; i < COUNT(OF_RANK); i++) {
        say_value(me.rank, OF_RANK[i]);
        say_value((me.rank + 1) % size, OF_RANK[i]);
    }
    for (unsigned round = 0; round < 3; round++) {
        exchange(num_local, round);
    }
    call_others(num_local);
    fence(false);
    if (num_local < size) {
        /* The host is asked for this value. */
        say_value(size - 1, "card.0");
    }
    must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
    return 0;
}

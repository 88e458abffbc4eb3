/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `skew CHECK`: a check of a client under a server of another release, by functions of every client library since
 * 3.2; groups exist since 4. All processes of the job take part. */
#define _GNU_SOURCE
#include "skew.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma weak PMIx_Group_construct
#pragma weak PMIx_Group_destruct

static void init(void)
{
    begin();
    require(PMIx_Initialized() && size >= 2);
    end();
    require(!PMIx_Initialized());
}

/* Fences all processes, and two while the others do not take part. */
static void fence(void)
{
    begin();
    fence_all(false);
    if (me.rank < 2) {
        pmix_proc_t two[] = {peer(0), peer(1)};
        must("a fence of two", PMIx_Fence(two, 2, NULL, 0));
    }
    fence_all(true);
    end();
}

/* Puts and gets in every process, with each scope where it is visible. */
static void modex(void)
{
    char text[64];
    begin();
    snprintf(text, sizeof(text), "of rank %u", me.rank);
    put_text(PMIX_GLOBAL, "skew.text", text);
    put_number(PMIX_LOCAL, "skew.local", 100 + me.rank);
    must("PMIx_Commit", PMIx_Commit());
    fence_all(true);
    for (pmix_rank_t rank = 0; rank < size; rank++) {
        char *found = get_text(rank, "skew.text");
        snprintf(text, sizeof(text), "of rank %u", rank);
        require(0 == strcmp(found, text));
        free(found);
        require(100 + rank == get_number(rank, "skew.local"));
    }
    end();
}

static void direct(void)
{
    begin();
    put_number(PMIX_GLOBAL, "skew.direct", 200 + me.rank);
    must("PMIx_Commit", PMIx_Commit());
    fence_all(false);
    pmix_rank_t next = (me.rank + 1) % size;
    require(200 + next == get_number(next, "skew.direct"));
    fence_all(false);
    end();
}

static pmix_status_t find(const char *key, pmix_pdata_t *data)
{
    memset(data, 0, sizeof(*data));
    snprintf(data->key, sizeof(data->key), "%s", key);
    return PMIx_Lookup(data, 1, NULL, 0);
}

static void publish(void)
{
    pmix_pdata_t data;
    begin();
    must_be("a lookup of nothing", find("skew.published", &data), PMIX_ERR_NOT_FOUND);
    fence_all(false);
    if (0 == me.rank) {
        pmix_info_t info = info_of_number("skew.published", 300);
        must("PMIx_Publish", PMIx_Publish(&info, 1));
    }
    fence_all(false);
    must("PMIx_Lookup", find("skew.published", &data));
    require(0 == data.proc.rank && PMIX_UINT32 == data.value.type && 300 == data.value.data.uint32);
    fence_all(false);
    if (0 == me.rank) {
        char *keys[] = {(char *) "skew.published", NULL};
        must("PMIx_Unpublish", PMIx_Unpublish(keys, NULL, 0));
    }
    fence_all(false);
    must_be("a lookup of what is gone", find("skew.published", &data), PMIX_ERR_NOT_FOUND);
    end();
}

/* Checks that a spawn that the host does not support is refused, and that the connection still works. */
static void spawn(void)
{
    char *argv[] = {(char *) "true", NULL};
    pmix_app_t app = {.cmd = argv[0], .argv = argv, .maxprocs = 1};
    pmix_nspace_t nspace;
    begin();
    must_be("PMIx_Spawn", PMIx_Spawn(NULL, 0, &app, 1, nspace), PMIX_ERR_NOT_SUPPORTED);
    fence_all(false);
    end();
}

/* Aborts the job with a code, with which the host exits. */
static void abort_with_code(void)
{
    begin();
    fence_all(false);
    if (me.rank == size - 1) {
        PMIx_Abort(7, "the reason of the check", NULL, 0);
    }
    fence_all(false);
    sleep(60);
    wrong("it lives on after an abort");
}

/* Constructs groups without results of the host, and with a context ID. */
static void groups(void)
{
    if (NULL == PMIx_Group_construct || NULL == PMIx_Group_destruct) {
        wrong("the library has no groups");
    }
    pmix_info_t *results = NULL, ask = info_of_yes(PMIX_GROUP_ASSIGN_CONTEXT_ID);
    size_t count = 0, found = 0;
    begin();
    pmix_proc_t members[] = {peer(0), peer(1)};
    if (me.rank < 2) {
        must("PMIx_Group_construct",
             PMIx_Group_construct("plain", members, 2, NULL, 0, &results, &count));
        must("PMIx_Group_destruct", PMIx_Group_destruct("plain", NULL, 0));
    }
    fence_all(false);
    results = NULL, count = 0;
    if (me.rank < 2) {
        must("with a context id",
             PMIx_Group_construct("numbered", members, 2, &ask, 1, &results, &count));
        for (size_t i = 0; i < count; i++) {
            if (PMIX_CHECK_KEY(&results[i], PMIX_GROUP_CONTEXT_ID)) {
                found = results[i].value.data.size;
            }
        }
        if (0 == found) {
            wrong("there is no context id among %zu results", count);
        }
        must("PMIx_Group_destruct", PMIx_Group_destruct("numbered", NULL, 0));
    }
    fence_all(false);
    end();
}

/* Destructs a group whose end the host confirms later. */
static void later(void)
{
    if (NULL == PMIx_Group_construct || NULL == PMIx_Group_destruct) {
        wrong("the library has no groups");
    }
    pmix_info_t *results = NULL;
    size_t count = 0;
    begin();
    pmix_proc_t members[] = {peer(0), peer(1)};
    if (me.rank < 2) {
        must("PMIx_Group_construct",
             PMIx_Group_construct("later", members, 2, NULL, 0, &results, &count));
        must("PMIx_Group_destruct", PMIx_Group_destruct("later", NULL, 0));
    }
    fence_all(false);
    end();
}

/* Checks that the time limit ends a get, and that the connection still works. */
static void time_out(void)
{
    pmix_value_t *value = NULL;
    pmix_info_t limit = {.key = PMIX_TIMEOUT, .value = {.type = PMIX_INT, .data.integer = 1}};
    begin();
    fence_all(false);
    pmix_proc_t other = peer((me.rank + 1) % size);
    pmix_status_t status = PMIx_Get(&other, "skew.never", &limit, 1, &value);
    if (PMIX_ERR_TIMEOUT != status && PMIX_ERR_NOT_FOUND != status) {
        wrong("a get with a time limit: %s (%d)", PMIx_Error_string(status), status);
    }
    fence_all(false);
    end();
}

static void large(void)
{
    size_t len = 1u << 19;
    char *bytes = malloc(len);
    require(NULL != bytes);
    begin();
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (char) (i * 31 + me.rank);
    }
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT, .data.bo = {.bytes = bytes, .size = len}};
    must("PMIx_Put", PMIx_Put(PMIX_GLOBAL, "skew.large", &value));
    must("PMIx_Commit", PMIx_Commit());
    fence_all(true);
    pmix_value_t *found = NULL;
    pmix_proc_t other = peer((me.rank + 1) % size);
    must("PMIx_Get", PMIx_Get(&other, "skew.large", NULL, 0, &found));
    require(PMIX_BYTE_OBJECT == found->type && len == found->data.bo.size);
    for (size_t i = 0; i < len; i++) {
        require(found->data.bo.bytes[i] == (char) (i * 31 + other.rank));
    }
    fence_all(false);
    end();
}

static void many(void)
{
    enum { KEYS = 1000 };
    char key[64];
    begin();
    for (uint32_t i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "skew.key.%u", i);
        put_number(PMIX_GLOBAL, key, me.rank * KEYS + i);
    }
    must("PMIx_Commit", PMIx_Commit());
    fence_all(true);
    pmix_rank_t next = (me.rank + 1) % size;
    for (uint32_t i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "skew.key.%u", i);
        require(next * KEYS + i == get_number(next, key));
    }
    end();
}

/* Calls init twice; only the last finalize disconnects. */
static void again(void)
{
    pmix_proc_t second;
    begin();
    must("a second PMIx_Init", PMIx_Init(&second, NULL, 0));
    require(second.rank == me.rank && 0 == strcmp(second.nspace, me.nspace));
    must("the first PMIx_Finalize", PMIx_Finalize(NULL, 0));
    require(PMIx_Initialized());
    fence_all(false);
    end();
    require(!PMIx_Initialized());
}

/* Kills the last process while the others wait for it. */
static void killed(void)
{
    begin();
    fence_all(false);
    if (me.rank == size - 1) {
        kill(getpid(), SIGKILL);
    }
    /* Releases differ in whether the fence completes without it; in all of them the host ends the job. */
    (void) PMIx_Fence(&job, 1, NULL, 0);
    sleep(60);
    wrong("it lives on after the end of another");
}

/* Checks that a process registered with another user is refused. */
static void refused(void)
{
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (PMIX_SUCCESS == status) {
        wrong("the server takes a process of another user");
    }
}

/* Checks the info of the session: the job alone has half as many slots. */
static void session_of(const pmix_info_t *about, size_t num_about)
{
    pmix_value_t *value = NULL;
    begin();
    must(PMIX_UNIV_SIZE, PMIx_Get(&job, PMIX_UNIV_SIZE, about, num_about, &value));
    require(PMIX_UINT32 == value->type && 2 * size == value->data.uint32);
    PMIX_VALUE_RELEASE(value);
    end();
}

static void session(void)
{
    pmix_info_t about = info_of_yes(PMIX_SESSION_INFO);
    session_of(&about, 1);
}

static void numbered(void)
{
    pmix_info_t about[] = {info_of_yes(PMIX_SESSION_INFO), info_of_number(PMIX_SESSION_ID, 9)};
    session_of(about, 2);
}

typedef struct {
    const char *name;
    void (*run)(void);
} check_t;

static const check_t checks[] = {
    {"init", init},       {"fence", fence},     {"modex", modex},   {"direct", direct},
    {"publish", publish}, {"events", events},   {"spawn", spawn},   {"abort", abort_with_code},
    {"groups", groups},   {"later", later},     {"query", query},   {"log", log_line},
    {"output", output},
    {"large", large},     {"many", many},       {"again", again},   {"killed", killed},
    {"time-out", time_out}, {"refused", refused}, {"types", types}, {"session", session},
    {"numbered", numbered},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        if (2 == argc && 0 == strcmp(argv[1], checks[i].name)) {
            checks[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: skew CHECK\n");
    return 64;
}

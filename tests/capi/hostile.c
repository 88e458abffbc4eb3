/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A caller that does what the headers forbid: NULL, invalid counts, names without a NUL, calls before init, after
 * finalize and from callbacks. Each call must return; a call that hangs is ended by the alarm. With the argument
 * "server" the program is a server, otherwise a client.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pmix_server.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* A tool that keeps freed memory needs fewer cycles and a higher limit. */
#ifndef CYCLES
#define CYCLES 1000
#define SERVER_CYCLES 250
#define KEPT_KB 4096
#endif
#define HUGE_COUNT ((size_t)-1)
#define CODE (-4711)

#define IS(expected, call) is(__LINE__, #call, expected, call)
#define REFUSED(call) refused(__LINE__, #call, call)

static void is(int line, const char *what, pmix_status_t expected, pmix_status_t status)
{
    if (status != expected) {
        fprintf(stderr, "line %d: %s: %d, not %d\n", line, what, status, expected);
        exit(1);
    }
}

static void refused(int line, const char *what, pmix_status_t status)
{
    if (status >= 0) {
        fprintf(stderr, "line %d: %s: %d, which is no error\n", line, what, status);
        exit(1);
    }
}

/* Returns an array without a NUL, followed by a page that cannot be read. */
static char *full(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0) {
        perror("mmap");
        exit(1);
    }
    memset(pages + page - size, 'x', size);
    return pages + page - size;
}

static int descriptors(void)
{
    DIR *all = opendir("/proc/self/fd");
    int count = 0;

    if (all == NULL) {
        return 0;
    }
    while (readdir(all) != NULL) {
        count++;
    }
    closedir(all);
    return count;
}

/* Returns the resident memory of this process in KiB. */
static long resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long size = 0, pages = 0;

    if (file == NULL || fscanf(file, "%ld %ld", &size, &pages) != 2) {
        pages = 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Names have the sizes that the headers define. */
static pmix_nspace_t job = "job", nobody;
static pmix_key_t own_key = "key", no_key, rank_key = PMIX_RANK;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int called, inner = 1;

static void done(pmix_status_t answer)
{
    pthread_mutex_lock(&lock);
    inner = answer;
    called = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Waits for the callback, and returns the status of the call inside it. */
static int wait_for_it(void)
{
    int answer;

    pthread_mutex_lock(&lock);
    while (!called) {
        pthread_cond_wait(&changed, &lock);
    }
    called = 0;
    answer = inner;
    pthread_mutex_unlock(&lock);
    return answer;
}

static void fences(pmix_status_t status, void *cbdata)
{
    (void)status, (void)cbdata;
    done(PMIx_Fence(NULL, 0, NULL, 0));
}

static void gets(pmix_status_t status, void *cbdata)
{
    pmix_value_t *value = NULL;

    (void)status, (void)cbdata;
    status = PMIx_Get(NULL, rank_key, NULL, 0, &value);
    if (status == PMIX_SUCCESS) {
        PMIX_VALUE_RELEASE(value);
    }
    done(status);
}

static void registers(pmix_status_t status, void *cbdata)
{
    pmix_status_t id = PMIx_Register_event_handler(NULL, 0, NULL, 0, NULL, NULL, NULL);

    (void)status, (void)cbdata;
    done(id);
}

static void finalizes(pmix_status_t status, void *cbdata)
{
    (void)status, (void)cbdata;
    done(PMIx_Finalize(NULL, 0));
}

static void ends_server(pmix_status_t status, void *cbdata)
{
    (void)status, (void)cbdata;
    done(PMIx_server_finalize());
}

static void heard(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                  size_t ninfo, pmix_info_t *results, size_t nresults,
                  pmix_event_notification_cbfunc_fn_t next, void *cbdata)
{
    (void)status, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    next(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    done(PMIx_Deregister_event_handler(id, NULL, NULL));
}

/* Calls that fail in a process that is neither a client nor a server. */
static void without_init(void)
{
    pmix_proc_t proc;
    pmix_value_t value, *found = NULL;
    pmix_pdata_t data;
    pmix_app_t app;
    char *text = NULL;
    char nspace[PMIX_MAX_NSLEN + 1];

    PMIX_LOAD_PROCID(&proc, job, 0);
    PMIX_VALUE_CONSTRUCT(&value);
    PMIX_PDATA_CONSTRUCT(&data);
    PMIX_APP_CONSTRUCT(&app);
    IS(0, PMIx_Initialized());
    IS(PMIX_ERR_INIT, PMIx_Finalize(NULL, 0));
    IS(PMIX_ERR_INIT, PMIx_Abort(1, "no", NULL, 0));
    IS(PMIX_ERR_INIT, PMIx_Get(&proc, own_key, NULL, 0, &found));
    IS(PMIX_ERR_INIT, PMIx_Commit());
    IS(PMIX_ERR_INIT, PMIx_Fence(NULL, 0, NULL, 0));
    IS(PMIX_ERR_INIT, PMIx_Fence_nb(NULL, 0, NULL, 0, fences, NULL));
    IS(PMIX_ERR_INIT, PMIx_Lookup(&data, 1, NULL, 0));
    IS(PMIX_ERR_INIT, PMIx_Resolve_nodes(job, &text));
    IS(PMIX_ERR_INIT, PMIx_Spawn(NULL, 0, &app, 1, nspace));
    IS(PMIX_ERR_INIT, PMIx_server_finalize());
    IS(PMIX_ERR_INIT, PMIx_server_register_nspace(job, 1, NULL, 0, NULL, NULL));
    IS(PMIX_ERR_INIT, PMIx_server_register_client(&proc, 0, 0, NULL, NULL, NULL));
    REFUSED(PMIx_Register_event_handler(NULL, 0, NULL, 0, heard, NULL, NULL));
    REFUSED(PMIx_Notify_event(CODE, &proc, PMIX_RANGE_LOCAL, NULL, 0, NULL, NULL));
    PMIx_Heartbeat();
    PMIx_Progress();
    PMIx_server_deregister_nspace(job, NULL, NULL);
    PMIx_server_deregister_client(&proc, NULL, NULL);
}

/* Calls with missing arguments and invalid counts. */
static void bad_arguments(void)
{
    pmix_proc_t proc;
    pmix_value_t value, *found = NULL;
    pmix_info_t info;
    pmix_pdata_t data;
    uint32_t number = 1;
    char *key = full(PMIX_MAX_KEYLEN + 1);
    pmix_data_array_t array = {PMIX_UNDEF, (size_t)1 << 60, &number};
    void *copy;

    PMIX_VALUE_LOAD(&value, &number, PMIX_UINT32);
    PMIX_INFO_LOAD(&info, "key", &number, PMIX_UINT32);
    PMIX_PDATA_CONSTRUCT(&data);
    memset(&proc, 'x', sizeof(proc));
    REFUSED(PMIx_Put(PMIX_GLOBAL, NULL, &value));
    REFUSED(PMIx_Put(PMIX_GLOBAL, own_key, NULL));
    REFUSED(PMIx_Put(PMIX_GLOBAL, no_key, &value));
    REFUSED(PMIx_Put(PMIX_GLOBAL, key, &value));
    value.type = 60000;
    REFUSED(PMIx_Put(PMIX_GLOBAL, own_key, &value));
    value.type = PMIX_DATA_ARRAY;
    value.data.darray = &array;
    for (array.type = PMIX_BOOL; array.type <= PMIX_UINT8; array.type++) {
        REFUSED(PMIx_Put(PMIX_GLOBAL, own_key, &value));
        REFUSED(PMIx_Data_copy(&copy, &array, PMIX_DATA_ARRAY));
    }
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = own_key;
    value.data.bo.size = (size_t)1 << 60;
    REFUSED(PMIx_Put(PMIX_GLOBAL, own_key, &value));
    REFUSED(PMIx_Data_copy(&copy, &value.data.bo, PMIX_BYTE_OBJECT));
    REFUSED(PMIx_Get(NULL, NULL, NULL, 0, &found));
    REFUSED(PMIx_Get(NULL, rank_key, NULL, 0, NULL));
    REFUSED(PMIx_Get(NULL, key, NULL, 0, &found));
    REFUSED(PMIx_Get(NULL, rank_key, &info, HUGE_COUNT, &found));
    REFUSED(PMIx_Get(&proc, own_key, NULL, 0, &found));
    REFUSED(PMIx_Fence(&proc, HUGE_COUNT, NULL, 0));
    REFUSED(PMIx_Fence(&proc, HUGE_COUNT / sizeof(proc), NULL, 0));
    REFUSED(PMIx_Fence(&proc, 1, NULL, 0));
    REFUSED(PMIx_Fence(NULL, 0, &info, HUGE_COUNT));
    REFUSED(PMIx_Publish(&info, HUGE_COUNT));
    REFUSED(PMIx_Lookup(&data, HUGE_COUNT, NULL, 0));
    REFUSED(PMIx_Notify_event(CODE, &proc, PMIX_RANGE_LOCAL, &info, HUGE_COUNT, NULL, NULL));
    REFUSED(PMIx_Connect(&proc, HUGE_COUNT, NULL, 0));
    REFUSED(PMIx_Resolve_nodes(NULL, NULL));
    REFUSED(PMIx_Resolve_peers(NULL, NULL, NULL, NULL));
    PMIX_INFO_DESTRUCT(&info);
}

static void no_growth(int cycle, int cycles)
{
    static long memory;
    static int open;

    if (cycle == cycles / 4) {
        memory = resident();
        open = descriptors();
    } else if (cycle == cycles - 1) {
        /* An allocator may keep this much memory for itself. */
        if (resident() > memory + KEPT_KB || descriptors() > open) {
            fprintf(stderr, "%ld KB and %d descriptors became %ld and %d\n", memory, open, resident(),
                    descriptors());
            exit(1);
        }
    }
}

/* A result without a place for it is not made, because it would leak; a leak checker would find it. */
static void nowhere(void)
{
    char *word = "text";
    void *list = PMIx_Info_list_start();
    pmix_info_t info;

    PMIX_INFO_CONSTRUCT(&info);
    IS(PMIX_SUCCESS, PMIx_Info_load(&info, "key", word, PMIX_STRING));
    IS(PMIX_SUCCESS, PMIx_Info_list_add(list, "key", word, PMIX_STRING));
    REFUSED(PMIx_Info_list_convert(list, NULL));
    PMIx_Info_list_release(list);
    REFUSED(PMIx_Info_load(NULL, "key", word, PMIX_STRING));
    REFUSED(PMIx_Info_xfer(NULL, &info));
    REFUSED(PMIx_Value_load(NULL, word, PMIX_STRING));
    REFUSED(PMIx_Value_xfer(NULL, &info.value));
    REFUSED(PMIx_Data_copy(NULL, word, PMIX_STRING));
    REFUSED(PMIx_Data_print(NULL, NULL, word, PMIX_STRING));
    REFUSED(PMIx_generate_regex("n1,n2", NULL));
    REFUSED(PMIx_generate_ppn("0;1", NULL));
    REFUSED(PMIx_generate_regex2("n1,n2", NULL, 0, NULL));
    REFUSED(PMIx_Get(NULL, PMIX_RANK, NULL, 0, NULL));
    PMIX_INFO_DESTRUCT(&info);
}

static void client(void)
{
    pmix_status_t code = CODE, id;
    pmix_proc_t own;
    pmix_info_t info;
    int cycle;

    PMIX_INFO_CONSTRUCT(&info);
    without_init();
    REFUSED(PMIx_Init(NULL, &info, HUGE_COUNT));
    for (cycle = 0; cycle < CYCLES; cycle++) {
        IS(PMIX_SUCCESS, PMIx_Init(cycle % 2 ? NULL : &own, NULL, cycle % 3));
        IS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
        no_growth(cycle, CYCLES);
    }
    without_init();
    IS(PMIX_SUCCESS, PMIx_Init(&own, NULL, 0));
    IS(PMIX_SUCCESS, PMIx_Init(&own, NULL, 0));
    bad_arguments();
    nowhere();
    IS(PMIX_SUCCESS, PMIx_Fence_nb(NULL, 0, NULL, 0, fences, NULL));
    IS(PMIX_SUCCESS, wait_for_it());
    IS(PMIX_SUCCESS, PMIx_Fence_nb(NULL, 0, NULL, 0, gets, NULL));
    IS(PMIX_SUCCESS, wait_for_it());
    IS(PMIX_SUCCESS, PMIx_Fence_nb(NULL, 0, NULL, 0, registers, NULL));
    REFUSED(wait_for_it());
    id = PMIx_Register_event_handler(&code, 1, NULL, 0, heard, NULL, NULL);
    IS(PMIX_SUCCESS, id < 0 ? id : PMIX_SUCCESS);
    IS(PMIX_SUCCESS, PMIx_Notify_event(CODE, &own, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
    IS(PMIX_SUCCESS, wait_for_it());
    IS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    IS(PMIX_SUCCESS, PMIx_Fence_nb(NULL, 0, NULL, 0, finalizes, NULL));
    IS(PMIX_SUCCESS, wait_for_it());
    IS(PMIX_ERR_INIT, PMIx_Finalize(NULL, 0));
    without_init();
}

static void server(void)
{
    pmix_proc_t proc;
    pmix_info_t info;
    char **env = NULL, *nspace = full(PMIX_MAX_NSLEN + 1);
    int cycle;

    without_init();
    memset(&proc, 'x', sizeof(proc));
    PMIX_INFO_CONSTRUCT(&info);
    REFUSED(PMIx_server_init(NULL, &info, HUGE_COUNT));
    for (cycle = 0; cycle < SERVER_CYCLES; cycle++) {
        IS(PMIX_SUCCESS, PMIx_server_init(NULL, NULL, 0));
        IS(PMIX_SUCCESS, PMIx_server_finalize());
        no_growth(cycle, SERVER_CYCLES);
    }
    without_init();
    IS(PMIX_SUCCESS, PMIx_server_init(NULL, NULL, 0));
    IS(PMIX_SUCCESS, PMIx_server_init(NULL, NULL, 0));
    REFUSED(PMIx_server_register_nspace(NULL, 1, NULL, 0, NULL, NULL));
    REFUSED(PMIx_server_register_nspace(nobody, 1, NULL, 0, NULL, NULL));
    REFUSED(PMIx_server_register_nspace(nspace, 1, NULL, 0, NULL, NULL));
    REFUSED(PMIx_server_register_nspace(job, 1, &info, HUGE_COUNT, NULL, NULL));
    REFUSED(PMIx_server_setup_fork(NULL, &env));
    REFUSED(PMIx_server_setup_fork(&proc, NULL));
    REFUSED(PMIx_server_dmodex_request(NULL, NULL, NULL));
    REFUSED(PMIx_server_define_process_set(&proc, HUGE_COUNT, "set"));
    REFUSED(PMIx_server_define_process_set(&proc, 1, NULL));
    PMIx_server_deregister_nspace(nspace, NULL, NULL);
    PMIx_server_deregister_client(&proc, NULL, NULL);
    IS(PMIX_SUCCESS, PMIx_server_finalize());
    IS(PMIX_SUCCESS, PMIx_server_register_nspace(job, -1, NULL, 0, ends_server, NULL));
    IS(PMIX_SUCCESS, wait_for_it());
    IS(PMIX_ERR_INIT, PMIx_server_finalize());
    without_init();
}

int main(int argc, char **argv)
{
    alarm(150);
    if (argc > 1 && strcmp(argv[1], "server") == 0) {
        server();
    } else {
        client();
    }
    puts("hostile: ok");
    return 0;
}

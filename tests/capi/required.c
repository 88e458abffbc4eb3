/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls with each existing attribute marked as required. `required FILE ROLE`: each line of the file has the key of
 * an attribute, followed by the functions that support it, with blanks between. All other functions must return
 * PMIX_ERR_NOT_SUPPORTED, and the library's own functions must not return it for an attribute that they support. The
 * role is "client", "tool" or "server"; the host of the server has no functions.
 */
#define _GNU_SOURCE
#include <pmix.h>
#include <pmix_server.h>
#include <pmix_tool.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

#define GROUP "required"

static pmix_proc_t own, other;

static void released(pmix_status_t status, pmix_value_t *value, void *cbdata)
{
    (void)status, (void)value, (void)cbdata;
}

static void heard(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                  size_t ninfo, pmix_info_t *results, size_t nresults,
                  pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void)id, (void)status, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static pmix_status_t init(pmix_info_t *info)
{
    return PMIx_Init(NULL, info, 1);
}

static pmix_status_t finalize(pmix_info_t *info)
{
    return PMIx_Finalize(info, 1);
}

static pmix_status_t get(pmix_info_t *info)
{
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&own, PMIX_RANK, info, 1, &value);

    if (NULL != value) {
        PMIX_VALUE_RELEASE(value);
    }
    return status;
}

static pmix_status_t get_nb(pmix_info_t *info)
{
    return PMIx_Get_nb(&own, PMIX_RANK, info, 1, released, NULL);
}

static pmix_status_t register_handler(pmix_info_t *info)
{
    pmix_status_t code = -4711;

    return PMIx_Register_event_handler(&code, 1, info, 1, heard, NULL, NULL);
}

static pmix_status_t invite(pmix_info_t *info)
{
    pmix_info_t *results = NULL;
    size_t nresults = 0;

    return PMIx_Group_invite(GROUP, &own, 1, info, 1, &results, &nresults);
}

static pmix_status_t join(pmix_info_t *info)
{
    pmix_info_t *results = NULL;
    size_t nresults = 0;

    return PMIx_Group_join(GROUP, &other, PMIX_GROUP_ACCEPT, info, 1, &results, &nresults);
}

static pmix_status_t decline(pmix_info_t *info)
{
    pmix_info_t *results = NULL;
    size_t nresults = 0;

    return PMIx_Group_join(GROUP, &other, PMIX_GROUP_DECLINE, info, 1, &results, &nresults);
}

static pmix_status_t distances(pmix_info_t *info)
{
    pmix_device_distance_t *found = NULL;
    size_t nfound = 0;

    return PMIx_Compute_distances(NULL, NULL, info, 1, &found, &nfound);
}

static pmix_status_t generate(pmix_info_t *info)
{
    pmix_regex2_t regex;

    return PMIx_generate_regex2("n1,n2", info, 1, &regex);
}

static pmix_status_t tool_init(pmix_info_t *info)
{
    return PMIx_tool_init(NULL, info, 1);
}

static pmix_status_t attach(pmix_info_t *info)
{
    return PMIx_tool_attach_to_server(NULL, NULL, info, 1);
}

static pmix_status_t connect_to(pmix_info_t *info)
{
    return PMIx_tool_connect_to_server(NULL, info, 1);
}

static pmix_status_t set_server(pmix_info_t *info)
{
    return PMIx_tool_set_server(&other, info, 1);
}

static pmix_status_t allocate(pmix_info_t *info)
{
    pmix_info_t *results = NULL;
    size_t nresults = 0;

    return PMIx_Allocation_request(PMIX_ALLOC_NEW, info, 1, &results, &nresults);
}

static pmix_status_t control_session(pmix_info_t *info)
{
    return PMIx_Session_control(7, info, 1, NULL, NULL);
}

static pmix_status_t define_block(pmix_info_t *info)
{
    static char name[] = "block";
    pmix_resource_unit_t unit;

    PMIx_Resource_unit_construct(&unit);
    unit.type = PMIX_DEVTYPE_GPU;
    unit.count = 1;
    return PMIx_Resource_block(PMIX_RESOURCE_BLOCK_DEFINE, name, &unit, 1, info, 1);
}

static pmix_status_t register_fabric(pmix_info_t *info)
{
    pmix_fabric_t fabric;

    PMIX_FABRIC_CONSTRUCT(&fabric);
    return PMIx_Fabric_register(&fabric, info, 1);
}

/* The status passed to the callback, and a semaphore that it posts. */
static sem_t answered;
static pmix_status_t answer;

static void done(pmix_status_t status, void *cbdata)
{
    (void)cbdata;
    answer = status;
    sem_post(&answered);
}

static void collected(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *cbdata,
                      pmix_release_cbfunc_t release, void *release_cbdata)
{
    (void)info, (void)ninfo;
    if (NULL != release) {
        release(release_cbdata);
    }
    done(status, cbdata);
}

static void set_up(pmix_status_t status, pmix_info_t info[], size_t ninfo, void *provided, pmix_op_cbfunc_t read,
                   void *cbdata)
{
    (void)info, (void)ninfo;
    if (NULL != read) {
        read(PMIX_SUCCESS, cbdata);
    }
    done(status, provided);
}

/* Returns the final status of a call: that of its callback if the function returned success. */
static pmix_status_t in_the_end(pmix_status_t status)
{
    if (PMIX_SUCCESS != status) {
        return status;
    }
    while (sem_wait(&answered) != 0) {
    }
    return answer;
}

static pmix_status_t set_up_application(pmix_info_t *info)
{
    return in_the_end(PMIx_server_setup_application(own.nspace, info, 1, set_up, NULL));
}

static pmix_status_t set_up_support(pmix_info_t *info)
{
    return in_the_end(PMIx_server_setup_local_support(own.nspace, info, 1, done, NULL));
}

static pmix_status_t collect(pmix_info_t *info)
{
    return in_the_end(PMIx_server_collect_inventory(info, 1, collected, NULL));
}

static pmix_status_t deliver(pmix_info_t *info)
{
    return in_the_end(PMIx_server_deliver_inventory(NULL, 0, info, 1, done, NULL));
}

static pmix_status_t stop_input(pmix_info_t *info)
{
    return in_the_end(PMIx_server_IOF_flow_control(&own, PMIX_FWD_STDIN_CHANNEL, true, info, 1, done, NULL));
}

struct call {
    const char *name;
    pmix_status_t (*call)(pmix_info_t *info);
    /* The library needs no host for it, so it succeeds with an attribute that another layer has processed. */
    bool is_own;
};

/* The first function is for tools only; a client gets PMIX_ERR_INIT. */
static const struct call calls[] = {
    {"PMIx_tool_set_server", set_server, true},
    {"PMIx_Init", init, false},
    {"PMIx_Finalize", finalize, false},
    {"PMIx_Get", get, true},
    {"PMIx_Get", get_nb, false},
    {"PMIx_Register_event_handler", register_handler, false},
    {"PMIx_Group_invite", invite, false},
    {"PMIx_Group_join", join, false},
    {"PMIx_Group_join", decline, false},
    {"PMIx_Compute_distances", distances, false},
    {"PMIx_generate_regex2", generate, false},
    {"PMIx_tool_init", tool_init, false},
    {"PMIx_tool_attach_to_server", attach, false},
    {"PMIx_tool_attach_to_server", connect_to, false},
    {"PMIx_Allocation_request", allocate, false},
    {"PMIx_Session_control", control_session, false},
    {"PMIx_Resource_block", define_block, false},
    {"PMIx_Fabric_register", register_fabric, false},
    {NULL, NULL, false},
};

static const struct call calls_of_servers[] = {
    {"PMIx_server_setup_application", set_up_application, true},
    {"PMIx_server_setup_local_support", set_up_support, true},
    {"PMIx_server_collect_inventory", collect, true},
    {"PMIx_server_deliver_inventory", deliver, true},
    {"PMIx_server_IOF_flow_control", stop_input, true},
    {"PMIx_Allocation_request", allocate, false},
    {"PMIx_Session_control", control_session, false},
    {"PMIx_Resource_block", define_block, false},
    {"PMIx_Fabric_register", register_fabric, false},
    {"PMIx_generate_regex2", generate, false},
    {NULL, NULL, false},
};

/* Returns true if a word is among the words of a line. */
static bool has(const char *line, const char *word)
{
    size_t len = strlen(word);
    const char *at = line;

    while ((at = strstr(at, word)) != NULL) {
        if (at > line && at[-1] == ' ' && (at[len] == ' ' || at[len] == '\n' || at[len] == '\0')) {
            return true;
        }
        at += len;
    }
    return false;
}

/* Initializes the role of this process, and returns the calls for it. */
static const struct call *begin(const char *role)
{
    static pmix_server_module_t module;

    if (strcmp(role, "server") == 0) {
        IS(PMIX_SUCCESS, PMIx_server_init(&module, NULL, 0));
        PMIX_LOAD_PROCID(&own, "job@9", 0);
        return calls_of_servers;
    }
    bool is_tool = strcmp(role, "tool") == 0;
    IS(PMIX_SUCCESS, is_tool ? PMIx_tool_init(&own, NULL, 0) : PMIx_Init(&own, NULL, 0));
    PMIX_LOAD_PROCID(&other, own.nspace, own.rank + 1);
    return is_tool ? calls : calls + 1;
}

static pmix_status_t end(const char *role)
{
    if (strcmp(role, "server") == 0) {
        return PMIx_server_finalize();
    }
    return strcmp(role, "tool") == 0 ? PMIx_tool_finalize() : PMIx_Finalize(NULL, 0);
}

int main(int argc, char **argv)
{
    size_t refused = 0, wrong = 0;
    char line[8192];
    bool yes = true;
    const struct call *all;
    FILE *file;

    /* A call that never returns fails the test. */
    alarm(300);
    HOLDS(argc == 3);
    HOLDS((file = fopen(argv[1], "r")) != NULL);
    HOLDS(sem_init(&answered, 0, 0) == 0);
    all = begin(argv[2]);
    while (fgets(line, sizeof line, file) != NULL) {
        pmix_info_t info;
        char key[PMIX_MAX_KEYLEN + 1];

        HOLDS(sscanf(line, "%511s", key) == 1);
        PMIX_INFO_LOAD(&info, key, &yes, PMIX_BOOL);
        PMIX_INFO_REQUIRED(&info);
        for (const struct call *one = all; NULL != one->call; one++) {
            pmix_status_t status;

            if (has(line, one->name)) {
                continue;
            }
            status = one->call(&info);
            refused++;
            if (status != PMIX_ERR_NOT_SUPPORTED) {
                fprintf(stderr, "%s with %s: %s\n", one->name, key, PMIx_Error_string(status));
                wrong++;
            }
            /* An attribute that another layer has processed must not be rejected. */
            if (one->is_own) {
                PMIX_INFO_PROCESSED(&info);
                status = one->call(&info);
                if (status == PMIX_ERR_NOT_SUPPORTED || (one->call == get && status != PMIX_SUCCESS)) {
                    fprintf(stderr, "%s with processed %s: %s\n", one->name, key, PMIx_Error_string(status));
                    wrong++;
                }
                info.flags = PMIX_INFO_REQD;
            }
        }
        PMIX_INFO_DESTRUCT(&info);
    }
    fclose(file);
    HOLDS(wrong == 0);
    IS(PMIX_SUCCESS, end(argv[2]));
    printf("required: %zu refused\n", refused);
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls with each attribute that there is, marked as required. `required FILE`: each line of the file has the key of an
 * attribute and, after a blank each, the functions that obey it. All other functions have to answer
 * PMIX_ERR_NOT_SUPPORTED, and to obey it is never that for the library's own functions.
 */
#include <pmix.h>
#include <pmix_server.h>
#include <pmix_tool.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static const struct {
    const char *name;
    pmix_status_t (*call)(pmix_info_t *info);
} calls[] = {
    {"PMIx_Init", init},
    {"PMIx_Finalize", finalize},
    {"PMIx_Get", get},
    {"PMIx_Get", get_nb},
    {"PMIx_Register_event_handler", register_handler},
    {"PMIx_Group_invite", invite},
    {"PMIx_Group_join", join},
    {"PMIx_Group_join", decline},
    {"PMIx_Compute_distances", distances},
    {"PMIx_generate_regex2", generate},
};

/* Whether a word is among the words of a line. */
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

int main(int argc, char **argv)
{
    size_t refused = 0, wrong = 0;
    char line[8192];
    bool yes = true;
    FILE *file;

    HOLDS(argc == 2);
    HOLDS((file = fopen(argv[1], "r")) != NULL);
    IS(PMIX_SUCCESS, PMIx_Init(&own, NULL, 0));
    PMIX_LOAD_PROCID(&other, own.nspace, own.rank + 1);
    while (fgets(line, sizeof line, file) != NULL) {
        pmix_info_t info;
        char key[PMIX_MAX_KEYLEN + 1];

        HOLDS(sscanf(line, "%511s", key) == 1);
        PMIX_INFO_LOAD(&info, key, &yes, PMIX_BOOL);
        PMIX_INFO_REQUIRED(&info);
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            pmix_status_t status;

            if (has(line, calls[i].name)) {
                continue;
            }
            status = calls[i].call(&info);
            refused++;
            if (status != PMIX_ERR_NOT_SUPPORTED) {
                fprintf(stderr, "%s with %s: %s\n", calls[i].name, key, PMIx_Error_string(status));
                wrong++;
            }
            /* Where another layer has done what is required, there is nothing to refuse. */
            if (calls[i].call == get) {
                PMIX_INFO_PROCESSED(&info);
                IS(PMIX_SUCCESS, calls[i].call(&info));
                info.flags = PMIX_INFO_REQD;
            }
        }
        PMIX_INFO_DESTRUCT(&info);
    }
    fclose(file);
    HOLDS(wrong == 0);
    IS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    printf("required: %zu refused\n", refused);
    return 0;
}

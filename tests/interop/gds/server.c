/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A server that registers jobs and answers gets, one line each. */
#include "gds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The time limit of a request in seconds, which ends the server if the library hangs. */
#define PATIENCE 60

/* Adds PMIX_OPTIONAL to the infos, which restricts a get to the data of this server. */
static pmix_info_t *with_optional(pmix_info_t *infos, size_t *count)
{
    pmix_info_t *more = realloc(infos, (*count + 1) * sizeof(*infos));
    if (NULL != more) {
        memset(&more[*count], 0, sizeof(*more));
        strncpy(more[*count].key, PMIX_OPTIONAL, PMIX_MAX_KEYLEN);
        more[*count].value.type = PMIX_BOOL;
        more[*count].value.data.flag = true;
        (*count)++;
    }
    return more;
}

/* Answers `job NSPACE NLOCAL INFO...` and `update` with the status of the registration. */
static void answer_job(words_t *words, bytes_t nspace)
{
    const char *fault = NULL;
    char *local = next_word(words);
    size_t count = 0;
    pmix_info_t *infos = read_infos(words, &count, &fault);
    if (NULL == local || NULL != fault) {
        printf("error %s\n", NULL == local ? "no number of local processes" : fault);
        return;
    }
    int num_local = (int) strtol(local, NULL, 10);
    printf("%d\n",
           PMIx_server_register_nspace(nspace.data, num_local, infos, count, NULL, NULL));
}

/* Answers `get NSPACE RANK KEY INFO...` with the status and the value; `-` is the null key. */
static void answer_get(words_t *words, bytes_t nspace)
{
    const char *fault = NULL;
    char *rank = next_word(words), *key = next_word(words);
    size_t count = 0;
    pmix_info_t *infos = read_infos(words, &count, &fault);
    if (NULL == rank || NULL == key || NULL != fault) {
        printf("error %s\n", NULL == fault ? "expected NSPACE RANK KEY" : fault);
        return;
    }
    infos = with_optional(infos, &count);
    pmix_proc_t proc;
    pmix_value_t *value = NULL;
    memset(&proc, 0, sizeof(proc));
    strncpy(proc.nspace, nspace.data, PMIX_MAX_NSLEN);
    proc.rank = (pmix_rank_t) strtoul(rank, NULL, 10);
    const char *asked = 0 == strcmp(key, "-") ? NULL : key;
    pmix_status_t status = PMIx_Get(&proc, asked, infos, count, &value);
    printf("%d ", status);
    show_value(PMIX_SUCCESS == status ? value : NULL);
    putchar('\n');
}

static void answer(char *line)
{
    words_t words;
    bytes_t nspace;
    char *what = strtok_r(line, " \n", &words.at);
    char *name = NULL == what ? NULL : next_word(&words);
    if (NULL == name || bytes_from_hex(name, &nspace) != 0) {
        puts("error expected a request and a namespace in hex");
    } else if (0 == strcmp(what, "job") || 0 == strcmp(what, "update")) {
        answer_job(&words, nspace);
    } else if (0 == strcmp(what, "get")) {
        answer_get(&words, nspace);
    } else {
        puts("error a request that is not known");
    }
}

int serve(FILE *requests, const char *directory)
{
    pmix_info_t info;
    memset(&info, 0, sizeof(info));
    strncpy(info.key, PMIX_SERVER_TMPDIR, PMIX_MAX_KEYLEN);
    info.value.type = PMIX_STRING;
    info.value.data.string = (char *) directory;
    pmix_status_t status = PMIx_server_init(NULL, &info, 1);
    if (PMIX_SUCCESS != status) {
        fprintf(stderr, "PMIx_server_init: %d\n", status);
        return 1;
    }
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, requests) > 0) {
        alarm(PATIENCE);
        answer(line);
        alarm(0);
        fflush(stdout);
    }
    free(line);
    PMIx_server_finalize();
    return 0;
}

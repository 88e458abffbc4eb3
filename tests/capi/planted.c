/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Programs that use the library wrongly, and in which the tools must find the fault. Only then does a clean run of
 * other programs mean anything. The argument selects the fault.
 */
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char **shared;

static void *appends(void *unused)
{
    int i;
    (void)unused;
    for (i = 0; i < 100; i++) {
        PMIx_Argv_count(shared);
        shared[0][0] = 'a';
        PMIx_Argv_join(shared, ',');
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *fault = argc > 1 ? argv[1] : "";
    char **list = malloc(4 * sizeof(char *));

    if (NULL == list) {
        return 70;
    }
    if (0 == strcmp(fault, "none")) {
        list[0] = NULL;
        PMIx_Argv_count(list);
    } else if (0 == strcmp(fault, "leak")) {
        PMIx_Info_create(3);
    } else if (0 == strcmp(fault, "uninitialised")) {
        PMIx_Argv_count(list);
    } else if (0 == strcmp(fault, "overflow")) {
        list[0] = list[1] = list[2] = list[3] = "a";
        PMIx_Argv_count(list);
    } else if (0 == strcmp(fault, "freed")) {
        pmix_info_t *infos = PMIx_Info_create(1);
        pmix_info_t copy;
        PMIx_Info_free(infos, 1);
        PMIx_Info_xfer(&copy, infos);
    } else if (0 == strcmp(fault, "race")) {
        pthread_t other;
        shared = NULL;
        PMIx_Argv_append_nosize(&shared, "text");
        if (0 != pthread_create(&other, NULL, appends, NULL)) {
            return 70;
        }
        appends(NULL);
        pthread_join(other, NULL);
        PMIx_Argv_free(shared);
    } else {
        return 64;
    }
    free(list);
    return 0;
}

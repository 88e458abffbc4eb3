/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Job info of a launcher: the place of ranks in the universe, the command line and the directories. The job is one
 * application on one node. */
#define _GNU_SOURCE
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pmix_rank_t get_rank(pmix_rank_t rank, const char *key)
{
    pmix_proc_t proc = peer(rank);
    pmix_value_t *value = NULL;
    must(key, PMIx_Get(&proc, key, NULL, 0, &value));
    require(PMIX_PROC_RANK == value->type);
    pmix_rank_t found = value->data.rank;
    PMIX_VALUE_RELEASE(value);
    return found;
}

static void of_the_universe(void)
{
    require(get_number(PMIX_RANK_WILDCARD, PMIX_UNIV_SIZE) >= size);
    pmix_rank_t offset = get_rank(PMIX_RANK_WILDCARD, PMIX_NPROC_OFFSET);
    for (pmix_rank_t rank = 0; rank < size; rank++) {
        require(get_rank(rank, PMIX_GLOBAL_RANK) == offset + rank);
        require(get_rank(rank, PMIX_APP_RANK) == rank);
        require(get_number(rank, PMIX_APPNUM) == 0);
        require(get_number(rank, PMIX_REINCARNATION) == 0);
    }
}

static void of_the_node(void)
{
    bool yes = true;
    char *here = get_text(me.rank, PMIX_HOSTNAME);
    pmix_info_t infos[2];
    PMIX_INFO_LOAD(&infos[0], PMIX_NODE_INFO, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_HOSTNAME, here, PMIX_STRING);
    pmix_value_t *value = NULL;
    must(PMIX_NODE_SIZE, PMIx_Get(&job, PMIX_NODE_SIZE, infos, 2, &value));
    require(PMIX_UINT32 == value->type && value->data.uint32 == size);
    PMIX_VALUE_RELEASE(value);
    PMIX_INFO_DESTRUCT(&infos[1]);
    free(here);
}

static void of_the_application(const char *program)
{
    require(get_number(PMIX_RANK_WILDCARD, PMIX_JOB_NUM_APPS) == 1);
    char *text = get_text(PMIX_RANK_WILDCARD, PMIX_APP_ARGV);
    /* An analysis tool may precede the program. */
    require(NULL != strstr(text, program));
    free(text);
    char here[4096];
    require(here == getcwd(here, sizeof(here)));
    text = get_text(PMIX_RANK_WILDCARD, PMIX_WDIR);
    require(0 == strcmp(text, here));
    free(text);
}

static void is_directory(pmix_rank_t rank, const char *key)
{
    struct stat about;
    char *path = get_text(rank, key);
    require(0 == stat(path, &about) && S_ISDIR(about.st_mode));
    free(path);
}

int main(int argc, char **argv)
{
    (void) argc;
    begin();
    of_the_universe();
    of_the_node();
    of_the_application(argv[0]);
    is_directory(PMIX_RANK_WILDCARD, PMIX_TMPDIR);
    is_directory(PMIX_RANK_WILDCARD, PMIX_NSDIR);
    is_directory(me.rank, PMIX_PROCDIR);
    fence_all(false);
    end();
    return 0;
}

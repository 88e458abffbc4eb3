/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A launcher without an allocator refuses requests for allocations and resource blocks, of processes and of tools:
 * rank 0 is a process, rank 1 a tool that finds the server by its process ID. */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <pmix_tool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE 20000

/* The function, its directives and its resource unit, which headers of releases up to 5.0 do not declare. */
typedef struct {
    uint64_t type;
    size_t count;
} unit_t;
typedef pmix_status_t (*block_t)(uint8_t directive, char *block, const unit_t *units, size_t num_units,
                                 const pmix_info_t *infos, size_t num_infos);
enum { DEFINE = 1, EXTEND = 2, REMOVE = 3, DELETE = 4 };

static void ended(pmix_status_t status, pmix_info_t *infos, size_t num_infos, void *cbdata,
                  pmix_release_cbfunc_t release, void *release_data)
{
    require(0 == num_infos || NULL != infos);
    if (NULL != release) {
        release(release_data);
    }
    arrive(cbdata, status, 0);
}

static void asks(void)
{
    pmix_alloc_directive_t directives[]
        = {PMIX_ALLOC_NEW, PMIX_ALLOC_EXTEND, PMIX_ALLOC_RELEASE, PMIX_ALLOC_REAQUIRE};
    uint64_t nodes = 1;
    arrival_t arrival = ARRIVAL;
    pmix_info_t info;

    PMIX_INFO_LOAD(&info, PMIX_ALLOC_NUM_NODES, &nodes, PMIX_UINT64);
    for (size_t n = 0; n < 4; n++) {
        pmix_info_t *results = NULL;
        size_t num_results = 0;
        must_be("PMIx_Allocation_request",
                PMIx_Allocation_request(directives[n], &info, 1, &results, &num_results),
                PMIX_ERR_NOT_SUPPORTED);
        require(0 == num_results);
    }
    must("PMIx_Allocation_request_nb",
         PMIx_Allocation_request_nb(PMIX_ALLOC_NEW, &info, 1, ended, &arrival));
    require(await(&arrival, 1, PATIENCE));
    must_be("the answer", arrival.status, PMIX_ERR_NOT_SUPPORTED);
    block_t block = NULL;
    unit_t unit = {.type = 0, .count = 2};
    *(void **) &block = dlsym(RTLD_DEFAULT, "PMIx_Resource_block");
    for (uint8_t directive = DEFINE; NULL != block && directive <= DELETE; directive++) {
        must_be("PMIx_Resource_block", block(directive, "spare", &unit, 1, NULL, 0),
                PMIX_ERR_NOT_SUPPORTED);
    }
}

static void be_tool(void)
{
    pmix_proc_t own;
    pmix_info_t info;
    pid_t pid = getppid();
    forget_the_server();
    PMIX_INFO_LOAD(&info, PMIX_SERVER_PIDINFO, &pid, PMIX_PID);
    must("PMIx_tool_init", PMIx_tool_init(&own, &info, 1));
    asks();
    must("PMIx_tool_finalize", PMIx_tool_finalize());
}

int main(void)
{
    if (0 == strcmp("1", getenv("PMIX_RANK"))) {
        be_tool();
        return 0;
    }
    begin();
    asks();
    end();
    return 0;
}

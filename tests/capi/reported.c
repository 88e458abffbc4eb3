/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host whose call is rejected. The reason is logged only if the environment asks for it.
 */
#include <pmix_server.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

int main(void)
{
    static pmix_server_module_t module;
    pmix_nspace_t job;
    pmix_info_t info;

    PMIX_LOAD_NSPACE(job, "job");
    IS(PMIX_SUCCESS, PMIx_server_init(&module, NULL, 0));
    PMIX_INFO_LOAD(&info, PMIX_NODE_MAP, "pmix[cut", PMIX_STRING);
    IS(PMIX_ERR_BAD_PARAM, PMIx_server_register_nspace(job, 1, &info, 1, NULL, NULL));
    PMIX_INFO_DESTRUCT(&info);
    IS(PMIX_SUCCESS, PMIx_server_finalize());
    return 0;
}

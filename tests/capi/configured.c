/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host that encodes maps with the encoders that the environment and files configure. It prints the status and the
 * map of a node list and of a process map, twice, and the status of init.
 */
#include <pmix_server.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    pmix_status_t status;
    char *map;

    if (argc != 3) {
        return 2;
    }
    for (int times = 0; times < 2; times++) {
        map = NULL;
        status = PMIx_generate_regex(argv[1], &map);
        printf("%d %s\n", status, map == NULL ? "-" : map);
        free(map);
        map = NULL;
        status = PMIx_generate_ppn(argv[2], &map);
        printf("%d %s\n", status, map == NULL ? "-" : map);
        free(map);
    }
    status = PMIx_server_init(NULL, NULL, 0);
    printf("%d\n", status);
    if (status == PMIX_SUCCESS) {
        PMIx_server_finalize();
    }
    return 0;
}

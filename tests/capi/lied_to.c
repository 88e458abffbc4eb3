/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A process whose server may send wrong data. It initializes, gets a value of rank 1, and prints the statuses of both
 * and its peak memory in KiB. It must exit within a minute whatever the server sends.
 */
#define _GNU_SOURCE
#include <pmix.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Returns the peak memory of this process in KiB. */
static long peak(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long size = -1;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0) {
            sscanf(line + 6, "%ld", &size);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return size;
}

int main(void)
{
    pmix_proc_t own, peer;
    pmix_value_t *value = NULL;
    pmix_status_t begun, got = PMIX_ERR_INIT;

    alarm(60);
    begun = PMIx_Init(&own, NULL, 0);
    if (begun == PMIX_SUCCESS) {
        PMIX_LOAD_PROCID(&peer, own.nspace, 1);
        got = PMIx_Get(&peer, "text", NULL, 0, &value);
        if (got == PMIX_SUCCESS) {
            PMIX_VALUE_RELEASE(value);
        }
    }
    printf("%d %d %ld\n", begun, got, peak());
    return 0;
}

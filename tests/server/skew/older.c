/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Functions that the headers of 4 call and a library of 3.2 lacks, for the values of the checks. */
#define _GNU_SOURCE
#include <pmix.h>
#include <stdio.h>

pmix_status_t PMIx_Info_load(pmix_info_t *info, const char *key, const void *data,
                             pmix_data_type_t type)
{
    *info = (pmix_info_t) {.value = {.type = type}};
    snprintf(info->key, sizeof(info->key), "%s", key);
    if (PMIX_BOOL != type) {
        return PMIX_ERR_NOT_SUPPORTED;
    }
    info->value.data.flag = NULL == data || *(const bool *) data;
    return PMIX_SUCCESS;
}

/* Memory of a value is freed only at the exit of the process. */
void PMIx_Value_destruct(pmix_value_t *value)
{
    *value = (pmix_value_t) {.type = PMIX_UNDEF};
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Data that no message can carry. Arrays that are nested too deeply are rejected by every function that reads or
 * copies them, and freed by every function that frees them. A value that is too large for the message of a commit
 * is rejected by the put, and the client continues.
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 64
#define MANY 10000
/* Too large for a message of 64 MiB twice; global data are sent twice. */
#define LONG ((size_t)33 << 20)
/* Too large for a message once. */
#define LONGER ((size_t)64 << 20)
#define IS(expected, found) is(__LINE__, #found, expected, found)

static void is(int line, const char *what, long expected, long found)
{
    if (found != expected) {
        fprintf(stderr, "line %d: %s: %ld, not %ld\n", line, what, found, expected);
        exit(1);
    }
}

static void *room(size_t size)
{
    void *made = calloc(1, size);

    if (made == NULL) {
        exit(2);
    }
    return made;
}

/* Returns an info with `depth` nested arrays, all in memory that may be freed. */
static pmix_info_t *nested(int depth)
{
    pmix_info_t *info = room(sizeof(*info));
    int i;

    strcpy(info->key, "leaf");
    info->value.type = PMIX_UINT64;
    for (i = 0; i < depth; i++) {
        pmix_info_t *outer = room(sizeof(*outer));
        pmix_data_array_t *array = room(sizeof(*array));

        array->type = PMIX_INFO;
        array->size = 1;
        array->array = info;
        strcpy(outer->key, "level");
        outer->value.type = PMIX_DATA_ARRAY;
        outer->value.data.darray = array;
        info = outer;
    }
    return info;
}

static void copies(void)
{
    pmix_info_t *most = nested(MOST), *more = nested(MOST + 1), *many = nested(MANY);
    pmix_value_t value;
    pmix_info_t info;

    IS(PMIX_SUCCESS, PMIx_Value_xfer(&value, &most->value));
    PMIX_VALUE_DESTRUCT(&value);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Value_xfer(&value, &more->value));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Value_xfer(&value, &many->value));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Info_xfer(&info, many));
    /* A rejected copy does not change the counted depth. */
    IS(PMIX_SUCCESS, PMIx_Value_xfer(&value, &most->value));
    PMIx_Value_destruct(&value);
    PMIx_Info_free(most, 1);
    PMIx_Info_free(more, 1);
    PMIx_Info_free(many, 1);
}

static void puts_and_sends(void)
{
    pmix_info_t *most = nested(MOST), *more = nested(MOST + 1), *many = nested(MANY);
    pmix_info_t *small = nested(0);
    pmix_data_range_t range = PMIX_RANGE_LOCAL;
    pmix_value_t *found = NULL;
    pmix_proc_t own;

    IS(PMIX_SUCCESS, PMIx_Init(&own, NULL, 0));
    IS(PMIX_SUCCESS, PMIx_Put(PMIX_GLOBAL, "most", &most->value));
    IS(PMIX_SUCCESS, PMIx_Commit());
    IS(PMIX_ERR_BAD_PARAM, PMIx_Put(PMIX_GLOBAL, "more", &more->value));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Put(PMIX_GLOBAL, "many", &many->value));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Store_internal(&own, "many", &many->value));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Publish(more, 1));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Notify_event(-4711, &own, range, many, 1, NULL, NULL));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Fence(&own, 1, many, 1));
    /* The rejected data were not put. */
    IS(PMIX_SUCCESS, PMIx_Put(PMIX_GLOBAL, "small", &small->value));
    IS(PMIX_SUCCESS, PMIx_Commit());
    IS(PMIX_SUCCESS, PMIx_Fence(&own, 1, NULL, 0));
    IS(PMIX_SUCCESS, PMIx_Get(&own, "most", NULL, 0, &found));
    IS(PMIX_EQUAL, PMIx_Value_compare(&most->value, found));
    PMIX_VALUE_RELEASE(found);
    IS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    PMIx_Info_free(small, 1);
    PMIx_Info_free(most, 1);
    PMIx_Info_free(more, 1);
    PMIx_Info_free(many, 1);
}

static void commits(void)
{
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT}, number = {.type = PMIX_UINT64};
    pmix_value_t *found = NULL;
    pmix_proc_t own;

    value.data.bo.bytes = room(LONGER);
    value.data.bo.size = LONGER;
    IS(PMIX_SUCCESS, PMIx_Init(&own, NULL, 0));
    IS(PMIX_ERR_OUT_OF_RESOURCE, PMIx_Put(PMIX_LOCAL, "long", &value));
    /* The rejected value was not put. */
    IS(PMIX_SUCCESS, PMIx_Put(PMIX_GLOBAL, "long", &number));
    IS(PMIX_SUCCESS, PMIx_Commit());
    /* Global data are sent twice, and another large value is sent as well, so each commit is several messages. */
    value.data.bo.size = LONG;
    IS(PMIX_SUCCESS, PMIx_Put(PMIX_GLOBAL, "both", &value));
    IS(PMIX_SUCCESS, PMIx_Put(PMIX_REMOTE, "more", &value));
    IS(PMIX_SUCCESS, PMIx_Commit());
    IS(PMIX_SUCCESS, PMIx_Fence(&own, 1, NULL, 0));
    IS(PMIX_SUCCESS, PMIx_Get(&own, "long", NULL, 0, &found));
    PMIX_VALUE_RELEASE(found);
    /* A removal has no value. */
    IS(PMIX_SUCCESS, PMIx_Put(PMIX_DEL_GLOBAL, "both", NULL));
    IS(PMIX_SUCCESS, PMIx_Commit());
    IS(PMIX_ERR_NOT_FOUND, PMIx_Get(&own, "both", NULL, 0, &found));
    IS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    free(value.data.bo.bytes);
}

int main(void)
{
    copies();
    puts_and_sends();
    commits();
    printf("unsendable: ok\n");
    return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Published data of the job, with lookups that wait. All of it runs on the library's progress thread. */
#define _GNU_SOURCE
#include "host.h"

#include <stdlib.h>
#include <string.h>

typedef struct item {
    struct item *next;
    pmix_proc_t owner;
    pmix_info_t info;
} item_t;

/* A lookup that waits until all of its keys are published. */
typedef struct waiting {
    struct waiting *next;
    char **keys;
    pmix_lookup_cbfunc_t done;
    void *cbdata;
} waiting_t;

static item_t *items;
static waiting_t *waiting;

static item_t *find(const char *key)
{
    for (item_t *item = items; NULL != item; item = item->next) {
        if (PMIX_CHECK_KEY(&item->info, key)) {
            return item;
        }
    }
    return NULL;
}

/* Answers a lookup with the published data of these keys. */
static void tell(char **keys, pmix_lookup_cbfunc_t done, void *cbdata)
{
    size_t found = 0, asked = (size_t) pmix_argv_count(keys);
    pmix_pdata_t *data = calloc(asked + 1, sizeof(*data));
    for (size_t i = 0; i < asked; i++) {
        item_t *item = find(keys[i]);
        if (NULL != item) {
            data[found].proc = item->owner;
            PMIX_LOAD_KEY(data[found].key, keys[i]);
            PMIx_Value_xfer(&data[found].value, &item->info.value);
            found++;
        }
    }
    pmix_status_t status = 0 == found ? PMIX_ERR_NOT_FOUND : PMIX_SUCCESS;
    if (0 < found && found < asked) {
        status = PMIX_ERR_PARTIAL_SUCCESS;
    }
    done(status, data, found, cbdata);
    for (size_t i = 0; i < found; i++) {
        PMIX_VALUE_DESTRUCT(&data[i].value);
    }
    free(data);
}

static bool all_there(char **keys)
{
    for (char **key = keys; NULL != *key; key++) {
        if (NULL == find(*key)) {
            return false;
        }
    }
    return true;
}

/* Answers every lookup whose keys are all published. */
static void wake(void)
{
    for (waiting_t **at = &waiting; NULL != *at;) {
        waiting_t *one = *at;
        if (!all_there(one->keys)) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        tell(one->keys, one->done, one->cbdata);
        pmix_argv_free(one->keys);
        free(one);
    }
}

static pmix_status_t publish(const pmix_proc_t *proc, const pmix_info_t *infos, size_t num_infos,
                             pmix_op_cbfunc_t done, void *cbdata)
{
    (void) done, (void) cbdata;
    for (size_t i = 0; i < num_infos; i++) {
        if (NULL != find(infos[i].key)) {
            return PMIX_ERR_DUPLICATE_KEY;
        }
    }
    for (size_t i = 0; i < num_infos; i++) {
        if (PMIX_CHECK_RESERVED_KEY(infos[i].key)) {
            continue;
        }
        item_t *item = calloc(1, sizeof(*item));
        item->owner = *proc;
        PMIX_INFO_XFER(&item->info, &infos[i]);
        item->next = items;
        items = item;
    }
    wake();
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t *infos,
                            size_t num_infos, pmix_lookup_cbfunc_t done, void *cbdata)
{
    (void) proc;
    bool waits = false;
    for (size_t i = 0; i < num_infos; i++) {
        waits = waits || PMIX_CHECK_KEY(&infos[i], PMIX_WAIT);
    }
    if (!waits || all_there(keys)) {
        tell(keys, done, cbdata);
        return PMIX_SUCCESS;
    }
    waiting_t *one = calloc(1, sizeof(*one));
    for (char **key = keys; NULL != *key; key++) {
        pmix_argv_append_nosize(&one->keys, *key);
    }
    one->done = done;
    one->cbdata = cbdata;
    one->next = waiting;
    waiting = one;
    return PMIX_SUCCESS;
}

static pmix_status_t unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t *infos,
                               size_t num_infos, pmix_op_cbfunc_t done, void *cbdata)
{
    (void) infos, (void) num_infos, (void) done, (void) cbdata;
    for (item_t **at = &items; NULL != *at;) {
        item_t *item = *at;
        bool named = NULL == keys;
        for (char **key = keys; NULL != key && NULL != *key; key++) {
            named = named || PMIX_CHECK_KEY(&item->info, *key);
        }
        if (!named || item->owner.rank != proc->rank) {
            at = &item->next;
            continue;
        }
        *at = item->next;
        PMIX_VALUE_DESTRUCT(&item->info.value);
        free(item);
    }
    return PMIX_OPERATION_SUCCEEDED;
}

void board_join(pmix_server_module_t *module)
{
    module->publish = publish;
    module->lookup = lookup;
    module->unpublish = unpublish;
}

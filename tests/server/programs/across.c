/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `across [asked]`: a Slurm job over several nodes. The placement must be that of Slurm's environment, and every
 * process gets the data of all others by a fence that collects; with `asked`, first other data by direct modex.
 * Publishing must be refused, and events must reach the processes of the node. By default Slurm 22.05 completes a
 * fence without data on each node alone, so this program relies on none. */
#define _GNU_SOURCE
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A code of the range that PMIx leaves to its users. */
#define TOLD (PMIX_EXTERNAL_ERR_BASE - 1)
#define PATIENCE 20000

static char host[256];
static arrival_t told = ARRIVAL;

static uint32_t number_of(const char *name)
{
    const char *text = getenv(name);
    if (NULL == text) {
        wrong("no %s", name);
    }
    return (uint32_t) strtoul(text, NULL, 10);
}

static uint16_t get_short(const char *key)
{
    pmix_value_t *value = NULL;
    must(key, PMIx_Get(&me, key, NULL, 0, &value));
    require(value->type == PMIX_UINT16);
    uint16_t number = value->data.uint16;
    PMIX_VALUE_RELEASE(value);
    return number;
}

/* Compares the server's job info with Slurm's environment. */
static void check_place(void)
{
    require(me.rank == number_of("SLURM_PROCID"));
    require(size == number_of("SLURM_NTASKS"));
    require(get_short(PMIX_LOCAL_RANK) == number_of("SLURM_LOCALID"));
    char *name = get_text(me.rank, PMIX_HOSTNAME);
    if (0 != strcmp(name, host)) {
        wrong("the server says %s, this is %s", name, host);
    }
    free(name);
}

/* Compares the local ranks with the host names that the processes put. */
static void check_peers(char **hosts)
{
    char *expected = NULL, *found = get_text(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS);
    size_t len = 0;
    FILE *text = open_memstream(&expected, &len);
    for (pmix_rank_t rank = 0, first = 1; rank < size; rank++) {
        if (0 == strcmp(hosts[rank], host)) {
            fprintf(text, first ? "%u" : ",%u", rank);
            first = 0;
        }
    }
    fclose(text);
    if (0 != strcmp(expected, found)) {
        wrong("the ranks here are %s, not %s", expected, found);
    }
    free(expected);
    free(found);
}

/* Gets all data of all processes, which the fence collected. */
static void collected(void)
{
    put_text(PMIX_GLOBAL, "a.host", host);
    put_number(PMIX_REMOTE, "a.remote", 1000 + me.rank);
    must("PMIx_Commit", PMIx_Commit());
    fence_all(true);
    char **hosts = calloc(size, sizeof(*hosts));
    for (pmix_rank_t rank = 0; rank < size; rank++) {
        hosts[rank] = get_text(rank, "a.host");
        char *name = get_text(rank, PMIX_HOSTNAME);
        if (0 != strcmp(name, hosts[rank])) {
            wrong("rank %u is on %s, its server says %s", rank, hosts[rank], name);
        }
        free(name);
        if (0 != strcmp(hosts[rank], host)) {
            require(get_number(rank, "a.remote") == 1000 + rank);
        }
    }
    check_peers(hosts);
    for (pmix_rank_t rank = 0; rank < size; rank++) {
        free(hosts[rank]);
    }
    free(hosts);
}

/* Gets a number, and retries until the process has committed it. */
static uint32_t get_committed(pmix_rank_t rank, const char *key)
{
    pmix_proc_t proc = peer(rank);
    for (uint64_t begun = now_ns(); now_ns() - begun < 20000000000u; usleep(20000)) {
        pmix_value_t *value = NULL;
        pmix_status_t status = PMIx_Get(&proc, key, NULL, 0, &value);
        if (PMIX_SUCCESS == status) {
            require(PMIX_UINT32 == value->type);
            uint32_t number = value->data.uint32;
            PMIX_VALUE_RELEASE(value);
            return number;
        }
        must_be(key, status, PMIX_ERR_NOT_FOUND);
    }
    wrong("%s of rank %u never came", key, rank);
}

/* Gets data that no fence collected: each get is a request to the server of the other process. */
static void asked_for(void)
{
    char text[20001];
    put_number(PMIX_GLOBAL, "a.early", 10 + me.rank);
    memset(text, 'a' + (int) (me.rank % 26), sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    pmix_value_t bytes = {.type = PMIX_BYTE_OBJECT, .data.bo = {.bytes = text, .size = sizeof(text)}};
    must("PMIx_Put", PMIx_Put(PMIX_GLOBAL, "a.bytes", &bytes));
    must("PMIx_Commit", PMIx_Commit());
    /* Start with the next rank, so that not all processes ask rank 0 at the same time. */
    for (uint32_t i = 1; i <= size; i++) {
        pmix_rank_t rank = (me.rank + i) % size;
        require(get_committed(rank, "a.early") == 10 + rank);
    }
    pmix_proc_t other = peer((me.rank + size / 2) % size);
    pmix_value_t *value = NULL;
    must("a.bytes", PMIx_Get(&other, "a.bytes", NULL, 0, &value));
    require(PMIX_BYTE_OBJECT == value->type && sizeof(text) == value->data.bo.size);
    require(value->data.bo.bytes[0] == 'a' + (int) (other.rank % 26));
    PMIX_VALUE_RELEASE(value);
    fence_all(true);
}

/* Checks that publishing fails at once: Slurm's server does not support it. */
static void publish(void)
{
    uint32_t number = 7;
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, "a.published", &number, PMIX_UINT32);
    must_be("PMIx_Publish", PMIx_Publish(&info, 1), PMIX_ERR_NOT_SUPPORTED);
    pmix_pdata_t data;
    memset(&data, 0, sizeof(data));
    snprintf(data.key, sizeof(data.key), "a.published");
    must_be("PMIx_Lookup", PMIx_Lookup(&data, 1, NULL, 0), PMIX_ERR_NOT_SUPPORTED);
}

static void on_told(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                    pmix_info_t *infos, size_t num_infos, pmix_info_t *results, size_t num_results,
                    pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) infos, (void) num_infos, (void) results, (void) num_results;
    if (NULL != done) {
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    }
    arrive(&told, status, source->rank);
    (void) reference;
}

static void registered(pmix_status_t status, size_t reference, void *cbdata)
{
    arrive(cbdata, status, reference);
}

/* Notifies the local processes from the first one of each node. */
static void events(void)
{
    arrival_t listening = ARRIVAL, sent = ARRIVAL;
    pmix_status_t code = TOLD;
    PMIx_Register_event_handler(&code, 1, NULL, 0, on_told, registered, &listening);
    require(await(&listening, 1, PATIENCE));
    must("registering a handler", listening.status);
    fence_all(false);
    if (0 == number_of("SLURM_LOCALID")) {
        bool yes = true;
        pmix_info_t info;
        PMIX_INFO_LOAD(&info, PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
        pmix_status_t status = PMIx_Notify_event(TOLD, &me, PMIX_RANGE_LOCAL, &info, 1, op_done, &sent);
        if (PMIX_OPERATION_SUCCEEDED != status) {
            must("PMIx_Notify_event", status);
            require(await(&sent, 1, PATIENCE));
            must("PMIx_Notify_event", sent.status);
        }
    }
    require(await(&told, 1, PATIENCE));
    require(TOLD == told.status);
    fence_all(false);
}

int main(int argc, char **argv)
{
    /* Nodes with namespaces have host names of their own; other nodes are only names in Slurm. */
    const char *name = NULL == getenv("CHECK_NODES") ? NULL : getenv("SLURMD_NODENAME");
    gethostname(host, sizeof(host));
    if (NULL != name) {
        snprintf(host, sizeof(host), "%s", name);
    }
    begin();
    check_place();
    if (argc > 1 && 0 == strcmp(argv[1], "asked")) {
        asked_for();
    }
    collected();
    publish();
    events();
    end();
    return 0;
}

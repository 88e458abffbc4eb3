/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Expansion of maps by a library, read through its public API.
 *
 * No public call expands a map. A server that registers a job expands both maps, however, and PMIx_Get returns the
 * results: the node list in order, the host of each rank, the ranks of each node. The map under test is registered
 * with a trivial counterpart: one rank per node for a node map, hosts h0, h1, ... for a process map. */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The status of PMIx_server_register_nspace if it will not call back. */
#define DONE_INLINE PMIX_OPERATION_SUCCEEDED

static void fill_map(pmix_info_t *info, const char *key, bytes_t map)
{
    memset(info, 0, sizeof(*info));
    strncpy(info->key, key, PMIX_MAX_KEYLEN);
    info->value.type = PMIX_REGEX;
    info->value.data.bo.bytes = map.data;
    /* The size of a text form includes its NUL; that of a blob does not. */
    info->value.data.bo.size = map.len + (0 == strncmp(map.data, "blob:", 5) ? 0 : 1);
}

static void fill_flag(pmix_info_t *info, const char *key)
{
    memset(info, 0, sizeof(*info));
    strncpy(info->key, key, PMIX_MAX_KEYLEN);
    info->value.type = PMIX_BOOL;
    info->value.data.flag = true;
}

/* Gives each job a new name, so that data of an earlier job cannot be returned. */
static void next_job(pmix_proc_t *job)
{
    static unsigned long count;
    memset(job, 0, sizeof(*job));
    snprintf(job->nspace, sizeof(job->nspace), "interop-%lu", ++count);
    job->rank = PMIX_RANK_WILDCARD;
}

static pmix_status_t register_job(const pmix_proc_t *job, pmix_info_t *maps, size_t count)
{
    pmix_status_t status = PMIx_server_register_nspace(job->nspace, 1, maps, count, NULL, NULL);
    return DONE_INLINE == status ? PMIX_SUCCESS : status;
}

static pmix_status_t get_string(const pmix_proc_t *who, const char *key, pmix_info_t *how,
                                size_t count, bytes_t *out)
{
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(who, key, how, count, &value);
    if (PMIX_SUCCESS != status) {
        return status;
    }
    if (PMIX_STRING != value->type || NULL == value->data.string) {
        status = PMIX_ERR_TYPE_MISMATCH;
    } else {
        bytes_append(out, value->data.string, strlen(value->data.string));
    }
    PMIX_VALUE_RELEASE(value);
    return status;
}

/* Gets the host of each rank, separated by commas: rank i is the only one on node i. */
static pmix_status_t get_hosts(const pmix_proc_t *job, unsigned num_nodes, bytes_t *hosts)
{
    pmix_info_t optional;
    fill_flag(&optional, PMIX_OPTIONAL);
    for (unsigned i = 0; i < num_nodes; i++) {
        pmix_proc_t who = *job;
        who.rank = i;
        bytes_append(hosts, ",", i > 0);
        pmix_status_t status = get_string(&who, PMIX_HOSTNAME, &optional, 1, hosts);
        if (PMIX_SUCCESS != status) {
            return status;
        }
    }
    return PMIX_SUCCESS;
}

pmix_status_t expand_nodes(bytes_t node_map, unsigned num_nodes, bytes_t *list, bytes_t *hosts)
{
    bytes_t ranks = {NULL, 0};
    bytes_append(&ranks, "raw:", 4);
    for (unsigned i = 0; i < num_nodes; i++) {
        char one[16];
        int len = snprintf(one, sizeof(one), "%s%u", i > 0 ? ";" : "", i);
        bytes_append(&ranks, one, (size_t) len);
    }
    pmix_proc_t job;
    pmix_info_t maps[2], optional;
    next_job(&job);
    fill_map(&maps[0], PMIX_NODE_MAP, node_map);
    fill_map(&maps[1], PMIX_PROC_MAP, ranks);
    fill_flag(&optional, PMIX_OPTIONAL);
    pmix_status_t status = register_job(&job, maps, 2);
    if (PMIX_SUCCESS == status) {
        status = get_string(&job, PMIX_NODE_LIST, &optional, 1, list);
    }
    if (PMIX_SUCCESS == status) {
        status = get_hosts(&job, num_nodes, hosts);
    }
    drop_job(&job);
    free(ranks.data);
    return status;
}

/* Gets the ranks of each node; nodes are separated by semicolons. */
static pmix_status_t get_peers(const pmix_proc_t *job, unsigned num_nodes, bytes_t *peers)
{
    pmix_info_t how[3];
    fill_flag(&how[0], PMIX_OPTIONAL);
    fill_flag(&how[1], PMIX_NODE_INFO);
    for (unsigned i = 0; i < num_nodes; i++) {
        char host[16];
        snprintf(host, sizeof(host), "h%u", i);
        memset(&how[2], 0, sizeof(how[2]));
        strncpy(how[2].key, PMIX_HOSTNAME, PMIX_MAX_KEYLEN);
        how[2].value.type = PMIX_STRING;
        how[2].value.data.string = host;
        bytes_append(peers, ";", i > 0);
        pmix_status_t status = get_string(job, PMIX_LOCAL_PEERS, how, 3, peers);
        if (PMIX_SUCCESS != status) {
            return status;
        }
    }
    return PMIX_SUCCESS;
}

pmix_status_t expand_procs(bytes_t proc_map, unsigned num_nodes, bytes_t *peers)
{
    bytes_t hosts = {NULL, 0};
    bytes_append(&hosts, "raw:", 4);
    for (unsigned i = 0; i < num_nodes; i++) {
        char one[16];
        int len = snprintf(one, sizeof(one), "%sh%u", i > 0 ? "," : "", i);
        bytes_append(&hosts, one, (size_t) len);
    }
    pmix_proc_t job;
    pmix_info_t maps[2];
    next_job(&job);
    fill_map(&maps[0], PMIX_NODE_MAP, hosts);
    fill_map(&maps[1], PMIX_PROC_MAP, proc_map);
    pmix_status_t status = register_job(&job, maps, 2);
    if (PMIX_SUCCESS == status) {
        status = get_peers(&job, num_nodes, peers);
    }
    drop_job(&job);
    free(hosts.data);
    return status;
}

pmix_status_t register_nodes(bytes_t node_map, pmix_proc_t *job)
{
    pmix_info_t map;
    next_job(job);
    fill_map(&map, PMIX_NODE_MAP, node_map);
    return register_job(job, &map, node_map.len > 0 ? 1 : 0);
}

void drop_job(const pmix_proc_t *job)
{
    PMIx_server_deregister_nspace(job->nspace, NULL, NULL);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The table of types and their fields. */
#include "data.h"

#include <string.h>
#include <sys/time.h>

#define ONE(s, name, id) {#name, offsetof(s, name), id, 0}
#define MANY(s, name, id, n) {#name, offsetof(s, name), id, offsetof(s, n)}
#define AS(s, json, name, id) {json, offsetof(s, name), id, 0}
#define END {NULL, 0, 0, 0}

static const field_t timeval[] = {
    ONE(struct timeval, tv_sec, PMIX_INT64),
    ONE(struct timeval, tv_usec, PMIX_INT64),
    END,
};
static const field_t value[] = {
    {"data", 0, TYPE_VALUE_DATA, 0},
    {"type", 0, TYPE_VALUE_TYPE, 0},
    END,
};
static const field_t proc[] = {
    ONE(pmix_proc_t, nspace, PMIX_PROC_NSPACE),
    ONE(pmix_proc_t, rank, PMIX_PROC_RANK),
    END,
};
static const field_t info[] = {
    AS(pmix_info_t, "data", value, TYPE_VALUE_DATA),
    ONE(pmix_info_t, flags, PMIX_INFO_DIRECTIVES),
    ONE(pmix_info_t, key, TYPE_KEY),
    AS(pmix_info_t, "type", value, TYPE_VALUE_TYPE),
    END,
};
static const field_t pdata[] = {
    AS(pmix_pdata_t, "data", value, TYPE_VALUE_DATA),
    ONE(pmix_pdata_t, key, TYPE_KEY),
    ONE(pmix_pdata_t, proc, PMIX_PROC),
    AS(pmix_pdata_t, "type", value, TYPE_VALUE_TYPE),
    END,
};
static const field_t app[] = {
    ONE(pmix_app_t, argv, TYPE_ARGV),
    ONE(pmix_app_t, cmd, PMIX_STRING),
    ONE(pmix_app_t, cwd, PMIX_STRING),
    ONE(pmix_app_t, env, TYPE_ARGV),
    MANY(pmix_app_t, info, PMIX_INFO, ninfo),
    ONE(pmix_app_t, maxprocs, PMIX_INT),
    END,
};
static const field_t query[] = {
    ONE(pmix_query_t, keys, TYPE_ARGV),
    MANY(pmix_query_t, qualifiers, PMIX_INFO, nqual),
    END,
};
static const field_t proc_info[] = {
    ONE(pmix_proc_info_t, executable_name, PMIX_STRING),
    ONE(pmix_proc_info_t, exit_code, TYPE_UNSENT_INT),
    ONE(pmix_proc_info_t, hostname, PMIX_STRING),
    ONE(pmix_proc_info_t, pid, PMIX_PID),
    ONE(pmix_proc_info_t, proc, PMIX_PROC),
    ONE(pmix_proc_info_t, state, PMIX_PROC_STATE),
    END,
};
static const field_t envar[] = {
    ONE(pmix_envar_t, envar, PMIX_STRING),
    ONE(pmix_envar_t, separator, TYPE_CHAR),
    ONE(pmix_envar_t, value, PMIX_STRING),
    END,
};
static const field_t coord[] = {
    MANY(pmix_coord_t, coord, PMIX_UINT32, dims),
    ONE(pmix_coord_t, view, PMIX_UINT8),
    END,
};
static const field_t regattr[] = {
    ONE(pmix_regattr_t, description, TYPE_ARGV),
    ONE(pmix_regattr_t, name, PMIX_STRING),
    ONE(pmix_regattr_t, string, TYPE_KEY),
    ONE(pmix_regattr_t, type, PMIX_DATA_TYPE),
    END,
};
static const field_t geometry[] = {
    MANY(pmix_geometry_t, coordinates, PMIX_COORD, ncoords),
    ONE(pmix_geometry_t, fabric, PMIX_SIZE),
    ONE(pmix_geometry_t, osname, PMIX_STRING),
    ONE(pmix_geometry_t, uuid, PMIX_STRING),
    END,
};
static const field_t distance[] = {
    ONE(pmix_device_distance_t, maxdist, PMIX_UINT16),
    ONE(pmix_device_distance_t, mindist, PMIX_UINT16),
    ONE(pmix_device_distance_t, osname, PMIX_STRING),
    ONE(pmix_device_distance_t, type, PMIX_DEVTYPE),
    ONE(pmix_device_distance_t, uuid, PMIX_STRING),
    END,
};
static const field_t endpoint[] = {
    ONE(pmix_endpoint_t, endpt, TYPE_DIGITS),
    ONE(pmix_endpoint_t, osname, PMIX_STRING),
    ONE(pmix_endpoint_t, uuid, PMIX_STRING),
    END,
};
static const field_t proc_stats[] = {
    ONE(pmix_proc_stats_t, cmd, PMIX_STRING),
    ONE(pmix_proc_stats_t, node, PMIX_STRING),
    ONE(pmix_proc_stats_t, num_threads, PMIX_UINT16),
    ONE(pmix_proc_stats_t, peak_vsize, TYPE_UNSENT_FLOAT),
    ONE(pmix_proc_stats_t, percent_cpu, TYPE_UNSENT_FLOAT),
    ONE(pmix_proc_stats_t, pid, PMIX_PID),
    ONE(pmix_proc_stats_t, priority, PMIX_INT32),
    ONE(pmix_proc_stats_t, proc, PMIX_PROC),
    ONE(pmix_proc_stats_t, processor, PMIX_UINT16),
    ONE(pmix_proc_stats_t, pss, TYPE_MEASURE),
    ONE(pmix_proc_stats_t, rss, TYPE_MEASURE),
    ONE(pmix_proc_stats_t, sample_time, PMIX_TIMEVAL),
    ONE(pmix_proc_stats_t, state, TYPE_CHAR),
    ONE(pmix_proc_stats_t, time, PMIX_TIMEVAL),
    ONE(pmix_proc_stats_t, vsize, TYPE_MEASURE),
    END,
};
static const field_t disk_stats[] = {
    ONE(pmix_disk_stats_t, disk, PMIX_STRING),
    ONE(pmix_disk_stats_t, milliseconds_io, PMIX_UINT64),
    ONE(pmix_disk_stats_t, milliseconds_reading, PMIX_UINT64),
    ONE(pmix_disk_stats_t, milliseconds_writing, PMIX_UINT64),
    ONE(pmix_disk_stats_t, num_ios_in_progress, PMIX_UINT64),
    ONE(pmix_disk_stats_t, num_reads_completed, PMIX_UINT64),
    ONE(pmix_disk_stats_t, num_reads_merged, PMIX_UINT64),
    ONE(pmix_disk_stats_t, num_sectors_read, PMIX_UINT64),
    ONE(pmix_disk_stats_t, num_sectors_written, PMIX_UINT64),
    ONE(pmix_disk_stats_t, num_writes_completed, PMIX_UINT64),
    ONE(pmix_disk_stats_t, num_writes_merged, PMIX_UINT64),
    ONE(pmix_disk_stats_t, weighted_milliseconds_io, PMIX_UINT64),
    END,
};
static const field_t net_stats[] = {
    ONE(pmix_net_stats_t, net_interface, PMIX_STRING),
    ONE(pmix_net_stats_t, num_bytes_recvd, PMIX_UINT64),
    ONE(pmix_net_stats_t, num_bytes_sent, PMIX_UINT64),
    ONE(pmix_net_stats_t, num_packets_recvd, PMIX_UINT64),
    ONE(pmix_net_stats_t, num_packets_sent, PMIX_UINT64),
    ONE(pmix_net_stats_t, num_recv_errs, PMIX_UINT64),
    ONE(pmix_net_stats_t, num_send_errs, PMIX_UINT64),
    END,
};
/* The lists of disks and interfaces stay empty, as no release packs them correctly (see README.md). */
static const field_t node_stats[] = {
    ONE(pmix_node_stats_t, buffers, TYPE_MEASURE),
    ONE(pmix_node_stats_t, cached, TYPE_MEASURE),
    MANY(pmix_node_stats_t, diskstats, PMIX_UNDEF, ndiskstats),
    ONE(pmix_node_stats_t, free_mem, TYPE_MEASURE),
    ONE(pmix_node_stats_t, la, TYPE_MEASURE),
    ONE(pmix_node_stats_t, la15, TYPE_MEASURE),
    ONE(pmix_node_stats_t, la5, TYPE_MEASURE),
    ONE(pmix_node_stats_t, mapped, TYPE_MEASURE),
    MANY(pmix_node_stats_t, netstats, PMIX_UNDEF, nnetstats),
    ONE(pmix_node_stats_t, node, PMIX_STRING),
    ONE(pmix_node_stats_t, sample_time, PMIX_TIMEVAL),
    ONE(pmix_node_stats_t, swap_cached, TYPE_MEASURE),
    ONE(pmix_node_stats_t, swap_free, TYPE_MEASURE),
    ONE(pmix_node_stats_t, swap_total, TYPE_MEASURE),
    ONE(pmix_node_stats_t, total_mem, TYPE_MEASURE),
    END,
};

#define PLAIN(id, size, shape, where) [id] = {#id, size, shape, where, NULL}
#define UNSIGNED(id, c_type) [id] = {#id, sizeof(c_type), SHAPE_UNSIGNED, UNION_HERE, NULL}
#define SIGNED(id, c_type) [id] = {#id, sizeof(c_type), SHAPE_SIGNED, UNION_HERE, NULL}
#define BYTES(id) [id] = {#id, sizeof(pmix_byte_object_t), SHAPE_BYTES, UNION_HERE, NULL}
#define STRUCT(id, c_type, fields, where) [id] = {#id, sizeof(c_type), SHAPE_STRUCT, where, fields}

/* Omitted: PMIX_BUFFER and PMIX_KVAL have no public C type, and the XML text of a PMIX_TOPO depends on the hwloc
 * library. Not in values: PMIX_COMMAND and PMIX_QUERY, types larger than the union, and PMIX_DATA_BUFFER, which the
 * library reads from another member than documented. */
static const type_t types[TYPE_COUNT] = {
    PLAIN(PMIX_UNDEF, 0, SHAPE_NOTHING, UNION_HERE),
    PLAIN(PMIX_BOOL, sizeof(bool), SHAPE_BOOL, UNION_HERE),
    UNSIGNED(PMIX_BYTE, uint8_t),
    PLAIN(PMIX_STRING, sizeof(char *), SHAPE_STRING, UNION_HERE),
    UNSIGNED(PMIX_SIZE, size_t),
    SIGNED(PMIX_PID, pid_t),
    SIGNED(PMIX_INT, int),
    SIGNED(PMIX_INT8, int8_t),
    SIGNED(PMIX_INT16, int16_t),
    SIGNED(PMIX_INT32, int32_t),
    SIGNED(PMIX_INT64, int64_t),
    UNSIGNED(PMIX_UINT, unsigned int),
    UNSIGNED(PMIX_UINT8, uint8_t),
    UNSIGNED(PMIX_UINT16, uint16_t),
    UNSIGNED(PMIX_UINT32, uint32_t),
    UNSIGNED(PMIX_UINT64, uint64_t),
    PLAIN(PMIX_FLOAT, sizeof(float), SHAPE_FLOAT, UNION_HERE),
    PLAIN(PMIX_DOUBLE, sizeof(double), SHAPE_DOUBLE, UNION_HERE),
    STRUCT(PMIX_TIMEVAL, struct timeval, timeval, UNION_HERE),
    SIGNED(PMIX_TIME, time_t),
    SIGNED(PMIX_STATUS, pmix_status_t),
    STRUCT(PMIX_VALUE, pmix_value_t, value, UNION_NO),
    STRUCT(PMIX_PROC, pmix_proc_t, proc, UNION_POINTER),
    STRUCT(PMIX_APP, pmix_app_t, app, UNION_NO),
    STRUCT(PMIX_INFO, pmix_info_t, info, UNION_NO),
    STRUCT(PMIX_PDATA, pmix_pdata_t, pdata, UNION_NO),
    BYTES(PMIX_BYTE_OBJECT),
    UNSIGNED(PMIX_PERSIST, pmix_persistence_t),
    PLAIN(PMIX_POINTER, sizeof(void *), SHAPE_POINTER, UNION_HERE),
    UNSIGNED(PMIX_SCOPE, pmix_scope_t),
    UNSIGNED(PMIX_DATA_RANGE, pmix_data_range_t),
    PLAIN(PMIX_COMMAND, sizeof(uint8_t), SHAPE_UNSIGNED, UNION_NO),
    UNSIGNED(PMIX_INFO_DIRECTIVES, pmix_info_directives_t),
    UNSIGNED(PMIX_DATA_TYPE, pmix_data_type_t),
    UNSIGNED(PMIX_PROC_STATE, pmix_proc_state_t),
    STRUCT(PMIX_PROC_INFO, pmix_proc_info_t, proc_info, UNION_POINTER),
    PLAIN(PMIX_DATA_ARRAY, sizeof(pmix_data_array_t), SHAPE_ARRAY, UNION_POINTER),
    PLAIN(PMIX_PROC_RANK, sizeof(pmix_rank_t), SHAPE_RANK, UNION_HERE),
    STRUCT(PMIX_QUERY, pmix_query_t, query, UNION_NO),
    BYTES(PMIX_COMPRESSED_STRING),
    UNSIGNED(PMIX_ALLOC_DIRECTIVE, pmix_alloc_directive_t),
    UNSIGNED(PMIX_IOF_CHANNEL, pmix_iof_channel_t),
    STRUCT(PMIX_ENVAR, pmix_envar_t, envar, UNION_HERE),
    STRUCT(PMIX_COORD, pmix_coord_t, coord, UNION_POINTER),
    STRUCT(PMIX_REGATTR, pmix_regattr_t, regattr, UNION_POINTER),
    PLAIN(PMIX_REGEX, sizeof(char *), SHAPE_REGEX, UNION_HERE),
    UNSIGNED(PMIX_JOB_STATE, pmix_job_state_t),
    UNSIGNED(PMIX_LINK_STATE, pmix_link_state_t),
    PLAIN(PMIX_PROC_CPUSET, sizeof(pmix_cpuset_t), SHAPE_CPUSET, UNION_POINTER),
    STRUCT(PMIX_GEOMETRY, pmix_geometry_t, geometry, UNION_POINTER),
    STRUCT(PMIX_DEVICE_DIST, pmix_device_distance_t, distance, UNION_POINTER),
    STRUCT(PMIX_ENDPOINT, pmix_endpoint_t, endpoint, UNION_POINTER),
    UNSIGNED(PMIX_DEVTYPE, pmix_device_type_t),
    UNSIGNED(PMIX_LOCTYPE, pmix_locality_t),
    BYTES(PMIX_COMPRESSED_BYTE_OBJECT),
    PLAIN(PMIX_PROC_NSPACE, sizeof(pmix_nspace_t), SHAPE_FIXED, UNION_POINTER),
    STRUCT(PMIX_PROC_STATS, pmix_proc_stats_t, proc_stats, UNION_POINTER),
    STRUCT(PMIX_DISK_STATS, pmix_disk_stats_t, disk_stats, UNION_POINTER),
    STRUCT(PMIX_NET_STATS, pmix_net_stats_t, net_stats, UNION_POINTER),
    STRUCT(PMIX_NODE_STATS, pmix_node_stats_t, node_stats, UNION_POINTER),
    PLAIN(PMIX_DATA_BUFFER, sizeof(pmix_data_buffer_t), SHAPE_BUFFER, UNION_NO),
    UNSIGNED(PMIX_STOR_MEDIUM, pmix_storage_medium_t),
    UNSIGNED(PMIX_STOR_ACCESS, pmix_storage_accessibility_t),
    UNSIGNED(PMIX_STOR_PERSIST, pmix_storage_persistence_t),
    UNSIGNED(PMIX_STOR_ACCESS_TYPE, pmix_storage_access_type_t),
    [TYPE_KEY] = {"", sizeof(pmix_key_t), SHAPE_FIXED, UNION_NO, NULL},
    [TYPE_ARGV] = {"", sizeof(char **), SHAPE_ARGV, UNION_NO, NULL},
    [TYPE_MEASURE] = {"", sizeof(float), SHAPE_MEASURE, UNION_NO, NULL},
    [TYPE_DIGITS] = {"", sizeof(pmix_byte_object_t), SHAPE_DIGITS, UNION_NO, NULL},
    [TYPE_VALUE_DATA] = {"", sizeof(pmix_value_t), SHAPE_VALUE, UNION_NO, NULL},
    [TYPE_VALUE_TYPE] = {"", sizeof(pmix_value_t), SHAPE_TYPENAME, UNION_NO, NULL},
    [TYPE_UNSENT_INT] = {"", sizeof(int), SHAPE_SIGNED, UNION_NO, NULL},
    [TYPE_UNSENT_FLOAT] = {"", sizeof(float), SHAPE_MEASURE, UNION_NO, NULL},
    [TYPE_CHAR] = {"", sizeof(char), SHAPE_UNSIGNED, UNION_NO, NULL},
};

const type_t *type_of(unsigned id)
{
    return &types[id < TYPE_COUNT ? id : TYPE_COUNT - 1];
}

unsigned type_by_name(const char *name)
{
    for (unsigned id = 1; id < TYPE_KEY; id++) {
        if (NULL != types[id].name && 0 == strcmp(types[id].name, name)) {
            return id;
        }
    }
    return 0;
}

void *value_data(const pmix_value_t *value)
{
    if (UNION_POINTER == type_of(value->type)->in_union) {
        return value->data.ptr;
    }
    return (void *) &value->data;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every data type in every function that takes data of any type. The rows are in types.h, which is generated from
 * data/data_types.tsv:
 *     ROW(PMIX_PROC, pmix_proc_t, true) is a type, its C type, and true if a value has a pointer to it.
 *
 * Each line of the output is a cell: the type, the operation, the status and the result, separated by tabs. With the
 * argument `apart` each cell is a process of its own, since a library may crash in it. With `together` all cells are in
 * one process, which frees all data, for memcheck.
 */
#include <pmix_server.h>
#include <pmix_extend.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A program that runs with a release without some of the functions defines MAY_LACK. */
#ifdef MAY_LACK
#pragma weak PMIx_Data_array_create
#pragma weak PMIx_Data_array_destruct
#pragma weak PMIx_Data_array_free
#pragma weak PMIx_Data_buffer_destruct
#pragma weak PMIx_Info_load
#pragma weak PMIx_Cpuset_destruct
#pragma weak PMIx_Topology_destruct
#pragma weak PMIx_Value_destruct
#define HAS(function) ((function) != NULL)
#else
#define HAS(function) true
#endif

typedef struct {
    pmix_data_type_t type;
    const char *name;
    size_t size;
    bool behind;
} row_t;

#define ROW(type, c_type, behind) {type, #type, sizeof(c_type), behind},
static const row_t rows[] = {
#include "types.h"
};

/* True if data are freed. A process of its own for each cell leaves that to its exit. */
static bool frees;

/* The topology of this node and sets of its CPUs. They are made before the fork, because a child has no client and
 * no thread of the library. */
static pmix_topology_t topology;
static pmix_cpuset_t cpusets[2];

static void *room(size_t size)
{
    void *at = calloc(1, size > 0 ? size : 1);

    if (at == NULL) {
        exit(70);
    }
    return at;
}

static char **two(const char *first, const char *second)
{
    char **argv = room(3 * sizeof(*argv));

    argv[0] = strdup(first);
    argv[1] = strdup(second);
    return argv;
}

static void info(pmix_info_t *at, int which)
{
    strcpy(at->key, "a.key");
    at->value.type = PMIX_STRING;
    at->value.data.string = strdup(which ? "other" : "text");
}

static pmix_info_t *infos(int which)
{
    pmix_info_t *made = room(sizeof(*made));

    info(made, which);
    return made;
}

static void disk(pmix_disk_stats_t *at, int which)
{
    at->disk = strdup("sda");
    at->num_reads_completed = (uint64_t)which + 5;
    at->milliseconds_io = 70000;
}

static void net(pmix_net_stats_t *at, int which)
{
    at->net_interface = strdup("eth0");
    at->num_bytes_recvd = (uint64_t)which + 5;
    at->num_bytes_sent = 70000;
}

static void proc(pmix_proc_t *at, int which)
{
    strcpy(at->nspace, "job@1");
    at->rank = (pmix_rank_t)which + 3;
}

/* Returns a float that six digits of text represent exactly, since floats are packed as text. */
static float measure(int which)
{
    return 1.5f + (float)which;
}

static void stats(pmix_proc_stats_t *at, int which)
{
    at->node = strdup("n1");
    proc(&at->proc, 0);
    at->pid = 4711 + which;
    at->cmd = strdup("solver");
    at->state = 'R';
    at->time.tv_sec = 3;
    at->priority = 20;
    at->num_threads = 2;
    at->pss = at->vsize = at->rss = measure(which);
    at->processor = 1;
    at->sample_time.tv_sec = 9;
}

static void node(pmix_node_stats_t *at, int which)
{
    at->node = strdup("n1");
    at->la = at->la5 = at->la15 = at->total_mem = at->free_mem = measure(which);
    at->buffers = at->cached = at->swap_cached = at->swap_total = at->swap_free = at->mapped = 2.5f;
    at->sample_time.tv_sec = 9;
    at->ndiskstats = at->nnetstats = 1;
    disk(at->diskstats = room(sizeof(*at->diskstats)), which);
    net(at->netstats = room(sizeof(*at->netstats)), which);
}

/* Copies a set. The bitmap of hwloc has 24 bytes, with the address of its words in the second of three parts. */
static bool cpuset(pmix_cpuset_t *to, int which)
{
    uint64_t *from = cpusets[which].bitmap, *bitmap = room(3 * sizeof(*bitmap)), **words;

    memcpy(bitmap, from, 3 * sizeof(*bitmap));
    words = (uint64_t **)(void *)&bitmap[1];
    from = *words;
    *words = room((uint32_t)bitmap[0] * sizeof(**words) + 64);
    memcpy(*words, from, (uint32_t)bitmap[0] * sizeof(**words));
    /* The copy has room for exactly its words. */
    ((uint32_t *)(void *)bitmap)[1] = (uint32_t)bitmap[0];
    to->source = strdup(cpusets[which].source);
    to->bitmap = bitmap;
    return true;
}

/* Writes one of two data of a type to zeroed memory. Returns false if there is none for the type. */
static bool sample(const row_t *row, void *room_for_one, int which)
{
    union {
        void *at;
        char **string;
        float *fval;
        double *dval;
        bool *flag;
        struct timeval *tv;
        pmix_value_t *value;
        pmix_proc_t *proc;
        pmix_app_t *app;
        pmix_info_t *info;
        pmix_pdata_t *pdata;
        pmix_byte_object_t *bo;
        pmix_proc_info_t *pinfo;
        pmix_data_array_t *array;
        pmix_query_t *query;
        pmix_envar_t *envar;
        pmix_coord_t *coord;
        pmix_regattr_t *regattr;
        pmix_cpuset_t *cpuset;
        pmix_geometry_t *geometry;
        pmix_device_distance_t *distance;
        pmix_endpoint_t *endpoint;
        pmix_topology_t *topology;
        pmix_proc_stats_t *pstats;
        pmix_disk_stats_t *dkstats;
        pmix_net_stats_t *netstats;
        pmix_node_stats_t *ndstats;
        pmix_data_buffer_t *buffer;
        pmix_device_t *device;
        pmix_resource_unit_t *unit;
        pmix_node_pid_t *nodepid;
        pmix_regex2_t *regex2;
    } to = {room_for_one};
    uint64_t number = (uint64_t)which + 1;
    uint32_t numbers[2] = {1, 70000};

    switch (row->type) {
    case PMIX_BOOL:
        *to.flag = !which;
        return true;
    case PMIX_STRING:
        *to.string = strdup(which ? "other" : "text");
        return true;
    case PMIX_FLOAT:
        *to.fval = measure(which);
        return true;
    case PMIX_DOUBLE:
        *to.dval = 2.25 + which;
        return true;
    case PMIX_TIMEVAL:
        to.tv->tv_sec = 5 + which;
        to.tv->tv_usec = 20;
        return true;
    case PMIX_VALUE:
        to.value->type = PMIX_STRING;
        to.value->data.string = strdup(which ? "other" : "text");
        return true;
    case PMIX_PROC:
        proc(to.proc, which);
        return true;
    case PMIX_APP:
        to.app->cmd = strdup("solver");
        to.app->argv = two("solver", which ? "-b" : "-a");
        to.app->env = two("A=1", "B=2");
        to.app->cwd = strdup("/tmp");
        to.app->maxprocs = 4;
        to.app->info = infos(which);
        to.app->ninfo = 1;
        return true;
    case PMIX_INFO:
        info(to.info, which);
        return true;
    case PMIX_PDATA:
        proc(&to.pdata->proc, which);
        strcpy(to.pdata->key, "a.key");
        to.pdata->value.type = PMIX_UINT32;
        to.pdata->value.data.uint32 = 70000;
        return true;
    case PMIX_BYTE_OBJECT:
    case PMIX_COMPRESSED_STRING:
    case PMIX_COMPRESSED_BYTE_OBJECT:
        to.bo->size = 4;
        to.bo->bytes = room(4);
        memcpy(to.bo->bytes, which ? "c\0de" : "a\0bc", 4);
        return true;
    case PMIX_POINTER:
        *(const void **)to.at = which ? (const void *)rows : (const void *)&rows[1];
        return true;
    case PMIX_PROC_INFO:
        proc(&to.pinfo->proc, which);
        to.pinfo->hostname = strdup("n1");
        to.pinfo->executable_name = strdup("solver");
        to.pinfo->pid = 4711;
        to.pinfo->state = PMIX_PROC_STATE_RUNNING;
        return true;
    case PMIX_DATA_ARRAY:
        to.array->type = PMIX_INFO;
        to.array->size = 1;
        to.array->array = infos(which);
        return true;
    case PMIX_QUERY:
        to.query->keys = two("a.key", which ? "c.key" : "b.key");
        to.query->qualifiers = infos(0);
        to.query->nqual = 1;
        return true;
    case PMIX_ENVAR:
        to.envar->envar = strdup("PATH");
        to.envar->value = strdup(which ? "/sbin" : "/bin");
        to.envar->separator = ':';
        return true;
    case PMIX_COORD:
        to.coord->view = PMIX_COORD_LOGICAL_VIEW;
        to.coord->dims = 2;
        to.coord->coord = room(sizeof(numbers));
        numbers[0] += (uint32_t)which;
        memcpy(to.coord->coord, numbers, sizeof(numbers));
        return true;
    case PMIX_REGATTR:
        to.regattr->name = strdup("A_KEY");
        strcpy(to.regattr->string, which ? "b.key" : "a.key");
        to.regattr->type = PMIX_UINT32;
        to.regattr->description = two("first line", "second line");
        return true;
    case PMIX_REGEX:
        *to.string = strdup(which ? "raw:n1,n3" : "raw:n1,n2");
        return true;
    case PMIX_PROC_CPUSET:
        return cpusets[which].bitmap != NULL && cpuset(to.cpuset, which);
    case PMIX_GEOMETRY:
        to.geometry->fabric = 7;
        to.geometry->uuid = strdup("u-1");
        to.geometry->osname = strdup(which ? "ib1" : "ib0");
        to.geometry->ncoords = 1;
        to.geometry->coordinates = room(sizeof(pmix_coord_t));
        to.geometry->coordinates->view = PMIX_COORD_PHYSICAL_VIEW;
        to.geometry->coordinates->dims = 2;
        to.geometry->coordinates->coord = room(sizeof(numbers));
        memcpy(to.geometry->coordinates->coord, numbers, sizeof(numbers));
        return true;
    case PMIX_DEVICE_DIST:
        to.distance->uuid = strdup("u-1");
        to.distance->osname = strdup("ib0");
        to.distance->type = PMIX_DEVTYPE_NETWORK;
        to.distance->mindist = (uint16_t)(10 + which);
        to.distance->maxdist = 300;
        return true;
    case PMIX_ENDPOINT:
        to.endpoint->uuid = strdup("u-1");
        to.endpoint->osname = strdup("ib0");
        to.endpoint->endpt.size = 3;
        to.endpoint->endpt.bytes = room(3);
        memcpy(to.endpoint->endpt.bytes, which ? "b\0c" : "a\0b", 3);
        return true;
    case PMIX_TOPO:
        if (topology.topology == NULL) {
            return false;
        }
        to.topology->source = strdup(topology.source);
        to.topology->topology = topology.topology;
        return true;
    case PMIX_PROC_NSPACE:
        strcpy(to.at, which ? "job@2" : "job@1");
        return true;
    case PMIX_PROC_STATS:
        stats(to.pstats, which);
        return true;
    case PMIX_DISK_STATS:
        disk(to.dkstats, which);
        return true;
    case PMIX_NET_STATS:
        net(to.netstats, which);
        return true;
    case PMIX_NODE_STATS:
        node(to.ndstats, which);
        return true;
    case PMIX_DATA_BUFFER:
        number = (uint64_t)which + 70000;
        return PMIx_Data_pack(NULL, to.buffer, &number, 1, PMIX_UINT64) == PMIX_SUCCESS;
    case PMIX_DEVICE:
        to.device->uuid = strdup("u-1");
        to.device->osname = strdup(which ? "ib1" : "ib0");
        to.device->type = PMIX_DEVTYPE_NETWORK;
        return true;
    case PMIX_RESOURCE_UNIT:
        to.unit->type = PMIX_DEVTYPE_GPU;
        to.unit->count = (size_t)which + 2;
        return true;
    case PMIX_NODE_PID:
        to.nodepid->hostname = strdup("n1");
        to.nodepid->nodeid = (uint32_t)which;
        to.nodepid->pid = 4711;
        return true;
    case PMIX_REGEX2:
        to.regex2->type = strdup("raw");
        to.regex2->len = 6;
        to.regex2->bytes = room(6);
        memcpy(to.regex2->bytes, which ? "n1,n3" : "n1,n2", 6);
        return true;
    default:
        /* Numbers of any width; no other datum is so short. */
        if (row->size > sizeof(number)) {
            return false;
        }
        memcpy(to.at, &number, row->size);
        return true;
    }
}

/* Frees what data own, and their memory. */
static void drop(pmix_data_type_t type, void *at, size_t count)
{
    pmix_data_array_t array = {type, count, at};

    if (frees && at != NULL) {
        PMIx_Data_array_destruct(&array);
    }
}

static void drop_value(pmix_value_t *value)
{
    if (frees) {
        PMIx_Value_destruct(value);
    }
}

static void drop_buffer(pmix_data_buffer_t *buffer)
{
    if (frees) {
        PMIX_DATA_BUFFER_DESTRUCT(buffer);
    }
}

/* In the functions of one datum, a string or a map is its own address. */
static bool is_text(const row_t *row)
{
    return row->type == PMIX_STRING || row->type == PMIX_REGEX;
}

static void *one(const row_t *row, int which)
{
    void *at = room(row->size);

    if (!sample(row, at, which)) {
        printf("no sample");
        fflush(stdout);
        if (frees) {
            free(at);
            return NULL;
        }
        _exit(0);
    }
    return at;
}

static void *own(const row_t *row, void *at)
{
    return is_text(row) ? *(void **)at : at;
}

static void hex(const pmix_data_buffer_t *buffer)
{
    putchar(' ');
    for (size_t n = 0; n < buffer->bytes_used; n++) {
        printf("%02x", (unsigned char)buffer->base_ptr[n]);
    }
}

/* Returns true if the data are packed to the same bytes as in the buffer. */
static bool as_packed(const pmix_data_buffer_t *buffer, void *at, int32_t count, pmix_data_type_t type)
{
    pmix_data_buffer_t again = PMIX_DATA_BUFFER_STATIC_INIT;
    pmix_status_t status = PMIx_Data_pack(NULL, &again, at, count, type);
    bool same = status == PMIX_SUCCESS && again.bytes_used == buffer->bytes_used
                && memcmp(again.base_ptr, buffer->base_ptr, again.bytes_used) == 0;

    drop_buffer(&again);
    return same;
}

/* Packs data, prints the bytes if `show` is true, and with `back` unpacks and packs them again. */
static void through(void *at, int32_t count, pmix_data_type_t type, size_t size, bool show, bool back)
{
    pmix_data_buffer_t buffer = PMIX_DATA_BUFFER_STATIC_INIT;
    pmix_status_t status = PMIx_Data_pack(NULL, &buffer, at, count, type);
    pmix_data_buffer_t bytes = buffer;
    void *got;

    printf("%d", status);
    if (status == PMIX_SUCCESS && show) {
        hex(&buffer);
    }
    if (status == PMIX_SUCCESS && back) {
        /* Leaves room after the data, because 4.2.2 writes wider numbers than it reads. */
        got = room((size_t)count * size + 64);
        status = PMIx_Data_unpack(NULL, &buffer, got, &count, type);
        printf(" %d %d", status, count);
        if (status == PMIX_SUCCESS) {
            printf(" %s", as_packed(&bytes, got, count, type) ? "same" : "differs");
        }
        drop(type, got, status == PMIX_SUCCESS ? (size_t)count : 0);
    }
    drop_buffer(&buffer);
}

static void pack(const row_t *row)
{
    void *at = one(row, 0);

    if (at != NULL) {
        through(at, 1, row->type, row->size, true, false);
        drop(row->type, at, 1);
    }
}

static void unpack(const row_t *row)
{
    char *at = one(row, 0), *second = one(row, 1), *both;

    if (at != NULL && second != NULL) {
        both = room(2 * row->size);
        memcpy(both, at, row->size);
        memcpy(both + row->size, second, row->size);
        free(at);
        free(second);
        through(both, 2, row->type, row->size, false, true);
        drop(row->type, both, 2);
    }
}

static void copy(const row_t *row)
{
    pmix_data_buffer_t buffer = PMIX_DATA_BUFFER_STATIC_INIT;
    void *at = one(row, 0), *made = NULL;
    pmix_status_t status;

    if (at == NULL) {
        return;
    }
    status = PMIx_Data_copy(&made, own(row, at), row->type);
    printf("%d", status);
    if (status == PMIX_SUCCESS) {
        fflush(stdout);
        if (PMIx_Data_pack(NULL, &buffer, at, 1, row->type) == PMIX_SUCCESS) {
            printf(" %s", as_packed(&buffer, is_text(row) ? &made : made, 1, row->type) ? "same" : "differs");
        }
        drop_buffer(&buffer);
        if (is_text(row)) {
            free(made);
        } else {
            drop(row->type, made, 1);
        }
    }
    drop(row->type, at, 1);
}

static void print(const row_t *row)
{
    void *at = one(row, 0);
    char *text = NULL;

    if (at != NULL) {
        printf("%d", PMIx_Data_print(&text, (char *)"> ", own(row, at), row->type));
        printf(" %s", text == NULL ? "NULL" : strncmp(text, "> ", 2) == 0 ? "prefix" : "no prefix");
        free(text);
        drop(row->type, at, 1);
    }
}

/* Loads a value with a copy of a datum. Returns false if there is none. */
static bool value_of(const row_t *row, int which, pmix_value_t *value)
{
    void *at = one(row, which);
    pmix_status_t status = PMIX_ERROR;

    memset(value, 0, sizeof(*value));
    if (at != NULL) {
        status = PMIx_Value_load(value, row->type == PMIX_POINTER ? *(void **)at : own(row, at), row->type);
        if (status != PMIX_SUCCESS) {
            printf("load %d", status);
        }
        drop(row->type, at, 1);
    }
    return status == PMIX_SUCCESS;
}

static void compare(const row_t *row)
{
    pmix_value_t first, same, other;

    if (value_of(row, 0, &first) && value_of(row, 0, &same) && value_of(row, 1, &other)) {
        printf("%s", PMIx_Value_compare(&first, &same) == PMIX_EQUAL ? "equal" : "not equal");
        printf(", %s", PMIx_Value_compare(&first, &other) == PMIX_EQUAL ? "equal" : "not equal");
        drop_value(&first);
        drop_value(&same);
        drop_value(&other);
    }
}

static void load(const row_t *row)
{
    pmix_value_t value;

    if (value_of(row, 0, &value)) {
        printf("%s ", value.type == row->type ? "loaded" : "another type");
        fflush(stdout);
        through(&value, 1, PMIX_VALUE, sizeof(value), true, true);
        drop_value(&value);
    }
}

static void unload(const row_t *row)
{
    pmix_value_t value;
    bool is_owned = row->behind || is_text(row) || row->type == PMIX_ENVAR || row->type == PMIX_POINTER
                    || row->size == sizeof(pmix_byte_object_t);
    size_t size = 0;
    void *place = NULL, *got;
    pmix_status_t status;

    if (row->type == PMIX_TIMEVAL) {
        is_owned = false;
    }
    if (!value_of(row, 0, &value)) {
        return;
    }
    place = room(row->size + 64);
    got = is_owned ? NULL : place;
    status = PMIx_Value_unload(&value, &got, &size);
    printf("%d %zu %s", status, size, got == NULL ? "NULL" : got == place ? "copied" : "made");
    if (frees && got != place && row->type != PMIX_POINTER) {
        if (is_text(row)) {
            free(got);
        } else {
            drop(row->type, got, 1);
        }
    }
    free(place);
    drop_value(&value);
}

static void xfer(const row_t *row)
{
    pmix_data_buffer_t buffer = PMIX_DATA_BUFFER_STATIC_INIT;
    pmix_value_t value, other;
    pmix_status_t status;

    if (!value_of(row, 0, &value)) {
        return;
    }
    memset(&other, 0, sizeof(other));
    status = PMIx_Value_xfer(&other, &value);
    printf("%d", status);
    if (status == PMIX_SUCCESS) {
        fflush(stdout);
        if (PMIx_Data_pack(NULL, &buffer, &value, 1, PMIX_VALUE) == PMIX_SUCCESS) {
            printf(" %s", as_packed(&buffer, &other, 1, PMIX_VALUE) ? "same" : "differs");
        }
        drop_buffer(&buffer);
        drop_value(&other);
    }
    drop_value(&value);
}

static void info_load(const row_t *row)
{
    void *at = one(row, 0);
    pmix_info_t *made;
    pmix_status_t status;

    if (at == NULL) {
        return;
    }
    made = room(sizeof(*made));
    if (HAS(PMIx_Info_load)) {
        status = PMIx_Info_load(made, "a.key", row->type == PMIX_POINTER ? *(void **)at : own(row, at), row->type);
    } else {
        /* The macro of 4.2.2 loads an info like this. */
        strcpy(made->key, "a.key");
        status = PMIx_Value_load(&made->value, row->type == PMIX_POINTER ? *(void **)at : own(row, at), row->type);
    }
    printf("%d ", status);
    fflush(stdout);
    if (status == PMIX_SUCCESS) {
        through(made, 1, PMIX_INFO, sizeof(*made), true, true);
    }
    drop(PMIX_INFO, made, 1);
    drop(row->type, at, 1);
}

static pmix_data_array_t *array_of(const row_t *row)
{
    pmix_data_array_t *made;

    if (HAS(PMIx_Data_array_create)) {
        made = PMIx_Data_array_create(2, row->type);
    } else {
        /* The macro of 4.2.2 makes an array like this. */
        made = room(sizeof(*made));
        made->type = row->type;
        made->size = 2;
        made->array = room(2 * row->size);
    }
    if (made == NULL || made->array == NULL) {
        printf("not made");
        if (made != NULL && frees) {
            PMIx_Data_array_free(made);
        }
        return NULL;
    }
    for (int which = 0; which < 2; which++) {
        memset((char *)made->array + (size_t)which * row->size, 0, row->size);
        if (!sample(row, (char *)made->array + (size_t)which * row->size, which)) {
            printf("no sample");
            if (frees) {
                PMIx_Data_array_free(made);
            }
            return NULL;
        }
    }
    return made;
}

static void array(const row_t *row)
{
    pmix_data_buffer_t buffer = PMIX_DATA_BUFFER_STATIC_INIT;
    pmix_data_array_t *made = array_of(row);
    pmix_value_t value, other;

    if (made == NULL) {
        return;
    }
    memset(&value, 0, sizeof(value));
    memset(&other, 0, sizeof(other));
    value.type = PMIX_DATA_ARRAY;
    value.data.darray = made;
    through(&value, 1, PMIX_VALUE, sizeof(value), true, true);
    fflush(stdout);
    printf(" %d", PMIx_Value_xfer(&other, &value));
    fflush(stdout);
    if (PMIx_Data_pack(NULL, &buffer, &value, 1, PMIX_VALUE) == PMIX_SUCCESS) {
        printf(" %s", as_packed(&buffer, &other, 1, PMIX_VALUE) ? "same" : "differs");
    }
    drop_buffer(&buffer);
    drop_value(&other);
    drop_value(&value);
}

static void release(const row_t *row)
{
    pmix_data_array_t *made;
    pmix_value_t value;

    if (!HAS(PMIx_Data_array_free) || !HAS(PMIx_Value_destruct)) {
        printf("no function");
        return;
    }
    made = array_of(row);
    if (made != NULL) {
        PMIx_Data_array_free(made);
        printf("array");
        fflush(stdout);
    }
    putchar(' ');
    if (value_of(row, 0, &value)) {
        PMIx_Value_destruct(&value);
        printf("value %d", value.type);
    }
}

static const struct {
    const char *name;
    void (*run)(const row_t *row);
} operations[] = {
    {"pack", pack}, {"unpack", unpack}, {"copy", copy}, {"print", print}, {"compare", compare}, {"load", load},
    {"unload", unload}, {"xfer", xfer}, {"info", info_load}, {"array", array}, {"free", release},
};

static void apart(const row_t *row, void (*run)(const row_t *row))
{
    int status = 0;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        alarm(20);
        /* Messages of a library are not part of the result. */
        if (freopen("/dev/null", "w", stderr) != NULL) {
            run(row);
        }
        fflush(stdout);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        exit(71);
    }
    if (WIFSIGNALED(status)) {
        printf(" signal %d", WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0) {
        printf(" exit %d", WEXITSTATUS(status));
    }
}

int main(int argc, char **argv)
{
    pmix_status_t status = PMIx_server_init(NULL, NULL, 0);

    if (status != PMIX_SUCCESS || argc != 2) {
        fprintf(stderr, "PMIx_server_init: %d, arguments: %d\n", status, argc);
        return 1;
    }
    frees = strcmp(argv[1], "together") == 0;
    for (int which = 0; which < 2; which++) {
        /* Releases write to the string. */
        char list[] = "hwloc:0-1";

        list[7] = which ? '\0' : '-';
        status = PMIx_Parse_cpuset_string(list, &cpusets[which]);
        if (status != PMIX_SUCCESS) {
            fprintf(stderr, "PMIx_Parse_cpuset_string: %d\n", status);
        }
    }
    status = PMIx_Load_topology(&topology);
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "PMIx_Load_topology: %d\n", status);
    }
    for (size_t type = 0; type < sizeof(rows) / sizeof(rows[0]); type++) {
        for (size_t n = 0; n < sizeof(operations) / sizeof(operations[0]); n++) {
            printf("%s\t%s\t", rows[type].name, operations[n].name);
            if (frees) {
                operations[n].run(&rows[type]);
            } else {
                apart(&rows[type], operations[n].run);
            }
            putchar('\n');
        }
    }
    fflush(stdout);
    if (frees) {
        PMIx_Topology_destruct(&topology);
        PMIx_Cpuset_destruct(&cpusets[0]);
        PMIx_Cpuset_destruct(&cpusets[1]);
    }
    PMIx_server_finalize();
    return 0;
}

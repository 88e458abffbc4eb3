/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Random arguments of every type of the interface, each valid for its type: strings end with a NUL, and arrays
 * have MOST elements. Counts are at most MOST, or larger than any array can be. Included by nulls.c.
 */
#include <limits.h>

#define MOST 8

static uint64_t random_state;
/* The type of the data of this call. */
static pmix_data_type_t random_type;

static uint64_t next_random(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t below(uint64_t bound)
{
    return next_random() % bound;
}

/* Returns a small number mostly, and sometimes any number. */
static int64_t any_number(void)
{
    static const int64_t ends[] = {-1, INT_MAX, INT_MIN, 0x7fff, 0x8000, UINT32_MAX, INT64_MAX, INT64_MIN};
    switch (below(4)) {
        case 0:
            return ends[below(sizeof(ends) / sizeof(ends[0]))];
        case 1:
            return (int64_t) next_random();
        default:
            return (int64_t) below(12);
    }
}

static size_t any_count(void)
{
    static const size_t huge[] = {SIZE_MAX, SIZE_MAX / 2, (size_t) 1 << 33, (size_t) 1 << 60};
    return 0 == below(8) ? huge[below(4)] : below(MOST + 1);
}

/* Returns a number of bytes for a place that has some thousands. */
static size_t any_size(void)
{
    return 0 == below(8) ? SIZE_MAX - below(9) : below(4096);
}

static int32_t *any_place_of_count(void)
{
    int32_t *made = object(MOST * sizeof(*made));
    *made = (int32_t) below(MOST + 1);
    return made;
}

static const char *const words[] = {
    "", "job", "n[1-4]", "pmix[n[3:1-4]]", "raw:a,b", "0,1;2", "blob:", "true", "17", "-1", "%s%n", "localhost",
    PMIX_JOB_SIZE, PMIX_RANK, PMIX_NODE_MAP, PMIX_PROC_MAP, PMIX_TIMEOUT, PMIX_IMMEDIATE, PMIX_OPTIONAL,
    PMIX_COLLECT_DATA, PMIX_RANGE, PMIX_PERSISTENCE, PMIX_EVENT_HDLR_NAME, PMIX_JOB_INFO_ARRAY,
    PMIX_NODE_INFO_ARRAY, PMIX_PROC_INFO_ARRAY, PMIX_GROUP_ID, PMIX_QUERY_NAMESPACES, PMIX_PROC_BLOB,
    PMIX_EVENT_CUSTOM_RANGE, PMIX_IOF_TAG_OUTPUT, PMIX_USERID, PMIX_NSPACE, PMIX_WAIT, PMIX_GET_STATIC_VALUES,
    PMIX_CPUSET, PMIX_LOCALITY_STRING, PMIX_NUM_NODES, PMIX_JOB_CTRL_KILL, PMIX_MONITOR_HEARTBEAT,
};

/* Returns a string in enough memory for a name or a key. */
static char *any_text(void)
{
    char *made = object(4096);
    size_t length, i;
    switch (below(4)) {
        case 0:
            return strcpy(made, job);
        case 1:
            length = 0 == below(4) ? 200 + below(600) : below(24);
            for (i = 0; i < length; i++) {
                /* If it is used as a path, the string is a single file in the working directory. */
                made[i] = (char) (1 + below(255));
                made[i] = '/' == made[i] || '.' == made[i] ? '_' : made[i];
            }
            return made;
        default:
            return strcpy(made, words[below(sizeof(words) / sizeof(words[0]))]);
    }
}

static char **any_strings(void)
{
    char **made = object((MOST + 1) * sizeof(char *));
    size_t count = below(MOST + 1), i;
    for (i = 0; i < count; i++) {
        made[i] = any_text();
    }
    return made;
}

static char ***any_place_of_strings(void)
{
    char ***made = object(MOST * sizeof(char **));
    made[0] = any_strings();
    return made;
}

static void fill_name(char *name, size_t size)
{
    char *text = any_text();
    strncpy(name, text, size - (0 == below(16) ? 0 : 1));
    free(text);
}

static void fill_proc(pmix_proc_t *proc)
{
    static const pmix_rank_t ranks[] = {PMIX_RANK_WILDCARD, PMIX_RANK_UNDEF, PMIX_RANK_LOCAL_NODE, PMIX_RANK_INVALID};
    fill_name(proc->nspace, sizeof(proc->nspace));
    proc->rank = 0 == below(3) ? ranks[below(4)] : (pmix_rank_t) any_number();
}

static pmix_proc_t *any_procs(void)
{
    pmix_proc_t *made = object(MOST * sizeof(*made));
    size_t i;
    for (i = 0; i < MOST; i++) {
        fill_proc(&made[i]);
    }
    return made;
}

static void fill_bytes(pmix_byte_object_t *bytes)
{
    size_t i;
    bytes->size = below(64);
    bytes->bytes = object(64);
    for (i = 0; i < bytes->size; i++) {
        bytes->bytes[i] = (char) next_random();
    }
}

static pmix_byte_object_t *any_bytes(void)
{
    pmix_byte_object_t *made = object(MOST * sizeof(*made));
    size_t i;
    for (i = 0; i < MOST; i++) {
        fill_bytes(&made[i]);
    }
    return made;
}

static pmix_data_type_t any_type(void)
{
    return 0 == below(12) ? (pmix_data_type_t) next_random() : (pmix_data_type_t) below(70);
}

static void *any_data(pmix_data_type_t type, int depth);

static void fill_any_value(pmix_value_t *value, int depth)
{
    pmix_data_array_t *array;
    memset(value, 0, sizeof(*value));
    value->type = any_type();
    switch (value->type) {
        case PMIX_STRING:
            value->data.string = any_text();
            break;
        case PMIX_BYTE_OBJECT:
        case PMIX_COMPRESSED_STRING:
        case PMIX_COMPRESSED_BYTE_OBJECT:
        case PMIX_REGEX:
            fill_bytes(&value->data.bo);
            break;
        case PMIX_PROC:
            value->data.proc = any_procs();
            break;
        case PMIX_BOOL:
            value->data.flag = 0 != below(2);
            break;
        case PMIX_ENVAR:
            value->data.envar.envar = any_text();
            value->data.envar.value = any_text();
            value->data.envar.separator = ':';
            break;
        case PMIX_DATA_ARRAY:
            array = object(sizeof(*array));
            array->type = any_type();
            array->size = below(MOST + 1);
            array->array = any_data(array->type, depth + 1);
            if (NULL == array->array) {
                array->size = 0;
            }
            value->data.darray = array;
            break;
        case PMIX_PROC_INFO:
        case PMIX_COORD:
        case PMIX_TOPO:
        case PMIX_PROC_CPUSET:
        case PMIX_GEOMETRY:
        case PMIX_DEVICE_DIST:
        case PMIX_ENDPOINT:
        case PMIX_REGATTR:
        case PMIX_JOB_STATE:
        case PMIX_PROC_STATS:
        case PMIX_DISK_STATS:
        case PMIX_NET_STATS:
        case PMIX_NODE_STATS:
        case PMIX_DATA_BUFFER:
        case PMIX_PROC_NSPACE:
        case PMIX_POINTER:
            break;
        default:
            /* A number, or a type without one. No pointer may lead to random memory. */
            if (value->type < PMIX_TIMEVAL) {
                value->data.uint64 = (uint64_t) any_number();
            }
    }
}

static void fill_info(pmix_info_t *info, int depth)
{
    static const pmix_info_directives_t flags[] = {PMIX_INFO_REQD, PMIX_INFO_QUALIFIER, PMIX_INFO_ARRAY_END};
    fill_name(info->key, sizeof(info->key));
    info->flags = 0 == below(4) ? flags[below(3)] : 0;
    fill_any_value(&info->value, depth);
}

static pmix_info_t *any_infos_at(int depth)
{
    pmix_info_t *made = object(MOST * sizeof(*made));
    size_t i;
    for (i = 0; i < MOST && depth < 3; i++) {
        fill_info(&made[i], depth + 1);
    }
    return made;
}

static pmix_info_t *any_infos(void)
{
    return any_infos_at(0);
}

static pmix_value_t *any_values(void)
{
    pmix_value_t *made = object(MOST * sizeof(*made));
    size_t i;
    for (i = 0; i < MOST; i++) {
        fill_any_value(&made[i], 0);
    }
    return made;
}

static pmix_pdata_t *any_pdata(void)
{
    pmix_pdata_t *made = object(MOST * sizeof(*made));
    size_t i;
    for (i = 0; i < MOST; i++) {
        fill_proc(&made[i].proc);
        fill_name(made[i].key, sizeof(made[i].key));
        fill_any_value(&made[i].value, 0);
    }
    return made;
}

static pmix_query_t *any_queries(void)
{
    pmix_query_t *made = object(MOST * sizeof(*made));
    size_t i;
    for (i = 0; i < MOST; i++) {
        made[i].keys = any_strings();
        made[i].qualifiers = any_infos_at(1);
        made[i].nqual = below(MOST + 1);
    }
    return made;
}

static pmix_app_t *any_apps(void)
{
    pmix_app_t *made = object(MOST * sizeof(*made));
    size_t i;
    for (i = 0; i < MOST; i++) {
        made[i].cmd = any_text();
        made[i].argv = any_strings();
        made[i].env = any_strings();
        made[i].cwd = any_text();
        made[i].maxprocs = (int) any_number();
        made[i].info = any_infos_at(1);
        made[i].ninfo = below(MOST + 1);
    }
    return made;
}

static pmix_data_buffer_t *any_buffer(void)
{
    pmix_data_buffer_t *made = object(MOST * sizeof(*made));
    pmix_byte_object_t bytes;
    fill_bytes(&bytes);
    made->base_ptr = bytes.bytes;
    made->unpack_ptr = bytes.bytes;
    made->pack_ptr = bytes.bytes + bytes.size;
    made->bytes_allocated = 64;
    made->bytes_used = bytes.size;
    return made;
}

/* Returns MOST data of a type. Other types than these get zeros, which contain no pointers. */
static void *any_data(pmix_data_type_t type, int depth)
{
    switch (type) {
        case PMIX_STRING: {
            char **made = object(MOST * sizeof(char *));
            size_t i;
            for (i = 0; i < MOST; i++) {
                made[i] = any_text();
            }
            return made;
        }
        case PMIX_PROC:
            return any_procs();
        case PMIX_BYTE_OBJECT:
        case PMIX_COMPRESSED_STRING:
        case PMIX_COMPRESSED_BYTE_OBJECT:
            return any_bytes();
        case PMIX_INFO:
            return depth < 2 ? any_infos_at(depth) : NULL;
        case PMIX_VALUE:
            return depth < 2 ? any_values() : NULL;
        case PMIX_APP:
            return depth < 1 ? any_apps() : NULL;
        case PMIX_QUERY:
            return depth < 1 ? any_queries() : NULL;
        case PMIX_PDATA:
            return depth < 1 ? any_pdata() : NULL;
        default:
            return object(MOST * 1024);
    }
}

static void *any_list(void)
{
    pmix_info_t *infos = any_infos();
    void *made = PMIx_Info_list_start();
    size_t i;
    for (i = 0; i < below(MOST); i++) {
        PMIx_Info_list_xfer(made, &infos[i]);
    }
    return made;
}

static void begin_random(uint64_t seed, size_t number, size_t round)
{
    random_state = seed ^ (number << 32) ^ (round << 52);
    random_type = any_type();
}

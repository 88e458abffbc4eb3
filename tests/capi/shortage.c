/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Makes calls with large arguments while the process can allocate little memory; see shortage.h.
 *
 * The environment is that of the only process of a job whose job info has the key "app.large".
 */
#include "pmix.h"

#include "pmix_server.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "shortage.h"

#define MIB ((size_t) 1 << 20)
/* The size of a large argument in bytes, and the number of elements of a long one. */
#define LARGE (4 * MIB)
#define MANY 20000

/* Arguments, which are made before the limit is set. */
static char *text;
static pmix_byte_object_t object;
static pmix_proc_t *procs;
static pmix_info_t *infos;
static char **words;
static pmix_value_t of_text, of_object, of_infos;
static pmix_data_buffer_t packed;

static char *letters(size_t len)
{
    char *made = malloc(len + 1);
    for (size_t at = 0; at < len; at++) {
        made[at] = (char) ('a' + (at * 7 + at / 31) % 26);
    }
    made[len] = '\0';
    return made;
}

static void make(void)
{
    pmix_data_array_t *array;
    text = letters(LARGE);
    object.bytes = text;
    object.size = LARGE;
    procs = malloc(MANY * sizeof(*procs));
    words = malloc((10 * MANY + 1) * sizeof(*words));
    PMIX_INFO_CREATE(infos, MANY / 4);
    for (size_t at = 0; at < MANY; at++) {
        PMIX_LOAD_PROCID(&procs[at], "another", (pmix_rank_t) at);
    }
    for (size_t at = 0; at < 10 * MANY; at++) {
        words[at] = text + LARGE - 1 - at % 40;
    }
    words[10 * MANY] = NULL;
    for (size_t at = 0; at < MANY / 4; at++) {
        PMIX_INFO_LOAD(&infos[at], "app.key", text + LARGE - 100 - at, PMIX_STRING);
    }
    of_text.type = PMIX_STRING;
    of_text.data.string = text;
    of_object.type = PMIX_BYTE_OBJECT;
    of_object.data.bo = object;
    array = malloc(sizeof(*array));
    array->type = PMIX_INFO;
    array->size = MANY / 4;
    array->array = infos;
    of_infos.type = PMIX_DATA_ARRAY;
    of_infos.data.darray = array;
    PMIX_DATA_BUFFER_CONSTRUCT(&packed);
}

static pmix_status_t pack(void *data, int32_t count, pmix_data_type_t type)
{
    pmix_data_buffer_t buffer;
    pmix_status_t status;
    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    limit(room);
    status = PMIx_Data_pack(NULL, &buffer, data, count, type);
    unlimited();
    if (status == PMIX_SUCCESS && buffer.bytes_used == 0) {
        exit(3);
    }
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
    return status;
}

static pmix_status_t pack_text(void) { return pack(&text, 1, PMIX_STRING); }
static pmix_status_t pack_words(void) { return pack(words, 10 * MANY, PMIX_STRING); }
static pmix_status_t pack_object(void) { return pack(&object, 1, PMIX_BYTE_OBJECT); }
static pmix_status_t pack_procs(void) { return pack(procs, MANY, PMIX_PROC); }
static pmix_status_t pack_infos(void) { return pack(infos, MANY / 4, PMIX_INFO); }
static pmix_status_t pack_numbers(void) { return pack(text, LARGE / 4, PMIX_UINT32); }
static pmix_status_t pack_bytes(void) { return pack(text, LARGE, PMIX_BYTE); }
static pmix_status_t pack_value(void) { return pack(&of_infos, 1, PMIX_VALUE); }

static pmix_status_t unpack(void *data, int32_t count, pmix_data_type_t type, size_t size)
{
    void *to = calloc((size_t) count, size);
    pmix_status_t status;
    int32_t there = count;
    IS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &packed, data, count, type));
    limit(room);
    status = PMIx_Data_unpack(NULL, &packed, to, &there, type);
    unlimited();
    if (status == PMIX_SUCCESS && there != count) {
        exit(3);
    }
    return status;
}

static pmix_status_t unpack_text(void) { return unpack(&text, 1, PMIX_STRING, sizeof(char *)); }
static pmix_status_t unpack_words(void) { return unpack(words, 10 * MANY, PMIX_STRING, sizeof(char *)); }
static pmix_status_t unpack_object(void)
{
    return unpack(&object, 1, PMIX_BYTE_OBJECT, sizeof(object));
}
static pmix_status_t unpack_procs(void) { return unpack(procs, MANY, PMIX_PROC, sizeof(*procs)); }
static pmix_status_t unpack_infos(void)
{
    return unpack(infos, MANY / 4, PMIX_INFO, sizeof(*infos));
}

static pmix_status_t copy(void *data, pmix_data_type_t type)
{
    void *made = NULL;
    pmix_status_t status;
    limit(room);
    status = PMIx_Data_copy(&made, data, type);
    unlimited();
    if (status == PMIX_SUCCESS && made == NULL) {
        exit(3);
    }
    return status;
}

static pmix_status_t copy_text(void) { return copy(text, PMIX_STRING); }
static pmix_status_t copy_object(void) { return copy(&object, PMIX_BYTE_OBJECT); }
static pmix_status_t copy_infos(void) { return copy(of_infos.data.darray, PMIX_DATA_ARRAY); }
static pmix_status_t copy_value(void) { return copy(&of_text, PMIX_VALUE); }

static pmix_status_t copy_payload(void)
{
    pmix_data_buffer_t to;
    pmix_status_t status;
    PMIX_DATA_BUFFER_CONSTRUCT(&to);
    IS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &packed, &object, 1, PMIX_BYTE_OBJECT));
    limit(room);
    status = PMIx_Data_copy_payload(&to, &packed);
    unlimited();
    return status;
}

static pmix_status_t embed(void)
{
    pmix_status_t status;
    limit(room);
    status = PMIx_Data_embed(&packed, &object);
    unlimited();
    return status;
}

static pmix_status_t print(void *data, pmix_data_type_t type)
{
    char *line = NULL;
    pmix_status_t status;
    limit(room);
    status = PMIx_Data_print(&line, "this: ", data, type);
    unlimited();
    return status;
}

static pmix_status_t print_text(void) { return print(text, PMIX_STRING); }
static pmix_status_t print_infos(void) { return print(of_infos.data.darray, PMIX_DATA_ARRAY); }

static pmix_status_t told(bool done) { return done ? PMIX_SUCCESS : PMIX_ERR_NOMEM; }

static pmix_status_t value_string(void)
{
    char *made;
    limit(room);
    made = PMIx_Value_string(&of_infos);
    unlimited();
    return told(made != NULL);
}

static pmix_status_t compress(void)
{
    uint8_t *made = NULL;
    size_t len = 0;
    bool done;
    limit(room);
    done = PMIx_Data_compress((uint8_t *) text, LARGE, &made, &len);
    unlimited();
    return told(done);
}

static pmix_status_t decompress(void)
{
    uint8_t *made = NULL, *whole = NULL;
    size_t len = 0, all = 0;
    bool done;
    HOLDS(PMIx_Data_compress((uint8_t *) text, LARGE, &made, &len));
    limit(room);
    done = PMIx_Data_decompress(made, len, &whole, &all);
    unlimited();
    return told(done);
}

static pmix_status_t value_load(void)
{
    pmix_value_t value;
    pmix_status_t status;
    limit(room);
    status = PMIx_Value_load(&value, text, PMIX_STRING);
    unlimited();
    return status;
}

static pmix_status_t value_xfer(void)
{
    pmix_value_t value;
    pmix_status_t status;
    limit(room);
    status = PMIx_Value_xfer(&value, &of_infos);
    unlimited();
    return status;
}

static pmix_status_t value_unload(void)
{
    void *made = NULL;
    size_t size = 0;
    pmix_status_t status;
    limit(room);
    status = PMIx_Value_unload(&of_text, &made, &size);
    unlimited();
    return status;
}

static pmix_status_t info_load(void)
{
    pmix_info_t info;
    pmix_status_t status;
    limit(room);
    status = PMIx_Info_load(&info, "app.key", &object, PMIX_BYTE_OBJECT);
    unlimited();
    return status;
}

static pmix_status_t info_xfer(void)
{
    pmix_info_t from, to;
    pmix_status_t status;
    PMIX_INFO_CONSTRUCT(&from);
    IS(PMIX_SUCCESS, PMIx_Info_load(&from, "app.key", text, PMIX_STRING));
    limit(room);
    status = PMIx_Info_xfer(&to, &from);
    unlimited();
    return status;
}

static pmix_status_t info_list(void)
{
    void *list = PMIx_Info_list_start();
    pmix_data_array_t array;
    pmix_status_t status = PMIX_SUCCESS;
    limit(room);
    for (size_t at = 0; at < MANY / 4 && status == PMIX_SUCCESS; at++) {
        status = PMIx_Info_list_xfer(list, &infos[at]);
    }
    if (status == PMIX_SUCCESS) {
        status = PMIx_Info_list_convert(list, &array);
    }
    unlimited();
    return status;
}

static pmix_status_t argv_append(void)
{
    char **list = NULL;
    pmix_status_t status;
    limit(room);
    status = PMIx_Argv_append_nosize(&list, text);
    unlimited();
    return status;
}

static pmix_status_t argv_copy(void)
{
    char **made;
    limit(room);
    made = PMIx_Argv_copy(words);
    unlimited();
    return told(made != NULL);
}

static pmix_status_t argv_join(void)
{
    char *made;
    limit(room);
    made = PMIx_Argv_join(words, ',');
    unlimited();
    return told(made != NULL);
}

static pmix_status_t argv_split(void)
{
    char **made;
    limit(room);
    made = PMIx_Argv_split(text, 'e');
    unlimited();
    return told(made != NULL);
}

static pmix_status_t set_variable(void)
{
    char **list = NULL;
    pmix_status_t status;
    IS(PMIX_SUCCESS, PMIx_Argv_append_nosize(&list, "A=b"));
    limit(room);
    status = PMIx_Setenv("NAME", text, true, &list);
    unlimited();
    return status;
}

/* Calls of a client. */

static pmix_status_t put_text(void)
{
    pmix_status_t status;
    limit(room);
    status = PMIx_Put(PMIX_GLOBAL, "app.put", &of_text);
    unlimited();
    return status;
}

static pmix_status_t put_infos(void)
{
    pmix_status_t status;
    limit(room);
    status = PMIx_Put(PMIX_GLOBAL, "app.put", &of_infos);
    unlimited();
    return status;
}

static pmix_status_t put_again_and_again(void)
{
    pmix_status_t status = PMIX_SUCCESS;
    char key[32];
    limit(room);
    for (int at = 0; at < 400 && status == PMIX_SUCCESS; at++) {
        pmix_value_t value = {.type = PMIX_STRING};
        value.data.string = text + LARGE - 30000 - at;
        snprintf(key, sizeof(key), "app.put%d", at);
        status = PMIx_Put(PMIX_LOCAL, key, &value);
    }
    unlimited();
    return status;
}

static pmix_status_t commit(void)
{
    pmix_status_t status;
    IS(PMIX_SUCCESS, PMIx_Put(PMIX_LOCAL, "app.put", &of_object));
    limit(room);
    status = PMIx_Commit();
    unlimited();
    return status;
}

static pmix_status_t store(void)
{
    pmix_proc_t other;
    pmix_status_t status;
    PMIX_LOAD_PROCID(&other, self.nspace, 7);
    limit(room);
    status = PMIx_Store_internal(&other, "app.put", &of_text);
    unlimited();
    return status;
}

static pmix_status_t get_own(void)
{
    pmix_value_t *value = NULL;
    pmix_status_t status;
    IS(PMIX_SUCCESS, PMIx_Put(PMIX_LOCAL, "app.put", &of_text));
    limit(room);
    status = PMIx_Get(&self, "app.put", NULL, 0, &value);
    unlimited();
    return status;
}

static pmix_status_t get_of_job(void)
{
    pmix_proc_t job;
    pmix_value_t *value = NULL;
    pmix_status_t status;
    PMIX_LOAD_PROCID(&job, self.nspace, PMIX_RANK_WILDCARD);
    limit(room);
    status = PMIx_Get(&job, "app.large", NULL, 0, &value);
    unlimited();
    return status;
}

static pmix_status_t get_committed(void)
{
    pmix_value_t *value = NULL;
    pmix_info_t fresh;
    bool yes = true;
    pmix_status_t status;
    IS(PMIX_SUCCESS, PMIx_Put(PMIX_GLOBAL, "app.put", &of_text));
    IS(PMIX_SUCCESS, PMIx_Commit());
    PMIX_INFO_LOAD(&fresh, PMIX_GET_REFRESH_CACHE, &yes, PMIX_BOOL);
    limit(room);
    status = PMIx_Get(&self, "app.put", &fresh, 1, &value);
    unlimited();
    return status;
}

/* Some calls are rejected by a server without a host; it matters only that they return. */
static pmix_status_t any(pmix_status_t status)
{
    unlimited();
    return status == PMIX_ERR_NOMEM ? status : PMIX_SUCCESS;
}

static pmix_status_t publish(void)
{
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    IS(PMIX_SUCCESS, PMIx_Info_load(&info, "app.data", text, PMIX_STRING));
    limit(room);
    return any(PMIx_Publish(&info, 1));
}

static pmix_status_t lookup(void)
{
    pmix_pdata_t *data;
    PMIX_PDATA_CREATE(data, MANY / 4);
    for (size_t at = 0; at < MANY / 4; at++) {
        PMIX_LOAD_KEY(data[at].key, text + LARGE - 200 - at);
    }
    limit(room);
    return any(PMIx_Lookup(data, MANY / 4, infos, MANY / 4));
}

static pmix_status_t unpublish(void)
{
    limit(room);
    return any(PMIx_Unpublish(words, infos, MANY / 4));
}

static pmix_status_t say(void)
{
    pmix_info_t data;
    PMIX_INFO_CONSTRUCT(&data);
    IS(PMIX_SUCCESS, PMIx_Info_load(&data, "app.said", text, PMIX_STRING));
    limit(room);
    return any(PMIx_Log(&data, 1, NULL, 0));
}

static pmix_status_t spawn(void)
{
    pmix_app_t app;
    char name[PMIX_MAX_NSLEN + 1];
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = "none";
    app.argv = words;
    app.env = words;
    app.maxprocs = 1;
    limit(room);
    return any(PMIx_Spawn(infos, MANY / 4, &app, 1, name));
}

static pmix_status_t notify(void)
{
    limit(room);
    return any(PMIx_Notify_event(-5000, &self, PMIX_RANGE_LOCAL, infos, MANY / 4, NULL, NULL));
}

static pmix_status_t connect_procs(void)
{
    limit(room);
    return any(PMIx_Connect(procs, MANY, infos, MANY / 4));
}

static pmix_status_t control(void)
{
    limit(room);
    return any(PMIx_Job_control(procs, MANY, infos, MANY / 4, NULL, NULL));
}

static pmix_status_t query(void)
{
    pmix_query_t one;
    pmix_info_t *found = NULL;
    size_t count = 0;
    PMIX_QUERY_CONSTRUCT(&one);
    one.keys = words + 9 * MANY;
    one.qualifiers = infos;
    one.nqual = MANY / 4;
    limit(room);
    return any(PMIx_Query_info(&one, 1, &found, &count));
}

/* Calls of a server. */

static pmix_status_t register_job(void)
{
    pmix_info_t info;
    pmix_status_t status;
    PMIX_INFO_CONSTRUCT(&info);
    IS(PMIX_SUCCESS, PMIx_Info_load(&info, "app.large", text, PMIX_STRING));
    limit(room);
    status = PMIx_server_register_nspace(self.nspace, 1, &info, 1, NULL, NULL);
    unlimited();
    return status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status;
}

static pmix_status_t make_regex(void)
{
    char *made = NULL;
    pmix_status_t status;
    for (size_t at = 0; at < LARGE; at += 9) {
        text[at] = ',';
    }
    limit(room);
    status = PMIx_generate_regex(text + 1, &made);
    unlimited();
    return status;
}

static pmix_status_t make_ppn(void)
{
    char *made = NULL;
    pmix_status_t status;
    for (size_t at = 0; at < LARGE; at++) {
        text[at] = at % 8 == 7 ? ';' : (char) ('0' + (at / 8 >> (3 * (at % 8))) % 8);
    }
    limit(room);
    status = PMIx_generate_ppn(text, &made);
    unlimited();
    return status;
}

static pmix_status_t deliver(void)
{
    pmix_status_t status;
    limit(room);
    status = PMIx_server_IOF_deliver(&self, PMIX_FWD_STDOUT_CHANNEL, &object, infos, MANY / 4, NULL, NULL);
    unlimited();
    return status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status;
}

static pmix_status_t own_store(void)
{
    pmix_status_t status;
    limit(room);
    status = PMIx_Store_internal(&self, "app.put", &of_infos);
    unlimited();
    return status;
}

static pmix_status_t server_notify(void)
{
    limit(room);
    return any(PMIx_Notify_event(-5000, &self, PMIX_RANGE_LOCAL, infos, MANY / 4, NULL, NULL));
}

static const struct shortage CALLS[] = {
    {"pack a string", NONE, pack_text},
    {"pack strings", NONE, pack_words},
    {"pack a byte object", NONE, pack_object},
    {"pack processes", NONE, pack_procs},
    {"pack infos", NONE, pack_infos},
    {"pack numbers", NONE, pack_numbers},
    {"pack bytes", NONE, pack_bytes},
    {"pack a value", NONE, pack_value},
    {"unpack a string", NONE, unpack_text},
    {"unpack strings", NONE, unpack_words},
    {"unpack a byte object", NONE, unpack_object},
    {"unpack processes", NONE, unpack_procs},
    {"unpack infos", NONE, unpack_infos},
    {"copy a string", NONE, copy_text},
    {"copy a byte object", NONE, copy_object},
    {"copy an array of infos", NONE, copy_infos},
    {"copy a value", NONE, copy_value},
    {"copy a payload", NONE, copy_payload},
    {"embed", NONE, embed},
    {"print a string", NONE, print_text},
    {"print infos", NONE, print_infos},
    {"show a value", NONE, value_string},
    {"compress", NONE, compress},
    {"decompress", NONE, decompress},
    {"load a value", NONE, value_load},
    {"copy a value of infos", NONE, value_xfer},
    {"unload a value", NONE, value_unload},
    {"load an info", NONE, info_load},
    {"copy an info", NONE, info_xfer},
    {"fill a list of infos", NONE, info_list},
    {"append to strings", NONE, argv_append},
    {"copy strings", NONE, argv_copy},
    {"join strings", NONE, argv_join},
    {"split a string", NONE, argv_split},
    {"set a variable", NONE, set_variable},
    {"put a string", CLIENT, put_text},
    {"put infos", CLIENT, put_infos},
    {"put again and again", CLIENT, put_again_and_again},
    {"commit", CLIENT, commit},
    {"store", CLIENT, store},
    {"get an own value", CLIENT, get_own},
    {"get a value of the job", CLIENT, get_of_job},
    {"get a value from the server", CLIENT, get_committed},
    {"publish", CLIENT, publish},
    {"look up", CLIENT, lookup},
    {"unpublish", CLIENT, unpublish},
    {"log", CLIENT, say},
    {"spawn", CLIENT, spawn},
    {"notify", CLIENT, notify},
    {"connect", CLIENT, connect_procs},
    {"control", CLIENT, control},
    {"query", CLIENT, query},
    {"register a job", SERVER, register_job},
    {"encode nodes", SERVER, make_regex},
    {"encode processes", SERVER, make_ppn},
    {"deliver output", SERVER, deliver},
    {"store in the server", SERVER, own_store},
    {"notify from the server", SERVER, server_notify},
};

int main(int argc, char **argv)
{
    getrlimit(RLIMIT_AS, &before);
    make();
    make_calls(CALLS, sizeof(CALLS) / sizeof(CALLS[0]), argc, argv);
    printf("shortage: ok\n");
    return 0;
}

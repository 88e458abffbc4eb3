/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions for data that need no server: values, infos, lists, arrays of strings and buffers. The program
 * exits with 0 if every check held, and prints the first that did not.
 */
#define PMIX_WANT_RELEASE_3
#include <pmix_extend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                               \
    do {                                                          \
        if (!(what)) {                                            \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what);    \
            return 1;                                             \
        }                                                         \
    } while (0)

static int values(void)
{
    pmix_value_t value = PMIX_VALUE_STATIC_INIT, copy;
    pmix_proc_t proc, *unloaded = NULL;
    pmix_byte_object_t bytes, *object = NULL;
    pmix_data_array_t *array = NULL;
    pmix_info_t *infos;
    size_t size = 0;
    uint16_t small = 0;
    int32_t number = 70000, got = 0, *at = &got;
    char *text = NULL;

    CHECK(PMIx_Value_load(&value, "abc", PMIX_STRING) == PMIX_SUCCESS);
    CHECK(PMIx_Value_xfer(&copy, &value) == PMIX_SUCCESS);
    CHECK(copy.data.string != value.data.string && strcmp(copy.data.string, "abc") == 0);
    CHECK(PMIx_Value_compare(&copy, &value) == PMIX_EQUAL);
    CHECK(PMIx_Value_unload(&copy, (void **)&text, &size) == PMIX_SUCCESS);
    CHECK(size == 3 && strcmp(text, "abc") == 0);
    free(text);
    PMIX_VALUE_DESTRUCT(&value);
    PMIX_VALUE_DESTRUCT(&copy);
    CHECK(copy.type == PMIX_UNDEF);

    CHECK(PMIx_Value_load(&value, &number, PMIX_INT32) == PMIX_SUCCESS);
    CHECK(PMIx_Value_unload(&value, (void **)&at, &size) == PMIX_SUCCESS);
    CHECK(got == 70000 && size == sizeof(got));
    CHECK(PMIx_Value_get_number(&value, &small, PMIX_UINT16) == PMIX_ERR_LOST_PRECISION);
    PMIX_VALUE_GET_NUMBER(got, &value, size, size_t);
    CHECK(got == PMIX_SUCCESS && size == 70000);

    PMIX_LOAD_PROCID(&proc, "job", 3);
    PMIX_VALUE_LOAD(&value, &proc, PMIX_PROC);
    CHECK(PMIx_Value_unload(&value, (void **)&unloaded, &size) == PMIX_SUCCESS);
    CHECK(unloaded->rank == 3 && PMIX_CHECK_NSPACE(unloaded->nspace, "job"));
    PMIX_PROC_FREE(unloaded, 1);
    PMIX_VALUE_DESTRUCT(&value);

    bytes.bytes = (char *)"a\0b";
    bytes.size = 3;
    PMIX_VALUE_LOAD(&value, &bytes, PMIX_BYTE_OBJECT);
    CHECK(PMIx_Value_unload(&value, (void **)&object, &size) == PMIX_SUCCESS);
    CHECK(object->size == 3 && memcmp(object->bytes, "a\0b", 3) == 0);
    PMIX_BYTE_OBJECT_FREE(object, 1);
    PMIX_VALUE_DESTRUCT(&value);

    PMIX_DATA_ARRAY_CREATE(array, 2, PMIX_INFO);
    infos = (pmix_info_t *)array->array;
    PMIX_INFO_LOAD(&infos[0], PMIX_HOSTNAME, "n01", PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_LOCAL_SIZE, &number, PMIX_INT32);
    PMIX_VALUE_LOAD(&value, array, PMIX_DATA_ARRAY);
    PMIX_DATA_ARRAY_FREE(array);
    CHECK(array == NULL && value.data.darray->size == 2);
    CHECK(PMIx_Value_xfer(&copy, &value) == PMIX_SUCCESS);
    infos = (pmix_info_t *)copy.data.darray->array;
    CHECK(strcmp(infos[0].value.data.string, "n01") == 0);
    text = PMIx_Value_string(&copy);
    CHECK(text != NULL && strstr(text, "n01") != NULL);
    free(text);
    PMIX_VALUE_DESTRUCT(&copy);
    PMIX_VALUE_DESTRUCT(&value);

    /* A value without its array is copied as one with an empty array. */
    value.type = PMIX_DATA_ARRAY;
    value.data.darray = NULL;
    CHECK(PMIx_Value_xfer(&copy, &value) == PMIX_SUCCESS);
    CHECK(copy.type == PMIX_DATA_ARRAY && copy.data.darray != NULL && copy.data.darray->size == 0);
    PMIX_VALUE_DESTRUCT(&copy);
    CHECK(PMIx_Value_load(&value, &number, 4711) == PMIX_ERR_UNKNOWN_DATA_TYPE);
    return 0;
}

static int infos(void)
{
    pmix_data_array_t array = PMIX_DATA_ARRAY_STATIC_INIT;
    pmix_info_t info, *one;
    uint32_t number = 4;
    void *list, *next = NULL;
    bool no = false;
    int seen = 0;

    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, NULL, PMIX_BOOL);
    CHECK(PMIX_INFO_TRUE(&info) && PMIX_CHECK_KEY(&info, PMIX_COLLECT_DATA));
    PMIX_INFO_REQUIRED(&info);
    CHECK(PMIX_INFO_IS_REQUIRED(&info) && !PMIX_INFO_IS_END(&info));
    PMIX_INFO_DESTRUCT(&info);

    list = PMIx_Info_list_start();
    CHECK(PMIx_Info_list_convert(list, &array) == PMIX_ERR_EMPTY);
    CHECK(PMIx_Info_list_add(list, "a", &number, PMIX_UINT32) == PMIX_SUCCESS);
    CHECK(PMIx_Info_list_add(list, "b", "text", PMIX_STRING) == PMIX_SUCCESS);
    CHECK(PMIx_Info_list_add_unique(list, "b", "other", PMIX_STRING, false) == PMIX_SUCCESS);
    CHECK(PMIx_Info_list_prepend(list, "first", &no, PMIX_BOOL) == PMIX_SUCCESS);
    CHECK(PMIx_Info_list_get_size(list) == 3);
    one = PMIx_Info_list_get_info(list, NULL, &next);
    CHECK(strcmp(one->key, "first") == 0);
    for (seen = 1; next != NULL; seen++) {
        one = PMIx_Info_list_get_info(list, next, &next);
        CHECK(one != NULL);
    }
    CHECK(seen == 3 && strcmp(one->value.data.string, "text") == 0);
    CHECK(PMIx_Info_list_convert(list, &array) == PMIX_SUCCESS && array.size == 3);
    PMIx_Info_list_release(list);
    one = (pmix_info_t *)array.array;
    CHECK(one[1].value.data.uint32 == 4 && strcmp(one[2].value.data.string, "text") == 0);
    PMIX_DATA_ARRAY_DESTRUCT(&array);
    return 0;
}

static int strings(void)
{
    char **argv = NULL, **copy, *joined;
    int rc;

    PMIX_ARGV_APPEND(rc, argv, "b");
    CHECK(rc == PMIX_SUCCESS);
    PMIX_ARGV_PREPEND(rc, argv, "a");
    CHECK(PMIx_Argv_append_unique_nosize(&argv, "b") == PMIX_SUCCESS);
    CHECK(PMIx_Argv_count(argv) == 2);
    joined = PMIx_Argv_join(argv, ',');
    CHECK(strcmp(joined, "a,b") == 0);
    free(joined);
    copy = PMIx_Argv_copy(argv);
    PMIX_ARGV_FREE(argv);
    PMIX_SETENV(rc, "X", "1", &copy);
    CHECK(rc == PMIX_SUCCESS && strcmp(copy[2], "X=1") == 0);
    CHECK(PMIx_Setenv("X", "2", false, &copy) == PMIX_ERR_EXISTS);
    PMIX_ARGV_FREE(copy);
    argv = PMIx_Argv_split_with_empty("a,,b", ',');
    CHECK(PMIx_Argv_count(argv) == 3 && argv[1][0] == '\0');
    PMIx_Argv_free(argv);

    CHECK(strcmp(PMIx_Error_string(PMIX_ERR_NOT_FOUND), "PMIX_ERR_NOT_FOUND") == 0);
    CHECK(PMIx_Error_code("PMIX_ERR_NOT_FOUND") == PMIX_ERR_NOT_FOUND);
    CHECK(strcmp(PMIx_Get_attribute_string("PMIX_JOB_SIZE"), PMIX_JOB_SIZE) == 0);
    CHECK(strcmp(PMIx_Get_attribute_name(PMIX_JOB_SIZE), "PMIX_JOB_SIZE") == 0);
    CHECK(strcmp(PMIx_Data_type_string(PMIX_STRING), "PMIX_STRING") == 0);
    CHECK(PMIx_Get_version()[0] > '9');
    return 0;
}

extern char **environ;

/* Arrays that the caller did not allocate: the environment of the process, and arrays on its stack. */
static int borrowed(char **argv, char **envp)
{
    char *words[] = {(char *)"A=1", (char *)"B=2", NULL}, **list = words, **before;

    CHECK(PMIx_Setenv("UTIL_X", "v", true, &environ) == PMIX_SUCCESS);
    CHECK(strcmp(getenv("UTIL_X"), "v") == 0);
    CHECK(PMIx_Setenv("UTIL_X", "w", true, &environ) == PMIX_SUCCESS);
    CHECK(PMIx_Setenv("UTIL_X", "no", false, &environ) == PMIX_SUCCESS);
    CHECK(strcmp(getenv("UTIL_X"), "w") == 0);
    before = environ;
    CHECK(PMIx_Setenv("UTIL_Y", "y", true, &before) == PMIX_SUCCESS && before == environ);
    CHECK(PMIx_Setenv("UTIL_X", NULL, true, &environ) == PMIX_SUCCESS && getenv("UTIL_X") == NULL);
    CHECK(PMIx_Setenv("", "v", true, &environ) == PMIX_ERR_BAD_PARAM);
    CHECK(PMIx_Setenv("A=B", "v", true, &environ) == PMIX_ERR_BAD_PARAM);

    before = environ;
    CHECK(PMIx_Argv_append_nosize(&environ, "UTIL_Z=z") == PMIX_SUCCESS && environ != before);
    CHECK(strcmp(getenv("UTIL_Z"), "z") == 0 && strcmp(getenv("UTIL_Y"), "y") == 0);
    PMIx_Argv_free(environ);
    environ = before;

    CHECK(PMIx_Setenv("A", "3", true, &list) == PMIX_SUCCESS && list != words);
    CHECK(strcmp(list[0], "A=3") == 0 && strcmp(words[0], "A=1") == 0);
    PMIx_Argv_free(list);
    list = words;
    CHECK(PMIx_Argv_prepend_nosize(&list, "first") == PMIX_SUCCESS && PMIx_Argv_count(list) == 3);
    CHECK(strcmp(list[2], "B=2") == 0);
    PMIx_Argv_free(list);
    list = words;
    CHECK(PMIx_Argv_append_unique_nosize(&list, "A=1") == PMIX_SUCCESS && list == words);
    CHECK(PMIx_Argv_append_unique_nosize(&list, "C=3") == PMIX_SUCCESS && list != words);
    PMIx_Argv_free(list);

    list = argv;
    CHECK(PMIx_Argv_append_nosize(&list, "last") == PMIX_SUCCESS && list != argv);
    CHECK(strcmp(list[PMIx_Argv_count(argv)], "last") == 0);
    PMIx_Argv_free(list);
    list = envp;
    CHECK(PMIx_Setenv("UTIL_W", "w", true, &list) == PMIX_SUCCESS && list != envp);
    PMIx_Argv_free(list);
    return 0;
}

static int buffers(void)
{
    pmix_data_buffer_t buffer = PMIX_DATA_BUFFER_STATIC_INIT, other = PMIX_DATA_BUFFER_STATIC_INIT;
    pmix_byte_object_t payload = PMIX_BYTE_OBJECT_STATIC_INIT;
    uint32_t numbers[3] = {1, 70000, 3}, got[3] = {0, 0, 0};
    char *text = (char *)"text", *back = NULL, *texts[2] = {text, text};
    int32_t count;

    CHECK(PMIx_Data_pack(NULL, &buffer, numbers, 3, PMIX_UINT32) == PMIX_SUCCESS);
    CHECK(PMIx_Data_pack(NULL, &buffer, &text, 1, PMIX_STRING) == PMIX_SUCCESS);
    CHECK(PMIx_Data_copy_payload(&other, &buffer) == PMIX_SUCCESS);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
    count = 2;
    CHECK(PMIx_Data_unpack(NULL, &other, got, &count, PMIX_UINT32) == PMIX_ERR_UNPACK_INADEQUATE_SPACE);
    CHECK(count == 2 && got[1] == 70000 && got[2] == 0);
    count = 3;
    CHECK(PMIx_Data_unpack(NULL, &other, got, &count, PMIX_UINT32) == PMIX_SUCCESS);
    CHECK(count == 3 && got[1] == 70000);
    CHECK(PMIx_Data_unload(&other, &payload) == PMIX_SUCCESS && payload.size > 0);
    CHECK(PMIx_Data_load(&buffer, &payload) == PMIX_SUCCESS && payload.bytes == NULL);
    count = 1;
    CHECK(PMIx_Data_unpack(NULL, &buffer, &back, &count, PMIX_STRING) == PMIX_SUCCESS);
    CHECK(strcmp(back, "text") == 0);
    free(back);
    count = 1;
    CHECK(PMIx_Data_unpack(NULL, &buffer, &back, &count, PMIX_STRING)
          == PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER);
    CHECK(count == 0);
    CHECK(PMIx_Data_pack(NULL, &buffer, texts, 2, PMIX_STRING) == PMIX_SUCCESS);
    count = 1;
    CHECK(PMIx_Data_unpack(NULL, &buffer, &back, &count, PMIX_STRING) == PMIX_ERR_UNPACK_INADEQUATE_SPACE);
    CHECK(count == 1 && strcmp(back, "text") == 0);
    free(back);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
    PMIX_DATA_BUFFER_DESTRUCT(&other);
    return 0;
}

static int outside(void)
{
    char *regex = NULL;
    pmix_value_t *value = NULL;

    CHECK(PMIx_Initialized() == 0);
    CHECK(PMIx_Finalize(NULL, 0) == PMIX_ERR_INIT);
    CHECK(PMIx_Commit() == PMIX_ERR_INIT);
    CHECK(PMIx_Get(NULL, "a", NULL, 0, &value) == PMIX_ERR_INIT);
    CHECK(PMIx_Fence(NULL, 0, NULL, 0) == PMIX_ERR_INIT);
    CHECK(PMIx_server_finalize() == PMIX_ERR_INIT);
    CHECK(PMIx_Init(NULL, NULL, 0) == PMIX_ERR_UNREACH);
    CHECK(PMIx_generate_regex("n01,n02,n03", &regex) == PMIX_SUCCESS && strlen(regex) > 3);
    free(regex);
    CHECK(PMIx_generate_ppn("0,1;2,3", &regex) == PMIX_SUCCESS && strlen(regex) > 3);
    free(regex);
    return 0;
}

/* The functions of release 3. */
static int release_3(void)
{
    pmix_value_t value, copy;
    char **list = NULL, **other, *text = NULL;
    size_t size = 0;

    pmix_value_load(&value, "abc", PMIX_STRING);
    CHECK(value.type == PMIX_STRING && strcmp(value.data.string, "abc") == 0);
    CHECK(pmix_value_xfer(&copy, &value) == PMIX_SUCCESS);
    CHECK(copy.data.string != value.data.string);
    CHECK(pmix_value_unload(&copy, (void **)&text, &size) == PMIX_SUCCESS);
    CHECK(size == 3 && strcmp(text, "abc") == 0);
    free(text);
    PMIX_VALUE_DESTRUCT(&value);
    PMIX_VALUE_DESTRUCT(&copy);
    /* A type that does not exist. */
    pmix_value_load(&value, "abc", 60000);
    CHECK(value.type == PMIX_UNDEF);

    CHECK(pmix_argv_append_nosize(&list, "b") == PMIX_SUCCESS);
    CHECK(pmix_argv_prepend_nosize(&list, "a") == PMIX_SUCCESS);
    CHECK(pmix_argv_append_unique_nosize(&list, "b", true) == PMIX_SUCCESS);
    CHECK(pmix_argv_append_unique_nosize(&list, "c", false) == PMIX_SUCCESS);
    CHECK(pmix_argv_count(list) == 3 && pmix_argv_count(NULL) == 0);
    text = pmix_argv_join(list, '+');
    CHECK(strcmp(text, "a+b+c") == 0);
    other = pmix_argv_split(text, '+');
    CHECK(pmix_argv_count(other) == 3 && strcmp(other[2], "c") == 0);
    free(text);
    pmix_argv_free(other);
    other = pmix_argv_copy(list);
    CHECK(other != list && strcmp(other[0], "a") == 0);
    pmix_argv_free(other);
    CHECK(pmix_setenv("NAME", "1", true, &list) == PMIX_SUCCESS);
    CHECK(pmix_setenv("NAME", "2", true, &list) == PMIX_SUCCESS);
    CHECK(pmix_argv_count(list) == 4 && strcmp(list[3], "NAME=2") == 0);
    pmix_argv_free(list);
    return 0;
}

int main(int argc, char **argv, char **envp)
{
    CHECK(argc == 1);
    return values() || infos() || strings() || borrowed(argv, envp) || buffers() || outside() || release_3();
}

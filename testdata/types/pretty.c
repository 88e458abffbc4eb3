/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls the pretty-print functions of a libpmix and prints a line for each call, with the function, the argument and
 * the result. README.md describes how pretty.tsv is made from the lines.
 *
 *     cc -o pretty pretty.c -ldl && ./pretty LIBPMIX DATA_DIRECTORY
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef const char *by_number(uint64_t);
typedef const char *by_int(int32_t);
typedef const char *by_text(const char *);
typedef int code_of(const char *);

static void *library;

static void show(const char *function, const char *argument, const char *answer)
{
    printf("%s\t%s\t%s\n", function, argument, answer ? answer : "(null)");
}

static void ask_number(const char *function, uint64_t number)
{
    by_number *call = (by_number *) dlsym(library, function);
    char argument[32];

    if (call) {
        snprintf(argument, sizeof argument, "%llu", (unsigned long long) number);
        show(function, argument, call(number));
    }
}

static void ask_range(const char *function, uint64_t end)
{
    for (uint64_t number = 0; number < end; number++)
        ask_number(function, number);
}

static void ask_status(int32_t number)
{
    by_int *call = (by_int *) dlsym(library, "PMIx_Error_string");
    char argument[32];

    snprintf(argument, sizeof argument, "%d", number);
    show("PMIx_Error_string", argument, call(number));
}

static void ask_code(const char *name)
{
    code_of *call = (code_of *) dlsym(library, "PMIx_Error_code");
    char answer[32];

    if (call) {
        snprintf(answer, sizeof answer, "%d", call(name));
        show("PMIx_Error_code", name, answer);
    }
}

static void ask_text(const char *function, const char *text)
{
    show(function, text, ((by_text *) dlsym(library, function))(text));
}

/* Calls a function with the first two fields of every row of a table. */
static void each_row(const char *directory, const char *table, void (*use)(char *, char *))
{
    char line[4096];
    FILE *file;

    snprintf(line, sizeof line, "%s/%s", directory, table);
    file = fopen(line, "r");
    if (!file || !fgets(line, sizeof line, file))
        return;
    while (fgets(line, sizeof line, file)) {
        char *first = strtok(line, "\t"), *second = strtok(NULL, "\t");
        use(first, second);
    }
    fclose(file);
}

static void code_row(char *name, char *number)
{
    (void) number;
    ask_code(name);
}

static void attribute_row(char *name, char *key)
{
    ask_text("PMIx_Get_attribute_string", name);
    ask_text("PMIx_Get_attribute_name", key);
}

int main(int argc, char **argv)
{
    static const char *const bytes[] = {
        "PMIx_Proc_state_string", "PMIx_Scope_string", "PMIx_Persistence_string",
        "PMIx_Data_range_string", "PMIx_Alloc_directive_string", "PMIx_Job_state_string",
        "PMIx_Link_state_string"};
    static const char *const names[] = {
        "NOT_A_NAME", "ERR_BAD_PARAM", "pmix_err_bad_param", "PMIX_ERR_BAD_PARAM ", "",
        "SUCCESS", "ERROR", "BAD-PARAM", "-27", "NO-PERMISSIONS"};
    static const uint32_t flags[] = {0x10000, 0x80000000, 0xffff0000, 0xffffffff, 0x10001, 0x100};
    int (*start)(void *, void *, size_t);

    if (argc != 3 || !(library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL)))
        return fprintf(stderr, "usage: pretty LIBPMIX DATA_DIRECTORY\n"), 2;
    /* Names of types and attributes are available once the library is initialized. */
    start = (int (*)(void *, void *, size_t)) dlsym(library, "PMIx_server_init");
    if (start(NULL, NULL, 0))
        return 1;
    for (size_t n = 0; n < sizeof bytes / sizeof *bytes; n++)
        ask_range(bytes[n], 256);
    ask_range("PMIx_Value_comparison_string", 8);
    ask_range("PMIx_Data_type_string", 601);
    ask_range("PMIx_IOF_channel_string", 301);
    ask_number("PMIx_Data_type_string", UINT16_MAX);
    ask_number("PMIx_IOF_channel_string", UINT16_MAX);
    ask_range("PMIx_Device_type_string", 81);
    for (int bit = 7; bit < 64; bit++)
        ask_number("PMIx_Device_type_string", (uint64_t) 1 << bit);
    ask_range("PMIx_Info_directives_string", 130);
    for (size_t n = 0; n < sizeof flags / sizeof *flags; n++)
        ask_number("PMIx_Info_directives_string", flags[n]);
    for (int32_t number = 10; number > -4000; number--)
        ask_status(number);
    ask_status(INT32_MIN);
    each_row(argv[2], "status.tsv", code_row);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        ask_code(names[n]);
    each_row(argv[2], "attributes.tsv", attribute_row);
    attribute_row("PMIX_NOT_THERE", "pmix.not.there");
    attribute_row("pmix_job_size", "PMIX.JOB.SIZE");
    attribute_row("JOB_SIZE", "job.size");
    return 0;
}

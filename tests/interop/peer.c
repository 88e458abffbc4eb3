/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The interop peer, which answers requests about a real PMIx library line by line. See README.md. */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Time limits of a request and of a timed one in seconds, which end the program if the library hangs. */
#define PATIENCE 60
#define PATIENCE_TIMED 900

size_t framed_len(const char *value)
{
    static const char size_field[] = "size=";
    if (0 != strcmp(value, "blob:")) {
        return strlen(value);
    }
    const char *component = value + strlen(value) + 1;
    const char *size = component + strlen(component) + 1;
    if (0 != strncmp(size, size_field, sizeof(size_field) - 1)) {
        return strlen(value);
    }
    size_t payload = strtoull(size + sizeof(size_field) - 1, NULL, 10);
    return (size_t) (size - value) + strlen(size) + 1 + payload;
}

pmix_status_t generate_regex(const char *list, char **out)
{
    return PMIx_generate_regex(list, out);
}

pmix_status_t generate_ppn(const char *list, char **out)
{
    return PMIx_generate_ppn(list, out);
}

static void answer_generate(generate_fn generate, bytes_t input)
{
    char *out = NULL;
    pmix_status_t status = generate(input.data, &out);
    bytes_t value = {out, NULL == out ? 0 : framed_len(out)};
    printf("%d ", status);
    bytes_print_hex(value);
    putchar('\n');
    free(out);
}

static void answer_nodes(bytes_t map, unsigned num_nodes)
{
    bytes_t list = {NULL, 0}, hosts = {NULL, 0};
    printf("%d ", expand_nodes(map, num_nodes, &list, &hosts));
    bytes_print_hex(list);
    putchar(' ');
    bytes_print_hex(hosts);
    putchar('\n');
    free(list.data);
    free(hosts.data);
}

static void answer_procs(bytes_t map, unsigned num_nodes)
{
    bytes_t peers = {NULL, 0};
    printf("%d ", expand_procs(map, num_nodes, &peers));
    bytes_print_hex(peers);
    putchar('\n');
    free(peers.data);
}

/* Splits a line at blanks and answers it with exactly one line. */
static void answer(char *line)
{
    char *op = strtok(line, " \n");
    char *first = strtok(NULL, " \n");
    char *second = strtok(NULL, " \n");
    if (NULL != op && 0 == strcmp(op, "version")) {
        printf("0 %s\n", PMIx_Get_version());
        return;
    }
    if (NULL != op && 0 == strcmp(op, "time") && NULL != second) {
        char *runs = strtok(NULL, " \n"), *cap = strtok(NULL, " \n");
        time_request(first, second, NULL == runs ? 1 : (unsigned) strtoul(runs, NULL, 10),
                     NULL == cap ? 1000 : (unsigned) strtoul(cap, NULL, 10));
        return;
    }
    bytes_t input;
    if (NULL == op || NULL == first || bytes_from_hex(first, &input) != 0) {
        puts("error expected OP HEX [NUMBER]");
        return;
    }
    unsigned number = NULL == second ? 0 : (unsigned) strtoul(second, NULL, 10);
    if (0 == strcmp(op, "regex")) {
        answer_generate(generate_regex, input);
    } else if (0 == strcmp(op, "ppn")) {
        answer_generate(generate_ppn, input);
    } else if (0 == strcmp(op, "nodes")) {
        answer_nodes(input, number);
    } else if (0 == strcmp(op, "procs")) {
        answer_procs(input, number);
    } else {
        printf("error unknown request %s\n", op);
    }
    free(input.data);
}

int main(void)
{
    pmix_status_t status = PMIx_server_init(NULL, NULL, 0);
    if (PMIX_SUCCESS != status) {
        fprintf(stderr, "PMIx_server_init: %d\n", status);
        return 1;
    }
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        alarm(0 == strncmp(line, "time ", 5) ? PATIENCE_TIMED : PATIENCE);
        answer(line);
        alarm(0);
        fflush(stdout);
    }
    free(line);
    PMIx_server_finalize();
    return 0;
}

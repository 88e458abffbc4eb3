/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The bfrops peer, which answers requests about a real library line by line. See README.md. */
#include "../bytes.h"
#include "data.h"

#include <pmix_server.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The time limit of a request in seconds, which ends the program if the library hangs. */
#define PATIENCE 60

/* The nesting depth of generated data. */
#define DEPTH 3

/* The answer under construction, which keeps its memory between requests. */
static text_t answer_text, packed;

static void add_number(long number)
{
    char digits[24];
    text_add(&answer_text, digits, (size_t) snprintf(digits, sizeof(digits), "%ld ", number));
}

static void add_bytes(const text_t *bytes)
{
    if (0 == bytes->len) {
        text_add_char(&answer_text, '-');
    } else {
        text_add_hex(&answer_text, bytes->data, bytes->len);
    }
    text_add_char(&answer_text, ' ');
}

static void end_answer(void)
{
    text_add_char(&answer_text, '\n');
    fwrite(answer_text.data, 1, answer_text.len, stdout);
    answer_text.len = 0;
}

/* STATUS LEFT REPACK_STATUS REPACKED JSON */
static void answer_unpack(unsigned type, int32_t count, bytes_t bytes)
{
    size_t left = 0;
    void *data = data_room(type, (size_t) count);
    pmix_status_t status = call_unpack(bytes.data, bytes.len, type, data, &count, &left);
    size_t come = PMIX_SUCCESS == status && count > 0 ? (size_t) count : 0;
    data_mend(type, data, come);
    packed.len = 0;
    add_number(status);
    add_number((long) left);
    add_number(PMIX_SUCCESS == status ? call_pack(&packed, type, data, come) : status);
    add_bytes(&packed);
    json_list(&answer_text, type, data, come);
    end_answer();
    data_release(type, data, come);
    free(data);
}

/* STATUS COUNT PACKED JSON, one line for each of `lines` */
static void answer_generate(unsigned type, uint64_t seed, unsigned lines)
{
    random_seed(seed);
    for (unsigned i = 0; i < lines; i++) {
        size_t count = 1 + random_below(most_at_once(type));
        void *data = data_room(type, count);
        random_data(type, data, count, DEPTH);
        packed.len = 0;
        add_number(call_pack(&packed, type, data, count));
        add_number((long) count);
        add_bytes(&packed);
        json_list(&answer_text, type, data, count);
        end_answer();
        data_release(type, data, count);
        free(data);
    }
}

static void add_places(places_t at)
{
    answer_text.len -= 1;
    char both[48];
    int len = snprintf(both, sizeof(both), ":%d,%d ", at.pack, at.unpack);
    text_add(&answer_text, both, (size_t) len);
}

/* NAME:TOP:VALUE:ARRAY for every type, each place with the statuses of packing and unpacking */
static void answer_types(void)
{
    for (unsigned type = 0; type < TYPE_KEY; type++) {
        if (SHAPE_NONE == type_of(type)->shape) {
            continue;
        }
        text_add(&answer_text, type_of(type)->name, strlen(type_of(type)->name));
        text_add_char(&answer_text, ' ');
        add_places(abilities.top[type]);
        add_places(abilities.in_value[type]);
        add_places(abilities.in_array[type]);
    }
    end_answer();
}

static void answer(char *line)
{
    char *words[4] = {"", "", "", ""};
    size_t count = 0;
    for (char *word = strtok(line, " \n"); NULL != word && count < 4; word = strtok(NULL, " \n")) {
        words[count++] = word;
    }
    unsigned type = type_by_name(words[1]);
    bytes_t bytes;
    if (0 == strcmp(words[0], "version")) {
        printf("0 %s\n", PMIx_Get_version());
    } else if (0 == strcmp(words[0], "types")) {
        answer_types();
    } else if (count < 4 || 0 == type) {
        puts("error expected unpack TYPE COUNT HEX or generate TYPE SEED LINES");
    } else if (0 == strcmp(words[0], "generate")) {
        answer_generate(type, strtoull(words[2], NULL, 10), (unsigned) strtoul(words[3], NULL, 10));
    } else if (0 == strcmp(words[0], "unpack") && 0 == bytes_from_hex(words[3], &bytes)) {
        answer_unpack(type, (int32_t) strtol(words[2], NULL, 10) & INT32_MAX, bytes);
        free(bytes.data);
    } else {
        puts("error unknown request or no hex");
    }
}

int main(void)
{
    pmix_status_t status = PMIx_server_init(NULL, NULL, 0);
    if (PMIX_SUCCESS != status) {
        fprintf(stderr, "PMIx_server_init: %d\n", status);
        return 1;
    }
    probe();
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        alarm(PATIENCE);
        answer(line);
        alarm(0);
        fflush(stdout);
    }
    free(line);
    PMIx_server_finalize();
    return 0;
}

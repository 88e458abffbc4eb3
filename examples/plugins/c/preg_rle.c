/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An encoder for lists that name each host once for every slot: n1,n1,n1,n2 becomes rle:n1*3,n2.
 *
 *     cc -std=c11 -Wall -Wextra -O2 -fPIC -shared -I include \
 *        -o libpreg_rle.so examples/plugins/c/preg_rle.c
 *     pmix plugins check libpreg_rle.so
 */
#include <stdlib.h>
#include <string.h>

#include "pmix_plugin.h"

static const char TAG[] = "rle:";
#define TAG_LEN (sizeof(TAG) - 1)

static int32_t put(const pmixrs_call_t *call, const void *bytes, size_t len)
{
    return call->write(call->ctx, bytes, len);
}

static int32_t damaged(const pmixrs_call_t *call, size_t offset, const char *expected)
{
    call->fault(call->ctx, offset, (const uint8_t *) expected, strlen(expected));
    return PMIXRS_ERR_BAD_PARAM;
}

static int32_t put_number(const pmixrs_call_t *call, size_t number)
{
    char digits[24];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char) ('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return put(call, digits + at, sizeof(digits) - at);
}

/* Returns the end of the element that starts at `at`: the next comma or the end of the input. */
static size_t element_end(const uint8_t *input, size_t len, size_t at)
{
    const uint8_t *comma = memchr(input + at, ',', len - at);
    return comma == NULL ? len : (size_t) (comma - input);
}

/* Writes the elements of a list, each run of equal ones once. */
static int32_t encode(const uint8_t *list, size_t len, const pmixrs_call_t *call)
{
    int32_t status = PMIXRS_SUCCESS;
    size_t at = 0;
    while (at <= len && status == PMIXRS_SUCCESS) {
        size_t end = element_end(list, len, at), next = end + 1, count = 1;
        while (next <= len && element_end(list, len, next) - next == end - at
               && memcmp(list + at, list + next, end - at) == 0) {
            next += end - at + 1;
            count++;
        }
        if (at > 0) {
            status = put(call, ",", 1);
        }
        if (status == PMIXRS_SUCCESS) {
            status = put(call, list + at, end - at);
        }
        if (status == PMIXRS_SUCCESS && count > 1) {
            status = put(call, "*", 1);
            if (status == PMIXRS_SUCCESS) {
                status = put_number(call, count);
            }
        }
        at = next;
    }
    return status;
}

/* The settings that `query` read. */
typedef struct {
    uint64_t least; /* shorter lists are left to the next component; in names */
} rle_t;

/* Returns the number of names in a list. */
static uint64_t num_names(const uint8_t *list, size_t len)
{
    uint64_t names = 1;
    for (size_t i = 0; i < len; i++) {
        names += list[i] == ',';
    }
    return names;
}

/* Returns 1 for a list that pays: it repeats adjacent names, and `decode` can restore it. */
static int takes(const rle_t *rle, const uint8_t *list, size_t len)
{
    if (num_names(list, len) < rle->least) {
        return 0;
    }
    if (len == 0 || memchr(list, '*', len) != NULL || memchr(list, 0, len) != NULL) {
        return 0;
    }
    size_t at = 0, end = element_end(list, len, 0);
    while (end < len) {
        size_t next = end + 1, next_end = element_end(list, len, next);
        /* "n1,n1" becomes "n1*2", which is shorter only if the name has two letters or more. */
        if (end - at >= 2 && next_end - next == end - at
            && memcmp(list + at, list + next, end - at) == 0) {
            return 1;
        }
        at = next;
        end = next_end;
    }
    return 0;
}

/* Reads the count after a `*`; returns 0 if it is invalid. */
static uint64_t read_count(const uint8_t *digits, size_t len)
{
    uint64_t count = 0;
    if (len == 0 || len > 18 || digits[0] == '0') {
        return 0;
    }
    for (size_t i = 0; i < len; i++) {
        if (digits[i] < '0' || digits[i] > '9') {
            return 0;
        }
        count = count * 10 + (uint64_t) (digits[i] - '0');
    }
    return count;
}

/* Writes every name of a value. `base` is the offset of `text` in the value, for messages. */
static int32_t decode(const uint8_t *text, size_t len, size_t base, const pmixrs_call_t *call)
{
    uint64_t names = 0;
    size_t at = 0;
    while (at <= len) {
        size_t end = element_end(text, len, at), name_len = end - at;
        const uint8_t *star = name_len > 0 ? memchr(text + at, '*', name_len) : NULL;
        uint64_t count = 1;
        if (star != NULL) {
            name_len = (size_t) (star - (text + at));
            count = read_count(star + 1, end - at - name_len - 1);
            if (count < 2) {
                return damaged(call, base + at + name_len + 1, "expected a count of 2 or more");
            }
        }
        if (count > call->max_nodes - names) {
            return PMIXRS_ERR_OUT_OF_RESOURCE; /* before a single name is written */
        }
        for (uint64_t i = 0; i < count; i++) {
            int32_t status = names++ > 0 ? put(call, ",", 1) : PMIXRS_SUCCESS;
            if (status == PMIXRS_SUCCESS) {
                status = put(call, text + at, name_len);
            }
            if (status != PMIXRS_SUCCESS) {
                return status;
            }
        }
        at = end + 1;
    }
    return PMIXRS_SUCCESS;
}

static int32_t generate_node_regex(void *module, const uint8_t *list, size_t len,
                                   const pmixrs_call_t *call)
{
    if (!takes(module, list, len)) {
        return PMIXRS_DECLINED;
    }
    int32_t status = put(call, TAG, TAG_LEN);
    return status == PMIXRS_SUCCESS ? encode(list, len, call) : status;
}

static int32_t generate_regex(void *module, const uint8_t *list, size_t len,
                              const pmixrs_call_t *call)
{
    return takes(module, list, len) ? encode(list, len, call) : PMIXRS_DECLINED;
}

static int32_t parse_nodes(void *module, const uint8_t *value, size_t len,
                           const pmixrs_call_t *call)
{
    (void) module;
    if (len < TAG_LEN || memcmp(value, TAG, TAG_LEN) != 0) {
        return PMIXRS_DECLINED;
    }
    return decode(value + TAG_LEN, len - TAG_LEN, TAG_LEN, call);
}

static int32_t parse_regex(void *module, const uint8_t *bytes, size_t len,
                           const pmixrs_call_t *call)
{
    (void) module;
    return len == 0 ? PMIXRS_SUCCESS : decode(bytes, len, 0, call);
}

/* The text of a parameter; 20 digits are enough for any number. */
typedef struct {
    uint8_t digits[20];
    size_t len;
} setting_t;

static int32_t take_setting(void *ctx, const uint8_t *ptr, size_t len)
{
    setting_t *setting = ctx;
    if (len > sizeof(setting->digits) - setting->len) {
        return PMIXRS_ERR_OUT_OF_RESOURCE;
    }
    memcpy(setting->digits + setting->len, ptr, len);
    setting->len += len;
    return PMIXRS_SUCCESS;
}

#define LEAST "preg_rle_least"
#define LEAST_DEFAULT 1

static const pmixrs_parameter_t PARAMETERS[] = {
    {
        .name = PMIXRS_TEXT(LEAST),
        .default_value = PMIXRS_TEXT("1"),
        .help = PMIXRS_TEXT("lists of fewer names are left to the next component; from 1 up"),
    },
};

/* Creates a module; the host calls this function once, before all others. */
static int32_t query(const pmixrs_host_t *host, void **module)
{
    static const char refused[] = LEAST " must be a number from 1 up";
    setting_t setting = { .len = 0 };
    uint64_t least = LEAST_DEFAULT;
    int32_t status = host->param(host->ctx, (const uint8_t *) LEAST, sizeof(LEAST) - 1,
                                 take_setting, &setting);
    if (status != PMIXRS_ERR_NOT_FOUND && setting.len > 0) { /* an empty value is the default */
        least = status == PMIXRS_SUCCESS ? read_count(setting.digits, setting.len) : 0;
    }
    if (least == 0) {
        host->log(host->ctx, PMIXRS_LOG_ERROR, (const uint8_t *) refused, sizeof(refused) - 1);
        return PMIXRS_ERR_NOT_SUPPORTED;
    }
    rle_t *rle = malloc(sizeof(*rle));
    if (rle == NULL) {
        return PMIXRS_ERR_NOT_SUPPORTED;
    }
    rle->least = least;
    *module = rle;
    return PMIXRS_SUCCESS;
}

static const pmixrs_operations_t OPERATIONS = {
    .size = sizeof(pmixrs_operations_t),
    .close = free,
    .generate_regex = generate_regex,
    .parse_regex = parse_regex,
    .generate_node_regex = generate_node_regex,
    .parse_nodes = parse_nodes,
    /* generate_ppn and parse_procs stay NULL, as this component does not encode process maps. legacy_len stays NULL,
     * as its values end at the first NUL. */
};

static const pmixrs_component_t COMPONENT = {
    .magic = PMIXRS_MAGIC,
    .abi_major = PMIXRS_ABI_MAJOR,
    .abi_minor = PMIXRS_ABI_MINOR,
    .size = sizeof(pmixrs_component_t),
    .framework = PMIXRS_TEXT("preg"),
    .name = PMIXRS_TEXT("rle"),
    .about = PMIXRS_TEXT("lists that name a host once for every slot"),
    .tag = PMIXRS_TEXT("rle:"),
    .kind = PMIXRS_TEXT("rle"),
    .interface_version = PMIXRS_PREG_INTERFACE,
    .priority = 120,
    .query = query,
    .operations = &OPERATIONS,
    .params = PARAMETERS,
    .num_params = sizeof(PARAMETERS) / sizeof(PARAMETERS[0]),
    .param_size = sizeof(PARAMETERS[0]),
};

PMIXRS_EXPORT const pmixrs_component_t *pmixrs_component(void)
{
    return &COMPONENT;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A plugin that is correct, or has one fault if it is compiled with -DFAULT=<name of the fault>. The correct plugin
 * encodes a list as the tag `bad:` and the list. */
#include <string.h>

#include "pmix_plugin.h"

/* The faults, numbered so that the preprocessor can compare them. */
#define SOUND 0
#define NULL_TABLE 1
#define NUMBER_FOR_TABLE 2
#define UNALIGNED_TABLE 3
#define WRONG_MAGIC 4
#define NEWER_ABI 5
#define SHORT_HEADER 6
#define HUGE_HEADER 7
#define OTHER_FRAMEWORK 8
#define OTHER_INTERFACE 9
#define NO_OPERATIONS 10
#define SHORT_OPERATIONS 11
#define NAME_NOT_UTF8 12
#define NAME_EMPTY 13
#define NAME_AT_NULL 14
#define NAME_ABSURD 15
#define NAME_UPPER_CASE 16
#define NAME_RESERVED 17
#define NAME_TAKEN 18
#define TAG_LIKE_A_NAME 19
#define TAG_TAKEN 20
#define TAG_WITHIN_ANOTHER 21
#define KIND_TAKEN 22
#define QUERY_UNKNOWN_STATUS 23
#define QUERY_DECLINES 24
#define NO_SYMBOL 25
#define UNDEFINED_SYMBOL 26
#define OLD_TABLE 27
#define ABOUT_NOT_UTF8 28
#define ECHOES_PARAM 29
#define PARAM_AT_A_NUMBER 30
#define PARAMS_TOO_MANY 31
#define PARAM_TOO_SMALL 32
#define PARAM_OF_ANOTHER 33
#define PARAM_OF_ALL 34
#define PARAM_TWICE 35
#define PARAM_ABSURD 36
#define DECLARES_PARAM 37
#define HEADER_OF_VERSION_0 38
/* For the following faults the header is correct and the encoder is faulty. */
#define PANICS 40
#define UNKNOWN_STATUS 41
#define POSITIVE_STATUS 42
#define ENCODER_ERROR 43
#define WRITES_NULL 44
#define WRITES_ABSURD_LENGTH 45
#define FLOODS 46
#define WRONG_TAG 47
#define WRITES_NOTHING 48
#define LOSES_ORDER 49
#define LOSES_A_NAME 50
#define CHANGES_A_NAME 51
#define UNDECODABLE 52
#define DECODER_DECLINES 53
#define DECODER_FAILS 54
#define DECODER_BAD_OFFSET 55
#define LENGTH_TOO_LONG 56
#define LENGTH_ZERO 57
#define MESSAGE_NOT_UTF8 58
#define NUL_INSIDE 59
#define DECLINES_ALL 60

#ifndef FAULT
#define FAULT SOUND
#endif

#define TAG "bad:"
#define TAG_LEN 4

#if FAULT == UNDEFINED_SYMBOL
extern int there_is_no_such_function(void);
#endif

static int32_t put(const pmixrs_call_t *call, const void *bytes, size_t len)
{
    return call->write(call->ctx, bytes, len);
}

static void say(const pmixrs_call_t *call, size_t offset, const char *text)
{
    call->fault(call->ctx, offset, (const uint8_t *) text, strlen(text));
}

static int32_t put_list(const uint8_t *list, size_t len, const pmixrs_call_t *call)
{
    const uint8_t *comma = len > 0 ? memchr(list, ',', len) : NULL;
    size_t first = comma == NULL ? len : (size_t) (comma - list);
    (void) first;
    switch (FAULT) {
    case LOSES_ORDER: /* the first name becomes the last */
        if (comma != NULL) {
            put(call, comma + 1, len - first - 1);
            put(call, ",", 1);
            return put(call, list, first);
        }
        break;
    case LOSES_A_NAME:
        return comma == NULL ? put(call, list, len) : put(call, comma + 1, len - first - 1);
    case CHANGES_A_NAME:
        put(call, list, len > 0 ? len - 1 : 0);
        return put(call, "X", 1);
    case NUL_INSIDE:
        put(call, list, first);
        put(call, "", 1);
        return comma == NULL ? PMIXRS_SUCCESS : put(call, comma, len - first);
    default:
        break;
    }
    return put(call, list, len);
}

static int32_t generate(void *module, const uint8_t *list, size_t len, const pmixrs_call_t *call)
{
    (void) module;
    switch (FAULT) {
    case DECLINES_ALL:
        return PMIXRS_DECLINED;
    case PANICS:
        say(call, 0, "index out of bounds");
        return PMIXRS_PANICKED;
    case UNKNOWN_STATUS:
        return -4242;
    case POSITIVE_STATUS:
        put(call, TAG, TAG_LEN);
        put(call, list, len);
        return 1;
    case ENCODER_ERROR:
        say(call, 0, "no mood for this list");
        return PMIXRS_ERR_BAD_PARAM;
    case WRITES_NULL:
        put(call, NULL, 100);
        return PMIXRS_SUCCESS;
    case WRITES_ABSURD_LENGTH:
        put(call, list, SIZE_MAX);
        return PMIXRS_SUCCESS;
    case FLOODS: { /* ignores that the host accepts no more bytes */
        static const char block[4096];
        for (int i = 0; i < 10000; i++) {
            put(call, block, sizeof(block));
        }
        return PMIXRS_SUCCESS;
    }
    case WRONG_TAG:
        put(call, "dab:", TAG_LEN);
        return put_list(list, len, call);
    case WRITES_NOTHING:
        return PMIXRS_SUCCESS;
    case MESSAGE_NOT_UTF8:
        call->log(call->ctx, PMIXRS_LOG_DEBUG, (const uint8_t *) "\xff\xfe", 2);
        break;
    default:
        break;
    }
    put(call, TAG, TAG_LEN);
    return put_list(list, len, call);
}

static int32_t parse(void *module, const uint8_t *value, size_t len, const pmixrs_call_t *call)
{
    (void) module;
    switch (FAULT) {
    case UNDECODABLE:
        say(call, 5, "expected something else");
        return PMIXRS_ERR_BAD_PARAM;
    case DECODER_DECLINES:
        return PMIXRS_DECLINED;
    case DECODER_FAILS:
        return 77;
    case DECODER_BAD_OFFSET:
        say(call, len + 1000, "there");
        return PMIXRS_ERR_BAD_PARAM;
    default:
        return put(call, value + TAG_LEN, len - TAG_LEN);
    }
}

__attribute__((unused))
static int32_t measure(void *module, const uint8_t *value, size_t len, const pmixrs_call_t *call,
                       pmixrs_extent_t *extent)
{
    (void) module;
    (void) call;
    const uint8_t *nul = len > 0 ? memchr(value, 0, len) : NULL;
    extent->len = nul == NULL ? len : (size_t) (nul - value);
    extent->terminated = 1;
    if (FAULT == LENGTH_TOO_LONG) {
        extent->len += 1000;
    } else if (FAULT == LENGTH_ZERO) {
        extent->len = 0;
    }
    return PMIXRS_SUCCESS;
}

#if FAULT == ECHOES_PARAM
/* The tag's encoder declines unless the parameter preg_faulty_mode is "on". */
static int mode_on;
static int32_t collect(void *ctx, const uint8_t *ptr, size_t len)
{
    (void) ctx;
    mode_on = len == 2 && memcmp(ptr, "on", 2) == 0;
    return PMIXRS_SUCCESS;
}
#endif

static int32_t query(const pmixrs_host_t *host, void **module)
{
    (void) host;
    *module = NULL;
    switch (FAULT) {
    case QUERY_UNKNOWN_STATUS:
        return 7;
    case QUERY_DECLINES:
        return PMIXRS_DECLINED;
    default:
        break;
    }
#if FAULT == ECHOES_PARAM
    static const char name[] = "preg_faulty_mode";
    host->param(host->ctx, (const uint8_t *) name, sizeof(name) - 1, collect, NULL);
    return mode_on ? PMIXRS_SUCCESS : PMIXRS_ERR_NOT_SUPPORTED;
#endif
    return PMIXRS_SUCCESS;
}

__attribute__((unused)) static const pmixrs_operations_t OPERATIONS = {
#if FAULT == SHORT_OPERATIONS
    .size = 4,
#elif FAULT == OLD_TABLE
    /* The host must not read this member, which is beyond the size and no valid function. */
    .size = offsetof(pmixrs_operations_t, parse_procs),
    .parse_procs = (pmixrs_transform_fn_t) 0x1234567,
    .legacy_len = (pmixrs_measure_fn_t) 0x1234567,
#else
    .size = sizeof(pmixrs_operations_t),
    .generate_ppn = generate,
    .parse_procs = parse,
    .legacy_len = measure,
#endif
    .generate_node_regex = generate,
    .parse_nodes = parse,
};

#if FAULT > PARAM_AT_A_NUMBER && FAULT <= DECLARES_PARAM
#define PARAMETER(text) \
    { .name = PMIXRS_TEXT(text), .default_value = PMIXRS_TEXT("7"), .help = PMIXRS_TEXT("a number") }
static const pmixrs_parameter_t PARAMETERS[] = {
    PARAMETER("preg_faulty_number"),
#if FAULT == PARAM_OF_ANOTHER
    PARAMETER("preg_raw_number"),
#elif FAULT == PARAM_OF_ALL
    PARAMETER("preg_faulty_priority"),
#elif FAULT == PARAM_ABSURD
    { .name = { (const uint8_t *) "preg_faulty_x", SIZE_MAX } },
#else
    PARAMETER("preg_faulty_number"),
#endif
};
#endif

#define NAME_BYTES(pointer, length) { (const uint8_t *) (pointer), (length) }

static const pmixrs_component_t COMPONENT[2] = { {
#if FAULT == WRONG_MAGIC
    .magic = { 'n', 'o', 'p', 'e' },
#else
    .magic = PMIXRS_MAGIC,
#endif
    .abi_major = PMIXRS_ABI_MAJOR + (FAULT == NEWER_ABI),
    .abi_minor = 9, /* a newer minor version is fine */
#if FAULT == SHORT_HEADER
    .size = 64,
#elif FAULT == HUGE_HEADER
    .size = 0xffffffff,
#elif FAULT == HEADER_OF_VERSION_0
    /* The host must not read this member, which is beyond the size and no valid address. */
    .size = offsetof(pmixrs_component_t, params),
    .params = (const pmixrs_parameter_t *) 0x1234568,
    .num_params = 3,
    .param_size = sizeof(pmixrs_parameter_t),
#else
    .size = sizeof(pmixrs_component_t),
#endif
#if FAULT == OTHER_FRAMEWORK
    .framework = PMIXRS_TEXT("gds"),
#else
    .framework = PMIXRS_TEXT("preg"),
#endif
#if FAULT == NAME_NOT_UTF8
    .name = PMIXRS_TEXT("bad\xff"),
#elif FAULT == NAME_EMPTY
    .name = PMIXRS_TEXT(""),
#elif FAULT == NAME_AT_NULL
    .name = NAME_BYTES(0, 6),
#elif FAULT == NAME_ABSURD
    .name = NAME_BYTES("faulty", SIZE_MAX),
#elif FAULT == NAME_UPPER_CASE
    .name = PMIXRS_TEXT("Faulty"),
#elif FAULT == NAME_RESERVED
    .name = PMIXRS_TEXT("base"),
#elif FAULT == NAME_TAKEN
    .name = PMIXRS_TEXT("raw"),
#else
    .name = PMIXRS_TEXT("faulty"),
#endif
#if FAULT == ABOUT_NOT_UTF8
    .about = PMIXRS_TEXT("\xc3("),
#else
    .about = PMIXRS_TEXT("the list behind a tag"),
#endif
#if FAULT == TAG_LIKE_A_NAME
    .tag = PMIXRS_TEXT("bad"),
#elif FAULT == TAG_TAKEN
    .tag = PMIXRS_TEXT("raw:"),
#elif FAULT == TAG_WITHIN_ANOTHER
    .tag = PMIXRS_TEXT("pmix[x:"),
#else
    .tag = PMIXRS_TEXT(TAG),
#endif
#if FAULT == KIND_TAKEN
    .kind = PMIXRS_TEXT("compress"),
#endif
    .interface_version = PMIXRS_PREG_INTERFACE + (FAULT == OTHER_INTERFACE),
    .priority = 1000,
    .query = query,
#if FAULT != NO_OPERATIONS
    .operations = &OPERATIONS,
#endif
#if FAULT == PARAM_AT_A_NUMBER
    .params = (const pmixrs_parameter_t *) 8,
#elif FAULT > PARAM_AT_A_NUMBER && FAULT <= DECLARES_PARAM
    .params = PARAMETERS,
#endif
#if FAULT == PARAMS_TOO_MANY
    .num_params = SIZE_MAX,
#elif FAULT == DECLARES_PARAM
    .num_params = 1,
#elif FAULT >= PARAM_AT_A_NUMBER && FAULT < DECLARES_PARAM
    .num_params = 2,
#endif
#if FAULT == PARAM_TOO_SMALL
    .param_size = sizeof(pmixrs_text_t),
#elif FAULT >= PARAM_AT_A_NUMBER && FAULT <= DECLARES_PARAM
    .param_size = sizeof(pmixrs_parameter_t),
#endif
} };

#if FAULT == NO_SYMBOL
PMIXRS_EXPORT const pmixrs_component_t *another_name(void)
#else
PMIXRS_EXPORT const pmixrs_component_t *pmixrs_component(void)
#endif
{
#if FAULT == UNDEFINED_SYMBOL
    there_is_no_such_function();
#endif
    switch (FAULT) {
    case NULL_TABLE:
        return NULL;
    case NUMBER_FOR_TABLE:
        return (const pmixrs_component_t *) 1;
    case UNALIGNED_TABLE:
        return (const pmixrs_component_t *) ((const char *) COMPONENT + 1);
    default:
        return COMPONENT;
    }
}

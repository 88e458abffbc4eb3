/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pmix_plugin.h - write an encoder of node and process maps that pmix-rs loads.
 *
 * A plugin is a shared library with one exported function, pmixrs_component(), which returns a
 * pmixrs_component_t: who the component is and what it can do. The host checks that header before
 * it calls anything, refuses what it does not understand with one warning, and then asks the
 * component as it asks its own. docs/plugins.md builds one step by step;
 * examples/plugins/c/preg_rle.c is that plugin.
 *
 * Rules
 *   - Lists are bytes, not strings: a length, no terminating NUL, any byte but the separator.
 *     A node list is names separated by ','. A process map is nodes separated by ';', each with
 *     ranks and rank ranges (0-3) separated by ','. Order, duplicates and empty elements matter.
 *   - An encoder that cannot carry a list exactly returns PMIXRS_DECLINED, and the next component
 *     is asked. So does a decoder for a value that is not its own.
 *   - Output goes through call->write, in as many pieces as you like. The host decodes what an
 *     encoder wrote and compares it with the list before it uses it.
 *   - A decoder that finds damage calls call->fault with the byte offset and what it expected,
 *     and returns PMIXRS_ERR_BAD_PARAM.
 *   - What you allocate you free; the host never frees memory of a plugin, nor you the host's.
 *   - No exception, panic or longjmp may leave a function. Functions may be called from several
 *     threads at once. A library, once loaded, is never unloaded.
 *   - Structs only grow at their end. Set size to sizeof of the struct as you compile it, and
 *     read a field of the host's structs only if their size covers it.
 */
#ifndef PMIX_PLUGIN_H
#define PMIX_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PMIXRS_MAGIC { 'p', 'm', 'i', 'x', '-', 'r', 's', 0 }
#define PMIXRS_ABI_MAJOR 1 /* a host refuses any other */
#define PMIXRS_ABI_MINOR 1 /* raised when a field is appended; 1: params */
#define PMIXRS_PREG_INTERFACE 1

#if defined(_WIN32)
#define PMIXRS_EXPORT __declspec(dllexport)
#else
#define PMIXRS_EXPORT __attribute__((visibility("default")))
#endif

/* Statuses: the numbers of PMIx. Any other number is taken for a fault of the plugin. */
#define PMIXRS_SUCCESS 0
#define PMIXRS_ERR_BAD_PARAM (-27)       /* mine, but damaged */
#define PMIXRS_ERR_OUT_OF_RESOURCE (-29) /* a limit of the call was reached */
#define PMIXRS_ERR_NOT_FOUND (-46)
#define PMIXRS_ERR_NOT_SUPPORTED (-47)
#define PMIXRS_ERR_READ_PAST_END (-50)   /* mine, but cut off */
#define PMIXRS_DECLINED (-1366)          /* not mine */
#define PMIXRS_PANICKED (-100001)        /* an exception or panic was caught on your side */

#define PMIXRS_LOG_ERROR 1u
#define PMIXRS_LOG_WARN 2u
#define PMIXRS_LOG_INFO 3u
#define PMIXRS_LOG_DEBUG 4u

/* A flag of a component: it is not active unless a setting enables it. */
#define PMIXRS_OFF_BY_DEFAULT 1u

/* Bytes with a length. NULL only with length 0. */
typedef struct {
    const uint8_t *ptr;
    size_t len;
} pmixrs_text_t;

#define PMIXRS_TEXT(literal) { (const uint8_t *) (literal), sizeof(literal) - 1 }

/* Takes output. Not PMIXRS_SUCCESS: the host has enough; return that status. */
typedef int32_t (*pmixrs_write_fn_t)(void *ctx, const uint8_t *ptr, size_t len);

/* Takes a line of UTF-8. */
typedef void (*pmixrs_log_fn_t)(void *ctx, uint32_t level, const uint8_t *ptr, size_t len);

/* The offset of a fault that has no place in the value. */
#define PMIXRS_NO_OFFSET SIZE_MAX

/* Says at which byte of the value something is wrong, and what was expected. */
typedef void (*pmixrs_fault_fn_t)(void *ctx, size_t offset, const uint8_t *text, size_t text_len);

/* Writes the value of the parameter with this full name (for example preg_rle_shape);
 * PMIXRS_ERR_NOT_FOUND if it is not set. */
typedef int32_t (*pmixrs_param_fn_t)(void *ctx, const uint8_t *name, size_t name_len,
                                     pmixrs_write_fn_t write, void *write_ctx);

/* What the host offers during query(); valid during the call only. */
typedef struct {
    size_t size;
    void *ctx;
    pmixrs_log_fn_t log;
    pmixrs_param_fn_t param;
} pmixrs_host_t;

/* What the host offers during one operation; valid during the call only. */
typedef struct {
    size_t size;
    void *ctx;
    pmixrs_write_fn_t write;
    pmixrs_log_fn_t log;
    pmixrs_fault_fn_t fault;
    uint64_t max_nodes; /* names of a node list, nodes of a process map */
    uint64_t max_ranks; /* ranks of a process map */
    uint64_t max_bytes; /* bytes of decoded text */
} pmixrs_call_t;

/* How far a value of the string form reaches. */
typedef struct {
    size_t len;          /* without a terminator */
    uint32_t terminated; /* 1 if a NUL follows in memory and on the wire */
    uint32_t reserved;   /* 0 */
} pmixrs_extent_t;

/* Turns a list into a value or a value into a list. */
typedef int32_t (*pmixrs_transform_fn_t)(void *module, const uint8_t *input, size_t input_len,
                                         const pmixrs_call_t *call);

/* Tells how many of the bytes are a value that begins at the first one. */
typedef int32_t (*pmixrs_measure_fn_t)(void *module, const uint8_t *input, size_t input_len,
                                       const pmixrs_call_t *call, pmixrs_extent_t *extent);

/* What a preg component can do. NULL: not mine. */
typedef struct {
    size_t size;
    void (*close)(void *module);
    pmixrs_transform_fn_t generate_regex;      /* list -> bytes of the regex2 form */
    pmixrs_transform_fn_t parse_regex;         /* those bytes -> the same list, byte for byte */
    pmixrs_transform_fn_t generate_node_regex; /* node list -> string form, tag first */
    pmixrs_transform_fn_t generate_ppn;        /* process map -> string form, tag first */
    pmixrs_transform_fn_t parse_nodes;         /* string form -> node list */
    pmixrs_transform_fn_t parse_procs;         /* string form -> process map */
    pmixrs_measure_fn_t legacy_len;            /* NULL: a value ends at the first NUL */
} pmixrs_operations_t;

/* A parameter that the component understands; `pmix info` shows it. */
typedef struct {
    pmixrs_text_t name;         /* in full: preg_rle_least; a-z, 0-9, '_'; at most 128 bytes */
    pmixrs_text_t default_value; /* "true" or "false": only such a value is taken; a whole number:
                                   only one is; otherwise any text. At most 1024 bytes */
    pmixrs_text_t help;         /* one line */
} pmixrs_parameter_t;

/* The component; must stay valid and unchanged as long as the process lives. */
typedef struct {
    uint8_t magic[8];        /* PMIXRS_MAGIC */
    uint16_t abi_major;      /* PMIXRS_ABI_MAJOR */
    uint16_t abi_minor;      /* PMIXRS_ABI_MINOR */
    uint32_t size;           /* sizeof(pmixrs_component_t) */
    pmixrs_text_t framework; /* "preg" */
    pmixrs_text_t name;      /* a-z, then a-z, 0-9, '_'; at most 32 bytes; not "base" */
    pmixrs_text_t about;     /* one line */
    pmixrs_text_t tag;       /* 2 to 32 printable bytes; the last no letter, digit, '-', '.', '_',
                                ',' or ';', since a list may begin with those */
    pmixrs_text_t kind;      /* type of the regex2 form; empty if there is none */
    uint32_t interface_version; /* PMIXRS_PREG_INTERFACE */
    int32_t priority;        /* higher is asked first */
    uint32_t flags;          /* PMIXRS_OFF_BY_DEFAULT or 0 */
    uint32_t reserved;       /* 0 */
    /* Makes a module from the settings; NULL: the module is NULL. PMIXRS_DECLINED: cannot work
     * here. */
    int32_t (*query)(const pmixrs_host_t *host, void **module);
    const pmixrs_operations_t *operations;
    /* Since minor version 1. NULL: the component does not declare its parameters, and any name that
     * begins with preg_<name>_ may be set. Otherwise a setting with a name that is not in this array
     * is an error, and so is a value of another kind than the default. To declare no parameters, set
     * `params` to any address but NULL, and `num_params` to 0. */
    const pmixrs_parameter_t *params;
    size_t num_params;       /* at most 256 */
    size_t param_size;       /* sizeof(pmixrs_parameter_t) */
} pmixrs_component_t;

/* The one symbol that a plugin exports. */
PMIXRS_EXPORT const pmixrs_component_t *pmixrs_component(void);

#ifdef __cplusplus
}
#endif
#endif /* PMIX_PLUGIN_H */

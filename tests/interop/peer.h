/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the parts of the interop peer share.
 *
 * The peer is one program around a real PMIx library, built once per library. It uses the public
 * API only, so the same source serves every release; the wire between it and `cargo xtask interop`
 * is described in README.md.
 */
#ifndef PMIXRS_INTEROP_PEER_H
#define PMIXRS_INTEROP_PEER_H

#include "bytes.h"

#include <pmix.h>
#include <pmix_server.h>

/* peer.c: how many bytes a string-form value has, told from its own framing (a blob holds NULs). */
size_t framed_len(const char *value);

/* peer.c: one call of PMIx_generate_regex or PMIx_generate_ppn; the caller frees `out`. */
typedef pmix_status_t (*generate_fn)(const char *list, char **out);
pmix_status_t generate_regex(const char *list, char **out);
pmix_status_t generate_ppn(const char *list, char **out);

/* expand.c: register a job with these maps and read back what the library made of them. */
pmix_status_t expand_nodes(bytes_t node_map, unsigned num_nodes, bytes_t *list, bytes_t *hosts);
pmix_status_t expand_procs(bytes_t proc_map, unsigned num_nodes, bytes_t *peers);
/* Registers a job with a node map alone: what a decode costs through the API. */
pmix_status_t register_nodes(bytes_t node_map, pmix_proc_t *job);
void drop_job(const pmix_proc_t *job);

/* timed.c: answers `time WHAT FILE RUNS CAP_MS`. */
void time_request(const char *what, const char *path, unsigned runs, unsigned cap_ms);

#endif

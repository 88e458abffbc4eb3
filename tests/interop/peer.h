/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared declarations of the interop peer.
 *
 * The peer is built once for each PMIx library. It only uses the public API, so that the same source serves every
 * release. README.md describes its protocol. */
#ifndef PMIXRS_INTEROP_PEER_H
#define PMIXRS_INTEROP_PEER_H

#include "bytes.h"

#include <pmix.h>
#include <pmix_server.h>

/* peer.c: returns the size of a string-form value, from its framing, as a blob contains NULs. */
size_t framed_len(const char *value);

/* peer.c: calls PMIx_generate_regex or PMIx_generate_ppn; the caller frees `out`. */
typedef pmix_status_t (*generate_fn)(const char *list, char **out);
pmix_status_t generate_regex(const char *list, char **out);
pmix_status_t generate_ppn(const char *list, char **out);

/* expand.c: register a job with these maps and read the expanded maps back. */
pmix_status_t expand_nodes(bytes_t node_map, unsigned num_nodes, bytes_t *list, bytes_t *hosts);
pmix_status_t expand_procs(bytes_t proc_map, unsigned num_nodes, bytes_t *peers);
/* Registers a job with only a node map, to measure the cost of decoding. */
pmix_status_t register_nodes(bytes_t node_map, pmix_proc_t *job);
void drop_job(const pmix_proc_t *job);

/* timed.c: answers `time WHAT FILE RUNS CAP_MS`. */
void time_request(const char *what, const char *path, unsigned runs, unsigned cap_ms);

#endif

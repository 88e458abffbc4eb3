/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The parts of the host that makes the calls of ParaStation. */
#ifndef PMIXRS_HOSTS_PARASTATION_H
#define PMIXRS_HOSTS_PARASTATION_H

#include "host.h"

/* The name of the job. */
extern const pmix_nspace_t NSPACE;

/* Initializes the server and registers the session, steps 1 and 2. */
void parastation_init(pmix_server_module_t *module);
/* Registers the job, steps 4 and 5. */
void parastation_register(void);

#endif

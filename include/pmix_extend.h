/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Functions beyond the Standard. All of them are in the other headers; programs that include this
 * one get those.
 */
#ifndef PMIX_EXTEND_H
#define PMIX_EXTEND_H

#include <pmix_tool.h>

#endif

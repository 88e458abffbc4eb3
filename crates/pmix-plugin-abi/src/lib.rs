// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C ABI of dynamically loaded components.
#![no_std]

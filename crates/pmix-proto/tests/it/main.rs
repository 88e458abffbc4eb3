// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of messages between clients and servers.

mod captures;
mod every_message;
mod page;
mod requests;

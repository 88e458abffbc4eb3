// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the datastore through its public interface.

#[path = "../../../bfrops/tests/meter/growth.rs"]
mod growth;

mod answers;
mod cost;
mod jobs;
mod properties;
mod registration;
mod reply;
mod sessions;
mod store;
mod waiting;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys with values, and the structures built from them: queries, applications, registered
//! attributes.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", `pmix_info_t`; chapters "Query
//! Operations" (`pmix_query_t`) and "Process Management" (`pmix_app_t`). A kval is OpenPMIx's own.

use super::owned::structure;
use crate::{DataType, InfoFlags, Key, Text, Value};

structure! {
    /// A key, a value and directives about their treatment (`pmix_info_t`).
    Info {
        /// The key.
        key: Key<'a>,
        /// The directives.
        flags: InfoFlags,
        /// The value.
        value: Value<'a>,
    }
}

impl<'a> Info<'a> {
    /// Creates an info without directives.
    pub fn new(key: impl Into<Key<'a>>, value: impl Into<Value<'a>>) -> Self {
        Self {
            key: key.into(),
            flags: InfoFlags::default(),
            value: value.into(),
        }
    }
}

structure! {
    /// A key and a value, as the datastore keeps and bfrops packs them (`pmix_kval_t`, internal to
    /// OpenPMIx).
    Kval {
        /// The key.
        key: Key<'a>,
        /// The value.
        value: Value<'a>,
    }
}

structure! {
    /// Keys whose values are requested, and qualifiers (`pmix_query_t`).
    Query {
        /// The requested keys; an empty list corresponds to a null in C.
        keys: Vec<Text<'a>>,
        /// Conditions and guidance.
        qualifiers: Vec<Info<'a>>,
    }
}

structure! {
    /// An application to start (`pmix_app_t`).
    App {
        /// The program.
        cmd: Option<Text<'a>>,
        /// The arguments, starting with the program's name; an empty list corresponds to a null in
        /// C.
        argv: Vec<Text<'a>>,
        /// The environment, one `NAME=VALUE` each.
        env: Vec<Text<'a>>,
        /// The working directory.
        cwd: Option<Text<'a>>,
        /// The number of processes to start.
        maxprocs: i32,
        /// Directives for this application.
        info: Vec<Info<'a>>,
    }
}

structure! {
    /// An attribute that a library or host supports (`pmix_regattr_t`).
    Regattr {
        /// The name of the attribute, for example `PMIX_JOB_SIZE`.
        name: Option<Text<'a>>,
        /// The key, for example `pmix.job.size`.
        string: Key<'a>,
        /// The type of the value.
        data_type: DataType,
        /// The description, line by line; an empty list corresponds to a null in C.
        description: Vec<Text<'a>>,
    }
}

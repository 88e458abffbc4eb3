// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys with values, and what is built of them: queries, applications, registered attributes.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", `pmix_info_t`; chapters "Query
//! Operations" (`pmix_query_t`) and "Process Management" (`pmix_app_t`). A kval is OpenPMIx's own.

use super::owned::structure;
use crate::{DataType, InfoFlags, Key, Text, Value};

structure! {
    /// Holds a key, a value and directives about how to treat them (`pmix_info_t`).
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
    /// Holds a key and a value, as the datastore keeps and bfrops packs them (`pmix_kval_t`,
    /// internal to OpenPMIx).
    Kval {
        /// The key.
        key: Key<'a>,
        /// The value.
        value: Value<'a>,
    }
}

structure! {
    /// Holds keys whose values are asked for, and qualifiers (`pmix_query_t`).
    Query {
        /// The keys whose values are asked for; none is the same as a null in C.
        keys: Vec<Text<'a>>,
        /// Conditions and guidance.
        qualifiers: Vec<Info<'a>>,
    }
}

structure! {
    /// Describes an application to start (`pmix_app_t`).
    App {
        /// The program.
        cmd: Option<Text<'a>>,
        /// Its arguments, with the program's name in front; none is the same as a null in C.
        argv: Vec<Text<'a>>,
        /// Its environment, `NAME=VALUE` each.
        env: Vec<Text<'a>>,
        /// The directory it starts in.
        cwd: Option<Text<'a>>,
        /// How many processes to start.
        maxprocs: i32,
        /// Directives for this application.
        info: Vec<Info<'a>>,
    }
}

structure! {
    /// An attribute that a library or host supports (`pmix_regattr_t`).
    Regattr {
        /// The attribute's name, for example `PMIX_JOB_SIZE`.
        name: Option<Text<'a>>,
        /// Its key, for example `pmix.job.size`.
        string: Key<'a>,
        /// The type of its value.
        data_type: DataType,
        /// What it means, in lines; none is the same as a null in C.
        description: Vec<Text<'a>>,
    }
}

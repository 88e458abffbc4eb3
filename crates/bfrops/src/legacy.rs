// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packed forms of the first modules, v12 and v20.
//!
//! v21 and v3 do not need this code: they have fewer types, and their integers have a fixed width.
//! v20 and v12 differ more:
//!
//! | item | v20 (PMIx 2.0) | v12 (PMIx 1.2) |
//! | --- | --- | --- |
//! | code of a type | 16 bits | 32 bits, with other numbers |
//! | type of a value | its code | as `PMIX_INT` |
//! | type in an info or published datum | as `PMIX_INT` | as `PMIX_INT` |
//! | flags of an info | 32 bits | not packed |
//! | array in a value | its code, as later | of infos only: number, infos |
//! | status, rank | 32 bits | as `PMIX_INT` |
//! | persistence, scope, range | one byte | as `PMIX_INT` |
//! | command | 32 bits | 32 bits |
//! | data type | 16 bits | 32 bits |
//! | process state, info directives, pointer | as later | not packed |
//! | working directory of an app | as later | not packed |
//! | kind of a buffer | not packed | not packed |
//!
//! Frozen: append only. In described buffers both repeat the type of many items, see [`code`].
//! (OpenPMIx `src/mca/bfrops/v12` and `v20`; measured on 4.2.2.)

pub(crate) mod code;
pub(crate) mod value;

pub(crate) use value::holds;

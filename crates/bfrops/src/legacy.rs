// SPDX-License-Identifier: MIT OR Apache-2.0
//! The differences of the modules of the first releases.
//!
//! v21 and v3 need nothing of this: their types are a shorter list and their integers have a
//! fixed width. v20 and v12 differ in more:
//!
//! | what | v20 (PMIx 2.0) | v12 (PMIx 1.2) |
//! | --- | --- | --- |
//! | code of a type | 16 bits | 32 bits, with other numbers |
//! | type of a value | its code | as `PMIX_INT` |
//! | type in an info or published datum | as `PMIX_INT` | as `PMIX_INT` |
//! | flags of an info | 32 bits | do not travel |
//! | array in a value | its code, as ever | of infos only: number, infos |
//! | status, rank | 32 bits | as `PMIX_INT` |
//! | persistence, scope, range | one byte | as `PMIX_INT` |
//! | command | 32 bits | 32 bits |
//! | data type | 16 bits | 32 bits |
//! | process state, info directives, pointer | as ever | do not travel |
//! | working directory of an app | as ever | does not travel |
//! | kind of a buffer | does not travel | does not travel |
//!
//! Frozen: append only. In described buffers both say the type of many things once more, see
//! [`code`]. (OpenPMIx `src/mca/bfrops/v12` and `v20`; measured on 4.2.2.)

pub(crate) mod code;
pub(crate) mod member;
pub(crate) mod number;
pub(crate) mod value;

pub(crate) use value::holds;

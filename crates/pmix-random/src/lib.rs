// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random data of the model, for tests that compare with real libraries.
//!
//! [`Random::data`] returns a number of data of any type: numbers around the ends of their range
//! and around powers of two, null and empty text, text that is not UTF-8, nested arrays. All data
//! survive packing: [`Carried`] describes the receiver's release and module, and data that are lost
//! in every form are never generated (digits of a float after the sixth, members that are not
//! packed).
//!
//! The same [`Source`] gives the same data, so a seed or the input of a fuzzer reproduces a test.
//!
//! ```
//! use pmix_random::{Carried, Random, Seeded};
//! use pmix_types::DataType;
//!
//! let carried = Carried::default();
//! let mut source = Seeded::new(7);
//! let infos = Random::new(&mut source, &carried).data(DataType::INFO, 3);
//! assert_eq!(infos.len(), 3);
//! assert_eq!(infos, Random::new(&mut Seeded::new(7), &carried).data(DataType::INFO, 3));
//! ```
#![forbid(unsafe_code)]

mod array;
mod number;
mod random;
mod structure;

pub use random::{Bytes, Carried, Random, Seeded, Source};

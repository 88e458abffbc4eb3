// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table in shared memory. One process writes it, others read it without a lock.
//!
//! A [`Writer`] creates a memory object. Only the writer can change it: seals prevent shortening,
//! growing, and writing through any other mapping or descriptor. A [`Reader`] opens it by its
//! [`Address`], which the writer gives to the processes that may read it. Data are validated before
//! use (seals, owner, format, positions, checksums) and copied before they are returned. So a
//! damaged or foreign object causes an [`Error`], not a crash.
//!
//! ```
//! use pmix_shm::{Reader, Writer};
//! let mut writer = Writer::create(1 << 20)?;
//! writer.put(b"rank 3", b"ib0:17")?;
//! let reader = Reader::open(&writer.address())?;
//! assert_eq!(reader.get(b"rank 3")?.as_deref(), Some(&b"ib0:17"[..]));
//! writer.remove(b"rank 3");
//! assert_eq!(reader.get(b"rank 3")?, None);
//! # Ok::<(), pmix_shm::Error>(())
//! ```
//!
//! # Layout (version 1, frozen: append only)
//!
//! Words of 64 bits in the byte order of the machine; positions count bytes from the start.
//!
//! | position | words | content |
//! | --- | --- | --- |
//! | 0 | 1 | magic, which differs on a machine of the other byte order |
//! | 8 | 1 | version |
//! | 16 | 2 | token, unique to this object |
//! | 32 | 1 | length of the object in bytes |
//! | 40 | 1 | number of chains, a power of two; a [`Writer`] makes 4,096 |
//! | 48 | 1 | state: 1 is open, 2 closed; readers treat all other values as closed |
//! | 56 | 1 | end of the records |
//! | 64 | 8 | 0, reserved for later versions |
//! | 128 | number of chains | position of the newest record of each chain; 0 for none |
//! | after them | | records |
//!
//! A record:
//!
//! | words | content |
//! | --- | --- |
//! | 1 | version of the value, which only grows; its lower two bits: 0 removed, 1 being written, 2 present |
//! | 1 | position of the next older record of the chain; 0 for none |
//! | 1 | hash of the key; its lower bits choose the chain |
//! | 1 | length of the key in bytes |
//! | 1 | capacity for the value in bytes |
//! | 1 | length of the value in bytes |
//! | 1 | checksum of key and value |
//! | | the key, then the capacity of the value, each padded to whole words |
#![deny(unsafe_code)]

mod error;
mod layout;
mod mapping;
mod reader;
mod writer;

pub use error::Error;
pub use layout::Address;
pub use reader::Reader;
pub use writer::Writer;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data that the receiver can unpack.

use pmix_types::DataType;

/// The data that a receiver can unpack; random data contain nothing else.
#[derive(Clone, Debug)]
pub struct Carried {
    /// The types of values.
    pub values: Vec<DataType>,
    /// The types of array elements.
    pub elements: Vec<DataType>,
    /// `true` if the flags of an info and the working directory of an application are packed, and
    /// every rank keeps its number (not in module v12).
    pub is_whole: bool,
    /// Encoded maps of the string form (`PMIX_REGEX`) that belong to an encoder.
    pub maps: Vec<Vec<u8>>,
}

impl Default for Carried {
    /// Returns the data that every module from the second on can unpack.
    fn default() -> Self {
        let values = vec![
            DataType::UNDEF,
            DataType::BOOL,
            DataType::STRING,
            DataType::INT32,
            DataType::UINT64,
            DataType::DOUBLE,
            DataType::PROC,
            DataType::BYTE_OBJECT,
            DataType::DATA_ARRAY,
        ];
        Self {
            values,
            elements: vec![DataType::INFO, DataType::STRING, DataType::UINT32],
            is_whole: true,
            maps: Vec::new(),
        }
    }
}

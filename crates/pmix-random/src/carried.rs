// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the receiver can carry.

use pmix_types::DataType;

/// What can travel to a receiver; random data are made of nothing else.
#[derive(Clone, Debug)]
pub struct Carried {
    /// The types that a value may have.
    pub values: Vec<DataType>,
    /// The types that the elements of an array may have.
    pub elements: Vec<DataType>,
    /// Whether the flags of an info and the working directory of an application are sent, and
    /// every rank keeps its number (not in module v12).
    pub is_whole: bool,
    /// Old encoded maps (`PMIX_REGEX`) that an encoder owns.
    pub maps: Vec<Vec<u8>>,
}

impl Default for Carried {
    /// What every module from the second on carries.
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

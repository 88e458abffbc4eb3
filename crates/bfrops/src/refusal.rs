// SPDX-License-Identifier: MIT OR Apache-2.0
//! The status with which a module rejects a type that is not allowed at a place.
//!
//! | place | v12 | v20 | v21 and later |
//! | --- | --- | --- | --- |
//! | packed in a call or an array | -21 | -21 | -16 |
//! | packed in a value | -1 | -1 | -16 if the value holds a pointer to the datum, else -1 |
//! | unpacked in a call | -16 | -16 | -16 |
//! | unpacked in an array | no arrays | -47 | -16 |
//! | unpacked in a value | -1 | -1 | -16 |
//!
//! v12 defines a few types without being able to pack them, and returns -47 for these. (Measured on
//! OpenPMIx 4.2.2.)

use pmix_types::{DataType, Status};

use crate::module::Types;
use crate::{Error, Module, legacy};

/// The place of a type in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Pack,
    PackElement,
    PackValue,
    Unpack,
    UnpackElement,
    UnpackValue,
}

impl Module {
    /// Checks that data of a type are allowed at this place.
    #[inline]
    pub(crate) fn check(
        self,
        data_type: DataType,
        place: Place,
        offset: Option<usize>,
    ) -> Result<(), Error> {
        if self.everywhere().contains(data_type) {
            return Ok(());
        }
        self.check_closely(data_type, place, offset)
    }

    /// Returns the types that are allowed at every place: those of the module, except in the first
    /// two modules.
    pub(crate) const fn everywhere(self) -> Types {
        match self {
            Self::V12 | Self::V20 => Types::NONE,
            _ => self.types(),
        }
    }

    #[cold]
    fn check_closely(
        self,
        data_type: DataType,
        place: Place,
        offset: Option<usize>,
    ) -> Result<(), Error> {
        match self.refusal(data_type, place) {
            None => Ok(()),
            Some(status) => Err(Error::unknown_type(status, offset, data_type, self)),
        }
    }

    /// Returns the status for a type that is not allowed at this place.
    fn refusal(self, data_type: DataType, place: Place) -> Option<Status> {
        let in_value = matches!(place, Place::PackValue | Place::UnpackValue);
        if self <= Self::V20 && in_value {
            return (!legacy::holds(self, data_type)).then_some(Status::ERROR);
        }
        if !self.registers(data_type) {
            return Some(self.unknown(data_type, place));
        }
        let by_name_only = self == Self::V12
            && match data_type {
                DataType::PROC_INFO | DataType::DATA_ARRAY | DataType::QUERY => true,
                DataType::POINTER | DataType::INFO_DIRECTIVES | DataType::PROC_STATE => {
                    place == Place::Unpack
                }
                _ => false,
            };
        by_name_only.then_some(Status::ERR_NOT_SUPPORTED)
    }

    /// Returns the status for a type that the module does not have.
    fn unknown(self, data_type: DataType, place: Place) -> Status {
        match place {
            Place::Pack | Place::PackElement if self <= Self::V20 => Status::ERR_PACK_FAILURE,
            Place::UnpackElement if self <= Self::V20 => Status::ERR_NOT_SUPPORTED,
            Place::PackValue if !is_pointed_to(data_type) => Status::ERROR,
            _ => Status::ERR_UNKNOWN_DATA_TYPE,
        }
    }
}

/// Returns `true` if a C value holds a pointer to a datum of this type instead of the datum.
const fn is_pointed_to(data_type: DataType) -> bool {
    matches!(
        data_type,
        DataType::PROC
            | DataType::PROC_INFO
            | DataType::DATA_ARRAY
            | DataType::COORD
            | DataType::REGATTR
            | DataType::PROC_CPUSET
            | DataType::GEOMETRY
            | DataType::DEVICE_DIST
            | DataType::ENDPOINT
            | DataType::TOPO
            | DataType::PROC_NSPACE
            | DataType::PROC_STATS
            | DataType::DISK_STATS
            | DataType::NET_STATS
            | DataType::NODE_STATS
            | DataType::DEVICE
            | DataType::RESOURCE_UNIT
            | DataType::NODE_PID
            | DataType::REGEX2
    )
}

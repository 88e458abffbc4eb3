// SPDX-License-Identifier: MIT OR Apache-2.0
//! Families of types, which are the rows of the report.

use pmix_types::DataType;

/// A family of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    Integers,
    SmallEnums,
    Text,
    Bytes,
    Floats,
    Procs,
    Values,
    Arrays,
    Fabric,
    Applications,
    Statistics,
}

impl Family {
    /// Returns the family of a type.
    pub(crate) fn of(data_type: DataType) -> Self {
        match data_type.as_raw() {
            1 | 4..=15 | 20 | 35 | 36 | 40 | 57 | 66..=69 => Self::Integers,
            2 | 30..=34 | 37 | 43 | 45 | 50 | 51 | 58 => Self::SmallEnums,
            3 | 46 | 49 => Self::Text,
            26 | 27 | 42 | 59 | 65 => Self::Bytes,
            16..=19 => Self::Floats,
            22 | 38 | 60 => Self::Procs,
            21 | 24 | 28 => Self::Values,
            39 => Self::Arrays,
            47 | 52..=56 => Self::Fabric,
            61..=64 => Self::Statistics,
            _ => Self::Applications,
        }
    }

    /// Returns the name in the report.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Integers => "integers",
            Self::SmallEnums => "small enums",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Floats => "floats and time",
            Self::Procs => "processes",
            Self::Values => "values and infos",
            Self::Arrays => "arrays",
            Self::Fabric => "fabric",
            Self::Applications => "apps and queries",
            Self::Statistics => "statistics",
        }
    }
}

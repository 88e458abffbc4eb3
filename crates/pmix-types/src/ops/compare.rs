// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of values.
//!
//! The order follows the meaning of the type. It is symmetric: exchanging the operands mirrors the
//! result. Structures compare field by field in the order of OpenPMIx. Arrays compare by their
//! lengths first, then element by element.

mod structures;

use std::cmp::Ordering;
use std::fmt;

use crate::{DataArray, Value};

/// The result of a comparison of two values (`pmix_value_cmp_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueComparison {
    /// The values are equal (`PMIX_EQUAL`).
    Equal,
    /// The first is greater (`PMIX_VALUE1_GREATER`).
    FirstGreater,
    /// The second is greater (`PMIX_VALUE2_GREATER`).
    SecondGreater,
    /// The values have different types (`PMIX_VALUE_TYPE_DIFFERENT`).
    TypeDifferent,
    /// The values have the same type but cannot be compared (`PMIX_VALUE_INCOMPATIBLE_OBJECTS`),
    /// for example coordinates with different views.
    IncompatibleObjects,
    /// The type has no order, or data that the order needs are missing
    /// (`PMIX_VALUE_COMPARISON_NOT_AVAIL`).
    NotAvailable,
}

impl ValueComparison {
    /// All results, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Equal,
        Self::FirstGreater,
        Self::SecondGreater,
        Self::TypeDifferent,
        Self::IncompatibleObjects,
        Self::NotAvailable,
    ];

    /// Returns the number in C.
    #[must_use]
    pub const fn as_raw(self) -> u32 {
        match self {
            Self::Equal => 0,
            Self::FirstGreater => 1,
            Self::SecondGreater => 2,
            Self::TypeDifferent => 3,
            Self::IncompatibleObjects => 4,
            Self::NotAvailable => 5,
        }
    }

    /// Returns the result with a number of C.
    #[must_use]
    pub fn from_raw(number: u32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|outcome| outcome.as_raw() == number)
    }

    /// Returns the text of the result (`PMIx_Value_comparison_string`).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "EQUAL",
            Self::FirstGreater => "VALUE1 GREATER",
            Self::SecondGreater => "VALUE2 GREATER",
            Self::TypeDifferent => "DIFFERENT TYPES",
            Self::IncompatibleObjects => "INCOMPATIBLE OBJECTS",
            Self::NotAvailable => "COMPARISON NOT AVAILABLE",
        }
    }

    /// Returns the result for exchanged operands.
    #[must_use]
    pub const fn mirrored(self) -> Self {
        match self {
            Self::FirstGreater => Self::SecondGreater,
            Self::SecondGreater => Self::FirstGreater,
            other => other,
        }
    }

    /// Returns the order of the values, if they have one.
    #[must_use]
    pub const fn ordering(self) -> Option<Ordering> {
        match self {
            Self::Equal => Some(Ordering::Equal),
            Self::FirstGreater => Some(Ordering::Greater),
            Self::SecondGreater => Some(Ordering::Less),
            _ => None,
        }
    }

    /// Returns this result, or that of `next` if this one is `Equal`.
    fn then(self, next: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Equal => next(),
            decided => decided,
        }
    }
}

impl From<Ordering> for ValueComparison {
    fn from(ordering: Ordering) -> Self {
        match ordering {
            Ordering::Less => Self::SecondGreater,
            Ordering::Equal => Self::Equal,
            Ordering::Greater => Self::FirstGreater,
        }
    }
}

impl fmt::Display for ValueComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The comparison of two data of one type.
trait Compare {
    fn compare(&self, other: &Self) -> ValueComparison;
}

impl<T: Compare> Compare for Vec<T> {
    /// Compares the lengths. For equal lengths, the first different element decides.
    fn compare(&self, other: &Self) -> ValueComparison {
        let lengths = ValueComparison::from(self.len().cmp(&other.len()));
        let pairs = self.iter().zip(other);
        pairs.fold(lengths, |so_far, (a, b)| so_far.then(|| a.compare(b)))
    }
}

impl<T: Compare> Compare for Box<T> {
    fn compare(&self, other: &Self) -> ValueComparison {
        (**self).compare(other)
    }
}

/// Matches two values of the same variant.
macro_rules! same_variant {
    ($pair:expr, $enum:ident: $($variant:ident)*) => {
        match $pair {
            $(($enum::$variant(a), $enum::$variant(b)) => a.compare(b),)*
            _ => ValueComparison::TypeDifferent,
        }
    };
}

impl Value<'_> {
    /// Compares two values (`PMIx_Value_compare`).
    ///
    /// DEVIATION: numbers compare as numbers; OpenPMIx compares their bytes in memory, so on a
    /// little-endian machine 256 is less than 1 and -1 greater than 1; numbers_compare_as_numbers
    ///
    /// Info directives, data types and IO channels have no order in any release, not even for equal
    /// values. Their comparison is not available here either.
    ///
    /// ```
    /// use pmix_types::{Value, ValueComparison};
    /// let (one, more) = (Value::from(1u32), Value::from(256u32));
    /// assert_eq!(one.compare(&more), ValueComparison::SecondGreater);
    /// assert_eq!(one.compare(&Value::from(1u64)), ValueComparison::TypeDifferent);
    /// ```
    #[must_use]
    pub fn compare(&self, other: &Value<'_>) -> ValueComparison {
        if matches!((self, other), (Value::Undef, Value::Undef)) {
            return ValueComparison::Equal;
        }
        same_variant!((self, other), Value:
            Bool Byte String Size Pid Int Int8 Int16 Int32 Int64 Uint Uint8 Uint16 Uint32 Uint64
            Float Double Timeval Time Status Proc ByteObject Persistence Pointer Scope DataRange
            InfoFlags DataType ProcState ProcInfo DataArray Rank CompressedString AllocDirective
            IofChannel Envar Coord Regattr Regex JobState LinkState Cpuset Geometry DeviceDistance
            Endpoint Topology DeviceType Locality CompressedByteObject Nspace ProcStats DiskStats
            NetStats NodeStats DataBuffer StorageMedium StorageAccessibility StoragePersistence
            StorageAccessType Device ResourceBlockDirective ResourceUnit NodePid Regex2
            AllocInheritance
        )
    }
}

impl Compare for Value<'_> {
    fn compare(&self, other: &Self) -> ValueComparison {
        self.compare(other)
    }
}

impl Compare for DataArray<'_> {
    /// DEVIATION: arrays of strings, topologies, cpusets and arrays compare element by element;
    /// OpenPMIx reads strings from the array of pointers, compares a topology and a cpuset with
    /// itself, and compares only the first of several arrays; arrays_compare_element_by_element
    fn compare(&self, other: &Self) -> ValueComparison {
        if let (
            Self::Untyped {
                data_type: a,
                len: m,
            },
            Self::Untyped {
                data_type: b,
                len: n,
            },
        ) = (self, other)
        {
            return untyped((a.as_raw(), *m), (b.as_raw(), *n));
        }
        same_variant!((self, other), DataArray:
            Bool Byte String Size Pid Int Int8 Int16 Int32 Int64 Uint Uint8 Uint16 Uint32 Uint64
            Float Double Timeval Time Status Value Proc App Info Pdata Buffer ByteObject Kval
            Persistence Pointer Scope DataRange Command InfoFlags DataType ProcState ProcInfo
            DataArray Rank Query CompressedString AllocDirective IofChannel Envar Coord Regattr
            Regex JobState LinkState Cpuset Geometry DeviceDistance Endpoint Topology DeviceType
            Locality CompressedByteObject Nspace ProcStats DiskStats NetStats NodeStats DataBuffer
            StorageMedium StorageAccessibility StoragePersistence StorageAccessType Device
            ResourceBlockDirective ResourceUnit NodePid Regex2 AllocInheritance
        )
    }
}

/// Compares two arrays whose elements the model does not store. Arrays of type `PMIX_UNDEF` are
/// equal.
fn untyped((a, m): (u16, u64), (b, n): (u16, u64)) -> ValueComparison {
    if a != b {
        return ValueComparison::TypeDifferent;
    }
    ValueComparison::from(m.cmp(&n)).then(|| match (a, m) {
        (0, _) | (_, 0) => ValueComparison::Equal,
        _ => ValueComparison::NotAvailable,
    })
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what borrows out of a message to what outlives it.
//!
//! Source: none outside; the decision is `docs/decisions/0006-data-borrow-from-their-message.md`.

use std::borrow::Cow;

/// Turns a value that may borrow into one that owns all it holds.
///
/// What is owned already moves; only what is borrowed is copied, once.
pub trait IntoOwned {
    /// The same type with nothing borrowed.
    type Owned;

    /// Copies what is borrowed.
    fn into_owned(self) -> Self::Owned;
}

impl<T: IntoOwned> IntoOwned for Option<T> {
    type Owned = Option<T::Owned>;

    fn into_owned(self) -> Self::Owned {
        self.map(IntoOwned::into_owned)
    }
}

impl<T: IntoOwned> IntoOwned for Vec<T> {
    type Owned = Vec<T::Owned>;

    fn into_owned(self) -> Self::Owned {
        self.into_iter().map(IntoOwned::into_owned).collect()
    }
}

impl<T: IntoOwned> IntoOwned for Box<T> {
    type Owned = Box<T::Owned>;

    fn into_owned(self) -> Self::Owned {
        Box::new((*self).into_owned())
    }
}

impl IntoOwned for Cow<'_, [u8]> {
    type Owned = Cow<'static, [u8]>;

    fn into_owned(self) -> Cow<'static, [u8]> {
        Cow::Owned(self.into_owned())
    }
}

/// Types that never borrow.
macro_rules! plain {
    ($($type:ty),* $(,)?) => {
        $(impl crate::IntoOwned for $type {
            type Owned = Self;

            fn into_owned(self) -> Self {
                self
            }
        })*
    };
}
pub(crate) use plain;

plain!(
    (),
    bool,
    u8,
    u16,
    u32,
    u64,
    i8,
    i16,
    i32,
    i64,
    f32,
    f64,
    crate::Status,
    crate::Rank,
);

/// A structure of the model: its fields, what is common to all, and how it becomes owned.
macro_rules! structure {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name<'a> {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl crate::IntoOwned for $name<'_> {
            type Owned = $name<'static>;

            fn into_owned(self) -> $name<'static> {
                $name { $($field: crate::IntoOwned::into_owned(self.$field),)* }
            }
        }
    };
}
pub(crate) use structure;

plain!(
    crate::AllocDirective,
    crate::AllocInheritance,
    crate::Command,
    crate::CoordView,
    crate::DataRange,
    crate::DataType,
    crate::DeviceType,
    crate::InfoFlags,
    crate::IofChannel,
    crate::JobState,
    crate::LinkState,
    crate::Locality,
    crate::Persistence,
    crate::ProcState,
    crate::ResourceBlockDirective,
    crate::Scope,
    crate::StorageAccessType,
    crate::StorageAccessibility,
    crate::StorageMedium,
    crate::StoragePersistence,
);

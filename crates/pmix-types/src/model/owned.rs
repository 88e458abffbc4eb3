// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conversion of borrowed data into owned data.
//!
//! Source: this project; the decision is `docs/decisions/0006-data-borrow-from-their-message.md`.

use std::borrow::Cow;

use crate::memory::{self, OutOfMemory};

/// The conversion of a value that may borrow into one that owns all of its data.
///
/// Owned data are moved. Only borrowed data are copied, once.
pub trait IntoOwned {
    /// The same type without borrowed data.
    type Owned;

    /// Copies the borrowed data and moves the others.
    fn into_owned(self) -> Self::Owned;

    /// Returns the approximate memory, in bytes, of a copy or text of the value.
    fn measure(&self, what: Measure) -> usize;

    /// Copies the borrowed data, if the process has memory for it. Callers use it where a peer or
    /// another caller decides the size.
    ///
    /// # Errors
    ///
    /// The process has no memory for the copies; nothing is copied.
    fn try_into_owned(self) -> Result<Self::Owned, OutOfMemory>
    where
        Self: Sized,
    {
        memory::check(self.measure(Measure::Borrowed))?;
        Ok(self.into_owned())
    }

    /// Copies the value, if the process has memory for it.
    ///
    /// # Errors
    ///
    /// The process has no memory for the copy.
    fn try_clone(&self) -> Result<Self, OutOfMemory>
    where
        Self: Clone,
    {
        memory::check(self.measure(Measure::All))?;
        Ok(self.clone())
    }
}

/// The kind of copy or text whose memory [`IntoOwned::measure`] estimates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Copies of the borrowed data.
    Borrowed,
    /// A copy of the whole value.
    All,
    /// The value as text for users.
    Shown,
}

impl Measure {
    /// The bytes of a number as text, including the allocator's overhead and the item in a list of
    /// texts.
    const NUMBER: usize = 96;

    /// Returns the approximate memory for a string of bytes.
    pub(crate) const fn of_bytes(self, len: usize, is_borrowed: bool) -> usize {
        match self {
            Self::Borrowed if !is_borrowed => 0,
            Self::Borrowed | Self::All => memory::allocated(len),
            // A byte takes up to three characters, and the text of a value is copied once for each
            // level of nesting.
            Self::Shown => len.saturating_mul(8).saturating_add(Self::NUMBER),
        }
    }

    /// Returns the approximate memory for a number.
    pub(crate) const fn of_number(self) -> usize {
        match self {
            Self::Shown => Self::NUMBER,
            Self::Borrowed | Self::All => 0,
        }
    }

    /// Returns the approximate memory for the items of a list, without the data to which they
    /// point.
    const fn of_list(self, len: usize, size: usize) -> usize {
        match self {
            Self::All => memory::allocated(len.saturating_mul(size)),
            // The list is not copied, even if its items borrow data.
            Self::Borrowed | Self::Shown => 0,
        }
    }
}

impl<T: IntoOwned> IntoOwned for Option<T> {
    type Owned = Option<T::Owned>;

    fn into_owned(self) -> Self::Owned {
        self.map(IntoOwned::into_owned)
    }

    fn measure(&self, what: Measure) -> usize {
        self.as_ref().map_or(0, |item| item.measure(what))
    }
}

impl<T: IntoOwned> IntoOwned for Vec<T> {
    type Owned = Vec<T::Owned>;

    fn into_owned(self) -> Self::Owned {
        self.into_iter().map(IntoOwned::into_owned).collect()
    }

    fn measure(&self, what: Measure) -> usize {
        let items: usize = self.iter().map(|item| item.measure(what)).sum();
        items.saturating_add(what.of_list(self.len(), size_of::<T>()))
    }
}

impl<T: IntoOwned> IntoOwned for Box<T> {
    type Owned = Box<T::Owned>;

    fn into_owned(self) -> Self::Owned {
        Box::new((*self).into_owned())
    }

    fn measure(&self, what: Measure) -> usize {
        size_of::<T>() + (**self).measure(what)
    }
}

impl IntoOwned for Cow<'_, [u8]> {
    type Owned = Cow<'static, [u8]>;

    fn into_owned(self) -> Cow<'static, [u8]> {
        Cow::Owned(self.into_owned())
    }

    fn measure(&self, what: Measure) -> usize {
        what.of_bytes(self.len(), matches!(self, Cow::Borrowed(_)))
    }
}

/// Implements `IntoOwned` for types that never borrow.
macro_rules! plain {
    ($($type:ty),* $(,)?) => {
        $(impl crate::IntoOwned for $type {
            type Owned = Self;

            fn into_owned(self) -> Self {
                self
            }

            #[inline]
            fn measure(&self, what: crate::Measure) -> usize {
                what.of_number()
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

/// Defines a structure of the model: its fields, the common derives, and `IntoOwned`.
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

            fn measure(&self, what: crate::Measure) -> usize {
                0 $(+ crate::IntoOwned::measure(&self.$field, what))*
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The declaration of messages, from which parsing, packing and outlines are generated.
//!
//! Source: none outside; the decision is `docs/decisions/0010-messages-are-declared-once.md`.

/// Declares a message: its fields with their shapes, in packed order.
macro_rules! message {
    ($(
        $(#[$meta:meta])*
        $name:ident $(<$lifetime:lifetime>)? {
            $($(#[$field_meta:meta])* $field:ident: $type:ty = $shape:ty,)*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name $(<$lifetime>)? {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $(<$lifetime>)? $crate::codec::Shape for $name $(<$lifetime>)? {
            type Of<'m> = message!(@of $name $($lifetime)?);

            fn read<'m>(
                reader: &mut $crate::codec::Reader<'m>,
            ) -> Result<Self::Of<'m>, $crate::Error> {
                Ok($name {
                    $($field: <$shape as $crate::codec::Shape>::read(reader)
                        .map_err(|error| error.inside(stringify!($field)))?,)*
                })
            }

            fn write(
                writer: &mut $crate::codec::Writer<'_>,
                message: &Self::Of<'_>,
            ) -> Result<(), $crate::Error> {
                $(<$shape as $crate::codec::Shape>::write(writer, &message.$field)
                    .map_err(|error| error.inside(stringify!($field)))?;)*
                Ok(())
            }

            fn outline(_: &'static str, major: u32) -> Vec<$crate::part::Part> {
                let mut parts = Vec::new();
                $(parts.extend(<$shape as $crate::codec::Shape>::outline(
                    stringify!($field),
                    major,
                ));)*
                parts
            }
        }
    )*};
    (@of $name:ident $lifetime:lifetime) => { $name<'m> };
    (@of $name:ident) => { $name };
}
pub(crate) use message;

/// Implements parsing and packing for messages that form a whole payload.
macro_rules! payloads {
    ($($name:ident $(<$lifetime:lifetime>)?,)*) => {$(
        impl<'a> $name $(<$lifetime>)? {
            /// Parses a payload in the form of its writer. Fields that a newer peer appends are
            /// ignored.
            ///
            /// # Errors
            ///
            /// The cause, the field and the offset.
            pub fn decode(
                form: &$crate::PeerForm,
                framer: Option<&'a dyn bfrops::RegexFramer>,
                payload: &'a [u8],
            ) -> Result<Self, $crate::Error> {
                let mut reader = $crate::codec::Reader::new(form, framer, payload);
                <Self as $crate::codec::Shape>::read(&mut reader)
            }

            /// Packs the payload in the form of its reader.
            ///
            /// # Errors
            ///
            /// A field cannot be packed.
            pub fn encode(
                &self,
                form: &$crate::PeerForm,
                framer: Option<&dyn bfrops::RegexFramer>,
            ) -> Result<Vec<u8>, $crate::Error> {
                let mut writer = $crate::codec::Writer::new(form, framer);
                <Self as $crate::codec::Shape>::write(&mut writer, self)?;
                Ok(writer.finish())
            }
        }
    )*};
}
pub(crate) use payloads;

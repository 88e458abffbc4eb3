// SPDX-License-Identifier: MIT OR Apache-2.0
//! What messages are made of: shapes, which put one or more pack calls together.

use std::marker::PhantomData;

use bfrops::{Decoder, Encoder, Kind, Limits, RegexFramer};
use pmix_types::{Nspace, Text};

use crate::{Error, PeerForm, kind};

/// What a message may cost: in the worst case an empty info takes 72 bytes for 3.
const LIMITS: Limits = Limits {
    depth: 64,
    memory_factor: 32,
    memory_base: 63 * 1024,
};

/// Takes shapes off the payload of a message.
pub(crate) struct Reader<'a> {
    decoder: Decoder<'a>,
    form: PeerForm,
    /// Whether all that is left was taken as it is.
    has_ended: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(
        form: &PeerForm,
        framer: Option<&'a dyn RegexFramer>,
        payload: &'a [u8],
    ) -> Self {
        let decoder = Decoder::new(form.layout, payload).with_limits(LIMITS);
        Self {
            decoder: match framer {
                Some(framer) => decoder.with_framer(framer),
                None => decoder,
            },
            form: *form,
            has_ended: false,
        }
    }

    pub(crate) fn one<K: Kind>(&mut self) -> Result<K::Item<'a>, Error> {
        Ok(self.decoder.one::<K>()?)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.has_ended || self.decoder.is_empty()
    }

    /// How far the payload was read.
    pub(crate) const fn offset(&self) -> usize {
        self.decoder.offset()
    }

    /// The first number of the peer's version.
    pub(crate) const fn major(&self) -> u32 {
        self.form.major
    }

    /// Reads no further.
    pub(crate) const fn end(&mut self) {
        self.has_ended = true;
    }

    /// Says that nothing is to follow.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        match self.has_ended {
            true => Ok(()),
            false => Ok(self.decoder.finish()?),
        }
    }

    /// How many there are said to be.
    fn count(&mut self) -> Result<(usize, u64), Error> {
        let start = self.offset();
        let count = self.one::<kind::Size>()?;
        Ok((start, count))
    }
}

/// Packs shapes into the payload of a message.
pub(crate) struct Writer<'f> {
    out: Vec<u8>,
    form: PeerForm,
    framer: Option<&'f dyn RegexFramer>,
}

impl<'f> Writer<'f> {
    pub(crate) fn new(form: &PeerForm, framer: Option<&'f dyn RegexFramer>) -> Self {
        Self {
            out: Vec::new(),
            form: *form,
            framer,
        }
    }

    pub(crate) fn one<K: Kind>(&mut self, item: &K::Item<'_>) -> Result<(), Error> {
        Ok(self.encoder().one::<K>(item)?)
    }

    /// The first number of the peer's version.
    pub(crate) const fn major(&self) -> u32 {
        self.form.major
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.out
    }

    fn count(&mut self, count: usize) -> Result<(), Error> {
        self.one::<kind::Size>(&u64::try_from(count).unwrap_or(u64::MAX))
    }

    fn encoder(&mut self) -> Encoder<'_> {
        let encoder = Encoder::new(self.form.layout, &mut self.out);
        match self.framer {
            Some(framer) => encoder.with_framer(framer),
            None => encoder,
        }
    }
}

/// How a field of a message is written and read.
pub(crate) trait Shape {
    /// The field in Rust.
    type Of<'a>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<Self::Of<'a>, Error>;

    fn write(writer: &mut Writer<'_>, field: &Self::Of<'_>) -> Result<(), Error>;
}

/// A call of one datum.
pub(crate) struct One<K>(PhantomData<K>);

impl<K: Kind> Shape for One<K> {
    type Of<'a> = K::Item<'a>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<K::Item<'a>, Error> {
        reader.one::<K>()
    }

    fn write(writer: &mut Writer<'_>, field: &K::Item<'_>) -> Result<(), Error> {
        writer.one::<K>(field)
    }
}

/// A call of `PMIX_SIZE`, and if that is not 0 one call of so many data.
pub(crate) struct Many<K>(PhantomData<K>);

impl<K: Kind> Shape for Many<K> {
    type Of<'a> = Vec<K::Item<'a>>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<Vec<K::Item<'a>>, Error> {
        let (start, count) = reader.count()?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let items = reader.decoder.all::<K>()?;
        match usize::try_from(count) == Ok(items.len()) {
            true => Ok(items),
            false => {
                let message = format!("{count} are announced and {} are there", items.len());
                Err(Error::malformed(start, message))
            }
        }
    }

    fn write(writer: &mut Writer<'_>, field: &Vec<K::Item<'_>>) -> Result<(), Error> {
        writer.count(field.len())?;
        match field.is_empty() {
            true => Ok(()),
            false => Ok(writer.encoder().call::<K>(field)?),
        }
    }
}

/// A call of `PMIX_SIZE`, and so many calls of one datum.
pub(crate) struct Each<K>(PhantomData<K>);

impl<K: Kind> Shape for Each<K> {
    type Of<'a> = Vec<K::Item<'a>>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<Vec<K::Item<'a>>, Error> {
        let (start, count) = reader.count()?;
        let left = reader.decoder.rest().len();
        // Nothing is reserved, but a call takes two bytes at the least.
        if usize::try_from(count).map_or(true, |count| count > left) {
            let message = format!("{count} are announced and {left} bytes are left");
            return Err(Error::past_end(start, message));
        }
        (0..count).map(|_| reader.one::<K>()).collect()
    }

    fn write(writer: &mut Writer<'_>, field: &Vec<K::Item<'_>>) -> Result<(), Error> {
        writer.count(field.len())?;
        EachToEnd::<K>::write(writer, field)
    }
}

/// Calls of one datum up to the end.
pub(crate) struct EachToEnd<K>(PhantomData<K>);

impl<K: Kind> Shape for EachToEnd<K> {
    type Of<'a> = Vec<K::Item<'a>>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<Vec<K::Item<'a>>, Error> {
        let mut items = Vec::new();
        while !reader.is_empty() {
            items.push(reader.one::<K>()?);
        }
        Ok(items)
    }

    fn write(writer: &mut Writer<'_>, field: &Vec<K::Item<'_>>) -> Result<(), Error> {
        field.iter().try_for_each(|item| writer.one::<K>(item))
    }
}

/// All that is left, as it is.
pub(crate) enum Tail {}

impl Shape for Tail {
    type Of<'a> = &'a [u8];

    fn read<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Error> {
        reader.end();
        Ok(reader.decoder.rest())
    }

    fn write(writer: &mut Writer<'_>, field: &&[u8]) -> Result<(), Error> {
        writer.out.extend_from_slice(field);
        Ok(())
    }
}

/// A field that may be missing, and all behind it too.
pub(crate) struct Maybe<S>(PhantomData<S>);

impl<S: Shape> Shape for Maybe<S> {
    type Of<'a> = Option<S::Of<'a>>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<Option<S::Of<'a>>, Error> {
        match reader.is_empty() {
            true => Ok(None),
            false => S::read(reader).map(Some),
        }
    }

    fn write(writer: &mut Writer<'_>, field: &Option<S::Of<'_>>) -> Result<(), Error> {
        match field {
            Some(field) => S::write(writer, field),
            None => Ok(()),
        }
    }
}

/// A list that peers of earlier major releases neither send nor expect.
pub(crate) struct Since<const MAJOR: u32, S>(PhantomData<S>);

impl<const MAJOR: u32, S> Shape for Since<MAJOR, S>
where
    S: for<'a> Shape<Of<'a>: Default>,
{
    type Of<'a> = S::Of<'a>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<S::Of<'a>, Error> {
        match reader.major() >= MAJOR {
            true => S::read(reader),
            false => Ok(S::Of::default()),
        }
    }

    fn write(writer: &mut Writer<'_>, field: &S::Of<'_>) -> Result<(), Error> {
        match writer.major() >= MAJOR {
            true => S::write(writer, field),
            false => Ok(()),
        }
    }
}

/// An nspace in a call of `PMIX_STRING`; a null pointer is the empty one.
pub(crate) enum NspaceText {}

impl Shape for NspaceText {
    type Of<'a> = Nspace<'a>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<Nspace<'a>, Error> {
        let start = reader.offset();
        let text = reader.one::<kind::String>()?.unwrap_or_default();
        match text.len() > Nspace::MAX_LEN {
            true => {
                let (len, most) = (text.len(), Nspace::MAX_LEN);
                let message = format!("nspace of {len} bytes, more than {most}");
                Err(Error::malformed(start, message))
            }
            false => Ok(Nspace::new(text)),
        }
    }

    fn write(writer: &mut Writer<'_>, field: &Nspace<'_>) -> Result<(), Error> {
        let (len, most) = (field.as_bytes().len(), Nspace::MAX_LEN);
        if len > most {
            let message = format!("nspace of {len} bytes, more than {most}");
            return Err(Error::unpackable(message));
        }
        let text = Text::without_nul(field.as_bytes());
        writer.one::<kind::String>(&Some(text))
    }
}

/// A message: its fields with their shapes, in the order of the wire.
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
        }
    )*};
    (@of $name:ident $lifetime:lifetime) => { $name<'m> };
    (@of $name:ident) => { $name };
}
pub(crate) use message;

/// Messages that stand alone in a payload: how they are read from one and made one.
macro_rules! payloads {
    ($($name:ident $(<$lifetime:lifetime>)?,)*) => {$(
        impl<'a> $name $(<$lifetime>)? {
            /// Reads a payload. What a newer peer appends is ignored.
            ///
            /// # Errors
            ///
            /// What is wrong, in which field and at which byte.
            pub fn decode(
                form: &$crate::PeerForm,
                framer: Option<&'a dyn bfrops::RegexFramer>,
                payload: &'a [u8],
            ) -> Result<Self, $crate::Error> {
                let mut reader = $crate::codec::Reader::new(form, framer, payload);
                <Self as $crate::codec::Shape>::read(&mut reader)
            }

            /// The payload for a peer that understands this.
            ///
            /// # Errors
            ///
            /// If a field cannot be packed.
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shapes of message fields.

use std::marker::PhantomData;

use bfrops::WireType;
use pmix_types::{DataType, Nspace, Status, Text, memory};

use super::{Contents, Part, Reader, Shape, Writer};
use crate::{Error, wire_type};

/// A pack call with one datum.
pub(crate) struct One<K>(PhantomData<K>);

impl<K: WireType> Shape for One<K> {
    type Of<'a> = K::Item<'a>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<K::Item<'a>, Error> {
        reader.one::<K>()
    }

    fn write(writer: &mut Writer<'_>, field: &K::Item<'_>) -> Result<(), Error> {
        writer.one::<K>(field)
    }

    fn outline(name: &'static str, _: u32) -> Vec<Part> {
        vec![Part::One(name, K::TYPE)]
    }
}

/// A pack call of `PMIX_SIZE` and, if the size is not 0, one call with that number of data.
pub(crate) struct Many<K>(PhantomData<K>);

impl<K: WireType> Shape for Many<K> {
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

    fn outline(name: &'static str, _: u32) -> Vec<Part> {
        vec![Part::Many(name, K::TYPE)]
    }
}

/// A pack call of `PMIX_SIZE`, and that number of calls with one datum each.
pub(crate) struct Each<K>(PhantomData<K>);

impl<K: WireType> Shape for Each<K> {
    type Of<'a> = Vec<K::Item<'a>>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<Vec<K::Item<'a>>, Error> {
        let (start, count) = reader.count()?;
        let left = reader.decoder.rest().len();
        // Each call takes at least two bytes, so a count above the number of remaining bytes is
        // false.
        if usize::try_from(count).map_or(true, |count| count > left) {
            let message = format!("{count} are announced and {left} bytes are left");
            return Err(Error::past_end(start, message));
        }
        let mut items = Vec::new();
        for _ in 0..count {
            memory::reserve(&mut items, 1)?;
            items.push(reader.one::<K>()?);
        }
        Ok(items)
    }

    fn write(writer: &mut Writer<'_>, field: &Vec<K::Item<'_>>) -> Result<(), Error> {
        writer.count(field.len())?;
        EachToEnd::<K>::write(writer, field)
    }

    fn outline(name: &'static str, _: u32) -> Vec<Part> {
        vec![Part::Each(name, K::TYPE)]
    }
}

/// Pack calls with one datum each, up to the end of the payload.
pub(crate) struct EachToEnd<K>(PhantomData<K>);

impl<K: WireType> Shape for EachToEnd<K> {
    type Of<'a> = Vec<K::Item<'a>>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<Vec<K::Item<'a>>, Error> {
        let mut items = Vec::new();
        while !reader.is_empty() {
            memory::reserve(&mut items, 1)?;
            items.push(reader.one::<K>()?);
        }
        Ok(items)
    }

    fn write(writer: &mut Writer<'_>, field: &Vec<K::Item<'_>>) -> Result<(), Error> {
        field.iter().try_for_each(|item| writer.one::<K>(item))
    }

    fn outline(name: &'static str, _: u32) -> Vec<Part> {
        vec![Part::Rest(vec![Part::One(name, K::TYPE)])]
    }
}

/// The rest of the payload, unparsed.
pub(crate) struct Tail<C>(PhantomData<C>);

impl<C: Contents> Shape for Tail<C> {
    type Of<'a> = &'a [u8];

    fn read<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Error> {
        Ok(reader.rest())
    }

    fn write(writer: &mut Writer<'_>, field: &&[u8]) -> Result<(), Error> {
        Ok(memory::append(&mut writer.out, field)?)
    }

    fn outline(_: &'static str, _: u32) -> Vec<Part> {
        vec![Part::Rest(C::outline())]
    }
}

/// Pack calls with one `PMIX_KVAL` each.
pub(crate) enum Kvals {}

impl Contents for Kvals {
    fn outline() -> Vec<Part> {
        vec![Part::One("kval", DataType::KVAL)]
    }
}

/// An optional field. If it is missing, all later fields are missing, too.
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

    fn outline(name: &'static str, major: u32) -> Vec<Part> {
        vec![Part::Maybe(S::outline(name, major))]
    }
}

/// A boolean, and the field if it is true.
pub(crate) struct Given<S>(PhantomData<S>);

impl<S: Shape> Shape for Given<S> {
    type Of<'a> = Option<S::Of<'a>>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<Option<S::Of<'a>>, Error> {
        match reader.one::<wire_type::Bool>()? {
            true => S::read(reader).map(Some),
            false => Ok(None),
        }
    }

    fn write(writer: &mut Writer<'_>, field: &Option<S::Of<'_>>) -> Result<(), Error> {
        writer.one::<wire_type::Bool>(&field.is_some())?;
        match field {
            Some(field) => S::write(writer, field),
            None => Ok(()),
        }
    }

    fn outline(name: &'static str, major: u32) -> Vec<Part> {
        vec![
            Part::One("is given", DataType::BOOL),
            Part::If(S::outline(name, major)),
        ]
    }
}

/// Up to a number of data, each in a pack call of its own, that the peer may omit. The receiver
/// drops such data if they exceed the limits of a request, or if a newer peer packed them in another
/// form.
pub(crate) struct UpTo<const COUNT: usize, K>(PhantomData<K>);

impl<const COUNT: usize, K: WireType> Shape for UpTo<COUNT, K> {
    type Of<'a> = Vec<K::Item<'a>>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<Vec<K::Item<'a>>, Error> {
        let mut items = Vec::new();
        while items.len() < COUNT && !reader.is_empty() {
            memory::reserve(&mut items, 1)?;
            match reader.one::<K>() {
                Ok(item) => items.push(item),
                // A newer peer may have appended another field instead.
                Err(error)
                    if error.status() == Status::ERR_OUT_OF_RESOURCE || reader.is_newer() =>
                {
                    reader.end();
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(items)
    }

    fn write(writer: &mut Writer<'_>, field: &Vec<K::Item<'_>>) -> Result<(), Error> {
        EachToEnd::<K>::write(writer, field)
    }

    fn outline(name: &'static str, _: u32) -> Vec<Part> {
        let mut parts = Vec::new();
        for _ in 0..COUNT {
            parts.insert(0, Part::One(name, K::TYPE));
            parts = vec![Part::Maybe(parts)];
        }
        parts
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

    fn outline(name: &'static str, major: u32) -> Vec<Part> {
        match major >= MAJOR {
            true => S::outline(name, major),
            false => Vec::new(),
        }
    }
}

/// An nspace in a pack call of `PMIX_STRING`. A null pointer is the empty nspace.
pub(crate) enum NspaceText {}

impl Shape for NspaceText {
    type Of<'a> = Nspace<'a>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<Nspace<'a>, Error> {
        let start = reader.offset();
        let text = reader.one::<wire_type::String>()?.unwrap_or_default();
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
        writer.one::<wire_type::String>(&Some(text))
    }

    fn outline(name: &'static str, _: u32) -> Vec<Part> {
        vec![Part::One(name, DataType::STRING)]
    }
}

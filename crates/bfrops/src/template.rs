// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages that consist of the same pack calls with different data.
//!
//! Source: this project; the tests compare the bytes with those of the encoder.

#[cfg(test)]
mod tests;

use std::fmt::Display;

use pmix_types::{Bytes, DataArray, DataType, Info, Key, Kval, Rank, Status, Text, Value, memory};

use crate::wire_type::dispatch;
use crate::{Encoder, Error, Integers, Layout, RegexFramer, WireType, flex, wire_type};

/// A packer of messages that consist of the same pack calls with different data, such as the
/// processes in job info.
///
/// The bytes before each datum are packed once, as a [`Slot`]. For each message the data are put in
/// order, and [`Self::write`] appends the whole to the message. The previous data are kept up to
/// the first datum with a different slot. Before that, an equal datum costs nothing, and a number
/// with as many bytes or a text of the same length overwrites the old one.
///
/// ```
/// use bfrops::{Encoder, Layout, Module, MessageTemplate, wire_type};
/// use pmix_types::{Key, Kval, Value};
///
/// let layout = Layout::new(Module::V41);
/// let mut template = MessageTemplate::new(layout);
/// let place = template.kval(&Key::new("pmix.lrank"), &Value::Uint16(0))?;
/// let name = template.kval(&Key::new("pmix.hname"), &Value::from(""))?;
/// let (mut out, mut whole) = (Vec::new(), Vec::new());
/// for number in [7, 300] {
///     template.put_number(place, number)?;
///     template.put(name, 0, || Value::from("n01"))?;
///     template.write(&mut Encoder::new(layout, &mut out))?;
/// }
///
/// for number in [7, 300] {
///     let pairs = [("pmix.lrank", Value::Uint16(number)), ("pmix.hname", Value::from("n01"))];
///     for (key, value) in pairs {
///         let kval = Kval { key: Key::new(key), value };
///         Encoder::new(layout, &mut whole).one::<wire_type::Kval>(&kval)?;
///     }
/// }
/// assert_eq!(out, whole);
/// # Ok::<(), bfrops::Error>(())
/// ```
pub struct MessageTemplate<'f> {
    layout: Layout,
    framer: Option<&'f dyn RegexFramer>,
    container: Option<Container>,
    slots: Vec<Prefix>,
    /// The packed container up to its size, if there is a container, then the filled slots.
    bytes: Vec<u8>,
    /// The offset of the first filled slot in `bytes`.
    first: usize,
    /// The filled slots in the order of their bytes.
    parts: Vec<FilledSlot>,
    /// The index in `parts` of the next slot to fill.
    at: usize,
    /// A reusable buffer for packing a datum.
    datum: Vec<u8>,
    /// `true` if a datum is missing because the process had no memory for it.
    is_short: bool,
}

/// The packed kval that contains all slots, up to the first slot.
struct Container {
    content: Content,
    /// The bytes before the size of the container.
    before: Box<[u8]>,
    /// The bytes between the size and the first slot.
    after: Box<[u8]>,
    /// The size in the last written message, in the unit of `Content`.
    size: usize,
}

/// The content of a container. It determines the unit of the container's size.
enum Content {
    /// A byte object: the size counts bytes.
    Bytes,
    /// An array of infos: each slot is an info, and the size counts them. `none` is the packed form
    /// of an empty array.
    Infos { none: Box<[u8]> },
}

/// The handle of a slot of a [`MessageTemplate`]: the packed bytes that precede a datum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(usize);

/// The packed bytes that precede the datum of a slot.
struct Prefix {
    data_type: DataType,
    bytes: Box<[u8]>,
}

/// A slot with its datum in the current message.
struct FilledSlot {
    slot: Slot,
    /// The offset of the slot, relative to the first part.
    start: usize,
    /// The offset of the datum, relative to the first part.
    datum: usize,
    len: usize,
    /// The caller's mark: equal marks mean equal data of the slot.
    mark: u64,
    patch_range: PatchRange,
}

/// The data that can overwrite a datum in place.
#[derive(Clone, Copy)]
enum PatchRange {
    /// None. The datum must be packed.
    Other,
    /// `count` numbers from `first` on, in groups of seven bits.
    Numbers { first: u64, count: u64 },
    /// Texts of this length, with a NUL.
    Text { len: usize },
}

impl<'f> MessageTemplate<'f> {
    /// Creates an empty template.
    #[must_use]
    pub const fn new(layout: Layout) -> Self {
        Self {
            layout,
            framer: None,
            container: None,
            slots: Vec::new(),
            bytes: Vec::new(),
            first: 0,
            parts: Vec::new(),
            at: 0,
            datum: Vec::new(),
            is_short: false,
        }
    }

    /// Creates an empty template that is packed as a byte object, the value of one `PMIX_KVAL`.
    ///
    /// # Errors
    ///
    /// The module does not have byte objects.
    pub fn in_object(layout: Layout, key: &Key<'_>) -> Result<Self, Error> {
        let mut template = Self::new(layout);
        let none = Value::ByteObject(Bytes::Borrowed(&[]));
        template.container = Some(Container {
            content: Content::Bytes,
            before: template.prefix_of_kval(key, &none)?.into(),
            after: Box::default(),
            size: usize::MAX,
        });
        Ok(template)
    }

    /// Creates an empty template that is packed as an array of infos, the value of one `PMIX_KVAL`.
    /// [`Self::kval`] creates its slots, one for each info.
    ///
    /// # Errors
    ///
    /// The module does not have arrays of infos.
    pub fn in_info_array(layout: Layout, key: &Key<'_>) -> Result<Self, Error> {
        let mut template = Self::new(layout);
        let one = Info::new("", Value::Bool(false));
        let mut array = |infos: &[Info<'_>]| {
            let (key, value) = (
                key.clone(),
                Value::DataArray(DataArray::Info(infos.to_vec())),
            );
            template.pack(|encoder| encoder.one::<wire_type::Kval>(&Kval { key, value }))
        };
        let (none, whole) = (array(&[])?, array(std::slice::from_ref(&one))?);
        let item = template.pack(|encoder| encoder.field::<wire_type::Info>(&one))?;
        let zero = template.pack(|encoder| encoder.size(0))?;
        let first = template.pack(|encoder| encoder.size(1))?;
        // The packed sizes 0 and 1 begin with as many equal bytes as the container's sizes.
        let start = common(&none, &whole).saturating_sub(common(&zero, &first));
        let end = whole.len().saturating_sub(item.len());
        let (before, rest) = whole.split_at_checked(start).unwrap_or_default();
        let after = rest.get(first.len()..end.saturating_sub(start));
        template.container = Some(Container {
            content: Content::Infos { none: none.into() },
            before: before.into(),
            after: after.unwrap_or_default().into(),
            size: usize::MAX,
        });
        Ok(template)
    }

    /// Sets the framer, which determines the length of encoded maps in string form. Without it,
    /// they cannot be packed.
    #[must_use]
    pub const fn with_framer(mut self, framer: &'f dyn RegexFramer) -> Self {
        self.framer = Some(framer);
        self
    }

    /// Creates a slot for a pack call with one `PMIX_KVAL`, or for an info if the template is an
    /// array of infos. The values of the slot have the type of `like`.
    ///
    /// # Errors
    ///
    /// The module does not have the type.
    pub fn kval(&mut self, key: &Key<'_>, like: &Value<'_>) -> Result<Slot, Error> {
        let container = self.container.as_ref();
        let is_info = container.is_some_and(|c| matches!(c.content, Content::Infos { .. }));
        let prefix = match is_info {
            true => self.prefix_of_info(&Info::new(key.clone(), like.clone()))?,
            false => self.prefix_of_kval(key, like)?,
        };
        Ok(self.slot(like.data_type(), prefix))
    }

    /// Creates a slot for a pack call with one datum of a wire type.
    ///
    /// # Errors
    ///
    /// The module does not have the type.
    pub fn call<K: WireType>(&mut self) -> Result<Slot, Error> {
        let prefix = self.pack(|encoder| encoder.head(K::TYPE, 1))?;
        Ok(self.slot(K::TYPE, prefix))
    }

    /// Creates the slots for a pack call with one `PMIX_KVAL` whose value is an array of infos like
    /// those of `like`: one slot for each datum. The caller must fill all slots, in this order.
    ///
    /// # Errors
    ///
    /// The module does not have one of the types.
    pub fn infos(&mut self, key: &Key<'_>, like: &[Info<'_>]) -> Result<Vec<Slot>, Error> {
        let mut prefix = self.pack(|encoder| {
            encoder.one::<wire_type::Kval>(&Kval {
                key: key.clone(),
                value: Value::DataArray(DataArray::Info(like.to_vec())),
            })
        })?;
        let mut items = Vec::new();
        for info in like {
            let item = self.pack(|encoder| encoder.field::<wire_type::Info>(info))?;
            items.push((item, self.packed(&info.value)?.len()));
        }
        // The bytes before the first info.
        let len: usize = items.iter().map(|(item, _)| item.len()).sum();
        prefix.truncate(prefix.len().saturating_sub(len));
        let slots = like.iter().zip(items).map(|(info, (item, datum))| {
            let mut prefix = std::mem::take(&mut prefix);
            let len = item.len().saturating_sub(datum);
            prefix.extend_from_slice(item.get(..len).unwrap_or_default());
            self.slot(info.value.data_type(), prefix)
        });
        Ok(slots.collect())
    }

    /// Puts a number into a slot of type `PMIX_UINT16`, `PMIX_UINT32`, `PMIX_UINT64` or
    /// `PMIX_PROC_RANK`. The number is its mark.
    ///
    /// # Errors
    ///
    /// The slot belongs to another template or has another type, or the number does not fit the
    /// type. Then the template is unchanged.
    #[inline]
    pub fn put_number(&mut self, slot: Slot, number: u64) -> Result<(), Error> {
        let part = self.parts.get_mut(self.at);
        let Some(part) = part.filter(|part| part.slot == slot) else {
            return self.put_other_number(slot, number);
        };
        if part.mark != number {
            let start = self.first + part.datum;
            let place = self.bytes.get_mut(start..start + part.len);
            let (PatchRange::Numbers { first, count }, Some(place)) = (part.patch_range, place)
            else {
                return self.put_other_number(slot, number);
            };
            if number.wrapping_sub(first) >= count {
                return self.put_other_number(slot, number);
            }
            match place {
                [one] => *one = number.to_le_bytes()[0],
                more => {
                    let (low, _, _) = flex::encode(number);
                    more.copy_from_slice(low.get(..more.len()).unwrap_or_default());
                }
            }
            part.mark = number;
        }
        self.at += 1;
        Ok(())
    }

    /// Puts a datum into a slot. Skips `value` if the slot's previous datum has the same mark.
    ///
    /// # Errors
    ///
    /// The slot belongs to another template or has another type, or no peer could unpack the datum.
    /// Then the template is unchanged.
    #[inline]
    pub fn put<'v>(
        &mut self,
        slot: Slot,
        mark: u64,
        value: impl FnOnce() -> Value<'v>,
    ) -> Result<(), Error> {
        if let Some(part) = self.parts.get(self.at)
            && part.slot == slot
            && part.mark == mark
        {
            self.at += 1;
            return Ok(());
        }
        self.put_other(slot, mark, &value())
    }

    /// Puts a text into a slot. Skips `value` if the slot's previous text has the same mark.
    ///
    /// # Errors
    ///
    /// As for [`Self::put`].
    #[inline]
    pub fn put_text<'v>(
        &mut self,
        slot: Slot,
        mark: u64,
        text: impl FnOnce() -> Text<'v>,
    ) -> Result<(), Error> {
        let part = self.parts.get_mut(self.at);
        let Some(part) = part.filter(|part| part.slot == slot) else {
            return self.put_other(slot, mark, &Value::String(Some(text())));
        };
        if part.mark != mark {
            let text = text();
            let bytes = text.as_bytes();
            let end = self.first + part.datum + part.len;
            let place = match part.patch_range {
                PatchRange::Text { len } if len == bytes.len() => {
                    self.bytes.get_mut(end - 1 - len..end - 1)
                }
                _ => None,
            };
            let Some(place) = place else {
                return self.put_other(slot, mark, &Value::String(Some(text)));
            };
            place.copy_from_slice(bytes);
            part.mark = mark;
        }
        self.at += 1;
        Ok(())
    }

    /// Appends the filled slots to a message, and restarts at the first slot.
    ///
    /// # Errors
    ///
    /// The message has another layout.
    #[inline]
    pub fn write(&mut self, message: &mut Encoder<'_>) -> Result<(), Error> {
        if message.layout() != self.layout {
            return Err(Error::unpackable("a template of another layout"));
        }
        self.cut();
        self.at = 0;
        message.note_shortage(std::mem::take(&mut self.is_short));
        if let Some(container) = &self.container {
            let size = match container.content {
                Content::Bytes => self.bytes.len() - self.first,
                Content::Infos { .. } => self.parts.len(),
            };
            if container.size != size {
                self.say_size(size)?;
            }
        }
        message.whole(|message| {
            message.bytes(&self.bytes);
            Ok(())
        })
    }

    #[cold]
    fn say_size(&mut self, size: usize) -> Result<(), Error> {
        let Some(container) = &mut self.container else {
            return Ok(());
        };
        container.size = size;
        let prefix = match (&container.content, size) {
            (Content::Infos { none }, 0) => none.to_vec(),
            _ => {
                let mut prefix = container.before.to_vec();
                Encoder::new(self.layout, &mut prefix).size(size)?;
                prefix.extend_from_slice(&container.after);
                prefix
            }
        };
        let len = prefix.len();
        self.bytes.splice(..self.first, prefix);
        self.first = len;
        Ok(())
    }

    /// Restarts at the first slot without writing the data put since the last message.
    pub const fn start_again(&mut self) {
        self.at = 0;
    }

    /// Removes the slots of the previous message after the current place.
    #[inline]
    fn cut(&mut self) {
        if let Some(part) = self.parts.get(self.at) {
            self.bytes.truncate(self.first + part.start);
            self.parts.truncate(self.at);
        }
    }

    #[cold]
    fn put_other_number(&mut self, slot: Slot, number: u64) -> Result<(), Error> {
        let data_type = self.prefix(slot)?.data_type;
        let small = u32::try_from(number);
        let value = match (data_type, small) {
            (DataType::UINT16, _) => number.try_into().map(Value::Uint16),
            (DataType::UINT32, small) => small.map(Value::Uint32),
            (DataType::PROC_RANK, small) => small.map(|rank| Value::Rank(Rank::new(rank))),
            (DataType::UINT64, _) => Ok(Value::Uint64(number)),
            _ => return Err(refused(data_type, "a number without a type")),
        };
        match value {
            Ok(value) => self.put_other(slot, number, &value),
            Err(_) => Err(refused(data_type, number)),
        }
    }

    /// Puts a datum whose mark differs from that of the previous datum.
    fn put_other(&mut self, slot: Slot, mark: u64, value: &Value<'_>) -> Result<(), Error> {
        self.put_packed(slot, mark, value).inspect_err(|error| {
            self.is_short |= error.status() == Status::ERR_NOMEM;
        })
    }

    fn put_packed(&mut self, slot: Slot, mark: u64, value: &Value<'_>) -> Result<(), Error> {
        let data_type = self.prefix(slot)?.data_type;
        if data_type != value.data_type() {
            return Err(refused(data_type, value.data_type()));
        }
        let datum = self.packed(value)?;
        let patch_range = self.patch_range(value, datum.len());
        match self.parts.get(self.at).filter(|part| part.slot == slot) {
            Some(_) => self.replace(&datum, mark, patch_range)?,
            None => self.append(slot, &datum, mark, patch_range)?,
        }
        self.at += 1;
        self.datum = datum;
        Ok(())
    }

    /// Returns the range of data that can overwrite this datum of `len` bytes in place.
    fn patch_range(&self, value: &Value<'_>, len: usize) -> PatchRange {
        let limit: u64 = match value {
            Value::String(Some(text)) => {
                return PatchRange::Text {
                    len: text.as_bytes().len(),
                };
            }
            _ if self.layout.integers == Integers::Fixed => return PatchRange::Other,
            Value::Uint16(_) => 1 << 16,
            Value::Uint32(_) | Value::Rank(_) => 1 << 32,
            Value::Uint64(_) => 1 << 56,
            _ => return PatchRange::Other,
        };
        // Returns the number above all numbers that fit into `groups` groups of seven bits.
        let below = |groups: usize| match groups {
            0 => 0,
            1..=8 => limit.min(1 << (7 * groups)),
            _ => limit,
        };
        let first = below(len.saturating_sub(1));
        PatchRange::Numbers {
            first,
            count: below(len) - first,
        }
    }

    /// Replaces the datum at the current place. Later slots move.
    fn replace(&mut self, datum: &[u8], mark: u64, patch_range: PatchRange) -> Result<(), Error> {
        memory::reserve(&mut self.bytes, datum.len())?;
        let mut parts = self.parts.iter_mut().skip(self.at);
        let Some(part) = parts.next() else {
            return Ok(());
        };
        let start = self.first + part.datum;
        let old = start..start + part.len;
        let moved = datum.len() != part.len;
        (part.len, part.mark, part.patch_range) = (datum.len(), mark, patch_range);
        if !moved {
            if let Some(place) = self.bytes.get_mut(old) {
                place.copy_from_slice(datum);
            }
            return Ok(());
        }
        let mut end = part.datum + part.len;
        for part in parts {
            let prefix = part.datum - part.start;
            (part.start, part.datum) = (end, end + prefix);
            end = part.datum + part.len;
        }
        self.bytes.splice(old, datum.iter().copied());
        Ok(())
    }

    /// Adds a slot that differs from the one at this place in the previous message. Drops all later
    /// slots.
    fn append(
        &mut self,
        slot: Slot,
        datum: &[u8],
        mark: u64,
        patch_range: PatchRange,
    ) -> Result<(), Error> {
        self.cut();
        let prefix = self
            .slots
            .get(slot.0)
            .map_or(0, |prefix| prefix.bytes.len());
        memory::reserve(&mut self.bytes, prefix + datum.len())?;
        let start = self.bytes.len() - self.first;
        if let Some(prefix) = self.slots.get(slot.0) {
            self.bytes.extend_from_slice(&prefix.bytes);
        }
        self.parts.push(FilledSlot {
            slot,
            start,
            datum: self.bytes.len() - self.first,
            len: datum.len(),
            mark,
            patch_range,
        });
        self.bytes.extend_from_slice(datum);
        Ok(())
    }

    fn slot(&mut self, data_type: DataType, bytes: Vec<u8>) -> Slot {
        self.slots.push(Prefix {
            data_type,
            bytes: bytes.into(),
        });
        Slot(self.slots.len() - 1)
    }

    fn prefix(&self, slot: Slot) -> Result<&Prefix, Error> {
        let prefix = self.slots.get(slot.0);
        prefix.ok_or_else(|| Error::unpackable("a slot of another template"))
    }

    /// Returns the packed bytes of a kval before its datum.
    fn prefix_of_kval(&mut self, key: &Key<'_>, like: &Value<'_>) -> Result<Vec<u8>, Error> {
        let kval = Kval {
            key: key.clone(),
            value: like.clone(),
        };
        let mut prefix = self.pack(|encoder| encoder.one::<wire_type::Kval>(&kval))?;
        let datum = self.packed(like)?.len();
        prefix.truncate(prefix.len().saturating_sub(datum));
        Ok(prefix)
    }

    /// Returns the packed bytes of an info before its datum.
    fn prefix_of_info(&mut self, info: &Info<'_>) -> Result<Vec<u8>, Error> {
        let mut prefix = self.pack(|encoder| encoder.field::<wire_type::Info>(info))?;
        let datum = self.packed(&info.value)?.len();
        prefix.truncate(prefix.len().saturating_sub(datum));
        Ok(prefix)
    }

    /// Packs a single datum into the reusable buffer.
    fn packed(&mut self, value: &Value<'_>) -> Result<Vec<u8>, Error> {
        self.pack(|encoder| dispatch::encode_value(encoder, value))
    }

    /// Runs a closure that packs into the reusable buffer.
    fn pack(
        &mut self,
        pack: impl FnOnce(&mut Encoder<'_>) -> Result<(), Error>,
    ) -> Result<Vec<u8>, Error> {
        let mut bytes = std::mem::take(&mut self.datum);
        bytes.clear();
        let mut encoder = Encoder::new(self.layout, &mut bytes);
        if let Some(framer) = self.framer {
            encoder = encoder.with_framer(framer);
        }
        pack(&mut encoder)?;
        Ok(bytes)
    }
}

/// Returns the length of the common prefix of `a` and `b`.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Creates the error for a datum that does not match its slot.
#[cold]
fn refused(expected: DataType, found: impl Display) -> Error {
    Error::unpackable(format!("a slot for {expected} with {found}"))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls written again and again, with few changes from one time to the next.

use std::fmt::Display;

use pmix_types::{Bytes, DataArray, DataType, Info, Key, Kval, Rank, Text, Value};

use crate::kind::dispatch;
use crate::{Encoder, Error, Integers, Kind, Layout, RegexFramer, flex, kind};

/// Calls one behind the other that are written again and again.
///
/// What stands in front of each datum is packed once, as a [`Head`]. Each time the data are put in
/// order, and [`Self::write`] appends the whole to a message. What was put the time before is kept
/// up to the first datum that has another head; a datum before that which is equal costs nothing,
/// and a number of as many bytes is written over the old one.
///
/// ```
/// use bfrops::{Encoder, Layout, Module, Sheet, kind};
/// use pmix_types::{Key, Kval, Value};
///
/// let layout = Layout::new(Module::V41);
/// let mut sheet = Sheet::new(layout);
/// let place = sheet.kval(&Key::new("pmix.lrank"), &Value::Uint16(0))?;
/// let name = sheet.kval(&Key::new("pmix.hname"), &Value::from(""))?;
/// let (mut out, mut whole) = (Vec::new(), Vec::new());
/// for number in [7, 300] {
///     sheet.put_number(place, number)?;
///     sheet.put(name, 0, || Value::from("n01"))?;
///     sheet.write(&mut Encoder::new(layout, &mut out))?;
/// }
///
/// for number in [7, 300] {
///     let pairs = [("pmix.lrank", Value::Uint16(number)), ("pmix.hname", Value::from("n01"))];
///     for (key, value) in pairs {
///         let kval = Kval { key: Key::new(key), value };
///         Encoder::new(layout, &mut whole).one::<kind::Kval>(&kval)?;
///     }
/// }
/// assert_eq!(out, whole);
/// # Ok::<(), bfrops::Error>(())
/// ```
pub struct Sheet<'f> {
    layout: Layout,
    framer: Option<&'f dyn RegexFramer>,
    object: Option<Object>,
    heads: Vec<Front>,
    /// The front of the object and its size, if there is one, then the parts.
    bytes: Vec<u8>,
    /// Where the first part starts.
    first: usize,
    /// What is in the bytes, one behind the other.
    parts: Vec<Part>,
    /// The part that is put next.
    at: usize,
    /// Room to pack a datum.
    datum: Vec<u8>,
}

/// What stands in front of the whole, if it is a byte object in a call of one kval.
struct Object {
    front: Box<[u8]>,
    /// The bytes of the object that its size says.
    size: usize,
}

/// What stands in front of a datum of a [`Sheet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head(usize);

/// A head.
struct Front {
    data_type: DataType,
    bytes: Box<[u8]>,
}

/// A head and a datum.
struct Part {
    head: Head,
    /// Where the head starts, from the first part on.
    start: usize,
    /// Where the datum does.
    datum: usize,
    len: usize,
    /// Equal marks stand for equal data of a head.
    mark: u64,
    room: Room,
}

/// Which data can be written over the one that is there.
#[derive(Clone, Copy)]
enum Room {
    /// None but by packing.
    Other,
    /// So many numbers from the first on, in groups of seven bits.
    Numbers { first: u64, count: u64 },
    /// Texts of this length, with a NUL behind them.
    Text { len: usize },
}

impl<'f> Sheet<'f> {
    /// An empty sheet.
    #[must_use]
    pub const fn new(layout: Layout) -> Self {
        Self {
            layout,
            framer: None,
            object: None,
            heads: Vec::new(),
            bytes: Vec::new(),
            first: 0,
            parts: Vec::new(),
            at: 0,
            datum: Vec::new(),
        }
    }

    /// An empty sheet that is written as a byte object in a call of one `PMIX_KVAL`.
    ///
    /// # Errors
    ///
    /// If the module does not have byte objects.
    pub fn in_object(layout: Layout, key: &Key<'_>) -> Result<Self, Error> {
        let mut sheet = Self::new(layout);
        let none = Value::ByteObject(Bytes::Borrowed(&[]));
        let front = sheet.front_of_kval(key, &none)?.into();
        sheet.object = Some(Object {
            front,
            size: usize::MAX,
        });
        Ok(sheet)
    }

    /// The same with someone who knows the length of old encoded maps.
    #[must_use]
    pub const fn with_framer(mut self, framer: &'f dyn RegexFramer) -> Self {
        self.framer = Some(framer);
        self
    }

    /// The head of a call of one `PMIX_KVAL` with a value of the type that `like` has.
    ///
    /// # Errors
    ///
    /// If the module does not have the type.
    pub fn kval(&mut self, key: &Key<'_>, like: &Value<'_>) -> Result<Head, Error> {
        let front = self.front_of_kval(key, like)?;
        Ok(self.head(like.data_type(), front))
    }

    /// The head of a call of one datum of a kind.
    ///
    /// # Errors
    ///
    /// If the module does not have the type.
    pub fn call<K: Kind>(&mut self) -> Result<Head, Error> {
        let front = self.pack(|encoder| encoder.head(K::TYPE, 1))?;
        Ok(self.head(K::TYPE, front))
    }

    /// The heads of a call of one `PMIX_KVAL` that holds an array of infos, one for the datum of
    /// each: their keys and types are those of `like`. All are put, in this order.
    ///
    /// # Errors
    ///
    /// If the module does not have one of the types.
    pub fn infos(&mut self, key: &Key<'_>, like: &[Info<'_>]) -> Result<Vec<Head>, Error> {
        let mut front = self.pack(|encoder| {
            encoder.one::<kind::Kval>(&Kval {
                key: key.clone(),
                value: Value::DataArray(DataArray::Info(like.to_vec())),
            })
        })?;
        let mut items = Vec::new();
        for info in like {
            let item = self.pack(|encoder| encoder.field::<kind::Info>(info))?;
            items.push((item, self.packed(&info.value)?.len()));
        }
        // What stands in front of the first info.
        let len: usize = items.iter().map(|(item, _)| item.len()).sum();
        front.truncate(front.len().saturating_sub(len));
        let heads = like.iter().zip(items).map(|(info, (item, datum))| {
            let mut front = std::mem::take(&mut front);
            let len = item.len().saturating_sub(datum);
            front.extend_from_slice(item.get(..len).unwrap_or_default());
            self.head(info.value.data_type(), front)
        });
        Ok(heads.collect())
    }

    /// Puts a number behind a head whose type is `PMIX_UINT16`, `PMIX_UINT32`, `PMIX_UINT64` or
    /// `PMIX_PROC_RANK`; the number is its mark.
    ///
    /// # Errors
    ///
    /// The head is not of this sheet or of another type, or the number is none of the type. Nothing
    /// is put then.
    #[inline]
    pub fn put_number(&mut self, head: Head, number: u64) -> Result<(), Error> {
        let part = self.parts.get_mut(self.at);
        let Some(part) = part.filter(|part| part.head == head) else {
            return self.put_other_number(head, number);
        };
        if part.mark != number {
            let start = self.first + part.datum;
            let place = self.bytes.get_mut(start..start + part.len);
            let (Room::Numbers { first, count }, Some(place)) = (part.room, place) else {
                return self.put_other_number(head, number);
            };
            if number.wrapping_sub(first) >= count {
                return self.put_other_number(head, number);
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

    /// Puts a datum behind a head, unless the one that was put there has the same mark.
    ///
    /// # Errors
    ///
    /// The head is not of this sheet or of another type, or no peer could read the datum. Nothing
    /// is put then.
    #[inline]
    pub fn put<'v>(
        &mut self,
        head: Head,
        mark: u64,
        value: impl FnOnce() -> Value<'v>,
    ) -> Result<(), Error> {
        if let Some(part) = self.parts.get(self.at)
            && part.head == head
            && part.mark == mark
        {
            self.at += 1;
            return Ok(());
        }
        self.put_other(head, mark, &value())
    }

    /// Puts a text behind a head, unless the one that was put there has the same mark.
    ///
    /// # Errors
    ///
    /// As [`Self::put`].
    #[inline]
    pub fn put_text<'v>(
        &mut self,
        head: Head,
        mark: u64,
        text: impl FnOnce() -> Text<'v>,
    ) -> Result<(), Error> {
        let part = self.parts.get_mut(self.at);
        let Some(part) = part.filter(|part| part.head == head) else {
            return self.put_other(head, mark, &Value::String(Some(text())));
        };
        if part.mark != mark {
            let text = text();
            let bytes = text.as_bytes();
            let end = self.first + part.datum + part.len;
            let place = match part.room {
                Room::Text { len } if len == bytes.len() => {
                    self.bytes.get_mut(end - 1 - len..end - 1)
                }
                _ => None,
            };
            let Some(place) = place else {
                return self.put_other(head, mark, &Value::String(Some(text)));
            };
            place.copy_from_slice(bytes);
            part.mark = mark;
        }
        self.at += 1;
        Ok(())
    }

    /// Appends everything that was put to a message, and starts again.
    ///
    /// # Errors
    ///
    /// The message is of another layout.
    #[inline]
    pub fn write(&mut self, message: &mut Encoder<'_>) -> Result<(), Error> {
        if message.layout() != self.layout {
            return Err(Error::unpackable("a sheet of another layout"));
        }
        self.cut();
        self.at = 0;
        let size = self.bytes.len() - self.first;
        if self
            .object
            .as_ref()
            .is_some_and(|object| object.size != size)
        {
            self.say_size(size)?;
        }
        message.bytes(&self.bytes);
        Ok(())
    }

    #[cold]
    fn say_size(&mut self, size: usize) -> Result<(), Error> {
        let Some(object) = &mut self.object else {
            return Ok(());
        };
        object.size = size;
        let mut front = object.front.to_vec();
        Encoder::new(self.layout, &mut front).size(size)?;
        let len = front.len();
        self.bytes.splice(..self.first, front);
        self.first = len;
        Ok(())
    }

    /// Starts again without writing.
    pub const fn start_again(&mut self) {
        self.at = 0;
    }

    /// Takes away what was put the time before and not this time.
    #[inline]
    fn cut(&mut self) {
        if let Some(part) = self.parts.get(self.at) {
            self.bytes.truncate(self.first + part.start);
            self.parts.truncate(self.at);
        }
    }

    #[cold]
    fn put_other_number(&mut self, head: Head, number: u64) -> Result<(), Error> {
        let data_type = self.front(head)?.data_type;
        let small = u32::try_from(number);
        let value = match (data_type, small) {
            (DataType::UINT16, _) => number.try_into().map(Value::Uint16),
            (DataType::UINT32, small) => small.map(Value::Uint32),
            (DataType::PROC_RANK, small) => small.map(|rank| Value::Rank(Rank::new(rank))),
            (DataType::UINT64, _) => Ok(Value::Uint64(number)),
            _ => return Err(refused(data_type, "a number without a type")),
        };
        match value {
            Ok(value) => self.put_other(head, number, &value),
            Err(_) => Err(refused(data_type, number)),
        }
    }

    /// Puts a datum that was not there.
    fn put_other(&mut self, head: Head, mark: u64, value: &Value<'_>) -> Result<(), Error> {
        let data_type = self.front(head)?.data_type;
        if data_type != value.data_type() {
            return Err(refused(data_type, value.data_type()));
        }
        let datum = self.packed(value)?;
        let room = self.room(value, datum.len());
        match self.parts.get(self.at).filter(|part| part.head == head) {
            Some(_) => self.replace(&datum, mark, room),
            None => self.append(head, &datum, mark, room),
        }
        self.at += 1;
        self.datum = datum;
        Ok(())
    }

    /// Which data can be written over this one, which takes so many bytes.
    fn room(&self, value: &Value<'_>, len: usize) -> Room {
        let limit: u64 = match value {
            Value::String(Some(text)) => {
                return Room::Text {
                    len: text.as_bytes().len(),
                };
            }
            _ if self.layout.integers == Integers::Fixed => return Room::Other,
            Value::Uint16(_) => 1 << 16,
            Value::Uint32(_) | Value::Rank(_) => 1 << 32,
            Value::Uint64(_) => 1 << 56,
            _ => return Room::Other,
        };
        // What so many groups of seven bits hold.
        let below = |groups: usize| match groups {
            0 => 0,
            1..=8 => limit.min(1 << (7 * groups)),
            _ => limit,
        };
        let first = below(len.saturating_sub(1));
        Room::Numbers {
            first,
            count: below(len) - first,
        }
    }

    /// Another datum at the same place; the parts behind it move.
    fn replace(&mut self, datum: &[u8], mark: u64, room: Room) {
        let mut parts = self.parts.iter_mut().skip(self.at);
        let Some(part) = parts.next() else {
            return;
        };
        let start = self.first + part.datum;
        let old = start..start + part.len;
        let moved = datum.len() != part.len;
        (part.len, part.mark, part.room) = (datum.len(), mark, room);
        if !moved {
            if let Some(place) = self.bytes.get_mut(old) {
                place.copy_from_slice(datum);
            }
            return;
        }
        let mut end = part.datum + part.len;
        for part in parts {
            let front = part.datum - part.start;
            (part.start, part.datum) = (end, end + front);
            end = part.datum + part.len;
        }
        self.bytes.splice(old, datum.iter().copied());
    }

    /// A datum behind another head than the time before: what follows is put anew.
    fn append(&mut self, head: Head, datum: &[u8], mark: u64, room: Room) {
        self.cut();
        let start = self.bytes.len() - self.first;
        if let Some(front) = self.heads.get(head.0) {
            self.bytes.extend_from_slice(&front.bytes);
        }
        self.parts.push(Part {
            head,
            start,
            datum: self.bytes.len() - self.first,
            len: datum.len(),
            mark,
            room,
        });
        self.bytes.extend_from_slice(datum);
    }

    fn head(&mut self, data_type: DataType, bytes: Vec<u8>) -> Head {
        self.heads.push(Front {
            data_type,
            bytes: bytes.into(),
        });
        Head(self.heads.len() - 1)
    }

    fn front(&self, head: Head) -> Result<&Front, Error> {
        let front = self.heads.get(head.0);
        front.ok_or_else(|| Error::unpackable("a head of another sheet"))
    }

    /// What stands in front of the datum of a kval.
    fn front_of_kval(&mut self, key: &Key<'_>, like: &Value<'_>) -> Result<Vec<u8>, Error> {
        let kval = Kval {
            key: key.clone(),
            value: like.clone(),
        };
        let mut front = self.pack(|encoder| encoder.one::<kind::Kval>(&kval))?;
        let datum = self.packed(like)?.len();
        front.truncate(front.len().saturating_sub(datum));
        Ok(front)
    }

    /// A datum alone, in the room for it.
    fn packed(&mut self, value: &Value<'_>) -> Result<Vec<u8>, Error> {
        self.pack(|encoder| dispatch::encode_value(encoder, value))
    }

    /// What a closure packs, in the room for a datum.
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

/// A head is not for this.
#[cold]
fn refused(expected: DataType, found: impl Display) -> Error {
    Error::unpackable(format!("a head for {expected} with {found}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BufferKind, Module};

    fn layouts() -> impl Iterator<Item = Layout> {
        Module::ALL.into_iter().flat_map(|module| {
            [BufferKind::NonDescribed, BufferKind::Described].map(|buffer| {
                let mut layout = Layout::new(module);
                layout.buffer = buffer;
                layout
            })
        })
    }

    fn kval(layout: Layout, key: &Key<'_>, value: &Value<'_>, out: &mut Vec<u8>) {
        let (key, value) = (key.clone(), value.clone());
        let mut encoder = Encoder::new(layout, out);
        encoder.one::<kind::Kval>(&Kval { key, value }).unwrap();
    }

    /// Lengths around which the length of a text takes another byte, and two of one length.
    const LONG: [&str; 3] = [
        "a text of 62 bytes, whose length with the NUL is 63, so 1 byte",
        "a text of 63 bytes, whose length with the NUL is 64, so 2 bytes",
        "A TEXT OF 63 BYTES, WHOSE LENGTH WITH THE NUL IS 64, SO 2 BYTES",
    ];

    /// Data of each head, time by time; with none where a head is left out.
    fn times() -> Vec<[Option<Value<'static>>; 5]> {
        let number = |n| Some(Value::Uint16(n));
        let rank = |n| Some(Value::Rank(Rank::new(n)));
        let text = |text: &'static str| Some(Value::from(text));
        let array = |n| {
            let infos = vec![Info::new("inside", Value::Pid(n))];
            Some(Value::DataArray(DataArray::Info(infos)))
        };
        let size = |n| Some(Value::Size(n));
        vec![
            [number(0), rank(0), text("n1"), array(1), size(1)],
            [number(0), rank(0), text("n1"), array(1), size(1)],
            [number(1), rank(127), text("n2"), array(2), size(2)],
            [number(2), rank(126), text(LONG[0]), array(2), size(2)],
            [number(3), rank(128), text(LONG[1]), array(2), size(2)],
            [number(4), rank(129), text(LONG[2]), array(2), size(2)],
            [number(300), rank(128), text("n100"), array(70_000), size(2)],
            [number(7), None, text("n"), array(1), None],
            [number(7), rank(u32::MAX), text("n"), None, size(u64::MAX)],
            [None, None, None, None, None],
            [None, rank(5), None, array(3), None],
            [number(u16::MAX), rank(5), text(""), array(3), size(0)],
        ]
    }

    #[test]
    fn what_is_written_is_what_single_calls_write_in_every_layout() {
        let keys = ["number", "rank", "text", "array", "size"].map(Key::new);
        for layout in layouts() {
            let mut sheet = Sheet::new(layout);
            let times = times();
            let heads: Vec<_> = (keys.iter().zip(&times[0]))
                .map(|(key, like)| sheet.kval(key, like.as_ref().unwrap()).unwrap())
                .collect();
            let mut mark = 0;
            for values in &times {
                let (mut written, mut whole) = (Vec::new(), Vec::new());
                for ((head, key), value) in heads.iter().zip(&keys).zip(values) {
                    mark += 1;
                    let Some(value) = value else {
                        continue;
                    };
                    kval(layout, key, value, &mut whole);
                    match value {
                        Value::Uint16(n) => sheet.put_number(*head, (*n).into()).unwrap(),
                        Value::Rank(n) => sheet.put_number(*head, n.as_raw().into()).unwrap(),
                        Value::String(Some(text)) => {
                            sheet.put_text(*head, mark, || text.clone()).unwrap()
                        }
                        _ => sheet.put(*head, mark, || value.clone()).unwrap(),
                    }
                }
                sheet
                    .write(&mut Encoder::new(layout, &mut written))
                    .unwrap();
                assert_eq!(written, whole, "{layout:?} {values:?}");
            }
        }
    }

    #[test]
    fn a_datum_of_the_same_mark_is_not_asked_for() {
        let layout = Layout::new(Module::V41);
        let mut sheet = Sheet::new(layout);
        let head = sheet.kval(&Key::new("k"), &Value::from("")).unwrap();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        sheet.put(head, 9, || Value::from("once")).unwrap();
        sheet.write(&mut Encoder::new(layout, &mut first)).unwrap();
        sheet.put(head, 9, || panic!("asked for")).unwrap();
        sheet.write(&mut Encoder::new(layout, &mut second)).unwrap();
        assert_eq!(first, second);
    }

    #[test]
    fn a_call_and_an_object_are_the_whole_call_in_every_layout() {
        for layout in layouts() {
            let (mut calls, mut whole) = (Vec::new(), Vec::new());
            let key = Key::new("some.key");
            let mut sheet = Sheet::in_object(layout, &key).unwrap();
            let head = sheet.call::<kind::Rank>().unwrap();
            for rank in [0, 300, u32::MAX] {
                calls.clear();
                let mut encoder = Encoder::new(layout, &mut calls);
                encoder.one::<kind::Rank>(&Rank::new(rank)).unwrap();
                whole.clear();
                let object = Value::ByteObject(Bytes::Borrowed(&calls));
                kval(layout, &key, &object, &mut whole);
                let mut written = Vec::new();
                sheet.put_number(head, rank.into()).unwrap();
                sheet
                    .write(&mut Encoder::new(layout, &mut written))
                    .unwrap();
                assert_eq!(written, whole, "{layout:?}");
            }
        }
    }

    #[test]
    fn infos_are_the_whole_call_in_every_layout() {
        let infos = |name: &'static str, number| {
            vec![
                Info::new("some.name", name),
                Info::new("some.number", Value::Uint32(number)),
                Info::new("another", Value::Uint16(7)),
            ]
        };
        for layout in layouts() {
            let key = Key::new("some.key");
            let mut sheet = Sheet::new(layout);
            let heads = sheet.infos(&key, &infos("", 0)).unwrap();
            for (mark, (name, number)) in (0..).zip([("a", 1), ("host", 70_000), ("b", 2)]) {
                let (mut written, mut whole) = (Vec::new(), Vec::new());
                let infos = infos(name, number);
                for (head, info) in heads.iter().zip(&infos) {
                    sheet.put(*head, mark, || info.value.clone()).unwrap();
                }
                sheet
                    .write(&mut Encoder::new(layout, &mut written))
                    .unwrap();
                let value = Value::DataArray(DataArray::Info(infos));
                kval(layout, &key, &value, &mut whole);
                assert_eq!(written, whole, "{layout:?}");
            }
        }
    }

    #[test]
    fn a_head_takes_no_other_type_and_a_sheet_no_other_layout() {
        let layout = Layout::new(Module::V41);
        let mut sheet = Sheet::new(layout);
        let number = sheet.kval(&Key::new("k"), &Value::Uint16(0)).unwrap();
        let text = sheet.kval(&Key::new("t"), &Value::from("")).unwrap();
        assert!(sheet.put(number, 1, || Value::Uint32(1)).is_err());
        assert!(sheet.put_number(number, 0x1_0000).is_err());
        assert!(sheet.put_number(text, 1).is_err());
        assert!(sheet.put_number(Head(2), 1).is_err());
        let mut out = vec![9];
        sheet.write(&mut Encoder::new(layout, &mut out)).unwrap();
        sheet.put_number(number, 1).unwrap();
        let mut other = Encoder::new(Layout::new(Module::V12), &mut out);
        assert!(sheet.write(&mut other).is_err());
        assert_eq!(out, [9]);
    }
}

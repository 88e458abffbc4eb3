// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that templates write the same bytes as separate pack calls.

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
    encoder
        .one::<wire_type::Kval>(&Kval { key, value })
        .unwrap();
}

/// Texts just below and above a length at which the length field needs another byte. Two have equal
/// length.
const LONG: [&str; 3] = [
    "a text of 62 bytes, whose length with the NUL is 63, so 1 byte",
    "a text of 63 bytes, whose length with the NUL is 64, so 2 bytes",
    "A TEXT OF 63 BYTES, WHOSE LENGTH WITH THE NUL IS 64, SO 2 BYTES",
];

/// Returns the data of five slots for each message; `None` skips the slot.
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
fn a_template_writes_the_bytes_of_single_calls() {
    let keys = ["number", "rank", "text", "array", "size"].map(Key::new);
    for layout in layouts() {
        let mut template = MessageTemplate::new(layout);
        let times = times();
        let slots: Vec<_> = (keys.iter().zip(&times[0]))
            .map(|(key, like)| template.kval(key, like.as_ref().unwrap()).unwrap())
            .collect();
        let mut mark = 0;
        for values in &times {
            let (mut written, mut whole) = (Vec::new(), Vec::new());
            for ((slot, key), value) in slots.iter().zip(&keys).zip(values) {
                mark += 1;
                let Some(value) = value else {
                    continue;
                };
                kval(layout, key, value, &mut whole);
                match value {
                    Value::Uint16(n) => template.put_number(*slot, (*n).into()).unwrap(),
                    Value::Rank(n) => template.put_number(*slot, n.as_raw().into()).unwrap(),
                    Value::String(Some(text)) => {
                        template.put_text(*slot, mark, || text.clone()).unwrap()
                    }
                    _ => template.put(*slot, mark, || value.clone()).unwrap(),
                }
            }
            template
                .write(&mut Encoder::new(layout, &mut written))
                .unwrap();
            assert_eq!(written, whole, "{layout:?} {values:?}");
        }
    }
}

#[test]
fn a_datum_with_an_equal_mark_is_not_requested() {
    let layout = Layout::new(Module::V41);
    let mut template = MessageTemplate::new(layout);
    let slot = template.kval(&Key::new("k"), &Value::from("")).unwrap();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    template.put(slot, 9, || Value::from("once")).unwrap();
    template
        .write(&mut Encoder::new(layout, &mut first))
        .unwrap();
    template.put(slot, 9, || panic!("asked for")).unwrap();
    template
        .write(&mut Encoder::new(layout, &mut second))
        .unwrap();
    assert_eq!(first, second);
}

#[test]
fn calls_and_objects_equal_the_whole_call() {
    for layout in layouts() {
        let (mut calls, mut whole) = (Vec::new(), Vec::new());
        let key = Key::new("some.key");
        let mut template = MessageTemplate::in_object(layout, &key).unwrap();
        let slot = template.call::<wire_type::Rank>().unwrap();
        for rank in [0, 300, u32::MAX] {
            calls.clear();
            let mut encoder = Encoder::new(layout, &mut calls);
            encoder.one::<wire_type::Rank>(&Rank::new(rank)).unwrap();
            whole.clear();
            let object = Value::ByteObject(Bytes::Borrowed(&calls));
            kval(layout, &key, &object, &mut whole);
            let mut written = Vec::new();
            template.put_number(slot, rank.into()).unwrap();
            template
                .write(&mut Encoder::new(layout, &mut written))
                .unwrap();
            assert_eq!(written, whole, "{layout:?}");
        }
    }
}

#[test]
fn infos_equal_the_whole_call() {
    let infos = |name: &'static str, number| {
        vec![
            Info::new("some.name", name),
            Info::new("some.number", Value::Uint32(number)),
            Info::new("another", Value::Uint16(7)),
        ]
    };
    for layout in layouts() {
        let key = Key::new("some.key");
        let mut template = MessageTemplate::new(layout);
        let slots = template.infos(&key, &infos("", 0)).unwrap();
        for (mark, (name, number)) in (0..).zip([("a", 1), ("host", 70_000), ("b", 2)]) {
            let (mut written, mut whole) = (Vec::new(), Vec::new());
            let infos = infos(name, number);
            for (slot, info) in slots.iter().zip(&infos) {
                template.put(*slot, mark, || info.value.clone()).unwrap();
            }
            template
                .write(&mut Encoder::new(layout, &mut written))
                .unwrap();
            let value = Value::DataArray(DataArray::Info(infos));
            kval(layout, &key, &value, &mut whole);
            assert_eq!(written, whole, "{layout:?}");
        }
    }
}

#[test]
fn rejects_other_types_for_slots_and_other_layouts() {
    let layout = Layout::new(Module::V41);
    let mut template = MessageTemplate::new(layout);
    let number = template.kval(&Key::new("k"), &Value::Uint16(0)).unwrap();
    let text = template.kval(&Key::new("t"), &Value::from("")).unwrap();
    assert!(template.put(number, 1, || Value::Uint32(1)).is_err());
    assert!(template.put_number(number, 0x1_0000).is_err());
    assert!(template.put_number(text, 1).is_err());
    assert!(template.put_number(Slot(2), 1).is_err());
    let mut out = vec![9];
    template.write(&mut Encoder::new(layout, &mut out)).unwrap();
    template.put_number(number, 1).unwrap();
    let mut other = Encoder::new(Layout::new(Module::V12), &mut out);
    assert!(template.write(&mut other).is_err());
    assert_eq!(out, [9]);
}

#[test]
fn an_array_of_infos_equals_the_whole_call() {
    let key = Key::new("pmix.pdata");
    let widths = [Integers::Fixed, Integers::Flex];
    for layout in layouts().flat_map(|layout| widths.map(|integers| Layout { integers, ..layout }))
    {
        let mut template = MessageTemplate::in_info_array(layout, &key).unwrap();
        let names: Vec<_> = (0..300).map(|n| format!("key.{n}")).collect();
        let slots: Vec<_> = (names.iter())
            .map(|name| {
                template
                    .kval(&Key::new(name.as_str()), &Value::Uint32(0))
                    .unwrap()
            })
            .collect();
        for count in [1, 2, 300, 2, 0, 127, 128] {
            let (mut written, mut whole) = (Vec::new(), Vec::new());
            let mut infos = Vec::new();
            for ((slot, name), number) in slots.iter().zip(&names).take(count).zip(126..) {
                template.put_number(*slot, number).unwrap();
                let number = Value::Uint32(u32::try_from(number).unwrap());
                infos.push(Info::new(name.as_str(), number));
            }
            template
                .write(&mut Encoder::new(layout, &mut written))
                .unwrap();
            kval(
                layout,
                &key,
                &Value::DataArray(DataArray::Info(infos)),
                &mut whole,
            );
            assert_eq!(written, whole, "{layout:?}, {count} infos");
        }
    }
}

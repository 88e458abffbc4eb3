// SPDX-License-Identifier: MIT OR Apache-2.0
//! The unpacking of a message, call by call, as its command determines them.

use std::borrow::Cow;

use bfrops::{Decoder, Error, FieldTrace, Layout, Limits, RegexFramer, TracedField};
use pmix_proto::Command;
use pmix_proto::outline::Part as Step;
use pmix_types::{DataArray, DataType, Value};

use crate::wire;
use crate::wire::explain::{Fault, Title};

/// The maximum nesting of packed buffers.
const MAX_DEPTH: usize = 8;

/// An unpacked call.
pub(super) struct Call {
    pub(super) offset: usize,
    pub(super) name: String,
    pub(super) data_type: DataType,
    /// The data as JSON.
    pub(super) list: String,
}

/// A reader of payloads that collects the calls and fields.
pub(super) struct Walk<'a> {
    layout: Layout,
    limits: Limits,
    framer: &'a dyn RegexFramer,
    with_trace: bool,
    pub(super) calls: Vec<Call>,
    pub(super) titles: Vec<Title>,
    pub(super) notes: Vec<TracedField>,
}

/// A payload, or a buffer that is packed in one.
pub(super) struct Part<'a> {
    decoder: Decoder<'a>,
    /// The offset in the payload.
    base: usize,
    /// The path of the enclosing buffers.
    prefix: String,
    depth: usize,
    /// The number of fields that were already copied from the decoder.
    taken: usize,
    /// `true` if the last status or boolean indicates that more data follows.
    goes_on: bool,
}

impl<'a> Walk<'a> {
    pub(super) const fn new(
        layout: Layout,
        limits: Limits,
        framer: &'a dyn RegexFramer,
        with_trace: bool,
    ) -> Self {
        Self {
            layout,
            limits,
            framer,
            with_trace,
            calls: Vec::new(),
            titles: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Returns the payload from an offset on.
    pub(super) fn part(&self, payload: &'a [u8], base: usize) -> Part<'a> {
        let bytes = payload.get(base..).unwrap_or_default();
        self.open(bytes, base, String::new(), 0)
    }

    fn open(&self, bytes: &'a [u8], base: usize, prefix: String, depth: usize) -> Part<'a> {
        let decoder = Decoder::new(self.layout, bytes)
            .with_limits(self.limits)
            .with_framer(self.framer);
        Part {
            decoder: match self.with_trace {
                true => decoder.with_trace(),
                false => decoder,
            },
            base,
            prefix,
            depth,
            taken: 0,
            goes_on: true,
        }
    }

    /// Unpacks a part by the given steps.
    pub(super) fn steps(&mut self, part: &mut Part<'a>, steps: &[Step]) -> Result<(), Fault> {
        for step in steps {
            self.step(part, step)?;
        }
        Ok(())
    }

    fn step(&mut self, part: &mut Part<'a>, step: &Step) -> Result<(), Fault> {
        match step {
            Step::One(name, data_type) => self.call(part, name, Some(*data_type)).map(drop),
            Step::Many(name, data_type) => match self.count(part, name)? {
                0 => Ok(()),
                _ => self.call(part, name, Some(*data_type)).map(drop),
            },
            Step::Each(name, data_type) => {
                for _ in 0..self.count(part, name)? {
                    self.call(part, name, Some(*data_type))?;
                }
                Ok(())
            }
            Step::Packed(name, data_type, steps) => {
                let data = self.call(part, name, Some(*data_type))?;
                match data {
                    DataArray::Buffer(items) | DataArray::ByteObject(items) => {
                        self.packed(part, name, items.first(), steps)
                    }
                    _ => Ok(()),
                }
            }
            Step::If(steps) if part.goes_on => self.steps(part, steps),
            Step::Maybe(steps) if !part.decoder.is_empty() => self.steps(part, steps),
            Step::If(_) | Step::Maybe(_) => Ok(()),
            Step::Rest(steps) => {
                while !part.decoder.is_empty() {
                    self.steps(part, steps)?;
                }
                Ok(())
            }
        }
    }

    /// Unpacks the calls of a described buffer, whose types are in the buffer.
    pub(super) fn described(&mut self, part: &mut Part<'a>) -> Result<(), Fault> {
        while !part.decoder.is_empty() {
            self.call(part, "data", None)?;
        }
        Ok(())
    }

    /// Checks that a part ends here.
    pub(super) fn finish(&self, part: &Part<'a>) -> Result<(), Fault> {
        part.decoder.finish().map_err(|e| part.fault(&e))
    }

    fn count(&mut self, part: &mut Part<'a>, name: &str) -> Result<u64, Fault> {
        let name = format!("number of {name}");
        match self.call(part, &name, Some(DataType::SIZE))? {
            DataArray::Size(sizes) => Ok(sizes.first().copied().unwrap_or_default()),
            _ => Ok(0),
        }
    }

    /// Unpacks one call.
    pub(super) fn call(
        &mut self,
        part: &mut Part<'a>,
        name: &str,
        data_type: Option<DataType>,
    ) -> Result<DataArray<'a>, Fault> {
        let offset = part.offset();
        // Fields are named as in a program.
        let name = format!("{}{}", part.prefix, name.replace('_', " "));
        self.titles.push(Title {
            offset,
            notes: self.notes.len(),
            text: name.clone(),
        });
        let result = match data_type {
            Some(data_type) => part.decoder.array(data_type),
            None => part.decoder.described(),
        };
        self.take_notes(part);
        let data = result.map_err(|e| part.fault(&e))?;
        self.calls.push(Call {
            offset,
            name,
            data_type: data.data_type(),
            list: wire::print_json(&data).unwrap_or_default(),
        });
        match &data {
            DataArray::Status(items) => part.goes_on = items.iter().all(|s| s.is_success()),
            DataArray::Bool(items) => part.goes_on = items.iter().all(|flag| *flag),
            DataArray::Kval(items) => {
                if let [kval] = items.as_slice()
                    && let Value::ByteObject(bytes) = &kval.value
                    && let Some(key) = kval.key.as_text().as_str()
                    && let Some(steps) = blob(key)
                {
                    self.packed(part, key, Some(bytes), &steps)?;
                }
            }
            _ => {}
        }
        Ok(data)
    }

    /// Unpacks a buffer that is the last datum of the previous call.
    fn packed(
        &mut self,
        part: &Part<'a>,
        name: &str,
        bytes: Option<&Cow<'a, [u8]>>,
        steps: &[Step],
    ) -> Result<(), Fault> {
        let Some(Cow::Borrowed(bytes)) = bytes else {
            return Ok(());
        };
        if part.depth >= MAX_DEPTH {
            return Ok(());
        }
        let base = part.offset().saturating_sub(bytes.len());
        let prefix = format!("{}{name} > ", part.prefix);
        let mut inner = self.open(bytes, base, prefix, part.depth + 1);
        self.steps(&mut inner, steps)?;
        self.finish(&inner)
    }

    fn take_notes(&mut self, part: &mut Part<'a>) {
        let notes = part
            .decoder
            .trace()
            .map(FieldTrace::as_slice)
            .unwrap_or_default();
        let new = notes.get(part.taken..).unwrap_or_default();
        self.notes.extend(new.iter().map(|note| TracedField {
            range: part.base + note.range.start..part.base + note.range.end,
            ..note.clone()
        }));
        part.taken = notes.len();
    }
}

impl Part<'_> {
    /// Returns the number of payload bytes read.
    pub(super) fn offset(&self) -> usize {
        self.base + self.decoder.offset()
    }

    fn fault(&self, error: &Error) -> Fault {
        Fault {
            status: error.status(),
            offset: self.base + error.offset().unwrap_or_default(),
            message: error.message().to_owned(),
        }
    }
}

/// Returns the command with this name, in upper or lower case, or number.
pub(super) fn named(text: &str) -> Option<Command> {
    let is_named =
        |command: &&Command| command.name().is_some_and(|n| n.eq_ignore_ascii_case(text));
    let found = Command::ALL.iter().find(is_named).copied();
    found.or_else(|| Some(Command(text.parse().ok()?)).filter(|command| command.name().is_some()))
}

/// Returns the names of all commands, for messages.
pub(super) fn names() -> String {
    let names = Command::ALL.iter().filter_map(|command| command.name());
    names.collect::<Vec<_>>().join(", ")
}

/// Returns the parts of the value of this key, if it is a packed buffer itself.
pub(super) fn blob(key: &str) -> Option<Vec<Step>> {
    let first = match key {
        pmix_types::keys::PROC_BLOB => Step::One("rank", DataType::PROC_RANK),
        pmix_types::keys::MAP_BLOB => Step::One("nodes", DataType::SIZE),
        _ => return None,
    };
    let kvals = Step::Rest(vec![Step::One("kval", DataType::KVAL)]);
    Some(vec![first, kvals])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_by_number_and_by_name() {
        assert_eq!(named("getnb"), Some(Command::GETNB));
        assert_eq!(named("4"), Some(Command::GETNB));
        assert_eq!((named("40"), named("x")), (None, None));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encoding with a loaded component. A value that does not decode to the same list is not used.

use pmix_mca::abi::Transform;

use super::Dynamic;
use super::fault::Fault;
use super::module::Answer;
use crate::{ProcMap, Scheme};

/// The kind of map to encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Nodes,
    Procs,
    Regex,
}

impl Form {
    pub(crate) fn generator(self) -> &'static str {
        match self {
            Self::Nodes => "generate_node_regex",
            Self::Procs => "generate_ppn",
            Self::Regex => "generate_regex",
        }
    }
}

impl Dynamic {
    /// Encodes a list and verifies the value. A fault is returned without being reported.
    pub(crate) fn try_generate(&self, form: Form, list: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let operations = self.module.operations();
        let slot = match form {
            Form::Nodes => operations.generate_node_regex,
            Form::Procs => operations.generate_ppn,
            Form::Regex => operations.generate_regex.filter(|_| self.kind().is_some()),
        };
        // Without a valid process map, the result could not be verified.
        let map = match form {
            Form::Procs if slot.is_some() => match ProcMap::parse_text(list, &self.limits) {
                Ok(map) => Some(map),
                Err(_) => return Ok(None),
            },
            _ => None,
        };
        let bound = len_u64(list).saturating_mul(4).saturating_add(1 << 16);
        let value = match self.module.transform(slot, list, bound, &self.limits) {
            Answer::Done(value) => value,
            Answer::Declined => return Ok(None),
            Answer::Failed(status, text, _) => return Err(Fault::EncoderFailed(status, text)),
            Answer::Broken(fault) => return Err(fault),
        };
        match map {
            Some(map) => self.verify_procs(&map, &value)?,
            None if form == Form::Regex => {
                self.verify_text(operations.parse_regex, list, &value)?
            }
            None => {
                self.verify_frame(&value)?;
                self.verify_text(operations.parse_nodes, list, &value)?;
            }
        }
        Ok(Some(value))
    }

    /// Checks that a value begins with the tag, and that the component reports the value's length
    /// as its extent.
    fn verify_frame(&self, value: &[u8]) -> Result<(), Fault> {
        if !value.starts_with(&self.loaded.tag) {
            return Err(Fault::WrongTag);
        }
        let extent = self
            .extent(value)
            .map_err(|e| e.into_fault(Fault::Undecodable))?;
        let Some(extent) = extent else {
            let why = "its own legacy_len declines it";
            return Err(Fault::Undecodable(why.to_owned()));
        };
        let says = extent.len;
        if says != value.len() {
            return Err(Fault::WrongExtent {
                says,
                has: value.len(),
            });
        }
        Ok(())
    }

    /// Checks that a value decodes to the list, byte for byte.
    fn verify_text(&self, slot: Option<Transform>, list: &[u8], value: &[u8]) -> Result<(), Fault> {
        let bound = len_u64(list).saturating_add(1 << 16);
        match self.decode(slot, value, bound) {
            Ok(Some(text)) if text == list => Ok(()),
            Ok(Some(text)) => Err(Fault::OtherList(difference(list, &text))),
            Ok(None) => Err(Fault::Undecodable("its own decoder declines it".to_owned())),
            Err(e) => Err(e.into_fault(Fault::Undecodable)),
        }
    }

    /// Checks that a value decodes to the same ranks on each node. The text may differ.
    fn verify_procs(&self, map: &ProcMap, value: &[u8]) -> Result<(), Fault> {
        self.verify_frame(value)?;
        let slot = self.module.operations().parse_procs;
        let text = match self.decode(slot, value, self.limits.max_text) {
            Ok(Some(text)) => text,
            Ok(None) => return Err(Fault::Undecodable("its own decoder declines it".to_owned())),
            Err(e) => return Err(e.into_fault(Fault::Undecodable)),
        };
        let found = ProcMap::parse_text(&text, &self.limits)
            .map_err(|e| Fault::Undecodable(e.to_string()))?;
        if found == *map {
            return Ok(());
        }
        let nodes = [map.num_nodes(), found.num_nodes()];
        let ranks = [map.num_ranks(), found.num_ranks()];
        Err(Fault::OtherList(format!(
            "{} ranks on {} nodes became {} ranks on {} nodes{}",
            ranks[0],
            nodes[0],
            ranks[1],
            nodes[1],
            if ranks[0] == ranks[1] {
                " in other positions"
            } else {
                ""
            }
        )))
    }
}

/// Describes the first difference between two lists, for a message.
fn difference(list: &[u8], found: &[u8]) -> String {
    let same = list.iter().zip(found).take_while(|(a, b)| a == b).count();
    let start = list[..same]
        .iter()
        .rposition(|b| *b == b',')
        .map_or(0, |at| at + 1);
    let shown = |text: &[u8]| {
        let rest = text.get(start..).unwrap_or_default();
        let name = rest.split(|b| *b == b',').next().unwrap_or_default();
        String::from_utf8_lossy(&name[..name.len().min(40)]).into_owned()
    };
    format!(
        "{:?} became {:?} at byte {start}",
        shown(list),
        shown(found)
    )
}

fn len_u64(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

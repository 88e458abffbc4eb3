// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of one type in both directions under one configuration.

use std::collections::BTreeMap;

use bfrops::{Decoder, Encoder, Layout};
use pmix_builtin::open_preg;
use pmix_mca::Params;
use pmix_random::{Carried, Random, Seeded};
use pmix_types::json::List;
use pmix_types::{DataArray, DataType};
use preg_core::Preg;

use super::abilities::{Ability, Place};
use super::peer::{Config, is_mislabelled, is_unsent};
use crate::harness::{Harness, from_hex, hex};
use crate::tally::Tally;

/// Configurations that are checked one after the other.
pub(crate) struct Side<'a> {
    configs: &'a [Config],
    seed: u64,
    quota: &'a BTreeMap<Family, usize>,
    tally: Tally,
}

/// The parameters of the checks of one type in one direction.
struct Cell<'a> {
    config: &'a Config,
    data_type: DataType,
    preg: &'a Preg,
    /// The number of data and their seed.
    data: usize,
    seed: u64,
}

impl<'a> Side<'a> {
    /// Returns the checks of these configurations.
    pub(crate) fn new(
        configs: &'a [Config],
        seed: u64,
        quota: &'a BTreeMap<Family, usize>,
    ) -> Self {
        Self {
            configs,
            seed,
            quota,
            tally: Tally::default(),
        }
    }

    /// Checks every type in both directions.
    pub(crate) fn run(mut self) -> Tally {
        let preg = match open_preg(&Params::default()) {
            Ok(preg) => preg,
            Err(why) => {
                self.tally.fail("bfrops", &why.to_string());
                return self.tally;
            }
        };
        for config in self.configs {
            let Ok(mut harness) = config.harness.lock() else {
                self.tally.fail("bfrops", "a peer is in use elsewhere");
                continue;
            };
            for ability in &config.abilities {
                self.refusals(config, ability, &preg);
                let family = Family::of(ability.data_type);
                let number = ability.data_type.as_raw();
                let cell = Cell {
                    config,
                    data_type: ability.data_type,
                    preg: &preg,
                    data: self.quota.get(&family).copied().unwrap_or(1),
                    seed: self.seed ^ u64::from(number) << 32,
                };
                let is_sent = !is_unsent(config.layout, ability.data_type);
                if ability.top.pack.is_success() && is_sent {
                    self.theirs_to_ours(&cell, &mut harness);
                }
                if ability.top.is_whole() {
                    self.ours_to_theirs(&cell, &mut harness);
                }
            }
        }
        self.tally
    }

    /// Checks that we refuse each type that the library refuses, with the same status.
    fn refusals(&mut self, config: &Config, ability: &Ability, preg: &Preg) {
        let data_type = ability.data_type;
        let only = |types: &[DataType], elements: &[DataType]| Carried {
            values: types.to_vec(),
            elements: elements.to_vec(),
            ..config.carried.clone()
        };
        let (in_value, in_array) = (only(&[data_type], &[]), only(&[], &[data_type]));
        let places: [(&str, Place, DataType, &Carried); 3] = [
            ("in a call", ability.top, data_type, &config.carried),
            ("in a value", ability.value, DataType::VALUE, &in_value),
            (
                "in an array",
                ability.array,
                DataType::DATA_ARRAY,
                &in_array,
            ),
        ];
        for (place, at, outer, carried) in places.into_iter().filter(|p| p.1.is_refused()) {
            let mut source = Seeded::new(self.seed);
            let data = Random::new(&mut source, carried).data(outer, 1);
            let row = format!("bfrops refusals, {}", config.release);
            match pack(config.layout, preg, &data) {
                Err((status, _)) if status == at.pack.as_raw() => self.tally.pass(&row),
                other => {
                    let found = other.map_or_else(|(status, _)| status, |_| 0);
                    let title = config.title();
                    let expected = at.pack.as_raw();
                    let why = format!("{title}: {data_type} {place}: {found}, not {expected}");
                    self.tally.fail(&row, &why);
                }
            }
        }
    }

    fn theirs_to_ours(&mut self, cell: &Cell<'_>, harness: &mut Harness) {
        let row = cell.row("to ours");
        let lines = cell.data.div_ceil(cell.mean());
        let request = format!("generate {} {} {lines}\n", cell.data_type, cell.seed);
        let answers = harness.batch(vec![request], lines).unwrap_or_default();
        for answer in &answers {
            match cell.unpacks(answer) {
                Ok(count) => self.tally.passes(&row, count),
                Err(why) => self.tally.fail(&row, &cell.failure(&why)),
            }
            if is_mislabelled(cell.config.layout, cell.data_type) {
                self.tally
                    .leave_out(&row, "repacking what the library does not read itself");
            }
        }
        if answers.len() < lines {
            let why = format!("the library ended after {} of {lines} calls", answers.len());
            self.tally.fail(&row, &cell.failure(&why));
        }
    }

    fn ours_to_theirs(&mut self, cell: &Cell<'_>, harness: &mut Harness) {
        let row = cell.row("from ours");
        let mut source = Seeded::new(cell.seed);
        let (mut requests, mut sent) = (Vec::new(), Vec::new());
        let mut made = 0;
        while made < cell.data {
            let mut random = Random::new(&mut source, &cell.config.carried);
            let count = 1 + random.below(cell.config.most(cell.data_type.as_raw()));
            let data = random.data(cell.data_type, count);
            made += count;
            match pack(cell.config.layout, cell.preg, &data) {
                Ok(bytes) => {
                    let digits = hex(&bytes);
                    requests.push(format!("unpack {} {count} {digits}\n", cell.data_type));
                    sent.push((count, digits, json(&data)));
                }
                Err((_, why)) => self.tally.fail(&row, &cell.failure(&why)),
            }
        }
        let answers = harness.batch(requests, sent.len()).unwrap_or_default();
        for (answer, (count, digits, json)) in answers.iter().zip(&sent) {
            match same(answer, digits, json) {
                Ok(true) => self.tally.passes(&row, *count),
                // Everything was compared except packing: the library reads this type and cannot pack it.
                Ok(false) => {
                    self.tally.passes(&row, *count);
                    self.tally
                        .leave_out(&row, "repacking what the library cannot pack");
                }
                Err(why) => self.tally.fail(&row, &cell.failure(&why)),
            }
        }
        if answers.len() < sent.len() {
            let (_, digits, json) = &sent[answers.len()];
            let why = format!("the library ended on {digits:.300} {json:.300}");
            self.tally.fail(&row, &cell.failure(&why));
        }
    }
}

impl Cell<'_> {
    fn row(&self, direction: &str) -> String {
        let family = Family::of(self.data_type).name();
        format!("bfrops {family}, {} {direction}", self.config.release)
    }

    fn failure(&self, why: &str) -> String {
        format!("{} {}: {why}", self.config.title(), self.data_type)
    }

    /// Returns the mean number of data per call.
    fn mean(&self) -> usize {
        self.config.most(self.data_type.as_raw()).div_ceil(2)
    }

    /// Unpacks data that the library packed and packs them again. Returns the number of data.
    fn unpacks(&self, answer: &str) -> Result<usize, String> {
        let mut words = answer.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (status, count, digits, theirs) = (word(), word(), word(), word());
        if status != "0" {
            return Err(format!(
                "the library packs {theirs:.300} with status {status}"
            ));
        }
        let bytes = from_hex(digits).ok_or_else(|| format!("no hex: {digits:.80}"))?;
        let layout = self.config.layout;
        let mut decoder = Decoder::new(layout, &bytes).with_framer(self.preg);
        let data = decoder.array(self.data_type);
        let data = data.map_err(|e| format!("{e}: {digits:.300} {theirs:.300}"))?;
        decoder
            .finish()
            .map_err(|e| format!("{e}: {digits:.300}"))?;
        let ours = json(&data);
        if !agree(&ours, theirs) {
            return Err(format!(
                "{digits:.300} is {theirs:.300}, we read {ours:.300}"
            ));
        }
        let again = pack(layout, self.preg, &data).map_err(|(_, why)| why)?;
        if again != bytes && !is_mislabelled(layout, self.data_type) {
            let again = hex(&again);
            return Err(format!(
                "{theirs:.300} is {digits:.300}, we pack {again:.300}"
            ));
        }
        count.parse().map_err(|_| format!("no count: {count:.80}"))
    }
}

/// Packs one call. Returns the status and the reason if we refuse it.
fn pack(layout: Layout, preg: &Preg, data: &DataArray<'_>) -> Result<Vec<u8>, (i32, String)> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(layout, &mut bytes).with_framer(preg);
    match encoder.array(data) {
        Ok(()) => Ok(bytes),
        Err(e) => Err((e.status().as_raw(), format!("we do not pack it: {e}"))),
    }
}

fn json(data: &DataArray<'_>) -> String {
    serde_json::to_string(&List(data)).unwrap_or_default()
}

/// Returns `true` if two texts are the same JSON.
fn agree(ours: &str, theirs: &str) -> bool {
    let parsed = |text| serde_json::from_str::<serde_json::Value>(text).ok();
    ours == theirs || parsed(ours).is_some_and(|ours| Some(ours) == parsed(theirs))
}

/// Returns `true` if the library unpacked our data, left no bytes over and packed the same bytes. Returns `false` if
/// the library cannot pack the data that it read, as with processors.
fn same(answer: &str, digits: &str, ours: &str) -> Result<bool, String> {
    let mut words = answer.splitn(5, ' ');
    let mut word = || words.next().unwrap_or_default();
    let (status, left, repack, again, theirs) = (word(), word(), word(), word(), word());
    if status != "0" || left != "0" {
        let found = format!("status {status}, {left} bytes left");
        return Err(format!("{found}: {digits:.300} {ours:.300}"));
    }
    if !agree(ours, theirs) {
        return Err(format!(
            "{digits:.300} is {ours:.300}, they read {theirs:.300}"
        ));
    }
    if repack == "-1" && ours.contains(r#""bitmap":""#) {
        return Ok(false);
    }
    if again != digits {
        return Err(format!(
            "{ours:.300} is {digits:.300}, they pack {again:.300}"
        ));
    }
    Ok(true)
}

/// A family of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    Integers,
    SmallEnums,
    Text,
    Bytes,
    Floats,
    Procs,
    Values,
    Arrays,
    Fabric,
    Applications,
    Statistics,
}

impl Family {
    /// Returns the family of a type.
    pub(crate) fn of(data_type: DataType) -> Self {
        match data_type.as_raw() {
            1 | 4..=15 | 20 | 35 | 36 | 40 | 57 | 66..=69 => Self::Integers,
            2 | 30..=34 | 37 | 43 | 45 | 50 | 51 | 58 => Self::SmallEnums,
            3 | 46 | 49 => Self::Text,
            26 | 27 | 42 | 59 | 65 => Self::Bytes,
            16..=19 => Self::Floats,
            22 | 38 | 60 => Self::Procs,
            21 | 24 | 28 => Self::Values,
            39 => Self::Arrays,
            47 | 52..=56 => Self::Fabric,
            61..=64 => Self::Statistics,
            _ => Self::Applications,
        }
    }

    /// Returns the name in the report.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Integers => "integers",
            Self::SmallEnums => "small enums",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Floats => "floats and time",
            Self::Procs => "processes",
            Self::Values => "values and infos",
            Self::Arrays => "arrays",
            Self::Fabric => "fabric",
            Self::Applications => "apps and queries",
            Self::Statistics => "statistics",
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types that are not checked, with the reason, which the report lists.

use std::collections::BTreeMap;

use bfrops::{BufferKind, Layout, Module};
use pmix_types::{DataType, Status};

use super::abilities::Place;
use super::peer::Config;
use crate::tally::Tally;

/// Types that the peer program does not support for any release or module.
const UNKNOWN: [(&str, &str); 3] = [
    ("PMIX_BUFFER", "it has no public C type"),
    ("PMIX_KVAL", "it has no public C type"),
    ("PMIX_TOPO", "it is text of the hwloc library at hand"),
];

/// Returns `true` if a module packs the number of data of this type but not the data.
pub(crate) fn is_unsent(layout: Layout, data_type: DataType) -> bool {
    let unsent = [
        DataType::POINTER,
        DataType::INFO_DIRECTIVES,
        DataType::PROC_STATE,
    ];
    layout.module == Module::V12 && unsent.contains(&data_type)
}

/// Returns `true` if the library labels the type wrongly when it packs, and we pack the label that it reads: processes
/// in a described buffer of module v12.
pub(crate) fn is_mislabelled(layout: Layout, data_type: DataType) -> bool {
    layout.module == Module::V12
        && layout.buffer == BufferKind::Described
        && data_type == DataType::PROC
}

/// The combinations left out, by type, place and reason, with the modules concerned.
#[derive(Default)]
pub(crate) struct LeftOut {
    found: BTreeMap<(String, &'static str, i32, String), Vec<String>>,
}

impl LeftOut {
    /// Records the types that a configuration packs and does not read back unchanged.
    pub(crate) fn note(&mut self, config: &Config) {
        for ability in &config.abilities {
            let places = [
                ("in a call", ability.top),
                ("in a value", ability.value),
                ("in an array", ability.array),
            ];
            for (place, at) in places.into_iter().filter(|(_, at)| at.is_one_way()) {
                self.add(config, ability.data_type, place, at);
            }
        }
    }

    fn add(&mut self, config: &Config, data_type: DataType, place: &'static str, at: Place) {
        let release = config.release.clone();
        let key = (data_type.to_string(), place, at.unpack.as_raw(), release);
        let title = config.title();
        let module = title.split_once(' ').map_or(title.as_str(), |(_, m)| m);
        self.found.entry(key).or_default().push(module.to_owned());
    }

    /// Prints a line for each combination and counts them.
    pub(crate) fn print(self, tally: &mut Tally) {
        const ROW: &str = "bfrops left out";
        println!("\nleft out, because the library does not read what it packs itself:");
        for ((data_type, place, status, release), modules) in self.found {
            let why = match Status::from_raw(status) {
                Status::ERR_PACK_MISMATCH => "it reads something else".to_owned(),
                status => format!("unpacking gives {status}"),
            };
            println!(
                "  {data_type} {place}: {why} ({release}: {})",
                modules.join(", ")
            );
            tally.leave_out(ROW, "the library does not read what it packs itself");
        }
        println!("left out, because the peer program cannot make them:");
        for (data_type, why) in UNKNOWN {
            println!("  {data_type}: {why}");
            tally.leave_out(ROW, "the peer program cannot make them");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A peer program of one release with one module and buffer type.

use std::collections::BTreeMap;
use std::path::Path;

use bfrops::{BufferKind, Layout, Module};
use pmix_random::Carried;
use pmix_types::{DataType, Status};

use super::abilities::{self, Ability, Place};
use crate::harness::Harness;
use crate::peers::Peer;
use crate::tally::Tally;

/// A peer program that packs in one layout.
pub(crate) struct Speaker {
    harness: Harness,
    release: String,
    layout: Layout,
    has_blobs: bool,
}

impl Speaker {
    /// Starts the program of a release with a layout.
    ///
    /// # Errors
    /// Returns a message if it does not start.
    pub(crate) fn start(peer: &Peer, layout: Layout) -> Result<Self, String> {
        let mut harness = harness(&peer.bfrops, layout);
        harness.ask("version")?;
        Ok(Self {
            harness,
            release: peer.version.clone(),
            layout,
            has_blobs: peer.reads_blob,
        })
    }

    /// Asks the program which types it carries.
    ///
    /// # Errors
    /// Returns a message if it does not answer.
    pub(crate) fn configure(mut self) -> Result<Config, String> {
        let abilities = abilities::parse(&self.harness.ask("types")?)?;
        let is_v12 = self.layout.module == Module::V12;
        Ok(Config {
            carried: abilities::carried(&abilities, is_v12, maps(self.has_blobs)),
            abilities,
            release: self.release,
            layout: self.layout,
            harness: std::sync::Mutex::new(self.harness),
        })
    }
}

/// Returns the program with the environment that selects a layout.
pub(crate) fn harness(program: &Path, layout: Layout) -> Harness {
    let kind = layout.buffer.as_raw().to_string();
    let harness = Harness::new(program)
        .with("bfrops", layout.module.name())
        .with("bfrops_base_default_type", &kind);
    if layout.integers == layout.module.integers() {
        return harness;
    }
    harness.with("psquash", "native")
}

/// Returns encoded maps: tagged text, and the compressed form if the release carries it whole.
fn maps(has_blobs: bool) -> Vec<Vec<u8>> {
    let texts = [
        "pmix[n[3:1-128]]",
        "pmix[0-3;4-7]",
        "raw:n1,n2",
        "raw:0,1;2,3",
    ];
    let mut maps: Vec<Vec<u8>> = texts.map(|text| text.as_bytes().to_vec()).into();
    if has_blobs {
        for len in [0, 1, 9, 40] {
            let frame = format!("blob:\0component=zlib:\0size={len}:\0");
            maps.push([frame.as_bytes(), &[0xA5, 0, 0xFF, 7].repeat(10)[..len]].concat());
        }
    }
    maps
}

/// A peer program and the types that it carries.
pub(crate) struct Config {
    pub(crate) release: String,
    pub(crate) layout: Layout,
    pub(crate) abilities: Vec<Ability>,
    pub(crate) carried: Carried,
    pub(crate) harness: std::sync::Mutex<Harness>,
}

impl Config {
    /// Returns the name of the configuration in failures.
    pub(crate) fn title(&self) -> String {
        let kind = match self.layout.buffer {
            BufferKind::NonDescribed => "",
            BufferKind::Described => " described",
        };
        let width = if self.layout.integers == self.layout.module.integers() {
            ""
        } else {
            " native"
        };
        format!("{} {}{width}{kind}", self.release, self.layout.module)
    }

    /// Returns the maximum number of data in a call of this type. Some modules read one-byte
    /// numbers as wider ones, so only a single one is read correctly.
    pub(crate) fn most(&self, number: u16) -> usize {
        let wide: &[u16] = match self.layout.module {
            Module::V12 => &[30, 32, 33, 34, 36],
            Module::V20 => &[34],
            _ => &[],
        };
        if wide.contains(&number) { 1 } else { 8 }
    }
}

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

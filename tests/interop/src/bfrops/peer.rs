// SPDX-License-Identifier: MIT OR Apache-2.0
//! A peer program of one release with one module and buffer type.

use std::path::Path;

use bfrops::{BufferKind, Layout, Module};
use pmix_random::Carried;

use super::abilities::{self, Ability};
use crate::harness::Harness;
use crate::peers::Peer;

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

    /// Returns the most data that a call of this type may have. Some modules read one-byte numbers as wider ones, so
    /// only a single one is read correctly.
    pub(crate) fn most(&self, number: u16) -> usize {
        let wide: &[u16] = match self.layout.module {
            Module::V12 => &[30, 32, 33, 34, 36],
            Module::V20 => &[34],
            _ => &[],
        };
        if wide.contains(&number) { 1 } else { 8 }
    }
}

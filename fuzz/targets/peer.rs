// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packed data compared with an installed PMIx library.
//!
//! A real library crashes on arbitrary bytes, so it does not unpack the fuzzer's input. The input selects a layout, a
//! type and the data, which our side packs. The library must unpack the same data and pack the same bytes again. It
//! runs in the peer program of the interop checks at the end of a pipe (`FUZZ_PEER`), so it can neither hang nor
//! corrupt the fuzzer.
#![allow(
    clippy::disallowed_methods,
    reason = "the environment selects the peer"
)]

// The interop checks of the library use the rest of both modules.
#[allow(dead_code, unreachable_pub)]
#[path = "../../tests/interop/src/bfrops/abilities.rs"]
mod abilities;
#[allow(dead_code, unreachable_pub)]
#[path = "../../tests/interop/src/harness.rs"]
mod harness;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use bfrops::{BufferKind, Encoder, Integers, Layout, Module};
use pmix_random::{Bytes, Carried, Random};
use pmix_types::DataType;
use pmix_types::json::List;

use harness::{Harness, hex};

/// The modules that every release since 4.1 has.
const MODULES: [Module; 6] = [
    Module::V12,
    Module::V20,
    Module::V21,
    Module::V3,
    Module::V4,
    Module::V41,
];

/// The library in one layout.
struct Peer {
    harness: Harness,
    layout: Layout,
    /// The types that the library returns unchanged.
    types: Vec<DataType>,
    carried: Carried,
}

impl Peer {
    fn start(program: &Path, layout: Layout) -> Self {
        let kind = layout.buffer.as_raw().to_string();
        let mut harness = Harness::new(program)
            .with("bfrops", layout.module.name())
            .with("bfrops_base_default_type", &kind);
        if layout.integers != layout.module.integers() {
            harness = harness.with("psquash", "native");
        }
        let answer = harness.ask("types").expect("the peer says what it carries");
        let abilities = abilities::parse(&answer).expect("the peer speaks our language");
        let maps = [&b"pmix[n[3:1-128]]"[..], b"raw:n1,n2"];
        let is_v12 = layout.module == Module::V12;
        let whole = abilities.iter().filter(|a| a.top.is_whole());
        Self {
            types: whole.map(|a| a.data_type).collect(),
            carried: abilities::carried(&abilities, is_v12, maps.map(<[u8]>::to_vec).into()),
            layout,
            harness,
        }
    }

    fn check(&mut self, choice: u8, source: &[u8]) {
        let Some(data_type) = self
            .types
            .get(usize::from(choice) % self.types.len().max(1))
        else {
            return;
        };
        let mut source = Bytes::new(source);
        let mut random = Random::new(&mut source, &self.carried);
        let count = 1 + random.below(most(self.layout.module, *data_type));
        let data = random.data(*data_type, count);
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(self.layout, &mut bytes).with_framer(super::preg());
        encoder
            .array(&data)
            .expect("what the library carries, we pack");
        let digits = hex(&bytes);
        let answer = self
            .harness
            .ask(&format!("unpack {data_type} {count} {digits}"));
        let answer = answer.expect("the library survives what we pack");
        let ours = serde_json::to_string(&List(&data)).expect("data have a JSON form");
        let words: Vec<&str> = answer.splitn(5, ' ').collect();
        let [status, left, repacked, again, theirs] = words[..] else {
            panic!("the peer answered {answer:?}");
        };
        assert_eq!((status, left), ("0", "0"), "{data_type} {digits}");
        assert_eq!(theirs, ours, "{data_type} {digits}");
        // No release packs a processor set that is not empty.
        let processors = repacked == "-1" && ours.contains(r#""bitmap":""#);
        assert!(
            processors || again == digits,
            "{data_type} {digits} {again}"
        );
    }
}

/// Returns the maximum number of data in a call. Two modules read some one-byte numbers as wider
/// ones.
fn most(module: Module, data_type: DataType) -> usize {
    let wide: &[u16] = match module {
        Module::V12 => &[30, 32, 33, 34, 36],
        Module::V20 => &[34],
        _ => &[],
    };
    if wide.contains(&data_type.as_raw()) {
        1
    } else {
        8
    }
}

/// Selects the layout by the first byte and the type by the second, and generates the data from the others. A replay
/// without a library compares nothing; `cargo xtask fuzz` does not run the target without one.
pub(crate) fn differential(data: &[u8]) {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    static PEERS: OnceLock<Mutex<BTreeMap<u8, Peer>>> = OnceLock::new();
    let [choice, data_type, source @ ..] = data else {
        return;
    };
    let program = PROGRAM.get_or_init(|| std::env::var_os("FUZZ_PEER").map(PathBuf::from));
    let Some(program) = program else {
        return;
    };
    let choice = choice % 16;
    let (module, described, fixed) = match choice {
        12.. => (Module::V41, choice % 2 == 1, true),
        _ => (MODULES[usize::from(choice / 2)], choice % 2 == 1, false),
    };
    let mut layout = Layout::new(module);
    if described {
        layout = layout.with_buffer(BufferKind::Described);
    }
    if fixed {
        layout = layout.with_integers(Integers::Fixed);
    }
    let peers = PEERS.get_or_init(Mutex::default);
    let mut peers = peers
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let peer = peers
        .entry(choice)
        .or_insert_with(|| Peer::start(program, layout));
    peer.check(*data_type, source);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data that every program packs and unpacks.

use std::path::{Path, PathBuf};

use bfrops::{Encoder, Layout, Module};
use pmix_random::{Seeded, Source};
use pmix_types::{DataArray, Info, Proc, Rank, Value};

/// One kind of data. One file contains a single call with all data, another file contains a call
/// for each datum.
pub(crate) struct Input {
    /// The name in the table.
    pub(crate) name: &'static str,
    /// The name of the type, the same in every program.
    pub(crate) data_type: &'static str,
    /// The number of data in the one call.
    pub(crate) bulk: usize,
    /// The number of calls with one datum.
    pub(crate) singles: usize,
    dir: PathBuf,
}

/// The number of data in a bulk call.
const BULK: usize = 100_000;

/// The number of calls with one datum.
const SINGLES: usize = 10_000;

impl Input {
    /// Returns the path of the file with the one call.
    pub(crate) fn bulk_file(&self) -> PathBuf {
        self.dir.join(format!("{}-bulk", self.name))
    }

    /// Returns the path of the file with a call for each datum.
    pub(crate) fn singles_file(&self) -> PathBuf {
        self.dir.join(format!("{}-singles", self.name))
    }

    /// Returns the number of data in the counted call, which is smaller because counting is slow.
    pub(crate) const fn counted(&self) -> usize {
        self.bulk / 20
    }

    /// Returns the path of the file with the counted call.
    pub(crate) fn counted_file(&self) -> PathBuf {
        self.dir.join(format!("{}-counted", self.name))
    }

    fn write(&self) -> Result<(), String> {
        // The number of calls and the number of data in each.
        let message = |calls: usize, len: usize| {
            let mut message = Vec::new();
            let mut encoder = Encoder::new(Layout::new(Module::V41), &mut message);
            for call in 0..calls {
                let data = data(self.name, call, len);
                encoder.array(&data).map_err(|e| e.to_string())?;
            }
            Ok::<_, String>(message)
        };
        let write = |file: &Path, message: Result<Vec<u8>, String>| {
            std::fs::write(file, message?).map_err(|e| format!("{}: {e}", file.display()))
        };
        write(&self.bulk_file(), message(1, self.bulk))?;
        write(&self.counted_file(), message(1, self.counted()))?;
        write(&self.singles_file(), message(self.singles, 1))
    }
}

/// Writes every input.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub(crate) fn write(dir: &Path) -> Result<Vec<Input>, String> {
    let input = |name, data_type, bulk| Input {
        name,
        data_type,
        bulk,
        singles: SINGLES.min(bulk),
        dir: dir.to_path_buf(),
    };
    let inputs = vec![
        input("uint32", "PMIX_UINT32", BULK),
        input("int64", "PMIX_INT64", BULK),
        input("string", "PMIX_STRING", BULK),
        input("proc", "PMIX_PROC", BULK),
        input("value", "PMIX_VALUE", BULK),
        input("info", "PMIX_INFO", BULK),
        input("nested", "PMIX_VALUE", BULK / 50),
    ];
    for input in &inputs {
        input.write()?;
    }
    Ok(inputs)
}

/// Returns `count` data. Another `first` gives other data.
fn data(name: &str, first: usize, len: usize) -> DataArray<'static> {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut source = Seeded::new(number(first).into());
    let all = number(first)..number(first + len);
    match name {
        "uint32" => {
            let number = |_| u32::try_from(source.take(4)).unwrap_or_default();
            DataArray::Uint32(all.map(number).collect())
        }
        "int64" => {
            let number = |_| i64::from_le_bytes(source.take(8).to_le_bytes());
            DataArray::Int64(all.map(number).collect())
        }
        "string" => DataArray::String(all.map(|i| Some(host(i).into())).collect()),
        "proc" => {
            let proc = |i| Proc::new("prterun-host-1234@1", Rank::from_raw(i));
            DataArray::Proc(all.map(proc).collect())
        }
        "value" => DataArray::Value(all.map(Value::Uint32).collect()),
        "info" => DataArray::Info(all.map(info).collect()),
        _ => DataArray::Value(all.map(nested).collect()),
    }
}

/// Returns a name of 19 bytes.
fn host(i: u32) -> String {
    format!("compute-node-{i:06}")
}

/// Returns an info as jobs have them: a string, an integer and a floating-point number in turn.
fn info(i: u32) -> Info<'static> {
    let value = match i % 3 {
        0 => Value::String(Some(format!("node{i:05}").into())),
        1 => Value::Uint32(i),
        _ => Value::Double(f64::from(i) / 8.0),
    };
    Info::new(format!("pmix.bench.{:03}", i % 1000), value)
}

/// Returns infos in arrays in infos: 807 bytes.
fn nested(i: u32) -> Value<'static> {
    let node = |n: u32| {
        let infos = (0..7).map(|k| info(1000 * n + i % 100 + k)).collect();
        let array = Value::DataArray(DataArray::Info(infos));
        Info::new(format!("pmix.node.{n:03}"), array)
    };
    Value::DataArray(DataArray::Info((0..4).map(node).collect()))
}

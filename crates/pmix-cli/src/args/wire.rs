// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands under `pmix wire`.

use std::ffi::OsString;

use bfrops::{BufferKind, Integers, Layout, Limits, Module};
use clap::{Args, Subcommand, ValueEnum};
use pmix_types::DataType;

use crate::wire::Side;

/// Arguments of `pmix wire` itself.
#[derive(Args)]
pub(crate) struct Wire {
    /// Answer requests, one JSON object a line, from standard input.
    #[arg(long, global = true)]
    pub(crate) jsonl: bool,
    #[command(subcommand)]
    pub(crate) command: Option<WireCommand>,
}

/// What to do with packed data.
#[derive(Subcommand)]
pub(crate) enum WireCommand {
    /// Unpack data and print them as JSON, or explain the bytes.
    Decode(WireDecode),
    /// Pack data from JSON.
    Encode(WireEncode),
}

/// How the other side packs.
#[derive(Args)]
pub(crate) struct Peer {
    /// The module the peer speaks: v12, v20, v21, v3, v4, v41, v51 or v61.
    #[arg(long, value_name = "NAME", default_value = "v41", value_parser = module)]
    pub(crate) module: Module,
    /// Whether the buffer says which types it holds.
    #[arg(long, value_enum, value_name = "KIND", default_value_t = BufferArg::Nondescribed)]
    pub(crate) buffer: BufferArg,
    /// How integers are packed, where the module leaves the choice: flex128 or native.
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) psquash: Option<PsquashArg>,
}

impl Peer {
    /// All of it in one.
    pub(crate) fn layout(&self) -> Layout {
        layout(self.module, self.buffer, self.psquash)
    }
}

/// How a peer packs.
pub(crate) fn layout(module: Module, buffer: BufferArg, psquash: Option<PsquashArg>) -> Layout {
    let layout = Layout::new(module).with_buffer(match buffer {
        BufferArg::Described => BufferKind::Described,
        BufferArg::Nondescribed => BufferKind::NonDescribed,
    });
    match psquash {
        None => layout,
        Some(PsquashArg::Flex128) => layout.with_integers(Integers::Flex),
        Some(PsquashArg::Native) => layout.with_integers(Integers::Fixed),
    }
}

/// The kinds of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BufferArg {
    /// A type code stands before each count and before the data.
    Described,
    /// The reader knows what comes.
    Nondescribed,
}

/// The kinds of integers, by the components that write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PsquashArg {
    /// As many bytes as the number needs.
    Flex128,
    /// As many bytes as the type has.
    Native,
}

/// Arguments of `wire decode`.
#[derive(Args)]
pub(crate) struct WireDecode {
    #[command(flatten)]
    pub(crate) peer: Peer,
    /// What a call holds, for example PMIX_INFO or info; once for each call in order. With three
    /// dots behind it (kval...) the last one stands for all calls up to the end.
    #[arg(long = "type", value_name = "TYPE", value_parser = call_type)]
    pub(crate) types: Vec<CallType>,
    /// The bytes in hexadecimal.
    #[arg(long, value_name = "DIGITS", conflicts_with_all = ["file", "raw"])]
    pub(crate) hex: Option<String>,
    /// The input holds the bytes themselves, not hexadecimal digits.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Show every field: offset, bytes, meaning; and where and why the data cannot be read.
    #[arg(long)]
    pub(crate) explain: bool,
    /// How many bytes of memory the data may take for each of their bytes.
    #[arg(long, value_name = "FACTOR", default_value_t = Limits::default().memory_factor)]
    pub(crate) memory: usize,
    /// The bytes are whole messages with their headers; a capture as text is read too.
    #[arg(long, conflicts_with = "types")]
    pub(crate) message: bool,
    /// Who sent the messages, where the input does not say it.
    #[arg(long, value_enum, value_name = "SIDE", default_value_t = Side::Client, requires = "message")]
    pub(crate) from: Side,
    /// The command that a reply answers, where its request is not in the input.
    #[arg(long, value_name = "NAME", requires = "message")]
    pub(crate) command: Option<String>,
    /// A file with the bytes; - or nothing for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<OsString>,
}

/// Arguments of `wire encode`.
#[derive(Args)]
pub(crate) struct WireEncode {
    #[command(flatten)]
    pub(crate) peer: Peer,
    /// The type of the data.
    #[arg(long = "type", value_name = "TYPE", value_parser = data_type)]
    pub(crate) data_type: Option<DataType>,
    /// Print the bytes themselves, not hexadecimal digits.
    #[arg(long)]
    pub(crate) raw: bool,
    /// The data: a JSON list, or one datum; @FILE; - or nothing for standard input.
    #[arg(value_name = "JSON")]
    pub(crate) value: Option<OsString>,
}

impl WireDecode {
    /// What unpacking may cost.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            memory_factor: self.memory,
            ..Limits::default()
        }
    }
}

/// The type of a call, or of all that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallType {
    pub(crate) data_type: DataType,
    pub(crate) repeated: bool,
}

fn call_type(text: &str) -> Result<CallType, String> {
    let (name, repeated) = match text.strip_suffix("...") {
        Some(name) => (name, true),
        None => (text, false),
    };
    let data_type = data_type(name)?;
    Ok(CallType {
        data_type,
        repeated,
    })
}

/// Reads the name of a type in upper or lower case, or its number.
pub(crate) fn data_type(text: &str) -> Result<DataType, String> {
    let text = text.to_ascii_uppercase().replace("0X", "0x");
    text.parse::<DataType>().map_err(|e| e.to_string())
}

/// Reads the name of a module.
pub(crate) fn module(name: &str) -> Result<Module, String> {
    Module::from_name(name).ok_or_else(|| {
        let names = Module::ALL.map(Module::name).join(", ");
        format!("no module is called {name:?}; there are {names}")
    })
}

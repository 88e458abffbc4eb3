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
    /// Read requests from standard input, one JSON object per line.
    #[arg(long, global = true)]
    pub(crate) jsonl: bool,
    #[command(subcommand)]
    pub(crate) command: Option<WireCommand>,
}

/// The commands under `pmix wire`.
#[derive(Subcommand)]
pub(crate) enum WireCommand {
    /// Unpack data and print it as JSON, or explain the bytes.
    Decode(WireDecode),
    /// Pack data from JSON.
    Encode(WireEncode),
}

/// The packing format of the peer.
#[derive(Args)]
pub(crate) struct Peer {
    /// The module the peer speaks: v12, v20, v21, v3, v4, v41, v51 or v61.
    #[arg(long, value_name = "NAME", default_value = "v41", value_parser = module)]
    pub(crate) module: Module,
    /// The kind of the buffer: with or without type codes.
    #[arg(long, value_enum, value_name = "KIND", default_value_t = BufferArg::Nondescribed)]
    pub(crate) buffer: BufferArg,
    /// The encoding of integers, if the module supports both: flex128 or native.
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) psquash: Option<PsquashArg>,
}

impl Peer {
    /// Returns the layout that these options select.
    pub(crate) fn layout(&self) -> Layout {
        layout(self.module, self.buffer, self.psquash)
    }
}

/// Returns the layout for a module, a kind of buffer and an encoding of integers.
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
    /// Each count and each datum is preceded by a type code.
    Described,
    /// The buffer has no type codes; the reader knows the types.
    Nondescribed,
}

/// The kinds of integers, by the components that write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PsquashArg {
    /// A variable number of bytes, depending on the number.
    Flex128,
    /// The number of bytes of the type.
    Native,
}

/// Arguments of `wire decode`.
#[derive(Args)]
pub(crate) struct WireDecode {
    #[command(flatten)]
    pub(crate) peer: Peer,
    /// The type of the data of a pack call, for example PMIX_INFO or info; once for each call, in order. With
    /// three dots (kval...), the last type applies to all remaining calls.
    #[arg(long = "type", value_name = "TYPE", value_parser = call_type)]
    pub(crate) types: Vec<CallType>,
    /// The bytes in hexadecimal.
    #[arg(long, value_name = "DIGITS", conflicts_with_all = ["file", "raw"])]
    pub(crate) hex: Option<String>,
    /// The input holds the bytes themselves, not hexadecimal digits.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Show the offset, bytes and meaning of every field, and the position and cause of an error.
    #[arg(long)]
    pub(crate) explain: bool,
    /// The memory limit for the unpacked data, in bytes per byte of input.
    #[arg(long, value_name = "FACTOR", default_value_t = Limits::default().memory_factor)]
    pub(crate) memory: usize,
    /// The input holds whole messages with their headers, or a text capture of them.
    #[arg(long, conflicts_with = "types")]
    pub(crate) message: bool,
    /// The sender of the messages, if the input does not name it.
    #[arg(long, value_enum, value_name = "SIDE", default_value_t = Side::Client, requires = "message")]
    pub(crate) from: Side,
    /// The command of a reply whose request is not in the input.
    #[arg(long, value_name = "NAME", requires = "message")]
    pub(crate) command: Option<String>,
    /// A file with the bytes; - for standard input (the default).
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
    /// The data: a JSON list or one datum, @FILE, or - for standard input (the default).
    #[arg(value_name = "JSON")]
    pub(crate) value: Option<OsString>,
}

impl WireDecode {
    /// Returns the limits of unpacking.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            memory_factor: self.memory,
            ..Limits::default()
        }
    }
}

/// The type of the data of one call, or of all remaining calls.
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

/// Parses the name of a type in upper or lower case, or its number.
pub(crate) fn data_type(text: &str) -> Result<DataType, String> {
    let text = text.to_ascii_uppercase().replace("0X", "0x");
    text.parse::<DataType>().map_err(|e| e.to_string())
}

/// Parses the name of a module.
pub(crate) fn module(name: &str) -> Result<Module, String> {
    Module::from_name(name).ok_or_else(|| {
        let names = Module::ALL.map(Module::name).join(", ");
        format!("unknown module {name:?}, expected one of {names}")
    })
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loaded components, valid and faulty, in C and in Rust.

mod build;
mod examples;
mod faults;
mod faulty;

use std::fmt::Write;
use std::mem::{offset_of, size_of};
use std::path::Path;

use pmix_builtin::open_preg;
use pmix_mca::abi;
use preg_core::{Error, Params, Preg};
use tempfile::TempDir;

use build::cc;

/// Opens the framework with plugin files and settings.
fn open(files: &[&Path], settings: &[(&str, &str)]) -> Result<Preg, Error> {
    let builder = files
        .iter()
        .fold(Params::builder(), |b, file| b.plugin(file));
    let builder = settings.iter().fold(builder, |b, (name, value)| {
        b.set(name, *value, pmix_mca::Source::Api)
    });
    open_preg(&builder.build()?)
}

/// Writes C assertions for the size of a struct and the offsets of its fields.
macro_rules! assertions {
    ($out:ident, $c:literal, $rust:ty, { $($c_field:ident = $field:ident),* $(,)? }) => {
        let size = size_of::<$rust>();
        writeln!($out, "_Static_assert(sizeof({}) == {size}, \"size of {}\");", $c, $c).unwrap();
        $(
            let (field, at) = (stringify!($c_field), offset_of!($rust, $field));
            writeln!($out, "_Static_assert(offsetof({}, {field}) == {at}, \"{field}\");", $c).unwrap();
        )*
    };
}

#[test]
fn the_c_header_and_the_rust_structs_agree() {
    let mut c = String::from("#include \"pmix_plugin.h\"\n");
    assertions!(c, "pmixrs_text_t", abi::Text, { ptr = ptr, len = len });
    assertions!(c, "pmixrs_host_t", abi::Host, { size = size, ctx = ctx, log = log, param = param });
    assertions!(c, "pmixrs_call_t", abi::Call, {
        size = size, ctx = ctx, write = write, log = log, fault = fault,
        max_nodes = max_nodes, max_ranks = max_ranks, max_bytes = max_bytes,
    });
    assertions!(c, "pmixrs_extent_t", abi::ValueExtent, {
        len = len, terminated = terminated, reserved = reserved,
    });
    assertions!(c, "pmixrs_operations_t", abi::Operations, {
        size = size, close = close, generate_regex = generate_regex, parse_regex = parse_regex,
        generate_node_regex = generate_node_regex, generate_ppn = generate_ppn,
        parse_nodes = parse_nodes, parse_procs = parse_procs, legacy_len = legacy_len,
    });
    assertions!(c, "pmixrs_component_t", abi::ComponentHeader, {
        magic = magic, abi_major = abi_major, abi_minor = abi_minor, size = size,
        framework = framework, name = name, about = about, tag = tag, kind = kind,
        interface_version = interface, priority = priority, flags = flags, reserved = reserved,
        query = query, operations = operations, params = params, num_params = num_params,
        param_size = param_size,
    });
    assertions!(c, "pmixrs_parameter_t", abi::Parameter, {
        name = name, default_value = default, help = help,
    });
    for (name, value) in [
        ("PMIXRS_ABI_MAJOR", i64::from(abi::ABI_MAJOR)),
        ("PMIXRS_ABI_MINOR", i64::from(abi::ABI_MINOR)),
        (
            "PMIXRS_PREG_INTERFACE",
            i64::from(preg_core::INTERFACE_VERSION),
        ),
        ("PMIXRS_SUCCESS", i64::from(abi::SUCCESS)),
        ("PMIXRS_ERR_BAD_PARAM", i64::from(abi::ERR_BAD_PARAM)),
        (
            "PMIXRS_ERR_OUT_OF_RESOURCE",
            i64::from(abi::ERR_OUT_OF_RESOURCE),
        ),
        ("PMIXRS_ERR_NOT_FOUND", i64::from(abi::ERR_NOT_FOUND)),
        (
            "PMIXRS_ERR_NOT_SUPPORTED",
            i64::from(abi::ERR_NOT_SUPPORTED),
        ),
        (
            "PMIXRS_ERR_READ_PAST_END",
            i64::from(abi::ERR_READ_PAST_END),
        ),
        ("PMIXRS_DECLINED", i64::from(abi::DECLINED)),
        ("PMIXRS_PANICKED", i64::from(abi::PANICKED)),
        ("PMIXRS_LOG_ERROR", i64::from(abi::LOG_ERROR)),
        ("PMIXRS_LOG_WARN", i64::from(abi::LOG_WARN)),
        ("PMIXRS_LOG_INFO", i64::from(abi::LOG_INFO)),
        ("PMIXRS_LOG_DEBUG", i64::from(abi::LOG_DEBUG)),
        ("PMIXRS_OFF_BY_DEFAULT", i64::from(abi::OFF_BY_DEFAULT)),
    ] {
        writeln!(c, "_Static_assert({name} == {value}, \"{name}\");").unwrap();
    }
    for (index, byte) in abi::MAGIC.iter().enumerate() {
        let magic = format!("((const unsigned char[])PMIXRS_MAGIC)[{index}]");
        writeln!(c, "int magic_{index}(void);").unwrap();
        writeln!(c, "int magic_{index}(void) {{ return {magic} == {byte}; }}").unwrap();
    }
    let directory = TempDir::new().unwrap();
    let source = directory.path().join("layout.c");
    std::fs::write(&source, c).unwrap();
    cc(
        &source,
        &directory.path().join("layout.o"),
        &["-c".to_owned()],
    );
}

#[cfg(target_pointer_width = "64")]
#[test]
fn the_frozen_layout_is_unchanged() {
    assert_eq!(size_of::<abi::ComponentHeader>(), 152);
    // Minor version 0 ends at the parameters of minor version 1.
    assert_eq!(offset_of!(abi::ComponentHeader, params), 128);
    assert_eq!(size_of::<abi::Parameter>(), 48);
    assert_eq!(offset_of!(abi::ComponentHeader, framework), 16);
    assert_eq!(offset_of!(abi::ComponentHeader, interface), 96);
    assert_eq!(offset_of!(abi::ComponentHeader, query), 112);
    assert_eq!(size_of::<abi::Operations>(), 72);
    assert_eq!(offset_of!(abi::Operations, legacy_len), 64);
    assert_eq!(size_of::<abi::Call>(), 64);
    assert_eq!(size_of::<abi::Host>(), 32);
    assert_eq!(size_of::<abi::ValueExtent>(), 16);
}

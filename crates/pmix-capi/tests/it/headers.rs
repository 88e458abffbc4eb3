// SPDX-License-Identifier: MIT OR Apache-2.0
//! The headers, compiled as every standard of C and C++ that programs use.

use std::fs;
use std::process::Command;

use crate::build::{column, compilers, must, root};

const HEADERS: [&str; 7] = [
    "pmix.h",
    "pmix_common.h",
    "pmix_server.h",
    "pmix_tool.h",
    "pmix_deprecated.h",
    "pmix_version.h",
    "pmix_extend.h",
];

/// Compiles a text in a standard of a language.
fn compile(compiler: &str, standard: &str, text: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let end = if standard.contains("++") { "cc" } else { "c" };
    let source = folder.path().join(format!("a.{end}"));
    fs::write(&source, text).expect("a file");
    let strict = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-Wno-unused"];
    let mut command = Command::new(compiler);
    command
        .arg(format!("-std={standard}"))
        .args(strict)
        .args(["-D_DEFAULT_SOURCE", "-I"]);
    command.arg(root().join("include")).arg("-c").arg(&source);
    must(command.arg("-o").arg(folder.path().join("a.o")));
}

#[test]
fn every_header_stands_alone_in_every_standard() {
    for (compilers, standards) in [
        (compilers(&["gcc", "clang"]), &["c99", "c11"][..]),
        (compilers(&["g++", "clang++"]), &["c++17"]),
    ] {
        for compiler in compilers {
            for standard in standards {
                for header in HEADERS {
                    compile(
                        compiler,
                        standard,
                        &format!("#include <{header}>\nint one;\n"),
                    );
                }
            }
        }
    }
}

#[test]
fn structures_have_the_layout_of_all_releases() {
    let text = fs::read_to_string(root().join("tests/capi/layout.c")).expect("the program");
    assert!(text.matches("_Static_assert").count() > 150);
    for compiler in compilers(&["gcc", "clang"]) {
        compile(compiler, "c11", &text);
    }
}

#[test]
fn every_name_of_the_tables_is_there() {
    let mut text = String::from("#include <pmix_extend.h>\n");
    // Attributes that only the Standard defines are in no header.
    let sources = column("attributes", "type_source");
    let attributes = column("attributes", "name").into_iter().zip(sources);
    let standard: Vec<_> = attributes
        .filter(|(_, source)| source == "standard")
        .collect();
    for (table, names) in [
        ("macros", "name"),
        ("status", "name"),
        ("attributes", "name"),
        ("data_types", "name"),
    ] {
        for name in column(table, names) {
            // Skips a macro that is a function in newer releases, include guards of other files, and names of the
            // Standard only.
            let other = name == "PMIx_Heartbeat"
                || name.ends_with("_H")
                || standard.iter().any(|(known, _)| *known == name);
            // Names of the monitors of release 5 are not in the newest table of macros.
            if !other {
                text.push_str(&format!("#ifndef {name}\n#error {name}\n#endif\n"));
            }
        }
    }
    text.push_str("int one;\n");
    compile(compilers(&["gcc", "clang"])[0], "c11", &text);
}

#[test]
fn every_static_initialiser_initialises_its_structure() {
    let of = |name: &str| match name {
        "LOOKUP" => String::from("pmix_pdata_t"),
        "DEVICE_DIST" => String::from("pmix_device_distance_t"),
        other => format!("pmix_{}_t", other.to_lowercase()),
    };
    let mut text = String::from("#include <pmix_extend.h>\n");
    for name in column("macros", "name") {
        if let Some(short) = name.strip_suffix("_STATIC_INIT") {
            let short = short.trim_start_matches("PMIX_");
            text.push_str(&format!(
                "extern {0} a_{short}; {0} a_{short} = {name};\n",
                of(short)
            ));
        }
    }
    for compiler in compilers(&["gcc", "clang"]) {
        compile(compiler, "c99", &text);
    }
    for compiler in compilers(&["g++", "clang++"]) {
        compile(compiler, "c++17", &text);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix --version -v`: details of the build and the supported formats.

use std::fmt::Write as _;

use bfrops::Module;

/// Returns `true` if the command line requests details with the version.
pub(crate) fn is_asked_for_in_full() -> bool {
    std::env::args_os().skip(1).any(|word| {
        let word = word.to_string_lossy();
        let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        word == "--verbose" || short.is_some_and(|letters| letters.contains('v'))
    })
}

/// Returns one line each for the features, the encoders, the formats of packed data, the compiler, its
/// target, and the loading of libraries.
pub(crate) fn details() -> String {
    let features = pmix_builtin::FEATURES.iter();
    let features =
        features.map(|(name, is_on)| format!("{}{name}", if *is_on { "+" } else { "-" }));
    let features: Vec<_> = features.collect();
    let encoders = pmix_builtin::preg_components();
    let encoders: Vec<_> = encoders.iter().map(|component| component.name).collect();
    let modules = Module::ALL.map(|module| module.name());
    // A static musl program cannot load libraries.
    let libraries = match cfg!(all(target_env = "musl", target_feature = "crt-static")) {
        true => "not loaded: no plugin files, no MUNGE",
        false => "loaded at run time: plugin files, MUNGE",
    };
    let mut text = String::new();
    for (what, said) in [
        ("features", features.join(" ")),
        ("encoders", encoders.join(" ")),
        ("packed data", modules.join(" ")),
        ("compiler", env!("PMIX_COMPILER").to_owned()),
        ("target", env!("PMIX_TARGET").to_owned()),
        ("libraries", libraries.to_owned()),
    ] {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{what:<12} {said}");
    }
    text
}

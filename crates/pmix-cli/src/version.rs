// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix --version -v`: what the command was built with, and what it speaks.

use std::fmt::Write as _;

use bfrops::Module;

/// Whether the command line asks for more than the version.
pub(crate) fn is_asked_for_in_full() -> bool {
    std::env::args_os().skip(1).any(|word| {
        let word = word.to_string_lossy();
        let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        word == "--verbose" || short.is_some_and(|letters| letters.contains('v'))
    })
}

/// A line each: the features, the encoders, the forms of packed data, the compiler, its target, and whether
/// libraries are opened.
pub(crate) fn details() -> String {
    let features = pmix_builtin::FEATURES.iter();
    let features =
        features.map(|(name, is_on)| format!("{}{name}", if *is_on { "+" } else { "-" }));
    let features: Vec<_> = features.collect();
    let encoders = pmix_builtin::preg_components();
    let encoders: Vec<_> = encoders.iter().map(|component| component.name).collect();
    let modules = Module::ALL.map(|module| module.name());
    // What musl links statically opens none.
    let libraries = match cfg!(all(target_env = "musl", target_feature = "crt-static")) {
        true => "none are opened: no plugin files, no MUNGE",
        false => "plugin files and MUNGE are opened",
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

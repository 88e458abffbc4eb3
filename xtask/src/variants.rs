// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask variants`: builds with other features.
//!
//! Each recompiles crates, which takes too long for `cargo xtask test`.

use xtask::Outcome;
use xtask::process::cargo;

use crate::test::{lints, tests};

/// Lints the builds without optional features and tests the second compression back end.
pub(crate) fn run() -> Outcome {
    let mut outcome = Outcome::default();
    // All encoders are optional, also compress. Hosts and clients are not optional.
    let bare = ["pmix-cli", "pmix-capi", "pmix"].map(|name| ["--package", name]);
    let bare = [
        bare.as_flattened(),
        &[
            "--no-default-features",
            "--features",
            "pmix/client,pmix/server",
        ],
    ];
    outcome.check("lints without features", lints(&bare.concat()));
    // Built alone, the client has none of the features that other crates request from its dependencies.
    let client = ["--package", "pmix-client"];
    outcome.check("lints of the client alone", lints(&client));
    let zstd = ["--package", "preg-compress", "--features", "zstd"];
    let mut command = cargo(["test", "--locked", "--no-fail-fast"]);
    outcome += tests(command.args(zstd)).0;
    outcome
}

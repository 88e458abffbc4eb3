// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cells: how the command is built and configured, what it then writes and reads.

/// How the command is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    Default,
    Bare,
    NoFold,
    Zstd,
}

/// A plugin file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plugin {
    /// The fold scheme of the tree as a shared library.
    Fold,
    /// The example in C.
    Rle,
}

impl Build {
    pub(super) fn features(self) -> &'static [&'static str] {
        match self {
            Self::Default => &[],
            Self::Bare => &["--no-default-features"],
            Self::NoFold => &["--no-default-features", "--features", "compress"],
            Self::Zstd => &["--features", "zstd"],
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Default => "pmix-default",
            Self::Bare => "pmix-bare",
            Self::NoFold => "pmix-no-fold",
            Self::Zstd => "pmix-zstd",
        }
    }
}

/// One way to build and configure the command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) name: &'static str,
    pub(crate) build: Build,
    pub(crate) plugins: &'static [Plugin],
    /// The `plugins.toml`, without the plugin files.
    pub(crate) config: &'static str,
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// The forms that it writes as a string; every one must occur.
    pub(crate) string: &'static [&'static str],
    /// The types that it writes as a regex2, likewise; none if it refuses.
    pub(crate) regex2: &'static [&'static str],
    /// What it reads besides text.
    pub(crate) reads: &'static [Payload],
    /// What it cannot even recognise: tags that none of its components has.
    pub(crate) unknown: &'static [Payload],
    /// Whether compressed values are written with the other compressor.
    pub(crate) writes_zstd: bool,
}

/// What a value holds, besides the text that everybody reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Payload {
    Text,
    Zlib,
    Zstd,
    Fold,
    Rle,
}

use Payload::{Fold, Rle, Zlib, Zstd};

/// What the default build does when nothing is configured.
const DEFAULT: Cell = Cell {
    name: "default",
    build: Build::Default,
    plugins: &[],
    config: "",
    environment: &[],
    string: &["blob", "raw"],
    regex2: &["compress", "raw"],
    reads: &[Zlib, Fold],
    unknown: &[Rle],
    writes_zstd: false,
};

/// The same where nothing is compressed but all is read.
const PLAIN: Cell = Cell {
    string: &["raw"],
    regex2: &["raw"],
    ..DEFAULT
};

pub(crate) const CELLS: &[Cell] = &[
    DEFAULT,
    Cell {
        name: "built without compress",
        build: Build::Bare,
        reads: &[],
        unknown: &[Fold, Rle],
        ..PLAIN
    },
    Cell {
        name: "compress disabled in plugins.toml",
        config: "[preg.compress]\nenabled = false\n",
        ..PLAIN
    },
    Cell {
        name: "compress excluded by environment",
        environment: &[("PMIX_MCA_preg", "^compress")],
        ..PLAIN
    },
    Cell {
        name: "no compression back end",
        environment: &[("PMIX_MCA_pcompress", "^zlib")],
        reads: &[Fold],
        ..PLAIN
    },
    Cell {
        name: "compress may not parse",
        config: "[preg.compress]\nenabled = false\nparse = false\n",
        reads: &[Fold],
        ..PLAIN
    },
    Cell {
        name: "limit 64",
        environment: &[("PMIX_MCA_pcompress_base_limit", "64")],
        ..DEFAULT
    },
    Cell {
        name: "native only",
        environment: &[("PMIX_MCA_preg", "native")],
        string: &["plain", "pmix"],
        regex2: &[],
        ..DEFAULT
    },
    Cell {
        name: "raw only",
        environment: &[("PMIX_MCA_preg", "raw")],
        ..PLAIN
    },
    Cell {
        name: "fold enabled",
        config: "[preg.fold]\nenabled = true\n",
        string: &["fold"],
        regex2: &["compress", "fold"],
        ..DEFAULT
    },
    Cell {
        name: "fold as a plugin file",
        build: Build::NoFold,
        plugins: &[Plugin::Fold],
        config: "[preg.fold]\nenabled = true\n",
        string: &["fold"],
        regex2: &["compress", "fold"],
        ..DEFAULT
    },
    Cell {
        name: "plugin in C",
        plugins: &[Plugin::Rle],
        string: &["blob", "raw", "rle"],
        regex2: &["compress", "raw", "rle"],
        reads: &[Zlib, Fold, Rle],
        unknown: &[],
        ..DEFAULT
    },
    Cell {
        name: "built with zstd",
        build: Build::Zstd,
        reads: &[Zlib, Zstd, Fold],
        ..DEFAULT
    },
    Cell {
        name: "built with zstd, writing it",
        build: Build::Zstd,
        environment: &[("PMIX_MCA_pcompress_zstd_write", "true")],
        reads: &[Zlib, Zstd, Fold],
        writes_zstd: true,
        ..DEFAULT
    },
];

impl Cell {
    /// What a value that this cell wrote as this type holds.
    pub(crate) fn payload(&self, kind: &str) -> Payload {
        match kind {
            "blob" | "compress" if self.writes_zstd => Zstd,
            "blob" | "compress" => Zlib,
            "fold" => Fold,
            "rle" => Rle,
            _ => Payload::Text,
        }
    }

    /// Whether the cell reads a payload.
    pub(crate) fn reads(&self, payload: Payload) -> bool {
        payload == Payload::Text || self.reads.contains(&payload)
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cells: the build and configuration of the command, and the forms that it then encodes and decodes.

/// The build of the command.
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
    /// The fold scheme of this repository as a shared library.
    Fold,
    /// The example plugin in C.
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

/// A build and configuration of the command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) name: &'static str,
    pub(crate) build: Build,
    pub(crate) plugins: &'static [Plugin],
    /// The content of `plugins.toml` without the plugin files.
    pub(crate) config: &'static str,
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// The forms of encoded strings, each of which must occur.
    pub(crate) string: &'static [&'static str],
    /// The types of encoded regex2 values, each of which must occur; none if the cell refuses.
    pub(crate) regex2: &'static [&'static str],
    /// The payloads that it decodes besides text.
    pub(crate) reads: &'static [Payload],
    /// The payloads that it cannot recognize, because no component has their tags.
    pub(crate) unknown: &'static [Payload],
    /// `true` if it compresses with zstd.
    pub(crate) writes_zstd: bool,
}

/// The payload of a value, besides text, which every cell reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Payload {
    Text,
    Zlib,
    Zstd,
    Fold,
    Rle,
}

use Payload::{Fold, Rle, Zlib, Zstd};

/// The default build without configuration.
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

/// A configuration that compresses nothing and reads everything.
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
    /// Returns the payload of a value that this cell encoded as this type.
    pub(crate) fn payload(&self, kind: &str) -> Payload {
        match kind {
            "blob" | "compress" if self.writes_zstd => Zstd,
            "blob" | "compress" => Zlib,
            "fold" => Fold,
            "rle" => Rle,
            _ => Payload::Text,
        }
    }

    /// Returns `true` if the cell decodes a payload.
    pub(crate) fn reads(&self, payload: Payload) -> bool {
        payload == Payload::Text || self.reads.contains(&payload)
    }
}

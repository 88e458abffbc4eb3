// SPDX-License-Identifier: MIT OR Apache-2.0
//! The compression back ends, and the selection of active ones (framework `pcompress`).

mod backend;
#[cfg(feature = "zlib")]
mod zlib;
#[cfg(feature = "zstd")]
mod zstd;

use pmix_mca::{Header, Selection};
use preg_core::{Error, Params, Status};

pub(crate) use backend::{Backend, Format, damage};

/// The back ends that parameters can name, in this build or not. `none` selects no back end.
///
/// The priorities are those of OpenPMIx. zstd has the higher one, although it never writes here.
const KNOWN: &[(&str, i32)] = &[("zstd", 90), ("zlib", 50), ("none", 0)];

/// The back ends in this build.
const BUILT: &[&dyn Backend] = &[
    #[cfg(feature = "zlib")]
    &zlib::Zlib,
    #[cfg(feature = "zstd")]
    &zstd::Zstd,
];

/// The levels of back ends with a general encoder.
const LEVELS: std::ops::RangeInclusive<u32> = 1..=9;

/// The active back ends, and the parameters of compression.
pub(crate) struct Pcompress {
    readers: Vec<&'static dyn Backend>,
    writer: Option<&'static dyn Backend>,
    level: Option<u32>,
    limit: u64,
}

impl Pcompress {
    /// Selects the back ends by the parameters. Returns `None` if no back end is active.
    ///
    /// DEVIATION: OpenPMIx's compress component stays active without a back end, contrary to its
    /// documentation; here it disables itself; `without_a_back_end_there_is_no_scheme`.
    pub(crate) fn select(params: &Params) -> Result<Option<Self>, Error> {
        let headers: Vec<_> = KNOWN
            .iter()
            .map(|&(name, priority)| Header {
                name,
                priority,
                enabled: true,
            })
            .collect();
        let selection = pmix_mca::select("pcompress", &headers, params)?;
        let limit = params.size("pcompress_base_limit", 4096)?;
        let level = level(params)?;
        let zstd_write = params.flag("pcompress_zstd_write", false)?;
        let active = active(&selection);
        if active.is_empty() {
            return Ok(None);
        }
        let may_write = |b: &&&'static dyn Backend| b.format() == Format::Zlib || zstd_write;
        Ok(Some(Self {
            writer: active.iter().find(may_write).copied(),
            readers: active,
            level,
            limit,
        }))
    }

    /// Returns the length in bytes below which lists are not compressed.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Compresses `text` and appends the stream to `out`. Returns `false` if no active back end may
    /// write.
    pub(crate) fn compress(&self, text: &[u8], out: &mut Vec<u8>) -> bool {
        self.writer
            .is_some_and(|w| w.compress(text, self.level, out))
    }

    /// Returns the back end that decodes a stream, chosen by the first bytes. The error names the
    /// format of the stream.
    pub(crate) fn reader_of(&self, stream: &[u8]) -> Result<&'static dyn Backend, String> {
        let format = Format::of(stream).ok_or("expected a zlib or zstd stream here")?;
        self.readers
            .iter()
            .find(|b| b.format() == format)
            .copied()
            .ok_or_else(|| format!("the stream is {format}, which no active back end reads"))
    }
}

/// Returns the active back ends of this build, highest priority first. An excluded back end does
/// not decode either: administrators exclude a back end so that its code never runs.
fn active(selection: &Selection) -> Vec<&'static dyn Backend> {
    let names = selection.active.iter().filter_map(|i| KNOWN.get(*i));
    names
        .filter_map(|(name, _)| BUILT.iter().find(|b| b.format().name() == *name))
        .copied()
        .collect()
}

fn level(params: &Params) -> Result<Option<u32>, Error> {
    const NAME: &str = "pcompress_zlib_level";
    let Some(setting) = params.get(NAME) else {
        return Ok(None);
    };
    let text = setting.value.trim();
    if text.is_empty() || text == "auto" {
        return Ok(None);
    }
    let level = text.parse().ok().filter(|n| LEVELS.contains(n));
    level.map(Some).ok_or_else(|| {
        Error::new(
            Status::ERR_BAD_PARAM,
            format!(
                "{NAME} = {text:?} ({}) is neither \"auto\" nor a level from 1 to 9",
                setting.source
            ),
        )
    })
}

#[cfg(test)]
mod tests;

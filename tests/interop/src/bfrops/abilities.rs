// SPDX-License-Identifier: MIT OR Apache-2.0
//! The places in which a release and module carry each type, as the peer program measured them.

use pmix_random::Carried;
use pmix_types::{DataType, Status};

/// The status of a type that the peer program did not try.
const NOT_TRIED: Status = Status::ERR_NOT_AVAILABLE;

/// The status of packing, and of unpacking the packed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) pack: Status,
    pub(crate) unpack: Status,
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let (pack, unpack) = text.split_once(',')?;
        let status = |text: &str| text.parse().ok().map(Status::from_raw);
        Some(Self {
            pack: status(pack)?,
            unpack: status(unpack)?,
        })
    }

    /// Returns `true` if unpacking gives the packed data.
    pub(crate) fn is_whole(self) -> bool {
        self.pack.is_success() && self.unpack.is_success()
    }

    /// Returns `true` if the library packs the type and does not read the result.
    pub(crate) fn is_one_way(self) -> bool {
        self.pack.is_success() && !self.unpack.is_success()
    }

    /// Returns `true` if the library reports the type as unknown in this place.
    pub(crate) fn is_refused(self) -> bool {
        !self.pack.is_success() && self.pack != NOT_TRIED
    }
}

/// The places in which one type is carried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ability {
    pub(crate) data_type: DataType,
    /// The type in a call of its own.
    pub(crate) top: Place,
    /// The type in a value.
    pub(crate) value: Place,
    /// The type as the elements of an array.
    pub(crate) array: Place,
}

impl Ability {
    fn parse(word: &str) -> Option<Self> {
        let mut parts = word.split(':');
        let data_type = parts.next()?.parse().ok()?;
        let mut place = || Place::parse(parts.next()?);
        Some(Self {
            data_type,
            top: place()?,
            value: place()?,
            array: place()?,
        })
    }
}

/// Reads the answer to `types`.
///
/// # Errors
/// Returns a message if the answer cannot be read.
pub(crate) fn parse(answer: &str) -> Result<Vec<Ability>, String> {
    let words = answer.split_whitespace();
    words
        .map(|word| Ability::parse(word).ok_or_else(|| format!("the peer said {word:?}")))
        .collect()
}

/// Returns the types and maps from which random data may be generated.
pub(crate) fn carried(abilities: &[Ability], is_v12: bool, maps: Vec<Vec<u8>>) -> Carried {
    let types = |place: fn(&Ability) -> Place| {
        let whole = abilities.iter().filter(|a| place(a).is_whole());
        whole.map(|a| a.data_type).collect()
    };
    Carried {
        values: types(|a| a.value),
        elements: types(|a| a.array),
        is_whole: !is_v12,
        maps,
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directives of `PMIx_IOF_pull` that this library implements: the format of output that it writes, and
//! buffering.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", `PMIx_IOF_pull`; OpenPMIx, the keys `pmix.iof...`.

use std::time::Duration;

use pmix_types::{Info, InfoFlags, Status, Value, keys};

use crate::memory::Result;

/// The maximum number of bytes that are buffered for a stream.
const MOST_GATHERED: usize = 1 << 20;

/// The tag in front of each line that the library writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tag {
    /// No tag.
    #[default]
    None,
    /// The rank and the stream.
    Rank,
    /// The namespace, the rank and the stream.
    Name,
}

/// The format of output that this library writes itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) tag: Tag,
    /// `true` if each line has the time of its arrival.
    pub(super) has_time: bool,
    pub(super) is_xml: bool,
    /// `true` if output is written at once, without waiting for whole lines.
    pub(super) is_raw: bool,
    /// `true` if all streams are written to standard output.
    pub(super) is_merged: bool,
}

/// The buffering of output before the callback is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gathering {
    /// The number of bytes of a stream that are delivered at once; 0 for no buffering.
    pub(super) size: usize,
    /// The maximum time that output stays in the buffer.
    pub(super) time: Option<Duration>,
}

/// The directives of a pull.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    pub(super) form: Form,
    pub(super) gathering: Gathering,
}

/// The abilities of the library for a pull.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abilities {
    /// `true` if the pull has a callback; otherwise the library writes the output.
    pub(crate) has_function: bool,
    /// `true` if the library has timers.
    pub(crate) has_timers: bool,
}

impl Directives {
    /// Reads the directives that this library implements, and clears their required flag: the server does not have to
    /// support them.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` if a value has the wrong type. Returns `PMIX_ERR_NOT_SUPPORTED` if a required
    /// directive cannot be honored: a format needs a pull without a callback, and buffering needs one with a
    /// callback.
    pub(crate) fn of(infos: &mut [Info<'_>], able: Abilities) -> Result<Self> {
        let mut asked = Self::default();
        let (mut size, mut time) = (0, None);
        for info in infos {
            let key = info.key.as_text().to_str_lossy().into_owned();
            let is_obeyed = match &*key {
                keys::IOF_BUFFERING_SIZE => {
                    size = number(&info.value)?;
                    able.has_function
                }
                keys::IOF_BUFFERING_TIME => {
                    time = Some(number(&info.value)?).filter(|seconds| *seconds > 0);
                    able.has_function && able.has_timers
                }
                keys::IOF_LOCAL_OUTPUT => flag(info)? != able.has_function,
                other => match asked.form.set(other, info)? {
                    Some(is_shown) => is_shown && !able.has_function,
                    None => continue,
                },
            };
            if !is_obeyed && info.flags.contains(InfoFlags::REQD) {
                return Err(Status::ERR_NOT_SUPPORTED);
            }
            info.flags = info.flags.without(InfoFlags::REQD);
        }
        if able.has_function {
            let time = time.filter(|_| able.has_timers);
            let most = usize::try_from(size).unwrap_or(MOST_GATHERED);
            asked.gathering = Gathering {
                size: match (size, time) {
                    (0, Some(_)) => MOST_GATHERED,
                    _ => most.min(MOST_GATHERED),
                },
                time: time.map(|seconds| Duration::from_secs(seconds.into())),
            };
        }
        Ok(asked)
    }
}

impl Form {
    /// Applies a directive. Returns `None` if it is not about the format, otherwise `true` if it is supported.
    fn set(&mut self, key: &str, info: &Info<'_>) -> Result<Option<bool>> {
        let mut is_obeyed = true;
        match key {
            keys::IOF_TAG_OUTPUT | keys::IOF_TAG_FULLNAME_OUTPUT | keys::TAG_OUTPUT => {
                self.set_tag(flag(info)?, Tag::Name);
            }
            // The node and the process ID are not known here, so only the name is written.
            keys::IOF_TAG_DETAILED_OUTPUT => {
                is_obeyed = !flag(info)?;
                self.set_tag(!is_obeyed, Tag::Name);
            }
            keys::IOF_RANK_OUTPUT => self.set_tag(flag(info)?, Tag::Rank),
            keys::IOF_TIMESTAMP_OUTPUT | keys::TIMESTAMP_OUTPUT => self.has_time = flag(info)?,
            keys::IOF_XML_OUTPUT => self.is_xml = flag(info)?,
            keys::IOF_OUTPUT_RAW => self.is_raw = flag(info)?,
            keys::IOF_MERGE_STDERR_STDOUT | keys::MERGE_STDERR_STDOUT => {
                self.is_merged = flag(info)?;
            }
            _ => return Ok(None),
        }
        Ok(Some(is_obeyed))
    }

    /// Sets the tag, unless a fuller one is set.
    fn set_tag(&mut self, is_wanted: bool, tag: Tag) {
        if is_wanted && self.tag != Tag::Name {
            self.tag = tag;
        }
    }

    /// Returns `true` if output is written without changes.
    pub(super) fn is_plain(&self) -> bool {
        self.tag == Tag::None && !self.has_time && !self.is_xml
    }
}

fn flag(info: &Info<'_>) -> Result<bool> {
    info.truth().as_bool().ok_or(Status::ERR_BAD_PARAM)
}

fn number(value: &Value<'_>) -> Result<u32> {
    value.to_number().map_err(|_| Status::ERR_BAD_PARAM)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWS: Abilities = Abilities {
        has_function: false,
        has_timers: true,
    };
    const CALLS: Abilities = Abilities {
        has_function: true,
        has_timers: true,
    };

    #[test]
    fn what_is_shown_and_what_is_gathered_is_asked_for() {
        let mut infos = [
            Info::new(keys::IOF_RANK_OUTPUT, true),
            Info::new(keys::IOF_TIMESTAMP_OUTPUT, true).required(),
            Info::new(keys::IOF_XML_OUTPUT, false),
            Info::new(keys::IOF_CACHE_SIZE, 7_u32).required(),
        ];
        let form = Directives::of(&mut infos, SHOWS).unwrap().form;
        assert_eq!(
            (form.tag, form.has_time, form.is_xml),
            (Tag::Rank, true, false)
        );
        // A directive for the server stays required, and one that this library implements does not.
        let required = infos.map(|info| info.flags.contains(InfoFlags::REQD));
        assert_eq!(required, [false, false, false, true]);
        let size = Info::new(keys::IOF_BUFFERING_SIZE, 100_u32).required();
        let time = Info::new(keys::IOF_BUFFERING_TIME, 2_u32).required();
        let gathered = |infos: &[Info<'static>]| {
            let made = Directives::of(&mut infos.to_vec(), CALLS).unwrap();
            (made.gathering.size, made.gathering.time)
        };
        let seconds = Some(Duration::from_secs(2));
        assert_eq!(gathered(&[size.clone(), time.clone()]), (100, seconds));
        assert_eq!(gathered(&[size]), (100, None));
        assert_eq!(gathered(&[time]), (MOST_GATHERED, seconds));
        let much = Info::new(keys::IOF_BUFFERING_SIZE, u32::MAX);
        assert_eq!(gathered(&[much]), (MOST_GATHERED, None));
        assert_eq!(gathered(&[]), (0, None));
    }

    #[test]
    fn what_is_required_and_not_obeyed_is_refused() {
        let own = Abilities {
            has_timers: false,
            ..CALLS
        };
        for (key, able) in [
            (keys::IOF_TAG_OUTPUT, CALLS),
            (keys::IOF_XML_OUTPUT, CALLS),
            (keys::IOF_LOCAL_OUTPUT, CALLS),
            (keys::IOF_TAG_DETAILED_OUTPUT, SHOWS),
            (keys::IOF_BUFFERING_SIZE, SHOWS),
            (keys::IOF_BUFFERING_TIME, own),
        ] {
            let value = match key.starts_with("pmix.iof.b") {
                true => Value::Uint32(1),
                false => Value::Bool(true),
            };
            let info = Info::new(key, value);
            assert!(Directives::of(&mut [info.clone()], able).is_ok(), "{key}");
            let refused = Directives::of(&mut [info.required()], able);
            assert_eq!(refused, Err(Status::ERR_NOT_SUPPORTED), "{key}");
        }
        for info in [
            Info::new(keys::IOF_TAG_OUTPUT, "perhaps"),
            Info::new(keys::IOF_BUFFERING_SIZE, "many"),
        ] {
            let refused = Directives::of(&mut [info], SHOWS);
            assert_eq!(refused, Err(Status::ERR_BAD_PARAM));
        }
    }
}

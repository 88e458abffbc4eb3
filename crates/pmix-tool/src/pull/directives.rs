// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directives of a pull that this process implements: the format of output that it writes, and buffering.

use std::time::Duration;

use pmix_types::{Info, InfoFlags, Status, keys};

use crate::Error;

/// The maximum number of bytes that are buffered for a stream.
const MAX_BUFFERED: usize = 1 << 20;

/// The tag in front of each line that is written.
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

/// The format of output that the process writes itself.
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
pub(super) struct Buffering {
    /// The number of bytes of a stream that are delivered at once; 0 for no buffering.
    pub(super) size: usize,
    /// The maximum time that output stays in the buffer.
    pub(super) time: Option<Duration>,
}

/// The directives of a pull.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    pub(super) form: Form,
    pub(super) buffering: Buffering,
}

/// The abilities of the process for a pull.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// `true` if the pull has a callback; otherwise the process writes the output.
    pub has_function: bool,
    /// `true` if the process can deliver buffered output when a time has passed.
    pub has_timers: bool,
}

impl Directives {
    /// Reads the directives that are implemented here, and clears their required flag: the server does not have to
    /// support them.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` if a value has the wrong type. Returns `PMIX_ERR_NOT_SUPPORTED` if a required
    /// directive cannot be honored. The format directives apply only to a pull without a callback, whose output this
    /// process writes. Buffering applies only to a pull with a callback.
    pub fn of(infos: &mut [Info<'_>], able: Abilities) -> Result<Self, Error> {
        let mut read = Self::default();
        let (mut size, mut time) = (0, None);
        for info in infos {
            let key = info.key.as_text().to_str_lossy().into_owned();
            let is_honored = match &*key {
                keys::IOF_BUFFERING_SIZE => {
                    size = number(info)?;
                    able.has_function
                }
                keys::IOF_BUFFERING_TIME => {
                    time = Some(number(info)?).filter(|seconds| *seconds > 0);
                    able.has_function && able.has_timers
                }
                keys::IOF_LOCAL_OUTPUT => flag(info)? != able.has_function,
                other => match read.form.set(other, info)? {
                    Some(is_shown) => is_shown && !able.has_function,
                    None => continue,
                },
            };
            if !is_honored && info.flags.contains(InfoFlags::REQD) {
                let why = format!("{key} is required, and not supported for this pull");
                return Err(Error::new(Status::ERR_NOT_SUPPORTED, why));
            }
            info.flags = info.flags.without(InfoFlags::REQD);
        }
        if able.has_function {
            let time = time.filter(|_| able.has_timers);
            let most = usize::try_from(size).unwrap_or(MAX_BUFFERED);
            read.buffering = Buffering {
                size: match (size, time) {
                    (0, Some(_)) => MAX_BUFFERED,
                    _ => most.min(MAX_BUFFERED),
                },
                time: time.map(|seconds| Duration::from_secs(seconds.into())),
            };
        }
        Ok(read)
    }
}

impl Form {
    /// Applies a directive. Returns `None` if it is not about the format, otherwise `true` if it is supported.
    fn set(&mut self, key: &str, info: &Info<'_>) -> Result<Option<bool>, Error> {
        let mut is_honored = true;
        match key {
            keys::IOF_TAG_OUTPUT | keys::IOF_TAG_FULLNAME_OUTPUT | keys::TAG_OUTPUT => {
                self.set_tag(flag(info)?, Tag::Name);
            }
            // The node and the process ID are not known here, so only the name is written.
            keys::IOF_TAG_DETAILED_OUTPUT => {
                is_honored = !flag(info)?;
                self.set_tag(!is_honored, Tag::Name);
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
        Ok(Some(is_honored))
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

fn flag(info: &Info<'_>) -> Result<bool, Error> {
    let flag = info.truth().as_bool();
    flag.ok_or_else(|| wrong_type(info, "a Boolean"))
}

fn number(info: &Info<'_>) -> Result<u32, Error> {
    info.value
        .to_number()
        .map_err(|_| wrong_type(info, "a number"))
}

fn wrong_type(info: &Info<'_>, expected: &str) -> Error {
    let why = format!("{} of a pull must be {expected}", info.key);
    Error::new(Status::ERR_BAD_PARAM, why)
}

#[cfg(test)]
mod tests {
    use pmix_types::Value;

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
    fn formats_and_buffering_are_read() {
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
        let buffered = |infos: &[Info<'static>]| {
            let made = Directives::of(&mut infos.to_vec(), CALLS).unwrap();
            (made.buffering.size, made.buffering.time)
        };
        let seconds = Some(Duration::from_secs(2));
        assert_eq!(buffered(&[size.clone(), time.clone()]), (100, seconds));
        assert_eq!(buffered(&[size]), (100, None));
        assert_eq!(buffered(&[time]), (MAX_BUFFERED, seconds));
        let much = Info::new(keys::IOF_BUFFERING_SIZE, u32::MAX);
        assert_eq!(buffered(&[much]), (MAX_BUFFERED, None));
        assert_eq!(buffered(&[]), (0, None));
    }

    #[test]
    fn a_required_directive_that_cannot_be_honored_is_rejected() {
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
            assert_eq!(
                refused.err().map(|error| error.status()),
                Some(Status::ERR_NOT_SUPPORTED),
                "{key}"
            );
        }
        for info in [
            Info::new(keys::IOF_TAG_OUTPUT, "perhaps"),
            Info::new(keys::IOF_BUFFERING_SIZE, "many"),
        ] {
            let refused = Directives::of(&mut [info], SHOWS);
            assert_eq!(
                refused.err().map(|error| error.status()),
                Some(Status::ERR_BAD_PARAM)
            );
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directives of a log request: the channels and the form of texts.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pmix_host::forward::OutputStream;
use pmix_types::{Info, Status, Text, Value, keys};

use super::repeated::Kind;
use super::syslog::{self, Fault};

/// A channel of `PMIx_Log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    /// A standard stream of the launcher.
    Stream(OutputStream),
    /// The system log of this node, which also serves as the global one.
    Syslog,
    /// A channel that the launcher does not have.
    Missing,
}

impl Channel {
    /// Returns the channel of an info with its name, or `None` if the info does not select one.
    pub(super) fn of(info: &Info<'_>) -> Option<(Self, &'static str)> {
        Some(match info.key.as_text().as_str()? {
            keys::LOG_STDOUT => (Self::Stream(OutputStream::Output), "stdout"),
            keys::LOG_STDERR => (Self::Stream(OutputStream::Errors), "stderr"),
            keys::LOG_SYSLOG => (Self::Syslog, "syslog"),
            keys::LOG_LOCAL_SYSLOG => (Self::Syslog, "local syslog"),
            keys::LOG_GLOBAL_SYSLOG => (Self::Syslog, "global syslog"),
            keys::LOG_EMAIL => (Self::Missing, "email (PMIX_LOG_EMAIL)"),
            keys::LOG_JOB_RECORD => (Self::Missing, "a job record (PMIX_LOG_JOB_RECORD)"),
            keys::LOG_GLOBAL_DATASTORE => {
                (Self::Missing, "a data store (PMIX_LOG_GLOBAL_DATASTORE)")
            }
            keys::LOG_MSG => (Self::Missing, "no channel in particular (PMIX_LOG_MSG)"),
            _ => return None,
        })
    }
}

/// The form in which texts are written.
#[derive(Debug, Default)]
pub(super) struct Form {
    /// `true` if only the first working channel gets the text (`PMIX_LOG_ONCE`).
    pub(super) is_once: bool,
    /// The priority of the system log.
    pub(super) priority: u8,
    /// The key and value that identify equal messages, if these are aggregated.
    pub(super) kind: Option<Kind>,
    /// The time that precedes the text.
    stamp: Option<String>,
    /// `true` if the name of the channel precedes the text.
    is_tagged: bool,
}

impl Form {
    /// Reads the directives. The key and value that identify equal messages may also be among the data.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for an invalid priority, and `PMIX_ERR_NOT_SUPPORTED` if XML is required.
    pub(super) fn read(directives: &[Info<'_>], data: &[Info<'_>]) -> Result<Self, Fault> {
        let mut form = Self::default();
        let (mut priority, mut time, mut has_stamp, mut generates) = (None, None, false, false);
        let (mut is_alike, mut key, mut value) = (false, None, None);
        for info in directives.iter().chain(data) {
            let flag = info.truth().is_true();
            match info.key.as_text().as_str() {
                Some(keys::LOG_ONCE) => form.is_once = flag,
                Some(keys::LOG_TAG_OUTPUT) => form.is_tagged = flag,
                Some(keys::LOG_TIMESTAMP_OUTPUT) => has_stamp = flag,
                Some(keys::LOG_GENERATE_TIMESTAMP) => generates = flag,
                Some(keys::LOG_TIMESTAMP) => {
                    time = match info.value {
                        Value::Time(time) => u64::try_from(time).ok(),
                        _ => info.value.to_number().ok(),
                    };
                }
                Some(keys::LOG_SYSLOG_PRI) => {
                    let number = info.value.to_number().map_err(|_| {
                        let why = "PMIX_LOG_SYSLOG_PRI without a number";
                        Fault::new(Status::ERR_BAD_PARAM, why)
                    })?;
                    priority = Some(number);
                }
                Some(keys::LOG_AGG) => is_alike = flag,
                Some(keys::LOG_KEY) => key = text(&info.value),
                Some(keys::LOG_VAL) => value = text(&info.value),
                Some(keys::LOG_XML_OUTPUT) if flag && info.is_required() => {
                    let why = "XML output (PMIX_LOG_XML_OUTPUT) is not supported";
                    return Err(Fault::new(Status::ERR_NOT_SUPPORTED, why));
                }
                _ => {}
            }
        }
        form.priority = syslog::priority(priority).ok_or_else(|| {
            let why = "PMIX_LOG_SYSLOG_PRI is not a priority, expected a number from 0 to 191";
            Fault::new(Status::ERR_BAD_PARAM, why)
        })?;
        let stated = time.and_then(|time| UNIX_EPOCH.checked_add(Duration::from_secs(time)));
        let at = match generates {
            true => SystemTime::now(),
            false => stated.unwrap_or_else(SystemTime::now),
        };
        form.stamp = has_stamp.then(|| pmix_proto::ctime(at));
        form.kind = match (is_alike, key, value) {
            (true, Some(key), Some(value)) => Some((key, value)),
            _ => None,
        };
        Ok(form)
    }

    /// Returns a text in the form for a channel.
    pub(super) fn write(&self, channel: &str, text: Vec<u8>) -> Vec<u8> {
        let stamp = self.stamp.as_ref().map(|stamp| format!("[{stamp}]"));
        let tag = self.is_tagged.then(|| format!("[{channel}]"));
        let front = [stamp, tag].into_iter().flatten().collect::<String>();
        match front.is_empty() {
            true => text,
            false => [format!("{front} ").as_bytes(), &text].concat(),
        }
    }
}

/// Returns the text of a value.
pub(super) fn text(value: &Value<'_>) -> Option<Vec<u8>> {
    match value {
        Value::String(Some(text)) => Some(Text::as_bytes(text).to_vec()),
        Value::ByteObject(bytes) => Some(bytes.to_vec()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(infos: &[Info<'_>]) -> Result<Form, Status> {
        Form::read(infos, &[]).map_err(|fault| fault.status)
    }

    #[test]
    fn a_requested_timestamp_and_tag_precede_the_message() {
        let time = Info::new(keys::LOG_TIMESTAMP, Value::Time(0));
        let plain = read(std::slice::from_ref(&time)).unwrap();
        assert_eq!(plain.write("stdout", b"x".to_vec()), b"x");
        let both = [
            time,
            Info::new(keys::LOG_TIMESTAMP_OUTPUT, true),
            Info::new(keys::LOG_TAG_OUTPUT, true),
        ];
        let both = read(&both).unwrap().write("stdout", b"x\ny".to_vec());
        assert_eq!(both, b"[Thu Jan  1 00:00:00 1970][stdout] x\ny");
        // A time beyond the range of the clock.
        let mad = [
            Info::new(keys::LOG_TIMESTAMP, Value::Time(i64::MAX)),
            Info::new(keys::LOG_TIMESTAMP_OUTPUT, true),
        ];
        assert!(read(&mad).unwrap().write("stdout", vec![]).len() > 20);
    }

    #[test]
    fn invalid_log_directives_are_refused() {
        for priority in [Value::from("x"), Value::Int(-1), Value::Int(192)] {
            let refused = read(&[Info::new(keys::LOG_SYSLOG_PRI, priority)]);
            assert_eq!(refused.err(), Some(Status::ERR_BAD_PARAM));
        }
        assert!(read(&[Info::new(keys::LOG_XML_OUTPUT, true)]).is_ok());
        let xml = Info::new(keys::LOG_XML_OUTPUT, true).required();
        assert_eq!(read(&[xml]).err(), Some(Status::ERR_NOT_SUPPORTED));
    }

    #[test]
    fn messages_are_aggregated_by_key_and_value_on_request() {
        let (key, value) = (Info::new(keys::LOG_KEY, "k"), Info::new(keys::LOG_VAL, "v"));
        let agg = Info::new(keys::LOG_AGG, true);
        assert_eq!(read(&[key.clone(), value.clone()]).unwrap().kind, None);
        let kind = Some((b"k".to_vec(), b"v".to_vec()));
        let all = [agg.clone(), key.clone(), value.clone()];
        assert_eq!(read(&all).unwrap().kind, kind);
        let among_data = Form::read(&[agg], &[key, value]).map_err(|fault| fault.status);
        assert_eq!(among_data.unwrap().kind, kind);
    }
}

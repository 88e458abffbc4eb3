// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attributes of the functions for tools.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", the attributes of `PMIx_tool_init` and
//! `PMIx_tool_attach_to_server`.

use std::time::Duration;

use pmix_tool::{Search, Target};
use pmix_types::{Info, InfoFlags, Nspace, Proc, Rank, Status, Text, Value, keys};

use crate::convert::check_required;
use crate::memory::Result;

/// The default delay between two attempts to connect.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// The attributes that a tool passes to a function.
pub(super) struct ToolAttributes {
    /// The search for the server.
    pub(super) search: Search,
    /// `true` if init must connect to a server.
    pub(super) connects: bool,
    /// `true` if init succeeds without a server.
    pub(super) is_optional: bool,
    /// `true` if the server becomes the primary server.
    pub(super) is_primary: bool,
    /// `true` if the function waits until the server exists.
    pub(super) waits: bool,
    /// The time limit for the connection.
    pub(super) limit: Option<Duration>,
    pub(super) is_launcher: bool,
    /// The name of the tool (`PMIX_TOOL_NSPACE`, `PMIX_TOOL_RANK`).
    pub(super) name: Option<Proc<'static>>,
}

/// The attributes that name a server, the most specific first.
const TARGETS: &[&str] = &[
    keys::SERVER_URI,
    keys::TOOL_ATTACHMENT_FILE,
    keys::SERVER_PIDINFO,
    keys::SERVER_NSPACE,
    keys::CONNECT_TO_SCHEDULER,
    keys::CONNECT_TO_SYS_CONTROLLER,
    keys::CONNECT_TO_SYSTEM,
    keys::CONNECT_SYSTEM_FIRST,
];

impl ToolAttributes {
    /// Reads the attributes of a function. An attribute that the function does not support is ignored unless it is
    /// required.
    pub(super) fn of(function: &str, infos: &[Info<'_>]) -> Result<Self> {
        check_required(function, infos)?;
        let mut attributes = Self {
            search: Search::from_env(),
            connects: true,
            is_optional: false,
            is_primary: false,
            waits: false,
            limit: None,
            is_launcher: false,
            name: None,
        };
        let (mut retries, mut delay) = (0_u32, None);
        let (mut nspace, mut rank) = (None, Rank::new(0));
        for info in infos {
            let value = &info.value;
            match &*info.key.as_text().to_str_lossy() {
                keys::TOOL_DO_NOT_CONNECT => attributes.connects = !flag(value)?,
                keys::TOOL_CONNECT_OPTIONAL => attributes.is_optional = flag(value)?,
                keys::PRIMARY_SERVER => attributes.is_primary = flag(value)?,
                keys::WAIT_FOR_CONNECTION => attributes.waits = flag(value)?,
                keys::LAUNCHER => attributes.is_launcher = flag(value)?,
                keys::TIMEOUT => {
                    attributes.limit = Some(seconds(value)?).filter(|it| !it.is_zero())
                }
                keys::CONNECT_MAX_RETRIES => retries = number(value)?,
                keys::CONNECT_RETRY_DELAY => delay = Some(seconds(value)?),
                keys::TOOL_NSPACE => nspace = Some(Nspace::new(Text::from(text(value)?))),
                keys::TOOL_RANK => rank = rank_of(value)?,
                keys::SERVER_TMPDIR => {
                    attributes.search = attributes.search.server_dir(text(value)?)
                }
                keys::SYSTEM_TMPDIR => {
                    attributes.search = attributes.search.system_dir(text(value)?)
                }
                keys::HOSTNAME | keys::SERVER_HOSTNAME => {
                    attributes.search = attributes.search.host(text(value)?)
                }
                _ => {}
            }
        }
        if let Some(nspace) = nspace {
            attributes.name = Some(Proc::new(nspace, rank));
        }
        if let Some(target) = target(infos)? {
            attributes.search = attributes.search.target(target);
        }
        let delay = delay.unwrap_or(RETRY_DELAY);
        if attributes.waits && retries == 0 {
            retries = tries_within(attributes.limit, delay);
        }
        attributes.search = attributes.search.tries(retries.saturating_add(1), delay);
        Ok(attributes)
    }
}

/// Returns the number of attempts to find a server within a time limit; without a limit, it tries forever.
fn tries_within(limit: Option<Duration>, delay: Duration) -> u32 {
    let Some(limit) = limit else { return u32::MAX };
    let tries = limit.as_millis() / delay.as_millis().max(1);
    u32::try_from(tries).unwrap_or(u32::MAX)
}

fn target(infos: &[Info<'_>]) -> Result<Option<Target>> {
    for key in TARGETS.iter().copied() {
        let Some(info) = infos.iter().find(|info| info.key.is(key)) else {
            continue;
        };
        let value = &info.value;
        return Ok(Some(match key {
            keys::SERVER_URI => Target::Uri(text(value)?),
            keys::TOOL_ATTACHMENT_FILE => Target::File(text(value)?.into()),
            keys::SERVER_PIDINFO => Target::Pid(number(value)?),
            keys::SERVER_NSPACE => Target::Nspace(text(value)?),
            keys::CONNECT_TO_SCHEDULER if flag(value)? => Target::Scheduler,
            keys::CONNECT_TO_SYS_CONTROLLER if flag(value)? => Target::Controller,
            keys::CONNECT_TO_SYSTEM if flag(value)? => Target::System,
            keys::CONNECT_SYSTEM_FIRST if flag(value)? => Target::SystemFirst,
            // A value of `false` names no other server.
            _ => continue,
        }));
    }
    Ok(None)
}

/// Returns the infos for the init of the tool's server: those of the tool except the server to find, and the name of
/// the tool. The server of a launcher accepts tools as well.
pub(super) fn for_server(
    infos: Vec<Info<'static>>,
    name: Option<&Proc<'static>>,
) -> Vec<Info<'static>> {
    let is_launcher = infos
        .iter()
        .any(|info| info.key.is(keys::LAUNCHER) && info.truth().is_true());
    let is_of_server = |info: &Info<'_>| !TARGETS.iter().any(|key| info.key.is(*key));
    let mut kept: Vec<_> = infos.into_iter().filter(is_of_server).collect();
    for info in &mut kept {
        // The init of the tool has already honored what it required.
        info.flags = info.flags.without(InfoFlags::REQD);
    }
    if let Some(name) = name {
        let nspace = Value::String(Some(name.nspace.as_text().clone()));
        kept.push(Info::new(keys::SERVER_NSPACE, nspace));
        kept.push(Info::new(keys::SERVER_RANK, Value::Rank(name.rank)));
    }
    if is_launcher {
        kept.push(Info::new(keys::SERVER_TOOL_SUPPORT, true));
    }
    kept
}

fn flag(value: &Value<'_>) -> Result<bool> {
    value.truth().as_bool().ok_or(Status::ERR_BAD_PARAM)
}

fn text(value: &Value<'_>) -> Result<String> {
    let text = match value {
        Value::String(Some(text)) => text.as_str(),
        Value::Nspace(nspace) => nspace.as_text().as_str(),
        _ => None,
    };
    let text = text.filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or(Status::ERR_BAD_PARAM)
}

fn number(value: &Value<'_>) -> Result<u32> {
    match value {
        Value::Pid(pid) => u32::try_from(*pid).map_err(|_| Status::ERR_BAD_PARAM),
        other => other.to_number().map_err(|_| Status::ERR_BAD_PARAM),
    }
}

fn rank_of(value: &Value<'_>) -> Result<Rank> {
    match value {
        Value::Rank(rank) => Ok(*rank),
        other => number(other).map(Rank::new),
    }
}

/// Reads a time: the Standard uses whole seconds.
fn seconds(value: &Value<'_>) -> Result<Duration> {
    number(value).map(|seconds| Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target_of(infos: &[Info<'_>]) -> Option<Target> {
        target(infos).unwrap()
    }

    #[test]
    fn the_most_specific_attribute_names_the_server() {
        let system = Info::new(keys::CONNECT_TO_SYSTEM, true);
        let pid = Info::new(keys::SERVER_PIDINFO, Value::Pid(7));
        let uri = Info::new(keys::SERVER_URI, "s.0;tcp4://127.0.0.1:1");
        let all = [system.clone(), pid.clone(), uri];
        assert!(matches!(target_of(&all), Some(Target::Uri(_))));
        assert_eq!(target_of(&[system.clone(), pid]), Some(Target::Pid(7)));
        assert_eq!(target_of(&[system]), Some(Target::System));
        let no = Info::new(keys::CONNECT_TO_SYSTEM, false);
        let first = Info::new(keys::CONNECT_SYSTEM_FIRST, true);
        assert_eq!(target_of(&[no, first]), Some(Target::SystemFirst));
        assert_eq!(target_of(&[]), None);
        let scheduler = Info::new(keys::CONNECT_TO_SCHEDULER, true);
        let system = Info::new(keys::CONNECT_TO_SYSTEM, true);
        assert_eq!(target_of(&[system, scheduler]), Some(Target::Scheduler));
        let controller = Info::new(keys::CONNECT_TO_SYS_CONTROLLER, true);
        assert_eq!(target_of(&[controller]), Some(Target::Controller));
    }

    #[test]
    fn attributes_of_a_wrong_type_or_required_and_unknown_are_rejected() {
        let status = |info: Info<'_>| ToolAttributes::of("PMIx_tool_init", &[info]).err();
        let bad = Some(Status::ERR_BAD_PARAM);
        assert_eq!(status(Info::new(keys::SERVER_PIDINFO, Value::Pid(-1))), bad);
        assert_eq!(status(Info::new(keys::SERVER_URI, 3_u32)), bad);
        assert_eq!(status(Info::new(keys::TOOL_DO_NOT_CONNECT, "perhaps")), bad);
        let unsupported = Some(Status::ERR_NOT_SUPPORTED);
        let mut unknown = Info::new("pmix.unknown", true);
        assert_eq!(status(unknown.clone()), None);
        unknown.flags = InfoFlags::REQD;
        assert_eq!(status(unknown), unsupported);
    }

    #[test]
    fn a_wait_for_a_server_lasts_until_its_time_limit() {
        let delay = Duration::from_secs(1);
        assert_eq!(tries_within(Some(Duration::from_secs(5)), delay), 5);
        assert_eq!(tries_within(None, delay), u32::MAX);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of a session, as the agent of a node receives them before it starts.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mio::{Events, Poll};
use pmix_mca::Params;
use preg_core::Preg;

use super::form::environment;
use super::link::Link;
use super::message::{SessionForm, ToNode};
use crate::agent::EVENTS;
use crate::placement::Policy;
use crate::{DebugStops, Diagnosis, Error, Layout, Output, Part, Plan};

/// A function that opens the encoders of maps with values of MCA parameters. The error is a message for the user.
pub type OpenEncoders = fn(Vec<(String, String)>) -> Result<(Params, Preg), String>;

/// The parts of a session that a node determines itself.
pub struct MemberSettings {
    /// Opens the encoders of maps with the parameters of the controller.
    pub open: OpenEncoders,
    /// The [`watcher`](Plan::watcher) of its plan.
    pub watcher: Option<Vec<OsString>>,
    /// The [`wrapper`](Plan::wrapper) of its plan.
    pub wrapper: Option<Vec<OsString>>,
}

/// Waits for the settings of the session. Returns `None` if the link ends before they have arrived.
pub(super) fn await_session(
    link: &mut Link,
    mut poll: Poll,
) -> Result<Option<(SessionForm, Poll)>, Error> {
    let mut events = Events::with_capacity(EVENTS);
    loop {
        link.read();
        match link.take()? {
            Some(ToNode::Session(form)) => return Ok(Some((*form, poll))),
            Some(_) => return Err(Error::request("the first message is not that of a session")),
            None if link.is_closed() => return Ok(None),
            None if link.is_busy() => continue,
            None => {}
        }
        match poll.poll(&mut events, None) {
            Err(e) if e.kind() != std::io::ErrorKind::Interrupted => {
                return Err(Error::system("cannot poll", e));
            }
            _ => link.handle_ready(),
        }
    }
}

/// Returns the plan of the session on this node, without processes.
pub(super) fn plan(form: SessionForm, settings: &MemberSettings) -> Result<Plan, Error> {
    let (params, preg) = (settings.open)(form.params).map_err(Error::request)?;
    let temporary = form.environment.iter().find(|(name, _)| name == "TMPDIR");
    let temporary = temporary.map(|(_, value)| PathBuf::from(value));
    let tmpdir = temporary.filter(|dir| dir.is_dir());
    let nodes = pmix_map::NodeListBuilder::new(preg.limits()).finish();
    let procs = pmix_map::ProcMapBuilder::new(preg.limits()).finish();
    Ok(Plan {
        nspace: form.nspace,
        apps: Vec::new(),
        layout: Layout::of_nodes(&form.host, nodes, procs)?,
        part: Part::Member {
            session: form.session,
            node: form.node,
        },
        policy: Policy::default(),
        cpus: None,
        compat_env: form.compat_env,
        client_library: form.client_library,
        interfaces: form.interfaces,
        stdin_rank: None,
        announce: false,
        diagnosis: Diagnosis {
            measures: form.measures,
            ..Diagnosis::default()
        },
        process_sets: Vec::new(),
        stops: DebugStops::default(),
        environment: environment(form.environment),
        preg: Arc::new(preg),
        params,
        tmpdir: tmpdir.unwrap_or_else(|| "/tmp".into()),
        system_server: None,
        syslog: "/dev/log".into(),
        output: Output::default(),
        timeout: None,
        grace: form.grace,
        keep_going: true,
        adopt: true,
        // All output passes to the controller, and so does the input from it.
        forward_io: true,
        max_spawned: 0,
        max_spawn_depth: 0,
        max_restarts: 0,
        watcher: settings.watcher.clone(),
        wrapper: settings.wrapper.clone(),
    })
}

/// Enters the working directory of the controller, or the home directory if this node does not have it.
pub(super) fn enter(wdir: Option<&Path>, plan: &Plan) {
    let home = plan.environment.iter().find(|(name, _)| name == "HOME");
    let home = home.map(|(_, value)| PathBuf::from(value));
    let places = wdir.map(Path::to_owned).into_iter().chain(home);
    for (index, place) in places.enumerate() {
        match std::env::set_current_dir(&place) {
            Ok(()) if index == 0 => return,
            Ok(()) => return tracing::warn!("programs start in {}", place.display()),
            Err(e) => tracing::warn!("cannot enter {}: {e}", place.display()),
        }
    }
}

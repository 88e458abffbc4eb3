// SPDX-License-Identifier: MIT OR Apache-2.0
//! An intermediate launcher: it applies the directives of the tool that had it started, and waits for its release.
//!
//! | state | behavior |
//! | --- | --- |
//! | the server is ready | `PMIX_LAUNCHER_READY` is raised for peers that register now or later |
//! | waiting | requests of tools are served, spawn requests wait |
//! | released | the job is started, then the jobs of waiting spawn requests |
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", "Indirect launch".

use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::Instant;

use mio::Interest;
use mio::unix::SourceFd;
use pmix_host::helpers::{Task, TaskState};
use pmix_server::upcall::NotifyEvent;
use pmix_types::{Info, Proc, Rank, Status, keys};

use super::events::timestamp;
use super::request::{Refusal, Request};
use super::spawn_hosts::check_processors_here;
use super::spawn_plan::{output_of, policy_of};
use super::tool_wait::{ToolWait, WaitEnd, Waiting};
use super::{Controller, Cx, turn_nodes};
use crate::agent::RELEASE;
use crate::named::Named;
use crate::preparation::JobPlace;
use crate::process::signal_name;
use crate::{Error, Plan, service};

/// The reason for the error if the tool exits before it has released a connected launcher.
const TOOL_GONE: &str = "the tool that started it has exited";

impl Plan {
    /// Applies the directives of the tool that had the launcher started (`PMIX_LAUNCH_DIRECTIVES`) to the plan of the
    /// command line. Directives replace settings of the command line. Changes to variables are applied after those of
    /// the command line, and processes stop at the points of both.
    ///
    /// # Errors
    /// Returns [`Error`] if a directive is invalid or cannot be obeyed for the job of a command line. Examples are
    /// required forwarding while output or input does not pass through the launcher, and more processes than
    /// processors.
    pub fn directed(mut self, directives: &[Info<'static>]) -> Result<Self, Error> {
        let refused = |Refusal { status, why }| Error::refused(status, why);
        let asked = Request::of_launch(directives, self.layout.host()).map_err(refused)?;
        self.check_forwarding(&asked).map_err(refused)?;
        let output = output_of(&asked, &self.output, &self.nspace)?;
        let own = self.output.files.take();
        let files = match asked.output_dir.is_some() || asked.output_file.is_some() {
            true => output.files,
            // The files of the command line keep their names without the nspace: they are for this job alone.
            false => own.map(|own| crate::OutputFiles {
                is_copied: (asked.is_in_files_alone).map_or(own.is_copied, |alone| !alone),
                ..own
            }),
        };
        self.output = crate::Output { files, ..output };
        self.policy = policy_of(&asked, self.policy);
        self.cpus = asked.cpus.clone().or(self.cpus);
        self.timeout = asked.timeout.or(self.timeout);
        self.keep_going = asked.keep_going.unwrap_or(self.keep_going);
        self.announce |= asked.display.map;
        self.max_restarts = asked.max_restarts.unwrap_or(self.max_restarts);
        self.stdin_rank = asked.reader.or(self.stdin_rank);
        check_processors_here(&asked, self.layout.here().len()).map_err(refused)?;
        let (exports, wdir) = asked.of_apps();
        for app in &mut self.apps {
            app.exports.extend(exports.iter().cloned());
            app.wdir = wdir.cloned().or_else(|| app.wdir.take());
        }
        let wanted = asked.debug.stops(&self.apps);
        let here = self.layout.here();
        for point in crate::stops::StopPoint::ALL {
            let ranks = wanted.at(point).iter().copied();
            let ranks = ranks.filter(|rank| here.binary_search(rank).is_ok());
            self.stops.at_mut(point).extend(ranks);
        }
        Ok(self)
    }

    /// Returns an error if the tool requires forwarding, but output and input do not pass through the launcher.
    fn check_forwarding(&self, asked: &Request) -> Result<(), Refusal> {
        if asked.needs_forwarding && !self.forward_io {
            return Err(Refusal::unforwarded());
        }
        match asked.reader {
            Some(Rank::WILDCARD) => Err(Refusal::new(
                Status::ERR_NOT_SUPPORTED,
                "PMIX_FWD_STDIN for all processes is not supported: only one process can read standard input",
            )),
            _ => Ok(()),
        }
    }
}

/// The connection of an intermediate launcher that waits for its release.
pub(crate) struct ReleaseWait {
    /// The time after which the wait fails.
    pub(crate) until: Option<Instant>,
    released_here: Box<dyn FnOnce()>,
    /// The creation of the directories of the first job by a thread, after the release.
    placing: Option<Task<Result<JobPlace, Error>>>,
}

impl Controller {
    /// Begins to wait until the launcher is released. Tools that attach meanwhile are served.
    ///
    /// # Errors
    /// Returns [`Error`] if the stream of the release cannot be polled, or if the connected tool has exited.
    pub(crate) fn begin_wait(
        &mut self,
        cx: &mut Cx<'_>,
        wait: ToolWait,
    ) -> Result<ReleaseWait, Error> {
        let ToolWait {
            tool,
            launcher,
            released,
            ready,
            released_here,
        } = wait;
        let of_tool = tool.as_ref().map(|tool| tool.name.clone());
        let waiting = Waiting::new(launcher, of_tool, released).map_err(cannot_wait)?;
        let fd = waiting.as_raw_fd();
        let registry = cx.agent.poll().registry();
        let watched = registry.register(&mut SourceFd(&fd), RELEASE, Interest::READABLE);
        watched.map_err(cannot_wait)?;
        self.tool_wait = Some(waiting);
        if let Some(tool) = tool {
            let served = cx.agent.add_tool(tool);
            served.map_err(|e| match e.status() {
                // The tool closed its connection before the server took it over.
                Status::ERR_UNREACH => Error::unreleased(TOOL_GONE),
                _ => Error::server("cannot serve the tool that started this launcher", e),
            })?;
        }
        let server = service::name(&cx.plan);
        let infos = [Info::new(keys::EVENT_NON_DEFAULT, true), timestamp()];
        cx.agent.notify(Status::LAUNCHER_READY, &server, &infos);
        ready();
        tracing::info!("{server:?} is waiting for the tool that started this launcher");
        let limit = cx.plan.timeout;
        Ok(ReleaseWait {
            until: limit.and_then(|limit| self.began.checked_add(limit)),
            released_here,
            placing: None,
        })
    }

    /// Returns the place of the first job once the launcher was released and the directories of its job exist.
    ///
    /// # Errors
    /// Returns [`Error`] if the wait was ended by a signal, by the abort of a tool, by the time limit, or by the loss
    /// of the tool or of the server that started the launcher.
    pub(crate) fn advance_wait(
        &self,
        cx: &Cx<'_>,
        wait: &mut ReleaseWait,
    ) -> Result<Option<JobPlace>, Error> {
        let failed = match self.tool_wait.as_ref().and_then(Waiting::end) {
            None => None,
            Some(WaitEnd::Released) => {
                if let Some(place) = self.place_first(cx, &mut wait.placing)? {
                    return Ok(Some(place));
                }
                None
            }
            Some(WaitEnd::ServerLost) => {
                Some("the server that started it has exited without releasing it".to_owned())
            }
            Some(WaitEnd::ToolLost) => Some(TOOL_GONE.to_owned()),
            Some(WaitEnd::Aborted) => Some("a tool aborted it before it was released".to_owned()),
            Some(WaitEnd::Signal(signal)) => {
                let name = signal_name(signal);
                Some(format!("it received {name} before it was released"))
            }
        };
        let is_late = wait.until.is_some_and(|until| Instant::now() >= until);
        let late = || "its time limit expired before it was released".to_owned();
        match failed.or_else(|| is_late.then(late)) {
            Some(why) => Err(Error::unreleased(why)),
            None => Ok(None),
        }
    }

    /// Ends the wait, successful or not, and notifies the server that started the launcher of a release by an attached
    /// tool.
    ///
    /// # Errors
    /// Returns [`Error`] if the stream of the release cannot be removed from the poll.
    pub(crate) fn end_wait(&mut self, cx: &mut Cx<'_>, wait: ReleaseWait) -> Result<(), Error> {
        let Some(waiting) = self.tool_wait.take() else {
            return Ok(());
        };
        if waiting.is_released_here() {
            (wait.released_here)();
        }
        let fd = waiting.as_raw_fd();
        let ended = cx.agent.poll().registry().deregister(&mut SourceFd(&fd));
        ended.map_err(cannot_wait)
    }

    /// Reads the stream of the server that started the launcher.
    pub(crate) fn read_release(&mut self) {
        if let Some(wait) = &mut self.tool_wait {
            wait.read();
        }
    }

    /// Refuses waiting spawns whose time limit passed during the wait. Returns the time of the next call.
    pub(crate) fn advance_waiting(&mut self, cx: &mut Cx<'_>) -> Option<Instant> {
        turn_nodes(cx);
        self.tick_inquiries(cx, Instant::now());
        let late = self.refuse_late(cx, Instant::now());
        cx.agent.turn_removals();
        late
    }

    /// Lets a thread create the directories of the first job, and returns its place once they exist.
    fn place_first(
        &self,
        cx: &Cx<'_>,
        placing: &mut Option<Task<Result<JobPlace, Error>>>,
    ) -> Result<Option<JobPlace>, Error> {
        let task = match placing {
            Some(task) => task,
            None => {
                let make = cx.agent.placing(Arc::clone(&cx.plan), None);
                placing.insert(self.spawning.run(make)?)
            }
        };
        match task.poll() {
            TaskState::Pending => Ok(None),
            TaskState::Done(place) => place.map(Some),
            TaskState::Lost => Err(Error::request("the thread that prepared the job panicked")),
        }
    }

    /// Returns the name of this launcher (its own or that of its server) if it matches and the launcher still waits.
    pub(crate) fn waiting_launcher(&self, cx: &Cx<'_>, name: &[u8]) -> Option<Proc<'static>> {
        let waiting = self
            .tool_wait
            .as_ref()
            .filter(|waiting| waiting.end().is_none())?;
        let server = service::name(&cx.plan);
        let mut names = [Some(server), waiting.launcher().cloned()]
            .into_iter()
            .flatten();
        names.find(|own| own.nspace.as_bytes() == name)
    }

    /// Records a release that reached the server of the launcher during the wait.
    pub(crate) fn release_waiting_launcher(
        &mut self,
        cx: &Cx<'_>,
        call: &NotifyEvent,
        named: &Named<'_>,
        all: bool,
    ) {
        let server = service::name(&cx.plan);
        let Some(waiting) = &mut self.tool_wait else {
            return;
        };
        let launcher = waiting.launcher();
        let is_meant = all
            || named.has(&server.nspace, server.rank)
            || launcher.is_some_and(|own| named.has(&own.nspace, own.rank));
        if is_meant {
            tracing::info!("{:?} released the launcher", call.source);
            waiting.release_here();
        }
    }
}

fn cannot_wait(e: std::io::Error) -> Error {
    Error::system("the launcher cannot wait for its release", e)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use pmix_types::{DataArray, Envar, Value};

    use super::*;
    use crate::{Export, FilePattern, Layout, OutputFiles, OutputForm};

    fn plan() -> Plan {
        Plan {
            timeout: Some(Duration::from_secs(60)),
            stops: crate::DebugStops {
                in_app: [Rank::new(0)].into(),
                ..crate::DebugStops::default()
            },
            ..Plan::of_test(&[2, 1])
        }
    }

    #[test]
    fn directives_of_a_tool_override_the_command_line() {
        let envar = Envar {
            envar: Some("COLOUR".into()),
            value: Some("red".into()),
            separator: b':',
        };
        let one = DataArray::Rank(vec![Rank::new(2), Rank::new(9)]);
        let directives = [
            Info::new(keys::DEBUG_STOP_IN_INIT, true),
            Info::new(keys::DEBUG_STOP_IN_APP, Value::DataArray(one)),
            Info::new(keys::SET_ENVAR, Value::Envar(Box::new(envar))),
            Info::new(keys::TAG_OUTPUT, true),
            Info::new(keys::JOB_TIMEOUT, 5u32),
            Info::new(keys::NOTIFY_JOB_EVENTS, true),
            Info::new("pmix.of.nobody", true),
        ];
        let plan = plan().directed(&directives).unwrap();
        let ranks =
            |ranks: &[u32]| -> BTreeSet<_> { ranks.iter().copied().map(Rank::new).collect() };
        assert_eq!(plan.stops.in_init, ranks(&[0, 1, 2]));
        assert_eq!(plan.stops.in_app, ranks(&[0, 2]));
        assert!(plan.stops.on_exec.is_empty());
        for app in &plan.apps {
            let red = Export::set("COLOUR", "red");
            assert_eq!(app.exports, [red]);
        }
        assert_eq!(plan.output.form, OutputForm::Tagged);
        assert_eq!(plan.timeout, Some(Duration::from_secs(5)));
        assert!(!plan.keep_going);
    }

    #[test]
    fn a_directive_replaces_what_the_command_line_says() {
        let mut of_line = plan();
        for app in &mut of_line.apps {
            app.wdir = Some("/line".into());
        }
        of_line.max_restarts = 9;
        of_line.timeout = Some(Duration::from_secs(60));
        of_line.stdin_rank = Some(Rank::new(0));
        of_line.output.files = Some(OutputFiles {
            dir: "out".into(),
            name: FilePattern::default(),
            is_copied: true,
        });
        let kept = of_line.clone().directed(&[]).unwrap();
        assert_eq!(kept.apps[0].wdir, Some("/line".into()));
        assert_eq!((kept.max_restarts, kept.timeout), (9, of_line.timeout));
        assert_eq!(kept.stdin_rank, Some(Rank::new(0)));
        assert!(kept.output.files.unwrap().is_copied);
        for alone in [keys::IOF_FILE_ONLY, keys::OUTPUT_NOCOPY] {
            let directives = [
                Info::new(keys::WDIR, "/tool"),
                Info::new(keys::MAX_RESTARTS, 1u32),
                Info::new(keys::JOB_TIMEOUT, 600u32),
                Info::new(keys::FWD_STDIN, Value::Rank(Rank::new(2))),
                Info::new(alone, true),
            ];
            let plan = of_line.clone().directed(&directives).unwrap();
            let dirs: Vec<_> = plan.apps.iter().map(|app| app.wdir.clone()).collect();
            assert_eq!(dirs, [Some("/tool".into()), Some("/tool".into())]);
            assert_eq!(plan.max_restarts, 1);
            assert_eq!(plan.timeout, Some(Duration::from_secs(600)));
            assert_eq!(plan.stdin_rank, Some(Rank::new(2)));
            let files = plan.output.files.unwrap();
            assert_eq!((files.dir, files.is_copied), ("out".into(), false));
        }
    }

    #[test]
    fn required_forwarding_is_refused_unless_io_passes_through_the_launcher() {
        for key in [
            keys::FWD_STDOUT,
            keys::FWD_STDERR,
            keys::FWD_STDDIAG,
            keys::FWD_STDIN,
        ] {
            plan().directed(&[Info::new(key, true)]).unwrap();
            let required = [Info::new(key, true).required()];
            let error = plan().directed(&required).err().unwrap();
            assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED, "{key}");
            assert!(error.to_string().contains("--forward-io"), "{error}");
            let mut forwarding = plan();
            forwarding.forward_io = true;
            forwarding.directed(&required).unwrap();
            plan()
                .directed(&[Info::new(key, false).required()])
                .unwrap();
        }
        let all = [Info::new(keys::FWD_STDIN, Value::Rank(Rank::WILDCARD))];
        let error = plan().directed(&all).err().unwrap();
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED, "{error}");
    }

    #[test]
    fn a_no_oversubscribe_directive_bounds_the_processes() {
        let most = super::super::node::num_processors();
        let of = |num_procs| {
            let mut plan = plan();
            plan.layout = Layout::on_one_node(b"n1", num_procs).unwrap();
            plan.apps.truncate(1);
            plan.apps[0].num_procs = num_procs;
            plan.stops = crate::DebugStops::default();
            plan
        };
        for directive in [
            Info::new(keys::MAPBY, "slot:NOOVERSUBSCRIBE"),
            Info::new(keys::NO_OVERSUBSCRIBE, true),
        ] {
            let directives = std::slice::from_ref(&directive);
            of(most).directed(directives).unwrap();
            let error = of(most + 1).directed(directives).err().unwrap();
            assert_eq!(error.status(), Status::ERR_JOB_FAILED_TO_MAP, "{error}");
        }
        of(most + 1)
            .directed(&[Info::new(keys::MAPBY, "slot")])
            .unwrap();
    }

    #[test]
    fn directives_unsupported_for_a_command_line_job_are_refused_by_name() {
        for (info, status) in [
            (Info::new(keys::PREFIX, "/opt"), Status::ERR_NOT_SUPPORTED),
            (
                Info::new(keys::EXEC_AGENT, "nice"),
                Status::ERR_NOT_SUPPORTED,
            ),
            (
                Info::new(keys::DEBUGGER_DAEMONS, true),
                Status::ERR_NOT_SUPPORTED,
            ),
            (
                Info::new("pmix.of.nobody", true).required(),
                Status::ERR_NOT_SUPPORTED,
            ),
            (Info::new(keys::JOB_TIMEOUT, "soon"), Status::ERR_BAD_PARAM),
        ] {
            let error = plan().directed(std::slice::from_ref(&info)).err().unwrap();
            assert_eq!((error.status(), error.exit_code()), (status, 2), "{error}");
        }
        let error = plan().directed(&[Info::new(keys::EXEC_AGENT, "nice")]);
        let error = error.err().unwrap().to_string();
        assert!(
            error.contains("PMIX_EXEC_AGENT among PMIX_LAUNCH_DIRECTIVES"),
            "{error}"
        );
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A launcher: starts the processes of a job, on one node or several, watches them, and cleans up.
//!
//! A [`Plan`] describes the job. [`launch`] starts it, forwards output and signals, and returns the [`Outcome`] when
//! nothing of the job is left: no process, no descendant of a process, no file of the session. One thread waits for
//! all events.
//!
//! The launcher is also the host of a [`pmix_server::Server`] to which the processes connect. It registers the job by
//! its two maps, keeps published data, terminates the job after `PMIx_Abort`, and serves the requests that only a
//! launcher can serve.
//!
//! On other nodes, agents start the processes ([`Part::Controller`], [`serve_as_member`]). The launcher does not share a
//! node with other launchers, and does not read its own environment: the caller passes the variables in the plan.
//!
//! ```no_run
//! use std::os::fd::AsFd as _;
//! use std::sync::Arc;
//! use std::time::Duration;
//! use pmix_launch::{App, Layout, Output, Plan, Policy, Standard, launch};
//!
//! let app = App {
//!     program: "hostname".into(),
//!     args: Vec::new(),
//!     num_procs: 4,
//!     wdir: None,
//!     exports: Vec::new(),
//! };
//! let params = pmix_mca::Params::default();
//! let plan = Plan {
//!     nspace: "job@1".to_owned(),
//!     layout: Layout::on_one_node(b"n1", app.num_procs)?,
//!     part: pmix_launch::Part::Alone,
//!     apps: vec![app],
//!     policy: Policy::default(),
//!     environment: vec![("PATH".into(), "/usr/bin:/bin".into())].into(),
//!     preg: Arc::new(pmix_builtin::open_preg(&params)?),
//!     params,
//!     tmpdir: "/tmp".into(),
//!     syslog: "/dev/log".into(),
//!     output: Output::default(),
//!     timeout: None,
//!     grace: Duration::from_secs(2),
//!     keep_going: false,
//!     adopt: true,
//!     forward_io: false,
//!     max_spawned: 1024,
//!     max_spawn_depth: 32,
//!     max_restarts: 0,
//!     system_server: None,
//!     watcher: None,
//!     wrapper: None,
//!     cpus: None,
//!     compat_env: true,
//!     interfaces: pmix_launch::Interfaces::default(),
//!     client_library: None,
//!     stdin_rank: Some(pmix_types::Rank::new(0)),
//!     announce: false,
//!     diagnosis: pmix_launch::Diagnosis::default(),
//!     process_sets: Vec::new(),
//!     stops: pmix_launch::DebugStops::default(),
//! };
//! let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
//! let standard = Standard {
//!     input: input.as_fd(),
//!     output: output.as_fd(),
//!     errors: errors.as_fd(),
//! };
//! let outcome = launch(&plan, standard, None)?;
//! std::process::exit(outcome.exit_code().into());
//! # #[allow(unreachable_code)]
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod agent;
mod control_group;
mod controller;
mod division;
mod environment;
mod error;
mod figures;
mod host;
mod input;
mod job_info;
mod layout;
mod named;
mod nodes;
mod null;
mod outcome;
mod output;
mod pending;
mod placement;
mod plan;
mod preparation;
mod process;
mod process_dirs;
mod run;
mod service;
mod session_dir;
mod signals;
mod stacks;
mod stops;
mod topology;

pub use controller::{PAUSE_FOR_TOOL, ToolWait};
pub use division::{DividedRanks, Division, NodeSlots, TooFewSlots};
pub use environment::Export;
pub use error::Error;
pub use figures::{QUERY_FIGURES, ServerFigures};
pub use layout::Layout;
pub use nodes::{MemberSettings, OpenEncoders, serve_as_member};
pub use outcome::{Cause, Culprit, FenceOutcome, GroupOutcome, JobOutcome, Outcome, RankOutcome};
pub use output::{FilePattern, Standard};
pub use pending::{PendingOperation, PendingOperations, ProcRuns, QUERY_PENDING};
pub use placement::{MapBy, Policy, place};
pub use plan::{
    Agents, App, Diagnosis, Interfaces, Output, OutputFiles, OutputForm, Part, Plan, ProcessSet,
    PseudoTerminals,
};
pub use pmix_mpir::is_being_debugged;
pub use process::{Ending, end_with_launcher, exec_wrapped, signal_number};
pub use run::{launch, launch_for_tool};
pub use stacks::{QUERY_STACKS, stack_of_process};
pub use stops::DebugStops;
pub use topology::this_machine;

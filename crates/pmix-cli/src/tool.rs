// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands that attach to a running server as a tool.

mod ask;
mod attach;
mod diagnose;
mod events;
mod fleet;
mod job;
mod names;
mod node;
mod pending;
mod ps;
mod publish;
mod query;
mod stacks;
mod top;

use std::time::Duration;

use pmix_tool::{ClientEvent, FoundServer, Search, Target, Tool};
use pmix_types::Status;

use crate::args::Attach;
use crate::failure::{Exit, Failure};
use job::find_job;

pub(crate) use attach::run as attach_to;
pub(crate) use diagnose::{JobDiagnosis, diagnose};
pub(crate) use events::run as events;
pub(crate) use job::{kill, release};
pub(crate) use names::job_names;
pub(crate) use ps::run as ps;
pub(crate) use publish::{lookup, publish};
pub(crate) use query::run as query;
pub(crate) use top::run as top;

/// The maximum number of servers that are queried concurrently.
const AT_ONCE: usize = 32;

/// The maximum length in bytes of a reply: the table of half a million processes.
const MAX_REPLY_BYTES: u32 = 32 << 20;

/// The maximum length in bytes of a reply of another user's server. Root may attach to many of them at once.
const MAX_REPLY_BYTES_OF_OTHERS: u32 = 8 << 20;

/// Returns the server that the options select, or `None` without a selection.
fn target(args: &Attach) -> Option<Target> {
    if let Some(pid) = args.pid {
        return Some(Target::Pid(pid));
    }
    if let Some(name) = &args.server {
        return Some(Target::Nspace(name.clone()));
    }
    if let Some(uri) = &args.uri {
        return Some(Target::Uri(uri.clone()));
    }
    if let Some(path) = &args.file {
        return Some(Target::File(path.clone()));
    }
    match (args.system, args.session) {
        (true, _) => Some(Target::System),
        (_, true) => Some(Target::Session),
        _ => None,
    }
}

/// Returns the search for servers of this user, and for root of all users.
fn search() -> Search {
    Search::from_env().all_users()
}

/// The maximum number of servers of other users that root follows at one time.
const MAX_FOLLOWED_OF_OTHERS: usize = 64;

/// The maximum length in bytes of a message of another user's server that is followed with others, and of its messages
/// that wait. A reply takes at most eight times its length, so all of them take less than 512 MiB.
const MAX_FOLLOWED_BYTES_OF_OTHERS: u32 = 512 << 10;

/// Finds the server that the options select. Without options, this is a server of this user: any user can start a server
/// that would otherwise be the default of root.
fn find(args: &Attach) -> Result<FoundServer, Failure> {
    if target(args).is_some() {
        return find_for(args, None);
    }
    search_for(Search::from_env(), args, None).map_err(|failure| {
        match failure.status() == Status::ERR_UNREACH {
            true => of_others_only().unwrap_or(failure),
            false => failure,
        }
    })
}

/// The maximum number of servers that a message names.
const MAX_NAMED: usize = 16;

/// Returns the failure of root that has no server of its own, if other users have servers.
fn of_others_only() -> Option<Failure> {
    let servers = search().list().servers;
    let others: Vec<_> = servers
        .iter()
        .filter(|server| server.owner.is_some())
        .collect();
    let mut message = format!(
        "no server of this user has a rendezvous file; {} of other users:",
        match others.len() {
            0 => return None,
            1 => "1 server".to_owned(),
            number => format!("{number} servers"),
        }
    );
    for server in others.iter().take(MAX_NAMED) {
        message += &format!("\n  {}", node::describe(server));
    }
    if let Some(more @ 1..) = others.len().checked_sub(MAX_NAMED) {
        message += &format!("\n  and {more} more");
    }
    let failure = Failure::new(Exit::Negative, Status::ERR_UNREACH, message);
    Some(failure.cure("select one with --server NAME or --pid N; `pmix ps` lists their jobs"))
}

/// Finds the server that the options select, else one of this user. Data of root do not go to another user's server
/// unless an option names its process or its file: any user can choose the name of a server.
fn find_own(args: &Attach) -> Result<FoundServer, Failure> {
    match target(args) {
        Some(Target::Pid(_) | Target::File(_)) => find(args),
        _ => search_for(Search::from_env(), args, None),
    }
}

/// The advice if no server was found.
const NO_SERVER: &str = "start a job, for example with `pmix run -n 2 PROGRAM`, and run this command as the same user, on the \
    same node and with the same TMPDIR; `pmix doctor` checks the directories";

/// Finds the server that the options select, for a job.
fn find_for(args: &Attach, nspace: Option<&str>) -> Result<FoundServer, Failure> {
    search_for(search(), args, nspace)
}

fn search_for(search: Search, args: &Attach, nspace: Option<&str>) -> Result<FoundServer, Failure> {
    let found = search.target(target(args).unwrap_or_default()).find();
    found.map_err(|error| match (error.status(), nspace) {
        (Status::ERR_BAD_PARAM, _) => Failure::from(error)
            .cure("select one with --pid N or --server NAME; `pmix ps` lists their jobs"),
        (status @ Status::ERR_UNREACH, Some(nspace)) => {
            let message =
                format!("no server has a job {nspace:?}; it may have ended: {error} ({status})");
            Failure::new(Exit::Negative, status, message).cure(NO_SERVER)
        }
        (Status::ERR_UNREACH, None) => Failure::from(error).cure(NO_SERVER),
        _ => error.into(),
    })
}

/// Attaches to a server.
fn attach(found: &FoundServer, args: &Attach) -> Result<Tool, Failure> {
    attach_with(found, args, |_| {})
}

/// Attaches to a server that is followed with others. Its unsolicited messages are passed to a listener.
fn attach_to_each(
    found: &FoundServer,
    args: &Attach,
    listener: impl FnMut(ClientEvent) + Send + 'static,
) -> Result<Tool, Failure> {
    let tool = Tool::new().time_limit(args.timeout);
    let mut tool = match found.owner {
        Some(_) => tool
            .max_reply_bytes(MAX_FOLLOWED_BYTES_OF_OTHERS)
            .max_unread_bytes(MAX_FOLLOWED_BYTES_OF_OTHERS as usize),
        None => tool.max_reply_bytes(MAX_REPLY_BYTES),
    };
    tool.attach(found, listener)?;
    Ok(tool)
}

/// Attaches to a server. Its unsolicited messages are passed to a listener.
fn attach_with(
    found: &FoundServer,
    args: &Attach,
    listener: impl FnMut(ClientEvent) + Send + 'static,
) -> Result<Tool, Failure> {
    attach_within(found, args.timeout, listener)
}

/// Attaches to a server, with a time limit for each reply.
fn attach_within(
    found: &FoundServer,
    limit: Duration,
    listener: impl FnMut(ClientEvent) + Send + 'static,
) -> Result<Tool, Failure> {
    let max_reply_bytes = match found.owner {
        Some(_) => MAX_REPLY_BYTES_OF_OTHERS,
        None => MAX_REPLY_BYTES,
    };
    let mut tool = Tool::new()
        .time_limit(limit)
        .max_reply_bytes(max_reply_bytes);
    tool.attach(found, listener)?;
    Ok(tool)
}

/// Returns `true` if a status is a reply of the server, `false` if it means that the server was not
/// reached.
fn is_answer(status: Status) -> bool {
    !matches!(
        status,
        Status::ERR_UNREACH | Status::ERR_TIMEOUT | Status::ERR_LOST_CONNECTION
    )
}

/// Warns about messages of a server that were dropped because they were not read in time.
fn warn_of_lost(num_lost: u64, what: &str) {
    if num_lost > 0 {
        tracing::warn!("{num_lost} {what} were lost because they were not read in time");
    }
}

/// Finalizes a tool. A failure is only logged, because the server has already replied.
fn leave(tool: Tool) {
    if let Err(error) = tool.finalize() {
        tracing::debug!(%error, "the server did not confirm the disconnect");
    }
}

impl From<pmix_tool::Error> for Failure {
    /// Converts a missing server or an error reply.
    fn from(error: pmix_tool::Error) -> Self {
        let message = format!("{error} ({})", error.status());
        Self::new(Exit::Negative, error.status(), message)
    }
}

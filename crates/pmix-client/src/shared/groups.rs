// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups in the client for many threads, and the decisions of the program.

use std::fmt;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use pmix_types::{Info, IntoOwned as _, Proc, Status, Text, keys};

use super::state::Slot;
use super::{Shared, SharedClient, lock};
use crate::ask::{Ask, taken};
use crate::core::{Answer, Core, OperationId};
use crate::group::{Question, each, limit};
use crate::{Decision, Error, Group};

/// The callback of a group operation.
type Then = Box<dyn FnOnce(Result<Group, Error>) + Send>;

/// The interface for the program's decision about a group; see [`ClientEvent::Group`](crate::ClientEvent::Group). If it
/// is dropped without a decision, the group is formed without the process if `PMIX_GROUP_OPTIONAL` was given, and is
/// aborted otherwise.
#[derive(Clone)]
pub struct GroupDecision(Arc<Asked>);

struct Asked {
    client: Weak<Shared>,
    question: Question,
    is_decided: AtomicBool,
}

impl GroupDecision {
    pub(super) fn new(client: &Weak<Shared>, question: Question) -> Self {
        Self(Arc::new(Asked {
            client: Weak::clone(client),
            question,
            is_decided: AtomicBool::new(false),
        }))
    }

    /// Takes the decision; only the first one counts. Whole jobs are replaced by their processes.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for a [`Decision::Invite`] with an empty list, an invalid rank, or a process that
    /// was invited before. Returns `PMIX_ERR_OUT_OF_RESOURCE` for more than 1,048,576 processes, and an error if the
    /// size of a job is unknown. The question remains open then.
    pub fn decide(&self, mut decision: Decision) -> Result<(), Error> {
        let asked = &self.0;
        let Some(shared) = asked.client.upgrade() else {
            return Ok(());
        };
        if let Decision::Invite(procs) = &mut decision {
            let size = |job: &Proc<'_>| shared.get(job, &keys::JOB_SIZE.into(), &[]);
            *procs = each(procs, size)?;
        }
        asked.decide(&shared, Some(decision))
    }
}

impl Asked {
    /// Applies a decision unless there was one before.
    fn decide(&self, shared: &Shared, decision: Option<Decision>) -> Result<(), Error> {
        shared.change(|state| {
            if self.is_decided.load(Ordering::Acquire) {
                return Ok(());
            }
            let now = Instant::now();
            state.core.decide(&self.question, decision, now)?;
            self.is_decided.store(true, Ordering::Release);
            Ok(())
        })
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !*self.is_decided.get_mut()
            && let Some(shared) = self.client.upgrade()
        {
            // The question is resolved without a decision, so an error has no consequence.
            let _ = self.decide(&shared, None);
        }
    }
}

impl PartialEq for GroupDecision {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for GroupDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GroupDecision")
            .field(&self.0.question)
            .finish()
    }
}

impl SharedClient {
    /// Returns the request to destruct a group, for [`wait`](Self::wait) or [`start`](Self::start). Each member must
    /// send it (`PMIx_Group_destruct`).
    pub fn group_destruct<'a>(&self, group: Text<'a>, infos: Vec<Info<'a>>) -> Ask<'a> {
        let procs = lock(&self.0.state).core.members(&group);
        Ask::group_destruct(group, procs, infos)
    }

    /// Aborts the invitation to a group, or the wait for a group that this process joins; all participants are
    /// notified. Does nothing if there is none.
    pub fn group_abort(&self, name: &Text<'_>) {
        let now = Instant::now();
        self.0.change(|state| state.core.group_abort(name, now));
    }

    /// Invites processes to a group that this process leads, and waits until all have answered; see
    /// [`Client::group_invite`](crate::Client::group_invite). If a process declines or is lost, the listener first gets
    /// a [`ClientEvent::Group`](crate::ClientEvent::Group).
    ///
    /// ```no_run
    /// use pmix_client::{ClientEvent, Decision, Settings, SharedClient};
    /// use pmix_types::{Info, keys};
    ///
    /// let client = SharedClient::init(Settings::from_env()?, |event| {
    ///     if let ClientEvent::Group(event, decision) = event {
    ///         println!("not with {:?}", event.source);
    ///         decision.decide(Decision::GoOnWithout).expect("no invitation is open");
    ///     }
    /// })?;
    /// let limit = [Info::new(keys::TIMEOUT, 30)];
    /// let group = client.group_invite(&"ocean".into(), &[client.job()], &limit)?;
    /// println!("{} members", group.members.len());
    /// # Ok::<(), pmix_client::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Client::group_invite`](crate::Client::group_invite), and `PMIX_ERR_WOULD_BLOCK` in a
    /// callback. `pmix.timeout` is the only time limit.
    pub fn group_invite(
        &self,
        name: &Text<'_>,
        procs: &[Proc<'_>],
        infos: &[Info<'_>],
    ) -> Result<Group, Error> {
        self.wait_for_group(|then| self.start_group_invite(name, procs, infos, then))
    }

    /// Invites processes to a group that this process leads. The callback thread calls `then` once, with the group or
    /// an error.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for an invalid name, list or time, an error if the size of a job is unknown, and
    /// `PMIX_ERR_UNREACH` if the connection is lost. `then` is not called then.
    pub fn start_group_invite(
        &self,
        name: &Text<'_>,
        procs: &[Proc<'_>],
        infos: &[Info<'_>],
        then: impl FnOnce(Result<Group, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let size = |job: &Proc<'_>| self.get(job, &keys::JOB_SIZE.into(), &[]);
        let procs = each(procs, size)?;
        let name = name.clone().into_owned();
        self.begin_group(infos, Box::new(then), |core, end, now| {
            core.invite(name, procs, infos, end, now)
        })
    }

    /// Accepts the invitation of a leader, and waits until the group is formed; see
    /// [`Client::group_join`](crate::Client::group_join). [`Ask::group_decline`] declines it, with the leader from
    /// [`invited_by`](Self::invited_by).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Client::group_join`](crate::Client::group_join), and `PMIX_ERR_WOULD_BLOCK` in a
    /// callback. `pmix.timeout` is the only time limit.
    pub fn group_join<'l>(
        &self,
        name: &Text<'_>,
        leader: impl Into<Option<&'l Proc<'l>>>,
        infos: &[Info<'_>],
    ) -> Result<Group, Error> {
        let leader = leader.into();
        self.wait_for_group(|then| self.start_group_join(name, leader, infos, then))
    }

    /// Accepts the invitation of a leader. The callback thread calls `then` once, with the group or an error. Callbacks
    /// may call this function.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for an invalid name, leader or time, and `PMIX_ERR_UNREACH` if the connection is
    /// lost. `then` is not called then.
    pub fn start_group_join<'l>(
        &self,
        name: &Text<'_>,
        leader: impl Into<Option<&'l Proc<'l>>>,
        infos: &[Info<'_>],
        then: impl FnOnce(Result<Group, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let (name, leader) = (name.clone().into_owned(), leader.into());
        self.begin_group(infos, Box::new(then), |core, end, now| {
            core.join(name, leader, infos, end, now)
        })
    }

    /// Returns the leader of the last unanswered invitation (`PMIX_GROUP_INVITED`) to a group of this name.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if there is none.
    pub fn invited_by(&self, name: &Text<'_>) -> Result<Proc<'static>, Error> {
        lock(&self.0.state).core.leader_of(name, None)
    }

    fn wait_for_group(
        &self,
        begin: impl FnOnce(Then) -> Result<(), Error>,
    ) -> Result<Group, Error> {
        if self.0.worker.is_current() {
            let message = "a callback cannot block until invitations are answered";
            return Err(Error::new(Status::ERR_WOULD_BLOCK, message));
        }
        let (sender, receiver) = self.sender()?;
        begin(Box::new(move |outcome| sender.send(outcome)))?;
        self.receive(&receiver).ok_or_else(lost)?
    }

    /// Begins an operation that needs events, so a thread must read.
    fn begin_group(
        &self,
        infos: &[Info<'_>],
        then: Then,
        begin: impl FnOnce(&mut Core, Option<Instant>, Instant) -> Result<OperationId, Error>,
    ) -> Result<(), Error> {
        let now = Instant::now();
        let end = limit(infos)?.and_then(|limit| now.checked_add(limit));
        self.0.worker.begin()?;
        self.listen()?;
        let group = |answer| match answer {
            Answer::Group(group) => Some(group),
            _ => None,
        };
        let then = Slot::Callback(Box::new(move |answer| then(taken(group, answer))));
        self.0.begin(then, |core| begin(core, end, now))?;
        Ok(())
    }
}

fn lost() -> Error {
    Error::lost(
        "lost the connection to the server",
        ErrorKind::ConnectionAborted.into(),
    )
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups for many threads: calls, and the decisions of the program.

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

/// What is called when an operation has ended.
type Then = Box<dyn FnOnce(Result<Group, Error>) + Send>;

/// Takes the decision how the construction of a group goes on; see
/// [`ClientEvent::Group`](crate::ClientEvent::Group). Who drops it without a word has no opinion: the group
/// is then formed without the process if that was allowed, and otherwise not.
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

    /// Says how to go on; only the first decision counts. Of whole jobs each process is invited.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a [`Decision::Invite`] of nobody, of a rank that is none, or of a process
    /// that was invited already, `PMIX_ERR_OUT_OF_RESOURCE` for more than 1,048,576 processes, and that the
    /// size of a job is not known. Nothing is decided then.
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
    /// Goes on, unless it was decided already.
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
            // Without a decision there is nothing to refuse.
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
    /// Joins the destruction of a group; all of its members must (`PMIx_Group_destruct`). To be given to
    /// [`wait`](Self::wait) or [`start`](Self::start).
    pub fn group_destruct<'a>(&self, group: Text<'a>, infos: Vec<Info<'a>>) -> Ask<'a> {
        let procs = lock(&self.0.state).core.members(&group);
        Ask::group_destruct(group, procs, infos)
    }

    /// Ends the invitation to a group, or the wait for the group that was joined; all who take part are
    /// told. Nothing happens if there is none.
    pub fn group_abort(&self, name: &Text<'_>) {
        let now = Instant::now();
        self.0.change(|state| state.core.group_abort(name, now));
    }

    /// Invites processes to a group that this one leads, and waits until all have answered; see
    /// [`Client::group_invite`](crate::Client::group_invite). Who declines or is lost comes as
    /// [`ClientEvent::Group`](crate::ClientEvent::Group) first.
    ///
    /// ```no_run
    /// use pmix_client::{ClientEvent, Decision, Settings, SharedClient};
    /// use pmix_types::{Info, keys};
    ///
    /// let client = SharedClient::init(Settings::from_env()?, |event| {
    ///     if let ClientEvent::Group(event, decision) = event {
    ///         println!("not with {:?}", event.source);
    ///         decision.decide(Decision::GoOnWithout).expect("nobody is invited");
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
    /// As [`Client::group_invite`](crate::Client::group_invite), without a limit but `pmix.timeout`;
    /// `PMIX_ERR_WOULD_BLOCK` in a callback.
    pub fn group_invite(
        &self,
        name: &Text<'_>,
        procs: &[Proc<'_>],
        infos: &[Info<'_>],
    ) -> Result<Group, Error> {
        self.wait_for_group(|then| self.start_group_invite(name, procs, infos, then))
    }

    /// Invites processes to a group that this one leads. The callback thread calls `then` once, when the
    /// group is formed or not.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a bad name, list or time; that the size of a job is not known, or the loss of
    /// the connection to the server. `then` is not called then.
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
    /// [`Client::group_join`](crate::Client::group_join). [`Ask::group_decline`] declines, for which
    /// [`invited_by`](Self::invited_by) tells the leader.
    ///
    /// # Errors
    ///
    /// As [`Client::group_join`](crate::Client::group_join), without a limit but `pmix.timeout`;
    /// `PMIX_ERR_WOULD_BLOCK` in a callback.
    pub fn group_join<'l>(
        &self,
        name: &Text<'_>,
        leader: impl Into<Option<&'l Proc<'l>>>,
        infos: &[Info<'_>],
    ) -> Result<Group, Error> {
        let leader = leader.into();
        self.wait_for_group(|then| self.start_group_join(name, leader, infos, then))
    }

    /// Accepts the invitation of a leader. The callback thread calls `then` once, when the group is
    /// formed or not. Callbacks may call this.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a bad name, leader or time; the loss of the connection to the server. `then` is
    /// not called then.
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

    /// Returns who invited this process to a group of a name: the last of those that it heard of, as
    /// `PMIX_GROUP_INVITED`, and has not answered.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if it heard of none.
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

    /// Begins an operation, of whose events the server is asked to tell.
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invitations to groups for many threads: the callback thread takes events in, sends what follows and
//! ends operations.

use std::collections::HashMap;
use std::fmt;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Instant;

use pmix_types::{Info, IntoOwned as _, Proc, Status, Text, keys};

use super::{Ask, ClientEvent, Shared, SharedClient, lock};
use crate::group::{HEARD, OpId, Operations, Question, Step, each, hears_all_the_same, limit};
use crate::{Decision, Error, Group};

/// What is called when an operation has ended.
type Then = Box<dyn FnOnce(Result<Group, Error>) + Send>;

/// The invitations and joins of all threads.
pub(super) struct SharedGroups {
    state: Mutex<State>,
    client: OnceLock<Weak<Shared>>,
}

struct State {
    operations: Operations,
    thens: HashMap<OpId, Then>,
    registration: Registration,
}

/// Whether the server tells of the events of groups.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Registration {
    None,
    Asked,
    Done,
}

/// Takes the decision how the construction of a group goes on; see [`ClientEvent::Group`]. Who drops it
/// without a word has no opinion: the group is then formed without the process if that was allowed, and
/// otherwise not.
#[derive(Clone)]
pub struct GroupDecision(Arc<Asked>);

struct Asked {
    client: Weak<Shared>,
    question: Question,
    is_decided: AtomicBool,
}

impl GroupDecision {
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
            let client = SharedClient(Arc::clone(&shared));
            let size = |job: &Proc<'_>| client.get(job, &keys::JOB_SIZE.into(), &[]);
            *procs = each(procs, size)?;
        }
        if !asked.is_decided.load(Ordering::Acquire) {
            let state = shared.groups.lock();
            state.operations.check(&asked.question, &decision)?;
        }
        asked.decide(Some(decision));
        Ok(())
    }
}

impl Asked {
    fn decide(&self, decision: Option<Decision>) {
        if self.is_decided.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(client) = self.client.upgrade() {
            let state = &client.groups;
            state.lock().operations.decide(&self.question, decision);
            client.post_pump();
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.decide(None);
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

impl SharedGroups {
    pub(super) fn new(operations: Operations) -> Self {
        Self {
            state: Mutex::new(State {
                operations,
                thens: HashMap::new(),
                registration: Registration::None,
            }),
            client: OnceLock::new(),
        }
    }

    pub(super) fn belong_to(&self, client: &Arc<Shared>) {
        // It is said once.
        let _ = self.client.set(Arc::downgrade(client));
    }

    pub(super) fn learn(&self, group: &Group) {
        self.lock().operations.learn(group);
    }

    /// Takes in what came unasked; tells whether the program is not to hear of it as of any other. The
    /// caller is the callback thread.
    pub(super) fn hear(&self, come: &ClientEvent) -> bool {
        let is_taken = {
            let operations = &mut self.lock().operations;
            match come {
                ClientEvent::Event(event) if operations.wants(event) => operations.hear(event),
                ClientEvent::Lost => {
                    let broken = ErrorKind::ConnectionAborted.into();
                    operations.lose(&Error::lost("the server was lost", broken));
                    false
                }
                _ => return false,
            }
        };
        if let Some(client) = self.client.get().and_then(Weak::upgrade) {
            client.pump();
        }
        is_taken
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// An operation could not begin. Tells whether its caller is still to be told so; others that wait for
    /// the server to tell of events fail with it.
    fn not_begun(&mut self, op: OpId, registration: Registration, error: &Error) -> bool {
        let is_own = self.thens.remove(&op).is_some();
        if is_own {
            self.operations.give_up(op);
        }
        if registration == Registration::None {
            self.registration = Registration::None;
            self.operations.fail(error);
        }
        is_own
    }
}

impl Shared {
    /// Does what is to be done. The caller is the callback thread, so that it is done in order.
    fn pump(self: &Arc<Self>) {
        loop {
            let Some(step) = self.groups.lock().operations.poll() else {
                return;
            };
            match step {
                Step::Notify(of, event) => {
                    let ask = Ask::notify(event.status, event.range, event.infos);
                    self.say(ask, of);
                }
                Step::Leave(name) => self.say(Ask::group_leave(name, Vec::new()), None),
                Step::Ask(question, event) => {
                    let decision = GroupDecision(Arc::new(Asked {
                        client: Arc::downgrade(self),
                        question,
                        is_decided: AtomicBool::new(false),
                    }));
                    self.worker.tell(ClientEvent::Group(event, decision));
                }
                Step::Tell(event) => self.worker.tell(ClientEvent::Event(event)),
                Step::End(op, outcome) => {
                    let then = self.groups.lock().thens.remove(&op);
                    if let Some(then) = then {
                        then(outcome);
                    }
                }
            }
        }
    }

    /// Sends something; what becomes of it is for an operation.
    fn say(self: &Arc<Self>, ask: Ask<'static>, of: Option<OpId>) {
        let shared = Arc::clone(self);
        let told = move |sent: Result<(), Error>| {
            if let Some(of) = of {
                shared.groups.lock().operations.sent(of, sent);
                shared.pump();
            }
        };
        let begun = SharedClient(Arc::clone(self)).start(ask, told);
        if let (Err(error), Some(of)) = (begun, of) {
            self.groups.lock().operations.sent(of, Err(error));
        }
    }

    fn post_pump(self: &Arc<Self>) -> bool {
        let shared = Arc::clone(self);
        self.worker.post(Box::new(move || shared.pump()))
    }
}

impl SharedClient {
    /// Joins the destruction of a group; all of its members must (`PMIx_Group_destruct`). To be given to
    /// [`wait`](Self::wait) or [`start`](Self::start).
    pub fn group_destruct<'a>(&self, group: Text<'a>, infos: Vec<Info<'a>>) -> Ask<'a> {
        let procs = self.0.groups.lock().operations.forget(&group);
        Ask::group_destruct(group, procs, infos)
    }

    /// Ends the invitation to a group, or the wait for the group that was joined; all who take part are
    /// told. Nothing happens if there is none.
    pub fn group_abort(&self, name: &Text<'_>) {
        self.0.groups.lock().operations.abort_named(name);
        self.0.post_pump();
    }

    /// Invites processes to a group that this one leads, and waits until all have answered; see
    /// [`Client::group_invite`](crate::Client::group_invite). Who declines or is lost comes as
    /// [`ClientEvent::Group`] first.
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
    /// `PMIX_ERR_BAD_PARAM` for a bad name, list or time; that the size of a job is not known, or that
    /// the server was lost. `then` is not called then.
    pub fn start_group_invite(
        &self,
        name: &Text<'_>,
        procs: &[Proc<'_>],
        infos: &[Info<'_>],
        then: impl FnOnce(Result<Group, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let size = |job: &Proc<'_>| self.get(job, &keys::JOB_SIZE.into(), &[]);
        let procs = each(procs, size)?;
        self.begin_group(infos, Box::new(then), |operations, limit| {
            operations.invite(&name.clone().into_owned(), procs, infos, limit)
        })
    }

    /// Accepts the invitation of a leader, and waits until the group is formed; see
    /// [`Client::group_join`](crate::Client::group_join). [`Ask::group_decline`] declines.
    ///
    /// # Errors
    ///
    /// As [`Client::group_join`](crate::Client::group_join), without a limit but `pmix.timeout`;
    /// `PMIX_ERR_WOULD_BLOCK` in a callback.
    pub fn group_join(
        &self,
        name: &Text<'_>,
        leader: &Proc<'_>,
        infos: &[Info<'_>],
    ) -> Result<Group, Error> {
        self.wait_for_group(|then| self.start_group_join(name, leader, infos, then))
    }

    /// Accepts the invitation of a leader. The callback thread calls `then` once, when the group is
    /// formed or not. Callbacks may call this.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a bad name, leader or time; that the server was lost. `then` is not
    /// called then.
    pub fn start_group_join(
        &self,
        name: &Text<'_>,
        leader: &Proc<'_>,
        infos: &[Info<'_>],
        then: impl FnOnce(Result<Group, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let (name, leader) = (name.clone().into_owned(), leader.clone().into_owned());
        self.begin_group(infos, Box::new(then), |operations, limit| {
            operations.join(&name, &leader, infos, limit)
        })
    }

    fn wait_for_group(
        &self,
        begin: impl FnOnce(Then) -> Result<(), Error>,
    ) -> Result<Group, Error> {
        if self.0.worker.is_current() {
            let message = "a callback cannot wait for others to answer an invitation";
            return Err(Error::new(Status::ERR_WOULD_BLOCK, message));
        }
        let (sender, receiver) = self.sender()?;
        begin(Box::new(move |outcome| sender.send(outcome)))?;
        self.receive(&receiver).ok_or_else(lost)?
    }

    /// Begins an operation; its first step waits until the server tells of the events of groups.
    fn begin_group(
        &self,
        infos: &[Info<'_>],
        then: Then,
        begin: impl FnOnce(&mut Operations, Option<Instant>) -> Result<OpId, Error>,
    ) -> Result<(), Error> {
        let limit = limit(infos)?.and_then(|limit| Instant::now().checked_add(limit));
        let shared = &self.0;
        shared.worker.begin()?;
        let (op, registration) = {
            let mut state = shared.groups.lock();
            let op = begin(&mut state.operations, limit)?;
            state.thens.insert(op, then);
            let registration = state.registration;
            if registration == Registration::None {
                state.registration = Registration::Asked;
            }
            (op, registration)
        };
        let begun = match registration {
            Registration::None => self.hear_of_groups(),
            Registration::Asked => Ok(()),
            Registration::Done => match shared.post_pump() {
                true => Ok(()),
                false => Err(lost()),
            },
        };
        if let Err(error) = begun {
            let is_own = { shared.groups.lock() }.not_begun(op, registration, &error);
            // Those that waited for the same are told, too.
            shared.post_pump();
            if is_own {
                return Err(error);
            }
        }
        if let Some(limit) = limit {
            let shared = Arc::clone(shared);
            let tick = move || {
                shared.groups.lock().operations.tick(Instant::now());
                shared.pump();
            };
            self.0.worker.post_at(limit, Box::new(tick));
        }
        Ok(())
    }

    fn hear_of_groups(&self) -> Result<(), Error> {
        let shared = Arc::clone(&self.0);
        let registered = move |registered: Result<(), Error>| {
            {
                let mut state = shared.groups.lock();
                state.registration = Registration::Done;
                if let Err(error) = registered
                    && !hears_all_the_same(&error)
                {
                    state.registration = Registration::None;
                    state.operations.fail(&error);
                }
            }
            shared.pump();
        };
        let ask = Ask::register_events(HEARD.to_vec(), Vec::new());
        self.start(ask, registered)
    }
}

fn lost() -> Error {
    Error::lost("the server was lost", ErrorKind::ConnectionAborted.into())
}

#[cfg(test)]
mod tests {
    use pmix_types::Rank;

    use super::*;

    #[test]
    fn operations_behind_one_that_cannot_begin_are_told_as_well() {
        let proc = |rank| Proc::new("job", Rank::new(rank));
        let groups = SharedGroups::new(Operations::new(proc(0)));
        let mut state = groups.lock();
        let mut ops = Vec::new();
        for name in ["a", "b"] {
            let op = { &mut state.operations }.join(&name.into(), &proc(1), &[], None);
            ops.push(op.unwrap());
            state.thens.insert(ops[ops.len() - 1], Box::new(drop));
        }
        state.registration = Registration::Asked;
        let error = Error::lost("no thread", ErrorKind::OutOfMemory.into());
        assert!(state.not_begun(ops[0], Registration::None, &error));
        assert!(state.registration == Registration::None);
        let mut steps = std::iter::from_fn(|| state.operations.poll());
        let ended = steps.find_map(|step| match step {
            Step::End(op, outcome) => Some((op, outcome.is_err())),
            _ => None,
        });
        assert_eq!(ended, Some((ops[1], true)));
    }
}

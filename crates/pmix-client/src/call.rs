// SPDX-License-Identifier: MIT OR Apache-2.0
//! A call of a client: a value that is waited for or started with a callback.
//!
//! Source: PMIx Standard, the functions whose names end in `_nb`, in the chapter of each.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use pmix_proto::Request;
use pmix_types::{Info, Proc, Status, Text, keys};

use crate::Error;
use crate::ask::{Ask, Take, taken};
use crate::core::{Core, OperationId, Waiting};
use crate::group::{each, limit};
use crate::shared::{Outcome, ReplyReceiver, Shared, Slot};

/// A call of a [`Client`](crate::Client) that has not been made yet. [`wait`](Self::wait) makes it and waits for its result, as the
/// blocking functions of the Standard do. [`start`](Self::start) makes it and passes the result to a callback, as the
/// functions whose names end in `_nb` do.
#[must_use = "a call does nothing until it is waited for or started"]
pub struct Call<'a, T = ()> {
    shared: &'a Shared,
    begin: Begin<'a>,
    convert: Convert<T>,
    limit: Option<Duration>,
}

/// The first step of a call.
pub(crate) enum Begin<'a> {
    /// The local data have the outcome.
    Known(Outcome),
    /// A request and the operation that waits for its reply.
    Request(Request<'a>, Waiting),
    /// A call about an invitation, which takes several messages.
    Group(GroupCall<'a>),
}

/// An invitation to a group, or an answer to one.
pub(crate) enum GroupCall<'a> {
    Invite(Text<'static>, Vec<Proc<'a>>, Vec<Info<'a>>),
    Join(Text<'static>, Option<&'a Proc<'a>>, Vec<Info<'a>>),
    Decline(Text<'static>, Option<&'a Proc<'a>>),
}

/// A function that begins an operation with a time limit.
type BeginOperation<'a> =
    Box<dyn FnOnce(&mut Core, Option<Instant>) -> Result<OperationId, Error> + 'a>;

/// The function that makes the result of an outcome.
enum Convert<T> {
    Take(Take<T>),
    Map(Box<dyn FnOnce(Outcome) -> Result<T, Error> + Send>),
}

impl<T> Convert<T> {
    fn apply(self, outcome: Outcome) -> Result<T, Error> {
        match self {
            Self::Take(take) => taken(take, outcome),
            Self::Map(map) => map(outcome),
        }
    }
}

impl<'a, T> Call<'a, T> {
    pub(crate) fn new(shared: &'a Shared, ask: Ask<'a, T>) -> Self {
        Self::of(shared, Begin::Request(ask.request, ask.waiting), ask.take)
    }

    pub(crate) const fn of(shared: &'a Shared, begin: Begin<'a>, take: Take<T>) -> Self {
        Self {
            shared,
            begin,
            convert: Convert::Take(take),
            limit: None,
        }
    }

    /// Sets the time limit of the call. Without it the limit is [`Settings::time_limit`](crate::Settings::time_limit);
    /// `Duration::MAX` is no limit.
    pub const fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Applies a function to the result.
    pub fn map_result<U>(
        self,
        map: impl FnOnce(Result<T, Error>) -> Result<U, Error> + Send + 'static,
    ) -> Call<'a, U>
    where
        T: 'static,
    {
        let convert = self.convert;
        Call {
            shared: self.shared,
            begin: self.begin,
            convert: Convert::Map(Box::new(move |outcome| map(convert.apply(outcome)))),
            limit: self.limit,
        }
    }

    /// Returns the result if the call needs no request, for example that of a get whose value is in the local data.
    #[must_use]
    pub fn known(self) -> Option<Result<T, Error>> {
        match self.begin {
            Begin::Known(outcome) => Some(self.convert.apply(outcome)),
            Begin::Request(..) | Begin::Group(_) => None,
        }
    }

    /// Makes the call and waits for its result. Other threads are not blocked.
    ///
    /// # Errors
    ///
    /// Returns the errors of the call, among them
    ///
    /// - a pack error if the request cannot be packed;
    /// - the server's status if it rejects the request;
    /// - `PMIX_ERR_UNREACH` if the server is lost;
    /// - `PMIX_ERR_TIMEOUT` if it does not reply in time.
    pub fn wait(self) -> Result<T, Error> {
        let shared = self.shared;
        // A call whose result is known does not read the clock.
        let outcome = match self.begin {
            Begin::Known(outcome) => outcome,
            Begin::Request(request, waiting) => {
                if is_for_listener(&request) {
                    shared.listen_for_listener()?;
                }
                let end = self.shared.end(self.limit);
                shared.wait(end, |core, end| core.ask_for(request, waiting, end))
            }
            Begin::Group(call) => call.wait(shared, self.limit),
        };
        self.convert.apply(outcome)
    }

    /// Makes the call. The callback thread calls `then` once, with the result.
    ///
    /// # Errors
    ///
    /// Returns an error if the call cannot be made: a pack error, `PMIX_ERR_BAD_PARAM` for invalid arguments, or
    /// `PMIX_ERR_UNREACH` if the connection to the server is lost. `then` is not called then.
    pub fn start(self, then: impl FnOnce(Result<T, Error>) + Send + 'static) -> Result<(), Error>
    where
        T: 'static,
    {
        let convert = self.convert;
        let then = move |outcome| then(convert.apply(outcome));
        match self.begin {
            Begin::Known(outcome) => self.shared.later(Box::new(move || then(outcome))),
            Begin::Request(request, waiting) => {
                let end = self.shared.end(self.limit);
                start(self.shared, end, Box::new(then), |core, end| {
                    core.ask_for(request, waiting, end)
                })
            }
            Begin::Group(call) => call.start(self.shared, self.limit, Box::new(then)),
        }
    }
}

/// Begins an operation whose outcome goes to a callback.
fn start(
    shared: &Shared,
    end: Option<Instant>,
    then: Box<dyn FnOnce(Outcome) + Send>,
    begin: impl FnOnce(&mut Core, Option<Instant>) -> Result<OperationId, Error>,
) -> Result<(), Error> {
    shared.worker.begin()?;
    shared.listen()?;
    shared.begin(Slot::Callback(then), end, begin)?;
    Ok(())
}

/// Returns `true` if unsolicited input follows a request. The listener expects it while no thread waits.
const fn is_for_listener(request: &Request<'_>) -> bool {
    matches!(request, Request::RegisterEvents(_) | Request::IofPull(_))
}

impl GroupCall<'_> {
    fn wait(self, shared: &Shared, time: Option<Duration>) -> Outcome {
        let is_question_possible = !matches!(self, Self::Decline(..));
        // The callback that decides a question may complete the operation without a message of the server, which a
        // thread that reads would not notice.
        if is_question_possible && shared.calls_back() {
            if shared.worker.is_current() {
                let message = "a callback cannot block until invitations are answered";
                return Err(Error::new(Status::ERR_WOULD_BLOCK, message));
            }
            let (sender, receiver) = ReplyReceiver::channel(shared)?;
            self.start(shared, time, Box::new(move |outcome| sender.send(outcome)))?;
            return receiver.receive(shared).ok_or_else(lost)?;
        }
        let (begin, end) = self.prepare(shared, time)?;
        shared.wait(end, |core, end| begin(core, end))
    }

    fn start(
        self,
        shared: &Shared,
        time: Option<Duration>,
        then: Box<dyn FnOnce(Outcome) + Send>,
    ) -> Result<(), Error> {
        let (begin, end) = self.prepare(shared, time)?;
        start(shared, end, then, |core, end| begin(core, end))
    }
}

impl<'a> GroupCall<'a> {
    /// Returns the function that begins the operation, and its time limit.
    fn prepare(
        self,
        shared: &Shared,
        time: Option<Duration>,
    ) -> Result<(BeginOperation<'a>, Option<Instant>), Error> {
        let now = Instant::now();
        let end = shared.end(time);
        let end_of = |infos: &[Info<'_>]| {
            let own = limit(infos)?.and_then(|limit| now.checked_add(limit));
            Ok::<_, Error>(own.into_iter().chain(end).min())
        };
        Ok(match self {
            Self::Invite(name, procs, infos) => {
                let end = end_of(&infos)?;
                let procs = each(&procs, |job| shared.get(job, keys::JOB_SIZE))?;
                let begin = move |core: &mut Core, end: Option<Instant>| {
                    core.invite(name, procs, &infos, end, now)
                };
                (Box::new(begin), end)
            }
            Self::Join(name, leader, infos) => {
                let end = end_of(&infos)?;
                let begin = move |core: &mut Core, end: Option<Instant>| {
                    core.join(name, leader, &infos, end, now)
                };
                (Box::new(begin), end)
            }
            Self::Decline(name, leader) => {
                let begin =
                    move |core: &mut Core, end: Option<Instant>| core.decline(&name, leader, end);
                (Box::new(begin), end)
            }
        })
    }
}

fn lost() -> Error {
    Error::lost(
        "lost the connection to the server",
        ErrorKind::ConnectionAborted.into(),
    )
}

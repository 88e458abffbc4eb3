// SPDX-License-Identifier: MIT OR Apache-2.0
//! A call of a client: a value that is waited for or started with a callback.
//!
//! Source: PMIx Standard, the functions whose names end in `_nb`, in the chapter of each.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use pmix_proto::Request;
use pmix_types::{Info, Proc, Status, Text, keys};

use crate::Error;
use crate::core::{Core, FromAnswer, OperationId, RequestCall, result_of};
use crate::group::{each, limit};
use crate::shared::{Outcome, ReplyReceiver, Shared, Slot};

/// A call of a [`Client`](crate::Client) that has not been made yet. [`wait`](Self::wait) makes it and waits for its
/// result, as the blocking functions of the Standard do. [`start`](Self::start) makes it and passes the result to a
/// callback, as the functions whose names end in `_nb` do.
#[must_use = "a call does nothing until it is waited for or started"]
pub struct Call<'a, T = ()> {
    shared: &'a Shared,
    step: Step<'a, T>,
    limit: Option<Duration>,
}

/// The next step of a call. The large variants are boxed, since a get of a local value moves the call several times.
enum Step<'a, T> {
    /// The result is known, for example from the local data.
    Ready(Result<T, Error>),
    /// A request to the server.
    Request(Box<RequestCall<'a>>, Convert<T>),
    /// A call about an invitation, which takes several messages.
    Group(Box<GroupCall<'a>>, Convert<T>),
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
type Convert<T> = Box<dyn FnOnce(Outcome) -> Result<T, Error> + Send>;

impl<'a, T: FromAnswer> Call<'a, T> {
    pub(crate) fn of_request(shared: &'a Shared, call: Box<RequestCall<'a>>) -> Self {
        Self::new(shared, Step::Request(call, Box::new(result_of::<T>)))
    }

    pub(crate) fn of_group(shared: &'a Shared, call: GroupCall<'a>) -> Self {
        let step = Step::Group(Box::new(call), Box::new(result_of::<T>));
        Self::new(shared, step)
    }
}

impl<'a, T> Call<'a, T> {
    const fn new(shared: &'a Shared, step: Step<'a, T>) -> Self {
        Self {
            shared,
            step,
            limit: None,
        }
    }

    pub(crate) const fn ready(shared: &'a Shared, result: Result<T, Error>) -> Self {
        Self::new(shared, Step::Ready(result))
    }

    /// Sets the time limit of the call. Without it the limit is [`Settings::time_limit`](crate::Settings::time_limit);
    /// `Duration::MAX` is no limit.
    pub fn within(mut self, limit: Duration) -> Self {
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
        let step = match self.step {
            Step::Ready(result) => Step::Ready(map(result)),
            Step::Request(call, convert) => {
                Step::Request(call, Box::new(move |outcome| map(convert(outcome))))
            }
            Step::Group(call, convert) => {
                Step::Group(call, Box::new(move |outcome| map(convert(outcome))))
            }
        };
        Call {
            shared: self.shared,
            step,
            limit: self.limit,
        }
    }

    /// Returns the result if the call needs no request, for example that of a get whose value is in the local data.
    #[must_use]
    pub fn known(self) -> Option<Result<T, Error>> {
        match self.step {
            Step::Ready(result) => Some(result),
            Step::Request(..) | Step::Group(..) => None,
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
        let (shared, limit) = (self.shared, self.limit);
        match self.step {
            // A call whose result is known does not read the clock.
            Step::Ready(result) => result,
            Step::Request(call, convert) => {
                // Without a thread that reads, the input that follows would stay in the socket until the next call.
                if is_for_listener(&call.request) {
                    shared.listen_for_listener()?;
                }
                let end = shared.end(limit);
                convert(shared.wait(end, |core, end| core.begin_call(*call, end)))
            }
            Step::Group(call, convert) => convert(call.wait(shared, limit)),
        }
    }

    /// Makes the call. The callback thread calls `then` once, with the result.
    ///
    /// # Errors
    ///
    /// Returns an error if the call cannot be made: a pack error, `PMIX_ERR_BAD_PARAM` for invalid arguments, or
    /// `PMIX_ERR_UNREACH` if the connection to the server is lost. `then` is not called then.
    pub fn start(self, then: impl FnOnce(Result<T, Error>) + Send + 'static) -> Result<(), Error>
    where
        T: Send + 'static,
    {
        let (shared, limit) = (self.shared, self.limit);
        match self.step {
            Step::Ready(result) => shared.later(Box::new(move || then(result))),
            Step::Request(call, convert) => {
                let then = Box::new(move |outcome| then(convert(outcome)));
                start(shared, shared.end(limit), then, |core, end| {
                    core.begin_call(*call, end)
                })
            }
            Step::Group(call, convert) => call.start(
                shared,
                limit,
                Box::new(move |outcome| then(convert(outcome))),
            ),
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
    // Both threads start before the request is sent, so no operation is left whose callback cannot be called.
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
            // `PMIX_TIMEOUT` limits the invitation and `Call::within` the call. The earlier one ends both.
            let own = limit(infos)?.and_then(|limit| now.checked_add(limit));
            Ok::<_, Error>(own.into_iter().chain(end).min())
        };
        Ok(match self {
            Self::Invite(name, procs, infos) => {
                let end = end_of(&infos)?;
                // Each process answers for itself, so the leader needs single processes. A size that is not known needs
                // a request, so it is requested before the core is locked.
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiver of the requests of this process: the server to which it is connected, or its own host if it is itself
//! a server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use pmix_client::{Answers, Call, Client, driver};
use pmix_server::{Credential, Reply, upcall};
use pmix_types::{Info, Key, Nspace, Pdata, Proc, Status, Value, keys};

use crate::abi::pmix_server_module_t;
use crate::callback::{Callback, Deliver};
use crate::later::later;
use crate::memory::Result;
use crate::per_process::PerProcess;
use crate::replies;
use crate::server::{CHost, ReplyTo};
use crate::state::{client, state};

/// The host of this process, and the name of the process.
pub(crate) struct OwnHost {
    host: Arc<CHost>,
    proc: Proc<'static>,
}

/// The host of the server in this process.
static HOST: PerProcess<Mutex<Option<Arc<CHost>>>> = PerProcess::new(Mutex::new(None));

fn host() -> MutexGuard<'static, Option<Arc<CHost>>> {
    HOST.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets or clears the host of this process. Returns the previous one.
pub(crate) fn set_host(new: Option<Arc<CHost>>) -> Option<Arc<CHost>> {
    std::mem::replace(&mut *host(), new)
}

/// Calls a function with the host of this process, if there is one.
pub(crate) fn with_host(call: impl FnOnce(&CHost)) {
    let known = host().clone();
    if let Some(host) = known {
        call(&host);
    }
}

/// Passes its functions to the host of this process. Returns `true` if there is a host that had none.
pub(crate) fn give(module: &pmix_server_module_t) -> bool {
    host().as_ref().is_some_and(|host| host.give(module))
}

/// Returns `true` if the host of this process has a function for `PMIx_Spawn`.
pub(crate) fn has_spawn() -> bool {
    let host = host();
    host.as_ref()
        .is_some_and(|host| host.module().spawn.is_some())
}

/// A request of this process. As an upcall it can be sent to the host, too.
pub(crate) trait Request: Sized {
    /// The reply of the host.
    type Reply: Reply + Send + 'static;
    /// The result for the caller.
    type Answer: Send + 'static;

    /// Returns the call of a client for the request.
    fn of_client(self, client: &Client) -> Call<'_, Self::Answer>;

    /// Calls the host.
    fn call(self, host: &CHost, done: ReplyTo<Self::Reply>);

    /// Returns the result for a reply of the host.
    fn answer(status: Status, reply: Self::Reply) -> Self::Answer;
}

/// Implements [`Request`] for upcalls: the call of a client, the method of [`CHost`], and the result for its reply.
macro_rules! requests {
    ($($upcall:ident |$call:ident, $client:ident| $of_client:expr,
       $method:ident |$status:pat_param, $reply:ident: $reply_type:ty| -> $answer_type:ty { $answer:expr })*) => {
        $(impl Request for upcall::$upcall {
            type Reply = $reply_type;
            type Answer = $answer_type;

            fn of_client(self, $client: &Client) -> Call<'_, $answer_type> {
                let $call = self;
                $of_client
            }

            fn call(self, host: &CHost, done: ReplyTo<$reply_type>) {
                host.$method(self, done);
            }

            fn answer($status: Status, $reply: $reply_type) -> $answer_type {
                $answer
            }
        })*
    };
}

requests! {
    Publish |call, client| client.publish(call.infos), publish |_, reply: ()| -> () { reply }
    Unpublish |call, client| client.unpublish(call.keys.into_iter().map(Key::new), call.infos),
        unpublish |_, reply: ()| -> () { reply }
    Lookup |call, client| client.lookup(call.keys.into_iter().map(Key::new), call.infos),
        lookup |status, found: Vec<Pdata<'static>>| -> (Status, Vec<Pdata<'static>>) { (status, found) }
    Log |call, client| client.log(call.data, call.directives), log_own |_, reply: ()| -> () { reply }
    Spawn |call, client| client.spawn(call.infos, call.apps),
        spawn |_, nspace: Nspace<'static>| -> Nspace<'static> { nspace }
    Query |call, client| client.query(call.queries),
        answer_query |status, infos: Vec<Info<'static>>| -> Answers { (status, infos) }
    Alloc |call, client| client.allocate(call.directive, call.infos),
        allocate |status, infos: Vec<Info<'static>>| -> Answers { (status, infos) }
    JobControl |call, client| client.job_control(call.targets, call.directives),
        job_control |status, infos: Vec<Info<'static>>| -> Answers { (status, infos) }
    Monitor |call, client| client.monitor(call.monitor, call.error, call.directives),
        monitor |status, infos: Vec<Info<'static>>| -> Answers { (status, infos) }
    GetCredential |call, client| client.get_credential(call.directives),
        get_credential |_, made: Credential| -> crate::replies::Credential { (made.credential, made.infos) }
    ValidateCredential |call, client| client.validate_credential(call.credential, call.directives),
        validate_credential |status, infos: Vec<Info<'static>>| -> Answers { (status, infos) }
    Abort |call, client| driver::call(client, abort(call)), abort |_, reply: ()| -> () { reply }
    SessionControl |call, client| client.session_control(call.session, call.directives),
        session_control |status, infos: Vec<Info<'static>>| -> Answers { (status, infos) }
    ResourceBlock |call, client| client.resource_block(call.directive, call.block, call.units, call.directives),
        resource_block |_, reply: ()| -> () { reply }
}

/// Returns the request to the server for an abort. [`Client::abort`] takes its message as a string, which the message of
/// a C program may not be.
fn abort(call: upcall::Abort) -> pmix_proto::Request<'static> {
    pmix_proto::Request::Abort(pmix_proto::request::Abort {
        status: call.status,
        message: call.message,
        procs: call.targets,
    })
}

impl CHost {
    /// Logs for this process. The host learns the source from a directive, as in the call of a client.
    fn log_own(&self, mut call: upcall::Log, done: ReplyTo<()>) {
        let mut directives = call.directives.iter();
        if !directives.any(|info| info.key.is(keys::LOG_SOURCE)) {
            let source = Value::Proc(call.proc.clone());
            call.directives.push(Info::new(keys::LOG_SOURCE, source));
        }
        self.log2(call, done);
    }
}

/// The receiver of requests.
pub(crate) enum Requester {
    Server(Client),
    Host(OwnHost),
}

impl Requester {
    /// Returns the receiver of the requests of this process.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` or `PMIX_ERR_UNREACH` if there is none.
    pub(crate) fn current() -> Result<Self> {
        Self::of(OwnHost::current())
    }

    /// Returns the host, or without it the server.
    ///
    /// # Errors
    /// Returns the errors of [`current`](Self::current).
    pub(crate) fn of(own: Option<OwnHost>) -> Result<Self> {
        match own {
            Some(own) => Ok(Self::Host(own)),
            None => client().map(Self::Server),
        }
    }

    /// Returns the name of this process.
    pub(crate) fn proc(&self) -> Proc<'static> {
        match self {
            Self::Server(client) => client.proc().clone(),
            Self::Host(own) => own.proc.clone(),
        }
    }

    /// Sends a request and waits for the result.
    pub(crate) fn wait<R: Request>(&self, request: R) -> Result<R::Answer> {
        match self {
            Self::Server(client) => replies::wait(request.of_client(client)),
            Self::Host(own) => {
                let (status, reply) = own.wait(|host, done| request.call(host, done))?;
                Ok(R::answer(status, reply))
            }
        }
    }

    /// Sends a request and calls `then` with the result.
    pub(crate) fn start<R: Request>(
        &self,
        request: R,
        then: impl FnOnce(Result<R::Answer>) + Send + 'static,
    ) -> Result<()> {
        match self {
            Self::Server(client) => replies::start(request.of_client(client), then),
            Self::Host(own) => {
                own.start(
                    |host, done| request.call(host, done),
                    |answer| then(answer.map(|(status, reply)| R::answer(status, reply))),
                );
                Ok(())
            }
        }
    }

    /// Sends a request and delivers its result to a callback.
    pub(crate) fn call_back<R, F>(&self, request: R, callback: Callback<F>) -> Result<()>
    where
        R: Request,
        F: Deliver<Result = Result<R::Answer>>,
    {
        self.start(request, |answer| callback.complete(answer))
    }

    /// Sends a request whose result is a status. Without a callback, waits for the result.
    pub(crate) fn call_back_or_wait<R, F>(&self, request: R, callback: Callback<F>) -> Result<()>
    where
        R: Request<Answer = ()>,
        F: Deliver<Result = Result<()>>,
    {
        match callback.is_null() {
            true => self.wait(request),
            false => self.call_back(request, callback),
        }
    }
}

impl OwnHost {
    /// Returns the host if this process is a server without a connection. With a connection to another server, requests
    /// go to that server.
    pub(crate) fn current() -> Option<Self> {
        let proc = {
            let state = state();
            if state.connection().is_some() {
                return None;
            }
            let (server, _) = state.server.as_ref()?;
            server.proc().clone()
        };
        let host = Arc::clone(host().as_ref()?);
        Some(Self { host, proc })
    }

    /// Calls the host and waits for its reply.
    pub(crate) fn wait<T: Reply + Send + 'static>(
        &self,
        ask: impl FnOnce(&CHost, ReplyTo<T>),
    ) -> Result<(Status, T)> {
        let (sender, receiver) = mpsc::sync_channel(1);
        // The receiver exists until the reply arrives, so sending fails only after an earlier reply.
        let then = move |answer| drop(sender.send(answer));
        ask(&self.host, ReplyTo::Own(Box::new(then)));
        // The sender was dropped: the server ended before the host replied.
        receiver.recv().unwrap_or(Err(Status::ERR_COMM_FAILURE))
    }

    /// Calls the host, and calls `then` with the reply. A status without a result is an error for `then`.
    pub(crate) fn start<T: Reply + Send + 'static>(
        &self,
        ask: impl FnOnce(&CHost, ReplyTo<T>),
        then: impl FnOnce(Result<(Status, T)>) + Send + 'static,
    ) {
        let called_back = move |answer: Result<(Status, T)>| {
            if later(move || then(answer)).is_err() {
                tracing::warn!(
                    "a reply of the host is lost: cannot start a thread that processes it"
                );
            }
        };
        ask(&self.host, ReplyTo::Own(Box::new(called_back)));
    }
}

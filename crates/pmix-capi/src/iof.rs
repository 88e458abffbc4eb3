// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forwarded I/O: pulls of the output of other processes, and data pushed to their standard input.

use pmix_client::{Call, Client};
use pmix_server::upcall::{IofPull, PushStdin};
use pmix_tool::pull::{Abilities, Directives};
use pmix_types::{Info, IofChannel, Proc, Status, keys};

use crate::abi::*;
use crate::args::{self, Infos, Maybe, Mut, NonEmpty, Procs};
use crate::callback::Callback;
use crate::guard::exported;
use crate::memory::Result;
use crate::pulls::{self, Pull};
use crate::replies;
use crate::requester::{OwnHost, Request, Requester};
use crate::server::{CHost, ReplyTo};
use crate::state::{client, proc};

/// Sends a pull to the server or to the host of this process, and waits for the reply. Returns the number of the pull
/// as the return value of the function.
fn pull_and_wait(id: usize, call: IofPull) -> Result<i32> {
    let remote = match OwnHost::current() {
        Some(own) => {
            let reply = own.wait(|host, done| host.iof_pull(call, done));
            reply.map(|(_, ())| None)
        }
        None => client().and_then(|client| {
            let pull = client.iof_pull(call.procs, call.directives, call.channels, id as u64);
            replies::wait(pull).map(Some)
        }),
    };
    pulls::handle_reply(id, &remote);
    remote.map(|_| i32::try_from(id).unwrap_or(i32::MAX))
}

/// Sends a pull to the server or to the host of this process, and delivers its number to a callback.
fn pull_and_call_back(
    id: usize,
    call: IofPull,
    callback: Callback<pmix_hdlr_reg_cbfunc_t>,
) -> Result<()> {
    let reply = move |remote: Result<Option<u64>>| {
        pulls::handle_reply(id, &remote);
        callback.complete((remote.err().unwrap_or(Status::SUCCESS), id));
    };
    let begun = match OwnHost::current() {
        Some(own) => {
            own.start(
                |host, done| host.iof_pull(call, done),
                move |answer| reply(answer.map(|(_, ())| None)),
            );
            Ok(())
        }
        None => client().and_then(|client| {
            let pull = client.iof_pull(call.procs, call.directives, call.channels, id as u64);
            replies::start(pull, move |remote| reply(remote.map(Some)))
        }),
    };
    // The server did not register the pull, so no output will arrive for it.
    begun.inspect_err(|status| pulls::handle_reply(id, &Err(*status)))
}

/// The end of a pull.
struct EndOfPull {
    pull: Pull,
    infos: Vec<Info<'static>>,
}

impl Request for EndOfPull {
    type Reply = ();
    type Answer = ();

    fn of_client(self, client: &Client) -> Call<'_> {
        client.iof_deregister(self.pull.remote.unwrap_or_default(), self.infos)
    }

    fn call(mut self, host: &CHost, done: ReplyTo<()>) {
        self.infos.push(Info::new(keys::IOF_STOP, true));
        let call = IofPull::new(self.pull.procs, self.infos, self.pull.channels);
        host.iof_pull(call, done);
    }

    fn answer(_: Status, reply: ()) {
        reply
    }
}

/// Data for the standard input of other processes; `None` is its end.
struct Push {
    source: Proc<'static>,
    targets: Vec<Proc<'static>>,
    infos: Vec<Info<'static>>,
    data: Option<Vec<u8>>,
}

impl Request for Push {
    type Reply = ();
    type Answer = ();

    fn of_client(self, client: &Client) -> Call<'_> {
        client.iof_push(self.targets, self.infos, self.data)
    }

    fn call(self, host: &CHost, done: ReplyTo<()>) {
        let data = self.data.unwrap_or_default();
        host.push_stdin(
            PushStdin::new(self.source, self.targets, self.infos, data),
            done,
        );
    }

    fn answer(_: Status, reply: ()) {
        reply
    }
}

exported! {
    fn PMIx_IOF_pull(_own = proc()?; (procs, nprocs): NonEmpty<Procs>, (directives, ndirs): Infos, channel: IofChannel, cbfunc: pmix_iof_cbfunc_t, (regcbfunc, regcbdata): args::Callback<pmix_hdlr_reg_cbfunc_t>) -> pmix_status_t {
        // Standard input cannot be pulled; `PMIx_IOF_push` sends it.
        if channel.as_raw() == 0 || channel.contains(IofChannel::STDIN_CHANNEL) {
            return Err(Status::ERR_BAD_PARAM);
        }
        let able = Abilities { has_function: cbfunc.is_some(), has_timers: OwnHost::current().is_none() };
        let own_directives = Directives::of(&mut directives, able).map_err(|error| error.status())?;
        let id = pulls::add(&procs, channel, cbfunc, own_directives)?;
        let call = IofPull::new(procs, directives, channel);
        match regcbfunc.is_null() {
            true => pull_and_wait(id, call),
            false => pull_and_call_back(id, call, regcbfunc).map(|()| 0),
        }
    }

    fn PMIx_IOF_deregister(_own = proc()?; iofhdlr: usize, (directives, ndirs): Infos, (cbfunc, cbdata): args::Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        let own = OwnHost::current();
        let pull = pulls::remove(iofhdlr, own.is_some())?;
        let end = EndOfPull { pull, infos: directives };
        Requester::of(own)?.call_back_or_wait(end, cbfunc)
    }

    fn PMIx_IOF_push(own = proc()?; (targets, ntargets): Procs, bo: Maybe<args::ByteObject<Mut>>, (directives, ndirs): Infos, (cbfunc, cbdata): args::Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        let is_own_input = directives.iter().any(|info| info.key.is(keys::IOF_PUSH_STDIN));
        if is_own_input && bo.is_none() {
            // This library does not read the standard input of the program.
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let data = bo.map(pmix_types::Bytes::into_owned);
        let push = Push { source: own, targets, infos: directives, data };
        Requester::current()?.call_back_or_wait(push, cbfunc)
    }
}

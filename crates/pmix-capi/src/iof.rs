// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forwarded I/O: pulls of the output of other processes, and data pushed to their standard input.

use std::ffi::c_void;

use pmix_client::{Ask, Error};
use pmix_types::{Info, IofChannel, Proc, Status, keys};

use crate::abi::*;
use crate::answers::op;
use crate::callback::Callback;
use crate::convert::{fault, infos_at, procs_at};
use crate::guard::exported;
use crate::memory::{self, slice};
use crate::pulls::{Abilities, Directives, added, answered, removed};
use crate::server::{CHost, To, own_host};
use crate::state::{client, proc};
use crate::status::code;

fn status_of<T>(answer: &std::result::Result<T, Status>) -> Status {
    answer.as_ref().err().copied().unwrap_or(Status::SUCCESS)
}

exported! {
    fn PMIx_IOF_pull(procs: *const pmix_proc_t, nprocs: usize, directives: *const pmix_info_t, ndirs: usize, channel: pmix_iof_channel_t, cbfunc: pmix_iof_cbfunc_t, regcbfunc: pmix_hdlr_reg_cbfunc_t, regcbdata: *mut c_void) -> pmix_status_t {
        let asked = (|| {
            proc()?;
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let (procs, mut infos) = unsafe { (procs_at(procs, nprocs)?, infos_at(directives, ndirs)?) };
            let channels = IofChannel::from_raw(channel);
            // Standard input cannot be pulled; `PMIx_IOF_push` sends it.
            let known = channels.as_raw() != 0 && !channels.contains(IofChannel::STDIN_CHANNEL);
            if !known || procs.is_empty() {
                return Err(Status::ERR_BAD_PARAM);
            }
            let able = Abilities { has_function: cbfunc.is_some(), has_timers: own_host().is_none() };
            let directives = Directives::of(&mut infos, able)?;
            Ok((added(&procs, channels, cbfunc, directives)?, procs, infos, channels))
        })();
        let (id, procs, infos, channels) = match asked {
            Ok(asked) => asked,
            Err(status) => return status.as_raw(),
        };
        let callback = Callback::new(regcbfunc, regcbdata);
        let told = move |answer: std::result::Result<Option<u64>, Status>| {
            answered(id, &answer);
            let status = status_of(&answer).as_raw();
            callback.call(move |callback, data| {
                if let Some(callback) = callback {
                    // SAFETY: the program passed this function with this `cbdata`, as the header declares it.
                    unsafe { callback(status, id, data) };
                }
            });
        };
        let own = own_host();
        let ask = |host: &CHost, _: &Proc<'static>, to: To<()>| {
            host.iof_pull(&procs, &infos, channels, to);
            Ok(())
        };
        let begun = match (own, regcbfunc) {
            (Some(own), None) => {
                let answer = own.wait(ask).map(|_| None);
                told(answer);
                status_of(&answer)
            }
            (Some(own), Some(_)) => {
                let then = move |answer: std::result::Result<_, Error>| {
                    told(answer.map(|_| None).map_err(|error| error.status()));
                };
                status_of(&own.start(ask, then))
            }
            (None, registered) => {
                let pull = |client: pmix_client::SharedClient| {
                    let (procs, infos) = (memory::cloned(&procs)?, memory::cloned(&infos)?);
                    let ask = Ask::iof_pull(procs, infos, channels, id as u64);
                    match registered {
                        None => {
                            let answer = client.wait(ask).map(Some).map_err(|error| fault(&error));
                            told(answer);
                            answer.map(drop)
                        }
                        Some(_) => client
                            .start(ask, move |answer| {
                                told(answer.map(Some).map_err(|error| fault(&error)));
                            })
                            .map_err(|error| fault(&error)),
                    }
                };
                status_of(&client().and_then(pull))
            }
        };
        if !begun.is_success() {
            // The server or the host did not register the pull, so no output will arrive for it.
            answered(id, &Err(begun));
            return begun.as_raw();
        }
        match regcbfunc {
            // Without a registration callback, the return value is the number of the handler.
            None => i32::try_from(id).unwrap_or(i32::MAX),
            Some(_) => begun.as_raw(),
        }
    }

    fn PMIx_IOF_deregister(iofhdlr: usize, directives: *const pmix_info_t, ndirs: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            proc()?;
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let mut infos = unsafe { infos_at(directives, ndirs)? };
            let own = own_host();
            let pull = removed(iofhdlr, own.is_some())?;
            if let Some(own) = own {
                infos.push(Info::new(keys::IOF_STOP, true));
                let ask = |host: &CHost, _: &Proc<'static>, to: To<()>| {
                    host.iof_pull(&pull.procs, &infos, pull.channels, to);
                    Ok(())
                };
                return own.op(cbfunc, cbdata, ask);
            }
            // The server assigns the number of the pull in its reply; until then the pull cannot be ended.
            let remote = pull.remote.ok_or(Status::ERR_NOT_AVAILABLE)?;
            let ask = Ask::iof_deregister(remote, infos);
            match cbfunc {
                None => client()?.wait(ask),
                Some(_) => client()?.start(ask, op(cbfunc, cbdata)?),
            }
            .map_err(|error| fault(&error))
        })())
    }

    fn PMIx_IOF_push(targets: *const pmix_proc_t, ntargets: usize, bo: *mut pmix_byte_object_t, directives: *const pmix_info_t, ndirs: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            proc()?;
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let (targets, infos) = unsafe { (procs_at(targets, ntargets)?, infos_at(directives, ndirs)?) };
            let own_input = infos.iter().any(|info| info.key.is(keys::IOF_PUSH_STDIN));
            if own_input && bo.is_null() {
                // This library does not read the standard input of the program.
                return Err(Status::ERR_NOT_SUPPORTED);
            }
            // SAFETY: the header requires `bo` to be NULL or a valid byte object.
            let data = match unsafe { bo.as_ref() } {
                None => None,
                // SAFETY: the header requires `bytes` to be NULL or to have `size` bytes.
                Some(bo) => Some(memory::copied(unsafe { slice(bo.bytes.cast::<u8>(), bo.size)? })?),
            };
            if let Some(own) = own_host() {
                let data = data.unwrap_or_default();
                let ask = |host: &CHost, me: &Proc<'static>, to: To<()>| {
                    host.push_stdin(me, &targets, &infos, &data, to);
                    Ok(())
                };
                return own.op(cbfunc, cbdata, ask);
            }
            let ask = Ask::iof_push(targets, infos, data);
            match cbfunc {
                None => client()?.wait(ask),
                Some(_) => client()?.start(ask, op(cbfunc, cbdata)?),
            }
            .map_err(|error| fault(&error))
        })())
    }
}

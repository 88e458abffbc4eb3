// SPDX-License-Identifier: MIT OR Apache-2.0
//! Upcalls to a C host, one function for each slot of its module. Functions that the server's own process uses as
//! well take the parts of a call as arguments.

use std::ffi::c_void;
use std::ptr;

use pmix_server::{Credential, HostObject, upcall};
use pmix_types::{
    AllocDirective, App, FabricOperation, Info, IofChannel, Nspace, Pdata, Proc, Query, Status,
    Text,
};

use super::attributes;
use super::host::CHost;
use super::pending::{self, Answering, To, call};
use crate::memory::bytes;
use shown::{Shown, one, shown, shown_bytes, shown_keys, shown_text};

fn pointer(object: HostObject) -> *mut c_void {
    ptr::with_exposed_provenance_mut(usize::try_from(object.0).unwrap_or(0))
}

/// Returns the function of a slot; without it, completes the call as not supported.
macro_rules! slot {
    ($host:expr, $slot:ident, $done:ident) => {
        match $host.module().$slot {
            Some(function) => function,
            None => return $done.not_supported(),
        }
    };
}

mod newer;
mod shown;

#[cfg(test)]
mod tests;

impl CHost {
    pub(super) fn client_connected(&self, asked: upcall::ClientConnected, done: To<()>) {
        let proc = shown!(done, one(&asked.proc));
        let (at, object) = (proc.0, pointer(asked.object));
        if let Some(function) = self.module().client_connected2 {
            let infos = shown!(done, Shown::of(&asked.infos));
            let (info, ninfo) = (infos.0, infos.1);
            // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
            call(
                Answering::Op(done),
                Box::new((proc, infos)),
                |cbdata| unsafe { function(at, object, info, ninfo, Some(pending::op), cbdata) },
            );
            return;
        }
        let Some(function) = self.module().client_connected else {
            return done.succeed(());
        };
        // OpenPMIx releases that have only this slot pass no callback, and hosts do not call one.
        // SAFETY: the host declared `function` for this slot; `proc` lives until it returns.
        let status = Status::from_raw(unsafe { function(at, object, None, ptr::null_mut()) });
        match status {
            Status::SUCCESS | Status::OPERATION_SUCCEEDED => done.succeed(()),
            other => done.fail(other),
        }
    }

    pub(super) fn client_finalized(&self, asked: upcall::ClientFinalized, done: To<()>) {
        let Some(function) = self.module().client_finalized else {
            return done.succeed(());
        };
        let proc = shown!(done, one(&asked.proc));
        let (at, object) = (proc.0, pointer(asked.object));
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(Answering::Op(done), Box::new(proc), |cbdata| unsafe {
            function(at, object, Some(pending::op), cbdata)
        });
    }

    pub(crate) fn abort(
        &self,
        proc: &Proc<'_>,
        object: HostObject,
        status: Status,
        message: Option<&Text<'_>>,
        targets: &[Proc<'_>],
        done: To<()>,
    ) {
        let function = slot!(self, abort, done);
        let (proc, procs) = shown!(done, one(proc), Shown::of(targets));
        let text = shown!(done, shown_text(message));
        let (at, object, message) = (proc.0, pointer(object), text.0);
        let (list, count) = (procs.0, procs.1);
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Op(done),
            Box::new((proc, procs, text)),
            |cbdata| unsafe {
                function(
                    at,
                    object,
                    status.as_raw(),
                    message,
                    list,
                    count,
                    Some(pending::op),
                    cbdata,
                )
            },
        );
    }

    pub(super) fn fence(
        &self,
        procs: &[Proc<'_>],
        infos: &[Info<'_>],
        committed: &[u8],
        done: To<Vec<u8>>,
    ) {
        let function = slot!(self, fence_nb, done);
        let (procs, infos) = shown!(done, Shown::of(procs), Shown::of(infos));
        // The host takes ownership of the data and frees them.
        let data = match bytes(committed) {
            Ok(data) => data,
            // Without the data of this node, the fence would succeed on every node with less data than was committed.
            Err(status) => return done.fail(status),
        };
        let ndata = committed.len();
        let (list, count, info, ninfo) = (procs.0, procs.1, infos.0, infos.1);
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Modex(done),
            Box::new((procs, infos)),
            |cbdata| unsafe {
                function(
                    list,
                    count,
                    info,
                    ninfo,
                    data,
                    ndata,
                    Some(pending::modex),
                    cbdata,
                )
            },
        );
    }

    pub(super) fn direct_modex(&self, asked: upcall::DirectModex, done: To<Vec<u8>>) {
        let function = slot!(self, direct_modex, done);
        let (proc, infos) = shown!(done, one(&asked.proc), Shown::of(&asked.infos));
        let (at, info, ninfo) = (proc.0, infos.0, infos.1);
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Modex(done),
            Box::new((proc, infos)),
            |cbdata| unsafe { function(at, info, ninfo, Some(pending::modex), cbdata) },
        );
    }

    pub(crate) fn publish(&self, proc: &Proc<'_>, infos: &[Info<'_>], done: To<()>) {
        let function = slot!(self, publish, done);
        let (proc, infos) = shown!(done, one(proc), Shown::of(infos));
        let (at, info, ninfo) = (proc.0, infos.0, infos.1);
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Op(done),
            Box::new((proc, infos)),
            |cbdata| unsafe { function(at, info, ninfo, Some(pending::op), cbdata) },
        );
    }

    pub(crate) fn lookup(
        &self,
        proc: &Proc<'_>,
        keys: &[Text<'_>],
        infos: &[Info<'_>],
        done: To<Vec<Pdata<'static>>>,
    ) {
        let function = slot!(self, lookup, done);
        let (proc, infos, keys) = shown!(done, one(proc), Shown::of(infos), shown_keys(keys));
        let (at, info, ninfo, list) = (proc.0, infos.0, infos.1, keys.0);
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Lookup(done),
            Box::new((proc, infos, keys)),
            |cbdata| unsafe { function(at, list, info, ninfo, Some(pending::lookup), cbdata) },
        );
    }

    pub(crate) fn unpublish(
        &self,
        proc: &Proc<'_>,
        keys: &[Text<'_>],
        infos: &[Info<'_>],
        done: To<()>,
    ) {
        let function = slot!(self, unpublish, done);
        let (proc, infos, keys) = shown!(done, one(proc), Shown::of(infos), shown_keys(keys));
        let (at, info, ninfo, list) = (proc.0, infos.0, infos.1, keys.0);
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Op(done),
            Box::new((proc, infos, keys)),
            |cbdata| unsafe { function(at, list, info, ninfo, Some(pending::op), cbdata) },
        );
    }

    pub(crate) fn spawn(
        &self,
        proc: &Proc<'_>,
        infos: &[Info<'_>],
        apps: &[App<'_>],
        done: To<Nspace<'static>>,
    ) {
        let function = slot!(self, spawn, done);
        let (proc, infos, apps) = shown!(done, one(proc), Shown::of(infos), Shown::of(apps));
        let (at, info, ninfo, list, count) = (proc.0, infos.0, infos.1, apps.0, apps.1);
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Spawn(done),
            Box::new((proc, infos, apps)),
            |cbdata| unsafe {
                function(at, info, ninfo, list, count, Some(pending::spawn), cbdata)
            },
        );
    }

    pub(super) fn connect(&self, asked: upcall::Connect, done: To<()>) {
        // The module has no way to report a connect that failed on this server.
        if asked.failed.is_some() {
            return done.succeed(());
        }
        let function = slot!(self, connect, done);
        let (procs, infos) = shown!(done, Shown::of(&asked.procs), Shown::of(&asked.infos));
        let (list, count, info, ninfo) = (procs.0, procs.1, infos.0, infos.1);
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Op(done),
            Box::new((procs, infos)),
            |cbdata| unsafe { function(list, count, info, ninfo, Some(pending::op), cbdata) },
        );
    }

    pub(super) fn disconnect(&self, asked: upcall::Disconnect, done: To<()>) {
        if asked.failed.is_some() {
            return done.succeed(());
        }
        let function = slot!(self, disconnect, done);
        let (procs, infos) = shown!(done, Shown::of(&asked.procs), Shown::of(&asked.infos));
        let (list, count, info, ninfo) = (procs.0, procs.1, infos.0, infos.1);
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Op(done),
            Box::new((procs, infos)),
            |cbdata| unsafe { function(list, count, info, ninfo, Some(pending::op), cbdata) },
        );
    }

    pub(super) fn register_events(&self, asked: upcall::RegisterEvents, done: To<()>) {
        let function = slot!(self, register_events, done);
        let (codes, infos) = shown!(done, Shown::of(&asked.codes), Shown::of(&asked.infos));
        let (list, count, info, ninfo) = (codes.0, codes.1, infos.0, infos.1);
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Op(done),
            Box::new((codes, infos)),
            |cbdata| unsafe { function(list, count, info, ninfo, Some(pending::op), cbdata) },
        );
    }

    pub(super) fn deregister_events(&self, asked: upcall::DeregisterEvents, done: To<()>) {
        let function = slot!(self, deregister_events, done);
        let codes = shown!(done, Shown::of(&asked.codes));
        let (list, count) = (codes.0, codes.1);
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(Answering::Op(done), Box::new(codes), |cbdata| unsafe {
            function(list, count, Some(pending::op), cbdata)
        });
    }

    pub(super) fn notify_event(&self, asked: upcall::NotifyEvent, done: To<()>) {
        let function = slot!(self, notify_event, done);
        let (source, infos) = shown!(done, one(&asked.source), Shown::of(&asked.infos));
        let (at, info, ninfo) = (source.0, infos.0, infos.1);
        let (status, range) = (asked.status.as_raw(), asked.range.as_raw());
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Op(done),
            Box::new((source, infos)),
            |cbdata| unsafe { function(status, at, range, info, ninfo, Some(pending::op), cbdata) },
        );
    }

    pub(crate) fn query(
        &self,
        proc: &Proc<'_>,
        queries: &[Query<'_>],
        done: To<Vec<Info<'static>>>,
    ) {
        if let Some(found) = attributes::answer(queries) {
            return done.succeed(found);
        }
        let function = slot!(self, query, done);
        let (proc, queries) = shown!(done, one(proc), Shown::of(queries));
        let (at, list, count) = (proc.0, queries.0, queries.1);
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Infos(done),
            Box::new((proc, queries)),
            |cbdata| unsafe { function(at, list, count, Some(pending::infos), cbdata) },
        );
    }

    pub(crate) fn log(
        &self,
        proc: &Proc<'_>,
        data: &[Info<'_>],
        directives: &[Info<'_>],
        done: To<()>,
    ) {
        let (proc, data, dirs) = shown!(done, one(proc), Shown::of(data), Shown::of(directives));
        let (at, info, ninfo, list, count) = (proc.0, data.0, data.1, dirs.0, dirs.1);
        if let Some(function) = self.module().log2 {
            let shown = Box::new((proc, data, dirs));
            // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
            call(Answering::Op(done), shown, |cbdata| unsafe {
                function(at, info, ninfo, list, count, Some(pending::op), cbdata)
            });
            return;
        }
        let function = slot!(self, log, done);
        call(
            Answering::Op(done),
            Box::new((proc, data, dirs)),
            |cbdata| {
                // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the reply.
                unsafe { function(at, info, ninfo, list, count, Some(pending::op), cbdata) };
                Status::SUCCESS.as_raw()
            },
        );
    }

    pub(crate) fn allocate(
        &self,
        proc: &Proc<'_>,
        directive: AllocDirective,
        infos: &[Info<'_>],
        done: To<Vec<Info<'static>>>,
    ) {
        let function = slot!(self, allocate, done);
        let (proc, infos) = shown!(done, one(proc), Shown::of(infos));
        let (at, info, ninfo, directive) = (proc.0, infos.0, infos.1, directive.as_raw());
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Infos(done),
            Box::new((proc, infos)),
            |cbdata| unsafe { function(at, directive, info, ninfo, Some(pending::infos), cbdata) },
        );
    }

    pub(crate) fn job_control(
        &self,
        proc: &Proc<'_>,
        targets: &[Proc<'_>],
        directives: &[Info<'_>],
        done: To<Vec<Info<'static>>>,
    ) {
        let function = slot!(self, job_control, done);
        let (proc, procs, infos) =
            shown!(done, one(proc), Shown::of(targets), Shown::of(directives));
        let (at, list, count, info, ninfo) = (proc.0, procs.0, procs.1, infos.0, infos.1);
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Infos(done),
            Box::new((proc, procs, infos)),
            |cbdata| unsafe {
                function(at, list, count, info, ninfo, Some(pending::infos), cbdata)
            },
        );
    }

    pub(crate) fn monitor(
        &self,
        proc: &Proc<'_>,
        monitor: &Info<'_>,
        error: Status,
        directives: &[Info<'_>],
        done: To<Vec<Info<'static>>>,
    ) {
        let function = slot!(self, monitor, done);
        let (proc, infos) = shown!(done, one(proc), Shown::of(directives));
        let monitor = shown!(done, Shown::of(std::slice::from_ref(monitor)));
        let (at, what, info, ninfo) = (proc.0, monitor.0, infos.0, infos.1);
        let error = error.as_raw();
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Infos(done),
            Box::new((proc, infos, monitor)),
            |cbdata| unsafe {
                function(at, what, error, info, ninfo, Some(pending::infos), cbdata)
            },
        );
    }

    pub(crate) fn get_credential(
        &self,
        proc: &Proc<'_>,
        directives: &[Info<'_>],
        done: To<Credential>,
    ) {
        let function = slot!(self, get_credential, done);
        let (proc, infos) = shown!(done, one(proc), Shown::of(directives));
        let (at, info, ninfo) = (proc.0, infos.0, infos.1);
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Credential(done),
            Box::new((proc, infos)),
            |cbdata| unsafe { function(at, info, ninfo, Some(pending::credential), cbdata) },
        );
    }

    pub(crate) fn validate_credential(
        &self,
        proc: &Proc<'_>,
        credential: &[u8],
        directives: &[Info<'_>],
        done: To<Vec<Info<'static>>>,
    ) {
        let function = slot!(self, validate_credential, done);
        let (proc, infos) = shown!(done, one(proc), Shown::of(directives));
        let shown = shown!(done, shown_bytes(credential));
        let (at, cred, info, ninfo) = (proc.0, shown.0, infos.0, infos.1);
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Validated(done),
            Box::new((proc, infos, shown)),
            |cbdata| unsafe { function(at, cred, info, ninfo, Some(pending::validated), cbdata) },
        );
    }

    pub(crate) fn iof_pull(
        &self,
        procs: &[Proc<'_>],
        directives: &[Info<'_>],
        channels: IofChannel,
        done: To<()>,
    ) {
        let function = slot!(self, iof_pull, done);
        let (procs, infos) = shown!(done, Shown::of(procs), Shown::of(directives));
        let (list, count, info, ninfo) = (procs.0, procs.1, infos.0, infos.1);
        let channels = channels.as_raw();
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Op(done),
            Box::new((procs, infos)),
            |cbdata| unsafe {
                function(
                    list,
                    count,
                    info,
                    ninfo,
                    channels,
                    Some(pending::op),
                    cbdata,
                )
            },
        );
    }

    pub(crate) fn push_stdin(
        &self,
        source: &Proc<'_>,
        targets: &[Proc<'_>],
        directives: &[Info<'_>],
        data: &[u8],
        done: To<()>,
    ) {
        let function = slot!(self, push_stdin, done);
        let (source, procs, infos) =
            shown!(done, one(source), Shown::of(targets), Shown::of(directives));
        let shown = shown!(done, shown_bytes(data));
        let (at, list, count, info, ninfo, data) =
            (source.0, procs.0, procs.1, infos.0, infos.1, shown.0);
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Op(done),
            Box::new((source, procs, infos, shown)),
            |cbdata| unsafe {
                function(
                    at,
                    list,
                    count,
                    info,
                    ninfo,
                    data,
                    Some(pending::op),
                    cbdata,
                )
            },
        );
    }

    pub(super) fn group(&self, asked: upcall::Group, done: To<Vec<Info<'static>>>) {
        let function = slot!(self, group, done);
        let (procs, infos) = shown!(done, Shown::of(&asked.procs), Shown::of(&asked.directives));
        let name = shown!(done, shown_text(Some(&asked.id)));
        let (list, count, info, ninfo, id) = (procs.0, procs.1, infos.0, infos.1, name.0);
        let operation = asked.operation.as_raw();
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Infos(done),
            Box::new((procs, infos, name)),
            |cbdata| unsafe {
                function(
                    operation,
                    id,
                    list,
                    count,
                    info,
                    ninfo,
                    Some(pending::infos),
                    cbdata,
                )
            },
        );
    }

    pub(crate) fn fabric(
        &self,
        proc: &Proc<'_>,
        operation: FabricOperation,
        directives: &[Info<'_>],
        done: To<Vec<Info<'static>>>,
    ) {
        let function = slot!(self, fabric, done);
        let (proc, infos) = shown!(done, one(proc), Shown::of(directives));
        let (at, info, ninfo, operation) = (proc.0, infos.0, infos.1, operation.as_raw());
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Infos(done),
            Box::new((proc, infos)),
            |cbdata| unsafe { function(at, operation, info, ninfo, Some(pending::infos), cbdata) },
        );
    }
}

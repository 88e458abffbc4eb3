// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slots that not every release has. They are called only if the host has passed the size of its module.

use pmix_server::upcall::ToolConnected;
use pmix_types::{Info, Proc, ResourceBlockDirective, ResourceUnit, Status, Text};

use super::shown::{Shown, one, shown, shown_text};
use crate::server::host::CHost;
use crate::server::pending::{self, Answering, To, call};

impl CHost {
    pub(in crate::server) fn tool_connected(&self, asked: ToolConnected, done: To<Proc<'static>>) {
        let infos = shown!(done, Shown::of(&asked.infos));
        let (info, ninfo) = (infos.0, infos.1);
        if let Some(function) = self.module().tool_connected2 {
            // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
            call(Answering::Tool(done), Box::new(infos), |cbdata| unsafe {
                function(info, ninfo, Some(pending::tool), cbdata)
            });
            return;
        }
        let function = slot!(self, tool_connected, done);
        call(Answering::Tool(done), Box::new(infos), |cbdata| {
            // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
            unsafe { function(info, ninfo, Some(pending::tool), cbdata) };
            Status::SUCCESS.as_raw()
        });
    }

    pub(crate) fn session_control(
        &self,
        proc: &Proc<'_>,
        session: u32,
        directives: &[Info<'_>],
        done: To<Vec<Info<'static>>>,
    ) {
        let function = slot!(self, session_control, done);
        let (proc, infos) = shown!(done, one(proc), Shown::of(directives));
        let (at, info, ninfo) = (proc.0, infos.0, infos.1);
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Infos(done),
            Box::new((proc, infos)),
            |cbdata| unsafe { function(at, session, info, ninfo, Some(pending::infos), cbdata) },
        );
    }

    pub(crate) fn resource_block(
        &self,
        proc: &Proc<'_>,
        directive: ResourceBlockDirective,
        block: &Text<'_>,
        units: &[ResourceUnit],
        directives: &[Info<'_>],
        done: To<()>,
    ) {
        let function = slot!(self, resource_block, done);
        let (proc, infos) = shown!(done, one(proc), Shown::of(directives));
        let (name, units) = shown!(done, shown_text(Some(block)), Shown::of(units));
        let (at, block, list, count) = (proc.0, name.0, units.0, units.1);
        let (info, ninfo, directive) = (infos.0, infos.1, directive.as_raw());
        // SAFETY: the host declared `function` for this slot; `call` keeps its arguments until the host replies.
        call(
            Answering::Op(done),
            Box::new((proc, infos, name, units)),
            |cbdata| unsafe {
                function(
                    at,
                    directive,
                    block,
                    list,
                    count,
                    info,
                    ninfo,
                    Some(pending::op),
                    cbdata,
                )
            },
        );
    }
}

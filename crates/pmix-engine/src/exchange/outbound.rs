// SPDX-License-Identifier: MIT OR Apache-2.0
//! Direct modex requests of this server for data of processes on other nodes: one upcall for all waiting gets.
//!
//! | state | stored as | event | next state |
//! | --- | --- | --- | --- |
//! | none | | a get needs data of the process from its node | requested, with a `direct_modex` upcall |
//! | requested | `OutboundDmodex::asked` | another get needs data of the process | requested: the get waits for the same reply |
//! | requested | | the host reports the loss of the process | stale |
//! | requested | | the host returns data | none: the data are stored, and each waiting get is resolved again |
//! | requested | | the host returns data that must not be stored, or of an unregistered job | none: the waiting gets receive the data |
//! | requested | | the host replies with an error | none: the waiting gets fail, or continue to wait for the registration of the job |
//! | requested | | `PMIX_ERR_TIMEOUT`, by the limit of another client | none: a get with a longer limit makes another upcall |
//! | stale | `DmodexCall::is_stale` | the host replies | none: the data are dropped, and the waiting gets are resolved again |
//!
//! A get that is resolved again and finds no data makes another upcall if the last one was for another key.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `pmix_server_dmodex_req_fn_t`.

use gds_hash::ModexStore;
use pmix_types::{Info, Proc, Scope, Status, Text, Value, keys};

use super::state::{DmodexCall, Exchange, PendingGet, WaitFor};
use crate::Error;
use crate::cx::Cx;
use crate::host::{DirectModex, HostReply};
use crate::pending::Pending;

impl Exchange {
    /// Drops the data of a lost process of another node, including data in flight. The next get requests them again,
    /// since only the server of that node knows if there is a new incarnation.
    pub(crate) fn lost_elsewhere(&mut self, cx: &mut Cx, proc: &Proc<'_>) {
        cx.forget_puts(proc);
        let is_registered = cx.store.job(&proc.nspace).is_some();
        self.outbound.mark_stale(proc, is_registered);
    }

    /// Requests the data of a process from the host, unless a request is pending.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if too many requests of this peer wait for the host.
    pub(super) fn request_direct_modex(
        &mut self,
        cx: &mut Cx,
        pending: &PendingGet,
    ) -> Result<(), Error> {
        let (request, peer) = (&pending.request, pending.ticket.peer());
        let proc = request.proc.clone();
        if self.outbound.asked.contains_key(&proc) {
            return Ok(());
        }
        let open = self.outbound.num_of(peer);
        if open >= cx.config.requests_per_peer {
            let message = format!(
                "the limit of pending direct modex requests of this peer is reached: {open}"
            );
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        let mut infos = request.infos.clone();
        if let Some(key) = &request.key {
            let name = Text::new(key.as_bytes().to_vec());
            infos.push(Info::new(keys::REQUIRED_KEY, Value::String(Some(name))));
        }
        // A default time limit of this server does not apply to the host.
        let until = pending.until.filter(|_| request.timeout.is_some());
        let asked = DmodexCall {
            key: request.key.clone(),
            peer,
            until: until.map(|(at, _)| at),
            is_stale: false,
        };
        self.outbound.add(proc.clone(), asked);
        let call = DirectModex {
            proc: proc.clone(),
            infos,
        };
        cx.call_host(call, Pending::DirectModex(proc));
        Ok(())
    }

    /// Handles the host's reply with data of a process.
    pub(crate) fn handle_dmodex_reply(
        &mut self,
        cx: &mut Cx,
        proc: &Proc<'static>,
        reply: HostReply,
    ) {
        let Some(DmodexCall {
            key,
            until,
            is_stale,
            ..
        }) = self.outbound.take(proc)
        else {
            return;
        };
        if is_stale {
            // The data may belong to the lost incarnation; waiting gets request them again.
            return self.settle_all(cx, self.gets.of_proc(proc));
        }
        let status = reply.status();
        let data = match reply {
            HostReply::Data(Ok(data)) => data,
            // Some hosts register the job instead and return no data.
            _ => Vec::new(),
        };
        let stored = match status.is_success() {
            true => self.store_remote_data(cx, proc, &data),
            false => Err(Error::new(status, "the host returned no data")),
        };
        for id in self.gets.of_proc(proc) {
            let Some(mut pending) = self.take_pending(cx, id) else {
                continue;
            };
            // A reply for another key does not settle this get, which may call the host again.
            pending.was_asked |= key.is_none() || pending.request.key == key;
            match &stored {
                Ok(Some(puts)) => self.reply_from(cx, pending, puts),
                Ok(None) => self.settle(cx, pending),
                // The call had the time limit of another client. A get with a longer limit calls the host again.
                Err(error) if error.status() == Status::ERR_TIMEOUT && pending.outlasts(until) => {
                    let wait_for = pending.wait_for;
                    self.park(cx, pending, wait_for);
                }
                Err(error) => self.host_failed(cx, pending, error),
            }
        }
    }

    /// Stores the data of the host. Returns them instead if they must not be stored, or if the job is not registered.
    fn store_remote_data(
        &mut self,
        cx: &mut Cx,
        proc: &Proc<'static>,
        data: &[u8],
    ) -> Result<Option<ModexStore>, Error> {
        let wire = cx.codec(&cx.config.modex_form());
        let is_kept = !self.outbound.lost.contains(proc);
        if is_kept && cx.store.job(&proc.nspace).is_some() {
            // Job info comes from the host's registration, never from another server's reply.
            if proc.rank.is_valid() {
                cx.store.update_modex(&proc.nspace, |puts| {
                    puts.absorb_direct(&wire, proc.rank, data)
                })?;
                cx.shared.puts_changed(proc);
            }
            return Ok(None);
        }
        let mut puts = ModexStore::default();
        puts.absorb_direct(&wire, proc.rank, data)?;
        Ok(Some(puts))
    }

    /// Replies with data of a job that is not registered.
    fn reply_from(&mut self, cx: &mut Cx, pending: PendingGet, puts: &ModexStore) {
        let proc = &pending.request.proc;
        let has = match pending.request.text() {
            Some(key) => (puts.check(proc.rank, Scope::REMOTE, key, &[])).is_ok(),
            None => puts.has_rank(proc.rank),
        };
        if !has {
            return self.settle(cx, pending);
        }
        let packed = Self::put_by(
            cx,
            &pending.ticket,
            &pending.request,
            puts,
            Scope::REMOTE,
            &[],
        );
        cx.reply_packed(pending.ticket, packed);
    }

    /// Handles a failure of the host. A client continues to wait for the registration of its own job, or of another job
    /// if the host does not support direct modex. Other gets fail with the host's status.
    fn host_failed(&mut self, cx: &mut Cx, pending: PendingGet, error: &Error) {
        let is_own = || {
            let member = cx.member(&pending.ticket);
            member.is_ok_and(|member| member.proc.nspace == pending.request.proc.nspace)
        };
        match error.status() {
            Status::ERR_NOT_SUPPORTED if pending.wait_for == WaitFor::Job => {
                self.settle(cx, pending);
            }
            _ if pending.wait_for == WaitFor::Job && is_own() => self.settle(cx, pending),
            Status::ERR_NOT_SUPPORTED => {
                let error = Error::not_found("the host does not support direct modex requests");
                cx.reply_error(pending.ticket, &error);
            }
            _ => cx.reply_error(pending.ticket, error),
        }
    }
}

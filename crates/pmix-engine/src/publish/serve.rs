// SPDX-License-Identifier: MIT OR Apache-2.0
//! Publications of peers on their way to the host.

use pmix_proto::{reply, request};
use pmix_types::{IntoOwned, Key, Status, Text};

use crate::Engine;
use crate::host::{Answer, Lookup, Publish, Unpublish};
use crate::infos::with_user;
use crate::peers::Ticket;
use crate::pending::Pending;

impl Engine {
    /// A process publishes. The user that it names itself does not count.
    pub(crate) fn publish(&mut self, ticket: Ticket, request: &request::Publish<'_>) {
        match self.cx.member(&ticket) {
            Err(error) => self.cx.reply_error(ticket, &error),
            Ok(member) => {
                let call = Publish {
                    proc: member.proc.clone(),
                    infos: with_user(&request.infos, member.user),
                };
                self.cx.call_host(call, Pending::Status(ticket));
            }
        }
    }

    /// A process looks published data up.
    pub(crate) fn lookup(&mut self, ticket: Ticket, request: &request::Lookup<'_>) {
        let member = match self.cx.member(&ticket) {
            Ok(member) => member,
            Err(error) => return self.cx.reply_error(ticket, &error),
        };
        let call = Lookup {
            proc: member.proc.clone(),
            keys: texts(&request.keys),
            infos: with_user(&request.infos, member.user),
        };
        self.cx.call_host(call, Pending::Lookup(ticket));
    }

    /// What was found is sent behind a partial success too.
    ///
    /// DEVIATION: OpenPMIx sends the status alone then, and its clients read no further than that;
    /// `what_one_process_publishes_another_finds_until_it_is_taken_back`.
    pub(crate) fn looked_up(&mut self, ticket: Ticket, answer: Answer) {
        let status = answer.status();
        let Some(form) = self.cx.form(ticket.peer()) else {
            return self.cx.reply_status(ticket, status);
        };
        let found = match answer {
            Answer::Found(_, data) => data,
            // A host that says success and nothing else has found nothing.
            _ if status.is_success() => {
                return self.cx.reply_status(ticket, Status::ERR_NOT_FOUND);
            }
            _ => Vec::new(),
        };
        let has_data = status.is_success() || status == Status::ERR_PARTIAL_SUCCESS;
        let reply = reply::Found {
            status,
            data: has_data.then_some(found),
        };
        let packed = reply.encode(&form, Some(self.cx.framer()));
        self.cx.reply_packed(ticket, packed);
    }

    /// A process takes back what it published.
    pub(crate) fn unpublish(&mut self, ticket: Ticket, request: &request::Unpublish<'_>) {
        match self.cx.member(&ticket) {
            Err(error) => self.cx.reply_error(ticket, &error),
            Ok(member) => {
                let call = Unpublish {
                    proc: member.proc.clone(),
                    keys: texts(&request.keys),
                    infos: with_user(&request.infos, member.user),
                };
                self.cx.call_host(call, Pending::Status(ticket));
            }
        }
    }
}

fn texts(keys: &[Key<'_>]) -> Vec<Text<'static>> {
    let text = |key: &Key<'_>| key.as_text().clone().into_owned();
    keys.iter().map(text).collect()
}

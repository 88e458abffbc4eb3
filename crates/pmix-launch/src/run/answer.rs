// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answering the upcalls of the server.

use std::time::Instant;

use pmix_server::Collective;
use pmix_server::upcall::Abort;
use pmix_types::{Proc, Status};

use super::job::Job;
use crate::host::HostMessage;
use crate::process::{Link, Process};
use crate::{Cause, Error, cleanup};

/// How many of those that are missing are named.
const MAX_NAMED: usize = 8;

impl Job<'_> {
    /// Lets the server do what there is to do, and answers what it asks for its clients.
    pub(super) fn serve(&mut self) {
        loop {
            if let Err(e) = self.server.drive(Instant::now()) {
                return tracing::error!("the server does not go on: {e}");
            }
            if !self.read_messages() {
                return;
            }
        }
    }

    /// The same when there is something to do, which is waited for at most so long. Whether there
    /// is news that is not for the server.
    ///
    /// # Errors
    /// The server ended too early.
    pub(super) fn wait_and_serve(&mut self, until: Option<Instant>) -> Result<bool, Error> {
        let news = self.server.turn(until);
        let news = news.map_err(|e| Error::server("the server does not go on", e))?;
        if self.read_messages() {
            self.serve();
        }
        Ok(news)
    }

    /// Answers all that came, if anything did.
    fn read_messages(&mut self) -> bool {
        let first = self.messages.next();
        let any = first.is_some();
        let mut next = first;
        while let Some(message) = next {
            self.answer(message);
            next = self.messages.next();
        }
        any
    }

    fn answer(&mut self, message: HostMessage) {
        match message {
            HostMessage::Connected(proc) => self.linked(&proc, Link::Connected),
            HostMessage::Finalized(proc) => self.linked(&proc, Link::Finalized),
            HostMessage::Abort(call, done) => {
                done.succeed(());
                self.abort(&call);
            }
            HostMessage::Publish(call, done) => self.published.publish(&call, done),
            HostMessage::Lookup(call, done) => self.published.lookup(&call, done),
            HostMessage::Unpublish(call, done) => self.published.unpublish(&call, done),
            HostMessage::Query(call, done) => {
                let (status, found) = self.query(&call);
                done.partly(status, found);
            }
            HostMessage::JobControl(call, done) => match self.control(&call) {
                Status::SUCCESS => done.succeed(Vec::new()),
                status => done.fail(status),
            },
            HostMessage::Missing(operation, status, missing) => {
                self.warn_of_missing(operation, status, &missing);
            }
            HostMessage::Cleanup(uid, cleanup) => cleanup::remove(&cleanup, uid, &self.guard),
            HostMessage::PushStdin(call, done) => self.input.push(&self.plan.nspace, call, done),
            HostMessage::Log(call, done) => match self.log(&call) {
                Status::SUCCESS => done.succeed(()),
                status => done.fail(status),
            },
        }
    }

    /// Says who keeps the others waiting; once the job is being ended that is no news.
    fn warn_of_missing(&self, operation: Collective, status: Status, missing: &[Proc<'_>]) {
        if self.stop.cause().is_some() {
            return;
        }
        let named = missing.iter().take(MAX_NAMED);
        let mut named: Vec<_> = named.map(|proc| proc.rank.to_string()).collect();
        if missing.len() > MAX_NAMED {
            named.push(format!("{} more", missing.len() - MAX_NAMED));
        }
        let host = String::from_utf8_lossy(self.plan.layout.host());
        let who = match named.len() {
            0 => "nobody of this node is missing".to_owned(),
            1 => format!("rank {} on {host} did not come", named.concat()),
            _ => format!("ranks {} on {host} did not come", named.join(", ")),
        };
        tracing::warn!("a {operation} ended with {status}: {who}");
    }

    fn linked(&mut self, proc: &Proc<'_>, link: Link) {
        if let Some(process) = self.process(proc) {
            process.link = link;
        }
    }

    /// A process of the job.
    pub(super) fn process(&mut self, proc: &Proc<'_>) -> Option<&mut Process> {
        let is_ours = proc.nspace.as_bytes() == self.plan.nspace.as_bytes();
        is_ours.then(|| self.table.of_rank(proc.rank)).flatten()
    }

    /// Whichever processes are meant, without them the job cannot go on.
    fn abort(&mut self, call: &Abort) {
        let message = call.message.as_ref();
        let cause = Cause::Aborted {
            rank: call.proc.rank,
            status: call.status.as_raw(),
            message: message.map_or_else(String::new, |text| text.to_str_lossy().into_owned()),
        };
        if let Some(order) = self.stop.fail(cause, Instant::now()) {
            self.obey(order);
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reply to one request of a connection, from any thread.

use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;
use crate::reply::{Reply, Ticket};

/// The socket of a connection, to which its thread and callbacks write.
#[derive(Clone)]
pub(crate) struct Writer {
    stream: Arc<TcpStream>,
    /// Held while a reply is written, so that replies do not mix.
    turn: Arc<Mutex<()>>,
}

impl Writer {
    pub(crate) fn new(stream: Arc<TcpStream>) -> Self {
        Self {
            stream,
            turn: Arc::default(),
        }
    }

    fn write(&self, bytes: &[u8]) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stream = &*self.stream;
        if stream.write_all(bytes).is_err() {
            // The rest of the reply is lost, so the stream cannot continue. Its thread reads the end.
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }
}

/// The right to reply to one request. If it is dropped without a reply, the request fails.
pub(crate) struct Responder {
    ticket: Option<Ticket>,
    writer: Writer,
}

impl Responder {
    pub(crate) fn new(ticket: Ticket, writer: Writer) -> Self {
        Self {
            ticket: Some(ticket),
            writer,
        }
    }

    /// Sends the reply.
    pub(crate) fn send(mut self, result: Result<Reply, Error>) {
        self.reply(&result.unwrap_or_else(|error| Reply::Failed(error.to_string())));
    }

    fn reply(&mut self, reply: &Reply) {
        if let Some(ticket) = self.ticket.take() {
            self.writer.write(&ticket.reply(reply));
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.reply(&Reply::Failed("the request could not be served".to_owned()));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transfer of connections to the host at its request.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Instant;

use pmix_engine::Engine;

use super::Driver;
use super::connection::Connection;
use crate::host;

impl Driver {
    /// Removes the requested connections that the engine gives up. The engine has handled all their input, and no
    /// output is pending.
    pub(super) fn give_up(&mut self, engine: &mut Engine, now: Instant) {
        let handle = Arc::clone(&self.handle);
        // The engine is locked, so no input arrives between its check and the removal of the socket.
        let found = handle.take_wanted(|proc| engine.give_up(proc, now));
        for ((peer, form), take) in found {
            let token = self.connections.token(peer);
            let Some(connection) = token.and_then(|token| self.connections.remove(token)) else {
                continue;
            };
            self.acceptor.resume();
            if let Some(observer) = &mut self.observer {
                observer.closed(peer);
            }
            match self.socket(connection) {
                Ok(stream) => self.given_up.push((stream, form, take)),
                // Dropping the callback notifies the requester that the connection will not be passed on.
                Err(error) => tracing::warn!(%peer, %error, "cannot close a connection"),
            }
        }
    }

    /// Passes the connections to the host with no lock held.
    pub(super) fn hand_over(&mut self) {
        for (stream, form, take) in self.given_up.drain(..) {
            host::guarded("take_connection", || take(stream, form));
        }
    }

    /// Returns the blocking socket of a connection, which this driver no longer polls.
    fn socket(&self, mut connection: Connection) -> io::Result<TcpStream> {
        self.poll.registry().deregister(&mut connection.stream)?;
        let stream = TcpStream::from(connection.stream.as_fd().try_clone_to_owned()?);
        // The new owner expects a socket as the standard library opens it.
        stream.set_nonblocking(false)?;
        Ok(stream)
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket of a client. In a singleton it has no peer.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::{Error, Uri};

/// The socket of a client.
#[derive(Debug)]
pub(crate) enum Socket {
    /// The connection to the server.
    Server(TcpStream),
    /// The socket of a singleton, which holds both ends. Nothing is sent on it, so a wait for input ends with its time
    /// limit or when this process shuts the socket down.
    Unconnected {
        stream: UnixStream,
        _other_end: UnixStream,
    },
}

/// Calls a method of the stream in either variant.
macro_rules! of_socket {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            Socket::Server($stream) => $call,
            Socket::Unconnected {
                stream: $stream, ..
            } => $call,
        }
    };
}

impl Socket {
    /// Connects to a server, within a time limit if there is one.
    pub(crate) fn connect(server: &Uri, limit: Option<Duration>) -> Result<Self, Error> {
        let unreachable = |error: io::Error| {
            let address = server.address;
            Error::lost(
                format_args!("cannot connect to the server at {address}"),
                error,
            )
        };
        let stream = match limit {
            Some(limit) => TcpStream::connect_timeout(&server.address, limit),
            None => TcpStream::connect(server.address),
        };
        let stream = stream.map_err(unreachable)?;
        // Most callers wait for the reply to their request, so a delay to merge small messages would only cost time.
        stream.set_nodelay(true).map_err(unreachable)?;
        Ok(Self::Server(stream))
    }

    /// Creates the socket of a singleton.
    pub(crate) fn unconnected() -> Result<Self, Error> {
        let made = UnixStream::pair();
        let (here, there) =
            made.map_err(|error| Error::lost("cannot create a descriptor to wait on", error))?;
        Ok(Self::Unconnected {
            stream: here,
            _other_end: there,
        })
    }

    /// Returns the stream to the server.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_UNREACH` if the process is a singleton.
    pub(crate) fn into_server(self) -> Result<TcpStream, Error> {
        match self {
            Self::Server(stream) => Ok(stream),
            Self::Unconnected { .. } => Err(Error::no_server()),
        }
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        of_socket!(self, stream => stream.read(buffer))
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        of_socket!(self, stream => stream.write(bytes))
    }

    pub(crate) fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        of_socket!(self, stream => stream.set_read_timeout(limit))
    }

    pub(crate) fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        of_socket!(self, stream => stream.set_write_timeout(limit))
    }

    pub(crate) fn shutdown(&self) -> io::Result<()> {
        of_socket!(self, stream => stream.shutdown(Shutdown::Both))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        of_socket!(self, stream => stream.as_fd())
    }
}

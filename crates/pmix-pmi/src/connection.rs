// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection of a process: its bytes, and the thread that serves them.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pmix_types::{Proc, Status};

use crate::client::{Handle, SharedClient};
use crate::registry::{Registry, Unidentified};
use crate::reply::Reply;
use crate::request::Request;
use crate::session::Session;
use crate::{Decoder, Error, Wire};

/// The time within which a connection says to which process it belongs.
const PATIENCE: Duration = Duration::from_secs(30);

/// The number of bytes of one read.
const READ: usize = 16 << 10;

/// The connection as its thread sees it.
struct Connection<'a> {
    stream: Arc<TcpStream>,
    /// The writer, which callbacks use as well.
    writer: Arc<Mutex<()>>,
    decoder: Decoder,
    session: Session,
    registry: &'a Registry,
    handle: Handle,
    proc: Option<Proc<'static>>,
    /// The place among the connections that do not belong to a process yet.
    unidentified: Option<Unidentified>,
}

/// Serves a connection until it ends.
pub(crate) fn serve(stream: TcpStream, registry: &Registry, unidentified: Unidentified) {
    let stream = Arc::new(stream);
    let client = SharedClient::default();
    let handle = Handle {
        stream: Arc::clone(&stream),
        client: client.clone(),
    };
    let mut connection = Connection {
        stream,
        writer: Arc::default(),
        decoder: Decoder::default(),
        session: Session::new(client),
        registry,
        handle,
        proc: None,
        unidentified: Some(unidentified),
    };
    if let Err(error) = connection.run() {
        let proc = connection.proc.as_ref();
        let proc = proc.map_or_else(|| "a process".to_owned(), ToString::to_string);
        tracing::warn!("the PMI connection of {proc} is closed: {error}");
    }
    if let Some(proc) = connection.proc {
        registry.remove(&proc, &connection.handle);
    }
    connection.handle.close();
}

impl Connection<'_> {
    fn run(&mut self) -> Result<(), Error> {
        let cannot = |e| Error::system("cannot prepare the socket", e);
        self.stream.set_nodelay(true).map_err(cannot)?;
        // A peer that reads no replies must not keep the place of an unidentified connection.
        self.stream
            .set_write_timeout(Some(PATIENCE))
            .map_err(cannot)?;
        let until = Instant::now() + PATIENCE;
        let mut buffer = [0; READ];
        loop {
            while let Some(command) = self.decoder.next_command()? {
                let (request, ticket) = Request::read(&command)?;
                if let Request::Init(2, _) = request {
                    self.decoder.set_wire(Wire::V2);
                }
                let identified = match request {
                    Request::Identify(id) => self.identify(id),
                    request => {
                        let (stream, writer) = (Arc::clone(&self.stream), Arc::clone(&self.writer));
                        // The ticket has two owners, of which exactly one uses it.
                        let ticket = Arc::new(Mutex::new(Some(ticket)));
                        let later = Arc::clone(&ticket);
                        let take = |ticket: &Mutex<Option<_>>| {
                            ticket.lock().unwrap_or_else(PoisonError::into_inner).take()
                        };
                        let deferred = Box::new(move |reply: Reply| {
                            if let Some(ticket) = take(&later) {
                                // A process that has closed its socket needs no reply.
                                let _ = write(&stream, &writer, &ticket.reply(&reply));
                            }
                        });
                        if let Some(reply) = self.session.serve(request, deferred)
                            && let Some(ticket) = take(&ticket)
                        {
                            self.write(&ticket.reply(&reply))?;
                        }
                        continue;
                    }
                };
                let reply = identified.unwrap_or_else(|error| Reply::Failed(error.to_string()));
                self.write(&ticket.reply(&reply))?;
            }
            if self.unidentified.is_some() {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(not_identified());
                }
                self.stream.set_read_timeout(Some(left)).map_err(cannot)?;
            }
            match (&*self.stream).read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(len) => self.decoder.push(buffer.get(..len).unwrap_or_default())?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return Err(not_identified()),
                // The process has ended without reading its last reply.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(Error::system("cannot read", error)),
            }
        }
    }

    /// Connects to the PMIx server in the name of the process with an id.
    fn identify(&mut self, id: Option<u32>) -> Result<Reply, Error> {
        let id = id.ok_or_else(|| Error::malformed("the process does not state its PMI_ID"))?;
        let registered = self.registry.process(id)?;
        if self.proc.is_some() {
            let message = "the connection already belongs to a process";
            return Err(Error::new(Status::ERR_EXISTS, message));
        }
        self.registry.add(&registered.proc, self.handle.clone())?;
        self.proc = Some(registered.proc.clone());
        // From here on the registry bounds the connections: each process has one.
        self.unidentified = None;
        let endless = self.stream.set_read_timeout(None);
        let endless = endless.and_then(|()| self.stream.set_write_timeout(None));
        endless.map_err(|e| Error::system("cannot prepare the socket", e))?;
        self.session.identify(registered)
    }

    fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        match write(&self.stream, &self.writer, bytes) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Error::system("cannot write", error))
            }
            _ => Ok(()),
        }
    }
}

fn not_identified() -> Error {
    let message = format!(
        "it did not state its PMI_ID within {} s",
        PATIENCE.as_secs()
    );
    Error::new(Status::ERR_TIMEOUT, message)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// Writes a reply as a whole.
fn write(stream: &TcpStream, writer: &Mutex<()>, bytes: &[u8]) -> io::Result<()> {
    let _turn = writer.lock().unwrap_or_else(PoisonError::into_inner);
    let mut stream = stream;
    stream.write_all(bytes)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection of a process: its bytes, and the thread that serves them.

use std::io::{self, Read as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pmix_types::{Proc, Status};

use crate::client::{Handle, SharedClient};
use crate::registry::{Registry, Unidentified};
use crate::reply::Reply;
use crate::request::Request;
use crate::responder::{Responder, Writer};
use crate::session::Session;
use crate::{Decoder, Error, MAX_COMMAND_BYTES, Wire};

/// The time within which a connection says to which process it belongs.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest command of a connection that does not belong to a process yet.
const UNIDENTIFIED: usize = 4 << 10;

/// The number of bytes of one read.
const READ: usize = 16 << 10;

/// The connection as its thread sees it.
struct Connection<'a> {
    stream: Arc<TcpStream>,
    writer: Writer,
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
        writer: Writer::new(Arc::clone(&stream)),
        stream,
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
        self.decoder.set_limit(UNIDENTIFIED);
        let until = Instant::now() + PATIENCE;
        let mut buffer = [0; READ];
        loop {
            while let Some(command) = self.decoder.next_command()? {
                let (request, ticket) = Request::read(&command)?;
                if let Request::Init(2, _) = request {
                    self.decoder.set_wire(Wire::V2);
                }
                let responder = Responder::new(ticket, self.writer.clone());
                match request {
                    Request::Identify(id) => responder.send(self.identify(id)),
                    request => self.session.serve(request, responder),
                }
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
        // Before the registry, which would replace an earlier connection of that process.
        self.session.check_new()?;
        self.registry.add(&registered.proc, self.handle.clone())?;
        self.proc = Some(registered.proc.clone());
        // From here on the registry bounds the connections: each process has one.
        self.unidentified = None;
        self.decoder.set_limit(MAX_COMMAND_BYTES);
        let endless = self.stream.set_read_timeout(None);
        let endless = endless.and_then(|()| self.stream.set_write_timeout(None));
        endless.map_err(|e| Error::system("cannot prepare the socket", e))?;
        self.session.identify(registered)
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

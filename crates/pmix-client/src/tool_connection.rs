// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection from a launcher to the tool that requested its start and passed it an address
//! (`PMIX_LAUNCHER_RNDZ_URI`).
//!
//! | step | sender | message |
//! | --- | --- | --- |
//! | 1 | launcher | its hello, as a tool sends it to a server |
//! | 2 | launcher | one request for its job info |
//! | 3 | tool | its requests, as to a server; the launcher expects no further replies |
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", "Indirect launch"; OpenPMIx, `PMIx_server_init`.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use pmix_proto::reply::JobInfo;
use pmix_proto::{Header, PeerForm, RELEASE, Request, Tag, Welcome};
use pmix_types::{IntoOwned as _, Proc, Rank, Status, Value};

use crate::cache::JobCache;
use crate::connection::{Connection, Deadline};
use crate::hello::{credential, hello};
use crate::socket::Socket;
use crate::{Error, Settings};

/// The time limit for the replies of the tool if [`Settings::time_limit`] has none.
const TIME: Duration = Duration::from_secs(10);

/// The bytes that the tool may send before it has replied.
const MOST: usize = 16 << 20;

/// The tag of the job info request. Tools number their own requests from 100 on, so none of them has this tag.
const TAG: Tag = Tag(0x7fff_ff00);

/// A connection from a launcher to its tool, after the last reply has arrived. Every further message is a request of
/// the tool.
pub struct ToolConnection {
    /// The socket.
    pub stream: TcpStream,
    /// Bytes received but not yet decoded: the beginning of the tool's first requests.
    pub unread: Vec<u8>,
    /// The name of the tool.
    pub tool: Proc<'static>,
    /// The name that the tool assigned to this launcher.
    pub launcher: Proc<'static>,
    /// The layout and version that the tool packs with.
    pub form: PeerForm,
    job_info: JobCache,
}

impl ToolConnection {
    /// Connects to the tool of [`Settings::of_launcher`] and requests the job info of this launcher.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_UNREACH` if the tool cannot be reached or closes the connection, and its status if it rejects
    /// this launcher. Returns `PMIX_ERR_TIMEOUT` if it does not reply in time, and an unpack error if its replies are
    /// damaged.
    pub fn open(settings: Settings) -> Result<Self, Error> {
        let end = Deadline::after(Some(settings.time_limit.unwrap_or(TIME)));
        let credential = credential(&settings)?;
        let hello = hello(&settings, &credential, false);
        let welcome = hello.role.welcome(&hello.form()?);
        let hello = hello.encode()?;
        let version = settings.server_version.as_deref().unwrap_or(RELEASE);
        let form = PeerForm::new(settings.layout, version.as_bytes());
        let address = settings.server.as_ref().ok_or_else(Error::no_server)?;
        let mut server = address.server.clone();
        let mut exchange = Exchange {
            connection: Connection::new(Socket::connect(address, end.left())?),
            received: Vec::new(),
            end,
        };
        exchange.send(&hello)?;
        let mut settings = settings;
        let mut is_assigned = false;
        loop {
            let Some((answer, len)) = Welcome::decode(welcome, &exchange.received) else {
                exchange.receive()?;
                continue;
            };
            match answer {
                Welcome::Assigned {
                    proc,
                    server: named,
                } => {
                    settings.proc = proc.into_owned();
                    server = named.into_owned();
                    is_assigned = true;
                }
                Welcome::Server { server: named } => server = named.into_owned(),
                Welcome::Index { .. } => {}
                Welcome::Refused(status) if status.as_raw() > 0 => {
                    let message = "the peer is not a tool: it sent an invalid status";
                    return Err(Error::new(Status::ERR_COMM_FAILURE, message));
                }
                Welcome::Refused(status) => {
                    return Err(Error::new(status, "the tool rejected this launcher"));
                }
            }
            // The bytes after the reply are the first requests of the tool.
            exchange.received.drain(..len);
            break;
        }
        let host = settings.host.as_deref();
        let job_info = match is_assigned {
            true => JobCache::of_tool(form, &settings.proc, host),
            false => {
                let payload = exchange.request(&form)?;
                let info = JobInfo::decode(&form, None, &payload)?;
                JobCache::new(form, &settings.proc, host, &info)?
            }
        };
        Ok(Self {
            stream: exchange.connection.into_parts().0.into_server()?,
            unread: exchange.received,
            tool: server,
            launcher: settings.proc,
            form,
            job_info,
        })
    }

    /// Returns a value of the job info that the tool sent for this launcher.
    #[must_use]
    pub fn job_info(&self, key: &'static str) -> Option<Value<'static>> {
        let job = Proc::new(self.launcher.nspace.clone(), Rank::WILDCARD);
        self.job_info.job_value(&job, key, &[])?.ok()
    }
}

/// The connection during the handshake.
struct Exchange {
    connection: Connection,
    /// Bytes received but not yet decoded.
    received: Vec<u8>,
    end: Deadline,
}

impl Exchange {
    fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self.connection.send_all(bytes, self.end) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::timeout("the description of the launcher")),
            Err(error) => Err(lost(error)),
        }
    }

    fn receive(&mut self) -> Result<(), Error> {
        match self.connection.receive(self.end) {
            Ok(Some(bytes)) if self.received.len().saturating_add(bytes.len()) <= MOST => {
                self.received.extend_from_slice(bytes);
                Ok(())
            }
            Ok(Some(_)) => {
                let message = format!("the tool sent more than {MOST} bytes without a reply");
                Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message))
            }
            Ok(None) => Err(Error::timeout("a launcher that connects")),
            Err(error) => Err(lost(error)),
        }
    }

    /// Requests the job info and returns the payload of the reply. The tool may send requests before the reply; these
    /// stay in `received`.
    fn request(&mut self, form: &PeerForm) -> Result<Vec<u8>, Error> {
        let payload = Request::JobInfo.encode(form, None)?;
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        self.send(&[&Header::new(0, TAG, len).encode()[..], &payload].concat())?;
        let mut at = 0usize;
        loop {
            let head = self.received.get(at..at.saturating_add(Header::LEN));
            let Some(header) = head.and_then(|head| <[u8; Header::LEN]>::try_from(head).ok())
            else {
                self.receive()?;
                continue;
            };
            let header = Header::decode(&header);
            let payload = at.saturating_add(Header::LEN);
            let len = usize::try_from(header.len).unwrap_or(usize::MAX);
            let next = payload.saturating_add(len);
            if next > MOST {
                let message = format!("a message of {len} bytes before the tool replied");
                return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
            }
            while self.received.len() < next {
                self.receive()?;
            }
            if header.tag == TAG {
                let mut reply: Vec<u8> = self.received.drain(at..next).collect();
                reply.drain(..Header::LEN);
                return Ok(reply);
            }
            at = next;
        }
    }
}

fn lost(error: io::Error) -> Error {
    Error::lost(
        "lost the connection to the tool that started this launcher",
        error,
    )
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections that the host made with tools, and connections of launchers that the host takes over as their tool.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", "Indirect launch"; OpenPMIx, `PMIX_LAUNCHER_RNDZ_URI`.

use std::net::TcpStream;

use pmix_engine::Origin;
use pmix_proto::PeerForm;
use pmix_types::{IntoOwned as _, Proc, Status};

use crate::engine_handle::{NewConnection, Wanted};
use crate::net::owner::{Ends, Owner, Owners};
use crate::{Error, Server};

/// A tool to which the host has connected, and which sends its requests over that connection.
pub struct ConnectedTool {
    /// The name of the tool.
    pub name: Proc<'static>,
    /// The layout and version that the tool packs with.
    pub form: PeerForm,
    /// The socket.
    pub stream: TcpStream,
    /// Bytes received from the tool but not yet decoded.
    pub unread: Vec<u8>,
}

impl Server {
    /// Serves a tool over a connection that the host opened. A launcher connects in this way to the tool that requested
    /// its start, whose address is in `PMIX_LAUNCHER_RNDZ_URI`. From then on the tool is served like any other.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, `PMIX_ERR_UNREACH` if the tool has disconnected, and
    /// `PMIX_ERR_NO_PERMISSIONS` if the tool belongs to another user according to the system, or is on another node,
    /// where its user cannot be determined. Returns an error for an invalid name or an unusable socket.
    pub fn add_tool(&self, tool: ConnectedTool) -> Result<(), Error> {
        let ConnectedTool {
            name,
            form,
            stream,
            unread,
        } = tool;
        let fault = |error| Error::io("serving the tool that started this launcher", error);
        stream.set_nonblocking(true).map_err(fault)?;
        let ends = Ends {
            local: stream.local_addr().map_err(fault)?,
            peer: stream.peer_addr().map_err(fault)?,
        };
        // The tool sends no credential on this connection, so only the kernel can identify its user.
        let owner = Owners::new().look_up(&[ends]).first().copied();
        let from = ends.peer;
        let uid = match owner {
            Some(Owner::User(uid)) => uid,
            Some(Owner::Gone) => {
                let message = format!("the tool at {from} has disconnected");
                return Err(Error::new(Status::ERR_UNREACH, message));
            }
            _ => {
                let message = format!("cannot determine the user of the tool at {from}");
                return Err(Error::new(Status::ERR_NO_PERMISSIONS, message));
            }
        };
        let origin = Origin {
            uid: Some(uid),
            gid: None,
            loopback: true,
        };
        self.0.handle.give(|engine, now| {
            let peer = engine.add_tool(origin, name, form, now)?;
            // The tool may have sent requests before the launcher got its job info (docs/decisions/0027).
            if !unread.is_empty() {
                engine.queue_input(peer, &unread);
            }
            Ok(NewConnection {
                peer,
                stream,
                from,
                uid,
            })
        })
    }

    /// Passes the connection of a registered process to the host as soon as the process has its job info and no pending
    /// request. If the process does not connect, this never happens. One call takes one connection. For this server the
    /// process has then finalized, and a later connection of it is a new one.
    ///
    /// It is for a tool that started a launcher. Such a tool sends its own requests over the connection that the
    /// launcher opened (`PMIX_LAUNCHER_RNDZ_URI`).
    ///
    /// The thread that drives the server calls `take`, which must not block. `take` gets the blocking socket and the
    /// packing form of the process. It is dropped without a call when the job is deregistered or the server ends.
    pub fn take_connection(
        &self,
        proc: &Proc<'_>,
        take: impl FnOnce(TcpStream, PeerForm) + Send + 'static,
    ) {
        self.0.handle.want(Wanted {
            proc: proc.clone().into_owned(),
            take: Box::new(take),
        });
    }
}

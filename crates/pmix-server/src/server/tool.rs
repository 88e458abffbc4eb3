// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections that the host makes with tools, and those of launchers that it goes on with as their tool.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", "Indirect launch"; OpenPMIx, `PMIX_LAUNCHER_RNDZ_URI`.

use std::net::TcpStream;

use pmix_engine::Origin;
use pmix_proto::PeerForm;
use pmix_types::{IntoOwned as _, Proc, Status};

use crate::engine_handle::{Given, Wanted};
use crate::net::owner::{Ends, Owner, Owners};
use crate::{Error, Server};

/// Describes a tool with which the host has made a connection, and that sends its requests over it from now on.
pub struct ConnectedTool {
    /// The name of the tool.
    pub name: Proc<'static>,
    /// The form in which the tool packs.
    pub form: PeerForm,
    /// The socket.
    pub stream: TcpStream,
    /// What the tool has sent by now and nobody has read.
    pub unread: Vec<u8>,
}

impl Server {
    /// Serves a tool over a connection that the host made: a launcher connects with the tool that had it started, which
    /// named its address (`PMIX_LAUNCHER_RNDZ_URI`). The tool is one as any other from then on.
    ///
    /// # Errors
    /// `PMIX_ERR_INIT`; `PMIX_ERR_UNREACH` if the tool has gone; `PMIX_ERR_NO_PERMISSIONS` if the tool is of another user, as the system says, or on another
    /// node, where nobody says it; as for the names of other tools; the socket cannot be used.
    pub fn add_tool(&self, tool: ConnectedTool) -> Result<(), Error> {
        let ConnectedTool {
            name,
            form,
            stream,
            unread,
        } = tool;
        let fault = |error| Error::io("serving the tool that had this launcher started", error);
        stream.set_nonblocking(true).map_err(fault)?;
        let ends = Ends {
            local: stream.local_addr().map_err(fault)?,
            peer: stream.peer_addr().map_err(fault)?,
        };
        let owner = Owners::new().look_up(&[ends]).first().copied();
        let from = ends.peer;
        let uid = match owner {
            Some(Owner::User(uid)) => uid,
            Some(Owner::Gone) => {
                let message = format!("the tool at {from} is gone");
                return Err(Error::new(Status::ERR_UNREACH, message));
            }
            _ => {
                let message = format!("nobody says of which user the tool at {from} is");
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
            if !unread.is_empty() {
                engine.queue_input(peer, &unread);
            }
            Ok(Given {
                peer,
                stream,
                from,
                uid,
            })
        })
    }

    /// Hands the connection of a registered process to the host, as soon as the process has its job info and waits for no
    /// reply; never, if it does not connect. One call takes one connection. A tool that started a launcher sends requests
    /// of its own over the connection that the launcher made (`PMIX_LAUNCHER_RNDZ_URI`). To this server the process has
    /// left as if by `PMIx_Finalize`; a connection that it makes later is another one.
    ///
    /// `take` is called by whoever drives the server, and must not wait. It gets the socket, whose calls wait, and the
    /// form in which the process packs. It is dropped uncalled when the job is deregistered or the server ends.
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

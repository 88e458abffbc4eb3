// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tool: its servers, and what it asks them.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers".

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use pmix_client::{Answers, Ask, ClientEvent, Settings, SharedClient};
use pmix_proto::Role;
use pmix_types::{Proc, Query, Status};

use crate::{Error, FoundServer};

/// Connects a process with the servers that it attached to. One of them is primary: what is asked is
/// asked of it.
#[derive(Default)]
pub struct Tool {
    servers: Vec<Attached>,
    /// The index of the primary server.
    primary: usize,
    /// How long to wait for any answer; none is as long as it takes.
    time_limit: Option<Duration>,
}

/// One server that the tool is attached to.
struct Attached {
    server: Proc<'static>,
    client: SharedClient,
    is_lost: Arc<AtomicBool>,
}

/// How long a server may take to admit a tool.
const ADMISSION: Duration = Duration::from_secs(30);

impl Tool {
    /// Creates a tool without a server.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how long to wait for any answer of a server.
    #[must_use]
    pub const fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Attaches to a server (`PMIx_tool_attach_to_server`), which is primary if it is the first. What
    /// the server sends unasked is handed to `listener`.
    ///
    /// The first server gives the tool its name, by which the tool calls itself at further ones.
    /// Returns the name of the server.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_UNREACH` if the server cannot be reached; the status with which it refuses the tool;
    /// `PMIX_ERR_TIMEOUT`; `PMIX_ERR_EXISTS` if the tool is attached to it.
    pub fn attach(
        &mut self,
        found: &FoundServer,
        mut listener: impl FnMut(ClientEvent) + Send + 'static,
    ) -> Result<Proc<'static>, Error> {
        let mut settings = Settings::of_tool(found.uri.clone());
        settings.time_limit = Some(self.time_limit.unwrap_or(ADMISSION));
        if let Some(proc) = self.proc() {
            settings.proc = proc.clone();
            settings.role = Role::TOOL_WITH_ID;
        }
        let is_lost = Arc::new(AtomicBool::new(false));
        let lost = Arc::clone(&is_lost);
        let listener = move |event: ClientEvent| {
            if event == ClientEvent::Lost {
                lost.store(true, Ordering::Release);
            }
            listener(event);
        };
        let attached = |error: pmix_client::Error| {
            let name = &found.uri.server.nspace;
            Error::from(error).of(format_args!("attaching to server {name}"))
        };
        self.servers.retain(Attached::is_connected);
        self.primary = self.primary.min(self.servers.len().saturating_sub(1));
        if self.index_of(&found.uri.server).is_some() {
            let name = &found.uri.server.nspace;
            let message = format!("the tool is attached to server {name} already");
            return Err(Error::new(Status::ERR_EXISTS, message));
        }
        let client = SharedClient::init(settings, listener).map_err(attached)?;
        let server = client.settings().server.server.clone();
        self.servers.push(Attached {
            server: server.clone(),
            client,
            is_lost,
        });
        Ok(server)
    }

    /// Returns the name of the tool, which its first server gave it.
    #[must_use]
    pub fn proc(&self) -> Option<&Proc<'static>> {
        self.servers.first().map(|attached| attached.client.proc())
    }

    /// Returns the servers that the tool is attached to, the primary one first
    /// (`PMIx_tool_get_servers`).
    #[must_use]
    pub fn servers(&self) -> Vec<Proc<'static>> {
        let primary = self.servers.get(self.primary).into_iter();
        let others = self.servers.iter().enumerate();
        let others = others.filter(|(index, _)| *index != self.primary);
        primary
            .chain(others.map(|(_, attached)| attached))
            .filter(|attached| attached.is_connected())
            .map(|attached| attached.server.clone())
            .collect()
    }

    /// Makes a server the primary one (`PMIx_tool_set_server`).
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if the tool is not attached to it.
    pub fn set_server(&mut self, server: &Proc<'_>) -> Result<(), Error> {
        self.primary = self.index_of(server).ok_or_else(|| not_attached(server))?;
        Ok(())
    }

    /// Returns whether the tool is connected to its primary server (`PMIx_tool_is_connected`).
    #[must_use]
    pub fn is_connected(&self) -> bool {
        (self.servers.get(self.primary)).is_some_and(Attached::is_connected)
    }

    /// Returns the connection to the primary server, for all that a client may ask.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_UNREACH` if the tool has no server, or if it was lost.
    pub fn primary(&self) -> Result<&SharedClient, Error> {
        let primary = self.servers.get(self.primary);
        let primary = primary.filter(|attached| attached.is_connected());
        let primary = primary.ok_or_else(|| Error::unreachable("the tool has no server"))?;
        Ok(&primary.client)
    }

    /// Asks the primary server (`PMIx_Query_info`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it was lost.
    pub fn query(&self, queries: Vec<Query<'_>>) -> Result<Answers, Error> {
        self.wait(Ask::query(queries))
    }

    /// Sends a request to the primary server and waits for the reply.
    ///
    /// # Errors
    ///
    /// What the server answers, that it was lost, or `PMIX_ERR_TIMEOUT`.
    pub fn wait<T: Send + 'static>(&self, ask: Ask<'_, T>) -> Result<T, Error> {
        let client = self.primary()?;
        let Some(limit) = self.time_limit else {
            return Ok(client.wait(ask)?);
        };
        let (sender, receiver) = mpsc::channel();
        client.start(ask, move |answer| {
            // Who no longer waits does not want it.
            let _ = sender.send(answer);
        })?;
        let late = |_| Error::new(Status::ERR_TIMEOUT, "the server did not answer in time");
        Ok(receiver.recv_timeout(limit).map_err(late)??)
    }

    /// Detaches from one server (`PMIx_tool_disconnect`). If it was primary, the first that is left is.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if the tool is not attached to it; what it answers.
    pub fn disconnect(&mut self, server: &Proc<'_>) -> Result<(), Error> {
        let index = self.index_of(server).ok_or_else(|| not_attached(server))?;
        let attached = self.servers.remove(index);
        match index.cmp(&self.primary) {
            std::cmp::Ordering::Less => self.primary -= 1,
            std::cmp::Ordering::Equal => self.primary = 0,
            std::cmp::Ordering::Greater => {}
        }
        Ok(attached.client.finalize()?)
    }

    /// Detaches from all servers (`PMIx_tool_finalize`).
    ///
    /// # Errors
    ///
    /// What the first server answers that does not let the tool go; the others are left all the same.
    pub fn finalize(mut self) -> Result<(), Error> {
        let mut first = Ok(());
        for attached in self.servers.drain(..) {
            let is_connected = attached.is_connected();
            let left = attached.client.finalize();
            if is_connected && first.is_ok() {
                first = left;
            }
        }
        Ok(first?)
    }

    fn index_of(&self, server: &Proc<'_>) -> Option<usize> {
        let mut servers = self.servers.iter();
        servers.position(|attached| attached.server == *server)
    }
}

impl Attached {
    fn is_connected(&self) -> bool {
        !self.is_lost.load(Ordering::Acquire)
    }
}

fn not_attached(server: &Proc<'_>) -> Error {
    let message = format!("the tool is not attached to server {}", server.nspace);
    Error::new(Status::ERR_NOT_FOUND, message)
}

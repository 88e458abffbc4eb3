// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tool: the servers that it is attached to, and the requests to the primary one.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers".

use std::ops::Deref;
use std::time::Duration;

use pmix_client::driver::{self, OwnAnswers};
use pmix_client::{Answers, Call, Client, ClientEvent, ThreadStart};
use pmix_types::{IntoOwned as _, Proc, Query, Status, keys};

use crate::attachment::{Attachment, Identity};
use crate::{Error, FoundServer, Search, available_servers};

/// A process that attaches to servers which did not start it. One of them is primary.
///
/// The calls of a tool are those of a [`Client`], and go to the primary server. Without a connected primary server they
/// fail with `PMIX_ERR_UNREACH`.
///
/// ```
/// use pmix_tool::Tool;
/// use pmix_types::{Info, Status};
///
/// let tool = Tool::new();
/// let error = tool.publish([Info::new("port", 4711_u32)]).wait().unwrap_err();
/// assert_eq!(error.status(), Status::ERR_UNREACH); // the tool is not attached to a server
/// ```
pub struct Tool {
    identity: Identity,
    servers: Vec<Attachment>,
    /// The name of the primary server, which may have been lost.
    primary: Option<Proc<'static>>,
    /// A `Client` without a connection, which the tool uses while it has no primary server. Its calls fail.
    unattached: Client,
}

impl Default for Tool {
    fn default() -> Self {
        Self {
            identity: Identity::default(),
            servers: Vec::new(),
            primary: None,
            unattached: driver::without_server(UNATTACHED),
        }
    }
}

/// The message of the errors of a tool without a primary server.
const UNATTACHED: &str = "the tool is not attached to a server";

/// The connection to the primary server, with all calls of a client.
impl Deref for Tool {
    type Target = Client;

    fn deref(&self) -> &Client {
        let primary = self.primary_server();
        primary.map_or(&self.unattached, Attachment::client)
    }
}

impl Tool {
    /// Creates a tool without a server.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time limit of init and of each call without one of its own.
    #[must_use]
    pub const fn time_limit(mut self, limit: Duration) -> Self {
        self.identity.time_limit = Some(limit);
        self.identity.call_limit = Some(limit);
        self
    }

    /// Sets the largest length of a reply. The data that the client makes of a reply take at most eight times its length.
    #[must_use]
    pub const fn max_reply_bytes(mut self, most: u32) -> Self {
        self.identity.max_reply_bytes = Some(most);
        self
    }

    /// Sets the largest size of events and output that wait for the listener. Further ones are dropped.
    #[must_use]
    pub const fn max_unread_bytes(mut self, most: usize) -> Self {
        self.identity.max_unread_bytes = Some(most);
        self
    }

    /// Sets the name of the tool (`PMIX_TOOL_NSPACE`, `PMIX_TOOL_RANK`). Without one the first server
    /// gives it a name.
    #[must_use]
    pub fn name(mut self, name: Proc<'static>) -> Self {
        self.identity.name = Some(name);
        self
    }

    /// Sets `PMIX_LAUNCHER`, the attribute of a tool that launches jobs, which is sent to servers.
    #[must_use]
    pub const fn launcher(mut self, is_launcher: bool) -> Self {
        self.identity.is_launcher = is_launcher;
        self
    }

    /// Sets the function that each thread of the tool calls when it starts, for example to bind itself to processors.
    #[must_use]
    pub fn on_thread_start(mut self, start: ThreadStart) -> Self {
        self.identity.thread_start = Some(start);
        self
    }

    /// Returns the identity of the tool. With it, a caller can attach ([`Identity::attach`]) without a
    /// borrow of the tool, and then pass the result to [`add`](Self::add).
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity.clone()
    }

    /// Attaches to a server (`PMIx_tool_attach_to_server`). The server becomes primary if it is the first, or
    /// if the primary one was lost. `listener` receives its unsolicited messages.
    ///
    /// The first server assigns the name of the tool, which the tool uses for all further servers. A tool
    /// that this server started waits for a debugger if its job requests it ([`Identity::attach`]). Returns
    /// the name of the server.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_UNREACH` if the server cannot be reached, its status if it rejects the tool,
    /// `PMIX_ERR_TIMEOUT`, and `PMIX_ERR_EXISTS` if the tool is already attached to it.
    pub fn attach(
        &mut self,
        found: &FoundServer,
        listener: impl FnMut(ClientEvent) + Send + 'static,
    ) -> Result<Proc<'static>, Error> {
        let exists = |server: &Proc<'_>| {
            let message = format!("the tool is already attached to server {}", server.nspace);
            Err(Error::new(Status::ERR_EXISTS, message))
        };
        if self.is_attached_to(&found.uri.server) {
            return exists(&found.uri.server);
        }
        let made = self.identity.attach(found, listener)?;
        let server = made.server().clone();
        match self.add(made) {
            Ok(()) => Ok(server),
            Err(again) => {
                // Another name of a server that the tool is attached to. The first connection stays.
                let _ = again.finalize();
                exists(&server)
            }
        }
    }

    /// Adds a server that the tool's [`identity`](Self::identity) attached to, as [`attach`](Self::attach)
    /// does.
    ///
    /// # Errors
    ///
    /// Returns the attachment if the tool is attached to the server already.
    pub fn add(&mut self, made: Attachment) -> Result<(), Attachment> {
        self.servers.retain(Attachment::is_connected);
        if self.index_of(made.server()).is_some() {
            return Err(made);
        }
        let primary = self.primary.as_ref();
        if primary.is_none_or(|primary| self.index_of(primary).is_none()) {
            self.primary = Some(made.server().clone());
        }
        self.identity.has_begun = true;
        let name = self.identity.name.take();
        self.identity.name = name.or_else(|| Some(made.proc().clone()));
        self.servers.push(made);
        Ok(())
    }

    /// Returns `true` if the tool is attached to a server.
    #[must_use]
    pub fn is_attached_to(&self, server: &Proc<'_>) -> bool {
        let index = self.index_of(server);
        index
            .and_then(|index| self.servers.get(index))
            .is_some_and(Attachment::is_connected)
    }

    /// Returns the name of the tool, which the program or the first server has set.
    #[must_use]
    pub const fn proc(&self) -> Option<&Proc<'static>> {
        self.identity.name.as_ref()
    }

    /// Returns the servers that the tool is attached to, the primary one first
    /// (`PMIx_tool_get_servers`).
    #[must_use]
    pub fn servers(&self) -> Vec<Proc<'static>> {
        let connected = self.servers.iter().filter(|one| one.is_connected());
        let mut names: Vec<_> = connected.map(|one| one.server().clone()).collect();
        names.sort_by_key(|name| Some(name) != self.primary.as_ref());
        names
    }

    /// Makes a server the primary one (`PMIx_tool_set_server`).
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if the tool is not attached to it.
    pub fn set_server(&mut self, server: &Proc<'_>) -> Result<(), Error> {
        let index = self.index_of(server);
        let attached = index.and_then(|index| self.servers.get(index));
        let attached = attached.filter(|attached| attached.is_connected());
        self.primary = Some(
            attached
                .ok_or_else(|| not_attached(server))?
                .server()
                .clone(),
        );
        Ok(())
    }

    /// Returns `true` if the tool is connected to its primary server (`PMIx_tool_is_connected`).
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.primary_server().is_some()
    }

    /// Returns the connection to the primary server.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_UNREACH` if the tool is not attached to a server, or if it was lost.
    pub fn primary(&self) -> Result<&Client, Error> {
        let primary = self.primary_server().map(Attachment::client);
        primary.ok_or_else(|| Error::unreachable(UNATTACHED))
    }

    /// Queries the primary server (`PMIx_Query_info`). The library itself replies to queries for the version of the
    /// interface, the attributes that clients and tools support, and the servers of this node
    /// (`PMIX_QUERY_AVAIL_SERVERS`), which it searches in the directories that the environment names.
    ///
    /// # Errors
    ///
    /// The call returns the errors of [`Client::query`], unless the library has replied to a part of the queries.
    pub fn query<'a>(&'a self, queries: impl Into<Vec<Query<'a>>>) -> Call<'a, Answers> {
        let queries = queries.into();
        let is_empty = queries.is_empty();
        let mut own = OwnAnswers::of(queries.into_owned(), true, |key| {
            (key == keys::QUERY_AVAIL_SERVERS).then(|| available_servers(&Search::from_env()))
        });
        let left = own.take_left();
        // A query without keys is invalid, and the server must reject it.
        match left.is_empty() && !is_empty {
            true => driver::answered(self, own.with(None)),
            false => (**self)
                .query(left)
                .map_result(move |answer| own.with(Some(answer))),
        }
    }

    /// Detaches from one server (`PMIx_tool_disconnect`). If it was the primary one, the first of the others replaces it.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if the tool is not attached to it, or the status of the server.
    pub fn detach(&mut self, server: &Proc<'_>) -> Result<(), Error> {
        let limit = self.identity.call_limit;
        leave(self.remove(server)?, limit)
    }

    /// Removes one server from the tool, as [`detach`](Self::detach) does, without disconnecting from it yet.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if the tool is not attached to it.
    pub fn remove(&mut self, server: &Proc<'_>) -> Result<Attachment, Error> {
        let index = self.index_of(server).ok_or_else(|| not_attached(server))?;
        let removed = self.servers.remove(index);
        if self.primary.as_ref() == Some(removed.server()) {
            let mut left = self.servers.iter().filter(|one| one.is_connected());
            self.primary = left.next().map(|one| one.server().clone());
        }
        Ok(removed)
    }

    /// Detaches from all servers (`PMIx_tool_finalize`).
    ///
    /// # Errors
    ///
    /// Returns the status of the first server that refuses the end of the connection, or `PMIX_ERR_TIMEOUT`. The
    /// connections to the other servers end nevertheless.
    pub fn finalize(self) -> Result<(), Error> {
        let limit = self.identity.call_limit;
        let left = self.servers.into_iter().map(|one| leave(one, limit));
        let left: Vec<_> = left.collect();
        left.into_iter().collect()
    }

    fn primary_server(&self) -> Option<&Attachment> {
        let index = self.index_of(self.primary.as_ref()?)?;
        self.servers.get(index).filter(|one| one.is_connected())
    }

    fn index_of(&self, server: &Proc<'_>) -> Option<usize> {
        let mut servers = self.servers.iter();
        servers.position(|attached| attached.server() == server)
    }
}

/// Disconnects from a server, within the time limit of the tool.
fn leave(attachment: Attachment, limit: Option<Duration>) -> Result<(), Error> {
    match limit {
        Some(limit) => attachment.finalize_within(limit),
        None => attachment.finalize(),
    }
}

fn not_attached(server: &Proc<'_>) -> Error {
    let message = format!("the tool is not attached to server {}", server.nspace);
    Error::new(Status::ERR_NOT_FOUND, message)
}

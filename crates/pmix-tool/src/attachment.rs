// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection of a tool to one server, and the identity with which a tool attaches.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers"; OpenPMIx, `ptl/base`, for the roles.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pmix_client::driver::with_launcher;
use pmix_client::{Client, ClientEvent, Security, Settings, ThreadStart};
use pmix_mca::Environment;
use pmix_proto::Role;
use pmix_types::Proc;

use crate::{Error, FoundServer};

/// Default time limit for the admission of a tool by a server.
const ADMISSION: Duration = Duration::from_secs(30);

/// The identity with which a tool attaches to servers.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    pub(crate) name: Option<Proc<'static>>,
    pub(crate) is_launcher: bool,
    pub(crate) time_limit: Option<Duration>,
    /// The time limit of each call.
    pub(crate) call_limit: Option<Duration>,
    pub(crate) max_reply_bytes: Option<u32>,
    pub(crate) max_unread_bytes: Option<usize>,
    /// `true` once the tool is initialized, so that attaching does not stop for a debugger.
    pub(crate) has_begun: bool,
    pub(crate) thread_start: Option<ThreadStart>,
}

/// The connection of a tool to one server.
pub struct Attachment {
    server: Proc<'static>,
    client: Client,
    /// `true` once the server was lost.
    is_lost: Arc<AtomicBool>,
    /// `true` once the tool disconnects itself.
    is_left: Arc<AtomicBool>,
}

impl Identity {
    /// Sets the time limit for the admission by a server; the default is 30 seconds.
    #[must_use]
    pub const fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Marks the tool as initialized, so that attaching does not stop for a debugger.
    #[must_use]
    pub const fn begun(mut self) -> Self {
        self.has_begun = true;
        self
    }

    /// Attaches to a server. `listener` receives unsolicited messages of the server, and the loss of the
    /// connection unless the tool disconnects.
    ///
    /// A process that this server started, according to its environment, attaches as that process. Any other
    /// tool attaches with the name of this identity, or the server assigns a name.
    ///
    /// The first attachment of a tool that this server started initializes it. If its job requests
    /// `PMIX_DEBUG_STOP_IN_INIT`, the tool then waits for its release without a time limit.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_UNREACH` if the server cannot be reached, its status if it rejects the tool, and
    /// `PMIX_ERR_TIMEOUT`.
    pub fn attach(
        &self,
        found: &FoundServer,
        listener: impl FnMut(ClientEvent) + Send + 'static,
    ) -> Result<Attachment, Error> {
        let mut settings = self.settings(found)?;
        // A server of another user must not be able to use the credential elsewhere.
        settings.verifier = found.owner;
        settings.init_limit = Some(self.time_limit.unwrap_or(ADMISSION));
        settings.time_limit = self.call_limit;
        settings.max_reply_bytes = self.max_reply_bytes.unwrap_or(settings.max_reply_bytes);
        settings.max_unread_bytes = self.max_unread_bytes.unwrap_or(settings.max_unread_bytes);
        Attachment::begin(&found.uri.server, listener, || Client::init(settings))
    }

    fn settings(&self, found: &FoundServer) -> Result<Settings, Error> {
        let is_own = |proc: &Proc<'_>| self.name.as_ref().is_none_or(|name| name == proc);
        let started = Settings::from_env().ok();
        let started =
            started.filter(|it| it.server.as_ref() == Some(&found.uri) && is_own(&it.proc));
        let of_kind = |tool, launcher| if self.is_launcher { launcher } else { tool };
        let mut settings = Settings::of_tool(found.uri.clone());
        match (started, &self.name) {
            (Some(started), _) => {
                settings = started;
                settings.role = of_kind(Role::STARTED_TOOL, Role::STARTED_LAUNCHER);
                settings.stops_in_init = !self.has_begun;
            }
            (None, Some(name)) => {
                settings.security = Security::of_tool(&Environment::of_process())?;
                settings.proc = name.clone();
                settings.role = of_kind(Role::TOOL_WITH_ID, Role::LAUNCHER_WITH_ID);
            }
            (None, None) => {
                settings.security = Security::of_tool(&Environment::of_process())?;
                settings.role = of_kind(Role::TOOL, Role::LAUNCHER);
            }
        }
        settings.thread_start.clone_from(&self.thread_start);
        Ok(settings)
    }
}

impl Attachment {
    /// Uses a launcher as a server of the tool, over the connection that the launcher opened
    /// ([`with_launcher`]). `listener` receives unsolicited messages and the loss of the
    /// connection.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket cannot be used, or if the thread that reads from it cannot be started.
    pub fn of_launcher(
        settings: Settings,
        stream: TcpStream,
        listener: impl FnMut(ClientEvent) + Send + 'static,
    ) -> Result<Self, Error> {
        let named = settings.server.as_ref();
        let name = named.map(|uri| uri.server.clone()).unwrap_or_default();
        Self::begin(&name, listener, || with_launcher(settings, stream))
    }

    /// Starts a connection that records its loss before it notifies the listener.
    fn begin(
        name: &Proc<'static>,
        mut listener: impl FnMut(ClientEvent) + Send + 'static,
        connect: impl FnOnce() -> Result<Client, pmix_client::Error>,
    ) -> Result<Self, Error> {
        let (is_lost, is_left) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let (lost, left) = (Arc::clone(&is_lost), Arc::clone(&is_left));
        let listener = move |event: ClientEvent| {
            if event == ClientEvent::Lost {
                lost.store(true, Ordering::Release);
                if left.load(Ordering::Acquire) {
                    return;
                }
            }
            listener(event);
        };
        let attaching = |error: pmix_client::Error| {
            Error::from(error).of(format_args!("attaching to server {}", name.nspace))
        };
        let client = connect().map_err(attaching)?;
        client.set_listener(listener);
        // A reader thread notices the loss of the server at once, not only at the next call.
        client.listen().map_err(attaching)?;
        Ok(Self {
            server: client.server().unwrap_or(name).clone(),
            client,
            is_lost,
            is_left,
        })
    }

    /// Returns the name of the server.
    #[must_use]
    pub const fn server(&self) -> &Proc<'static> {
        &self.server
    }

    /// Returns the name that the tool has at the server.
    #[must_use]
    pub fn proc(&self) -> &Proc<'static> {
        self.client.proc()
    }

    /// Returns the connection.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Returns `true` unless the server was lost.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        !self.is_lost.load(Ordering::Acquire)
    }

    /// Disconnects from the server; its threads have ended when this returns. Does nothing if the connection
    /// was lost.
    ///
    /// # Errors
    ///
    /// Returns the status of the server.
    pub fn finalize(self) -> Result<(), Error> {
        self.finalize_by(Client::finalize)
    }

    /// Disconnects like [`finalize`](Self::finalize), even if the server does not reply in time.
    ///
    /// # Errors
    ///
    /// Returns the status of the server, or `PMIX_ERR_TIMEOUT`.
    pub fn finalize_within(self, limit: Duration) -> Result<(), Error> {
        self.finalize_by(|client| client.finalize_within(limit))
    }

    fn finalize_by(
        self,
        finalize: impl FnOnce(&Client) -> Result<(), pmix_client::Error>,
    ) -> Result<(), Error> {
        self.is_left.store(true, Ordering::Release);
        let was_connected = self.is_connected();
        let left = finalize(&self.client);
        match was_connected {
            true => Ok(left?),
            false => Ok(()),
        }
    }

    /// Closes the connection without a message to the server; its threads have ended when this returns.
    pub fn close(self) {
        self.is_left.store(true, Ordering::Release);
        self.client.close();
    }
}

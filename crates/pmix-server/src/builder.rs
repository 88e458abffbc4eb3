// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a host may say about a server before it starts.

mod attributes;
mod contact;
mod names;
mod open;

use std::path::PathBuf;
use std::sync::Arc;

use pmix_engine::Config;
use pmix_mca::{Environment, Params};
use pmix_types::{Nspace, Rank};
use preg_core::Preg;

use crate::host::{Host, NoHost};
use crate::net::listen::Listening;
use crate::rendezvous::Offers;
use crate::{Error, Server, WireObserver};

/// What a host may say about a server before it starts: each attribute of `PMIx_server_init` by
/// its own method, or all of them at once by [`attributes`](Self::attributes).
#[must_use = "nothing happens before `build`"]
pub struct Builder {
    host: Arc<dyn Host>,
    config: Config,
    nspace: Option<Nspace<'static>>,
    hostname: Option<String>,
    server_tmpdir: Option<PathBuf>,
    system_tmpdir: Option<PathBuf>,
    offers: Offers,
    gateway: bool,
    rendezvous_required: bool,
    socket_mode: u32,
    report_uri: Option<String>,
    listening: Listening,
    external_progress: bool,
    environment: Option<Environment>,
    params: Option<Params>,
    preg: Option<Arc<Preg>>,
    observer: Option<Box<dyn WireObserver>>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            host: Arc::new(NoHost),
            config: Config::default(),
            nspace: None,
            hostname: None,
            server_tmpdir: None,
            system_tmpdir: None,
            offers: Offers::default(),
            gateway: false,
            rendezvous_required: true,
            socket_mode: 0o600,
            report_uri: None,
            listening: Listening::default(),
            external_progress: false,
            environment: None,
            params: None,
            preg: None,
            observer: None,
        }
    }
}

impl Builder {
    /// Who answers what the server cannot answer by itself; [`NoHost`] if nobody is given.
    pub fn host(mut self, host: impl Host + 'static) -> Self {
        self.host = Arc::new(host);
        self
    }

    /// As [`host`](Self::host), for a host that others hold as well.
    pub fn shared_host(mut self, host: Arc<dyn Host>) -> Self {
        self.host = host;
        self
    }

    /// The name of the server's own job (`PMIX_SERVER_NSPACE`); `pmix-server:` and the process id
    /// if none is given.
    pub fn nspace(mut self, nspace: impl Into<Nspace<'static>>) -> Self {
        self.nspace = Some(nspace.into());
        self
    }

    /// The rank of the server (`PMIX_SERVER_RANK`); 0 if none is given.
    pub fn rank(mut self, rank: Rank) -> Self {
        self.config.server.rank = rank;
        self
    }

    /// What this node is called (`PMIX_HOSTNAME`), as in the node maps that will be registered; the
    /// variable `PMIX_HOSTNAME` or what the system says if none is given.
    pub fn hostname(mut self, name: impl Into<String>) -> Self {
        self.hostname = Some(name.into());
        self
    }

    /// The directory of this server, its clients and its rendezvous files (`PMIX_SERVER_TMPDIR`).
    pub fn server_tmpdir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.server_tmpdir = Some(directory.into());
        self
    }

    /// The temporary directory of the system (`PMIX_SYSTEM_TMPDIR`).
    pub fn system_tmpdir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.system_tmpdir = Some(directory.into());
        self
    }

    /// Tools may connect, and find the server by its process id or name
    /// (`PMIX_SERVER_TOOL_SUPPORT`).
    pub fn tool_support(mut self, yes: bool) -> Self {
        self.offers.tools = yes;
        self
    }

    /// This is the server of the session (`PMIX_SERVER_SESSION_SUPPORT`).
    pub fn session_support(mut self, yes: bool) -> Self {
        self.offers.session = yes;
        self
    }

    /// This is the server of the system (`PMIX_SERVER_SYSTEM_SUPPORT`).
    pub fn system_support(mut self, yes: bool) -> Self {
        self.offers.system = yes;
        self
    }

    /// This is the server of the scheduler (`PMIX_SERVER_SCHEDULER`).
    pub fn scheduler(mut self, yes: bool) -> Self {
        self.offers.scheduler = yes;
        self
    }

    /// This server serves what servers elsewhere cannot (`PMIX_SERVER_GATEWAY`): what processes ask
    /// to be logged on standard output or error is written to those of this process, and does not
    /// reach the host. Writing may wait for who reads them.
    pub fn gateway(mut self, yes: bool) -> Self {
        self.gateway = yes;
        self
    }

    /// Whether the server itself watches for the heartbeats that processes promise
    /// (`PMIX_SERVER_ENABLE_MONITORING`), as it does if nothing is said; otherwise they are the
    /// host's to watch, like all else that can be monitored.
    pub fn monitoring(mut self, yes: bool) -> Self {
        self.config.watches_heartbeats = yes;
        self
    }

    /// Tools of other users may connect (`PMIX_SERVER_ALLOW_FOREIGN_TOOLS`), and may read the
    /// rendezvous files.
    pub fn foreign_tools(mut self, yes: bool) -> Self {
        self.config.foreign_tools = yes;
        self
    }

    /// Whether a rendezvous file that cannot be written ends the start, as it does if nothing is
    /// said; otherwise it is a warning, and the server serves those who find it in another way.
    pub fn rendezvous_required(mut self, yes: bool) -> Self {
        self.rendezvous_required = yes;
        self
    }

    /// Who may read the rendezvous files (`PMIX_SOCKET_MODE`), as the nine bits of a mode; only
    /// those of reading count for others than the owner.
    pub fn socket_mode(mut self, mode: u32) -> Self {
        self.socket_mode = mode;
        self
    }

    /// Connections from other nodes are wanted (`PMIX_SERVER_REMOTE_CONNECTIONS`).
    pub fn remote_connections(mut self, yes: bool) -> Self {
        self.listening.remote = yes;
        self
    }

    /// Interfaces to listen on (`PMIX_TCP_IF_INCLUDE`): names, addresses or subnets, separated by
    /// commas.
    pub fn tcp_if_include(mut self, list: &str) -> Self {
        self.listening.include = items(list);
        self
    }

    /// Interfaces not to listen on (`PMIX_TCP_IF_EXCLUDE`).
    pub fn tcp_if_exclude(mut self, list: &str) -> Self {
        self.listening.exclude = items(list);
        self
    }

    /// The port over IPv4 (`PMIX_TCP_IPV4_PORT`); 0 is any.
    pub fn tcp_ipv4_port(mut self, port: u16) -> Self {
        self.listening.ipv4_port = port;
        self
    }

    /// The port over IPv6 (`PMIX_TCP_IPV6_PORT`); 0 is any.
    pub fn tcp_ipv6_port(mut self, port: u16) -> Self {
        self.listening.ipv6_port = port;
        self
    }

    /// Not over IPv4 (`PMIX_TCP_DISABLE_IPV4`).
    pub fn tcp_disable_ipv4(mut self, yes: bool) -> Self {
        self.listening.no_ipv4 = yes;
        self
    }

    /// Not over IPv6 (`PMIX_TCP_DISABLE_IPV6`).
    pub fn tcp_disable_ipv6(mut self, yes: bool) -> Self {
        self.listening.no_ipv6 = yes;
        self
    }

    /// Where to write how the server is reached (`PMIX_TCP_REPORT_URI`): a file, which is written
    /// like a rendezvous file, `-` for standard output, `+` for standard error, or the number of
    /// an open descriptor.
    pub fn report_uri(mut self, to: impl Into<String>) -> Self {
        self.report_uri = Some(to.into());
        self
    }

    /// There is no progress thread (`PMIX_EXTERNAL_PROGRESS`): the host waits for
    /// [`Server::fd`] and calls [`Server::drive`].
    pub fn external_progress(mut self, yes: bool) -> Self {
        self.external_progress = yes;
        self
    }

    /// Limits and times of the engine. Its `server` and `user` are set by the other methods and by
    /// the system.
    pub fn config(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// The MCA parameters; those of this process if none are given.
    pub fn params(mut self, params: Params) -> Self {
        self.params = Some(params);
        self
    }

    /// Environment and directories to read settings from; those of this process if none are given.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// The encoders of maps; those of the MCA parameters if none are given.
    pub fn preg(mut self, preg: Arc<Preg>) -> Self {
        self.preg = Some(preg);
        self
    }

    /// Who hears all that passes on the connections; nobody if none is given.
    pub fn wire_observer(mut self, observer: Box<dyn WireObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Opens the sockets and writes the files. Nobody is served before [`Server::start`], or with
    /// external progress before [`Server::drive`].
    ///
    /// # Errors
    /// A setting cannot be obeyed, there is no address to listen on, a rendezvous file cannot be
    /// written or belongs to another live server, which the message names.
    pub fn build(self) -> Result<Server, Error> {
        open::open(self)
    }
}

fn items(list: &str) -> Vec<String> {
    let items = list.split(',').map(str::trim);
    items
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}

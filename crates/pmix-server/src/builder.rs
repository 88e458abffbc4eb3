// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration of a server before it starts.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_server_init` and its
//! attributes.

mod attributes;
mod contact;
mod limits;
mod names;
mod open;

pub use limits::gds_parameters;

use std::path::PathBuf;
use std::sync::Arc;

use pmix_engine::Config;
use pmix_mca::{Environment, Params};
use pmix_topology::{Cpuset, Topology};
use pmix_types::{Nspace, Rank};
use preg_core::Preg;

use crate::host::{Host, NoHost};
use crate::net::listen::Listening;
use crate::rendezvous::Offers;
use crate::{Error, Server, WireObserver};

/// Configures a server before it starts: each attribute of `PMIx_server_init` by its own method, or
/// all of them at once by [`attributes`](Self::attributes).
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
    rendezvous_file: Option<PathBuf>,
    listening: Listening,
    external_progress: bool,
    progress_cpus: Option<Cpuset>,
    bind_required: bool,
    refuse_contradictions: bool,
    open_mpi_4: bool,
    topology: Option<Topology>,
    share_topology: bool,
    share_data: bool,
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
            rendezvous_file: None,
            listening: Listening::default(),
            external_progress: false,
            progress_cpus: None,
            bind_required: false,
            refuse_contradictions: true,
            open_mpi_4: false,
            topology: None,
            share_topology: false,
            share_data: true,
            environment: None,
            params: None,
            preg: None,
            observer: None,
        }
    }
}

impl Server {
    /// Creates a builder with the defaults.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    /// Sets the host, which answers upcalls; [`NoHost`] if none is set.
    pub fn host(mut self, host: impl Host + 'static) -> Self {
        self.host = Arc::new(host);
        self
    }

    /// Sets the host, as [`host`](Self::host) does, where others hold it as well.
    pub fn shared_host(mut self, host: Arc<dyn Host>) -> Self {
        self.host = host;
        self
    }

    /// Sets the nspace of the server itself (`PMIX_SERVER_NSPACE`); `pmix-server:` and the process
    /// id if none is set.
    pub fn nspace(mut self, nspace: impl Into<Nspace<'static>>) -> Self {
        self.nspace = Some(nspace.into());
        self
    }

    /// Sets the rank of the server (`PMIX_SERVER_RANK`); 0 if none is set.
    pub fn rank(mut self, rank: Rank) -> Self {
        self.config.server.rank = rank;
        self
    }

    /// Sets what this node is made of (`PMIX_TOPOLOGY2`); if none is set, it is read where it is needed:
    /// from the file that the variable `HWLOC_XMLFILE` names, otherwise from `/sys`.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// Tells the processes of every job what this node is made of (`PMIX_SERVER_SHARE_TOPOLOGY`), so
    /// that they need not read it: its XML is `PMIX_HWLOC_XML_V2` of the job, unless the host states
    /// one. Off by default: each process is sent the XML, 2 MB for a node of 1,000 processors.
    pub fn share_topology(mut self, yes: bool) -> Self {
        self.share_topology = yes;
        self
    }

    /// Sets whether clients of this project share job info and what fences collected with the server in
    /// memory, where the parameter `gds_hash_shared_bytes` is not set. They do unless it is said.
    pub fn share_data(mut self, yes: bool) -> Self {
        self.share_data = yes;
        self
    }

    /// Sets the name of this node (`PMIX_HOSTNAME`) as node maps have it; the variable
    /// `PMIX_HOSTNAME`, or the name that the system has, if none is set.
    pub fn hostname(mut self, name: impl Into<String>) -> Self {
        self.hostname = Some(name.into());
        self
    }

    /// Sets the directory of this server, its clients and its rendezvous files
    /// (`PMIX_SERVER_TMPDIR`).
    pub fn server_tmpdir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.server_tmpdir = Some(directory.into());
        self
    }

    /// Sets the temporary directory of the system (`PMIX_SYSTEM_TMPDIR`).
    pub fn system_tmpdir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.system_tmpdir = Some(directory.into());
        self
    }

    /// Says whether tools may connect, and find the server by its process id or name
    /// (`PMIX_SERVER_TOOL_SUPPORT`).
    pub fn tool_support(mut self, yes: bool) -> Self {
        self.offers.tools = yes;
        self
    }

    /// Says whether this is the server of the session (`PMIX_SERVER_SESSION_SUPPORT`).
    pub fn session_support(mut self, yes: bool) -> Self {
        self.offers.session = yes;
        self
    }

    /// Says whether this is the server of the system (`PMIX_SERVER_SYSTEM_SUPPORT`).
    pub fn system_support(mut self, yes: bool) -> Self {
        self.offers.system = yes;
        self
    }

    /// Says whether this is the server of the scheduler (`PMIX_SERVER_SCHEDULER`).
    pub fn scheduler(mut self, yes: bool) -> Self {
        self.offers.scheduler = yes;
        self
    }

    /// Says whether this is the server of the controller of the system (`PMIX_SERVER_SYS_CONTROLLER`).
    pub fn controller(mut self, yes: bool) -> Self {
        self.offers.controller = yes;
        self
    }

    /// Says whether this server serves what the servers of other nodes cannot
    /// (`PMIX_SERVER_GATEWAY`): what processes ask to be logged on standard output or error is
    /// written to those of this process, and does not reach the host. Writing may wait for who
    /// reads them.
    pub fn gateway(mut self, yes: bool) -> Self {
        self.gateway = yes;
        self
    }

    /// Says whether the server itself monitors heartbeats (`PMIX_SERVER_ENABLE_MONITORING`); true
    /// if it is not set. Otherwise the host monitors them, like all else that can be monitored.
    pub fn monitoring(mut self, yes: bool) -> Self {
        self.config.watches_heartbeats = yes;
        self
    }

    /// Says whether tools of other users may connect (`PMIX_SERVER_ALLOW_FOREIGN_TOOLS`), and may
    /// read the rendezvous files.
    pub fn foreign_tools(mut self, yes: bool) -> Self {
        self.config.foreign_tools = yes;
        self
    }

    /// Says whether a rendezvous file that cannot be written is an error; true if it is not set.
    /// Otherwise it is, but for [`rendezvous_file`](Self::rendezvous_file), a warning, and the server serves peers that find it in another way.
    pub fn rendezvous_required(mut self, yes: bool) -> Self {
        self.rendezvous_required = yes;
        self
    }

    /// Sets which users may read the rendezvous files (`PMIX_SOCKET_MODE`), as the nine bits of a
    /// mode; only those of reading count for others than the owner.
    pub fn socket_mode(mut self, mode: u32) -> Self {
        self.socket_mode = mode;
        self
    }

    /// Says whether the server accepts connections from other nodes
    /// (`PMIX_SERVER_REMOTE_CONNECTIONS`).
    pub fn remote_connections(mut self, yes: bool) -> Self {
        self.listening.remote = yes;
        self
    }

    /// Sets the interfaces to listen on (`PMIX_TCP_IF_INCLUDE`): names, addresses or subnets,
    /// separated by commas.
    pub fn tcp_if_include(mut self, list: &str) -> Self {
        self.listening.include = items(list);
        self
    }

    /// Sets the interfaces not to listen on (`PMIX_TCP_IF_EXCLUDE`).
    pub fn tcp_if_exclude(mut self, list: &str) -> Self {
        self.listening.exclude = items(list);
        self
    }

    /// Sets the port over IPv4 (`PMIX_TCP_IPV4_PORT`); 0 is any.
    pub fn tcp_ipv4_port(mut self, port: u16) -> Self {
        self.listening.ipv4_port = port;
        self
    }

    /// Sets the port over IPv6 (`PMIX_TCP_IPV6_PORT`); 0 is any.
    pub fn tcp_ipv6_port(mut self, port: u16) -> Self {
        self.listening.ipv6_port = port;
        self
    }

    /// Says whether the server does not listen over IPv4 (`PMIX_TCP_DISABLE_IPV4`).
    pub fn tcp_disable_ipv4(mut self, yes: bool) -> Self {
        self.listening.no_ipv4 = yes;
        self
    }

    /// Says whether the server does not listen over IPv6 (`PMIX_TCP_DISABLE_IPV6`).
    pub fn tcp_disable_ipv6(mut self, yes: bool) -> Self {
        self.listening.no_ipv6 = yes;
        self
    }

    /// Sets where the URI of the server is written (`PMIX_TCP_REPORT_URI`): a file, which is
    /// written like a rendezvous file, `-` for standard output, `+` for standard error, or the
    /// number of an open descriptor.
    pub fn report_uri(mut self, to: impl Into<String>) -> Self {
        self.report_uri = Some(to.into());
        self
    }

    /// Sets an additional rendezvous file for the program that starts this server
    /// (`PMIX_LAUNCHER_RENDEZVOUS_FILE`). It is written even if tools are not served, and a failure to write
    /// it is an error. The default is the variable `PMIX_LAUNCHER_RENDEZVOUS_FILE`; the file of a running
    /// server is then kept, because processes of that server may inherit its variables.
    pub fn rendezvous_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.rendezvous_file = Some(path.into());
        self
    }

    /// Says whether there is no progress thread (`PMIX_EXTERNAL_PROGRESS`), so that the host waits
    /// for the server's descriptor (`AsFd`) and calls [`Server::drive`].
    pub fn external_progress(mut self, yes: bool) -> Self {
        self.external_progress = yes;
        self
    }

    /// Binds the progress thread to these processors (`PMIX_BIND_PROGRESS_THREAD`). Processes that the host starts from a
    /// method of [`Host`] inherit the processors of that thread.
    pub fn bind_progress_thread(mut self, cpus: Cpuset) -> Self {
        self.progress_cpus = Some(cpus);
        self
    }

    /// Says whether [`build`](Self::build) fails with `PMIX_ERR_NOT_SUPPORTED` where the progress thread cannot be bound
    /// as asked (`PMIX_BIND_REQUIRED`). Otherwise it warns, and the thread runs where the process may.
    pub fn bind_required(mut self, yes: bool) -> Self {
        self.bind_required = yes;
        self
    }

    /// Says whether [`Server::setup_fork`] gives what Open MPI up to 4.1 needs besides: it takes each
    /// process for a job of its own unless it finds the sign of a launcher that it knows. Of these signs
    /// `JSM_JSRUN_PORT` is the one that nothing else looks for.
    pub fn open_mpi_4(mut self, yes: bool) -> Self {
        self.open_mpi_4 = yes;
        self
    }

    /// Says whether registrations that contradict themselves or each other are refused, which they are
    /// unless this is called: a job size that is not that of the process map, a node twice in the node map,
    /// clients of a job that is not registered, of a rank that is not its own, of another node, or twice.
    /// Without, they are taken as OpenPMIx takes them, with a warning where the job is at fault. Hosts
    /// that register processes before their jobs need that.
    pub fn refuse_contradictions(mut self, yes: bool) -> Self {
        self.refuse_contradictions = yes;
        self
    }

    /// Changes the configuration of the engine: its limits and times. Its `server` and `user` are
    /// overwritten from the other methods and the system.
    pub fn config(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Sets the MCA parameters; those of this process if none are set.
    pub fn params(mut self, params: Params) -> Self {
        self.params = Some(params);
        self
    }

    /// Sets the environment and directories that settings are read from; those of this process if
    /// none are set.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Sets the framework that encodes and parses maps; one opened with the MCA parameters if none
    /// is set.
    pub fn preg(mut self, preg: Arc<Preg>) -> Self {
        self.preg = Some(preg);
        self
    }

    /// Sets an observer of all messages on the connections; none if it is not set.
    pub fn wire_observer(mut self, observer: Box<dyn WireObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Creates the server: opens its sockets and writes its files. No peer is served before
    /// [`Server::start`], or with external progress before [`Server::drive`].
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

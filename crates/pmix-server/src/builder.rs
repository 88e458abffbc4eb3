// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration of a server before it starts.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_server_init` and its
//! attributes.

mod attributes;
mod limits;
mod names;
mod open;

pub use limits::gds_parameters;

use std::path::PathBuf;
use std::sync::Arc;

use pmix_engine::Config;
use pmix_mca::{Environment, Params};
use pmix_topology::{Cpuset, Topology};
use pmix_types::{Nspace, Proc, Rank};
use preg_core::Preg;

use crate::host::{Host, NoHost};
use crate::net::listen::Listening;
use crate::rendezvous::Offers;
use crate::{Error, Server, WireObserver};

/// The configuration of a server before it starts. Each attribute of `PMIx_server_init` has its own method, and
/// [`attributes`](Self::attributes) sets them from a list.
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
    singleton: Option<Proc<'static>>,
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
            singleton: None,
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
    /// Sets the host, which handles upcalls. The default is [`NoHost`].
    pub fn host(mut self, host: impl Host + 'static) -> Self {
        self.host = Arc::new(host);
        self
    }

    /// Sets the host as [`host`](Self::host) does, for a host that has other owners, too.
    pub fn shared_host(mut self, host: Arc<dyn Host>) -> Self {
        self.host = host;
        self
    }

    /// Sets the nspace of the server itself (`PMIX_SERVER_NSPACE`). The default is `pmix-server:` and the process id.
    pub fn nspace(mut self, nspace: impl Into<Nspace<'static>>) -> Self {
        self.nspace = Some(nspace.into());
        self
    }

    /// Sets the rank of the server (`PMIX_SERVER_RANK`). The default is 0.
    pub fn rank(mut self, rank: Rank) -> Self {
        self.config.server.rank = rank;
        self
    }

    /// Registers a process that no host started, with its job of one process, under the user of this process
    /// (`PMIX_SINGLETON`). The host may register the job again to describe it.
    ///
    /// Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIX_SINGLETON`.
    pub fn singleton(mut self, proc: Proc<'static>) -> Self {
        self.singleton = Some(proc);
        self
    }

    /// Sets the topology of this node (`PMIX_TOPOLOGY2`). By default it is read on first use, from the file in the
    /// variable `HWLOC_XMLFILE`, otherwise from `/sys`.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// Enables the topology of this node in the job info of every job (`PMIX_SERVER_SHARE_TOPOLOGY`), so that processes
    /// need not read it. The XML is the `PMIX_HWLOC_XML_V2` of the job, unless the host passes one. The default is off,
    /// since each process is sent the XML: 2 MB for a node of 1,000 processors.
    pub fn share_topology(mut self, yes: bool) -> Self {
        self.share_topology = yes;
        self
    }

    /// Enables shared memory for job info and data from fences, for clients of this project. The parameter
    /// `gds_hash_shared_bytes` takes precedence. The default is on.
    pub fn share_data(mut self, yes: bool) -> Self {
        self.share_data = yes;
        self
    }

    /// Sets the name of this node (`PMIX_HOSTNAME`) as in node maps. The default is the variable `PMIX_HOSTNAME`,
    /// otherwise the name from the system.
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

    /// Enables connections of tools, which find the server by its process id or name (`PMIX_SERVER_TOOL_SUPPORT`).
    pub fn tool_support(mut self, yes: bool) -> Self {
        self.offers.tools = yes;
        self
    }

    /// Makes this the server of the session (`PMIX_SERVER_SESSION_SUPPORT`).
    pub fn session_support(mut self, yes: bool) -> Self {
        self.offers.session = yes;
        self
    }

    /// Makes this the server of the system (`PMIX_SERVER_SYSTEM_SUPPORT`).
    pub fn system_support(mut self, yes: bool) -> Self {
        self.offers.system = yes;
        self
    }

    /// Makes this the server of the scheduler (`PMIX_SERVER_SCHEDULER`).
    pub fn scheduler(mut self, yes: bool) -> Self {
        self.offers.scheduler = yes;
        self
    }

    /// Makes this the server of the system controller (`PMIX_SERVER_SYS_CONTROLLER`).
    pub fn controller(mut self, yes: bool) -> Self {
        self.offers.controller = yes;
        self
    }

    /// Makes this the gateway, which serves requests that the servers of other nodes cannot (`PMIX_SERVER_GATEWAY`). It
    /// writes `PMIx_Log` data for standard output or error to those of this process, and does not pass them to the
    /// host. A slow reader of these streams blocks the write.
    pub fn gateway(mut self, yes: bool) -> Self {
        self.gateway = yes;
        self
    }

    /// Enables the monitoring of heartbeats by the server itself (`PMIX_SERVER_ENABLE_MONITORING`). The default is on.
    /// Otherwise the host monitors them, as it does everything else that can be monitored.
    pub fn monitoring(mut self, yes: bool) -> Self {
        self.config.watches_heartbeats = yes;
        self
    }

    /// Reports each completed fence to the host ([`ServerEvent::FenceCompleted`](crate::ServerEvent::FenceCompleted)).
    /// The default is off.
    pub fn report_fences(mut self, yes: bool) -> Self {
        self.config.reports_fences = yes;
        self
    }

    /// Permits tools of other users to connect (`PMIX_SERVER_ALLOW_FOREIGN_TOOLS`) and to read the rendezvous files.
    pub fn foreign_tools(mut self, yes: bool) -> Self {
        self.config.foreign_tools = yes;
        self
    }

    /// Makes a rendezvous file that cannot be written an error. The default is on. Otherwise it is a warning, and peers
    /// find the server by other means. A failure of [`rendezvous_file`](Self::rendezvous_file) is always an error.
    pub fn rendezvous_required(mut self, yes: bool) -> Self {
        self.rendezvous_required = yes;
        self
    }

    /// Sets the users who may read the rendezvous files (`PMIX_SOCKET_MODE`), as the nine bits of a mode. Only the bits
    /// for reading apply to other users than the owner.
    pub fn socket_mode(mut self, mode: u32) -> Self {
        self.socket_mode = mode;
        self
    }

    /// Enables connections from other nodes (`PMIX_SERVER_REMOTE_CONNECTIONS`).
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

    /// Sets the port over IPv4 (`PMIX_TCP_IPV4_PORT`); 0 for any.
    pub fn tcp_ipv4_port(mut self, port: u16) -> Self {
        self.listening.ipv4_port = port;
        self
    }

    /// Sets the port over IPv6 (`PMIX_TCP_IPV6_PORT`); 0 for any.
    pub fn tcp_ipv6_port(mut self, port: u16) -> Self {
        self.listening.ipv6_port = port;
        self
    }

    /// Disables IPv4 (`PMIX_TCP_DISABLE_IPV4`).
    pub fn tcp_disable_ipv4(mut self, yes: bool) -> Self {
        self.listening.no_ipv4 = yes;
        self
    }

    /// Disables IPv6 (`PMIX_TCP_DISABLE_IPV6`).
    pub fn tcp_disable_ipv6(mut self, yes: bool) -> Self {
        self.listening.no_ipv6 = yes;
        self
    }

    /// Sets the destination for the URI of the server (`PMIX_TCP_REPORT_URI`): a file, which is written like a
    /// rendezvous file, `-` for standard output, `+` for standard error, or the number of an open descriptor.
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

    /// Disables the progress thread (`PMIX_EXTERNAL_PROGRESS`). The host waits for the server's descriptor (`AsFd`) and
    /// calls [`Server::drive`].
    pub fn external_progress(mut self, yes: bool) -> Self {
        self.external_progress = yes;
        self
    }

    /// Binds the progress thread to these processors (`PMIX_BIND_PROGRESS_THREAD`). Processes that the host starts from
    /// a method of [`Host`] inherit the binding.
    pub fn bind_progress_thread(mut self, cpus: Cpuset) -> Self {
        self.progress_cpus = Some(cpus);
        self
    }

    /// Makes [`build`](Self::build) fail with `PMIX_ERR_NOT_SUPPORTED` if the progress thread cannot be bound as
    /// requested (`PMIX_BIND_REQUIRED`). Otherwise the server logs a warning and the thread is not bound.
    pub fn bind_required(mut self, yes: bool) -> Self {
        self.bind_required = yes;
        self
    }

    /// Adds the variable that Open MPI up to 4.1 needs to the result of [`Server::setup_fork`]. Such a process becomes
    /// a singleton unless it detects a launcher that it supports. Among the variables that it checks, only
    /// `JSM_JSRUN_PORT` is used by no other program.
    pub fn open_mpi_4(mut self, yes: bool) -> Self {
        self.open_mpi_4 = yes;
        self
    }

    /// Rejects contradictory registrations, which is the default. Contradictions are a job size that differs from the
    /// process map, a node that is twice in the node map, and clients of an unregistered job, of an invalid rank, of
    /// another node, or registered twice. Otherwise they are accepted as OpenPMIx accepts them, with a warning about
    /// faults of the job. Hosts that register processes before their jobs need that.
    pub fn refuse_contradictions(mut self, yes: bool) -> Self {
        self.refuse_contradictions = yes;
        self
    }

    /// Changes the configuration of the engine: its limits and times. `server` and `user` are overwritten with values
    /// of the other methods and the system.
    pub fn config(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Sets the MCA parameters. The default is those of this process.
    pub fn params(mut self, params: Params) -> Self {
        self.params = Some(params);
        self
    }

    /// Sets the environment and directories for reading settings. The default is those of this process.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Sets the framework that encodes and parses maps. The default is one opened with the MCA parameters.
    pub fn preg(mut self, preg: Arc<Preg>) -> Self {
        self.preg = Some(preg);
        self
    }

    /// Sets an observer of all messages. The default is none.
    pub fn wire_observer(mut self, observer: Box<dyn WireObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Creates the server: opens its sockets and writes its files. No peer is served before
    /// [`Server::start`], or with external progress before [`Server::drive`].
    ///
    /// # Errors
    /// Returns an error if a setting is not possible, if there is no address to listen on, or if a rendezvous file
    /// cannot be written or belongs to another live server, which the message names.
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

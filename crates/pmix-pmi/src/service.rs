// SPDX-License-Identifier: MIT OR Apache-2.0
//! The service: its socket, and the threads of its connections.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pmix_server::socket_owner;
use pmix_types::{Nspace, Proc};

use crate::Error;
use crate::client::Handle;
use crate::connection;
use crate::registry::{JobSettings, Registry, Unidentified};

/// The variables that PMI adds to the environment of a process.
pub type Variables = [(&'static str, String); 5];

/// The variable that selects PMI for MPICH, and its value. MPICH 5 refuses an environment with the variables of both
/// PMI and PMIx if this one is not set. A value of the user has precedence.
pub const MPICH_SELECTION: (&str, &str) = ("MPIR_CVAR_PMI_VERSION", "1");

/// The pause of the thread that accepts connections when the process has no descriptors or memory left.
const PAUSE: Duration = Duration::from_millis(50);

/// The shortest time between two warnings about refused connections.
const BETWEEN: Duration = Duration::from_secs(10);

/// A service of PMI-1 and PMI-2 for the processes of this node.
///
/// It listens on the loopback interface, and accepts only connections of its own user. Dropping it closes all
/// connections.
pub struct Service {
    address: SocketAddr,
    registry: Arc<Registry>,
}

impl Service {
    /// Starts the service on a free port. A thread calls `wake` when the last command of a process was served after its
    /// [`end`](Self::end).
    ///
    /// # Errors
    ///
    /// Returns an error if the system has no port or no thread for it.
    pub fn start(wake: impl Fn() + Send + Sync + 'static) -> Result<Self, Error> {
        let cannot = |e| Error::system("cannot listen for PMI", e);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let registry = Arc::new(Registry::new(wake));
        let of_thread = Arc::clone(&registry);
        let accept = move || accept(&listener, &of_thread);
        let thread = thread::Builder::new().name("pmix-pmi".into());
        thread.spawn(accept).map_err(cannot)?;
        Ok(Self { address, registry })
    }

    /// Registers a job before its processes start.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if more than 2,147,483,647 processes were registered.
    pub fn register(&self, settings: JobSettings) -> Result<(), Error> {
        self.registry.register(settings)
    }

    /// Returns the variables for the start of a process of a registered job, or `None` if the job is not registered. An
    /// environment that also has variables of PMIx needs [`MPICH_SELECTION`].
    #[must_use]
    pub fn variables(&self, proc: &Proc<'_>) -> Option<Variables> {
        let (id, size, is_spawned) = self.registry.prepare(proc)?;
        Some([
            ("PMI_PORT", self.address.to_string()),
            ("PMI_ID", id.to_string()),
            ("PMI_RANK", proc.rank.as_raw().to_string()),
            ("PMI_SIZE", size.to_string()),
            ("PMI_SPAWNED", u32::from(is_spawned).to_string()),
        ])
    }

    /// Ends the connection of a process that has ended. Returns `true` if the service still serves commands that the
    /// process has sent, for example an abort.
    pub fn end(&self, proc: &Proc<'_>) -> bool {
        let handle = self.registry.end_of(proc);
        handle.inspect(Handle::end).is_some()
    }

    /// Returns `true` while the service serves commands of a process.
    #[must_use]
    pub fn is_serving(&self, proc: &Proc<'_>) -> bool {
        self.registry.is_connected(proc)
    }

    /// Closes the connections of a job, whose processes cannot connect any more.
    pub fn deregister(&self, nspace: &Nspace<'_>) {
        self.registry.deregister(nspace);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.registry.end();
        // The thread that accepts waits for a connection.
        let _ = TcpStream::connect(self.address);
    }
}

/// Accepts connections until the service ends.
fn accept(listener: &TcpListener, registry: &Arc<Registry>) {
    let mut warned: Option<Instant> = None;
    // Any user may connect as often as it wants.
    let mut warn = |why: &dyn std::fmt::Display| {
        let now = Instant::now();
        if warned.is_none_or(|before| now.saturating_duration_since(before) > BETWEEN) {
            warned = Some(now);
            tracing::warn!("a connection for PMI is refused: {why}");
        }
    };
    while let accepted = listener.accept()
        && !registry.has_ended()
    {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn(&error);
                thread::sleep(PAUSE);
                continue;
            }
        };
        // Only the user of the launcher may act for its processes.
        let own = rustix::process::geteuid().as_raw();
        let refusal = match socket_owner(&stream) {
            Ok(Some(user)) if user == own => None,
            Ok(Some(user)) => Some(format!("it is of user {user}, the launcher of user {own}")),
            Ok(None) => Some("the system does not report its user".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = refusal {
            warn(&why);
            continue;
        }
        let Some(unidentified) = Unidentified::begin(registry) else {
            return;
        };
        let of_thread = Arc::clone(registry);
        let thread = thread::Builder::new().name("pmix-pmi".into());
        let serve = move || connection::serve(stream, &of_thread, unidentified);
        if let Err(error) = thread.spawn(serve) {
            warn(&error);
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The blocking client: one process and its server.
//!
//! Source: PMIx Standard, chapters "Client Initialization and Finalization", "Synchronization" and
//! "Data Access and Sharing".

use gds_hash::{Codec, ModexStore};
use pmix_proto::reply::{Done, JobInfo};
use pmix_proto::{Hello, PeerForm, Request, Role, Welcome, request};
use pmix_types::{Info, Proc, Rank, Scope, Status, Text, Value, keys};

use crate::cache::JobCache;
use crate::connection::{Connection, Deadline};
use crate::group::Operations;
use crate::prefetch::Prefetch;
use crate::settings::Security;
use crate::{Error, Settings};

/// The release whose protocol this client speaks; servers answer by it.
const VERSION: &str = "5.0.11";

/// Connects a process with its server, from init to finalize.
///
/// Every call waits for the server, [`Settings::time_limit`] at the most, whatever else arrives
/// meanwhile. What a reply may be and what a value may become is bounded by
/// [`Settings::max_reply_bytes`] and [`Settings::max_string_bytes`]. Dropping a client that
/// was not [finalized](Self::finalize) is what the server sees as a crash.
pub struct Client {
    pub(crate) connection: Connection,
    pub(crate) cache: JobCache,
    pub(crate) own: ModexStore,
    pub(crate) prefetch: Prefetch,
    pub(crate) settings: Settings,
    pub(crate) groups: Operations,
    /// Whether the events of the groups are registered for.
    pub(crate) hears_groups: bool,
}

/// Describes a fence: its participants and directives.
#[derive(Clone, Debug, Default)]
pub struct Fence<'a> {
    procs: Vec<Proc<'a>>,
    infos: Vec<Info<'a>>,
}

impl<'a> Fence<'a> {
    /// Creates a fence of all processes of the own job that collects no data.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the participants.
    #[must_use]
    pub fn of(mut self, procs: impl IntoIterator<Item = Proc<'a>>) -> Self {
        self.procs = procs.into_iter().collect();
        self
    }

    /// Has the fence collect data: what its participants committed is there for all of them
    /// afterwards.
    #[must_use]
    pub fn collect(self) -> Self {
        self.with(Info::new(keys::COLLECT_DATA, Value::Bool(true)))
    }

    /// Adds a directive, for example `pmix.timeout`.
    #[must_use]
    pub fn with(mut self, info: Info<'a>) -> Self {
        self.infos.push(info);
        self
    }
}

impl Client {
    /// Connects to the server that started this process (`PMIx_Init`).
    ///
    /// # Errors
    ///
    /// As [`Settings::from_env`] and [`init`](Self::init).
    pub fn from_env() -> Result<Self, Error> {
        Self::init(Settings::from_env()?)
    }

    /// Connects to a server and asks it for the job info (`PMIx_Init`, `PMIx_tool_init`). A tool without
    /// a name takes the one that the server gives it.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_UNREACH` if the server cannot be reached or closes the connection, which is how
    /// it refuses a client; `PMIX_ERR_TIMEOUT`; what is wrong with its answers.
    pub fn init(mut settings: Settings) -> Result<Self, Error> {
        let end = Deadline::after(settings.time_limit);
        let credential = credential(settings.security);
        let hello = hello(&settings, &credential);
        let mut connection = Connection::open(&settings, &hello, end)?;
        learn_names(&mut settings, connection.welcome());
        let payload = connection.ask(&Request::JobInfo, end)?;
        let info = JobInfo::decode(connection.form(), None, &payload)?;
        let cache = JobCache::new(
            *connection.form(),
            &settings.proc,
            settings.host.as_deref(),
            &info,
        )?;
        Ok(Self {
            connection,
            cache,
            own: ModexStore::default(),
            prefetch: Prefetch::new(settings.max_prefetch_bytes),
            groups: Operations::new(settings.proc.clone()),
            hears_groups: false,
            settings,
        })
    }

    /// Returns the name of this process.
    #[must_use]
    pub const fn proc(&self) -> &Proc<'static> {
        &self.settings.proc
    }

    /// Returns the job of this process as a whole (the wildcard rank), of which job info is asked.
    #[must_use]
    pub fn job(&self) -> Proc<'static> {
        Proc::new(self.settings.proc.nspace.clone(), Rank::WILDCARD)
    }

    /// Returns the form in which both sides pack, for [`request`](Self::request).
    #[must_use]
    pub const fn form(&self) -> &PeerForm {
        self.connection.form()
    }

    /// Puts a value for the processes that the scope names; they can see it after a
    /// [`commit`](Self::commit) (`PMIx_Put`). Reserved keys are taken, too, as OpenPMIx takes them.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a scope that is none, and for a key that is empty or too long.
    pub fn put<'v>(
        &mut self,
        scope: Scope,
        key: &'v str,
        value: impl Into<Value<'v>>,
    ) -> Result<(), Error> {
        let rank = self.settings.proc.rank;
        Ok(self.own.put(rank, scope, Info::new(key, value))?)
    }

    /// Hands what was put to the server (`PMIx_Commit`). Nothing is sent if nothing was put.
    ///
    /// # Errors
    ///
    /// What cannot be packed, what the server answers, or that it does not.
    pub fn commit(&mut self) -> Result<(), Error> {
        let wire = Codec::new(self.form().layout);
        let blocks = self.own.commit_message(&wire, self.settings.proc.rank)?;
        match blocks.is_empty() {
            true => Ok(()),
            false => self.done(&Request::Commit(request::Commit { blocks: &blocks })),
        }
    }

    /// Waits until all participants of a fence have arrived (`PMIx_Fence`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not.
    pub fn fence(&mut self, fence: &Fence<'_>) -> Result<(), Error> {
        let mut procs = fence.procs.clone();
        if procs.is_empty() {
            procs.push(self.job());
        }
        let infos = fence.infos.clone();
        self.done(&Request::Fence(request::Fence { procs, infos }))
    }

    /// Asks the host to end processes, all of the own job if none are named (`PMIx_Abort`). The
    /// status is the exit code that the job is to have.
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not.
    pub fn abort(&mut self, status: i32, why: &str, procs: &[Proc<'_>]) -> Result<(), Error> {
        self.done(&Request::Abort(request::Abort {
            status: Status::from_raw(status),
            message: Some(Text::from(why)),
            procs: procs.to_vec(),
        }))
    }

    /// Sends a heartbeat, to a server that was asked to monitor the process.
    ///
    /// # Errors
    ///
    /// If the server was lost; `PMIX_ERR_TIMEOUT` if it takes nothing in time.
    pub fn heartbeat(&mut self) -> Result<(), Error> {
        let end = self.end();
        self.connection.heartbeat(end)
    }

    /// Sends any other request and returns the payload of the reply, to be read by the types in
    /// [`pmix_proto::reply`].
    ///
    /// # Errors
    ///
    /// If the request cannot be packed, or if the server does not answer.
    pub fn request(&mut self, request: &Request<'_>) -> Result<Vec<u8>, Error> {
        let payload = self.connection.ask(request, self.end());
        self.prefetch.clear();
        payload
    }

    /// Disconnects from the server (`PMIx_Finalize`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not.
    pub fn finalize(mut self) -> Result<(), Error> {
        self.done(&Request::Finalize)
    }

    pub(crate) fn end(&self) -> Deadline {
        Deadline::after(self.settings.time_limit)
    }

    /// Asks for something that is answered with a status alone.
    pub(crate) fn done(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let payload = self.request(request)?;
        let status = Done::decode(self.form(), None, &payload)?.status;
        // What a server did at once is done.
        match status {
            Status::SUCCESS | Status::OPERATION_SUCCEEDED => Ok(()),
            _ => Err(Error::answered(status, request.command())),
        }
    }
}

/// Takes from the welcome what the two sides are called, as far as it says.
fn learn_names(settings: &mut Settings, welcome: Option<&Welcome<'static>>) {
    match welcome {
        Some(Welcome::Assigned { proc, server }) => {
            settings.proc = proc.clone();
            settings.server.server = server.clone();
        }
        Some(Welcome::Server { server }) => settings.server.server = server.clone(),
        _ => {}
    }
}

fn hello<'a>(settings: &'a Settings, credential: &'a [u8]) -> Hello<'a> {
    Hello {
        psec: match settings.security {
            Security::Native => "native".into(),
            Security::None => "none".into(),
        },
        credential,
        role: settings.role,
        ids: (settings.role.says_ids()).then(ids),
        proc: (settings.role.says_proc()).then(|| settings.proc.clone()),
        version: VERSION.into(),
        module: settings.layout.module.name().into(),
        buffer: settings.layout.buffer,
        gds: "hash".into(),
        infos: about(settings.role),
    }
}

/// What a peer of a role says of its process. A server of PRRTE ends when a tool says nothing.
fn about(role: Role) -> Vec<Info<'static>> {
    if role == Role::CLIENT {
        return Vec::new();
    }
    let (uid, gid) = ids();
    let pid = i32::try_from(std::process::id()).unwrap_or_default();
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    vec![
        Info::new(keys::PROC_PID, Value::Pid(pid)),
        Info::new(keys::REALUID, rustix::process::getuid().as_raw()),
        Info::new(keys::USERID, uid),
        Info::new(keys::REALGID, rustix::process::getgid().as_raw()),
        Info::new(keys::GRPID, gid),
        Info::new(keys::CMD_LINE, words.collect::<Vec<_>>().join(" ")),
    ]
}

/// The user and the group that this process runs as.
fn ids() -> (u32, u32) {
    let uid = rustix::process::geteuid().as_raw();
    (uid, rustix::process::getegid().as_raw())
}

/// Who runs this process; `native` says it in the byte order of the machine.
fn credential(security: Security) -> Vec<u8> {
    match security {
        Security::None => Vec::new(),
        Security::Native => {
            let (uid, gid) = ids();
            [uid.to_ne_bytes(), gid.to_ne_bytes()].concat()
        }
    }
}

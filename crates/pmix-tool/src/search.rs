// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding the server that a tool is to attach to.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", the rules for connecting.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use pmix_client::Uri;
use pmix_files::Trust;
use pmix_mca::Environment;
use pmix_types::Status;

use crate::Error;
use crate::rendezvous::{FoundServer, PassedOver};
use crate::walk::{Owners, files_below};

mod others;

/// Says which server is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// The server that the environment names (`PMIX_SERVER_URI41` and its likes), else that of the
    /// system, else the only server of a session.
    #[default]
    Any,
    /// The server of the system (`PMIX_CONNECT_TO_SYSTEM`).
    System,
    /// The server of the system, else the only server of a session (`PMIX_CONNECT_SYSTEM_FIRST`).
    SystemFirst,
    /// The server of the scheduler (`PMIX_CONNECT_TO_SCHEDULER`).
    Scheduler,
    /// The server of the controller of the system (`PMIX_CONNECT_TO_SYS_CONTROLLER`).
    Controller,
    /// The only server of a session.
    Session,
    /// The server with this address (`PMIX_SERVER_URI`), or that of the rendezvous file behind `file:`.
    Uri(String),
    /// The server of this rendezvous file (`PMIX_TOOL_ATTACHMENT_FILE`).
    File(PathBuf),
    /// The server that is this process (`PMIX_SERVER_PIDINFO`).
    Pid(u32),
    /// The server with this name (`PMIX_SERVER_NSPACE`).
    Nspace(String),
}

/// Finds servers by what a tool says of them.
#[derive(Clone, Debug)]
pub struct Search {
    target: Target,
    named: Result<Option<Uri>, Error>,
    hosts: Vec<String>,
    server_dir: PathBuf,
    system_dir: PathBuf,
    trust: Trust,
    user: u32,
    /// `true` if the servers of all users are meant.
    is_of_all: bool,
    tries: (u32, Duration),
}

/// Lists the rendezvous files of a node: the servers that live, and the files that are not used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// The servers, each once, in the order of their names and addresses. Those of other users come last, so that each
    /// user's first server precedes the second server of any user.
    pub servers: Vec<FoundServer>,
    /// The files of dead servers, and those that another user could have written. Where there are many, the last entries
    /// name the directory and say how many more there are.
    pub passed_over: Vec<PassedOver>,
}

impl Search {
    /// Creates a search with the directories and the address in the environment of this process.
    #[must_use]
    pub fn from_env() -> Self {
        Self::of(&Environment::of_process())
    }

    /// Creates a search with the directories and the address in an environment.
    #[must_use]
    pub fn of(environment: &Environment) -> Self {
        let directory = |variable| {
            let found = environment.first_of(&[variable, "TMPDIR", "TEMP", "TMP"]);
            found.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
        };
        let user = rustix::process::geteuid().as_raw();
        Self {
            target: Target::Any,
            named: Uri::of_environment(environment)
                .map(|found| found.map(|(uri, _)| uri))
                .map_err(Error::from),
            hosts: host_names(environment),
            server_dir: directory("PMIX_SERVER_TMPDIR"),
            system_dir: directory("PMIX_SYSTEM_TMPDIR"),
            trust: Trust::in_user(user),
            user,
            is_of_all: false,
            tries: (1, Duration::ZERO),
        }
    }

    /// Sets which server is meant.
    #[must_use]
    pub fn target(mut self, target: Target) -> Self {
        self.target = target;
        self
    }

    /// Extends the search by the servers of all users, if this process is root's. Such a server must belong to the user
    /// that wrote its file: the process that the file names, and the socket at its address. Where one server is meant,
    /// root's own come first.
    #[must_use]
    pub fn all_users(mut self) -> Self {
        self.is_of_all = self.user == 0;
        self
    }

    /// Sets the directory below which servers of sessions have their files (`PMIX_SERVER_TMPDIR`).
    #[must_use]
    pub fn server_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.server_dir = path.into();
        self
    }

    /// Sets the directory in which the server of the system has its file (`PMIX_SYSTEM_TMPDIR`).
    #[must_use]
    pub fn system_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.system_dir = path.into();
        self
    }

    /// Sets how servers call this node in the names of their files.
    #[must_use]
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts = vec![name.into()];
        self
    }

    /// Sets how often the server is looked for (`PMIX_CONNECT_MAX_RETRIES` and one), and how long to wait
    /// in between (`PMIX_CONNECT_RETRY_DELAY`).
    #[must_use]
    pub fn tries(mut self, tries: u32, delay: Duration) -> Self {
        self.tries = (tries.max(1), delay);
        self
    }

    /// Finds the server that is meant.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_UNREACH` if there is none, with the files that were not used and why;
    /// `PMIX_ERR_BAD_PARAM` if several servers could be meant, with a list of them, and for an address
    /// that is none.
    pub fn find(&self) -> Result<FoundServer, Error> {
        let (tries, delay) = self.tries;
        for _ in 1..tries {
            match self.find_once() {
                Err(error) if error.status() == Status::ERR_UNREACH => thread::sleep(delay),
                other => return other,
            }
        }
        self.find_once()
    }

    fn find_once(&self) -> Result<FoundServer, Error> {
        let mut passed_over = Vec::new();
        let found = match &self.target {
            Target::Uri(text) => match text.strip_prefix("file:") {
                Some(path) => return self.of_file(Path::new(path)),
                None => return Ok(FoundServer::at(text.parse()?)),
            },
            Target::File(path) => return self.of_file(path),
            Target::Any => match self.named.clone()? {
                Some(uri) => return Ok(FoundServer::at(uri)),
                None => self.system_first(&mut passed_over)?,
            },
            Target::SystemFirst => self.system_first(&mut passed_over)?,
            Target::System => self.system(&mut passed_over),
            Target::Scheduler => self.in_system_dir("pmix.sched", &mut passed_over),
            Target::Controller => self.in_system_dir("pmix.sysctrlr", &mut passed_over),
            Target::Session => self.only(&mut passed_over, |_| true)?,
            Target::Pid(pid) => {
                let suffix = pid.to_string();
                self.only(&mut passed_over, |rest| rest == suffix)?
            }
            Target::Nspace(nspace) => self.only(&mut passed_over, |rest| rest == nspace)?,
        };
        found.ok_or_else(|| self.nothing(&passed_over))
    }

    /// Lists all servers of the node that this user may see.
    #[must_use]
    pub fn list(&self) -> Listing {
        let mut passed_over = Vec::new();
        // Two servers may have one name: only the address says that they are two.
        let mut by_name = BTreeMap::new();
        let system = self.system(&mut passed_over);
        let session = self.of_session(&mut passed_over, |_| true);
        let mut others = Vec::new();
        for server in system.into_iter().chain(session) {
            if server.owner.is_some() {
                others.push(server);
                continue;
            }
            let Uri {
                server: name,
                address,
            } = server.uri.clone();
            let key = (name.nspace, name.rank, address);
            by_name.entry(key).or_insert(server);
        }
        Listing {
            servers: by_name.into_values().chain(others).collect(),
            passed_over,
        }
    }

    fn system_first(
        &self,
        passed_over: &mut Vec<PassedOver>,
    ) -> Result<Option<FoundServer>, Error> {
        match self.system(passed_over) {
            Some(found) => Ok(Some(found)),
            None => self.only(passed_over, |_| true),
        }
    }

    fn system(&self, passed_over: &mut Vec<PassedOver>) -> Option<FoundServer> {
        self.in_system_dir("pmix.sys", passed_over)
    }

    /// Returns the server of this node whose file in the directory of the system begins with a role.
    fn in_system_dir(&self, role: &str, passed_over: &mut Vec<PassedOver>) -> Option<FoundServer> {
        let paths = (self.hosts.iter()).map(|host| self.system_dir.join(format!("{role}.{host}")));
        let mut found = paths.filter_map(|path| self.read(&path, passed_over));
        found.next()
    }

    /// Returns the only session server whose file name has this suffix, or `None` if there is none.
    fn only(
        &self,
        passed_over: &mut Vec<PassedOver>,
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<Option<FoundServer>, Error> {
        let mut found = self.of_session(passed_over, is_meant);
        if let Target::Pid(pid) = self.target {
            // Any user can give a file such a name, but only to a server of its own process.
            found.retain(|server| server.owner.is_none() || server.pid == Some(pid));
        }
        if found.iter().any(|server| server.owner.is_none()) {
            found.retain(|server| server.owner.is_none());
        }
        match found.len() {
            0 | 1 => Ok(found.pop()),
            number => {
                let mut message = format!("{number} servers match; select one by its process ID:");
                for server in &found {
                    let name = &server.uri.server.nspace;
                    let pid = server
                        .pid
                        .map_or_else(|| "?".to_owned(), |pid| pid.to_string());
                    let path = server
                        .path
                        .as_deref()
                        .unwrap_or_else(|| Path::new(""))
                        .display();
                    let owner = server.owner.map(|owner| format!(", user {owner}"));
                    let owner = owner.unwrap_or_default();
                    message.push_str(&format!("\n  pid {pid}, {name}{owner}, {path}"));
                }
                Err(Error::new(Status::ERR_BAD_PARAM, message))
            }
        }
    }

    /// Returns the session servers, each once, whose file names continue in this way after
    /// `pmix.<host>.tool`.
    fn of_session(
        &self,
        passed_over: &mut Vec<PassedOver>,
        is_meant: impl Fn(&str) -> bool,
    ) -> Vec<FoundServer> {
        let is_wanted = |name: &str| {
            self.hosts.iter().any(|host| {
                let rest = name.strip_prefix("pmix.");
                let rest = rest.and_then(|rest| rest.strip_prefix(host.as_str()));
                let rest = rest.and_then(|rest| rest.strip_prefix(".tool"));
                match rest {
                    Some("") => is_meant(""),
                    Some(rest) => rest.strip_prefix('.').is_some_and(&is_meant),
                    None => false,
                }
            })
        };
        let mut servers: Vec<FoundServer> = Vec::new();
        let owners = match self.is_of_all {
            true => Owners::All,
            false => Owners::Own(self.user),
        };
        let files = files_below(&self.server_dir, owners, is_wanted);
        let mut num_more = Unused {
            dead: 0,
            others: files.num_of_others,
        };
        let mut known = BTreeSet::new();
        for path in files.paths {
            let before = passed_over.len();
            if let Some(server) = self.read(&path, passed_over)
                && known.insert(server.uri.to_string())
            {
                servers.push(server);
            }
            if before >= MAX_PASSED_OVER {
                let more = passed_over.drain(before..);
                more.for_each(|passed| num_more.add(&passed));
            }
        }
        let others = self.of_others(files.of_others, &mut num_more, passed_over, MAX_PASSED_OVER);
        servers
            .extend({ others.into_iter() }.filter(|server| known.insert(server.uri.to_string())));
        passed_over.extend(num_more.said(&self.server_dir));
        servers
    }

    fn read(&self, path: &Path, passed_over: &mut Vec<PassedOver>) -> Option<FoundServer> {
        self.read_with(path, self.trust, passed_over)
    }

    /// Reads a file that root or a user may have written.
    fn read_with(
        &self,
        path: &Path,
        trust: Trust,
        passed_over: &mut Vec<PassedOver>,
    ) -> Option<FoundServer> {
        match FoundServer::read(path, trust)? {
            Ok(found) if !is_of_this_node(found.uri.address.ip()) => {
                let address = found.uri.address;
                let reason = format!(
                    "{address} is not an address of this node; tools connect to other nodes only if the \
                    address is given explicitly"
                );
                passed_over.push(PassedOver {
                    num_files: 1,
                    path: path.to_path_buf(),
                    reason,
                    is_dead: false,
                });
                None
            }
            Ok(found) => Some(found),
            Err(reason) => {
                passed_over.push(reason);
                None
            }
        }
    }

    /// Returns the server of an explicitly named file, which must exist.
    fn of_file(&self, path: &Path) -> Result<FoundServer, Error> {
        let shown = path.display();
        if let Some(owner) = self.other_owner(path) {
            let found = self.of_file_of(path, owner);
            return found.map_err(|why| Error::unreachable(format!("{shown}: {why}")));
        }
        match FoundServer::read(path, self.trust) {
            Some(Ok(found)) => Ok(found),
            Some(Err(passed)) => Err(Error::unreachable(format!("{shown}: {}", passed.reason))),
            None => Err(Error::unreachable(format!("{shown}: no such file"))),
        }
    }

    /// Says what was looked for in vain, and which files were not used.
    fn nothing(&self, passed_over: &[PassedOver]) -> Error {
        let (system, session) = (self.system_dir.display(), self.server_dir.display());
        let mut message = match &self.target {
            Target::System => format!("no system server has a rendezvous file in {system}"),
            Target::Scheduler => {
                format!("no scheduler has a rendezvous file (pmix.sched.*) in {system}")
            }
            Target::Controller => {
                format!("no system controller has a rendezvous file (pmix.sysctrlr.*) in {system}")
            }
            Target::Pid(pid) => format!("process {pid} has no rendezvous file below {session}"),
            Target::Nspace(name) => {
                format!("no server {name} has a rendezvous file below {session}")
            }
            Target::Session => format!("no server has a rendezvous file below {session}"),
            _ if self.system_dir == self.server_dir => {
                format!("no server has a rendezvous file in or below {session}")
            }
            _ => format!(
                "no server has a rendezvous file below {session} or, for the system, in {system}"
            ),
        };
        message.push_str(
            " (orterun of Open MPI 4 does not write one, and Slurm's steps only if configured to)",
        );
        for PassedOver { path, reason, .. } in passed_over {
            message.push_str(&format!("\n  {}: {reason}", path.display()));
        }
        Error::unreachable(message)
    }
}

/// The number of files of which each has a line. Anybody can fill a shared directory with more.
const MAX_PASSED_OVER: usize = 16;

/// Files that are not used and have no line of their own.
struct Unused {
    /// Number of files of servers that have exited.
    dead: usize,
    /// All others.
    others: usize,
}

impl Unused {
    fn add(&mut self, passed: &PassedOver) {
        match passed.is_dead {
            true => self.dead += 1,
            false => self.others += 1,
        }
    }

    /// Returns a line for each kind of which there is any.
    fn said(&self, directory: &Path) -> Vec<PassedOver> {
        let kinds = [
            (self.dead, true, "belong to servers that have exited"),
            (
                self.others,
                false,
                "are ignored because another user could have written them, because they do not name a server, or because \
                there are too many",
            ),
        ];
        let lines = kinds.into_iter().filter(|(number, ..)| *number > 0);
        lines
            .map(|(number, is_dead, what)| PassedOver {
                path: directory.to_path_buf(),
                reason: format!("{number} more files below it {what}"),
                is_dead,
                num_files: number,
            })
            .collect()
    }
}

/// Returns `true` if an address belongs to this node, that is, if a socket can be bound to it.
fn is_of_this_node(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// Returns the names that servers can use for this node, with and without domain: from the environment,
/// otherwise from the system.
fn host_names(environment: &Environment) -> Vec<String> {
    if let Some(name) = environment.first_of(&["PMIX_HOSTNAME"]) {
        return vec![name.to_string_lossy().into_owned()];
    }
    let system = rustix::system::uname();
    let whole = system.nodename().to_string_lossy().into_owned();
    let short = whole.split('.').next().unwrap_or_default().to_owned();
    match short == whole {
        true => vec![whole],
        false => vec![short, whole],
    }
}

#[cfg(test)]
mod tests;

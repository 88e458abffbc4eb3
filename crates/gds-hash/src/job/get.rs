// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gets of job info: the selection of the realm, and the lookup in it.
//!
//! Source: PMIx Standard, chapter "Reserved Keys", the rules of retrieval for each realm.

use std::borrow::Cow;

use pmix_types::{Info, IntoOwned as _, Rank, Value, keys, memory};

use super::derive::{check_node, check_text, text};
use super::nodes::short;
use crate::{Error, Job};

/// The Standard's name of the process realm, which no released header has.
const PROC_INFO: &str = "pmix.proc.info";

/// A request for the value of a key, or for all values, of a rank.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    rank: Rank,
    key: Option<&'r str>,
    qualifiers: &'r [Info<'r>],
}

impl<'r> Request<'r> {
    /// Creates a request for the value of a key.
    #[must_use]
    pub const fn new(rank: Rank, key: &'r str) -> Self {
        Self {
            rank,
            key: Some(key),
            qualifiers: &[],
        }
    }

    /// Creates a request for all values of a process. See also [`Job::known`].
    #[must_use]
    pub const fn all(rank: Rank) -> Self {
        Self {
            rank,
            key: None,
            qualifiers: &[],
        }
    }

    /// Sets qualifiers: the realm, node, application or session of the request, and qualifiers of
    /// the value.
    #[must_use]
    pub const fn with(mut self, qualifiers: &'r [Info<'r>]) -> Self {
        self.qualifiers = qualifiers;
        self
    }

    /// Returns the value of a qualifier. A null string counts as missing: clients of 4.2 send one
    /// if their caller names no node.
    fn qualifier(&self, key: &str) -> Option<&'r Value<'r>> {
        let found = self.qualifiers.iter().find(|info| info.key.is(key));
        let said = found.map(|info| &info.value);
        said.filter(|value| !matches!(value, Value::String(None)))
    }

    fn names_node(&self) -> bool {
        self.qualifier(keys::NODEID)
            .or_else(|| self.qualifier(keys::HOSTNAME))
            .is_some()
    }

    fn says(&self, key: &str) -> bool {
        let found = self.qualifiers.iter().find(|info| info.key.is(key));
        found.is_some_and(|info| info.truth().is_true())
    }

    /// Returns the session of the request, if one is named.
    pub(crate) fn session(&self) -> Option<u32> {
        self.number(keys::SESSION_ID).ok().flatten()
    }

    /// Returns the rank of the request.
    pub(crate) const fn rank(&self) -> Rank {
        self.rank
    }

    /// Returns the realm that the qualifiers name.
    pub(crate) fn realm(&self) -> Option<Realm> {
        if self.qualifiers.is_empty() {
            return None;
        }
        let named = [
            (keys::SESSION_INFO, Realm::Session),
            (keys::JOB_INFO, Realm::Job),
            (keys::APP_INFO, Realm::App),
            (keys::NODE_INFO, Realm::Node),
            (PROC_INFO, Realm::Proc),
        ];
        named
            .into_iter()
            .find(|(key, _)| self.says(key))
            .map(|(_, realm)| realm)
    }

    fn number(&self, key: &str) -> Result<Option<u32>, Error> {
        let Some(value) = self.qualifier(key) else {
            return Ok(None);
        };
        match value {
            Value::Uint32(n) | Value::Uint(n) => Ok(Some(*n)),
            Value::Rank(rank) => Ok(Some(rank.as_raw())),
            Value::Uint16(n) => Ok(Some((*n).into())),
            Value::Int(n) | Value::Int32(n) => {
                let number = u32::try_from(*n);
                number
                    .map(Some)
                    .map_err(|_| Error::bad(format!("{key} is negative")))
            }
            other => {
                let found = other.data_type();
                Err(Error::bad(format!(
                    "{key} has type {found}, expected PMIX_UINT32"
                )))
            }
        }
    }
}

/// A stored value, or a value derived from the maps.
pub type Answer<'j> = Cow<'j, Value<'static>>;

/// Converts the result of a get into an owned value.
///
/// # Errors
///
/// `PMIX_ERR_NOMEM` if the process has no memory for a copy.
pub fn owned_answer(answer: Answer<'_>) -> Result<Value<'static>, Error> {
    match answer {
        Cow::Owned(value) => Ok(value),
        Cow::Borrowed(value) => Ok(value.try_clone()?),
    }
}

impl Job {
    /// Returns the requested value.
    ///
    /// The realm is the one that the qualifiers name, otherwise that of the key. Session keys have
    /// a value for any rank. Node keys are about the node of the rank, or about the node of this
    /// server if the rank is not a process. Application keys are about the application of the rank,
    /// or about the first one. All other keys are about the process, or, with [`Rank::WILDCARD`],
    /// about the job (PMIx Standard, "Retrieval rules for reserved keys").
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` with the realm that was searched; `PMIX_ERR_BAD_PARAM` if all values
    /// are requested for a rank that is not a single process.
    pub fn get(&self, request: &Request<'_>) -> Result<Answer<'_>, Error> {
        let Some(key) = request.key else {
            return self.of_rank(request.rank).map(Cow::Owned);
        };
        let realm = self.realm(request);
        let found = match realm {
            Realm::Session => self.session_value(request, key)?,
            Realm::Job => self.job_value(request, key)?,
            Realm::App => self.app_value(request, key)?,
            Realm::Node => self.node_value(request, key)?,
            Realm::Proc => self.proc_value(request, key)?,
        };
        // The list of allocated nodes "defaults to the session realm" (PMIx Standard,
        // PMIX_ALLOCATED_NODELIST), so the session is searched as well, unless the host registered
        // the list for the job.
        let found = match found {
            None if key == keys::ALLOCATED_NODELIST && request.realm().is_none() => {
                self.session_value(request, key)?
            }
            found => found,
        };
        found.ok_or_else(|| {
            let nspace = &self.nspace;
            Error::not_found(format!(
                "{key} is unknown at {} level of {nspace}",
                realm.name()
            ))
        })
    }

    /// Returns the realm of a request. A request for all values is about a process.
    pub(crate) fn realm(&self, request: &Request<'_>) -> Realm {
        let named = request.realm();
        named.unwrap_or_else(|| match request.key {
            Some(key) => self.default_realm(request.rank, key, request.names_node()),
            None => Realm::Proc,
        })
    }

    /// Returns the realm of a key if the qualifiers name none.
    fn default_realm(&self, rank: Rank, key: &str, node_named: bool) -> Realm {
        match Realm::of(key.as_bytes()) {
            Some(Realm::Session) => Realm::Session,
            Some(Realm::App) => Realm::App,
            // The name and number of the node of a process are values of the process.
            Some(Realm::Node) if is_place(key) && rank.is_valid() && !node_named => Realm::Proc,
            Some(Realm::Node) => Realm::Node,
            _ if rank == Rank::WILDCARD => Realm::Job,
            _ => Realm::Proc,
        }
    }

    /// Returns `true` if the job belongs to the requested session, or if the request names no
    /// session.
    pub(crate) fn is_session(&self, request: &Request<'_>) -> Result<bool, Error> {
        let asked = request.number(keys::SESSION_ID)?;
        Ok(asked.is_none() || asked == self.session.id)
    }

    fn session_value(&self, request: &Request<'_>, key: &str) -> Result<Option<Answer<'_>>, Error> {
        if !self.is_session(request)? {
            return Ok(None);
        }
        let session = &self.session;
        if let Some(named) = self.node_named(request, &session.nodes)? {
            let nodes = &session.nodes;
            if let Some(slot) = named {
                check_node(self, nodes, slot, Some(key))?;
            }
            let key = key.as_bytes();
            let stated = named.and_then(|slot| {
                let qualified = nodes.qualified(slot, key, request.qualifiers);
                qualified.or_else(|| nodes.stated(slot, key))
            });
            return Ok(stated.map(Cow::Owned));
        }
        check_text(&session.nodes, key)?;
        let stated = session.values.get(key.as_bytes(), request.qualifiers);
        Ok(stated
            .map(Cow::Borrowed)
            .or_else(|| self.derived_of_session(key).map(Cow::Owned)))
    }

    fn job_value(&self, request: &Request<'_>, key: &str) -> Result<Option<Answer<'_>>, Error> {
        let stated = self.job.get(key.as_bytes(), request.qualifiers);
        if stated.is_some() {
            return Ok(stated.map(Cow::Borrowed));
        }
        check_text(&self.nodes, key)?;
        Ok(self.derived_of_job(key).map(Cow::Owned))
    }

    /// Returns the named application, otherwise that of the process, otherwise the first.
    pub(crate) fn app_asked(&self, request: &Request<'_>) -> Result<Option<u32>, Error> {
        Ok(match request.number(keys::APPNUM)? {
            Some(number) => Some(number),
            None if request.rank.is_valid() => self.app_of(request.rank),
            None => Some(self.apps.keys().next().copied().unwrap_or(0)),
        })
    }

    fn app_value(&self, request: &Request<'_>, key: &str) -> Result<Option<Answer<'_>>, Error> {
        let number = self.app_asked(request)?;
        let Some(number) = number else {
            return Ok(None);
        };
        let Some(app) = self.apps.get(&number) else {
            return Ok(self.derived_of_app(number, key).map(Cow::Owned));
        };
        let node = self.node_named(request, &app.nodes)?;
        if let Some(slot) = node {
            let Some(slot) = slot else {
                return Ok(None);
            };
            let value = self.value_of_node(request, &app.nodes, slot, key)?;
            return Ok(value.map(Cow::Owned));
        }
        check_text(&app.nodes, key)?;
        let stated = app.values.get(key.as_bytes(), request.qualifiers);
        Ok(stated
            .map(Cow::Borrowed)
            .or_else(|| self.derived_of_app(number, key).map(Cow::Owned)))
    }

    /// Returns the slot of the node that the qualifiers name: `None` if they name none,
    /// `Some(None)` if the node is unknown.
    pub(crate) fn node_named(
        &self,
        request: &Request<'_>,
        nodes: &super::nodes::Nodes,
    ) -> Result<Option<Option<u32>>, Error> {
        if let Some(value) = request.qualifier(keys::HOSTNAME) {
            let Value::String(Some(name)) = value else {
                let found = value.data_type();
                return Err(Error::bad(format!(
                    "pmix.hname has type {found}, expected PMIX_STRING"
                )));
            };
            let slot = self.slot_of(nodes, name.as_bytes());
            return Ok(Some(slot.or_else(|| {
                self.same_node(self.slot_of(&self.nodes, name.as_bytes())?, nodes)
            })));
        }
        let id = request.number(keys::NODEID)?;
        Ok(id.map(|id| {
            let slot = nodes.by_id(id);
            slot.or_else(|| self.same_node(self.nodes.by_id(id)?, nodes))
        }))
    }

    /// Returns the slot of a node of the job in the nodes of a session or an application. These may
    /// have only the name or only the number of the node.
    fn same_node(&self, slot: u32, nodes: &super::nodes::Nodes) -> Option<u32> {
        let name = self.nodes.name(slot);
        name.and_then(|name| nodes.by_name(&name))
            .or_else(|| nodes.by_id(self.nodes.id(slot)?))
    }

    fn slot_of(&self, nodes: &super::nodes::Nodes, name: &[u8]) -> Option<u32> {
        nodes.by_name(name).or_else(|| {
            // All names of this server's node are equivalent.
            let own = self.host.names().any(|own| own == name);
            own.then(|| self.host.names().find_map(|own| nodes.by_name(own)))?
        })
    }

    /// Returns the named node, otherwise that of the process, otherwise that of this server.
    pub(crate) fn node_asked(
        &self,
        request: &Request<'_>,
        nodes: &super::nodes::Nodes,
    ) -> Result<Option<u32>, Error> {
        if let Some(named) = self.node_named(request, nodes)? {
            return Ok(named);
        }
        if request.rank.is_valid() {
            return Ok(self.node_of(request.rank));
        }
        Ok(self.host.names().find_map(|name| nodes.by_name(name)))
    }

    /// DEVIATION: the name and the number of a node are values of the node, so a get by name
    /// returns the number and vice versa, also for the node of this server; OpenPMIx does not find
    /// them, or returns the requested name or number itself;
    /// `a_node_is_known_by_its_name_and_its_number`.
    fn node_value(&self, request: &Request<'_>, key: &str) -> Result<Option<Answer<'_>>, Error> {
        let slot = self.node_asked(request, &self.nodes)?;
        if let Some(slot) = slot {
            let value = self.value_of_node(request, &self.nodes, slot, key)?;
            return Ok(value.map(Cow::Owned));
        }
        // The name of this server's node is known even if the job has no process on it.
        let own = key == keys::HOSTNAME && !request.names_node() && !request.rank.is_valid();
        let name = self.host.name();
        let name = if self.nodes.short { short(name) } else { name };
        Ok(own.then(|| Cow::Owned(text(name))))
    }

    /// Returns a value of a node with the requested qualifiers.
    fn value_of_node(
        &self,
        request: &Request<'_>,
        nodes: &super::nodes::Nodes,
        slot: u32,
        key: &str,
    ) -> Result<Option<Value<'static>>, Error> {
        check_node(self, nodes, slot, Some(key))?;
        let qualified = nodes.qualified(slot, key.as_bytes(), request.qualifiers);
        Ok(qualified.or_else(|| self.about_node(nodes, slot, key)))
    }

    fn proc_value(&self, request: &Request<'_>, key: &str) -> Result<Option<Answer<'_>>, Error> {
        let rank = match request.rank {
            rank if rank.is_valid() => Some(rank),
            Rank::UNDEF => self.first_rank_with(key),
            _ => None,
        };
        let Some(rank) = rank else {
            return Ok(None);
        };
        let stated = self.procs.measure(key.as_bytes(), rank.as_raw());
        memory::check(stated)?;
        // These values derive from the maps, by the first slot of the node. Without the table of
        // repeated names and the index, the lookups would take quadratic time.
        let is_of_node = stated == 0
            && matches!(
                key,
                keys::HOSTNAME | keys::LOCAL_RANK | keys::NODE_RANK | keys::NODEID
            );
        if let Some(maps) = self.nodes.maps.as_ref().filter(|_| is_of_node) {
            maps.prepare()?;
        }
        let asked = request.qualifiers;
        let qualified = (self.procs).qualified(key.as_bytes(), rank.as_raw(), asked);
        Ok((qualified.or_else(|| self.about_proc(rank, key))).map(Cow::Owned))
    }
}

/// Returns `true` if a key has the node of a process as its value.
fn is_place(key: &str) -> bool {
    key == keys::HOSTNAME || key == keys::NODEID
}

// Data realms: the default subject of a key.
//
// Source: PMIx Standard, chapter "Reserved Keys", the data realms.

/// The realm of a key (PMIx Standard, "Data realms").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Realm {
    /// An allocation and the jobs in it.
    Session,
    /// The processes that were started together.
    Job,
    /// The processes of a job that run one program.
    App,
    /// A node.
    Node,
    /// A process.
    Proc,
}

impl Realm {
    /// Returns the default realm of a key. Returns `None` for keys of a job or a process: the rank
    /// of the request distinguishes these.
    #[must_use]
    pub fn of(key: &[u8]) -> Option<Self> {
        let key = std::str::from_utf8(key).ok()?;
        Some(match key {
            keys::SESSION_ID
            | keys::CLUSTER_ID
            | keys::UNIV_SIZE
            | keys::TMPDIR
            | keys::TDIR_RMCLEAN
            | keys::HOSTNAME_KEEP_FQDN
            | keys::RM_NAME
            | keys::RM_VERSION => Self::Session,
            keys::APP_SIZE
            | keys::APPLDR
            | keys::APP_ARGV
            | keys::WDIR
            | keys::PSET_NAMES
            | keys::APP_MAP_TYPE
            | keys::APP_MAP_REGEX => Self::App,
            keys::HOSTNAME
            | keys::HOSTNAME_ALIASES
            | keys::NODEID
            | keys::NODE_SIZE
            | keys::AVAIL_PHYS_MEMORY
            | keys::LOCAL_PEERS
            | keys::LOCAL_PROCS
            | keys::LOCAL_CPUSETS
            | keys::LOCALLDR
            | keys::LOCAL_SIZE
            | keys::NODE_OVERSUBSCRIBED => Self::Node,
            _ => return None,
        })
    }

    /// Returns the name of the realm for messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Job => "job",
            Self::App => "application",
            Self::Node => "node",
            Self::Proc => "process",
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the infos of a registration to a job.
//!
//! The arrays may stand in each other in any order and depth, so the infos are walked twice: for
//! the maps, which say what the nodes are, then for everything else.

use std::collections::BTreeMap;

use pmix_types::{
    DataArray, Info, IntoOwned, Key, Nspace, QualifiedValue, Rank, Status, Value, keys,
};
use preg_core::{NodeList, Preg, ProcMap};

use crate::columns::ColumnsBuilder;
use crate::job::{App, Session};
use crate::nodes::{Maps, NodesBuilder};
use crate::table::Table;
use crate::{Error, Host, Job, Realm};

/// How deep arrays may stand in each other.
const MAX_DEPTH: usize = 32;

impl Job {
    /// Registers a job.
    ///
    /// # Errors
    ///
    /// The entry that is not as it should be: maps of different length, a map given twice, a map
    /// or array of another type, an array that does not say which application, node or process it
    /// describes, arrays nested too deep.
    pub fn register(
        preg: &Preg,
        host: &Host,
        nspace: impl Into<Nspace<'static>>,
        infos: &[Info<'_>],
    ) -> Result<Self, Error> {
        let nspace = nspace.into();
        let mut maps = MapFinder::new(preg);
        maps.walk(infos, Target::Job, 0)?;
        let mut builder = Builder::new(&nspace, host, maps)?;
        builder.walk(infos, Target::Job, 0)?;
        Ok(builder.finish(nspace.clone(), host.clone()))
    }
}

/// What the entries of an array are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Session,
    Job,
    App(u32),
    /// A node as the job, the session or an application sees it, by the place of its array.
    Node,
    Proc(u32),
}

/// The infos of an array.
fn array<'i, 'a>(info: &'i Info<'a>) -> Result<&'i [Info<'a>], Error> {
    match &info.value {
        Value::DataArray(DataArray::Info(infos)) => Ok(infos),
        Value::DataArray(array) if array.is_empty() => Ok(&[]),
        other => {
            let found = other.data_type();
            Err(wrong_type(format!(
                "expected an array of infos, found {found}"
            )))
        }
    }
}

fn wrong_type(message: String) -> Error {
    Error::new(Status::ERR_TYPE_MISMATCH, message)
}

/// The entry of an array with this key, if there is one.
fn entry<'i, 'a>(infos: &'i [Info<'a>], key: &str) -> Option<&'i Value<'a>> {
    infos
        .iter()
        .find(|info| info.key.is(key))
        .map(|info| &info.value)
}

/// What the array under a key describes.
fn target(info: &Info<'_>, infos: &[Info<'_>]) -> Result<Target, Error> {
    let key = info.key.as_bytes();
    if key == keys::SESSION_INFO_ARRAY.as_bytes() {
        return Ok(Target::Session);
    }
    if key == keys::JOB_INFO_ARRAY.as_bytes() {
        return Ok(Target::Job);
    }
    if key == keys::NODE_INFO_ARRAY.as_bytes() {
        return Ok(Target::Node);
    }
    if key == keys::APP_INFO_ARRAY.as_bytes() {
        let number = entry(infos, keys::APPNUM).map(number).transpose()?;
        let number =
            number.ok_or_else(|| Error::bad("an application array without pmix.appnum"))?;
        return Ok(Target::App(number));
    }
    match (entry(infos, keys::RANK), entry(infos, keys::PROCID)) {
        (Some(rank), _) => number(rank).map(Target::Proc),
        (None, Some(Value::Proc(proc))) => Ok(Target::Proc(proc.rank.as_raw())),
        _ => Err(Error::bad(
            "a process array without pmix.rank or pmix.procid",
        )),
    }
}

/// Whether the value of a key describes something else than what it stands in.
fn is_container(key: &Key<'_>) -> bool {
    [
        keys::SESSION_INFO_ARRAY,
        keys::JOB_INFO_ARRAY,
        keys::APP_INFO_ARRAY,
        keys::NODE_INFO_ARRAY,
        keys::PROC_INFO_ARRAY,
    ]
    .iter()
    .any(|container| key.is(container))
}

/// A number that says which application, node, session or process is meant.
fn number(value: &Value<'_>) -> Result<u32, Error> {
    let number = match value {
        Value::Rank(rank) => Some(rank.as_raw()),
        Value::Uint32(n) | Value::Uint(n) => Some(*n),
        Value::Uint16(n) => Some(u32::from(*n)),
        Value::Uint64(n) | Value::Size(n) => u32::try_from(*n).ok(),
        Value::Int(n) | Value::Int32(n) => u32::try_from(*n).ok(),
        Value::Int64(n) => u32::try_from(*n).ok(),
        _ => None,
    };
    number.ok_or_else(|| {
        let found = value.data_type();
        wrong_type(format!("expected a number of 32 bits, found {found}"))
    })
}

fn text<'v>(value: &'v Value<'_>) -> Result<&'v [u8], Error> {
    match value {
        Value::String(Some(text)) => Ok(text.as_bytes()),
        other => Err(wrong_type(format!(
            "expected a string, found {}",
            other.data_type()
        ))),
    }
}

/// Checks the depth of an array and names the entry of a fault inside it.
fn within<T>(
    depth: usize,
    place: usize,
    info: &Info<'_>,
    read: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    if depth >= MAX_DEPTH {
        let message = format!("arrays are nested more than {MAX_DEPTH} deep");
        return Err(Error::bad(message).inside(place, &info.key));
    }
    read().map_err(|error| error.inside(place, &info.key))
}

/// Both maps of a session, a job or an application.
#[derive(Default)]
struct Pair {
    nodes: Option<NodeList>,
    procs: Option<ProcMap>,
}

/// Finds the maps.
struct MapFinder<'p> {
    preg: &'p Preg,
    found: BTreeMap<Target, Pair>,
}

impl<'p> MapFinder<'p> {
    fn new(preg: &'p Preg) -> Self {
        Self {
            preg,
            found: BTreeMap::new(),
        }
    }

    fn walk(&mut self, infos: &[Info<'_>], about: Target, depth: usize) -> Result<(), Error> {
        for (place, info) in infos.iter().enumerate() {
            within(depth, place, info, || self.entry(info, about, depth))?;
        }
        Ok(())
    }

    fn entry(&mut self, info: &Info<'_>, about: Target, depth: usize) -> Result<(), Error> {
        if is_container(&info.key) {
            let infos = array(info)?;
            let inner = target(info, infos)?;
            return self.walk(infos, inner, depth + 1);
        }
        let pair = || matches!(about, Target::Session | Target::Job | Target::App(_));
        if info.key.is(keys::NODE_MAP) && pair() {
            let nodes = self.node_map(&info.value)?;
            let place = &mut self.found.entry(about).or_default().nodes;
            return once(place, nodes);
        }
        if info.key.is(keys::PROC_MAP) && pair() {
            let procs = self.proc_map(&info.value)?;
            let place = &mut self.found.entry(about).or_default().procs;
            return once(place, procs);
        }
        Ok(())
    }

    fn node_map(&self, value: &Value<'_>) -> Result<NodeList, Error> {
        let parsed = match value {
            Value::Regex(regex) => self.preg.parse_nodes(&regex.0),
            Value::String(Some(text)) => self.preg.parse_nodes(text.as_bytes()),
            Value::Regex2(regex) => match regex.as_view() {
                Some(view) => self.preg.resolve_nodes(view),
                None => return Err(Error::bad("an encoded map without its type")),
            },
            other => return Err(no_map(other)),
        };
        parsed.map_err(|e| Error::new(e.status(), e.to_string()))
    }

    fn proc_map(&self, value: &Value<'_>) -> Result<ProcMap, Error> {
        let parsed = match value {
            Value::Regex(regex) => self.preg.parse_procs(&regex.0),
            Value::String(Some(text)) => self.preg.parse_procs(text.as_bytes()),
            Value::Regex2(regex) => match regex.as_view() {
                Some(view) => self.preg.resolve_procs(view),
                None => return Err(Error::bad("an encoded map without its type")),
            },
            other => return Err(no_map(other)),
        };
        parsed.map_err(|e| Error::new(e.status(), e.to_string()))
    }

    /// The maps of a session, job or application, if both are there.
    fn take(&mut self, about: Target) -> Result<Option<Maps>, Error> {
        let Some(pair) = self.found.remove(&about) else {
            return Ok(None);
        };
        let (Some(nodes), Some(procs)) = (pair.nodes, pair.procs) else {
            return Ok(None);
        };
        if nodes.len() != procs.num_nodes() {
            let (names, groups) = (nodes.len(), procs.num_nodes());
            let message = format!("the node map has {names} nodes, the process map {groups}");
            return Err(Error::bad(message));
        }
        Ok(Some(Maps::new(nodes, procs)))
    }
}

fn no_map(value: &Value<'_>) -> Error {
    wrong_type(format!("expected a map, found {}", value.data_type()))
}

fn once<T>(place: &mut Option<T>, map: T) -> Result<(), Error> {
    if place.is_some() {
        return Err(Error::bad("the map is given twice"));
    }
    *place = Some(map);
    Ok(())
}

/// Builds the job from everything that is no map.
struct Builder<'b> {
    nspace: &'b Nspace<'static>,
    host: &'b Host,
    job: Table,
    session: Option<u32>,
    session_values: Table,
    session_nodes: NodesBuilder,
    apps: BTreeMap<u32, (Table, NodesBuilder)>,
    nodes: NodesBuilder,
    procs: ColumnsBuilder,
    strip_fqdn: bool,
}

impl<'b> Builder<'b> {
    fn new(
        nspace: &'b Nspace<'static>,
        host: &'b Host,
        mut maps: MapFinder<'_>,
    ) -> Result<Self, Error> {
        let job = maps.take(Target::Job)?;
        let session = maps.take(Target::Session)?;
        let mut apps = BTreeMap::new();
        while let Some((Target::App(number), _)) = maps.found.first_key_value() {
            let number = *number;
            let pair = maps.take(Target::App(number))?;
            apps.insert(number, (Table::default(), NodesBuilder::new(pair)));
        }
        Ok(Self {
            nspace,
            host,
            job: Table::default(),
            session: None,
            session_values: Table::default(),
            session_nodes: NodesBuilder::new(session),
            apps,
            nodes: NodesBuilder::new(job),
            procs: ColumnsBuilder::default(),
            strip_fqdn: false,
        })
    }

    fn walk(&mut self, infos: &[Info<'_>], about: Target, depth: usize) -> Result<(), Error> {
        for (place, info) in infos.iter().enumerate() {
            within(depth, place, info, || self.entry(info, infos, about, depth))?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        info: &Info<'_>,
        _siblings: &[Info<'_>],
        about: Target,
        depth: usize,
    ) -> Result<(), Error> {
        if is_container(&info.key) {
            let infos = array(info)?;
            return match target(info, infos)? {
                Target::Node => self.node(infos, about),
                Target::Proc(rank) => self.proc(infos, rank),
                inner => self.walk(infos, inner, depth + 1),
            };
        }
        if info.key.is(keys::NODE_MAP) || info.key.is(keys::PROC_MAP) {
            return Ok(());
        }
        if info.key.is(keys::NSPACE) {
            return self.same_nspace(&info.value);
        }
        if info.key.is(keys::QUALIFIED_VALUE) {
            let value = QualifiedValue::from_info(info.clone().into_owned());
            let value = value.map_err(|e| Error::new(e.status(), e.to_string()))?;
            self.table(about).qualify(value);
            return Ok(());
        }
        self.plain(info, about)
    }

    /// Arrays of another job cannot be part of this one.
    fn same_nspace(&self, value: &Value<'_>) -> Result<(), Error> {
        let named = match value {
            Value::Nspace(nspace) => nspace.as_bytes(),
            other => text(other)?,
        };
        if named == self.nspace.as_bytes() {
            return Ok(());
        }
        let named = String::from_utf8_lossy(named).into_owned();
        Err(Error::bad(format!(
            "it is about {named}, and {} is registered",
            self.nspace
        )))
    }

    fn table(&mut self, about: Target) -> &mut Table {
        match about {
            Target::Session => &mut self.session_values,
            Target::App(number) => &mut self.app(number).0,
            _ => &mut self.job,
        }
    }

    fn app(&mut self, number: u32) -> &mut (Table, NodesBuilder) {
        self.apps.entry(number).or_default()
    }

    /// A value that stands alone.
    fn plain(&mut self, info: &Info<'_>, about: Target) -> Result<(), Error> {
        let (key, value) = (&info.key, info.value.clone());
        if key.is(keys::SESSION_ID) && about != Target::Job {
            self.session = Some(number(&value)?);
        }
        if key.is(keys::HOSTNAME_KEEP_FQDN) {
            self.strip_fqdn = value.truth().as_bool() == Some(false);
        }
        if about != Target::Job {
            self.table(about).set(key, value);
            return Ok(());
        }
        // What belongs to another realm may stand alone where only one of its kind is meant: the
        // node of this server, the one application, the session of the job.
        match Realm::of(key.as_bytes()) {
            Some(Realm::Session) => {
                if key.is(keys::SESSION_ID) {
                    self.session = Some(number(&value)?);
                }
                self.session_values.set(key, value);
            }
            Some(Realm::Node) => {
                let slot = self.own_slot();
                self.nodes.set(slot, key, &value);
            }
            Some(Realm::App) => self.app(0).0.set(key, value),
            _ => self.job.set(key, value),
        }
        Ok(())
    }

    /// The slot of the node this server runs on.
    fn own_slot(&mut self) -> u32 {
        let known = self.host.names().find_map(|name| self.nodes.find(name));
        known.unwrap_or_else(|| self.nodes.slot(Some(self.host.name()), None))
    }

    /// The description of a node.
    fn node(&mut self, infos: &[Info<'_>], about: Target) -> Result<(), Error> {
        let name = entry(infos, keys::HOSTNAME).map(text).transpose()?;
        let id = entry(infos, keys::NODEID).map(number).transpose()?;
        if name.is_none() && id.is_none() {
            return Err(Error::bad("a node array without pmix.hname or pmix.nodeid"));
        }
        let nodes = match about {
            Target::Session => &mut self.session_nodes,
            Target::App(number) => &mut self.apps.entry(number).or_default().1,
            _ => &mut self.nodes,
        };
        let slot = nodes.slot(name, id);
        for info in infos {
            if info.key.is(keys::HOSTNAME_ALIASES) {
                let aliases = text(&info.value)?;
                for alias in aliases.split(|b| *b == b',').filter(|a| !a.is_empty()) {
                    nodes.alias(slot, alias);
                }
            }
            match &info.value {
                // A number of another width means the same node.
                _ if info.key.is(keys::NODEID) => {
                    nodes.set(slot, &info.key, &Value::Uint32(number(&info.value)?));
                }
                value => nodes.set(slot, &info.key, value),
            }
        }
        Ok(())
    }

    /// The description of a process.
    fn proc(&mut self, infos: &[Info<'_>], rank: u32) -> Result<(), Error> {
        if !Rank::new(rank).is_valid() {
            return Err(Error::bad(format!(
                "{} is no rank of a process",
                Rank::new(rank)
            )));
        }
        for info in infos.iter().filter(|info| !info.key.is(keys::RANK)) {
            self.procs.set(&info.key, rank, &info.value);
        }
        Ok(())
    }

    fn finish(self, nspace: Nspace<'static>, host: Host) -> Job {
        let apps = self.apps.into_iter().map(|(number, (values, nodes))| {
            let nodes = nodes.finish();
            (number, App { values, nodes })
        });
        Job {
            nspace,
            host,
            job: self.job,
            session: Session {
                id: self.session,
                values: self.session_values,
                nodes: self.session_nodes.finish(),
            },
            apps: apps.collect(),
            nodes: self.nodes.finish(),
            procs: self.procs.finish(),
            strip_fqdn: self.strip_fqdn,
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the infos of a registration to a job.
//!
//! The arrays may stand in each other in any order and depth, so the infos are walked twice: for
//! the maps, which say what the nodes are, then for everything else.

mod entry;
mod maps;

use std::collections::BTreeMap;

use pmix_types::{Info, IntoOwned, Nspace, QualifiedValue, Rank, Value, keys};
use preg_core::{NodeList, Preg, ProcMap};

use self::entry::{Target, array, entry, is_container, number, target, text, within};
use self::maps::{MapFinder, paired};

use crate::columns::ColumnsBuilder;
use crate::job::{App, Session};
use crate::nodes::{Maps, NodesBuilder};
use crate::table::Table;
use crate::{Error, Host, Job, Realm};

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
        Self::build(preg, host, &nspace, None, infos)
    }

    /// The job after another registration of it: what is stated now outranks what was stated
    /// before, and the rest stays.
    ///
    /// # Errors
    ///
    /// As [`Self::register`].
    pub fn updated(&self, preg: &Preg, infos: &[Info<'_>]) -> Result<Self, Error> {
        Self::build(preg, &self.host, &self.nspace, Some(self), infos)
    }

    /// A job of which only the maps are known.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` if one map has more nodes than the other.
    pub fn of_maps(
        host: &Host,
        nspace: impl Into<Nspace<'static>>,
        nodes: NodeList,
        procs: ProcMap,
    ) -> Result<Self, Error> {
        let nspace = nspace.into();
        let maps = BTreeMap::from([(Target::Job, paired(nodes, procs)?)]);
        Ok(Builder::new(&nspace, host, maps).finish(nspace.clone(), host.clone()))
    }

    fn build(
        preg: &Preg,
        host: &Host,
        nspace: &Nspace<'static>,
        known: Option<&Self>,
        infos: &[Info<'_>],
    ) -> Result<Self, Error> {
        let mut maps = MapFinder::new(preg);
        maps.walk(infos, Target::Job, 0)?;
        if let Some(known) = known {
            maps.keep(known);
        }
        let mut builder = Builder::new(nspace, host, maps.finish()?);
        if let Some(known) = known {
            builder.keep(known);
        }
        builder.walk(infos, Target::Job, 0)?;
        Ok(builder.finish(nspace.clone(), host.clone()))
    }
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
    fn new(nspace: &'b Nspace<'static>, host: &'b Host, mut maps: BTreeMap<Target, Maps>) -> Self {
        let job = maps.remove(&Target::Job);
        let session = maps.remove(&Target::Session);
        let apps = maps.into_iter().filter_map(|(about, maps)| match about {
            Target::App(number) => {
                Some((number, (Table::default(), NodesBuilder::new(Some(maps)))))
            }
            _ => None,
        });
        Self {
            nspace,
            host,
            job: Table::default(),
            session: None,
            session_values: Table::default(),
            session_nodes: NodesBuilder::new(session),
            apps: apps.collect(),
            nodes: NodesBuilder::new(job),
            procs: ColumnsBuilder::default(),
            strip_fqdn: false,
        }
    }

    /// Takes over what was stated before.
    fn keep(&mut self, known: &Job) {
        self.job.merge(&known.job);
        self.session = known.session.id;
        self.session_values.merge(&known.session.values);
        self.session_nodes.keep(&known.session.nodes);
        for (number, app) in &known.apps {
            let (values, nodes) = self.apps.entry(*number).or_default();
            values.merge(&app.values);
            nodes.keep(&app.nodes);
        }
        self.nodes.keep(&known.nodes);
        known
            .procs
            .for_each(|key, rank, value| self.procs.set(key, rank, value));
        self.strip_fqdn = known.strip_fqdn;
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registration of a job from the infos of the host.
//!
//! Arrays may be nested in any order and depth, so the infos are visited twice. The first visit
//! reads the maps, which define the nodes. The second visit reads all other values.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_server_register_nspace`.

mod duplicates;
mod entry;
mod maps;

use std::collections::BTreeMap;

use pmix_map::{MapParser, NodeList, ProcMap};
use pmix_types::{Info, IntoOwned, Measure, Nspace, Rank, Text, Value, keys, memory};

use self::duplicates::RankSet;
use self::entry::{
    Target, array, entry, is_container, no_unknown_container, number, of_other_job, target, text,
    within,
};
use self::maps::{Found, MapFinder, paired};
use super::columns::ColumnsBuilder;
use super::nodes::{NodesBuilder, short};
use super::qualified::{Table, qualified};
use crate::job::{App, Session};
use crate::{Error, Job, LocalNode, Realm, Registration};

pub(crate) use self::entry::other_jobs;

impl Job {
    /// Registers a job. `parser` parses its maps.
    ///
    /// # Errors
    ///
    /// An entry is invalid. Maps: they have different lengths, a map occurs twice or has the wrong
    /// type, or a rank occurs twice. Arrays: an array has the wrong type, does not name its
    /// application, node or process, describes a rank a second time, or is nested too deep, or an
    /// unknown array has a key that looks like a description. The error has the path of the entry.
    pub fn register<'i>(
        parser: &dyn MapParser,
        host: &LocalNode,
        nspace: impl Into<Nspace<'static>>,
        registration: impl Into<Registration<'i>>,
    ) -> Result<Self, Error> {
        let nspace = nspace.into();
        Self::build(parser, host, &nspace, None, registration.into(), None)
    }

    /// Returns the job with the values of another registration. New values replace previous ones.
    /// All other values are kept.
    ///
    /// # Errors
    ///
    /// As for [`Self::register`].
    pub fn updated<'i>(
        &self,
        parser: &dyn MapParser,
        registration: impl Into<Registration<'i>>,
    ) -> Result<Self, Error> {
        let registration = registration.into();
        Self::build(
            parser,
            &self.host,
            &self.nspace,
            Some(self),
            registration,
            None,
        )
    }

    /// Returns the job with the valid entries of a registration, and the errors of the other
    /// entries.
    ///
    /// An entry with an error is omitted as a whole. If entries or maps contradict each other, the
    /// first is used. The time is proportional to the infos, for any number of errors.
    pub(crate) fn understood(
        parser: &dyn MapParser,
        host: &LocalNode,
        nspace: &Nspace<'static>,
        known: Option<&Self>,
        infos: &[Info<'_>],
    ) -> (Self, Vec<Error>) {
        let mut refused = Vec::new();
        let mut good = Vec::with_capacity(infos.len());
        for info in infos {
            let alone = Registration::new(std::slice::from_ref(info));
            match Self::build(parser, host, nspace, None, alone, None) {
                Ok(_) => match info.try_clone() {
                    Ok(info) => good.push(info),
                    Err(error) => refused.push(error.into()),
                },
                Err(error) => refused.push(error),
            }
        }
        let registration = Registration::new(&good);
        match Self::build(
            parser,
            host,
            nspace,
            known,
            registration,
            Some(&mut refused),
        ) {
            Ok(job) => (job, refused),
            // All entries with errors have been omitted, so this error is about the registration as
            // a whole.
            Err(error) => {
                refused.push(error);
                let none = Builder::new(nspace, host, Found::default());
                let none = none.finish(nspace.clone(), host.clone());
                (known.cloned().unwrap_or(none), refused)
            }
        }
    }

    /// Creates a job with only its maps.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` if one map has more nodes than the other.
    pub fn of_maps(
        host: &LocalNode,
        nspace: impl Into<Nspace<'static>>,
        nodes: NodeList,
        procs: ProcMap,
    ) -> Result<Self, Error> {
        let nspace = nspace.into();
        let maps = Found {
            maps: BTreeMap::from([(Target::Job, paired(nodes, procs)?)]),
            strip_fqdn: false,
        };
        Ok(Builder::new(&nspace, host, maps).finish(nspace.clone(), host.clone()))
    }

    /// Builds a job. With `refused`, omits entries with errors and collects their errors there.
    fn build(
        parser: &dyn MapParser,
        host: &LocalNode,
        nspace: &Nspace<'static>,
        known: Option<&Self>,
        registration: Registration<'_>,
        mut refused: Option<&mut Vec<Error>>,
    ) -> Result<Self, Error> {
        let Registration {
            infos,
            maps: folded,
            ..
        } = match registration.has_no_data() {
            true => Registration::default(),
            false => registration,
        };
        let mut maps = MapFinder::new(parser, nspace);
        if let Some((nodes, procs)) = folded {
            maps.take(nodes, procs)?;
        }
        each(infos, refused.as_deref_mut(), |info| {
            maps.entry(info, Target::Job, 0)
        })?;
        if let Some(known) = known {
            maps.keep(known);
        }
        // Values are copied into the store, and lists of processes are copied again while they are
        // parsed. An update expands the columns of the known job again, one cell for each value.
        let bytes: usize = infos.iter().map(|info| info.measure(Measure::All)).sum();
        let num_kept = known.map_or(0, |known| known.procs.num_values());
        memory::check(
            num_kept
                .saturating_mul(KEPT_CELL)
                .saturating_add(bytes.saturating_mul(2)),
        )?;
        let found = maps.finish(infos, refused.as_deref_mut())?;
        let mut builder = Builder::new(nspace, host, found);
        if let Some(known) = known {
            builder.keep(known);
        }
        each(infos, refused, |info| builder.entry(info, Target::Job, 0))?;
        Ok(builder.finish(nspace.clone(), host.clone()))
    }
}

/// The memory that one kept value of a column takes while its job is updated: 16 bytes in the builder, and the same
/// again in the new column.
const KEPT_CELL: usize = 32;

/// Handles each entry of a registration. An error ends the registration or is collected.
fn each(
    infos: &[Info<'_>],
    mut refused: Option<&mut Vec<Error>>,
    mut read: impl FnMut(&Info<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    for (place, info) in infos.iter().enumerate() {
        match (within(0, place, info, || read(info)), &mut refused) {
            (Err(error), Some(refused)) => refused.push(error),
            (result, _) => result?,
        }
    }
    Ok(())
}

/// Checks a qualified value.
fn check_qualified(info: &Info<'_>) -> Result<(), Error> {
    match info.key.is(keys::QUALIFIED_VALUE) {
        true => qualified(info.clone().into_owned()).map(drop),
        false => Ok(()),
    }
}

/// The builder of a job from all entries except the maps.
struct Builder<'b> {
    nspace: &'b Nspace<'static>,
    host: &'b LocalNode,
    job: Table,
    session: Option<u32>,
    session_values: Table,
    session_nodes: NodesBuilder,
    apps: BTreeMap<u32, (Table, NodesBuilder)>,
    nodes: NodesBuilder,
    procs: ColumnsBuilder,
    strip_fqdn: bool,
    /// The ranks of the processes described so far.
    given: RankSet,
}

impl<'b> Builder<'b> {
    fn new(nspace: &'b Nspace<'static>, host: &'b LocalNode, found: Found) -> Self {
        let short = found.strip_fqdn;
        let mut maps = found.maps;
        let job = maps.remove(&Target::Job);
        let session = maps.remove(&Target::Session);
        let apps = maps.into_iter().filter_map(|(about, maps)| match about {
            Target::App(number) => Some((
                number,
                (Table::default(), NodesBuilder::new(Some(maps), short)),
            )),
            _ => None,
        });
        Self {
            nspace,
            host,
            job: Table::default(),
            session: None,
            session_values: Table::default(),
            session_nodes: NodesBuilder::new(session, short),
            apps: apps.collect(),
            nodes: NodesBuilder::new(job, short),
            procs: ColumnsBuilder::default(),
            strip_fqdn: short,
            given: RankSet::default(),
        }
    }

    /// Copies the values of an earlier registration.
    fn keep(&mut self, known: &Job) {
        self.job.merge(&known.job);
        self.session = known.session.id;
        self.session_values.merge(&known.session.values);
        self.session_nodes.keep(&known.session.nodes);
        for (number, app) in &known.apps {
            let (values, nodes) = self.app(*number);
            values.merge(&app.values);
            nodes.keep(&app.nodes);
        }
        self.nodes.keep(&known.nodes);
        known
            .procs
            .for_each(|key, rank, value| self.procs.set(key, rank, value));
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
            if of_other_job(self.nspace, about, inner, infos)? {
                return Ok(());
            }
            return match inner {
                Target::Node => self.node(infos, about, depth + 1),
                Target::Proc(rank) => self.proc(infos, rank, depth + 1),
                inner => self.walk(infos, inner, depth + 1),
            };
        }
        if info.key.is(keys::NODE_MAP) || info.key.is(keys::PROC_MAP) {
            return Ok(());
        }
        if info.key.is(keys::NSPACE) {
            let alone = std::slice::from_ref(info);
            return of_other_job(self.nspace, about, about, alone).map(drop);
        }
        no_unknown_container(info)?;
        if info.key.is(keys::QUALIFIED_VALUE) {
            let value = qualified(info.clone().into_owned())?;
            self.table(about).qualify(value);
            return Ok(());
        }
        self.plain(info, about)
    }

    fn table(&mut self, about: Target) -> &mut Table {
        match about {
            Target::Session => &mut self.session_values,
            Target::App(number) => &mut self.app(number).0,
            _ => &mut self.job,
        }
    }

    fn app(&mut self, number: u32) -> &mut (Table, NodesBuilder) {
        let short = self.strip_fqdn;
        (self.apps.entry(number))
            .or_insert_with(|| (Table::default(), NodesBuilder::new(None, short)))
    }

    /// Stores a value that is not in an array.
    fn plain(&mut self, info: &Info<'_>, about: Target) -> Result<(), Error> {
        let (key, value) = (&info.key, info.value.clone());
        if key.is(keys::SESSION_ID) && about != Target::Job {
            self.session = Some(number(&value)?);
        }
        if about != Target::Job {
            self.table(about).set(key, value);
            return Ok(());
        }
        // A value of another realm need not be in an array if its subject is unambiguous. This
        // applies to the node of this server, the only application and the session of the job.
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

    /// Returns the slot of the node of this server.
    fn own_slot(&mut self) -> u32 {
        let known = self.host.names().find_map(|name| self.nodes.find(name));
        known.unwrap_or_else(|| self.nodes.slot(Some(self.host.name()), None))
    }

    /// Handles the description of a node.
    fn node(&mut self, infos: &[Info<'_>], about: Target, depth: usize) -> Result<(), Error> {
        let name = entry(infos, keys::HOSTNAME).map(text).transpose()?;
        let id = entry(infos, keys::NODEID).map(number).transpose()?;
        if name.is_none() && id.is_none() {
            return Err(Error::bad("a node array without pmix.hname or pmix.nodeid"));
        }
        let full = name;
        let name = name.map(|name| if self.strip_fqdn { short(name) } else { name });
        let nodes = self.nodes_of(about);
        let slot = nodes.slot(name, id);
        if let Some(full) = full {
            nodes.alias(slot, full);
        }
        for (place, info) in infos.iter().enumerate() {
            if is_container(&info.key) {
                within(depth, place, info, || self.entry(info, about, depth))?;
                continue;
            }
            let set = self.node_value(about, slot, name, info);
            set.map_err(|error| error.inside(place, &info.key))?;
        }
        Ok(())
    }

    /// Stores a value of a node.
    fn node_value(
        &mut self,
        about: Target,
        slot: u32,
        name: Option<&[u8]>,
        info: &Info<'_>,
    ) -> Result<(), Error> {
        no_unknown_container(info)?;
        check_qualified(info)?;
        let nodes = self.nodes_of(about);
        if info.key.is(keys::HOSTNAME_ALIASES) {
            let aliases = text(&info.value)?;
            for alias in aliases.split(|b| *b == b',').filter(|a| !a.is_empty()) {
                nodes.alias(slot, alias);
            }
        }
        match (&info.value, name) {
            // A number of another integer type identifies the same node.
            _ if info.key.is(keys::NODEID) => {
                nodes.set(slot, &info.key, &Value::Uint32(number(&info.value)?));
            }
            (_, Some(name)) if info.key.is(keys::HOSTNAME) => {
                let name = Value::String(Some(Text::new(name)));
                nodes.set(slot, &info.key, &name);
            }
            (value, _) => nodes.set(slot, &info.key, value),
        }
        Ok(())
    }

    /// Returns the nodes of the session, of an application or of the job.
    fn nodes_of(&mut self, about: Target) -> &mut NodesBuilder {
        match about {
            Target::Session => &mut self.session_nodes,
            Target::App(number) => &mut self.app(number).1,
            _ => &mut self.nodes,
        }
    }

    /// Handles the description of a process.
    fn proc(&mut self, infos: &[Info<'_>], rank: u32, depth: usize) -> Result<(), Error> {
        if !Rank::new(rank).is_valid() {
            let message = format!("{} is not a valid rank", Rank::new(rank));
            return Err(Error::bad(message));
        }
        if !self.given.add(rank) {
            return Err(Error::bad(format!("rank {rank} is described twice")));
        }
        for (place, info) in infos.iter().enumerate() {
            if is_container(&info.key) {
                within(depth, place, info, || self.entry(info, Target::Job, depth))?;
            } else if self.strip_fqdn && info.key.is(keys::HOSTNAME) {
                let name = text(&info.value).map_err(|e| e.inside(place, &info.key))?;
                let name = Value::String(Some(Text::new(short(name))));
                self.procs.set(&info.key, rank, &name);
            } else if !info.key.is(keys::RANK) {
                check_qualified(info).map_err(|e| e.inside(place, &info.key))?;
                self.procs.set(&info.key, rank, &info.value);
            }
        }
        Ok(())
    }

    fn finish(self, nspace: Nspace<'static>, host: LocalNode) -> Job {
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
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The forms of jobs and sessions in messages to the agents of other nodes.

use std::ffi::OsString;
use std::sync::Arc;

use bfrops::{Decoder, Encoder, Layout as Bytes, Module, wire_type};
use pmix_map::{NodeList, ProcMap};
use pmix_topology::{Cpuset, Level};
use pmix_types::{Info, IntoOwned as _, Rank, Status};
use preg_core::{Preg, Regex2Ref};

use super::message::{
    AppForm, ErrorForm, JobForm, MapForm, PolicyForm, ProcName, SessionForm, SpawnedForm,
};
use crate::agent::JobSettings;
use crate::placement::{MapBy, Policy};
use crate::process::CommandForm;
use crate::{App, Error, Layout, Output, OutputForm, Plan, ProcessSet, PseudoTerminals};

impl From<&App> for AppForm {
    fn from(app: &App) -> Self {
        Self {
            program: app.program.clone(),
            args: app.args.clone(),
            num_procs: app.num_procs,
            wdir: app.wdir.clone(),
            exports: app.exports.clone(),
        }
    }
}

impl From<AppForm> for App {
    fn from(form: AppForm) -> Self {
        Self {
            program: form.program,
            args: form.args,
            num_procs: form.num_procs,
            wdir: form.wdir,
            exports: form.exports,
        }
    }
}

impl From<Policy> for PolicyForm {
    fn from(policy: Policy) -> Self {
        let name = |level: Level| level.name().to_owned();
        Self {
            map_by: match policy.map_by {
                MapBy::Slot => None,
                MapBy::Level(level) => Some(name(level)),
            },
            bind_to: policy.bind_to.map(name),
            parts_each: policy.parts_each,
            procs_each: policy.procs_each,
            strict: policy.strict,
        }
    }
}

impl TryFrom<PolicyForm> for Policy {
    type Error = Error;

    fn try_from(form: PolicyForm) -> Result<Self, Error> {
        let level = |name: String| {
            let mut levels = Level::ALL.into_iter();
            let unknown = || Error::request(format!("{name} is not a level of the hardware"));
            levels
                .find(|level| level.name() == name)
                .ok_or_else(unknown)
        };
        Ok(Self {
            map_by: form
                .map_by
                .map(level)
                .transpose()?
                .map_or(MapBy::Slot, MapBy::Level),
            bind_to: form.bind_to.map(level).transpose()?,
            parts_each: form.parts_each,
            procs_each: form.procs_each,
            strict: form.strict,
        })
    }
}

/// Encodes a list by the schemes of the launcher.
fn map(preg: &Preg, text: &[u8]) -> Result<MapForm, Error> {
    let cannot = |error: preg_core::Error| Error::request(format!("cannot encode a map: {error}"));
    let regex = preg.generate_regex(text).map_err(cannot)?;
    Ok(MapForm {
        scheme: regex.kind,
        bytes: regex.bytes,
    })
}

/// Packs infos.
pub(crate) fn pack_infos(infos: &[Info<'_>]) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(Bytes::new(Module::V61), &mut bytes).with_all_types();
    let packed = encoder.call::<wire_type::Info>(infos);
    packed.map_err(|error| Error::request(format!("cannot pack infos: {error}")))?;
    Ok(bytes)
}

/// Unpacks infos that [`pack_infos`] packed.
pub(crate) fn unpack_infos(bytes: &[u8]) -> Result<Vec<Info<'static>>, Error> {
    let mut decoder = Decoder::new(Bytes::new(Module::V61), bytes).with_all_types();
    let infos = decoder.all::<wire_type::Info>();
    let infos = infos.map_err(|error| Error::request(format!("damaged infos: {error}")))?;
    Ok(infos.into_iter().map(Info::into_owned).collect())
}

/// Packs lines for the user.
pub(crate) fn pack_lines(lines: &[String]) -> Result<Vec<u8>, Error> {
    let cannot = |error: postcard::Error| Error::request(format!("cannot pack lines: {error}"));
    postcard::to_allocvec(lines).map_err(cannot)
}

/// Unpacks lines that [`pack_lines`] packed.
pub(crate) fn unpack_lines(bytes: &[u8]) -> Result<Vec<String>, Error> {
    let damaged = |error: postcard::Error| Error::request(format!("damaged lines: {error}"));
    postcard::from_bytes(bytes).map_err(damaged)
}

impl JobForm {
    /// Returns the form of a job.
    ///
    /// # Errors
    /// Returns [`Error`] if its maps or infos cannot be encoded.
    pub(crate) fn of(
        plan: &Plan,
        settings: &JobSettings,
        has_terminals: bool,
    ) -> Result<Self, Error> {
        let (mut nodes, mut procs) = (Vec::new(), Vec::new());
        plan.layout.nodes().write_text(b',', &mut nodes);
        plan.layout.procs().write_text(&mut procs);
        let sets = plan.process_sets.iter();
        Ok(Self {
            nspace: plan.nspace.clone(),
            apps: plan.apps.iter().map(AppForm::from).collect(),
            nodes: map(&plan.preg, &nodes)?,
            procs: map(&plan.preg, &procs)?,
            policy: plan.policy.into(),
            cpus: plan.cpus.as_ref().map(Cpuset::to_string),
            process_sets: sets
                .map(|set| (set.name.clone(), set.ranks.clone()))
                .collect(),
            stdin_rank: plan.stdin_rank.map(Rank::as_raw),
            is_merged: plan.output.is_merged,
            files: plan.output.files.clone(),
            has_terminals,
            spawned: SpawnedForm::of(settings)?,
        })
    }

    /// Returns the plan of the job on this node. Parts that are the same for the whole session are those of `session`.
    ///
    /// # Errors
    /// Returns [`Error`] if the form is damaged.
    pub(crate) fn into_plan(self, session: &Plan) -> Result<Plan, Error> {
        let damaged = |error: preg_core::Error| Error::request(format!("a damaged map: {error}"));
        let preg = &session.preg;
        let nodes: NodeList = preg.resolve_nodes(self.nodes.as_regex()).map_err(damaged)?;
        let procs: ProcMap = preg.resolve_procs(self.procs.as_regex()).map_err(damaged)?;
        let layout = Layout::of_nodes(session.layout.host(), nodes, procs)?;
        let sets = self.process_sets.into_iter();
        let cpus = self.cpus.as_deref().map(Cpuset::parse).transpose();
        let cpus = cpus.map_err(|error| Error::request(error.to_string()))?;
        Ok(Plan {
            nspace: self.nspace,
            apps: self.apps.into_iter().map(App::from).collect(),
            layout,
            policy: self.policy.try_into()?,
            cpus,
            process_sets: sets
                .map(|(name, ranks)| ProcessSet { name, ranks })
                .collect(),
            stdin_rank: self.stdin_rank.map(Rank::new),
            output: Output {
                form: OutputForm::Plain,
                is_merged: self.is_merged,
                // The controller shows the output.
                files: self.files,
                pseudo_terminals: match self.has_terminals {
                    true => PseudoTerminals::All,
                    false => PseudoTerminals::None,
                },
            },
            ..session.clone()
        })
    }
}

impl SpawnedForm {
    /// Returns the form of the settings of a job; `None` for the first job.
    fn of(settings: &JobSettings) -> Result<Option<Self>, Error> {
        let Some(number) = settings.number else {
            return Ok(None);
        };
        Ok(Some(Self {
            number,
            parent: settings.parent.as_ref().map(ProcName::of),
            offset: settings.offset,
            preput: pack_infos(&settings.preput)?,
            agent: settings.form.agent.clone(),
            has_rank: settings.form.has_rank,
            shows_progress: settings.shows_progress,
        }))
    }

    /// Returns the settings of the job on its node.
    pub(crate) fn into_settings(self) -> Result<JobSettings, Error> {
        Ok(JobSettings {
            number: Some(self.number),
            parent: self.parent.map(ProcName::into_proc),
            offset: self.offset,
            preput: unpack_infos(&self.preput)?,
            form: CommandForm {
                agent: self.agent,
                has_rank: self.has_rank,
            },
            shows_progress: self.shows_progress,
            ..JobSettings::default()
        })
    }
}

impl MapForm {
    fn as_regex(&self) -> Regex2Ref<'_> {
        Regex2Ref {
            kind: &self.scheme,
            bytes: &self.bytes,
        }
    }
}

impl SessionForm {
    /// Returns the form of the settings of a session for one of its nodes, which are numbered from 1.
    pub(crate) fn of(plan: &Plan, host: &[u8], node: u32) -> Self {
        let params = plan.params.names().filter_map(|name| {
            let setting = plan.params.get(name)?;
            Some((name.to_owned(), setting.value.clone()))
        });
        Self {
            host: host.to_vec(),
            nspace: plan.nspace.clone(),
            params: params.collect(),
            environment: plan.environment.to_vec(),
            compat_env: plan.compat_env,
            client_library: plan.client_library.clone(),
            interfaces: plan.interfaces,
            session: std::process::id(),
            node,
            grace: plan.grace,
            measures: plan.diagnosis.measures,
            wdir: std::env::current_dir().ok(),
        }
    }
}

impl ErrorForm {
    /// Returns the form of an error.
    pub(crate) fn of(error: &Error) -> Self {
        Self {
            exit_code: error.exit_code(),
            status: error.status().as_raw(),
            message: error.to_string(),
        }
    }

    /// Returns the error, with the name of its node in the message.
    pub(crate) fn into_error(self, node: &str) -> Error {
        let message = format!("node {node}: {}", self.message);
        Error::of_node(Status::from_raw(self.status), self.exit_code, message)
    }
}

/// The environment of processes in the form of a plan.
pub(crate) fn environment(form: Vec<(OsString, OsString)>) -> Arc<[(OsString, OsString)]> {
    form.into()
}

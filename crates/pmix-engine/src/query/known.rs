// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the server itself can say to the keys of a query.

use gds_hash::Request;
use pmix_types::{Info, Nspace, Proc, Rank, Status, Text, Value, keys};

use super::results::LocalAnswer;
use super::target::QueryTarget;
use crate::Engine;
use crate::peers::Member;
use crate::registry::ClientState;

/// The keys that are answered here, whatever is registered.
const OWN: &[&str] = &[
    keys::QUERY_ATTRIBUTE_SUPPORT,
    keys::QUERY_JOB_STATUS,
    keys::QUERY_LOCAL_PROC_TABLE,
    keys::QUERY_NAMESPACES,
    keys::QUERY_NAMESPACE_INFO,
    keys::QUERY_NUM_PSETS,
    keys::QUERY_PROC_TABLE,
    keys::QUERY_PSET_MEMBERSHIP,
    keys::QUERY_PSET_NAMES,
    keys::QUERY_RESOLVE_NODE,
    keys::QUERY_RESOLVE_PEERS,
    keys::QUERY_SUPPORTED_KEYS,
];

impl Engine {
    /// What the server itself can say to a key of a query of a member.
    pub(super) fn known(
        &self,
        member: &Member,
        key: &str,
        target: &QueryTarget,
        qualifiers: &[Info<'_>],
    ) -> LocalAnswer {
        let own = || {
            target
                .nspace
                .clone()
                .unwrap_or_else(|| member.proc.nspace.clone())
        };
        let found = match key {
            keys::QUERY_SUPPORTED_KEYS => Some(Value::from(OWN.join(","))),
            keys::QUERY_NAMESPACES => Some(self.nspace_names(member)),
            keys::QUERY_NAMESPACE_INFO => self.nspace_infos(member, target.nspace.as_ref()),
            keys::QUERY_NUM_PSETS => Some(Value::from(self.cx.process_sets.iter().count())),
            keys::QUERY_PSET_NAMES => Some(self.pset_names()),
            keys::QUERY_PSET_MEMBERSHIP => self.pset_members(qualifiers),
            keys::QUERY_RESOLVE_NODE => {
                let nodes = self.nodes_of(member, target.nspace.as_ref()).ok();
                nodes.map(|nodes| Value::String(Some(nodes)))
            }
            keys::QUERY_RESOLVE_PEERS => {
                let node = named_node(qualifiers);
                let peers = self.peers_on(member, node, target.nspace.as_ref());
                peers.ok().map(Value::from)
            }
            keys::QUERY_JOB_STATUS => return tentative(self.job_status(member, &own())),
            keys::QUERY_PROC_TABLE => return tentative(self.proc_table(member, &own(), false)),
            keys::QUERY_LOCAL_PROC_TABLE => {
                return tentative(self.proc_table(member, &own(), true));
            }
            keys::PROC_STATE_STATUS => {
                return tentative(self.proc_state(member, &own(), target.rank));
            }
            _ => self.stored(member, &own(), target.rank, key, qualifiers),
        };
        found.map_or(LocalAnswer::Unknown, LocalAnswer::Found)
    }

    /// Whether a member may be told of a job.
    pub(super) fn may_see(&self, member: &Member, nspace: &Nspace<'_>) -> bool {
        self.cx.store.job(nspace).is_some() && self.cx.check_reads(member, nspace).is_ok()
    }

    /// The jobs that a member may be told of, in the order of their names.
    pub(super) fn visible(&self, member: &Member) -> Vec<Nspace<'static>> {
        let mut nspaces = self.cx.store.nspaces();
        nspaces.retain(|nspace| self.may_see(member, nspace));
        nspaces.sort_unstable();
        nspaces
    }

    fn nspace_names(&self, member: &Member) -> Value<'static> {
        let names = self.visible(member);
        let names: Vec<_> = names.iter().map(Nspace::as_bytes).collect();
        Value::String(Some(Text::new(names.join(&b','))))
    }

    /// For each job its name, its command line and its size.
    fn nspace_infos(
        &self,
        member: &Member,
        nspace: Option<&Nspace<'static>>,
    ) -> Option<Value<'static>> {
        let mut nspaces = self.visible(member);
        if let Some(only) = nspace {
            nspaces.retain(|nspace| nspace == only);
            if nspaces.is_empty() {
                return None;
            }
        }
        let about = |nspace: &Nspace<'static>| {
            let name = Value::String(Some(nspace.as_text().clone()));
            let mut infos = vec![Info::new(keys::NSPACE, name)];
            if let Some(command) = self.command_line(nspace) {
                infos.push(Info::new(keys::CMD_LINE, command));
            }
            if let Some(size) = self.of_job(nspace, keys::JOB_SIZE) {
                infos.push(Info::new(keys::JOB_SIZE, size));
            }
            Info::new(keys::JOB_INFO_ARRAY, infos)
        };
        let infos: Vec<_> = nspaces.iter().map(about).collect();
        Some(Value::from(infos))
    }

    /// The command line of a job, or that of its first application.
    fn command_line(&self, nspace: &Nspace<'_>) -> Option<Value<'static>> {
        let stated = self.of_job(nspace, keys::CMD_LINE);
        stated.or_else(|| self.of_job(nspace, keys::APP_ARGV))
    }

    pub(super) fn of_job(&self, nspace: &Nspace<'_>, key: &str) -> Option<Value<'static>> {
        let request = Request::new(Rank::WILDCARD, key);
        self.cx.store.get(nspace, &request).ok()
    }

    fn pset_names(&self) -> Value<'static> {
        let names: Vec<_> = (self.cx.process_sets.iter())
            .map(|(name, _)| name.as_bytes())
            .collect();
        Value::String(Some(Text::new(names.join(&b','))))
    }

    fn pset_members(&self, qualifiers: &[Info<'_>]) -> Option<Value<'static>> {
        let name = qualifiers
            .iter()
            .find(|info| info.key.is(keys::PSET_NAME))?;
        let Value::String(Some(name)) = &name.value else {
            return None;
        };
        let mut sets = self.cx.process_sets.iter();
        let (_, members) = sets.find(|(known, _)| *known == name)?;
        Some(Value::from(members.to_vec()))
    }

    /// How a job is as far as its connections tell: success, or that a process left without notice.
    fn job_status(&self, member: &Member, nspace: &Nspace<'static>) -> Option<Value<'static>> {
        if !self.may_see(member, nspace) {
            return None;
        }
        let job = self.cx.registry.job(nspace)?;
        let clients = job
            .clients
            .values()
            .filter_map(|id| self.cx.registry.client(*id));
        let is_lost = { clients }.any(|client| client.state == ClientState::Lost);
        Some(Value::Status(match is_lost {
            true => Status::ERR_PROC_TERM_WO_SYNC,
            false => Status::SUCCESS,
        }))
    }

    /// A value of the datastore.
    fn stored(
        &self,
        member: &Member,
        nspace: &Nspace<'static>,
        rank: Rank,
        key: &str,
        qualifiers: &[Info<'_>],
    ) -> Option<Value<'static>> {
        if !self.may_see(member, nspace) {
            return None;
        }
        let request = Request::new(rank, key).with(qualifiers);
        self.cx.store.get(nspace, &request).ok()
    }
}

fn tentative(value: Option<Value<'static>>) -> LocalAnswer {
    value.map_or(LocalAnswer::Unknown, LocalAnswer::Tentative)
}

/// The node that the qualifiers name.
fn named_node<'q>(qualifiers: &'q [Info<'_>]) -> Option<&'q Text<'q>> {
    let info = qualifiers.iter().find(|info| info.key.is(keys::HOSTNAME))?;
    match &info.value {
        Value::String(Some(name)) => Some(name),
        _ => None,
    }
}

/// The processes of a job that a list of ranks names, such as `0,1,2`.
pub(super) fn procs_of(nspace: &Nspace<'static>, ranks: &Text<'_>) -> Vec<Proc<'static>> {
    let ranks = ranks.as_str().unwrap_or_default().split(',');
    let ranks = ranks.filter_map(|rank| rank.parse().ok());
    ranks
        .map(|rank| Proc::new(nspace.as_text().clone(), Rank::new(rank)))
        .collect()
}

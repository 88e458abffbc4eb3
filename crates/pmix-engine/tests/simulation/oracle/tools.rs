// SPDX-License-Identifier: MIT OR Apache-2.0
//! Admission and names of tools, their data, and the results of spawns.

use pmix_engine::host::{Spawn, ToolConnected};
use pmix_proto::{Command, Welcome, reply};
use pmix_types::{Info, Nspace, Proc, Rank, Status, Value, keys};

use crate::agenda::Call;
use crate::client::Who;
use crate::fault::Fault;
use crate::node::UID;
use crate::process::ProcId;
use crate::tool::{STRANGER, TOOL, ToolId};
use crate::world::World;

/// The end of an admitted tool's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolEnd {
    /// The tool has sent a finalize, which may be the last message of its connection.
    Leaves,
    /// The server reported its loss.
    Lost,
}

impl World {
    /// Returns the user at the end of a connection.
    pub(crate) fn user_of(&self, who: Who) -> u32 {
        let tool = self.clients[who].tool;
        tool.map_or(UID, |tool| self.tools[tool].user)
    }

    /// Returns the name of the process at the end of a connection, if it has one.
    pub(crate) fn name_of(&self, who: Who) -> Option<Proc<'static>> {
        let proc = self.clients[who].proc;
        let name = proc.map(|proc| self.procs[proc].name());
        name.or_else(|| self.oracle.tool_names.get(&who).cloned())
    }

    /// Checks the welcome of a tool.
    pub(crate) fn tool_welcomed(&mut self, who: Who, tool: ToolId, bytes: &[u8]) {
        let form = self.clients[who].welcome.expect("a tool");
        let (welcome, _) = Welcome::decode(form, bytes).expect("a complete welcome");
        let node = self.clients[who].node;
        let about = &self.tools[tool];
        let is_foreign = about.user == STRANGER && !self.config.foreign_tools;
        let name = match welcome {
            Welcome::Refused(status) => {
                self.say(|| format!("connection {who}, tool {tool}, is refused: {status}"));
                if is_foreign {
                    assert_eq!(status, Status::ERR_NO_PERMISSIONS, "tool {tool}");
                }
                return;
            }
            Welcome::Assigned { proc, .. } => Proc::new(proc.nspace.to_string(), proc.rank),
            Welcome::Server { .. } => about.name.clone().expect("a tool that brought its name"),
            Welcome::Index { .. } => panic!("tool {tool} is welcomed as a client"),
        };
        assert!(!is_foreign, "tool {tool} of another user is accepted");
        // A job without processes here may have been deregistered.
        let is_unclear = self.plan.has(Fault::Dismiss) || self.jobs.iter().any(|job| job.is_gone);
        assert!(
            !about.is_imposter || is_unclear,
            "tool {tool} is accepted as {name:?}, which is not its name"
        );
        let server = format!("server{node}");
        let is_proc = self.procs.iter().any(|proc| proc.name() == name);
        assert!(!is_proc && name.nspace != server.as_str(), "{name:?}");
        for (other, client) in self.clients.iter().enumerate() {
            let has_same = self.oracle.tool_names.get(&other) == Some(&name);
            let is_there = client.is_known && client.is_in && client.node == node;
            assert!(
                !has_same || !is_there || other == who || client.leaves(),
                "connections {other} and {who} are both tool {name:?}"
            );
        }
        self.say(|| format!("connection {who}, tool {tool}, is accepted as {name:?}"));
        self.clients[who].is_in = true;
        self.tools[tool].has = Some(name.clone());
        self.oracle.tool_names.insert(who, name);
    }

    /// Checks the host's call for a tool: the server may admit it, and states its true user.
    pub(crate) fn check_tool_call(&self, call: &ToolConnected) -> ToolId {
        let find = |key| call.infos.iter().find(|info: &&Info<'_>| info.key.is(key));
        let number = find(TOOL).and_then(|info| info.value.to_number::<u64>().ok());
        let tool = usize::try_from(number.expect("the number of a tool")).unwrap();
        let about = &self.tools[tool];
        let uid = find(keys::USERID).and_then(|info| info.value.to_number::<u32>().ok());
        assert_eq!(uid, Some(about.user), "the user of tool {tool}");
        let is_foreign = about.user == STRANGER && !self.config.foreign_tools;
        assert!(!is_foreign, "the host is asked about tool {tool}");
        tool
    }

    /// Checks a server's report of a lost tool: it was connected, has not finalized, and was not lost before.
    pub(crate) fn tool_lost(&mut self, node: usize, name: &Proc<'_>) {
        let is_it = |who: &Who| {
            let client = &self.clients[*who];
            let is_named = self.oracle.tool_names.get(who) == Some(name);
            is_named && client.is_in && client.node == node
        };
        // Earlier tools of its name were disconnected with their server.
        let mut found = (0..self.clients.len()).rev().filter(is_it);
        let open = found.find(|who| !self.oracle.tool_ends.contains_key(who));
        let who = open
            .unwrap_or_else(|| panic!("node {node} lost tool {name:?}, which is not connected"));
        let client = &self.clients[who];
        assert!(
            !client.may_leave(),
            "tool {name:?} is lost after its finalize was acknowledged"
        );
        self.say(|| format!("node {node} lost tool {name:?}, connection {who}"));
        self.oracle.tool_ends.insert(who, ToolEnd::Lost);
    }

    /// Checks that a closed tool was reported as lost, unless it has sent a finalize.
    pub(crate) fn check_tool_closed(&mut self, who: Who) {
        let client = &self.clients[who];
        if client.tool.is_none() || !client.is_in || client.is_spoiled {
            return;
        }
        let end = self.oracle.tool_ends.get(&who);
        assert!(
            end.is_some() || client.leaves(),
            "connection {who} of a tool ends, but the loss is not reported"
        );
        self.oracle.tool_ends.entry(who).or_insert(ToolEnd::Leaves);
    }

    /// Checks that output is sent to a peer that requested it and may read it.
    pub(super) fn check_output_sent(&mut self, who: Who, source: &Proc<'_>, data: &[u8]) {
        let client = &self.clients[who];
        if client.is_spoiled {
            return;
        }
        let nspace = source.nspace.as_text().as_str().unwrap_or_default();
        let Some(tool) = client.tool else {
            let own = client
                .proc
                .or(client.claims)
                .map(|own| self.procs[own].nspace);
            return assert_eq!(
                own,
                Some(nspace),
                "output of another job for connection {who}"
            );
        };
        let is_foreign = self.tools[tool].user == STRANGER;
        assert!(!is_foreign, "a tool of another user got {nspace}");
        let mut spawns = self.oracle.spawns.iter();
        let is_own = spawns.any(|spawn| {
            let job = spawn.job.map(|job| self.jobs[job].nspace);
            spawn.by == who && spawn.forwards && job == Some(nspace)
        });
        assert!(
            is_own
                || self
                    .oracle
                    .wanted
                    .iter()
                    .any(|(by, of)| *by == who && *of == nspace),
            "tool {tool} has not asked for the output of {nspace}"
        );
        if self.tools[tool].client == Some(who) {
            self.tools[tool].last_output = data.to_vec();
        }
    }

    /// Checks that output delivered to a node was sent to each tool there that pulls it.
    pub(crate) fn check_output_heard(&self, node: usize, of: ProcId, data: &[u8]) {
        let nspace = self.procs[of].nspace;
        for (place, tool) in self.tools.iter().enumerate() {
            let hears = tool.hears.contains_key(nspace) && tool.user != STRANGER;
            let Some(who) = tool.client.filter(|_| hears) else {
                continue;
            };
            let client = &self.clients[who];
            if client.is_live() && client.node == node && !client.is_spoiled && !client.leaves() {
                assert_eq!(
                    tool.last_output, data,
                    "tool {place} gets output of {nspace}"
                );
            }
        }
    }

    /// Records the reply to a pull.
    pub(super) fn check_pull(&mut self, who: Who, nspace: &'static str, status: Status) {
        let tool = self.clients[who].tool.expect("a tool");
        if status.is_success() && self.tools[tool].client == Some(who) {
            self.tools[tool].last_output.clear();
            *self.tools[tool].hears.entry(nspace).or_default() += 1;
        }
    }

    /// Records the end of a pull.
    pub(super) fn check_pull_ended(
        &mut self,
        who: Who,
        nspace: &'static str,
        number: u64,
        status: Status,
    ) {
        let tool = self.clients[who].tool.expect("a tool");
        if status.is_success()
            && self.tools[tool].client == Some(who)
            && let Some(count) = self.tools[tool].hears.get_mut(nspace)
        {
            *count -= 1;
            if *count == 0 {
                self.tools[tool].hears.remove(nspace);
            }
        }
        self.oracle
            .pulls
            .retain(|(of, pull, _)| (*of, *pull) != (who, number));
    }

    /// Checks that a tool receives the namespaces that it may read.
    pub(super) fn check_query(&self, who: Who, status: Status, payload: &[u8]) {
        let client = &self.clients[who];
        if !status.is_success() {
            return;
        }
        let form = client.form.as_ref().unwrap();
        let reply = reply::Infos::decode(form, None, payload).expect("infos");
        for info in reply.infos.iter().flatten() {
            let is_names = info.key.is(keys::QUERY_NAMESPACES);
            if let (true, Value::String(Some(names))) = (is_names, &info.value) {
                let names = names.as_str().unwrap_or_default();
                let mut told: Vec<_> = names.split(',').filter(|name| !name.is_empty()).collect();
                told.sort_unstable();
                assert_eq!(
                    told,
                    self.seen_by(who),
                    "the jobs that connection {who} may see"
                );
            }
            let is_table = info.key.is(keys::QUERY_PROC_TABLE);
            assert!(
                !is_table || self.user_of(who) != STRANGER,
                "a tool of another user got the process table"
            );
        }
    }

    /// Returns the jobs that a tool may query.
    fn seen_by(&self, who: Who) -> Vec<&'static str> {
        let (node, user) = (self.clients[who].node, self.user_of(who));
        let jobs = self.jobs.iter();
        let jobs = jobs.filter(|job| {
            let nspace: Nspace<'_> = job.nspace.into();
            user != STRANGER && self.nodes[node].store.job(&nspace).is_some()
        });
        let mut names: Vec<_> = jobs.map(|job| job.nspace).collect();
        names.sort_unstable();
        names
    }

    /// Checks that a server calls its host once for a spawn, with the requestor.
    pub(crate) fn check_spawn_call(&mut self, call: Call, number: usize, spawn: &Spawn) {
        let by = self.oracle.spawns[number].by;
        let uid = spawn.infos.iter().find(|info| info.key.is(keys::USERID));
        let uid = uid.and_then(|info| info.value.to_number::<u32>().ok());
        assert_eq!(uid, Some(self.user_of(by)), "the user of spawn {number}");
        if let Some(name) = self.name_of(by) {
            assert_eq!(spawn.proc, name, "who asks for spawn {number}");
        }
        let before = self.oracle.spawns[number].call.replace(call);
        assert_eq!(before, None, "the host is asked for spawn {number} twice");
    }

    /// Records the host's first reply to a spawn, which applies.
    pub(crate) fn spawn_told(&mut self, call: Call, answer: &pmix_engine::HostReply) {
        let mut spawns = self.oracle.spawns.iter_mut();
        if let Some(spawn) = spawns.find(|spawn| spawn.call == Some(call))
            && spawn.told.is_none()
        {
            let nspace = match answer {
                pmix_engine::HostReply::Spawned(_, nspace) => Some(nspace.clone()),
                _ => None,
            };
            spawn.told = Some((answer.status(), nspace));
        }
    }

    /// Checks that the reply to a spawn follows the host's, with the same result.
    pub(super) fn check_spawned(
        &mut self,
        who: Who,
        number: usize,
        status: Status,
        payload: &[u8],
    ) {
        let spawn = &self.oracle.spawns[number];
        assert_eq!(
            spawn.by, who,
            "the reply to spawn {number} went to another peer"
        );
        let Some((told, nspace)) = &spawn.told else {
            let is_own = status == Status::ERR_OUT_OF_RESOURCE && spawn.call.is_none();
            return assert!(
                is_own,
                "spawn {number} completed with {status} without a reply of the host"
            );
        };
        assert_eq!(status, *told, "spawn {number}");
        if !status.is_success() {
            return;
        }
        let form = self.clients[who].form.as_ref().unwrap();
        let reply = reply::Reply::decode(Command::SPAWN, form, None, payload);
        let Ok(reply::Reply::Spawned(spawned)) = reply else {
            panic!("spawn {number} is answered {reply:?}");
        };
        assert_eq!(spawned.nspace, *nspace, "spawn {number}");
        let tool = self.clients[who].tool;
        let tool = tool.filter(|tool| self.tools[*tool].client == Some(who));
        if let (Some(tool), Some(job), true) = (tool, spawn.job, spawn.forwards) {
            let nspace = self.jobs[job].nspace;
            *self.tools[tool].hears.entry(nspace).or_default() += 1;
        }
    }

    /// Checks that the requestor receives the started job.
    pub(super) fn check_job(&self, number: usize, nspace: &Nspace<'_>) {
        let job = self.oracle.spawns[number].job.expect("a job");
        assert_eq!(*nspace, self.jobs[job].nspace, "spawn {number}");
    }
}

/// Returns an unused name for a tool.
pub(crate) fn name_of(number: usize) -> Proc<'static> {
    Proc::new(format!("host.tool.{number}"), Rank::new(0))
}

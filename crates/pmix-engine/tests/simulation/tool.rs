// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tools: they connect with or without a name, send requests, and finalize or crash.

use std::collections::BTreeMap;
use std::time::Duration;

use pmix_client::driver::OperationId;
use pmix_proto::{Hello, Request, Role, Tag, request};
use pmix_types::{DataRange, Info, IofChannel, Proc, Query, Rank, Status, keys};

use crate::agenda::Event;
use crate::client::{What, Who, hello};
use crate::node::UID;
use crate::oracle::events::NUMBER;
use crate::own::EVENT;
use crate::random::Random;
use crate::world::World;

/// The index of a tool.
pub(crate) type ToolId = usize;

/// A user without a job here.
pub(crate) const STRANGER: u32 = 2000;

/// The greatest number of connections of a tool.
const MAX_LIVES: u16 = 3;

/// The key of a tool's number in its hello.
pub(crate) const TOOL: &str = "tool";

/// A tool with all of its connections.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The node of its server.
    pub(crate) node: usize,
    /// The user: that of the jobs and servers, root, or another one.
    pub(crate) user: u32,
    /// The name that it claims.
    pub(crate) name: Option<Proc<'static>>,
    /// `true` if no server may admit it under that name.
    pub(crate) is_imposter: bool,
    /// The name that it has while connected.
    pub(crate) has: Option<Proc<'static>>,
    pub(crate) client: Option<Who>,
    lives: u16,
    /// The number of remaining steps.
    steps: usize,
    /// The jobs whose output it pulls, with the number of pulls.
    pub(crate) hears: BTreeMap<&'static str, usize>,
    /// The last output from its server.
    pub(crate) last_output: Vec<u8>,
}

impl Tool {
    fn new(node: usize, user: u32, name: Option<Proc<'static>>) -> Self {
        Self {
            node,
            user,
            name,
            is_imposter: false,
            has: None,
            client: None,
            lives: 0,
            steps: 0,
            hears: BTreeMap::new(),
            last_output: Vec::new(),
        }
    }
}

/// Returns the tools of a run.
pub(crate) fn tools(random: &mut Random, num_nodes: usize) -> Vec<Tool> {
    let num_tools = 1 + random.below(3);
    let tool = |place: usize| {
        let user = match random.below(8) {
            0 | 1 => STRANGER,
            2 => 0,
            _ => UID,
        };
        let node = random.below(num_nodes);
        let name = match random.below(6) {
            // The name that a server would assign to its first tool, as kept from an earlier server.
            0 => Some(Proc::new(format!("server{node}.tool.1"), Rank::new(0))),
            1 | 2 => Some(Proc::new(
                format!("tool{}", random.below(2).min(place)),
                Rank::new(0),
            )),
            _ => None,
        };
        Tool::new(node, user, name)
    };
    (0..num_tools).map(tool).collect()
}

impl World {
    /// Connects a tool to its server.
    pub(crate) fn attach(&mut self, place: ToolId) {
        let tool = &mut self.tools[place];
        if self.is_over || tool.client.is_some() {
            return;
        }
        tool.lives += 1;
        tool.steps = 1 + self.random.below(8);
        let (node, user, name) = (tool.node, tool.user, tool.name.clone());
        let role = match name {
            Some(_) => Role::TOOL_WITH_ID,
            None => Role::TOOL,
        };
        let who = self.open(node);
        self.clients[who].tool = Some(place);
        self.tools[place].client = Some(who);
        let unnamed = Proc::new("unnamed", Rank::UNDEF);
        let ids = user.to_ne_bytes();
        let credential = [ids, ids].concat();
        let number = u32::try_from(place).unwrap();
        let hello = Hello {
            credential: &credential,
            role,
            ids: Some((user, user)),
            proc: name.clone(),
            gds: "hash".into(),
            infos: vec![Info::new(TOOL, number)],
            ..hello(unnamed.clone())
        };
        self.say(|| format!("tool {place} of user {user} is connection {who}, {name:?}"));
        let form = role.welcome(&hello.form().unwrap());
        self.clients[who].welcome = Some(form);
        self.begin_core_as(who, name.unwrap_or(unnamed), &hello);
        // The security module, the host and late packets delay the welcome.
        self.after(Duration::from_secs(25), Event::Deadline(who, Tag::HELLO));
    }

    /// Handles the disconnection of a tool, which may connect again, here or elsewhere, with its previous name.
    pub(crate) fn tool_left(&mut self, place: ToolId) {
        let num_nodes = self.nodes.len();
        let tool = &mut self.tools[place];
        tool.client = None;
        tool.hears.clear();
        let had = tool.has.take();
        if tool.lives >= MAX_LIVES || tool.is_imposter || self.is_over {
            return;
        }
        if self.random.once_in(2) {
            let tool = &mut self.tools[place];
            tool.name = had.or_else(|| tool.name.take());
            tool.node = self.random.below(num_nodes);
        }
        let after = self.random.millis(1, 800);
        self.after(after, Event::Attach(place));
    }

    /// Performs the next step of a tool, unless it waits for an operation.
    pub(crate) fn tool_step(&mut self, who: Who, place: ToolId) {
        let tool = &mut self.tools[place];
        if tool.steps == 0 {
            let own = Some(Duration::from_secs(2));
            let id = self.ask(who, What::Finalize, own, |core, end| core.finalize(end));
            self.clients[who].waits = Some(id);
            return;
        }
        tool.steps -= 1;
        let id = self.do_of_tool(who, place);
        let waits = id.filter(|_| !self.random.once_in(5));
        self.clients[who].waits = waits;
        if waits.is_none() {
            self.after(Duration::from_millis(1), Event::Step(who));
        }
    }

    fn do_of_tool(&mut self, who: Who, place: ToolId) -> Option<OperationId> {
        let soon = Some(Duration::ZERO);
        let id = match self.random.below(16) {
            0 | 1 => {
                let keys = [keys::QUERY_NAMESPACES, keys::QUERY_PROC_TABLE, "nobody's"];
                let key = *self.random.pick(&keys);
                let mut qualifiers = vec![Info::new(keys::NSPACE, self.any_nspace())];
                if key == keys::QUERY_NAMESPACES {
                    // While the host is asked, jobs may change, so the oracle can compare local answers only.
                    qualifiers.push(Info::new(keys::QUERY_LOCAL_ONLY, true));
                }
                let queries = vec![Query {
                    keys: vec![key.into()],
                    qualifiers,
                }];
                self.ask_for(
                    who,
                    Request::Query(request::Query { queries }),
                    What::Query,
                    soon,
                )
            }
            2..=4 => {
                let nspace = self.any_nspace();
                self.oracle.wanted.insert((who, nspace));
                let procs = vec![Proc::new(nspace, Rank::WILDCARD)];
                let pull = Request::IofPull(request::IofPull {
                    procs,
                    infos: vec![],
                    channels: IofChannel::STDOUT_CHANNEL,
                    local_id: 7,
                });
                self.ask_for(who, pull, What::Pull(nspace), soon)
            }
            5 => {
                self.clients[who].wants_events = true;
                let codes = [EVENT, Status::ERR_LOST_CONNECTION];
                self.ask_for(
                    who,
                    Request::RegisterEvents(request::RegisterEvents {
                        codes: codes.to_vec(),
                        infos: vec![],
                    }),
                    What::Listen(true),
                    soon,
                )
            }
            6 => {
                self.num_events += 1;
                let number = self.num_events;
                let infos = [Info::new(NUMBER, number)];
                self.ask_for(
                    who,
                    Request::Notify(request::Notify {
                        status: EVENT,
                        range: DataRange::GLOBAL,
                        infos: infos.to_vec(),
                    }),
                    What::Report(number),
                    soon,
                )
            }
            7 => {
                let targets = vec![Proc::new(self.any_nspace(), Rank::WILDCARD)];
                let infos = vec![Info::new(keys::JOB_CTRL_KILL, true)];
                self.ask_for(
                    who,
                    Request::JobControl(request::JobControl { targets, infos }),
                    What::Any,
                    soon,
                )
            }
            8 => {
                let infos = vec![Info::new(keys::REGISTER_CLEANUP, "/tmp/of-a-tool")];
                self.ask_for(
                    who,
                    Request::JobControl(request::JobControl {
                        targets: vec![],
                        infos,
                    }),
                    What::Any,
                    soon,
                )
            }
            9 => {
                let key = format!("of.tool.{place}.{}", self.num_packets);
                let infos = [Info::new(key, 1_u32)];
                self.ask_for(
                    who,
                    Request::Publish(request::Publish {
                        infos: infos.to_vec(),
                        uid: 0,
                    }),
                    What::Any,
                    soon,
                )
            }
            10 => {
                let pulls = &self.oracle.pulls;
                let own: Vec<_> = pulls.iter().filter(|(of, ..)| *of == who).collect();
                let (_, number, nspace) = **self.random.pick_of(&own)?;
                let what = What::EndPull(nspace, number);
                self.ask_for(
                    who,
                    Request::IofDeregister(request::IofDeregister {
                        remote_id: number,
                        infos: vec![],
                    }),
                    what,
                    soon,
                )
            }
            11 => self.get(who),
            _ => return self.spawn(who),
        };
        Some(id)
    }

    /// Returns the name of any job, registered or not.
    fn any_nspace(&mut self) -> &'static str {
        self.random.pick(&self.jobs).nspace
    }

    /// Crashes a connected tool.
    pub(crate) fn crash_tool(&mut self) -> bool {
        let attached: Vec<_> = self.tools.iter().filter_map(|tool| tool.client).collect();
        let live: Vec<_> = (attached.into_iter())
            .filter(|who| self.clients[*who].is_live())
            .collect();
        let who = self.random.pick_of(&live).copied();
        who.inspect(|who| self.cut_off(*who, false)).is_some()
    }

    /// Connects a tool with a false identity: a process, a rank that its job does not have, a server, or, for another
    /// user, a connected tool.
    pub(crate) fn claim(&mut self) -> bool {
        let node = self.random.below(self.nodes.len());
        let user = *self.random.pick(&[UID, STRANGER]);
        let job = self.random.below(self.jobs.len());
        let is_here = self.jobs[job].is_begun && !self.jobs[job].is_gone;
        let ranks = self.jobs[job].ranks_on(node);
        let nspace = self.jobs[job].nspace;
        let name = match self.random.below(3) {
            0 if user == STRANGER && is_here && !ranks.is_empty() => {
                let first = ranks.start;
                Proc::new(nspace, Rank::new(first))
            }
            1 if is_here && !ranks.is_empty() => Proc::new(nspace, Rank::new(99)),
            _ => Proc::new(format!("server{node}"), Rank::new(0)),
        };
        let mut tool = Tool::new(node, user, Some(name));
        tool.is_imposter = true;
        self.tools.push(tool);
        self.attach(self.tools.len() - 1);
        true
    }
}

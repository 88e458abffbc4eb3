// SPDX-License-Identifier: MIT OR Apache-2.0
//! The other nodes of a session, as the agent of the controller knows them.
//!
//! | state of a node | meaning | leads to |
//! | --- | --- | --- |
//! | `Greeting` | the program that reaches the node was started | `Ready` by the greeting of its agent; `Lost` |
//! | `Ready` | the agent serves the session | `Leaving` at the end of the session; `Lost` |
//! | `Leaving` | the agent ends its processes and removes their files | `Left` by its last message; `Lost` |
//! | `Left` | nothing of the session is on the node | - |
//! | `Lost` | the link has ended before, or no greeting has come in time | - |

mod node;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mio::unix::pipe::Receiver;
use mio::{Interest, Registry, Token};
use pmix_types::{Nspace, Status};
use rustix::process::Pid;

use super::link::Link;
use super::message::{FromNode, SessionForm, ToNode};
use crate::plan::Agents;
use crate::{Error, Plan};

/// The largest number of nodes with a link to this one.
pub(crate) const MOST_NODES: usize = 4096;

/// The number of tokens of each node.
const TOKENS: usize = 3;

/// The number of tokens of all nodes.
pub(crate) const ALL_TOKENS: usize = MOST_NODES * TOKENS;

/// The time after which a node that has not answered is named.
const NAMED_AFTER: Duration = Duration::from_secs(3);

/// The time for the end of the agents at the end of a session.
const LEAVING: Duration = Duration::from_secs(5);
/// The time for the end of the programs that reach nodes without an answer.
const LEAVING_UNSEEN: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeting,
    Ready,
    Leaving,
    Left,
    Lost,
}

/// The recipient of data that a node was asked for.
pub(crate) type OnData = Box<dyn FnOnce(Result<Vec<u8>, Status>) + Send>;

/// A node with an agent.
pub(crate) struct RemoteNode {
    pub(crate) name: String,
    state: State,
    /// The link, until its end.
    link: Option<Link>,
    child: Child,
    /// The standard error of the program that reaches the node, until its end.
    errors: Option<Receiver>,
    /// The end of the text that it printed there. Whole lines of an agent that has answered were taken out of it.
    said: Vec<u8>,
    /// The jobs of which something is left on the node.
    open_jobs: BTreeSet<Vec<u8>>,
    /// The jobs whose processes the agent starts.
    starting: BTreeSet<Vec<u8>>,
    /// The requests for data that the agent has not answered.
    wanted: BTreeMap<u64, OnData>,
    is_named: bool,
    /// The time at which the program that reaches it was started.
    began: Instant,
    num_processors: Option<u32>,
}

/// The nodes of a session, except that of the controller, and the failures of their starts.
#[derive(Default)]
pub(crate) struct Nodes {
    nodes: Vec<RemoteNode>,
    /// The places of the nodes, by their names in the maps.
    places: BTreeMap<Vec<u8>, usize>,
    first_token: usize,
    start_timeout: Duration,
    /// The jobs whose start failed at a node, with the first failure.
    failures: BTreeMap<Vec<u8>, Error>,
    last_call: u64,
}

/// A message or a change of state of a node, which a turn has found.
pub(crate) enum Found {
    Message(FromNode),
    /// The link to the node has ended, for this reason.
    Lost(String),
    /// A line for the user: of the agent, or about a node that has not answered.
    Said(String),
}

impl Nodes {
    /// Starts the agents of the nodes of a plan except this one. `first_token` is the first of [`ALL_TOKENS`] tokens.
    ///
    /// # Errors
    /// Returns [`Error`] if there are too many nodes, or if the program that reaches them cannot be started.
    pub(crate) fn start(
        plan: &Plan,
        agents: &Agents,
        registry: &Registry,
        first_token: usize,
    ) -> Result<Self, Error> {
        let mut nodes = Self::default();
        nodes.first_token = first_token;
        nodes.start_timeout = agents.start_timeout;
        for name in plan.layout.others() {
            nodes.add(plan, agents, name, registry)?;
        }
        Ok(nodes)
    }

    /// Starts the agent of a further node. Returns its place, and the process id of the program that reaches it.
    ///
    /// # Errors
    /// Returns [`Error`] if there are too many nodes, or if the program that reaches the node cannot be started.
    pub(crate) fn add(
        &mut self,
        plan: &Plan,
        agents: &Agents,
        name: Vec<u8>,
        registry: &Registry,
    ) -> Result<(usize, Pid), Error> {
        if self.nodes.len() == MOST_NODES {
            let message = format!("the jobs have more than {MOST_NODES} nodes besides this one");
            return Err(Error::no_room(message));
        }
        let node = self.reach(plan, agents, &name, registry)?;
        let (place, pid) = (self.nodes.len(), Pid::from_child(&node.child));
        self.places.insert(name, place);
        self.nodes.push(node);
        Ok((place, pid))
    }

    fn reach(
        &self,
        plan: &Plan,
        agents: &Agents,
        name: &[u8],
        registry: &Registry,
    ) -> Result<RemoteNode, Error> {
        let words = words(agents, OsStr::from_bytes(name));
        let text = String::from_utf8_lossy(name).into_owned();
        // The program that reaches the node would read it as an option.
        if text.starts_with('-') {
            return Err(Error::request(format!("{text} is no name of a node")));
        }
        let Some((program, args)) = words.split_first() else {
            return Err(Error::request("the command that reaches a node is empty"));
        };
        let mut command = Command::new(program);
        command.args(args);
        // A group of its own: Ctrl-C is for the launcher, which passes signals on over the link.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        let shown = program.to_string_lossy();
        let cannot = |e| Error::program(format!("cannot execute {shown} to reach node {text}"), e);
        let mut child = command.spawn().map_err(cannot)?;
        let (input, output, errors) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = (input, output, errors) else {
            return Err(Error::request("a program without pipes"));
        };
        let first = self.first_token + TOKENS * self.nodes.len();
        let failed = |e| Error::system(format!("cannot use the link to node {text}"), e);
        let reader = (Token(first), OwnedFd::from(output));
        let writer = (Token(first + 1), OwnedFd::from(input));
        let mut link = Link::new(registry, reader, writer).map_err(failed)?;
        let mut errors = Receiver::from(errors);
        let registered = errors
            .set_nonblocking(true)
            .and_then(|()| registry.register(&mut errors, Token(first + 2), Interest::READABLE));
        registered.map_err(failed)?;
        let number = u32::try_from(self.nodes.len() + 1).unwrap_or(u32::MAX);
        // The settings arrive while the agent starts, so they cost no round trip.
        link.send(&ToNode::Session(Box::new(SessionForm::of(
            plan, name, number,
        ))))?;
        Ok(RemoteNode {
            name: text,
            state: State::Greeting,
            link: Some(link),
            child,
            errors: Some(errors),
            said: Vec::new(),
            open_jobs: BTreeSet::new(),
            starting: BTreeSet::new(),
            wanted: BTreeMap::new(),
            is_named: false,
            began: Instant::now(),
            num_processors: None,
        })
    }

    /// Returns the place of a node by its name in the maps.
    pub(crate) fn place(&self, name: &[u8]) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// Returns the name of a node.
    pub(crate) fn name(&self, place: usize) -> &str {
        self.nodes.get(place).map_or("?", |node| &node.name)
    }

    /// Returns the places of the nodes that answer requests, or are expected to.
    pub(crate) fn open_places(&self) -> Vec<usize> {
        let nodes = self.nodes.iter().enumerate();
        let open = nodes.filter(|(_, node)| matches!(node.state, State::Greeting | State::Ready));
        open.map(|(place, _)| place).collect()
    }

    /// Records the number of processors that a node has reported.
    pub(crate) fn set_processors(&mut self, place: usize, num_processors: u32) {
        if let Some(node) = self.nodes.get_mut(place) {
            node.num_processors = Some(num_processors);
        }
    }

    /// Returns the number of processors of a node, once its agent has reported it.
    pub(crate) fn num_processors(&self, place: usize) -> Option<u32> {
        self.nodes.get(place)?.num_processors
    }

    /// Returns `true` if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the process ids of the programs that reach the nodes.
    pub(crate) fn pids(&self) -> impl Iterator<Item = Pid> {
        let pids = self.nodes.iter().map(|node| Pid::from_child(&node.child));
        pids.collect::<Vec<_>>().into_iter()
    }

    /// Records that the poll reported a descriptor. Returns `false` if the token belongs to no node.
    pub(crate) fn handle_ready(&mut self, Token(token): Token) -> bool {
        let Some(offset) = token.checked_sub(self.first_token) else {
            return false;
        };
        if self.first_token == 0 || offset >= ALL_TOKENS {
            return false;
        }
        if let Some(node) = self.nodes.get_mut(offset / TOKENS) {
            match offset % TOKENS {
                2 => node.read_errors(),
                _ => node.link.iter_mut().for_each(Link::handle_ready),
            }
        }
        true
    }

    /// Sends a message to a node, unless it is lost.
    pub(crate) fn send(&mut self, place: usize, message: &ToNode) {
        let Some(node) = self.nodes.get_mut(place) else {
            return;
        };
        let sent = node.link.as_mut().map_or(Ok(()), |link| link.send(message));
        if let Err(error) = sent {
            tracing::error!("cannot send a message to node {}: {error}", node.name);
        }
    }

    /// Sends a message to all nodes on which something of a job is left.
    pub(crate) fn send_of_job(&mut self, nspace: &Nspace<'_>, message: &ToNode) {
        for place in 0..self.nodes.len() {
            let has_job = { self.nodes.get(place) }
                .is_some_and(|node| node.open_jobs.contains(nspace.as_bytes()));
            if has_job {
                self.send(place, message);
            }
        }
    }

    /// Asks a node for data of one of its processes. `done` is called once.
    pub(crate) fn want(&mut self, place: usize, message: impl Fn(u64) -> ToNode, done: OnData) {
        self.last_call += 1;
        let call = self.last_call;
        // The request follows the start of the process, also at a node that has not answered yet.
        let node = self.nodes.get_mut(place);
        match node.filter(|node| matches!(node.state, State::Greeting | State::Ready)) {
            Some(node) => {
                node.wanted.insert(call, done);
                self.send(place, &message(call));
            }
            None => done(Err(Status::ERR_LOST_CONNECTION)),
        }
    }

    /// Completes a request for data.
    pub(crate) fn complete(&mut self, place: usize, call: u64, result: Result<Vec<u8>, Status>) {
        let node = self.nodes.get_mut(place);
        if let Some(done) = node.and_then(|node| node.wanted.remove(&call)) {
            done(result);
        }
    }

    /// Records that a node starts its part of a job. The start fails if the node was lost.
    pub(crate) fn begin(&mut self, place: usize, nspace: &Nspace<'_>) {
        if let Some(node) = self.nodes.get_mut(place) {
            if !node.is_open() {
                let message = format!("node {}: it was lost before the job started", node.name);
                let error = Error::of_node(Status::ERR_JOB_FAILED_TO_LAUNCH, 1, message);
                return self.started(place, nspace.as_bytes(), Some(error));
            }
            node.starting.insert(nspace.as_bytes().to_vec());
            node.open_jobs.insert(nspace.as_bytes().to_vec());
        }
    }

    /// Records the result of the start at a node.
    pub(crate) fn started(&mut self, place: usize, nspace: &[u8], failure: Option<Error>) {
        let node = self.nodes.get_mut(place);
        let is_part = node.is_some_and(|node| node.starting.remove(nspace) || !node.is_open());
        // A node without processes of the job does not fail its start.
        if let Some(error) = failure.filter(|_| is_part) {
            self.failures.entry(nspace.to_vec()).or_insert(error);
        }
    }

    /// Returns the result of the start of a job at all nodes, if it is over. A failure at one node ends it at once.
    pub(crate) fn start_of(&mut self, nspace: &Nspace<'_>) -> Option<Result<(), Error>> {
        if let Some(error) = self.failures.remove(nspace.as_bytes()) {
            return Some(Err(error));
        }
        let mut nodes = self.nodes.iter();
        let is_over = !nodes.any(|node| node.starting.contains(nspace.as_bytes()));
        is_over.then_some(Ok(()))
    }

    /// Lets the nodes that have a job end it. What their agents report of it later is ignored.
    pub(crate) fn end_job(&mut self, nspace: &Nspace<'_>) {
        let message = ToNode::EndJob {
            nspace: nspace.as_bytes().to_vec(),
        };
        for place in 0..self.nodes.len() {
            self.send(place, &message);
            self.job_over(place, nspace.as_bytes());
        }
        self.failures.remove(nspace.as_bytes());
    }

    /// Records that nothing of a job is left at a node.
    pub(crate) fn job_over(&mut self, place: usize, nspace: &[u8]) {
        if let Some(node) = self.nodes.get_mut(place) {
            node.open_jobs.remove(nspace);
        }
    }

    /// Returns `true` if something of a job is left at a node.
    pub(crate) fn have_job(&self, nspace: &Nspace<'_>) -> bool {
        let mut nodes = self.nodes.iter();
        nodes.any(|node| node.open_jobs.contains(nspace.as_bytes()))
    }

    /// Returns `true` if nothing of any job is left at the nodes.
    pub(crate) fn are_over(&self) -> bool {
        self.nodes.iter().all(|node| node.open_jobs.is_empty())
    }

    /// Returns `true` if a turn can read at once.
    pub(crate) fn are_busy(&self) -> bool {
        let is_busy = |node: &RemoteNode| node.link.as_ref().is_some_and(Link::is_busy);
        let has_input = |node: &RemoteNode| node.is_open() && is_busy(node);
        self.nodes.iter().any(has_input)
    }

    /// Returns the time at which a node that has not answered is named or given up.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let silent = self
            .nodes
            .iter()
            .filter(|node| node.state == State::Greeting);
        let next = silent.filter_map(|node| {
            let after = match node.is_named {
                false => NAMED_AFTER.min(self.start_timeout),
                true => self.start_timeout,
            };
            node.began.checked_add(after)
        });
        next.min()
    }

    /// Reads from the links, a bounded number of bytes of each. Returns what was found, with the place of its node.
    pub(crate) fn turn(&mut self, now: Instant) -> Vec<(usize, Found)> {
        let mut found = Vec::new();
        for (place, node) in self.nodes.iter_mut().enumerate() {
            if !node.is_open() {
                continue;
            }
            node.link.iter_mut().for_each(Link::read);
            let is_closed = node.link.as_ref().is_none_or(Link::is_closed);
            let before = found.len();
            if let Err(error) =
                node.take_all(|message| found.push((place, Found::Message(message))))
            {
                found.push((place, Found::Lost(error.to_string())));
            } else if is_closed && node.state != State::Left {
                found.push((place, Found::Lost(node.why_closed())));
            }
            let lines = node.take_lines().into_iter();
            found.extend(lines.map(|line| (place, Found::Said(line))));
            if node.state == State::Greeting && found.len() == before {
                let silence = now.saturating_duration_since(node.began);
                let is_late = silence >= self.start_timeout;
                if is_late {
                    let seconds = self.start_timeout.as_secs_f64();
                    let why = format!("it has not answered within {seconds} s");
                    found.push((place, Found::Lost(node.with_said(why))));
                } else if silence >= NAMED_AFTER && !std::mem::replace(&mut node.is_named, true) {
                    let left = self.start_timeout.saturating_sub(silence).as_secs();
                    let line = format!(
                        "node {} has not answered for {} s; it is given up after {left} s more (--start-timeout)",
                        node.name,
                        NAMED_AFTER.as_secs(),
                    );
                    found.push((place, Found::Said(node.with_said(line))));
                }
            }
        }
        found
    }

    /// Returns `true` if a node is lost.
    pub(crate) fn is_lost(&self, place: usize) -> bool {
        let node = self.nodes.get(place);
        node.is_none_or(|node| node.state == State::Lost)
    }

    /// Returns `true` if a node has answered.
    pub(crate) fn has_answered(&self, place: usize) -> bool {
        let node = self.nodes.get(place);
        node.is_some_and(|node| node.state != State::Greeting)
    }

    /// Records the loss of a node. Returns the jobs of which something was left there.
    pub(crate) fn lose(&mut self, place: usize) -> Vec<Vec<u8>> {
        let Some(node) = self.nodes.get_mut(place) else {
            return Vec::new();
        };
        node.state = State::Lost;
        // An agent that still runs sees the end of the link, and ends.
        node.link = None;
        let wanted = std::mem::take(&mut node.wanted);
        wanted
            .into_values()
            .for_each(|done| done(Err(Status::ERR_LOST_CONNECTION)));
        std::mem::take(&mut node.starting);
        std::mem::take(&mut node.open_jobs).into_iter().collect()
    }

    /// Records that the agent of a node has ended.
    pub(crate) fn leave(&mut self, place: usize) {
        if let Some(node) = self.nodes.get_mut(place) {
            node.state = State::Left;
            node.open_jobs.clear();
        }
    }

    /// Asks all agents to end.
    pub(crate) fn end(&mut self) {
        for place in 0..self.nodes.len() {
            if let Some(node) = self.nodes.get_mut(place).filter(|node| node.is_open()) {
                node.state = State::Leaving;
                self.send(place, &ToNode::End);
            }
        }
    }

    /// Returns `true` while an agent has not ended.
    pub(crate) fn are_leaving(&self) -> bool {
        self.nodes.iter().any(|node| node.state == State::Leaving)
    }

    /// Returns the time for the end of the agents.
    pub(crate) const fn patience() -> Duration {
        LEAVING
    }
}

impl Drop for Nodes {
    /// Ends the links, so that agents end their processes, and waits for the programs that reach the nodes.
    fn drop(&mut self) {
        // All links end before the first wait.
        let ended = self.nodes.drain(..).map(|node| {
            // A node that has not answered may never answer, and one that is lost has had its time.
            let patience = match node.state {
                State::Greeting | State::Lost => LEAVING_UNSEEN,
                State::Ready | State::Leaving | State::Left => LEAVING,
            };
            (node.child, patience)
        });
        let ended: Vec<_> = ended.collect();
        let began = Instant::now();
        for (mut child, patience) in ended {
            while let Ok(None) = child.try_wait() {
                if began.elapsed() >= patience {
                    let _ = child.kill();
                    let _ = child.wait();
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Returns the command that starts the agent of a node.
fn words(agents: &Agents, node: &OsStr) -> Vec<OsString> {
    let is_place = |word: &OsString| word == "{node}";
    let has_place = agents.reach.iter().any(is_place);
    let reach = agents.reach.iter().map(|word| match is_place(word) {
        true => node.to_owned(),
        false => word.clone(),
    });
    let last = (!has_place).then(|| node.to_owned());
    reach
        .chain(last)
        .chain(agents.command.iter().cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Division;

    #[test]
    fn the_name_of_the_node_is_where_the_user_wants_it() {
        let words = |reach: &[&str]| {
            let agents = Agents {
                reach: reach.iter().map(OsString::from).collect(),
                command: vec!["pmix".into(), "node".into()],
                start_timeout: Duration::ZERO,
                nodes: Vec::new(),
                division: Division::default(),
            };
            let words = words(&agents, OsStr::new("n1"));
            words.join(OsStr::new(" ")).into_string().unwrap()
        };
        assert_eq!(words(&["ssh", "-x"]), "ssh -x n1 pmix node");
        assert_eq!(
            words(&["kubectl", "exec", "{node}", "--"]),
            "kubectl exec n1 -- pmix node"
        );
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests of one process, served by calls of a PMIx client.
//!
//! | state | init | identify | finalize | other requests |
//! | --- | --- | --- | --- | --- |
//! | `New` | replied | `Member` | refused | refused |
//! | `Member` | replied | refused | `Left` | served |
//! | `Left` | `Member` | refused | refused | refused |
//!
//! A name in the table is the next state. A process may use PMI again after it has finalized it, as MPI sessions do.
//!
//! Source: PMIx Standard, chapters "Data Access and Sharing", "Process Management" and "Publish/Lookup Operations".

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pmix_client::Client;
use pmix_types::{
    App, DataArray, Info, IntoOwned as _, Key, Nspace, Proc, Rank, Scope, Status, Text, Value, keys,
};

use crate::Error;
use crate::client::{SharedClient, ended, not_initialized};
use crate::registry::Registered;
use crate::reply::Reply;
use crate::request::{Application, Group, Request, Spawn};
use crate::responder::Responder;

/// The directive of a spawn with the values that the parent stores for the new job (preput): an array of infos, which
/// the job info of the new job includes. A launcher that does not know the directive ignores it.
pub const PREPUT: &str = "pmixrs.pmi.preput";

/// The shortest and the longest time between two searches for a value that another process will put.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);

/// The state of a process towards PMI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has not said which process it is.
    New,
    /// It is connected to the PMIx server.
    Member,
    /// It has finalized.
    Left,
}

/// The requests of one process.
pub(crate) struct Session {
    state: State,
    process: Option<Registered>,
    shared: SharedClient,
}

impl Session {
    pub(crate) fn new(shared: SharedClient) -> Self {
        Self {
            state: State::New,
            process: None,
            shared,
        }
    }

    /// Checks that the connection belongs to no process yet.
    pub(crate) fn check_new(&self) -> Result<(), Error> {
        match self.state {
            State::New => Ok(()),
            State::Member | State::Left => {
                let message = "the connection already belongs to a process";
                Err(Error::new(Status::ERR_EXISTS, message))
            }
        }
    }

    /// Connects to the PMIx server in the name of the process. Returns its place in the job.
    pub(crate) fn identify(&mut self, process: Registered) -> Result<Reply, Error> {
        self.check_new()?;
        self.process = Some(process);
        self.connect()?;
        let client = self.shared.client()?;
        let (own, job) = (client.proc().clone(), client.job());
        let app = client.get(&own, keys::APPNUM, &[]).wait();
        let parent = client.get(&own, keys::PARENT_ID, &[]).wait();
        let parent = parent.ok().and_then(|value| match value {
            Value::Proc(parent) => Some(parent.nspace.as_bytes().to_vec()),
            _ => None,
        });
        Ok(Reply::Place {
            rank: own.rank.as_raw(),
            size: number(&client.get(&job, keys::JOB_SIZE, &[]).wait()?)?,
            app: app.ok().and_then(|app| app.to_number().ok()).unwrap_or(0),
            parent,
        })
    }

    fn process(&self) -> Result<&Registered, Error> {
        self.process.as_ref().ok_or_else(not_initialized)
    }

    fn connect(&mut self) -> Result<(), Error> {
        let client = Client::init(self.process()?.settings.clone())?;
        self.shared.lock().client = Some(client);
        self.state = State::Member;
        Ok(())
    }

    /// Serves a request. A request that waits for other processes is replied to later, from another thread, unless the
    /// process sends no other one meanwhile.
    pub(crate) fn serve(&mut self, request: Request, responder: Responder) {
        match request {
            Request::Barrier => responder.send(self.barrier()),
            Request::GroupBarrier(group, _) => self.group_barrier(&group, responder),
            Request::GetOnNode(key, true) => self.await_on_node(key, responder),
            request => responder.send(self.serve_now(request)),
        }
    }

    fn serve_now(&mut self, request: Request) -> Result<Reply, Error> {
        if let Request::Unknown(name) = request {
            return Err(Error::malformed(format!("PMI has no command {name}")));
        }
        if let Request::Init(version, _) = request {
            if !(1..=2).contains(&version) {
                let message = format!("PMI {version} is not supported: use PMI 1 or 2");
                return Err(Error::new(Status::ERR_NOT_SUPPORTED, message));
            }
            if self.state == State::Left {
                self.shared.begin_use();
                self.connect()?;
            }
            return Ok(Reply::Done);
        }
        let client = self.shared.client()?;
        let reply = match request {
            Request::Limits => Reply::Limits,
            Request::AppNumber => {
                let app = client.get(client.proc(), keys::APPNUM, &[]).wait()?;
                Reply::Number(number(&app)?)
            }
            Request::JobName => Reply::Value(client.proc().nspace.as_bytes().to_vec()),
            Request::UniverseSize => {
                let size = client.get_of_job(keys::UNIV_SIZE).wait()?;
                Reply::Number(number(&size)?)
            }
            Request::Put(key, value) => {
                self.put(&client, Scope::GLOBAL, &key, value)?;
                Reply::Done
            }
            Request::Get(job, key) => {
                let own = &client.proc().nspace;
                match job.map(|job| Nspace::new(Text::new(job))) {
                    Some(other) if other != *own => get_of_any(&client, other, &key)?,
                    _ => self.get(&client, &key)?,
                }
            }
            Request::PutOnNode(key, value) => {
                self.put(&client, Scope::LOCAL, &key, value)?;
                client.commit()?;
                Reply::Done
            }
            Request::GetOnNode(key, _) => self.get(&client, &key)?,
            Request::Publish(service, port) => {
                let info = Info::new(key_of(&service)?, text(port));
                client.publish(vec![info]).wait()?;
                Reply::Done
            }
            Request::Lookup(service) => lookup(&client, &service)?,
            Request::Unpublish(service) => {
                client.unpublish([key_of(&service)?], []).wait()?;
                Reply::Done
            }
            Request::Spawn(request) => spawn(&client, request)?,
            Request::Abort(code, message) => {
                let message = String::from_utf8_lossy(&message).into_owned();
                client.abort(code, message.as_str(), []).wait()?;
                Reply::Done
            }
            Request::Finalize => {
                self.state = State::Left;
                self.shared.lock().client = None;
                let left = client.finalize();
                // The process may go on with another connection, whatever the server has replied.
                self.shared.lock().is_in_use = false;
                left?;
                Reply::Done
            }
            Request::Init(..)
            | Request::Identify(_)
            | Request::Barrier
            | Request::GroupBarrier(..)
            | Request::Unknown(_) => {
                return Err(Error::malformed("the command is not served here"));
            }
        };
        Ok(reply)
    }

    /// Returns the directives of a fence, which exchanges the committed data between nodes. The server already has the
    /// data of its own node.
    fn exchange(&self) -> Result<Vec<Info<'static>>, Error> {
        let collect = Info::new(keys::COLLECT_DATA, true);
        Ok(self
            .process()?
            .has_remote
            .then_some(collect)
            .into_iter()
            .collect())
    }

    /// Commits the puts, and waits for all processes of the job.
    fn barrier(&self) -> Result<Reply, Error> {
        let (client, _blocked) = self.shared.block()?;
        client.commit()?;
        client.fence([], self.exchange()?).wait()?;
        Ok(Reply::Done)
    }

    /// Commits the puts, and begins to wait for the processes of a group. PMIx has no number for a fence, so fences of
    /// the same processes complete in the order of their calls.
    fn group_barrier(&self, group: &Group, responder: Responder) {
        let begin = || {
            let client = self.shared.client()?;
            client.commit()?;
            let members = members(&client, group)?;
            Ok((client, members, self.exchange()?))
        };
        let (client, members, infos) = match begin() {
            Ok(begun) => begun,
            Err(error) => return responder.send(Err(error)),
        };
        // When the process has ended, the thread of the connection closes the client, which completes the fence.
        let fence = client.fence(members, infos);
        let then = move |result: Result<(), pmix_client::Error>| {
            responder.send(result.map(|()| Reply::Done).map_err(Error::from));
        };
        if let Err(error) = fence.start(then) {
            // The dropped callback has replied.
            tracing::debug!("a barrier by PMI cannot begin: {error}");
        }
    }

    /// Puts a value, if there is room for it.
    fn put(&self, client: &Client, scope: Scope, key: &[u8], value: Vec<u8>) -> Result<(), Error> {
        let name = key_of(key)?;
        let values = &self.process()?.values;
        values.put(client.proc().rank, key, &value)?;
        Ok(client.put(scope, name, text(value))?)
    }

    /// Gets a value that any process of the job has put, or one of the job itself.
    fn get(&self, client: &Client, key: &[u8]) -> Result<Reply, Error> {
        match self.process()?.values.get(key) {
            Some(value) => Ok(Reply::Value(value.to_vec())),
            None => get_of_any(client, client.proc().nspace.clone(), key),
        }
    }

    /// Gets a value of a process of this node. If it does not exist, a thread waits for it.
    fn await_on_node(&self, key: Vec<u8>, responder: Responder) {
        let begin = || {
            let client = self.shared.client()?;
            let values = Arc::clone(&self.process()?.values);
            let reply = self.get(&client, &key)?;
            let polling = match reply {
                Reply::Missing => Some(self.shared.poll()?),
                _ => None,
            };
            Ok((client, values, reply, polling))
        };
        let (client, values, polling) = match begin() {
            Ok((client, values, _, Some(polling))) => (client, values, polling),
            Ok((.., reply, None)) => return responder.send(Ok(reply)),
            Err(error) => return responder.send(Err(error)),
        };
        let shared = self.shared.clone();
        let poll = move || {
            let _polling = polling;
            let mut pause = SHORTEST;
            let found = loop {
                let found = match values.get(&key) {
                    Some(value) => Ok(Reply::Value(value.to_vec())),
                    None => get_of_any(&client, client.proc().nspace.clone(), &key),
                };
                match found {
                    Ok(Reply::Missing) if !shared.lock().has_ended => {}
                    Ok(Reply::Missing) => break Err(ended()),
                    found => break found,
                }
                thread::sleep(pause);
                pause = (pause * 2).min(LONGEST);
            };
            responder.send(found);
        };
        let thread = thread::Builder::new().name("pmix-pmi-key".into());
        if let Err(error) = thread.spawn(poll) {
            // The dropped closure has replied.
            tracing::warn!("cannot wait for a key of PMI: {error}");
        }
    }
}

/// Returns the processes of a group, or an empty list for the whole job.
fn members(client: &Client, group: &Group) -> Result<Vec<Proc<'static>>, Error> {
    let job = &client.proc().nspace;
    let proc = |rank: &u32| Proc::new(job.clone(), Rank::new(*rank));
    let ranks = match group {
        Group::World => return Ok(Vec::new()),
        Group::Ranks(ranks) => ranks,
        Group::Node => {
            let peers = client.get(client.proc(), keys::LOCAL_PEERS, &[]).wait()?;
            let Value::String(Some(peers)) = peers else {
                return Err(Error::malformed("PMIX_LOCAL_PEERS is not a string"));
            };
            let ranks: Result<Vec<u32>, _> =
                peers.to_str_lossy().split(',').map(str::parse).collect();
            &ranks.map_err(|_| Error::malformed("PMIX_LOCAL_PEERS has no ranks"))?
        }
    };
    Ok(ranks.iter().map(proc).collect())
}

/// Returns the directive of a get that does not wait. A barrier has exchanged all values, so a missing one is not
/// waited for.
fn immediate() -> Info<'static> {
    Info::new(keys::IMMEDIATE, true)
}

/// Gets a value of a job whose process is not known.
fn get_of_any(client: &Client, job: Nspace<'static>, key: &[u8]) -> Result<Reply, Error> {
    let of_any = Proc::new(job, Rank::UNDEF);
    match client.get(&of_any, key_of(key)?, &[immediate()]).wait() {
        Ok(value) => value_reply(value),
        Err(error) if error.status() == Status::ERR_NOT_FOUND => Ok(Reply::Missing),
        Err(error) => Err(error.into()),
    }
}

/// Returns a value as text. PMI has no other values.
fn value_reply(value: Value<'static>) -> Result<Reply, Error> {
    Ok(match value {
        Value::String(Some(text)) => Reply::Value(text.into_bytes().into_owned()),
        Value::String(None) => Reply::Missing,
        other => Reply::Value(number::<i64>(&other)?.to_string().into_bytes()),
    })
}

fn lookup(client: &Client, service: &[u8]) -> Result<Reply, Error> {
    match client.lookup([key_of(service)?], []).wait() {
        Ok((_, found)) => match found.into_iter().next() {
            Some(pdata) => value_reply(pdata.value),
            None => Ok(Reply::Missing),
        },
        Err(error) if error.status() == Status::ERR_NOT_FOUND => Ok(Reply::Missing),
        Err(error) => Err(error.into()),
    }
}

fn spawn(client: &Client, request: Spawn) -> Result<Reply, Error> {
    let preput = request.preput.into_iter();
    let preput: Vec<_> = preput
        .map(|(key, value)| Ok(Info::new(key_of(&key)?.into_owned(), text(value))))
        .collect::<Result<_, Error>>()?;
    let mut infos = Vec::new();
    if !preput.is_empty() {
        let preput = Value::DataArray(DataArray::Info(preput));
        infos.push(Info::new(PREPUT, preput));
    }
    let applications = request.applications.into_iter();
    let apps: Vec<_> = applications.map(app).collect::<Result<_, _>>()?;
    let job = client.spawn(infos, apps).wait()?;
    Ok(Reply::Value(job.as_bytes().to_vec()))
}

/// Converts an application of a spawn. Of its infos, `wdir`, `host` and `hostfile` have an effect.
fn app(application: Application) -> Result<App<'static>, Error> {
    let mut app = App {
        maxprocs: i32::try_from(application.num_procs)
            .map_err(|_| Error::malformed("a PMI spawn has too many processes"))?,
        argv: std::iter::once(application.program.clone())
            .chain(application.args)
            .map(Text::new)
            .collect(),
        cmd: Some(Text::new(application.program)),
        ..App::default()
    };
    for (key, value) in application.infos {
        match key.as_slice() {
            b"wdir" => app.cwd = Some(Text::new(value)),
            b"host" => app.info.push(Info::new(keys::HOST, text(value))),
            b"hostfile" => app.info.push(Info::new(keys::HOSTFILE, text(value))),
            other => {
                let other = String::from_utf8_lossy(other).into_owned();
                tracing::debug!(info = other, "an info of a spawn by PMI has no effect");
            }
        }
    }
    Ok(app)
}

fn number<T: pmix_types::Numeric>(value: &Value<'_>) -> Result<T, Error> {
    let number = value.to_number();
    number.map_err(|error| {
        Error::malformed(format!("PMI supports only strings and numbers: {error}"))
    })
}

fn text(bytes: Vec<u8>) -> Value<'static> {
    Value::String(Some(Text::new(bytes)))
}

/// Returns a key of PMI as one of PMIx.
fn key_of(bytes: &[u8]) -> Result<Key<'static>, Error> {
    let key = String::from_utf8(bytes.to_vec());
    let key = key.map_err(|_| Error::malformed("a key of PMI is not UTF-8"))?;
    match key.is_empty() || key.len() > Key::MAX_LEN {
        true => Err(Error::malformed(
            "a key of PMI is empty or longer than 511 bytes",
        )),
        false => Ok(Key::from(key)),
    }
}

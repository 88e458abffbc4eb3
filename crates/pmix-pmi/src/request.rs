// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests of PMI-1 and PMI-2, which differ in names only.
//!
//! Source: PMI 1.1, 1.2 and 2.0 of MPICH; captured requests of MPICH 5.0.2, Intel MPI 2021.18 and Slurm's `libpmi2`.

use crate::Error;
use crate::reply::{Kind, Ticket};
use crate::wire::{Attribute, Command, Wire, find};

/// A request of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// States the release of the protocol: its major and minor number.
    Init(u32, u32),
    /// Identifies the process of the connection by its `PMI_ID`. PMI-2 sends it without an id if the connection is
    /// inherited.
    Identify(Option<u32>),
    /// Requests the largest lengths of names, keys and values.
    Limits,
    /// Requests the index of the application of the process.
    AppNumber,
    /// Requests the name of the job.
    JobName,
    /// Requests the number of processes for which there is room.
    UniverseSize,
    /// Stores a value, which other processes see after the next barrier at the latest.
    Put(Vec<u8>, Vec<u8>),
    /// Requests a value that a process of the job has put, or one of the job itself. The first part is the job, if it
    /// is another one.
    Get(Option<Vec<u8>>, Vec<u8>),
    /// Waits until all processes of the job have made this request. The process sends no other one meanwhile.
    Barrier,
    /// Waits until all processes of a group have made this request. The number distinguishes the barriers of a group.
    /// Other threads of the process may send requests meanwhile.
    GroupBarrier(Group, u32),
    /// Stores a value for the processes of this node.
    PutOnNode(Vec<u8>, Vec<u8>),
    /// Requests a value of a process of this node. The flag tells whether the request waits until the key exists.
    GetOnNode(Vec<u8>, bool),
    /// Publishes a port under the name of a service.
    Publish(Vec<u8>, Vec<u8>),
    /// Requests the port of a service.
    Lookup(Vec<u8>),
    /// Withdraws a service.
    Unpublish(Vec<u8>),
    /// Starts a job.
    Spawn(Spawn),
    /// Terminates the job with an exit code. It has no reply.
    Abort(i32, Vec<u8>),
    /// Ends the use of PMI.
    Finalize,
    /// A command that this project does not know.
    Unknown(String),
}

/// The processes that take part in a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// All processes of the job.
    World,
    /// The processes of the job on this node.
    Node,
    /// Processes by rank.
    Ranks(Vec<u32>),
}

/// Keys with their values.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A job to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spawn {
    /// The applications.
    pub applications: Vec<Application>,
    /// Values that the processes of the job can get.
    pub preput: Pairs,
}

/// An application of a job to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// The program.
    pub program: Vec<u8>,
    /// Its arguments, without the program.
    pub args: Vec<Vec<u8>>,
    /// The number of processes.
    pub num_procs: u32,
    /// The infos of `MPI_Comm_spawn`, for example `wdir`.
    pub infos: Pairs,
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for a command that is not known, or whose attributes are missing or invalid.
    pub fn read(command: &Command) -> Result<(Self, Ticket), Error> {
        let (kind, request) = match command.wire {
            Wire::V1 => first(command),
            Wire::V2 => second(command),
        }?;
        let tag = match &request {
            Self::Barrier => Some(0),
            Self::GroupBarrier(_, tag) => Some(*tag),
            _ => None,
        };
        let ticket = Ticket {
            wire: command.wire,
            kind,
            thread: command.value("thrid").map(<[u8]>::to_vec),
            tag,
            unknown: match &request {
                Self::Unknown(name) => Some(name.clone()),
                _ => None,
            },
        };
        Ok((request, ticket))
    }
}

/// Reads a request of PMI-1.
fn first(command: &Command) -> Result<(Kind, Request), Error> {
    let value = |key: &str| required(command, key);
    Ok(match command.name.as_str() {
        "init" => {
            let version = number(command, "pmi_version")?;
            let minor = number(command, "pmi_subversion")?;
            (Kind::Init(version), Request::Init(version, minor))
        }
        "initack" => {
            let id = number(command, "pmiid")?;
            (Kind::Identify, Request::Identify(Some(id)))
        }
        "get_maxes" => (Kind::Limits, Request::Limits),
        "get_appnum" => (Kind::AppNumber, Request::AppNumber),
        "get_my_kvsname" => (Kind::JobName, Request::JobName),
        "get_universe_size" => (Kind::UniverseSize, Request::UniverseSize),
        "put" => (Kind::Put, Request::Put(value("key")?, value("value")?)),
        "get" => {
            let job = command.value("kvsname").map(<[u8]>::to_vec);
            (Kind::Get, Request::Get(job, value("key")?))
        }
        "barrier_in" => match command.value("group") {
            None => (Kind::Barrier, Request::Barrier),
            Some(value) => {
                let (group, tag) = group(value)?;
                (Kind::Barrier, Request::GroupBarrier(group, tag))
            }
        },
        "publish_name" => {
            let request = Request::Publish(value("service")?, value("port")?);
            (Kind::Publish, request)
        }
        "lookup_name" => (Kind::Lookup, Request::Lookup(value("service")?)),
        "unpublish_name" => (Kind::Unpublish, Request::Unpublish(value("service")?)),
        "spawn" => (Kind::Spawn, Request::Spawn(spawn(command, &SPAWN_1)?)),
        "abort" => (Kind::Abort, abort(command)),
        "finalize" => (Kind::Finalize, Request::Finalize),
        name => unknown(name),
    })
}

/// Reads a request of PMI-2.
fn second(command: &Command) -> Result<(Kind, Request), Error> {
    let value = |key: &str| required(command, key);
    Ok(match command.name.as_str() {
        "fullinit" => {
            // MPICH and Hydra call it the rank, Slurm's client the source. Both have the value of `PMI_ID`.
            let mut names = ["srcid", "pmirank"].into_iter();
            let name = names.find(|name| command.value(name).is_some());
            let id = name.map(|name| number(command, name));
            (Kind::Identify, Request::Identify(id.transpose()?))
        }
        "job-getid" => (Kind::JobName, Request::JobName),
        "kvs-put" => (Kind::Put, Request::Put(value("key")?, value("value")?)),
        "kvs-get" => {
            let job = command.value("jobid").filter(|job| !job.is_empty());
            let job = job.map(<[u8]>::to_vec);
            (Kind::Get, Request::Get(job, value("key")?))
        }
        // Threads of PMI-2 make requests at the same time.
        "kvs-fence" => (Kind::Barrier, Request::GroupBarrier(Group::World, 0)),
        "info-putnodeattr" => {
            let request = Request::PutOnNode(value("key")?, value("value")?);
            (Kind::PutOnNode, request)
        }
        "info-getnodeattr" => {
            let waits = command.value("wait") == Some(b"TRUE");
            (Kind::GetOnNode, Request::GetOnNode(value("key")?, waits))
        }
        "info-getjobattr" => match value("key")?.as_slice() {
            b"universeSize" => (Kind::GetOfJob, Request::UniverseSize),
            key => (Kind::GetOfJob, Request::Get(None, key.to_vec())),
        },
        "name-publish" => {
            let request = Request::Publish(value("name")?, value("port")?);
            (Kind::Publish, request)
        }
        "name-lookup" => (Kind::Lookup, Request::Lookup(value("name")?)),
        "name-unpublish" => (Kind::Unpublish, Request::Unpublish(value("name")?)),
        "spawn" => (Kind::Spawn, Request::Spawn(spawn(command, &SPAWN_2)?)),
        "abort" => (Kind::Abort, abort(command)),
        "finalize" => (Kind::Finalize, Request::Finalize),
        name => unknown(name),
    })
}

/// Returns the request of a command that a newer client may send.
fn unknown(name: &str) -> (Kind, Request) {
    let name = name.chars().take(64).collect();
    (Kind::Unknown, Request::Unknown(name))
}

/// Returns the value of an attribute that must exist.
fn required(command: &Command, key: &str) -> Result<Vec<u8>, Error> {
    let value = command.value(key);
    let value = value.ok_or_else(|| lacks(&command.name, key))?;
    Ok(value.to_vec())
}

fn lacks(command: &str, key: &str) -> Error {
    Error::malformed(format!("the PMI command {command} has no {key}"))
}

/// Returns the number in an attribute that must exist.
fn number(command: &Command, key: &str) -> Result<u32, Error> {
    let value = command.value(key);
    let value = value.ok_or_else(|| lacks(&command.name, key))?;
    parsed(value).ok_or_else(|| {
        let name = &command.name;
        Error::malformed(format!("{key} of the PMI command {name} is not a number"))
    })
}

fn parsed<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Reads the group of a barrier, `WORLD:5`, `NODE:5` or `0,2,3:5`.
fn group(value: &[u8]) -> Result<(Group, u32), Error> {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let (members, tag) = text.rsplit_once(':').unwrap_or((text, "0"));
    let invalid = || Error::malformed("the group of a PMI barrier is not WORLD, NODE or ranks");
    let tag = tag.parse().map_err(|_| invalid())?;
    let group = match members {
        "WORLD" => Group::World,
        "NODE" => Group::Node,
        ranks => {
            let ranks: Result<Vec<u32>, _> = ranks.split(',').map(str::parse).collect();
            Group::Ranks(ranks.map_err(|_| invalid())?)
        }
    };
    Ok((group, tag))
}

/// The names of the attributes of a spawn.
struct SpawnNames {
    program: &'static str,
    num_procs: &'static str,
    num_args: &'static str,
    arg: &'static str,
    first_arg: u32,
    num_infos: &'static str,
    info_key: &'static str,
    info_value: &'static str,
    num_preput: &'static str,
    preput_key: &'static str,
    preput_value: &'static str,
}

const SPAWN_1: SpawnNames = SpawnNames {
    program: "execname",
    num_procs: "nprocs",
    num_args: "argcnt",
    arg: "arg",
    first_arg: 1,
    num_infos: "info_num",
    info_key: "info_key_",
    info_value: "info_val_",
    num_preput: "preput_num",
    preput_key: "preput_key_",
    preput_value: "preput_val_",
};

const SPAWN_2: SpawnNames = SpawnNames {
    program: "subcmd",
    num_procs: "maxprocs",
    num_args: "argc",
    arg: "argv",
    first_arg: 0,
    num_infos: "infokeycount",
    info_key: "infokey",
    info_value: "infoval",
    num_preput: "preputcount",
    preput_key: "ppkey",
    preput_value: "ppval",
};

fn spawn(command: &Command, names: &SpawnNames) -> Result<Spawn, Error> {
    let mut spawn = Spawn::default();
    // PMI-1 has the preput values among the attributes of the first application, PMI-2 before it.
    let general = std::iter::once(&command.attributes).chain(command.sections.first());
    for attributes in general {
        let num = count(attributes, names.num_preput)?;
        let preput = pairs(attributes, num, names.preput_key, names.preput_value)?;
        spawn.preput.extend(preput);
    }
    for section in &command.sections {
        let required = |key: &str| find(section, key).ok_or_else(|| lacks("spawn", key));
        let num_procs = parsed(required(names.num_procs)?);
        let num_procs = num_procs.ok_or_else(|| lacks("spawn", names.num_procs))?;
        let args = indexed(section, names.arg, names.first_arg);
        let num_args = count(section, names.num_args)?;
        let num_infos = count(section, names.num_infos)?;
        spawn.applications.push(Application {
            program: required(names.program)?.to_vec(),
            args: args.take(num_args).map(<[u8]>::to_vec).collect(),
            num_procs,
            infos: pairs(section, num_infos, names.info_key, names.info_value)?,
        });
    }
    match spawn.applications.is_empty() {
        true => Err(Error::malformed("a PMI spawn has no application")),
        false => Ok(spawn),
    }
}

/// Returns a number of attributes, or 0 if it is missing.
fn count(attributes: &[Attribute], key: &str) -> Result<usize, Error> {
    let Some(value) = find(attributes, key) else {
        return Ok(0);
    };
    let count = parsed(value).filter(|count| *count <= attributes.len());
    count.ok_or_else(|| Error::malformed(format!("{key} of a PMI spawn does not fit its lines")))
}

/// Returns the values of `NAME1`, `NAME2` and so on. Clients send them in this order.
fn indexed<'a>(
    attributes: &'a [Attribute],
    name: &'a str,
    first: u32,
) -> impl Iterator<Item = &'a [u8]> {
    let mut next = first;
    attributes.iter().filter_map(move |(key, value)| {
        let index: u32 = key.strip_prefix(name)?.parse().ok()?;
        let is_next = index == next;
        next += u32::from(is_next);
        is_next.then_some(value.as_slice())
    })
}

fn pairs(attributes: &[Attribute], num: usize, key: &str, value: &str) -> Result<Pairs, Error> {
    let keys = indexed(attributes, key, 0);
    let values = indexed(attributes, value, 0);
    let both = keys.zip(values).take(num);
    let pairs: Vec<_> = both
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect();
    match pairs.len() == num {
        true => Ok(pairs),
        false => Err(lacks("spawn", &format!("{key}{}", pairs.len()))),
    }
}

fn abort(command: &Command) -> Request {
    let code = command.value("exitcode").and_then(parsed).unwrap_or(1);
    let message = command.value("message").or_else(|| command.value("msg"));
    Request::Abort(code, message.unwrap_or_default().to_vec())
}

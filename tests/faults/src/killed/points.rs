// SPDX-License-Identifier: MIT OR Apache-2.0
//! The points at which a client is killed, and the code that brings it there.

use std::io::Write;
use std::net::TcpStream;

use bfrops::{Layout, Module};
use pmix_client::Uri;
use pmix_proto::{Request, Role, Tag, request};
use pmix_types::{App, DataRange, Info, Key, Proc, Rank, Status, Value, keys};

use crate::raw::{self, Peer};
use crate::server::me;

/// A point in the life of a client.
pub(crate) struct Point {
    pub(crate) name: &'static str,
    /// The requests of the other processes of the job at that point.
    pub(crate) others: Others,
    stage: Stage,
}

/// The requests of the other processes when the client is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    Nothing,
    /// All processes are in a fence of the job.
    Fence,
    /// One process is in a fence of the job.
    OneInFence,
    /// A get of data that the client puts.
    Data,
    /// A connect with the client.
    Connect,
}

/// The last step that a client completes.
enum Stage {
    /// The first bytes of the hello, at most all of them.
    Hello(usize),
    Welcomed,
    /// Half of a request is sent.
    Half(Ask),
    /// A request is sent.
    Asked(Ask),
    /// A reply to the request has arrived.
    Answered(Ask),
}

type Ask = fn(&str) -> Request<'static>;

const fn point(name: &'static str, others: Others, stage: Stage) -> Point {
    Point {
        name,
        others,
        stage,
    }
}

/// Every point.
pub(crate) const POINTS: &[Point] = &[
    point("connected", Others::Nothing, Stage::Hello(0)),
    point("hello-header", Others::Nothing, Stage::Hello(7)),
    point("hello-half", Others::Fence, Stage::Hello(40)),
    point("hello", Others::Nothing, Stage::Hello(usize::MAX)),
    point("welcomed", Others::Fence, Stage::Welcomed),
    point("job-info-half", Others::Nothing, Stage::Half(job_info)),
    point("job-info", Others::Nothing, Stage::Asked(job_info)),
    point("initialised", Others::Data, Stage::Answered(job_info)),
    point("commit-half", Others::Data, Stage::Half(commit)),
    point("commit", Others::Nothing, Stage::Asked(commit)),
    point("committed", Others::Fence, Stage::Answered(commit)),
    point("fence-first", Others::Nothing, Stage::Asked(fence)),
    point("fence-between", Others::OneInFence, Stage::Asked(fence)),
    point("fence-half", Others::Fence, Stage::Half(fence)),
    point("fence-last", Others::Fence, Stage::Asked(fence)),
    point(
        "fence-collecting",
        Others::OneInFence,
        Stage::Asked(collect),
    ),
    point("modex-asker", Others::Nothing, Stage::Asked(get_remote)),
    point("modex-target", Others::Data, Stage::Welcomed),
    point("publish", Others::Nothing, Stage::Asked(publish)),
    point("lookup", Others::Nothing, Stage::Asked(lookup)),
    point("events-registered", Others::Nothing, Stage::Asked(events)),
    point("notify", Others::Nothing, Stage::Asked(notify)),
    point("spawn", Others::Nothing, Stage::Asked(spawn)),
    point("connect", Others::Connect, Stage::Asked(connect)),
    point("abort", Others::Nothing, Stage::Asked(abort)),
    point("finalize", Others::Fence, Stage::Asked(finalize)),
];

impl Point {
    /// Returns the point with this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        POINTS.iter().find(|point| point.name == name)
    }

    /// Returns `true` if the server reports the death as a loss. A client that has not sent its whole hello yet, or has
    /// finalized, is not reported.
    pub(crate) fn is_missed(&self) -> bool {
        !matches!(self.stage, Stage::Hello(_)) && self.name != "finalize"
    }

    /// Brings rank 0 of a job to this point. The connection stays open as long as the returned stream.
    ///
    /// # Errors
    /// Returns a message if the point cannot be reached.
    pub(crate) fn reach(&self, uri: &Uri, job: &str) -> Result<TcpStream, String> {
        let fault = |e: std::io::Error| e.to_string();
        if let Stage::Hello(len) = self.stage {
            let proc = Proc::new(job.to_owned(), Rank::new(0));
            let credential = raw::credential(me());
            let layout = Layout::new(Module::V41);
            let hello = raw::hello(Role::CLIENT, Some(proc), &credential, layout);
            let hello = hello.encode().map_err(|e| e.to_string())?;
            let mut stream = raw::connect(uri.address).map_err(fault)?;
            let said = &hello[..len.min(hello.len())];
            stream.write_all(said).map_err(fault)?;
            return Ok(stream);
        }
        let mut peer = Peer::client(uri.address, job, 0, Layout::new(Module::V41))?;
        let (ask, is_half) = match self.stage {
            Stage::Half(ask) => (ask, true),
            Stage::Asked(ask) | Stage::Answered(ask) => (ask, false),
            _ => return Ok(peer.stream),
        };
        let tag = Tag(101);
        let frame = peer.request(tag, &ask(job))?;
        let len = if is_half {
            frame.len() / 2
        } else {
            frame.len()
        };
        peer.stream.write_all(&frame[..len]).map_err(fault)?;
        if let Stage::Answered(_) = self.stage {
            peer.reply(tag)?.ok_or("the server hung up")?;
        }
        Ok(peer.stream)
    }
}

/// Returns the wildcard name of the job.
pub(crate) fn all(job: &str) -> Proc<'static> {
    Proc::new(job.to_owned(), Rank::WILDCARD)
}

/// Returns the local processes of the job.
pub(crate) fn here(job: &str) -> Vec<Proc<'static>> {
    let proc = |rank| Proc::new(job.to_owned(), Rank::new(rank));
    (0..3).map(proc).collect()
}

fn job_info(_: &str) -> Request<'static> {
    Request::JobInfo
}

fn commit(_: &str) -> Request<'static> {
    // One block of scope "local" with a buffer that holds "card" = "x", as v41 packs them.
    const BLOCKS: &[u8] = b"\x02\x01\x02\x01\x0b\x02\x0acard\0\x03\x04x\0";
    Request::Commit(request::Commit { blocks: BLOCKS })
}

/// Returns a fence of the local processes.
pub(crate) fn fence(job: &str) -> Request<'static> {
    Request::Fence(request::Fence {
        procs: here(job),
        infos: Vec::new(),
    })
}

/// Returns a fence of the local processes that collects data.
pub(crate) fn collect(job: &str) -> Request<'static> {
    Request::Fence(request::Fence {
        procs: here(job),
        infos: vec![Info::new(keys::COLLECT_DATA, Value::Bool(true))],
    })
}

/// Returns a fence with a time limit in seconds.
pub(crate) fn fence_within(job: &str, seconds: i32) -> Request<'static> {
    Request::Fence(request::Fence {
        procs: here(job),
        infos: vec![Info::new(keys::TIMEOUT, seconds)],
    })
}

/// Returns a get of data that a process puts.
pub(crate) fn get(job: &str, rank: u32) -> Request<'static> {
    Request::Get(request::Get {
        nspace: job.to_owned().into(),
        rank: Rank::new(rank),
        infos: Vec::new(),
        key: Some(Key::from("card")),
    })
}

/// Returns a get of data of a process on another node.
pub(crate) fn get_remote(job: &str) -> Request<'static> {
    get(job, 3)
}

pub(crate) fn publish(_: &str) -> Request<'static> {
    Request::Publish(request::Publish {
        uid: me().0,
        infos: vec![Info::new("service", "here")],
    })
}

pub(crate) fn lookup(_: &str) -> Request<'static> {
    Request::Lookup(request::Lookup {
        uid: me().0,
        keys: vec![Key::from("service")],
        infos: vec![Info::new(keys::WAIT, Value::Bool(true))],
    })
}

fn events(_: &str) -> Request<'static> {
    Request::RegisterEvents(request::RegisterEvents {
        codes: vec![Status::ERR_PROC_ABORTED],
        infos: Vec::new(),
    })
}

pub(crate) fn notify(_: &str) -> Request<'static> {
    Request::Notify(request::Notify {
        status: Status::ERR_PROC_ABORTED,
        range: DataRange::GLOBAL,
        infos: Vec::new(),
    })
}

pub(crate) fn spawn(_: &str) -> Request<'static> {
    let app = App {
        cmd: Some("true".into()),
        maxprocs: 1,
        ..App::default()
    };
    Request::Spawn(request::Spawn {
        infos: Vec::new(),
        apps: vec![app],
    })
}

pub(crate) fn connect(job: &str) -> Request<'static> {
    Request::Connect(request::Connect {
        procs: here(job),
        infos: Vec::new(),
        shared: Vec::new(),
    })
}

pub(crate) fn abort(job: &str) -> Request<'static> {
    Request::Abort(request::Abort {
        status: Status::from_raw(7),
        message: Some("enough".into()),
        procs: vec![all(job)],
    })
}

fn finalize(_: &str) -> Request<'static> {
    Request::Finalize
}

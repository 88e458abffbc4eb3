// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a server says that lies, and what a client is to make of it.

use std::io::Write as _;
use std::time::Duration;

use bfrops::{Encoder, Layout, Module, wire_type};
use pmix_proto::{Event, Header, PeerForm, Tag, reply};
use pmix_types::{Key, Kval, Proc, Rank, Status, Value, keys};

use super::{GRACE, PATIENCE, Told};

/// How many processes a blob each is told of, and how many keys the job has that nobody knows.
const BLOBS: usize = 80_000;
const KEYS: usize = 200_000;

/// How many events come before an answer.
const EVENTS: usize = 400_000;

/// What a client may hold beside what it was told, in KiB.
const OWN: u64 = 64 << 10;

/// One lie.
pub(super) struct Lie {
    pub(super) name: &'static str,
    /// What the server says of the job.
    pub(super) told: Vec<Kval<'static>>,
    /// What it answers to a get.
    pub(super) answer: Answer,
    /// The status of that get.
    status: Status,
    /// The most memory that the client may have, in KiB.
    most: u64,
}

/// An answer to a get.
pub(super) enum Answer {
    /// This value, which the peer put.
    Object(Value<'static>),
    /// The head of a message of so many bytes, and nothing more.
    Huge(u32),
    /// So many events, or events without end, and then this value.
    Events {
        count: Option<usize>,
        and_then: Option<Value<'static>>,
    },
    /// Nothing.
    Silence,
}

impl Lie {
    fn of_job(name: &'static str, told: Vec<Kval<'static>>, most: u64) -> Self {
        Self {
            name,
            told,
            answer: Answer::Object(Value::from("text")),
            status: Status::SUCCESS,
            most,
        }
    }

    fn of_get(name: &'static str, answer: Answer, status: Status, most: u64) -> Self {
        Self {
            name,
            told: Vec::new(),
            answer,
            status,
            most,
        }
    }

    /// The time limit of a client of ours; one of C has none.
    pub(super) fn time_limit(&self) -> Duration {
        match self.takes_the_time_limit() {
            true => Duration::from_secs(1),
            false => PATIENCE,
        }
    }

    /// Whether a client gives up when its time is over.
    pub(super) fn takes_the_time_limit(&self) -> bool {
        self.status == Status::ERR_TIMEOUT
    }

    /// Whether a client made of it what it is to make of it.
    pub(super) fn check(&self, told: &Told) -> Result<(), String> {
        let limit = self.time_limit() + GRACE;
        if told.begun != Status::SUCCESS {
            return Err(format!("init ended with {:?}", told.begun));
        }
        if told.got != self.status {
            return Err(format!("the get ended with {:?}", told.got));
        }
        if told.peak > self.most {
            return Err(format!("{} KiB, more than {}", told.peak, self.most));
        }
        if told.took > limit {
            return Err(format!("it took {:?}, more than {limit:?}", told.took));
        }
        Ok(())
    }
}

/// Each lie, of this share of the largest size.
///
/// # Errors
/// One cannot be made.
pub(super) fn all(share: usize) -> Result<Vec<Lie>, String> {
    let fault = |e: bfrops::Error| e.to_string();
    let blobs: Result<Vec<_>, _> = (0..BLOBS / share).map(blob).collect();
    let key = |number: usize| kval(format!("key{number}"), Value::Uint32(7));
    let map = |form: &str| {
        vec![
            kval(keys::NODE_MAP, Value::from("n0")),
            kval(
                keys::PROC_MAP,
                Value::from(form.replace("RANKS", "0-134217727")),
            ),
        ]
    };
    let stream = compressed_zeros().map_err(|e| e.to_string())?;
    let string = |claimed: u32| {
        let bytes = [&claimed.to_ne_bytes()[..], &stream].concat();
        Answer::Object(Value::CompressedString(bytes.into()))
    };
    let text = || Some(Value::from("text"));
    Ok(vec![
        Lie::of_job("blobs of processes", blobs.map_err(fault)?, 2 * OWN),
        Lie::of_job("plain keys", (0..KEYS / share).map(key).collect(), 2 * OWN),
        Lie::of_job("a list of 134 million ranks", map("RANKS"), OWN),
        Lie::of_job("a map of 134 million ranks", map("pmix[RANKS]"), OWN),
        Lie::of_job("a raw map of them", map("raw:RANKS"), OWN),
        Lie::of_get(
            "a string of 4 MB that becomes 4 GB",
            string(u32::MAX),
            Status::ERR_OUT_OF_RESOURCE,
            OWN,
        ),
        // What cannot be made whole again stays as it is.
        Lie::of_get(
            "one that claims to become 1 MB",
            string(1 << 20),
            Status::SUCCESS,
            OWN,
        ),
        Lie::of_get(
            "a reply of 4 GB",
            Answer::Huge(u32::MAX),
            Status::ERR_OUT_OF_RESOURCE,
            OWN,
        ),
        Lie::of_get(
            "events before the answer",
            Answer::Events {
                count: Some(EVENTS / share),
                and_then: text(),
            },
            Status::SUCCESS,
            OWN,
        ),
        Lie::of_get(
            "events without end",
            Answer::Events {
                count: None,
                and_then: None,
            },
            Status::ERR_TIMEOUT,
            OWN,
        ),
        Lie::of_get("silence", Answer::Silence, Status::ERR_TIMEOUT, OWN),
    ])
}

fn kval(key: impl Into<Key<'static>>, value: Value<'static>) -> Kval<'static> {
    Kval {
        key: key.into(),
        value,
    }
}

/// What a server says of a process: its rank and the number of its application.
fn blob(rank: usize) -> Result<Kval<'static>, bfrops::Error> {
    let rank = u32::try_from(rank).unwrap_or(u32::MAX);
    let mut bytes = Vec::new();
    // The layout that a client of this address asks for.
    let mut encoder = Encoder::new(Layout::new(Module::V41), &mut bytes);
    encoder.one::<wire_type::Rank>(&Rank::new(rank))?;
    encoder.one::<wire_type::Kval>(&kval(keys::APPNUM, Value::Uint32(rank)))?;
    Ok(kval(keys::PROC_BLOB, Value::ByteObject(bytes.into())))
}

/// A zlib stream of 4 MB that stands for 4 GB of zeros.
fn compressed_zeros() -> std::io::Result<Vec<u8>> {
    const PART: usize = 16 << 20;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0; PART];
    encoder.write_all(&zeros)?;
    encoder.flush()?;
    let head = encoder.get_ref().len();
    encoder.write_all(&zeros)?;
    encoder.flush()?;
    // Each part that was flushed can be repeated.
    let part = encoder.get_ref().get(head..).unwrap_or_default().to_vec();
    let mut stream = encoder.get_ref().get(..head).unwrap_or_default().to_vec();
    (0..255).for_each(|_| stream.extend(&part));
    Ok(stream)
}

/// What a server says of the job.
pub(crate) fn job_info(form: &PeerForm, job: &str, told: &[Kval<'_>]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(form.layout, &mut out);
    let packed = encoder.one::<wire_type::String>(&Some(job.into()));
    packed.map_err(|e| e.to_string())?;
    let size = kval(keys::JOB_SIZE, Value::Uint32(2));
    for kval in [&size].into_iter().chain(told) {
        let packed = encoder.one::<wire_type::Kval>(kval);
        packed.map_err(|e| e.to_string())?;
    }
    Ok(out)
}

/// The reply to a get of rank 1: this value of the key "text".
pub(crate) fn object(
    form: &PeerForm,
    job: &str,
    value: &Value<'static>,
) -> Result<Vec<u8>, String> {
    let fault = |e: bfrops::Error| e.to_string();
    let proc = Proc::new(job.to_owned(), Rank::new(1));
    let mut object = Vec::new();
    let mut encoder = Encoder::new(form.layout, &mut object);
    encoder.one::<wire_type::Proc>(&proc).map_err(fault)?;
    let text = kval("text", value.clone());
    encoder.one::<wire_type::Kval>(&text).map_err(fault)?;
    let mut out = success(form)?;
    let mut encoder = Encoder::new(form.layout, &mut out);
    let packed = encoder.one::<wire_type::ByteObject>(&object.into());
    packed.map_err(fault)?;
    Ok(out)
}

/// The status of what went well.
pub(crate) fn success(form: &PeerForm) -> Result<Vec<u8>, String> {
    reply::status(form, Status::SUCCESS).map_err(|e| e.to_string())
}

/// The head of a frame with a payload of so many bytes.
pub(crate) fn head(tag: Tag, len: u32) -> Vec<u8> {
    Header::new(0, tag, len).encode().to_vec()
}

/// A frame with this payload.
pub(crate) fn frame(tag: Tag, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    [&head(tag, len)[..], payload].concat()
}

/// The frame of an event.
pub(crate) fn event(form: &PeerForm, job: &str) -> Result<Vec<u8>, String> {
    let event = Event {
        status: Status::ERR_PROC_ABORTED,
        source: Proc::new(job.to_owned(), Rank::new(1)),
        infos: Vec::new(),
        range: None,
    };
    let payload = event.encode(form, None).map_err(|e| e.to_string())?;
    Ok(frame(Tag::EVENT, &payload))
}

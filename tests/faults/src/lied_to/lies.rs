// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lies of a server, and the result that a client must give.

use std::io::Write as _;
use std::time::Duration;

use bfrops::{Encoder, Layout, Module, wire_type};
use pmix_proto::{Event, Header, PeerForm, Tag, reply};
use pmix_types::{Key, Kval, Proc, Rank, Status, Value, keys};

use super::{GRACE, PATIENCE, Told};

/// The number of processes with a blob in the job info, and the number of unknown keys of the job.
const BLOBS: usize = 80_000;
const KEYS: usize = 200_000;

/// The number of events before a reply.
const EVENTS: usize = 400_000;

/// The limit of a client's memory beyond the data that it received, in KiB.
const OWN: u64 = 64 << 10;

/// A lie of a server.
pub(super) struct Lie {
    pub(super) name: &'static str,
    /// The job info that the server sends.
    pub(super) told: Vec<Kval<'static>>,
    /// The reply to a get.
    pub(super) answer: Answer,
    /// The status with which the get must end.
    status: Status,
    /// The limit of the client's memory, in KiB.
    most: u64,
}

/// A reply to a get.
pub(super) enum Answer {
    /// A value, as if the peer had put it.
    Object(Value<'static>),
    /// The header of a message of this size, without its payload.
    Huge(u32),
    /// This many events (`None` for events without end), and then the value.
    Events {
        count: Option<usize>,
        and_then: Option<Value<'static>>,
    },
    /// No reply.
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

    /// Returns the time limit of a client of ours. A C client has none.
    pub(super) fn time_limit(&self) -> Duration {
        match self.takes_the_time_limit() {
            true => Duration::from_secs(1),
            false => PATIENCE,
        }
    }

    /// Returns `true` if the client must end by its time limit.
    pub(super) fn takes_the_time_limit(&self) -> bool {
        self.status == Status::ERR_TIMEOUT
    }

    /// Checks the client's report against the expected result.
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

/// Returns all lies, scaled down by `share`.
///
/// # Errors
/// Returns a message if a lie cannot be packed.
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
        // A client returns compressed data unchanged if it cannot be restored.
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

/// Returns the job info of a process: its rank and the number of its application.
fn blob(rank: usize) -> Result<Kval<'static>, bfrops::Error> {
    let rank = u32::try_from(rank).unwrap_or(u32::MAX);
    let mut bytes = Vec::new();
    // The module that the client's hello requests.
    let mut encoder = Encoder::new(Layout::new(Module::V41), &mut bytes);
    encoder.one::<wire_type::Rank>(&Rank::new(rank))?;
    encoder.one::<wire_type::Kval>(&kval(keys::APPNUM, Value::Uint32(rank)))?;
    Ok(kval(keys::PROC_BLOB, Value::ByteObject(bytes.into())))
}

/// Returns a zlib stream of 4 MB that decompresses to 4 GB of zeros.
fn compressed_zeros() -> std::io::Result<Vec<u8>> {
    const PART: usize = 16 << 20;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0; PART];
    encoder.write_all(&zeros)?;
    encoder.flush()?;
    let head = encoder.get_ref().len();
    encoder.write_all(&zeros)?;
    encoder.flush()?;
    // The part can be repeated: a flush ends it at a byte boundary, and its back references copy only zeros.
    let part = encoder.get_ref().get(head..).unwrap_or_default().to_vec();
    let mut stream = encoder.get_ref().get(..head).unwrap_or_default().to_vec();
    (0..255).for_each(|_| stream.extend(&part));
    Ok(stream)
}

/// Packs the job info.
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

/// Packs the reply to a get of rank 1, with this value for the key "text".
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

/// Packs a status reply of success.
pub(crate) fn success(form: &PeerForm) -> Result<Vec<u8>, String> {
    reply::status(form, Status::SUCCESS).map_err(|e| e.to_string())
}

/// Returns the header of a frame with a payload of `len` bytes.
pub(crate) fn head(tag: Tag, len: u32) -> Vec<u8> {
    Header::new(0, tag, len).encode().to_vec()
}

/// Returns a frame with this payload.
pub(crate) fn frame(tag: Tag, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    [&head(tag, len)[..], payload].concat()
}

/// Returns the frame of an event.
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

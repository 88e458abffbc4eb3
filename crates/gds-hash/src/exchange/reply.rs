// SPDX-License-Identifier: MIT OR Apache-2.0
//! The job info in the reply to a client that connects.
//!
//! | part | call | content |
//! | --- | --- | --- |
//! | nspace | `PMIX_STRING` | name of the job |
//! | job | `PMIX_KVAL` each | stated and derived values of the job |
//! | session | `PMIX_KVAL` | `pmix.ssn.arr`: infos, the session number first |
//! | node | `PMIX_KVAL` each | `pmix.node.arr`: infos, name and number first |
//! | application | `PMIX_KVAL` each | `pmix.app.arr`: infos, the application number first |
//! | process | `PMIX_KVAL` each | `pmix.pblob`: a byte object with a call of `PMIX_PROC_RANK`, then `PMIX_KVAL` each |
//!
//! The form is that of the data store `hash`, which clients since 3.2 accept. Frozen: append only.
//!
//! A 4.2 client stops at the first `pmix` key that it does not know and loses the rest. So it
//! receives only keys of its release. Data that the client's module cannot unpack are not sent.
//!
//! Source: OpenPMIx, the component `gds/hash`, as its clients parse it.

mod nodes;
mod procs;
mod stated;

use std::borrow::Cow;
use std::sync::Arc;

use bfrops::{Encoder, Layout, Module, wire_type};
use pmix_types::{
    Attribute, DataArray, Info, Key, Kval, Rank, Release, Status, Text, Value, keys, memory,
};

use self::nodes::nested;
use self::procs::ProcForm;
use self::stated::NeverAsked;
use crate::job::{App, Maps, Nodes, ranks};
use crate::shared::{ArcSwap, OnceLock};
use crate::{Codec, Error, Job};

pub use self::stated::Remote;

/// The derived keys of a job that are sent. Encoded maps are not, because clients request them.
const OF_JOB: [&str; 5] = [
    keys::JOB_SIZE,
    keys::MAX_PROCS,
    keys::NUM_NODES,
    keys::NODE_LIST,
    keys::JOB_NUM_APPS,
];

/// The approximate number of bytes for a process. Memory for all processes is reserved at once, up
/// to 1 MiB.
const OF_ONE: usize = 160;

const MOST_AT_ONCE: usize = 1 << 20;

/// The bytes of memory of a node in an array of nodes: its array, plus an info for each name and
/// number.
const OF_NESTED: usize = 6 * size_of::<Info<'_>>();

/// The derived keys of an application.
const OF_APP: [&str; 4] = [
    keys::APP_SIZE,
    keys::APPLDR,
    keys::NUM_NODES,
    keys::NODE_LIST,
];

/// A cache of the packed job info of a job, with a reply for each kind of client. A reply is packed
/// on the first request of its kind.
///
/// An update of the job has a new cache. An existing reply is read without a lock. A request waits
/// only while a reply of its own kind is being packed.
///
/// ```
/// use bfrops::{Layout, Module};
/// use gds_hash::{LocalNode, Job, Remote, JobInfoReplies, Codec};
/// use pmix_types::{Info, Release, keys};
/// # let preg = pmix_builtin::open_preg(&preg_core::Params::default())?;
/// let infos = [Info::new(keys::NODE_MAP, "n00,n01"), Info::new(keys::PROC_MAP, "0,1;2,3")];
/// let job = Job::register(&preg, &LocalNode::new("n00"), "job@1", &infos)?;
/// let replies = JobInfoReplies::default();
/// let codec = Codec::new(Layout::new(Module::V41));
/// let first = replies.get(&job, &codec, Release::V5_0_11, Remote::Whole)?;
/// let second = replies.get(&job, &codec, Release::V5_0_11, Remote::Whole)?;
/// assert!(std::sync::Arc::ptr_eq(&first, &second));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct JobInfoReplies {
    /// The replies, one for each kind of client. There are few kinds.
    kinds: ArcSwap<Vec<Arc<Shared>>>,
}

/// A reply that all clients of a kind share.
#[derive(Debug)]
struct Shared {
    kind: Kind,
    /// The packed reply. An error is kept as well, because the job is immutable.
    reply: OnceLock<Result<Arc<Vec<u8>>, Error>>,
}

/// The kind of a client: the properties that distinguish replies.
type Kind = (Layout, Release, Remote);

impl JobInfoReplies {
    /// Returns the packed job info for clients of a release and layout.
    ///
    /// # Errors
    ///
    /// As for [`Job::reply`].
    pub fn get(
        &self,
        job: &Job,
        codec: &Codec<'_>,
        release: Release,
        remote: Remote,
    ) -> Result<Arc<Vec<u8>>, Error> {
        let shared = self.of_kind((codec.layout(), release, remote));
        let build = || job.reply(codec, release, remote).map(Arc::new);
        let reply = shared.reply.get_or_init(build).clone();
        if let Err(error) = &reply
            && error.status() == Status::ERR_NOMEM
        {
            // There may be memory when the next client of the kind connects.
            self.forget(&shared);
        }
        reply
    }

    /// Drops a reply, so that it is packed again for the next client of its kind.
    fn forget(&self, shared: &Arc<Shared>) {
        self.kinds.rcu(|kinds| {
            let others = kinds.iter().filter(|kind| !Arc::ptr_eq(kind, shared));
            Arc::new(others.cloned().collect::<Vec<_>>())
        });
    }

    fn of_kind(&self, kind: Kind) -> Arc<Shared> {
        let of_kind =
            |kinds: &[Arc<Shared>]| kinds.iter().find(|shared| shared.kind == kind).cloned();
        if let Some(shared) = of_kind(&self.kinds.load()) {
            return shared;
        }
        let mut shared = Arc::new(Shared {
            kind,
            reply: OnceLock::new(),
        });
        self.kinds.rcu(|kinds| match of_kind(kinds) {
            // Another client of this kind has added the reply meanwhile.
            Some(first) => {
                shared = first;
                Arc::clone(kinds)
            }
            None => Arc::new([&kinds[..], &[Arc::clone(&shared)]].concat()),
        });
        shared
    }

    /// Drops all replies. The caller does this after all clients have received theirs.
    pub fn clear(&self) {
        self.kinds.store(Arc::default());
    }
}

impl Job {
    /// Packs the job info for a client of a release, as the reply to `PMIX_REQ_CMD`.
    ///
    /// If the node of the server does not belong to the job, nothing is omitted.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_PACK_FAILURE` if the name of the job is too long for any client, `PMIX_ERR_NOMEM` if the process has no
    /// memory for the reply.
    pub fn reply(
        &self,
        codec: &Codec<'_>,
        release: Release,
        remote: Remote,
    ) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        let mut writer = self.writer(codec, release, remote, ProcForm::Blob, &mut out);
        writer.nspace()?;
        writer.all()?;
        Ok(out)
    }

    /// Packs the job info in the form of a reply to a get: calls of one `PMIX_KVAL` each, with an
    /// array `pmix.pdata` for each process. Nothing is omitted.
    ///
    /// Clients and servers receive this form when they request data of another job. Clients accept
    /// `pmix.pblob`, as in [`Self::reply`], only when they connect.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOMEM` if the process has no memory for it.
    pub fn kvals(&self, codec: &Codec<'_>, release: Release) -> Result<Vec<u8>, Error> {
        // Without the index and the table of repeated names, each lookup would search all blocks.
        if let Some(maps) = &self.nodes.maps {
            maps.prepare()?;
        }
        let mut out = Vec::new();
        self.writer(codec, release, Remote::Whole, ProcForm::Array, &mut out)
            .all()?;
        Ok(out)
    }

    fn writer<'r, 'o>(
        &'r self,
        codec: &'r Codec<'r>,
        release: Release,
        remote: Remote,
        proc_form: ProcForm,
        out: &'o mut Vec<u8>,
    ) -> Writer<'r, 'o>
    where
        'r: 'o,
    {
        let here = self.own_node().filter(|_| remote != Remote::Whole);
        let likely = usize::try_from(self.num_ranks())
            .unwrap_or(MOST_AT_ONCE)
            .saturating_mul(OF_ONE);
        // If this fails, the message grows as it is packed, and packing fails where it cannot grow.
        let _ = memory::reserve_exact(out, likely.min(MOST_AT_ONCE));
        Writer {
            job: self,
            codec,
            release,
            elsewhere: here.map(|here| RemoteNodes {
                here,
                remote,
                never_asked: NeverAsked::by(release),
            }),
            proc_form,
            encoder: codec.encoder(out),
        }
    }
}

struct Writer<'r, 'o> {
    job: &'r Job,
    codec: &'r Codec<'r>,
    release: Release,
    /// The remote nodes, if their data are sent only in part.
    elsewhere: Option<RemoteNodes>,
    proc_form: ProcForm,
    encoder: Encoder<'o>,
}

/// The nodes other than that of the server.
#[derive(Clone, Copy)]
struct RemoteNodes {
    /// The node of the server.
    here: u32,
    remote: Remote,
    never_asked: NeverAsked,
}

impl RemoteNodes {
    /// Returns `true` if the values of a node are sent.
    fn tells_node(&self, slot: u32) -> bool {
        slot == self.here || (self.remote == Remote::Places && self.never_asked.of_nodes)
    }
}

impl Writer<'_, '_> {
    /// Packs everything after the nspace.
    fn all(&mut self) -> Result<(), Error> {
        let apps = self.job.apps.values().map(|app| &app.nodes);
        for nodes in [&self.job.nodes, &self.job.session.nodes]
            .into_iter()
            .chain(apps)
        {
            nodes.maps.as_ref().map_or(Ok(()), Maps::prepare)?;
        }
        memory::check(self.most_bytes())?;
        self.job_values();
        self.session();
        self.nodes();
        self.apps();
        self.flat();
        self.procs();
        // Values that this client cannot unpack are omitted. If values are missing for lack of
        // memory, the reply must fail.
        match self.encoder.is_short() {
            true => Err(Error::new(
                Status::ERR_NOMEM,
                "the process has no memory left for the job info",
            )),
            false => Ok(()),
        }
    }

    /// Returns the maximum memory in bytes for values while they are packed. The message reserves
    /// its own memory.
    fn most_bytes(&self) -> usize {
        let job = self.job;
        let texts = |nodes: &Nodes| {
            let maps = nodes.maps.as_ref();
            maps.map_or(0, |maps| maps.nodes.text_len() + maps.procs.text_len())
        };
        // All nodes of a session or an application are in memory at the same time.
        let nested = |nodes: &Nodes| {
            let slots = usize::try_from(nodes.num_slots()).unwrap_or(usize::MAX);
            slots.saturating_mul(OF_NESTED) + texts(nodes) + nodes.values_bytes()
        };
        let apps = job.apps.values();
        let apps = apps.map(|app| app.values.measure() + nested(&app.nodes));
        let session = job.session.values.measure() + nested(&job.session.nodes);
        let old = match self.codec.layout().module <= Module::V21 {
            true => nested(&job.nodes),
            false => 0,
        };
        let all = [
            texts(&job.nodes),
            job.job.measure(),
            job.nodes.largest_bytes(),
            job.procs.largest_bytes(),
            session,
            old,
            apps.max().unwrap_or(0),
        ];
        all.into_iter().fold(0, usize::saturating_add)
    }

    fn nspace(&mut self) -> Result<(), Error> {
        let name = Some(Text::without_nul(self.job.nspace.as_bytes()));
        let packed = self.encoder.one::<wire_type::String>(&name);
        Ok(packed?)
    }

    fn job_values(&mut self) {
        for key in OF_JOB {
            let stated = self.job.job.plain(key.as_bytes()).is_some();
            if !stated && let Some(value) = self.job.derived_of_job(key) {
                self.value(Kval {
                    key: key.into(),
                    value,
                });
            }
        }
        let job = self.job;
        for info in job.job.infos() {
            self.value(Kval {
                key: info.key,
                value: info.value,
            });
        }
    }

    fn session(&mut self) {
        let session = &self.job.session;
        let mut infos: Vec<_> = session.values.infos().collect();
        infos.retain(|info| !info.key.is(keys::SESSION_ID));
        infos.extend(nested(self.job, &session.nodes));
        if infos.is_empty() && session.id.is_none() {
            return;
        }
        // Clients require a session number in the array. This number means that there is none.
        let id = session.id.unwrap_or(u32::MAX);
        infos.insert(0, Info::new(keys::SESSION_ID, id));
        self.array(keys::SESSION_INFO_ARRAY, infos);
    }

    fn apps(&mut self) {
        for (number, app) in &self.job.apps {
            let mut infos = self::app(self.job, *number, app);
            infos.extend(nested(self.job, &app.nodes));
            self.array(keys::APP_INFO_ARRAY, infos);
        }
    }

    fn array(&mut self, key: &'static str, infos: Vec<Info<'static>>) {
        let kval = |infos| Kval {
            key: Key::new(key),
            value: Value::DataArray(DataArray::Info(infos)),
        };
        let whole = kval(infos);
        if self.encoder.one::<wire_type::Kval>(&whole).is_ok() {
            return;
        }
        // Infos that this client cannot unpack are omitted. The others are sent.
        if let Value::DataArray(DataArray::Info(mut infos)) = whole.value {
            let codec = self.codec;
            infos.retain(|info| {
                codec
                    .pack(|encoder| encoder.one::<wire_type::Info>(info))
                    .is_ok()
            });
            let _ = self.encoder.one::<wire_type::Kval>(&kval(infos));
        }
    }

    /// Packs a job-level value, unless this client cannot unpack it.
    fn value(&mut self, kval: Kval<'_>) {
        if knows(self.release, &kval.key) {
            let _ = self.encoder.one::<wire_type::Kval>(&kval);
        }
    }
}

/// Returns the values of an application without its nodes, starting with its number.
fn app(job: &Job, number: u32, app: &App) -> Vec<Info<'static>> {
    let mut infos = vec![Info::new(keys::APPNUM, number)];
    let stated = app.values.infos();
    infos.extend(stated.filter(|info| !info.key.is(keys::APPNUM)));
    for key in OF_APP {
        let stated = app.values.plain(key.as_bytes()).is_some();
        if !stated && let Some(value) = job.derived_of_app(number, key) {
            infos.push(Info::new(key, value));
        }
    }
    infos
}

/// Returns `true` if a client of a release does not stop at a key.
fn knows(release: Release, key: &Key<'_>) -> bool {
    if release != Release::V4_2_2 || !key.is_reserved() {
        return true;
    }
    let key = key.as_text().as_str();
    key.is_some_and(|key| Attribute::by_key_in(release, key).is_some())
}

/// Returns the ranks of a slot, each with its index on the node.
fn ranks_of(job: &Job, slot: u32) -> impl Iterator<Item = (usize, Rank)> {
    let maps = job.nodes.maps.as_ref().into_iter();
    maps.flat_map(move |maps| ranks(maps, slot)).enumerate()
}

// Job information in a client: the infos with which a host would register the job.
//
// Source: PMIx Standard, chapter "Reserved Keys", for the arrays of each realm.

/// Converts the job information from a server into the infos with which a host would register the
/// job. Each `pmix.pblob` becomes a `pmix.pdata` array with the rank first. `pmix.mblob` is
/// omitted, because the arrays of nodes have the same content.
///
/// # Errors
///
/// Each damaged `pmix.pblob` causes an error with the status of the decoder and an offset in the
/// blob. The other data are valid.
pub fn job_infos<'a>(
    codec: &Codec<'a>,
    kvals: Vec<Kval<'a>>,
) -> impl Iterator<Item = Result<Info<'a>, Error>> {
    let kvals = kvals.into_iter();
    let kvals = kvals.filter(|kval| !kval.key.is(keys::MAP_BLOB));
    kvals.map(
        move |Kval { key, value }| match (key.is(keys::PROC_BLOB), value) {
            (true, Value::ByteObject(Cow::Borrowed(blob))) => proc_array(codec, blob),
            (_, value) => Ok(Info::new(key, value)),
        },
    )
}

/// The initial capacity of a process's array, in entries.
const FIRST_ENTRIES: usize = 4;

/// Decodes a blob of a process: a call of its rank, then a call of `PMIX_KVAL` for each datum.
fn proc_array<'a>(codec: &Codec<'a>, blob: &'a [u8]) -> Result<Info<'a>, Error> {
    let mut reader = codec.reader(blob);
    let rank: Rank = reader.one::<wire_type::Rank>()?;
    let mut entries = memory::list(FIRST_ENTRIES)?;
    entries.push(Info::new(keys::RANK, Value::Rank(rank)));
    while !reader.is_empty() {
        let kval = reader.one::<wire_type::Kval>()?;
        memory::reserve(&mut entries, 1)?;
        entries.push(Info::new(kval.key, kval.value));
    }
    let array = Value::DataArray(DataArray::Info(entries));
    Ok(Info::new(keys::PROC_DATA, array))
}

#[cfg(test)]
mod tests {
    use bfrops::{Layout, Module};
    use pmix_types::Release;

    use super::*;
    use crate::{Job, LocalNode, Remote};

    #[test]
    fn a_client_registers_the_job_that_the_server_registered() {
        let preg = pmix_builtin::open_preg(&preg_core::Params::default()).unwrap();
        let node = LocalNode::new("n0");
        let infos = [
            Info::new(keys::NODE_MAP, "n0,n1"),
            Info::new(keys::PROC_MAP, "0,1;2"),
            Info::new("app.note", "x"),
        ];
        let job = Job::register(&preg, &node, "job", &infos).unwrap();
        let codec = Codec::new(Layout::new(Module::V41));
        let reply = job.reply(&codec, Release::V5_0_11, Remote::Whole).unwrap();
        let mut reader = codec.reader(&reply);
        reader.one::<wire_type::String>().unwrap();
        let mut kvals = Vec::new();
        while !reader.is_empty() {
            kvals.push(reader.one::<wire_type::Kval>().unwrap());
        }
        kvals.push(Kval {
            key: keys::PROC_BLOB.into(),
            value: Value::ByteObject(Cow::Borrowed(&[0xff])),
        });
        let (read, mut errors) = (job_infos(&codec, kvals), Vec::new());
        let read: Vec<_> = read
            .filter_map(|info| info.map_err(|error| errors.push(error)).ok())
            .collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        let known = Job::register(&preg, &node, "job", &read).unwrap();
        for rank in [0, 1, 2, u32::MAX - 1] {
            for key in [keys::HOSTNAME, keys::LOCAL_RANK, keys::JOB_SIZE, "app.note"] {
                let of = crate::Request::new(Rank::new(rank), key);
                assert_eq!(known.get(&of).ok(), job.get(&of).ok(), "{rank} {key}");
            }
        }
    }
}

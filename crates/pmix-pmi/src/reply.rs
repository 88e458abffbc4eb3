// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies, and their text in the form of each protocol.
//!
//! Source: captured replies of Hydra to MPICH 5.0.2 and Intel MPI 2021.18; the replies that Slurm's `libpmi2` reads.

use std::fmt::Write as _;

use crate::wire::Wire;

/// The largest lengths of names, keys and values, those of Hydra. Clients have arrays of these sizes.
const MAX_NAME: usize = 256;
const MAX_KEY: usize = 64;
const MAX_VALUE: usize = 1024;

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Success without a value.
    Done,
    /// A failure with its reason.
    Failed(String),
    /// The limits, for [`Request::Limits`](crate::Request::Limits).
    Limits,
    /// A number.
    Number(i64),
    /// A name, or the value of a key.
    Value(Vec<u8>),
    /// The key has no value.
    Missing,
    /// The place of the process in its job, for [`Request::Identify`](crate::Request::Identify).
    Place {
        /// The rank of the process.
        rank: u32,
        /// The number of processes of the job.
        size: u32,
        /// The index of the application of the process.
        app: u32,
        /// The job that spawned this one.
        parent: Option<Vec<u8>>,
    },
}

/// The right to reply to one request. It has the form and the name of the request.
#[derive(Debug)]
#[must_use = "each request except an abort has a reply"]
pub struct Ticket {
    pub(crate) wire: Wire,
    pub(crate) kind: Kind,
    /// The thread that waits for the reply (PMI-2).
    pub(crate) thread: Option<Vec<u8>>,
    /// The number of the barrier (PMI-1.2).
    pub(crate) tag: Option<u32>,
    /// The name of a command that this project does not know.
    pub(crate) unknown: Option<String>,
}

/// The greatest length of a message of PMI-2, which is written in six characters.
const MAX_BODY: usize = 999_999;

/// The name of a request, which selects the name of the reply and of its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Init(u32),
    Identify,
    Limits,
    AppNumber,
    JobName,
    UniverseSize,
    Put,
    Get,
    Barrier,
    PutOnNode,
    GetOnNode,
    GetOfJob,
    Publish,
    Lookup,
    Unpublish,
    Spawn,
    Abort,
    Finalize,
    Unknown,
}

impl Kind {
    /// Returns the name of the reply.
    const fn reply(self, wire: Wire) -> &'static str {
        match (wire, self) {
            (_, Self::Init(_)) => "response_to_init",
            (Wire::V1, Self::Identify) => "initack",
            (Wire::V1, Self::Limits) => "maxes",
            (Wire::V1, Self::AppNumber) => "appnum",
            (Wire::V1, Self::JobName) => "my_kvsname",
            (Wire::V1, Self::UniverseSize) => "universe_size",
            (Wire::V1, Self::Put) => "put_result",
            (Wire::V1, Self::Barrier) => "barrier_out",
            (Wire::V1, Self::Publish) => "publish_result",
            (Wire::V1, Self::Lookup) => "lookup_result",
            (Wire::V1, Self::Unpublish) => "unpublish_result",
            (Wire::V1, Self::Spawn) => "spawn_result",
            (Wire::V1, Self::Finalize | Self::Abort) => "finalize_ack",
            (Wire::V1, _) => "get_result",
            (Wire::V2, Self::Identify) => "fullinit-response",
            (Wire::V2, Self::JobName) => "job-getid-response",
            (Wire::V2, Self::Put) => "kvs-put-response",
            (Wire::V2, Self::Get) => "kvs-get-response",
            (Wire::V2, Self::Barrier) => "kvs-fence-response",
            (Wire::V2, Self::PutOnNode) => "info-putnodeattr-response",
            (Wire::V2, Self::GetOnNode) => "info-getnodeattr-response",
            (Wire::V2, Self::Publish) => "name-publish-response",
            (Wire::V2, Self::Lookup) => "name-lookup-response",
            (Wire::V2, Self::Unpublish) => "name-unpublish-response",
            (Wire::V2, Self::Spawn) => "spawn-response",
            (Wire::V2, Self::Finalize | Self::Abort) => "finalize-response",
            (Wire::V2, _) => "info-getjobattr-response",
        }
    }

    /// Returns the names of the attributes that have the value of the reply.
    const fn value(self, wire: Wire) -> &'static [&'static str] {
        match (wire, self) {
            (Wire::V1, Self::JobName) => &["kvsname"],
            (Wire::V1, Self::Lookup) => &["port"],
            // MPICH reads the port, Slurm's client the value.
            (Wire::V2, Self::Lookup) => &["port", "value"],
            (Wire::V2, Self::JobName | Self::Spawn) => &["jobid"],
            (Wire::V1, Self::AppNumber) => &["appnum"],
            (Wire::V1, Self::UniverseSize) => &["size"],
            _ => &["value"],
        }
    }

    /// Returns `true` if the reply of PMI-2 states that the key was found.
    const fn is_get(self) -> bool {
        matches!(self, Self::Get | Self::GetOnNode | Self::GetOfJob)
    }
}

impl Ticket {
    /// Returns the text of the reply. An abort has none.
    #[must_use]
    pub fn reply(self, reply: &Reply) -> Vec<u8> {
        if self.kind == Kind::Abort {
            return Vec::new();
        }
        // Both protocols begin with a line of PMI-1.
        match (self.wire, self.kind) {
            (Wire::V2, kind) if !matches!(kind, Kind::Init(_)) => self.fields(reply),
            _ => self.line(reply),
        }
    }

    fn line(&self, reply: &Reply) -> Vec<u8> {
        // A line end would end the reply, and there is no escape for it.
        if matches!(reply, Reply::Value(value) if value.contains(&b'\n')) {
            let why = "the value has a line end, which PMI-1 cannot send";
            return self.line(&Reply::Failed(why.to_owned()));
        }
        let rc = match reply {
            Reply::Failed(_) | Reply::Missing => 1,
            _ => 0,
        };
        let name = match &self.unknown {
            Some(name) => name.as_str(),
            None => self.kind.reply(Wire::V1),
        };
        let mut head = format!("cmd={name} rc={rc}");
        let mut value = Vec::new();
        let mut tail = String::new();
        let written = match (reply, self.kind) {
            // A client of PMI-1 asks for 1.1 and uses barriers of groups if the reply has 1.2.
            (Reply::Failed(why), _) => {
                value = escaped(format!("msg={why}").as_bytes());
                Ok(())
            }
            (_, Kind::Init(2)) => write!(head, " pmi_version=2 pmi_subversion=0"),
            (_, Kind::Init(_)) => write!(head, " pmi_version=1 pmi_subversion=2"),
            (Reply::Limits, _) => write!(
                head,
                " kvsname_max={MAX_NAME} keylen_max={MAX_KEY} vallen_max={MAX_VALUE}"
            ),
            (Reply::Number(number), kind) => {
                write!(head, " {}={number}", kind.value(Wire::V1)[0])
            }
            (Reply::Value(bytes), kind) if kind != Kind::Spawn => {
                value = escaped(bytes);
                value.splice(..0, format!("{}=", kind.value(Wire::V1)[0]).into_bytes());
                Ok(())
            }
            (
                Reply::Place {
                    rank, size, app, ..
                },
                _,
            ) => {
                tail = format!("cmd=set size={size}\ncmd=set rank={rank}\ncmd=set debug=0\n");
                write!(head, " rank={rank} size={size} appnum={app} debug=0")
            }
            _ => Ok(()),
        };
        let tagged = self.tag.map_or(Ok(()), |tag| write!(head, " tag={tag}"));
        debug_assert!(written.and(tagged).is_ok(), "a string accepts all text");
        let mut line = head.into_bytes();
        if !value.is_empty() {
            line.push(b' ');
            line.extend(value);
        }
        line.push(b'\n');
        line.extend_from_slice(tail.as_bytes());
        line
    }

    fn fields(&self, reply: &Reply) -> Vec<u8> {
        let name = match &self.unknown {
            Some(name) => format!("{name}-response").into_bytes(),
            None => self.kind.reply(Wire::V2).as_bytes().to_vec(),
        };
        let mut fields: Vec<(&str, Vec<u8>)> = vec![("cmd", name)];
        if let Some(thread) = &self.thread {
            fields.push(("thrid", thread.clone()));
        }
        // A get states that the key was found; other requests have no success without a value.
        let is_failure = match reply {
            Reply::Failed(_) => true,
            Reply::Missing => !self.kind.is_get(),
            _ => false,
        };
        let rc = i32::from(is_failure);
        fields.push(("rc", rc.to_string().into_bytes()));
        let mut value = None;
        match reply {
            Reply::Failed(why) => fields.push(("errmsg", why.clone().into_bytes())),
            Reply::Number(number) => value = Some(number.to_string().into_bytes()),
            Reply::Value(bytes) => value = Some(bytes.clone()),
            Reply::Place {
                rank,
                size,
                app,
                parent,
            } => {
                for (key, number) in [
                    ("pmi-version", 2),
                    ("pmi-subversion", 0),
                    ("rank", *rank),
                    ("size", *size),
                    ("appnum", *app),
                ] {
                    fields.push((key, number.to_string().into_bytes()));
                }
                if let Some(parent) = parent {
                    fields.push(("spawner-jobid", parent.clone()));
                }
            }
            Reply::Done | Reply::Missing | Reply::Limits => {}
        }
        if self.kind.is_get() && rc == 0 {
            let found: &[u8] = if value.is_some() { b"TRUE" } else { b"FALSE" };
            fields.push(("found", found.to_vec()));
        }
        if let Some(value) = value {
            let keys = self.kind.value(Wire::V2);
            fields.extend(keys.iter().map(|key| (*key, value.clone())));
        }
        let mut body = Vec::new();
        for (key, value) in fields {
            body.extend_from_slice(key.as_bytes());
            body.push(b'=');
            for byte in value {
                // A semicolon ends a value unless it is doubled.
                body.extend(std::iter::repeat_n(byte, 1 + usize::from(byte == b';')));
            }
            body.push(b';');
        }
        if body.len() > MAX_BODY {
            return match reply {
                // A thread id that long is not from a client, and without its reply the client only waits.
                Reply::Failed(_) => Vec::new(),
                _ => self.fields(&Reply::Failed("the value is too long for PMI-2".to_owned())),
            };
        }
        let mut bytes = format!("{:6}", body.len()).into_bytes();
        bytes.extend(body);
        bytes
    }
}

/// Returns a value of PMI-1 with a backslash before each space and backslash, as clients since MPICH 4.1 read it. Older
/// clients end a value at a space in any case.
fn escaped(value: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| {
        let before = matches!(byte, b' ' | b'\\').then_some(b'\\');
        before.into_iter().chain(Some(match byte {
            // Only the reason of a failure has line ends.
            b'\n' => b' ',
            other => *other,
        }))
    };
    value.iter().flat_map(escape).collect()
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix hello`: a test process of a job.
//!
//! It makes the calls of a parallel program at its start: init, put, commit, fence, get for every
//! peer, finalize. It checks the data of every peer byte for byte.

use std::io::Write as _;
use std::time::{Duration, Instant};

use pmix_client::{Client, Error, Settings};
use pmix_types::{Info, Proc, Rank, Scope, Status, Value, keys};
use serde_json::json;

use crate::args::{Global, Hello};
use crate::failure::{Exit, Failure};
use crate::output::Out;
use crate::style::printable;

/// The key of the greeting.
const KEY: &str = "hello";

/// The report of a process.
struct Report {
    rank: Rank,
    size: u32,
    node: String,
    answered: u32,
    init: Duration,
    fences: Duration,
    gets: Duration,
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Hello) -> Result<Exit, Failure> {
    let mut settings = Settings::from_env().map_err(|error| not_started(&error))?;
    settings.time_limit = Some(args.timeout);
    let report = greet(settings, args)?;
    if !args.quiet {
        let line = match global.json {
            true => report.json(args).to_string(),
            false => report.line(args),
        };
        let mut out = Out::new();
        out.json_text(&line)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(Exit::Ok)
}

fn greet(settings: Settings, args: &Hello) -> Result<Report, Failure> {
    let start = Instant::now();
    let client = Client::init(settings)?;
    let init = start.elapsed();
    let own = client.proc().clone();
    let size = job_size(&client)?;
    let node = client.get(&own, keys::HOSTNAME, &[]).wait();
    client.put(Scope::GLOBAL, KEY, greeting(own.rank, args.bytes))?;
    client.commit()?;
    let collect = [Info::new(keys::COLLECT_DATA, !args.no_collect)];
    let infos = if args.no_collect { &[] } else { &collect[..] };
    let start = Instant::now();
    for _ in 0..args.fences {
        client.fence([], infos).wait()?;
    }
    let fences = start.elapsed();
    let start = Instant::now();
    let answered = ask_peers(&client, size, args)?;
    let gets = start.elapsed();
    client.finalize()?;
    Ok(Report {
        rank: own.rank,
        size,
        node: node.map_or_else(|_| "an unnamed node".to_owned(), |name| text(&name)),
        answered,
        init,
        fences,
        gets,
    })
}

/// Returns the number of processes of the job.
fn job_size(client: &Client) -> Result<u32, Failure> {
    let size = client.get_of_job(keys::JOB_SIZE).wait()?;
    let number = size.to_number::<u32>();
    number.map_err(|error| {
        let message = format!("{}: {error}", keys::JOB_SIZE);
        Failure::new(Exit::Negative, error.status(), message)
    })
}

/// Gets the data of the other processes, from the next rank on, and finally of this process.
fn ask_peers(client: &Client, size: u32, args: &Hello) -> Result<u32, Failure> {
    let own = client.proc().clone();
    let wanted = args.peers.unwrap_or(size).min(size);
    for step in 1..=wanted {
        let rank = u64::from(own.rank.as_raw()) + u64::from(step);
        let rank = Rank::new(u32::try_from(rank % u64::from(size)).unwrap_or_default());
        let peer = Proc::new(own.nspace.clone(), rank);
        let value = client.get(&peer, KEY, &[]).wait()?;
        if value != greeting(rank, args.bytes) {
            let found = value.data_type();
            let message =
                format!("the server returned {found} for rank {rank}, which that rank did not put");
            return Err(Failure::new(Exit::Negative, Status::ERR_BAD_PARAM, message));
        }
    }
    Ok(wanted)
}

/// Returns the value that a process puts: `len` bytes that are different for each rank.
fn greeting(rank: Rank, len: usize) -> Value<'static> {
    let name = rank.as_raw().to_le_bytes();
    let bytes: Vec<u8> = name.iter().copied().cycle().take(len).collect();
    Value::ByteObject(bytes.into())
}

fn text(value: &Value<'_>) -> String {
    match value {
        Value::String(Some(text)) => printable(text.as_bytes()),
        other => format!("a value of type {} instead of a name", other.data_type()),
    }
}

impl Report {
    /// Returns the report as a line of text.
    fn line(&self, args: &Hello) -> String {
        let Self {
            rank,
            size,
            node,
            answered,
            ..
        } = self;
        let peers = match answered {
            1 => "1 peer".to_owned(),
            number => format!("{number} peers"),
        };
        let fences = match args.fences {
            0 | 1 => String::new(),
            number => format!(
                ", {number} fences of {:.3} ms each",
                millis(self.fences / number)
            ),
        };
        format!("rank {rank} of {size} on {node}: {peers} replied{fences}")
    }

    /// Returns the report as JSON.
    fn json(&self, args: &Hello) -> serde_json::Value {
        json!({
            "rank": self.rank.as_raw(),
            "size": self.size,
            "node": self.node,
            "answered": self.answered,
            "fences": args.fences,
            "init_ms": rounded(self.init),
            "fences_ms": rounded(self.fences),
            "gets_ms": rounded(self.gets),
        })
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns seconds, rounded to the microsecond.
fn rounded(time: Duration) -> f64 {
    (millis(time) * 1e3).round() / 1e3
}

fn not_started(error: &Error) -> Failure {
    Failure::new(Exit::Usage, error.status(), error.to_string())
        .cure("start it with a launcher, for example `pmix run -n 4 pmix hello`")
}

impl From<Error> for Failure {
    /// Converts an error reply of the server, or a missing reply.
    fn from(error: Error) -> Self {
        let message = format!("{error} ({})", error.status());
        Self::new(Exit::Negative, error.status(), message)
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server that executes commands from standard input, one per line; the target of `cargo xtask faults`.
//!
//!     fault_host DIRECTORY [GREETING_MS [GREETINGS]]
//!
//! It writes the address of the server first. For each line of its standard input it writes `ok` and the result, or
//! `error` and the reason. It ends with its input. Its warnings go to standard error.
//!
//! | line | action |
//! | --- | --- |
//! | `job NAME PROCS HERE UID GID` | registers a job and its local processes |
//! | `forget NAME` | deregisters the job |
//! | `exited NAME RANK` | reports that a process has exited, whether or not it has connected |
//! | `modex NAME RANK` | requests the data of a process, as the server of another node would |
//! | `notify CODE` | notifies all processes of an event |
//! | `hold` | holds the replies to upcalls from now on |
//! | `release` | sends the held replies, and replies at once from now on |

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pmix_server::{Completion, Credential, Host, HostObject, Reply, Server, upcall};
use pmix_types::{DataRange, Info, Nspace, Pdata, Proc, Rank, Status, keys};

type Fault = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let logged = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(std::io::stderr)
        .with_ansi(false);
    logged.init();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fault_host: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Fault> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let directory = args.first().ok_or("which directory?")?;
    let number = |at: usize| {
        let word = args.get(at).filter(|word| !word.is_empty());
        word.map(|word| word.parse::<u64>()).transpose()
    };
    let serves_all = args.get(3).is_some_and(|word| word == "all-tools");
    let (time, most) = (number(1)?, number(2)?);
    let held = Held::default();
    let server = Server::builder()
        .host(held.clone())
        .hostname("n00")
        .server_tmpdir(directory)
        .system_tmpdir(directory)
        .tool_support(true)
        .session_support(true)
        .config(|config| {
            config.foreign_tools |= serves_all;
            if let Some(time) = time {
                config.handshake_time = Duration::from_millis(time);
            }
            if let Some(most) = most.and_then(|most| usize::try_from(most).ok()) {
                config.handshakes_per_user = most;
            }
        })
        .build()?;
    server.start()?;
    say(server.uri())?;
    for line in std::io::stdin().lock().lines() {
        match obey(&server, &held, &line?) {
            Ok(said) => say(&format!("ok {said}"))?,
            Err(error) => say(&format!("error {error}"))?,
        }
    }
    server.finalize()?;
    Ok(())
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn obey(server: &Server, held: &Held, line: &str) -> Result<String, Fault> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["job", name, procs, here, uid, gid] => {
            let user = (uid.parse()?, gid.parse()?);
            register(server, name, procs.parse()?, here.parse()?, user)?;
        }
        ["forget", name] => server.deregister_nspace(&Nspace::new((*name).to_owned()))?,
        ["exited", name, rank] => {
            let proc = Proc::new((*name).to_owned(), Rank::new(rank.parse()?));
            server.deregister_client(&proc)?;
        }
        ["modex", name, rank] => {
            let proc = Proc::new((*name).to_owned(), Rank::new(rank.parse()?));
            server.dmodex_request(&proc, &[], drop)?;
        }
        ["notify", code] => {
            let source = Proc::new("host", Rank::new(0));
            let status = Status::from_raw(code.parse()?);
            server.notify(status, &source, DataRange::GLOBAL, &[])?;
        }
        ["hold"] => drop(held.set(Some(Vec::new()))),
        ["release"] => return Ok(held.release().to_string()),
        _ => return Err(format!("{line:?} is nothing to do").into()),
    }
    Ok(String::new())
}

/// Registers a job. Its first processes are local, the others on a node that does not exist.
fn register(
    server: &Server,
    name: &str,
    num_procs: u32,
    num_here: u32,
    (uid, gid): (u32, u32),
) -> Result<(), Fault> {
    let ranks = |ranks: std::ops::Range<u32>| {
        let ranks: Vec<_> = ranks.map(|rank| rank.to_string()).collect();
        ranks.join(",")
    };
    let (here, there) = (ranks(0..num_here), ranks(num_here..num_procs));
    let (nodes, procs) = match num_here < num_procs {
        true => ("n00,n01", format!("{here};{there}")),
        false => ("n00", here),
    };
    let infos = [
        Info::new(keys::NODE_MAP, nodes),
        Info::new(keys::PROC_MAP, procs),
        Info::new(keys::UNIV_SIZE, num_procs),
    ];
    let nspace = Nspace::new(name.to_owned());
    server.register_nspace(&nspace, num_here, &infos)?;
    for rank in 0..num_here {
        let proc = Proc::new(nspace.clone(), Rank::new(rank));
        server.register_client(
            &proc,
            pmix_server::Credentials::new(uid, gid),
            HostObject(rank.into()),
        )?;
    }
    Ok(())
}

/// The postponed completions.
type Answers = Vec<Box<dyn FnOnce() + Send>>;

/// A host that completes requests on command, mostly with empty results.
#[derive(Clone, Default)]
struct Held(Arc<Mutex<Option<Answers>>>);

impl Held {
    fn set(&self, answers: Option<Answers>) -> Option<Answers> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut held, answers)
    }

    /// Completes the held requests. Returns their number.
    fn release(&self) -> usize {
        let answers = self.set(None).unwrap_or_default();
        let count = answers.len();
        answers.into_iter().for_each(|answer| answer());
        count
    }

    fn answer(&self, answer: impl FnOnce() + Send + 'static) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answers) = &mut *held {
            return answers.push(Box::new(answer));
        }
        drop(held);
        answer();
    }

    fn decline<T: Reply + 'static>(&self, done: Completion<T>) {
        self.answer(move || done.not_supported());
    }
}

macro_rules! declined {
    ($($name:ident($call:ident) -> $answer:ty;)*) => {
        $(fn $name(&self, _: upcall::$call, done: Completion<$answer>) {
            self.decline(done);
        })*
    };
}

impl Host for Held {
    fn client_connected(&self, _: upcall::ClientConnected, done: Completion<()>) {
        done.succeed(());
    }

    fn client_finalized(&self, _: upcall::ClientFinalized, done: Completion<()>) {
        done.succeed(());
    }

    /// Completes with the data of this node only, since the other node does not exist.
    fn fence(&self, call: upcall::Fence, done: Completion<Vec<u8>>) {
        self.answer(move || done.succeed(call.data));
    }

    declined! {
        abort(Abort) -> ();
        direct_modex(DirectModex) -> Vec<u8>;
        publish(Publish) -> ();
        lookup(Lookup) -> Vec<Pdata<'static>>;
        unpublish(Unpublish) -> ();
        spawn(Spawn) -> Nspace<'static>;
        connect(Connect) -> ();
        disconnect(Disconnect) -> ();
        register_events(RegisterEvents) -> ();
        notify_event(NotifyEvent) -> ();
        query(Query) -> Vec<Info<'static>>;
        tool_connected(ToolConnected) -> Proc<'static>;
        log(Log) -> ();
        allocate(Alloc) -> Vec<Info<'static>>;
        job_control(JobControl) -> Vec<Info<'static>>;
        monitor(Monitor) -> Vec<Info<'static>>;
        get_credential(GetCredential) -> Credential;
        group(Group) -> Vec<Info<'static>>;
    }
}

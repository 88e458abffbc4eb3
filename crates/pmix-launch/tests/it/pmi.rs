// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that use PMI-1 and PMI-2 beside processes that use PMIx.
#![allow(
    clippy::disallowed_methods,
    reason = "the environment names the service"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use pmix_client::{Client, Settings};
use pmix_launch::{Cause, Ending};
use pmix_types::{Proc, Rank, Scope, Value};

use crate::stage::play;

/// The connection of a process to the service.
struct Pmi {
    stream: BufReader<TcpStream>,
}

impl Pmi {
    fn connect() -> Self {
        let stream = TcpStream::connect(var("PMI_PORT")).unwrap();
        // A test must not wait forever.
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// Connects as the process with an id, up to the init of PMI-1.
    fn member(id: &str) -> Self {
        let mut pmi = Self::connect();
        let ack = pmi.ask(&format!("cmd=initack pmiid={id}"));
        let place = format!("rank={} size={}", var("PMI_RANK"), var("PMI_SIZE"));
        assert!(
            ack.starts_with("cmd=initack rc=0 ") && ack.contains(&place),
            "{ack}"
        );
        for name in ["size", "rank", "debug"] {
            let set = pmi.line();
            assert!(set.starts_with(&format!("cmd=set {name}=")), "{set}");
        }
        let init = pmi.ask("cmd=init pmi_version=1 pmi_subversion=1");
        assert_eq!(
            init,
            "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2"
        );
        pmi
    }

    fn own() -> Self {
        Self::member(&var("PMI_ID"))
    }

    fn send(&self, text: &str) {
        self.stream.get_ref().write_all(text.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, line: &str) -> String {
        self.send(&format!("{line}\n"));
        self.line()
    }

    /// Makes a request of PMI-2.
    fn ask_second(&mut self, body: &str) -> String {
        self.send(&format!("{:6}{body}", body.len()));
        let mut length = [0; 6];
        self.stream.read_exact(&mut length).unwrap();
        let length = String::from_utf8(length.to_vec()).unwrap();
        let mut reply = vec![0; length.trim().parse().unwrap()];
        self.stream.read_exact(&mut reply).unwrap();
        String::from_utf8(reply).unwrap()
    }

    /// Returns `true` if the service closes the connection.
    fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).is_ok()
    }
}

fn var(name: &str) -> String {
    std::env::var(name).unwrap()
}

/// Ranks 0 and 1 use PMI, rank 2 uses PMIx.
pub(crate) fn exchange(settings: Settings) {
    let job = settings.proc.nspace.clone();
    if settings.proc.rank == Rank::new(2) {
        let client = Client::init(settings).unwrap();
        client.put(Scope::GLOBAL, "card-2", "a b=c").unwrap();
        client.commit().unwrap();
        client.fence([], []).wait().unwrap();
        let of = |rank| Proc::new(job.clone(), Rank::new(rank));
        let card = client.get(&of(1), "card-1", &[]).wait().unwrap();
        assert_eq!(card, Value::from("one 1"));
        client.fence([], []).wait().unwrap();
        return client.finalize().unwrap();
    }
    let mut pmi = Pmi::own();
    let rank = var("PMI_RANK");
    assert_eq!(
        pmi.ask("cmd=get_maxes"),
        "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"
    );
    assert_eq!(pmi.ask("cmd=get_appnum"), "cmd=appnum rc=0 appnum=0");
    assert_eq!(
        pmi.ask("cmd=get_universe_size"),
        "cmd=universe_size rc=0 size=3"
    );
    assert_eq!(
        pmi.ask("cmd=get_my_kvsname"),
        format!("cmd=my_kvsname rc=0 kvsname={job}")
    );
    let value = if rank == "0" { "zero" } else { "one 1" };
    let put = format!("cmd=put kvsname={job} key=card-{rank} value={value}");
    assert_eq!(pmi.ask(&put), "cmd=put_result rc=0");
    assert_eq!(pmi.ask("cmd=barrier_in"), "cmd=barrier_out rc=0 tag=0");
    for (key, value) in [
        ("card-0", "zero"),
        ("card-1", "one\\ 1"),
        ("card-2", "a\\ b=c"),
        ("PMI_process_mapping", "(vector,(0,1,3))"),
    ] {
        let got = pmi.ask(&format!("cmd=get kvsname={job} key={key}"));
        assert_eq!(got, format!("cmd=get_result rc=0 value={value}"));
    }
    let missing = pmi.ask(&format!("cmd=get kvsname={job} key=missing"));
    assert_eq!(missing, "cmd=get_result rc=1");
    assert_eq!(
        pmi.ask("cmd=barrier_in group=WORLD:5"),
        "cmd=barrier_out rc=0 tag=5"
    );
    assert_eq!(
        pmi.ask("cmd=barrier_in group=0,1:7"),
        "cmd=barrier_out rc=0 tag=7"
    );
    if rank == "0" {
        let publish = pmi.ask("cmd=publish_name service=svc x port=port y");
        assert_eq!(publish, "cmd=publish_result rc=0");
    }
    assert_eq!(
        pmi.ask("cmd=barrier_in group=0,1:8"),
        "cmd=barrier_out rc=0 tag=8"
    );
    let lookup = pmi.ask("cmd=lookup_name service=svc x");
    assert_eq!(lookup, "cmd=lookup_result rc=0 port=port\\ y");
    assert_eq!(pmi.ask("cmd=finalize"), "cmd=finalize_ack rc=0");
    // MPI sessions use PMI again.
    assert!(
        pmi.ask("cmd=get_appnum")
            .starts_with("cmd=appnum rc=1 msg=")
    );
    let init = pmi.ask("cmd=init pmi_version=1 pmi_subversion=1");
    assert!(init.starts_with("cmd=response_to_init rc=0 "), "{init}");
    assert_eq!(pmi.ask("cmd=get_appnum"), "cmd=appnum rc=0 appnum=0");
    assert_eq!(pmi.ask("cmd=finalize"), "cmd=finalize_ack rc=0");
}

/// Two ranks of PMI-2.
pub(crate) fn second() {
    let mut pmi = Pmi::connect();
    let init = pmi.ask("cmd=init pmi_version=2 pmi_subversion=0");
    assert_eq!(
        init,
        "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0"
    );
    let (id, rank) = (var("PMI_ID"), var("PMI_RANK"));
    let name = if rank == "0" { "pmirank" } else { "srcid" };
    let full = pmi.ask_second(&format!("cmd=fullinit;{name}={id};threaded=FALSE;"));
    let unknown = pmi.ask_second("cmd=job-connect;thrid=9;jobid=other;");
    assert!(
        unknown.starts_with("cmd=job-connect-response;thrid=9;rc=1;errmsg="),
        "{unknown}"
    );
    let place = format!("rank={rank};size=2;appnum=0;");
    assert!(full.ends_with(&place) && full.contains("rc=0"), "{full}");
    let put = format!("cmd=kvs-put;thrid=7;key=k{rank};value=a;;{rank};");
    assert_eq!(pmi.ask_second(&put), "cmd=kvs-put-response;thrid=7;rc=0;");
    assert_eq!(
        pmi.ask_second("cmd=kvs-fence;"),
        "cmd=kvs-fence-response;rc=0;"
    );
    assert_eq!(
        pmi.ask_second("cmd=kvs-get;jobid=;srcid=-1;key=k1;"),
        "cmd=kvs-get-response;rc=0;found=TRUE;value=a;;1;"
    );
    if rank == "0" {
        let put = pmi.ask_second("cmd=info-putnodeattr;key=node;value=here;");
        assert_eq!(put, "cmd=info-putnodeattr-response;rc=0;");
    }
    assert_eq!(
        pmi.ask_second("cmd=info-getnodeattr;key=node;wait=TRUE;"),
        "cmd=info-getnodeattr-response;rc=0;found=TRUE;value=here;"
    );
    assert_eq!(
        pmi.ask_second("cmd=info-getjobattr;key=universeSize;"),
        "cmd=info-getjobattr-response;rc=0;found=TRUE;value=2;"
    );
    assert_eq!(
        pmi.ask_second("cmd=info-getjobattr;key=none;"),
        "cmd=info-getjobattr-response;rc=0;found=FALSE;"
    );
    assert_eq!(
        pmi.ask_second("cmd=finalize;"),
        "cmd=finalize-response;rc=0;"
    );
}

/// The only rank aborts the job and exits at once. A child of it holds its connection.
pub(crate) fn abort_alone() {
    let mut pmi = Pmi::own();
    assert!(
        pmi.ask("cmd=teleport")
            .starts_with("cmd=teleport rc=1 msg=")
    );
    let descriptor = pmi.stream.get_ref();
    rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::empty()).unwrap();
    std::process::Command::new("sleep")
        .arg("30")
        .spawn()
        .unwrap();
    pmi.send("cmd=abort exitcode=7 message=alone\n");
    std::process::exit(0);
}

/// Rank 0 waits in a barrier of a group, reads no replies until the service cannot write, leaves its connection to a
/// child, and exits.
pub(crate) fn unread() {
    let mut pmi = Pmi::own();
    if var("PMI_RANK") != "0" {
        let out = pmi.ask("cmd=barrier_in");
        assert!(out.starts_with("cmd=barrier_out rc=1 "), "{out}");
        return;
    }
    pmi.send("cmd=barrier_in group=0,2:5\n");
    let stream = pmi.stream.get_ref();
    stream.set_nonblocking(true).unwrap();
    let lines = "cmd=get_maxes\n".repeat(1000);
    let mut rest = Duration::from_millis(500);
    while !rest.is_zero() {
        if (&*stream).write_all(lines.as_bytes()).is_err() {
            // Neither side reads any more once this stays so.
            rest = rest.saturating_sub(Duration::from_millis(50));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    rustix::io::fcntl_setfd(stream, rustix::io::FdFlags::empty()).unwrap();
    std::process::Command::new("sleep")
        .arg("30")
        .spawn()
        .unwrap();
    std::process::exit(0);
}

/// More processes than the service accepts at once without knowing them.
pub(crate) fn many() {
    let mut pmi = Pmi::own();
    assert_eq!(pmi.ask("cmd=barrier_in"), "cmd=barrier_out rc=0 tag=0");
    assert_eq!(pmi.ask("cmd=finalize"), "cmd=finalize_ack rc=0");
}

/// Rank 1 aborts the job and exits at once.
pub(crate) fn abort() {
    let mut pmi = Pmi::own();
    if var("PMI_RANK") == "1" {
        pmi.send("cmd=abort exitcode=7 message=no more fuel\n");
        std::process::exit(0);
    }
    pmi.ask("cmd=barrier_in");
}

/// Rank 1 is killed while rank 0 waits for it.
pub(crate) fn lost() {
    let mut pmi = Pmi::own();
    if var("PMI_RANK") == "1" {
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
    }
    let out = pmi.ask("cmd=barrier_in");
    println!("{}", out.starts_with("cmd=barrier_out rc=1 "));
}

/// The only rank spawns two processes, and waits until they have found the value that it gives them.
pub(crate) fn spawn() {
    let mut pmi = Pmi::own();
    assert_eq!(var("PMI_SPAWNED"), "0");
    let program = std::env::current_exe().unwrap();
    let args = ["--exact", "actors::actor", "--ignored", "--nocapture"];
    let args: String = (1..)
        .zip(args)
        .map(|(n, arg)| format!("arg{n}={arg}\n"))
        .collect();
    pmi.send(&format!(
        "mcmd=spawn\nnprocs=2\nexecname={}\ntotspawns=1\nspawnssofar=1\nargcnt=4\n{args}\
         preput_num=1\npreput_key_0=PARENT\npreput_val_0=port 5\ninfo_num=1\ninfo_key_0=wdir\n\
         info_val_0=/\nendcmd\n",
        program.display()
    ));
    assert_eq!(pmi.line(), "cmd=spawn_result rc=0");
    assert_eq!(pmi.ask("cmd=finalize"), "cmd=finalize_ack rc=0");
}

/// A process of the spawned job.
pub(crate) fn spawned() {
    let mut pmi = Pmi::own();
    assert_eq!(
        (var("PMI_SPAWNED"), var("PMI_SIZE")),
        ("1".into(), "2".into())
    );
    assert_eq!(
        pmi.ask("cmd=get key=PARENT"),
        "cmd=get_result rc=0 value=port\\ 5"
    );
    assert_eq!(pmi.ask("cmd=barrier_in"), "cmd=barrier_out rc=0 tag=0");
    println!(
        "child {} in {}",
        var("PMI_RANK"),
        std::env::current_dir().unwrap().display()
    );
    assert_eq!(pmi.ask("cmd=finalize"), "cmd=finalize_ack rc=0");
}

/// Rank 0 sends what a client may not send. Rank 1 is not disturbed.
pub(crate) fn hostile() {
    if var("PMI_RANK") == "1" {
        let mut pmi = Pmi::own();
        assert_eq!(pmi.ask("cmd=barrier_in"), "cmd=barrier_out rc=0 tag=0");
        assert_eq!(pmi.ask("cmd=finalize"), "cmd=finalize_ack rc=0");
        return;
    }
    for bytes in ["hello\n", "cmd=put key=a\n", "\0\0\0\n"] {
        let mut pmi = Pmi::connect();
        pmi.send(bytes);
        assert!(pmi.is_closed(), "{bytes:?}");
    }
    // An endless line is refused before it takes much memory.
    let mut endless = Pmi::connect();
    let line = vec![b'x'; 1 << 20];
    let stream = endless.stream.get_ref();
    while (&*stream).write_all(&line).is_ok() {}
    assert!(endless.is_closed() || endless.stream.get_ref().shutdown(Shutdown::Both).is_err());
    // Requests before the process is known, and ids that no process has.
    for line in ["cmd=get key=a", "cmd=barrier_in", "cmd=initack pmiid=77"] {
        let mut pmi = Pmi::connect();
        let reply = pmi.ask(line);
        assert!(reply.contains(" rc=1 "), "{reply}");
    }
    // More connections without a process than the service accepts.
    let idle: Vec<_> = (0..100)
        .map(|_| TcpStream::connect(var("PMI_PORT")))
        .collect();
    drop(idle);
    let mut own = until_accepted();
    for name in ["size", "rank", "debug"] {
        assert!(own.line().starts_with(&format!("cmd=set {name}=")));
    }
    // A second connection cannot act for a process that is connected.
    let second = Pmi::connect().ask(&format!("cmd=initack pmiid={}", var("PMI_ID")));
    assert!(second.starts_with("cmd=initack rc=1 "), "{second}");
    assert_eq!(own.ask("cmd=barrier_in"), "cmd=barrier_out rc=0 tag=0");
    assert_eq!(own.ask("cmd=finalize"), "cmd=finalize_ack rc=0");
}

/// Connects as the own process, as soon as the service has dropped enough other connections.
fn until_accepted() -> Pmi {
    loop {
        let mut pmi = Pmi::connect();
        pmi.send("cmd=initack pmiid=");
        pmi.send(&format!("{}\n", var("PMI_ID")));
        let mut line = String::new();
        if pmi.stream.read_line(&mut line).is_ok_and(|len| len > 0) {
            assert!(line.starts_with("cmd=initack rc=0 "), "{line}");
            return pmi;
        }
    }
}

#[test]
fn processes_of_pmi_and_pmix_exchange_data() {
    let played = play("pmi_exchange", 3);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
}

#[test]
fn processes_of_pmi_2_exchange_data() {
    let played = play("pmi_second", 2);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
}

#[test]
fn an_abort_by_pmi_is_not_lost_when_the_process_exits() {
    let played = play("pmi_abort", 2);
    let expected = Cause::Aborted {
        rank: Rank::new(1),
        status: 7,
        message: "no more fuel".to_owned(),
    };
    assert_eq!(played.outcome.cause, Some(expected), "{}", played.errors);
}

#[test]
fn the_abort_of_the_last_process_is_not_lost_when_it_exits() {
    for _ in 0..10 {
        let played = play("pmi_abort_alone", 1);
        let expected = Cause::Aborted {
            rank: Rank::new(0),
            status: 7,
            message: "alone".to_owned(),
        };
        assert_eq!(played.outcome.cause, Some(expected), "{}", played.errors);
    }
}

#[test]
fn a_process_that_reads_no_replies_holds_nothing_when_it_has_ended() {
    let begun = std::time::Instant::now();
    let played = play("pmi_unread", 3);
    let rank = Rank::new(0);
    let cause = played.outcome.cause.clone();
    assert_eq!(
        cause,
        Some(Cause::NotFinalized { rank }),
        "{}",
        played.errors
    );
    // The child of the process lives for 30 s.
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn many_processes_use_pmi_at_once() {
    let played = play("pmi_many", 100);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
}

#[test]
fn a_barrier_by_pmi_fails_when_a_process_is_lost() {
    let played = play("pmi_lost", 2);
    let killed = Ending::Signalled {
        signal: 9,
        core: false,
    };
    assert_eq!(played.outcome.ranks[1].ending, killed, "{}", played.errors);
}

#[test]
fn a_spawn_by_pmi_passes_its_values_to_the_job() {
    let played = play("pmi_spawn", 1);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    assert_eq!(played.output, "child 0 in /\nchild 1 in /\n");
}

#[test]
fn hostile_commands_of_pmi_disturb_no_other_process() {
    let played = play("pmi_hostile", 2);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output that a C tool pulls from a server in this process.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use pmix_server::upcall::IofPull;
use pmix_server::{Completion, Host, Server};
use pmix_types::{Info, InfoFlags, IofChannel, Proc, Rank, keys};
use tempfile::TempDir;

use crate::build::must;
use crate::programs::each;
use crate::tools::server_of;

const OUT: IofChannel = IofChannel::STDOUT_CHANNEL;
const ERR: IofChannel = IofChannel::STDERR_CHANNEL;

/// A host that forwards output, and supports no required directive of a pull.
struct Forwards;

impl Host for Forwards {
    fn iof_pull(&self, call: IofPull, done: Completion<()>) {
        let is_required = |info: &Info<'_>| info.flags.contains(InfoFlags::REQD);
        match call.directives.iter().any(is_required) {
            true => done.not_supported(),
            false => done.succeed(()),
        }
    }
}

/// Starts a server with the job whose output is pulled.
fn server() -> (Server, TempDir) {
    let top = tempfile::tempdir().expect("a folder");
    let server = server_of(Forwards, "one", 2, top.path());
    (server, top)
}

fn deliver(server: &Server, rank: u32, channel: IofChannel, data: impl Into<Vec<u8>>) {
    let source = Proc::new("one.job", Rank::new(rank));
    let delivered = server.iof_deliver(&source, channel, data.into(), &[]);
    delivered.expect("output is taken");
}

/// A tool with an active pull.
struct Tool {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    input: ChildStdin,
}

impl Tool {
    fn start(program: &Path, library: &Path, what: &str, top: &TempDir, more: &[&str]) -> Self {
        let mut command = command(program, library, what, top);
        command.args(more);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::inherit());
        let mut child = command.spawn().expect("the tool starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let input = child.stdin.take().expect("its input");
        let mut tool = Self {
            child,
            lines,
            input,
        };
        assert_eq!(tool.line(), "ready");
        tool
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line").expect("text")
    }

    fn go_on(&mut self) {
        self.input.write_all(b"on\n").expect("it reads");
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.expect("kill is there").success());
    }

    /// Ends the tool, and returns all output that was not read before.
    fn end(mut self) -> Vec<String> {
        self.go_on();
        let mut lines: Vec<_> = self.lines.map(|line| line.expect("text")).collect();
        assert_eq!(lines.pop().as_deref(), Some("ok"));
        assert!(self.child.wait().expect("it ends").success());
        lines
    }
}

fn command(program: &Path, library: &Path, what: &str, top: &TempDir) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("LD_LIBRARY_PATH", library)
        .args([OsStr::new(what), top.path().as_os_str()]);
    command
}

#[test]
fn output_is_shown_in_the_form_that_is_asked_for() {
    each("pulled.c", |program, library| {
        let (server, top) = server();
        let shown = |keys: &[&str]| {
            let tool = Tool::start(program, library, "shows", &top, keys);
            deliver(&server, 1, OUT, "one\ntw");
            deliver(&server, 0, OUT, "<&>\n");
            deliver(&server, 1, OUT, "o\nopen");
            deliver(&server, 1, ERR, "err\n");
            for (rank, channel) in [(1, OUT), (0, OUT), (1, ERR), (0, ERR)] {
                deliver(&server, rank, channel, "");
            }
            let mut lines = tool.end();
            lines.sort();
            lines
        };
        let merged = keys::IOF_MERGE_STDERR_STDOUT;
        let expected = [
            "[0]<stdout>: <&>",
            "[1]<stderr>: err",
            "[1]<stdout>: one",
            "[1]<stdout>: open",
            "[1]<stdout>: two",
        ];
        assert_eq!(shown(&[keys::IOF_RANK_OUTPUT, merged]), expected);
        let named = expected.map(|line| line.replace('[', "[one.job,"));
        assert_eq!(shown(&[keys::IOF_TAG_OUTPUT, merged]), named);
        let xml = [
            "<stderr nspace=\"one.job\" rank=\"1\">err&#010;</stderr>",
            "<stdout nspace=\"one.job\" rank=\"0\">&lt;&amp;&gt;&#010;</stdout>",
            "<stdout nspace=\"one.job\" rank=\"1\">one&#010;</stdout>",
            "<stdout nspace=\"one.job\" rank=\"1\">open</stdout>",
            "<stdout nspace=\"one.job\" rank=\"1\">two&#010;</stdout>",
        ];
        let keys_of_xml = [keys::IOF_XML_OUTPUT, keys::IOF_TAG_OUTPUT, merged];
        assert_eq!(shown(&keys_of_xml), xml);
        let timed = shown(&[keys::IOF_TIMESTAMP_OUTPUT]);
        let behind = |line: &String| line.split_once(']').map(|(_, rest)| rest.to_owned());
        let mut rests: Vec<_> = timed.iter().filter_map(behind).collect();
        rests.sort();
        let lines = ["<&>", "one", "open", "two"];
        assert_eq!(rests, lines.map(|line| format!("<stdout>: {line}")));
        server.finalize().expect("the server ends");
    });
}

#[test]
fn output_is_gathered_for_a_function() {
    each("pulled.c", |program, library| {
        let (server, top) = server();
        let mut tool = Tool::start(program, library, "gathers", &top, &["5", "1000"]);
        deliver(&server, 0, OUT, "abc");
        deliver(&server, 1, OUT, "xyz");
        deliver(&server, 0, OUT, "def");
        assert_eq!(tool.line(), "0 out 6:abcdef");
        deliver(&server, 1, ERR, "err");
        deliver(&server, 1, OUT, "");
        assert_eq!(tool.line(), "1 out 3:xyz");
        assert_eq!(tool.line(), "1 out 0:");
        // The remaining bytes arrive when the pull ends.
        tool.go_on();
        assert_eq!(tool.line(), "1 err 3:err");
        assert_eq!(tool.end(), [""; 0]);
        // Less than the buffer size arrives after the time limit.
        let mut tool = Tool::start(program, library, "gathers", &top, &["100", "1"]);
        deliver(&server, 0, OUT, "abc");
        assert_eq!(tool.line(), "0 out 3:abc");
        deliver(&server, 0, ERR, "def");
        assert_eq!(tool.line(), "0 err 3:def");
        tool.go_on();
        assert_eq!(tool.end(), [""; 0]);
        server.finalize().expect("the server ends");
    });
}

/// More pieces than a connection and the server hold for a tool that does not read.
const NUM_PIECES: u32 = 1024;

#[test]
fn what_a_tool_does_not_read_is_kept_and_dropped_as_it_asks() {
    each("pulled.c", |program, library| {
        let (server, top) = server();
        let numbers = |which| {
            let mut tool = Tool::start(program, library, "keeps", &top, &["262144", which]);
            tool.signal("STOP");
            let piece = |number: u32| format!("{number:<32768}").into_bytes();
            (0..NUM_PIECES).for_each(|number| deliver(&server, 0, OUT, piece(number)));
            deliver(&server, 0, OUT, "");
            tool.signal("CONT");
            let line = tool.line();
            assert_eq!(tool.end(), [""; 0]);
            let numbers = line
                .split(' ')
                .map(|number| number.parse().expect("a number"));
            numbers.collect::<Vec<i64>>()
        };
        let newest = i64::from(NUM_PIECES) - 1;
        // The oldest pieces are dropped: at most the last eight pieces are present, and the very last one is.
        let [first, behind_gap, last] = numbers("old")[..] else {
            panic!("three numbers")
        };
        assert_eq!((first, last), (0, newest));
        assert!(behind_gap >= newest - 8, "{behind_gap}");
        // The newest pieces are dropped: the last one arrived when there was no room.
        let [first, _, last] = numbers("new")[..] else {
            panic!("three numbers")
        };
        assert_eq!(first, 0);
        assert!(last < newest, "{last}");
        server.finalize().expect("the server ends");
    });
}

#[test]
fn what_is_required_of_a_pull_and_not_obeyed_is_refused() {
    each("pulled.c", |program, library| {
        let (server, top) = server();
        let said = must(&mut command(program, library, "refused", &top));
        assert_eq!(said, "ok\n");
        server.finalize().expect("the server ends");
    });
}

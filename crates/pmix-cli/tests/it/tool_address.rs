// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tool that starts a launcher and passes its own address, to which the launcher connects (`PMIX_LAUNCHER_RNDZ_URI`).

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::command;
use crate::command::Outcome;
use bfrops::{Encoder, wire_type};
use pmix_proto::reply::Infos;
use pmix_proto::{Event, Frame, Header, Hello, Inbox, PeerForm, Request, Role, Tag, Welcome};
use pmix_proto::{reply, request};
use pmix_types::{DataArray, DataRange, Envar, Info, Kval, Proc, Query, Rank, Status, Value, keys};
use tempfile::TempDir;

/// The time limit of each step, which only a fault reaches.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns the name that the tool assigns to the launcher.
fn launcher() -> Proc<'static> {
    Proc::new("tool:1", Rank::new(0))
}

/// A listening tool.
struct Listening(TcpListener);

/// A tool to which a launcher has connected.
struct Tool {
    stream: TcpStream,
    inbox: Inbox,
    form: PeerForm,
    tag: Tag,
}

impl Listening {
    fn new() -> Self {
        Self(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
    }

    /// Starts a launcher with the tool's address and the launcher's name in the environment.
    fn start(&self, args: &[&str]) -> (Child, command::Watchdog, TempDir) {
        let named = ["--node-name", "n1", "--nspace", "inner@1"];
        let (mut command, tmp) = command::launcher(&[&named, args].concat());
        let address = self.0.local_addr().unwrap();
        command
            .env("PMIX_LAUNCHER_RNDZ_URI", format!("tool.0;tcp4://{address}"))
            .env("PMIX_NAMESPACE", launcher().nspace.to_string())
            .env("PMIX_RANK", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let watchdog = command::Watchdog::of(&child);
        (child, watchdog, tmp)
    }

    /// Accepts the launcher, sends the welcome, and returns the launcher's first request.
    fn accept(&self) -> (Tool, Frame) {
        let (stream, _) = self.0.accept().unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut inbox = Inbox::of_server(1 << 20);
        let frame = next(&stream, &mut inbox);
        let hello = Hello::decode(&frame.payload).unwrap();
        assert_eq!(hello.role, Role::STARTED_LAUNCHER);
        assert_eq!(hello.proc, Some(launcher()));
        let mut tool = Tool {
            form: hello.form().unwrap(),
            stream,
            inbox,
            tag: Tag::FIRST_REQUEST,
        };
        let server = Proc::new("tool", Rank::new(0));
        let welcome = Welcome::Server { server }.encode().unwrap();
        tool.stream.write_all(&welcome).unwrap();
        let asked = tool.next();
        let request = Request::decode(&tool.form, None, &asked.payload).unwrap();
        assert_eq!(request, Request::JobInfo);
        (tool, asked)
    }
}

/// Returns the next frame of a connection.
fn next(mut stream: &TcpStream, inbox: &mut Inbox) -> Frame {
    let mut buffer = [0; 4096];
    loop {
        if let Some(frame) = inbox.next_frame().unwrap() {
            return frame;
        }
        let len = stream.read(&mut buffer).unwrap();
        assert_ne!(len, 0, "the launcher has closed the connection");
        inbox.push(&buffer[..len]);
    }
}

fn frame(tag: Tag, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap();
    [&Header::new(0, tag, len).encode()[..], payload].concat()
}

impl Tool {
    fn next(&mut self) -> Frame {
        next(&self.stream, &mut self.inbox)
    }

    /// Packs a request, and returns it with the tag of its reply.
    fn request(&mut self, request: &Request<'_>) -> (Vec<u8>, Tag) {
        self.tag = self.tag.next();
        let payload = request.encode(&self.form, None).unwrap();
        (frame(self.tag, &payload), self.tag)
    }

    /// Sends a request, and returns its reply and the events that arrived before it.
    fn ask(&mut self, request: &Request<'_>) -> (Vec<u8>, Vec<Event<'static>>) {
        let (bytes, tag) = self.request(request);
        self.stream.write_all(&bytes).unwrap();
        self.reply(tag)
    }

    fn reply(&mut self, tag: Tag) -> (Vec<u8>, Vec<Event<'static>>) {
        let mut events = Vec::new();
        loop {
            let came = self.next();
            match came.header.tag {
                Tag::EVENT => events.push(self.event(&came)),
                other => {
                    assert_eq!(other, tag);
                    return (came.payload, events);
                }
            }
        }
    }

    fn event(&self, frame: &Frame) -> Event<'static> {
        use pmix_types::IntoOwned as _;
        let event = Event::decode(&self.form, None, &frame.payload).unwrap();
        event.into_owned()
    }

    /// Packs the reply to the request for job info: the tool's directives for the job.
    fn job_info(&self, asked: &Frame, directives: Vec<Info<'static>>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(self.form.layout, &mut out);
        let job = Some(launcher().nspace.as_text().clone());
        encoder.one::<wire_type::String>(&job).unwrap();
        let kval = Kval {
            key: keys::LAUNCH_DIRECTIVES.into(),
            value: Value::DataArray(DataArray::Info(directives)),
        };
        encoder.one::<wire_type::Kval>(&kval).unwrap();
        frame(asked.header.tag, &out)
    }

    fn release(&mut self, proc: Proc<'static>) -> Vec<Event<'static>> {
        let infos = vec![
            Info::new(keys::EVENT_CUSTOM_RANGE, vec![proc]),
            Info::new(keys::EVENT_NON_DEFAULT, true),
        ];
        let (said, events) = self.ask(&Request::Notify(request::Notify {
            status: Status::DEBUGGER_RELEASE,
            range: DataRange::CUSTOM,
            infos,
        }));
        assert_eq!(said, reply::status(&self.form, Status::SUCCESS).unwrap());
        events
    }
}

fn outcome(child: Child) -> Outcome {
    let ended = child.wait_with_output().unwrap();
    Outcome {
        code: ended.status.code().unwrap(),
        stdout: ended.stdout,
        stderr: String::from_utf8_lossy(&ended.stderr).into_owned(),
    }
}

#[test]
fn a_launcher_connects_with_its_tool_and_is_asked_over_that_connection() {
    let listening = Listening::new();
    let pmix = env!("CARGO_BIN_EXE_pmix");
    let job = [
        "-n",
        "2",
        "sh",
        "-c",
        "echo \"$COLOUR$PMIX_LAUNCHER_RNDZ_URI.\"; exec \"$0\" hello",
        pmix,
    ];
    let (child, _watchdog, tmp) = listening.start(&job);
    let (mut tool, asked) = listening.accept();
    let red = Envar {
        envar: Some("COLOUR".into()),
        value: Some("red".into()),
        separator: b':',
    };
    let directives = vec![
        Info::new(keys::DEBUG_STOP_IN_INIT, true),
        Info::new(keys::SET_ENVAR, Value::Envar(Box::new(red))),
    ];
    // Requests that arrive before the reply, the first bytes of them together with it.
    let register = Request::RegisterEvents(request::RegisterEvents {
        codes: vec![Status::READY_FOR_DEBUG, Status::EVENT_JOB_END],
        infos: Vec::new(),
    });
    let (early, first) = tool.request(&register);
    let about = Request::Query(request::Query {
        queries: vec![Query {
            keys: vec![keys::QUERY_NAMESPACES.into()],
            qualifiers: Vec::new(),
        }],
    });
    let (cut, second) = tool.request(&about);
    let (begin, rest) = cut.split_at(20);
    let told = tool.job_info(&asked, directives);
    tool.stream
        .write_all(&[&early[..], &told, begin].concat())
        .unwrap();
    tool.stream.write_all(rest).unwrap();
    let (said, _) = tool.reply(first);
    assert_eq!(said, reply::status(&tool.form, Status::SUCCESS).unwrap());
    let (names, _) = tool.reply(second);
    let names = Infos::decode(&tool.form, None, &names).unwrap();
    // The launcher waits for the tool, so there is no job yet.
    assert_eq!(names.infos.unwrap()[0].value, Value::from(""));
    let mut events = tool.release(launcher());
    let ready = loop {
        if let Some(event) = events.pop() {
            break event;
        }
        let came = tool.next();
        events.push(tool.event(&came));
    };
    assert_eq!(ready.status, Status::READY_FOR_DEBUG);
    assert!(
        tool.release(Proc::new("inner@1", Rank::WILDCARD))
            .is_empty()
    );
    let ended = tool.next();
    assert_eq!(tool.event(&ended).status, Status::EVENT_JOB_END);
    let outcome = outcome(child);
    assert_eq!((outcome.code, outcome.stderr.contains("error")), (0, false));
    let text = outcome.text();
    assert_eq!(
        text.lines().filter(|line| *line == "red.").count(),
        2,
        "{text}"
    );
    assert_eq!(
        text.lines()
            .filter(|line| line.contains(" of 2 on n1"))
            .count(),
        2
    );
    command::assert_nothing_left(&tmp);
}

#[test]
fn a_launcher_without_its_tool_starts_no_job() {
    let listening = Listening::new();
    let (child, _watchdog, tmp) = listening.start(&["echo", "here"]);
    let (mut tool, asked) = listening.accept();
    let told = tool.job_info(&asked, Vec::new());
    tool.stream.write_all(&told).unwrap();
    drop(tool);
    let left = outcome(child);
    assert_eq!((left.code, left.text().as_str()), (1, ""));
    let said = "the tool that started it has exited";
    assert!(left.stderr.contains(said), "{}", left.stderr);
    command::assert_nothing_left(&tmp);
    // The port has no listener any more.
    let nowhere = listening.0.local_addr().unwrap().to_string();
    drop(listening);
    for (address, why) in [
        (
            format!("tool.0;tcp4://{nowhere}"),
            "cannot connect to the server",
        ),
        ("somewhere".to_owned(), "is not the address of a server"),
    ] {
        let (mut command, tmp) = command::launcher(&["echo", "here"]);
        command.env("PMIX_LAUNCHER_RNDZ_URI", address);
        let refused = command::finish(command, b"");
        assert_eq!((refused.code, refused.text().as_str()), (2, ""));
        for part in ["PMIX_LAUNCHER_RNDZ_URI", why] {
            assert!(refused.stderr.contains(part), "{}", refused.stderr);
        }
        command::assert_nothing_left(&tmp);
    }
}

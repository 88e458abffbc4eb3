// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client and a minimal server over the loopback interface.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use bfrops::{Encoder, Layout, wire_type};
use pmix_client::{Client, Error, Settings, Uri};
use pmix_proto::{Command, Event, Header, Hello, Inbox, PeerForm, Request, Tag, Welcome, reply};
use pmix_types::{DataArray, Info, Kval, Proc, Rank, Scope, Status, Value, keys};

/// A limit beyond every answer of these tests, so that a faulty test ends.
const LIMIT: Duration = Duration::from_secs(30);

/// The reaction of the server to a request.
enum Answer {
    Reply(Vec<u8>),
    /// An event, then the reply.
    EventAnd(Event<'static>, Vec<u8>),
    /// The reply to an earlier request, then that to this one.
    LateAnd(Tag, Vec<u8>, Vec<u8>),
    Nothing,
    Close,
}

/// Starts a server for one client. It answers by `answer` and returns the commands received.
fn server(
    mut answer: impl FnMut(&PeerForm, &Request<'_>) -> Answer + Send + 'static,
) -> (Uri, JoinHandle<Vec<Command>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let handle = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        serve(&mut stream, &mut answer)
    });
    let server = Proc::new("server", Rank::new(0));
    (Uri { server, address }, handle)
}

fn serve(
    stream: &mut TcpStream,
    answer: &mut dyn FnMut(&PeerForm, &Request<'_>) -> Answer,
) -> Vec<Command> {
    let mut inbox = Inbox::of_server(1 << 20);
    let mut buffer = [0; 4096];
    let mut form = None;
    let mut asked = Vec::new();
    loop {
        let len = stream.read(&mut buffer).unwrap_or(0);
        if len == 0 {
            return asked;
        }
        inbox.push(&buffer[..len]);
        while let Some(frame) = inbox.next_frame().unwrap() {
            let Some(form) = &form else {
                let hello = Hello::decode(&frame.payload).unwrap();
                assert_eq!(hello.gds, "hash");
                assert_eq!(hello.credential.len(), 8);
                form = Some(hello.form().unwrap());
                let welcome = Welcome::Index { index: 5 }.encode().unwrap();
                stream.write_all(&welcome).unwrap();
                continue;
            };
            assert_eq!(frame.header.index, 5);
            let request = Request::decode(form, None, &frame.payload).unwrap();
            asked.push(request.command());
            match answer(form, &request) {
                Answer::Reply(payload) => send(stream, frame.header.tag, &payload),
                Answer::EventAnd(event, payload) => {
                    send(stream, Tag::EVENT, &event.encode(form, None).unwrap());
                    send(stream, frame.header.tag, &payload);
                }
                Answer::LateAnd(tag, late, payload) => {
                    send(stream, tag, &late);
                    send(stream, frame.header.tag, &payload);
                }
                Answer::Nothing => {}
                Answer::Close => return asked,
            }
        }
    }
}

fn send(stream: &mut TcpStream, tag: Tag, payload: &[u8]) {
    let len = u32::try_from(payload.len()).unwrap();
    stream
        .write_all(&Header::new(0, tag, len).encode())
        .unwrap();
    stream.write_all(payload).unwrap();
}

fn done(form: &PeerForm) -> Answer {
    Answer::Reply(reply::status(form, Status::SUCCESS).unwrap())
}

/// Returns minimal job info of a job of two processes.
fn job_info(layout: Layout) -> Answer {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(layout, &mut out);
    encoder
        .one::<wire_type::String>(&Some("job".into()))
        .unwrap();
    let size = Kval {
        key: keys::JOB_SIZE.into(),
        value: Value::Uint32(2),
    };
    encoder.one::<wire_type::Kval>(&size).unwrap();
    Answer::Reply(out)
}

/// Returns the data of a process as the reply to a get.
fn objects(form: &PeerForm, proc: &Proc<'_>, kvals: &[(&str, Value<'static>)]) -> Answer {
    let mut object = Vec::new();
    let mut encoder = Encoder::new(form.layout, &mut object);
    encoder.one::<wire_type::Proc>(proc).unwrap();
    for (key, value) in kvals {
        let kval = Kval {
            key: (*key).into(),
            value: value.clone(),
        };
        encoder.one::<wire_type::Kval>(&kval).unwrap();
    }
    let mut objects = Vec::new();
    let mut encoder = Encoder::new(form.layout, &mut objects);
    encoder
        .one::<wire_type::ByteObject>(&object.into())
        .unwrap();
    let found = reply::Objects {
        status: Status::SUCCESS,
        objects: &objects,
    };
    Answer::Reply(found.encode(form, None).unwrap())
}

fn client(uri: Uri, limit: Duration) -> Result<Client, Error> {
    let mut settings = Settings::new(Proc::new("job", Rank::new(0)), uri);
    settings.time_limit = Some(limit);
    Client::init(settings)
}

fn peer() -> Proc<'static> {
    Proc::new("job", Rank::new(1))
}

#[test]
fn a_process_puts_commits_fences_gets_and_leaves() {
    let (uri, server) = server(|form, request| match request {
        Request::JobInfo => job_info(form.layout),
        Request::Commit(commit) => {
            // A global value is in the data for local and in those for remote processes.
            let name = commit.blocks.windows(4).filter(|w| *w == b"card").count();
            assert_eq!(name, 2);
            done(form)
        }
        Request::Fence(fence) => {
            assert_eq!(fence.procs, [Proc::new("job", Rank::WILDCARD)]);
            assert_eq!(
                fence.infos,
                [Info::new(keys::COLLECT_DATA, Value::Bool(true))]
            );
            done(form)
        }
        Request::Get(get) => {
            assert_eq!(
                (get.rank, get.key.clone()),
                (Rank::new(1), Some("card".into()))
            );
            assert!(get.infos.is_empty());
            let kvals = [("card", Value::from("ib1")), ("port", Value::Uint32(9))];
            objects(form, &peer(), &kvals)
        }
        Request::Finalize => done(form),
        other => panic!("{other:?}"),
    });
    let client = client(uri, LIMIT).unwrap();
    assert_eq!(
        client.get_of_job(keys::JOB_SIZE).wait(),
        Ok(Value::Uint32(2))
    );
    client.commit().unwrap();
    client.put(Scope::GLOBAL, "card", "ib0").unwrap();
    client.commit().unwrap();
    client
        .fence([], [Info::new(keys::COLLECT_DATA, true)])
        .wait()
        .unwrap();
    let own = client.proc().clone();
    assert_eq!(client.get(&own, "card", &[]).wait(), Ok(Value::from("ib0")));
    assert_eq!(
        client.get(&peer(), "card", &[]).wait(),
        Ok(Value::from("ib1"))
    );
    // The first reply had all data of the process.
    assert_eq!(
        client.get(&peer(), "port", &[]).wait(),
        Ok(Value::Uint32(9))
    );
    client.finalize().unwrap();
    let expected = [
        Command::REQ,
        Command::COMMIT,
        Command::FENCENB,
        Command::GETNB,
        Command::FINALIZE,
    ];
    assert_eq!(server.join().unwrap(), expected);
}

#[test]
fn a_reserved_key_is_asked_at_once_and_only_if_that_is_wanted() {
    let (uri, server) = server(|form, request| match request {
        Request::JobInfo => job_info(form.layout),
        Request::Get(get) => {
            let immediate = Info::new(keys::IMMEDIATE, Value::Bool(true));
            assert!(get.infos.contains(&immediate));
            match get.rank {
                Rank::WILDCARD => {
                    let node = vec![
                        Info::new(keys::HOSTNAME, "n7"),
                        Info::new(keys::LOCAL_PEERS, "4,5"),
                    ];
                    let node = Value::DataArray(DataArray::Info(node));
                    let job = Proc::new("job", Rank::WILDCARD);
                    objects(form, &job, &[(keys::NODE_INFO_ARRAY, node)])
                }
                rank if rank == Rank::new(1) => {
                    objects(form, &peer(), &[(keys::LOCAL_RANK, Value::Uint16(1))])
                }
                _ => Answer::Reply(reply::status(form, Status::ERR_NOT_FOUND).unwrap()),
            }
        }
        other => panic!("{other:?}"),
    });
    let client = client(uri, LIMIT).unwrap();
    let optional = [Info::new(keys::OPTIONAL, Value::Bool(true))];
    let error = client
        .get(&peer(), keys::LOCAL_RANK, &optional)
        .wait()
        .unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_FOUND);
    for _ in 0..2 {
        assert_eq!(
            client.get(&peer(), keys::LOCAL_RANK, &[]).wait(),
            Ok(Value::Uint16(1))
        );
    }
    let of_node = [
        Info::new(keys::NODE_INFO, Value::Bool(true)),
        Info::new(keys::HOSTNAME, "n7"),
    ];
    for _ in 0..2 {
        let peers = client.get(&peer(), keys::LOCAL_PEERS, &of_node).wait();
        assert_eq!(peers, Ok(Value::from("4,5")));
    }
    let nobody = Proc::new("job", Rank::new(9));
    let error = client
        .get(&nobody, keys::LOCAL_RANK, &[])
        .wait()
        .unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_FOUND);
    drop(client);
    let asked = server.join().unwrap();
    assert_eq!(asked, [&[Command::REQ][..], &[Command::GETNB; 3]].concat());
}

#[test]
fn a_refresh_asks_again() {
    let mut times = 0_u32;
    let (uri, server) = server(move |form, request| match request {
        Request::JobInfo => job_info(form.layout),
        Request::Get(_) => {
            times += 1;
            objects(form, &peer(), &[("times", Value::Uint32(times))])
        }
        other => panic!("{other:?}"),
    });
    let client = client(uri, LIMIT).unwrap();
    let refresh = [Info::new(keys::GET_REFRESH_CACHE, Value::Bool(true))];
    for (infos, expected) in [(&[][..], 1), (&[], 1), (&refresh, 2), (&[], 2)] {
        let value = client.get(&peer(), "times", infos).wait();
        assert_eq!(value, Ok(Value::Uint32(expected)));
    }
    drop(client);
    assert_eq!(server.join().unwrap().len(), 3);
}

#[test]
fn a_refresh_without_data_is_repeated_without_the_directive() {
    let (uri, server) = server(move |form, request| match request {
        Request::JobInfo => job_info(form.layout),
        Request::Get(get) if get.infos.iter().any(|i| i.key.is(keys::GET_REFRESH_CACHE)) => {
            let reply = pmix_proto::reply::Objects {
                status: Status::SUCCESS,
                objects: &[],
            };
            Answer::Reply(reply.encode(form, None).unwrap())
        }
        Request::Get(_) => objects(form, &peer(), &[("port", Value::Uint32(7))]),
        other => panic!("{other:?}"),
    });
    let client = client(uri, LIMIT).unwrap();
    let refresh = [Info::new(keys::GET_REFRESH_CACHE, Value::Bool(true))];
    let value = client.get(&peer(), "port", &refresh).wait();
    assert_eq!(value, Ok(Value::Uint32(7)));
    drop(client);
    assert_eq!(server.join().unwrap().len(), 3);
}

#[test]
fn events_that_come_during_a_call_are_kept() {
    let event = Event {
        status: Status::ERR_PROC_ABORTED,
        source: peer(),
        infos: vec![Info::new("why", "because")],
        range: None,
    };
    let sent = event.clone();
    let (uri, server) = server(move |form, request| match request {
        Request::JobInfo => job_info(form.layout),
        Request::RegisterEvents(_) => {
            let status = reply::status(form, Status::SUCCESS).unwrap();
            Answer::EventAnd(sent.clone(), status)
        }
        Request::DeregisterEvents(events) => {
            assert_eq!(events.codes, [Status::from_raw(i32::MIN)]);
            Answer::Nothing
        }
        Request::Finalize => done(form),
        other => panic!("{other:?}"),
    });
    let client = client(uri, LIMIT).unwrap();
    client.register_events([], &[]).wait().unwrap();
    assert_eq!(client.next_event(LIMIT), Ok(Some(event)));
    assert_eq!(client.next_event(Duration::from_millis(1)), Ok(None));
    client.deregister_events(&[]).unwrap();
    client.finalize().unwrap();
    assert_eq!(server.join().unwrap().len(), 4);
}

#[test]
fn a_server_that_does_not_answer_costs_the_time_limit_and_no_more() {
    let (uri, server) = server(|form, request| match request {
        Request::JobInfo => job_info(form.layout),
        Request::Finalize => done(form),
        _ => Answer::Nothing,
    });
    let client = client(uri, Duration::from_millis(200)).unwrap();
    let error = client.fence([], []).wait().unwrap_err();
    assert_eq!(error.status(), Status::ERR_TIMEOUT);
    // The connection remains usable.
    client.finalize().unwrap();
    server.join().unwrap();
}

#[test]
fn the_reply_to_what_was_given_up_is_nobodys() {
    let (uri, server) = server(|form, request| match request {
        Request::JobInfo => job_info(form.layout),
        Request::Fence(_) => Answer::Nothing,
        Request::Finalize => {
            // The late reply to the fence with tag 102 is an error.
            let late = reply::status(form, Status::ERR_LOST_CONNECTION).unwrap();
            Answer::LateAnd(
                Tag(102),
                late,
                reply::status(form, Status::SUCCESS).unwrap(),
            )
        }
        other => panic!("{other:?}"),
    });
    let client = client(uri, Duration::from_millis(100)).unwrap();
    let error = client.fence([], []).wait().unwrap_err();
    assert_eq!(error.status(), Status::ERR_TIMEOUT);
    client.finalize().unwrap();
    assert_eq!(server.join().unwrap().len(), 3);
}

#[test]
fn a_server_that_goes_away_is_lost_at_once() {
    let (uri, server) = server(|form, request| match request {
        Request::JobInfo => job_info(form.layout),
        _ => Answer::Close,
    });
    let client = client(uri, LIMIT).unwrap();
    let error = client.fence([], []).wait().unwrap_err();
    assert_eq!(error.status(), Status::ERR_UNREACH);
    server.join().unwrap();
    let error = client.fence([], []).wait().unwrap_err();
    assert_eq!(error.status(), Status::ERR_UNREACH);
}

#[test]
fn a_server_that_is_not_there_or_closes_refuses() {
    let (uri, server) = server(|_, _| Answer::Close);
    let error = client(uri, LIMIT).err().unwrap();
    assert_eq!(error.status(), Status::ERR_UNREACH);
    server.join().unwrap();
    // No server listens on port 1.
    let address = (Ipv4Addr::LOCALHOST, 1).into();
    let server = Proc::new("server", Rank::new(0));
    let error = client(Uri { server, address }, LIMIT).err().unwrap();
    assert_eq!(error.status(), Status::ERR_UNREACH);
}

#[test]
fn reserved_keys_are_put_but_no_empty_ones_and_not_for_a_scope_that_is_none() {
    let (uri, server) = server(|form, _| job_info(form.layout));
    let client = client(uri, LIMIT).unwrap();
    for (scope, key) in [(Scope::GLOBAL, ""), (Scope::UNDEF, "mine")] {
        let error = client.put(scope, key, 1_u32).unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{key}");
    }
    client.put(Scope::GLOBAL, keys::HOSTNAME, "n1").unwrap();
    let own = client.proc().clone();
    let found = client.get(&own, keys::HOSTNAME, &[]).wait().unwrap();
    assert_eq!(found, Value::from("n1"));
    drop(client);
    server.join().unwrap();
}

#[test]
fn what_came_before_a_join_is_about_an_earlier_group() {
    let complete = Event {
        status: Status::GROUP_CONSTRUCT_COMPLETE,
        source: peer(),
        infos: vec![
            Info::new(keys::GROUP_ID, "g"),
            Info::new(
                keys::GROUP_MEMBERSHIP,
                vec![peer(), Proc::new("job", Rank::new(0))],
            ),
        ],
        range: None,
    };
    let sent = complete.clone();
    let (uri, server) = server(move |form, request| match request {
        Request::JobInfo => job_info(form.layout),
        // After the end of the join, the event concerns this group, which the client leaves.
        Request::Notify(notify) if notify.status == Status::GROUP_INVITE_DECLINED => done(form),
        // One event precedes the join, and one its acknowledgment.
        Request::RegisterEvents(_) | Request::Notify(_) => {
            let status = reply::status(form, Status::SUCCESS).unwrap();
            Answer::EventAnd(sent.clone(), status)
        }
        Request::Finalize => done(form),
        other => panic!("{other:?}"),
    });
    let client = client(uri, LIMIT).unwrap();
    let second = [Info::new(keys::TIMEOUT, 1_u32)];
    let joined = client.group_join("g", &peer(), &second).wait();
    let status = joined.map_err(|error| error.status());
    assert_eq!(status, Err(Status::ERR_TIMEOUT));
    for _ in 0..2 {
        let event = client.next_event(LIMIT).unwrap().unwrap();
        assert_eq!(
            (event.status, event.infos),
            (complete.status, complete.infos.clone())
        );
    }
    client.finalize().unwrap();
    server.join().unwrap();
}

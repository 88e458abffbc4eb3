// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of requests and their replies.

use crate::wire::{Command, Wire};
use crate::{Application, Decoder, Group, Reply, Request, Spawn};

fn commands(wire: Wire, bytes: &[u8]) -> Vec<Command> {
    let mut decoder = Decoder::default();
    decoder.set_wire(wire);
    decoder.push(bytes).unwrap();
    std::iter::from_fn(|| decoder.next_command().unwrap()).collect()
}

/// Returns a command or reply of PMI-2.
fn with_length(body: &str) -> Vec<u8> {
    format!("{:6}{body}", body.len()).into_bytes()
}

fn line(command: &str, reply: &Reply) -> String {
    let commands = commands(Wire::V1, format!("{command}\n").as_bytes());
    let (_, ticket) = Request::read(&commands[0]).unwrap();
    String::from_utf8(ticket.reply(reply)).unwrap()
}

#[test]
fn replies_are_those_of_hydra() {
    let place = Reply::Place {
        rank: 0,
        size: 2,
        app: 0,
        parent: None,
    };
    let value = |text: &str| Reply::Value(text.into());
    for (command, reply, expected) in [
        (
            "cmd=initack pmiid=0",
            place,
            "cmd=initack rc=0 rank=0 size=2 appnum=0 debug=0\ncmd=set size=2\ncmd=set rank=0\ncmd=set debug=0\n",
        ),
        (
            "cmd=init pmi_version=1 pmi_subversion=1",
            Reply::Done,
            "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n",
        ),
        (
            "cmd=get_maxes",
            Reply::Limits,
            "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n",
        ),
        (
            "cmd=get_appnum",
            Reply::Number(0),
            "cmd=appnum rc=0 appnum=0\n",
        ),
        (
            "cmd=get_my_kvsname",
            value("job@1"),
            "cmd=my_kvsname rc=0 kvsname=job@1\n",
        ),
        (
            "cmd=get kvsname=job@1 key=PMI_process_mapping",
            value("(vector,(0,1,2))"),
            "cmd=get_result rc=0 value=(vector,(0,1,2))\n",
        ),
        (
            "cmd=get kvsname=job@1 key=PMI_mpi_memory_alloc_kinds",
            Reply::Missing,
            "cmd=get_result rc=1\n",
        ),
        (
            "cmd=get_universe_size",
            Reply::Number(-1),
            "cmd=universe_size rc=0 size=-1\n",
        ),
        (
            "cmd=barrier_in",
            Reply::Done,
            "cmd=barrier_out rc=0 tag=0\n",
        ),
        (
            "cmd=lookup_name service=svc x",
            value("port y"),
            "cmd=lookup_result rc=0 port=port\\ y\n",
        ),
        ("cmd=finalize", Reply::Done, "cmd=finalize_ack rc=0\n"),
    ] {
        assert_eq!(line(command, &reply), expected, "{command}");
    }
}

#[test]
fn a_failed_request_names_its_reason() {
    let failed = Reply::Failed("no\nmemory".into());
    assert_eq!(
        line("cmd=put kvsname=j key=k value=v", &failed),
        "cmd=put_result rc=1 msg=no memory\n"
    );
}

#[test]
fn barriers_have_groups_and_numbers() {
    let group = |text: &str| {
        let bytes = format!("cmd=barrier_in group={text}\n");
        Request::read(&commands(Wire::V1, bytes.as_bytes())[0]).map(|(request, _)| request)
    };
    assert_eq!(
        group("WORLD:5").unwrap(),
        Request::GroupBarrier(Group::World, 5)
    );
    assert_eq!(
        group("NODE:0").unwrap(),
        Request::GroupBarrier(Group::Node, 0)
    );
    assert_eq!(
        group("0,2,3:7").unwrap(),
        Request::GroupBarrier(Group::Ranks(vec![0, 2, 3]), 7)
    );
    for text in ["", "all", "0,:1", "1:x", "-1:0"] {
        group(text).unwrap_err();
    }
    assert_eq!(
        line("cmd=barrier_in group=1,2:7", &Reply::Done),
        "cmd=barrier_out rc=0 tag=7\n"
    );
}

#[test]
fn a_spawn_has_applications_and_preput_values() {
    let bytes = b"mcmd=spawn\nnprocs=2\nexecname=/bin/a\ntotspawns=1\nspawnssofar=1\nargcnt=2\narg1=x\narg2=a b\n\
        preput_num=1\npreput_key_0=PORT\npreput_val_0=p=1\ninfo_num=1\ninfo_key_0=wdir\ninfo_val_0=/tmp\nendcmd\n";
    let (request, ticket) = Request::read(&commands(Wire::V1, bytes)[0]).unwrap();
    let application = Application {
        program: b"/bin/a".to_vec(),
        args: vec![b"x".to_vec(), b"a b".to_vec()],
        num_procs: 2,
        infos: vec![(b"wdir".to_vec(), b"/tmp".to_vec())],
    };
    let spawn = Spawn {
        applications: vec![application],
        preput: vec![(b"PORT".to_vec(), b"p=1".to_vec())],
    };
    assert_eq!(request, Request::Spawn(spawn.clone()));
    assert_eq!(
        ticket.reply(&Reply::Value(b"job@2".to_vec())),
        b"cmd=spawn_result rc=0\n"
    );
    let bytes = with_length(
        "cmd=spawn;thrid=9;ncmds=1;preputcount=1;ppkey0=PORT;ppval0=p=1;subcmd=/bin/a;maxprocs=2;argc=2;\
        argv0=x;argv1=a b;infokeycount=1;infokey0=wdir;infoval0=/tmp;",
    );
    let (request, ticket) = Request::read(&commands(Wire::V2, &bytes)[0]).unwrap();
    assert_eq!(request, Request::Spawn(spawn));
    assert_eq!(
        ticket.reply(&Reply::Value(b"job@2".to_vec())),
        with_length("cmd=spawn-response;thrid=9;rc=0;jobid=job@2;")
    );
}

#[test]
fn replies_of_pmi_2_name_the_thread() {
    let bytes = with_length("cmd=kvs-get;thrid=0x7;jobid=j;srcid=-1;key=k;");
    let commands = commands(Wire::V2, &bytes);
    for (reply, expected) in [
        (
            Reply::Value(b"a;b".to_vec()),
            "cmd=kvs-get-response;thrid=0x7;rc=0;found=TRUE;value=a;;b;",
        ),
        (
            Reply::Missing,
            "cmd=kvs-get-response;thrid=0x7;rc=0;found=FALSE;",
        ),
        (
            Reply::Failed("lost".into()),
            "cmd=kvs-get-response;thrid=0x7;rc=1;errmsg=lost;",
        ),
    ] {
        let (_, ticket) = Request::read(&commands[0]).unwrap();
        let text = ticket.reply(&reply);
        assert_eq!(text, with_length(expected));
    }
}

#[test]
fn requests_without_their_attributes_are_refused() {
    for text in [
        "cmd=put kvsname=j key=k",
        "cmd=get",
        "cmd=init",
        "cmd=initack pmiid=x",
        "mcmd=spawn\nexecname=a\ntotspawns=1\nendcmd",
        "mcmd=spawn\nexecname=a\nnprocs=1\nargcnt=99\ntotspawns=1\nendcmd",
        "mcmd=spawn\nexecname=a\nnprocs=1\npreput_num=1\ntotspawns=1\nendcmd",
    ] {
        let commands = commands(Wire::V1, format!("{text}\n").as_bytes());
        let error = Request::read(&commands[0]).unwrap_err();
        assert_eq!(error.status(), pmix_types::Status::ERR_BAD_PARAM, "{text}");
    }
}

#[test]
fn unknown_commands_and_versions_have_failures_as_replies() {
    let failed = Reply::Failed("no".into());
    assert_eq!(line("cmd=teleport", &failed), "cmd=teleport rc=1 msg=no\n");
    assert_eq!(
        line("cmd=init pmi_version=3 pmi_subversion=0", &failed),
        "cmd=response_to_init rc=1 msg=no\n"
    );
    let bytes = with_length("cmd=job-connect;thrid=7;jobid=x;");
    let (request, ticket) = Request::read(&commands(Wire::V2, &bytes)[0]).unwrap();
    assert_eq!(request, Request::Unknown("job-connect".to_owned()));
    assert_eq!(
        ticket.reply(&failed),
        with_length("cmd=job-connect-response;thrid=7;rc=1;errmsg=no;")
    );
}

#[test]
fn a_value_that_is_too_long_for_the_length_of_pmi_2_is_a_failure() {
    let bytes = with_length("cmd=kvs-get;thrid=7;jobid=;key=k;");
    let commands = commands(Wire::V2, &bytes);
    let (_, ticket) = Request::read(&commands[0]).unwrap();
    let reply = ticket.reply(&Reply::Value(vec![b';'; 500_000]));
    assert_eq!(
        reply,
        with_length("cmd=kvs-get-response;thrid=7;rc=1;errmsg=the value is too long for PMI-2;")
    );
}

#[test]
fn both_names_of_the_id_are_read() {
    for name in ["srcid", "pmirank"] {
        let bytes = with_length(&format!("cmd=fullinit;{name}=5;threaded=FALSE;"));
        let (request, _) = Request::read(&commands(Wire::V2, &bytes)[0]).unwrap();
        assert_eq!(request, Request::Identify(Some(5)));
    }
}

#[test]
fn a_reply_never_says_success_without_a_value() {
    let bytes = with_length("cmd=name-lookup;thrid=7;name=ocean;");
    let (_, ticket) = Request::read(&commands(Wire::V2, &bytes)[0]).unwrap();
    assert_eq!(
        ticket.reply(&Reply::Missing),
        with_length("cmd=name-lookup-response;thrid=7;rc=1;")
    );
    assert_eq!(
        line("cmd=lookup_name service=ocean", &Reply::Missing),
        "cmd=lookup_result rc=1\n"
    );
    let two_lines = line("cmd=get key=k", &Reply::Value(b"a\nb".to_vec()));
    assert!(
        two_lines.starts_with("cmd=get_result rc=1 msg="),
        "{two_lines}"
    );
    assert_eq!(two_lines.lines().count(), 1);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unusual registrations: rejected with a reason, or accepted where the host requests that.

use pmix_server::{Credentials, Error, HostObject, Server};
use pmix_types::{Info, Proc, Rank, Status, keys};

use super::peer::{JOB, Peer, builder, closed, me};

fn started(checks: bool) -> Server {
    let server = builder().refuse_contradictions(checks).build().unwrap();
    server.start().unwrap();
    server
}

/// Registers ranks 0 and 1 of a job on this node, and 2 and 3 on another node.
fn two_nodes(server: &Server) {
    let maps = [
        Info::new(keys::NODE_MAP, "n00,n01"),
        Info::new(keys::PROC_MAP, "0,1;2,3"),
    ];
    server.register_nspace(&JOB.into(), 2, &maps).unwrap();
}

fn client(server: &Server, job: &'static str, rank: u32) -> Result<(), Error> {
    let (uid, gid) = me();
    let proc = Proc::new(job, Rank::new(rank));
    server.register_client(&proc, Credentials::new(uid, gid), HostObject(0))
}

#[track_caller]
fn refused(result: Result<(), Error>, status: Status, words: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.status(), status, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn a_client_that_its_job_does_not_have_here_is_refused() {
    let server = started(true);
    refused(
        client(&server, JOB, 0),
        Status::ERR_NOT_FOUND,
        &[JOB, "not registered"],
    );
    two_nodes(&server);
    client(&server, JOB, 0).unwrap();
    refused(
        client(&server, "other", 0),
        Status::ERR_NOT_FOUND,
        &["other"],
    );
    refused(
        client(&server, JOB, 4),
        Status::ERR_NOT_FOUND,
        &["rank 4", JOB],
    );
    refused(
        client(&server, JOB, 2),
        Status::ERR_BAD_PARAM,
        &["rank 2", "n01", "n00"],
    );
    refused(
        client(&server, JOB, 0),
        Status::ERR_EXISTS,
        &["rank 0", "already"],
    );
    let wildcard = Rank::WILDCARD.as_raw();
    refused(client(&server, JOB, wildcard), Status::ERR_BAD_PARAM, &[]);
    // A process that has connected can be restarted, and a deregistered one can be registered again.
    client(&server, JOB, 1).unwrap();
    let _connected = Peer::client(&server, 1).unwrap();
    client(&server, JOB, 1).unwrap();
    server
        .deregister_client(&Proc::new(JOB, Rank::new(0)))
        .unwrap();
    client(&server, JOB, 0).unwrap();
}

#[test]
fn the_clients_of_a_job_that_is_deregistered_go_with_it() {
    let server = started(true);
    two_nodes(&server);
    client(&server, JOB, 0).unwrap();
    client(&server, JOB, 1).unwrap();
    let connected = Peer::client(&server, 0).unwrap();
    server.deregister_nspace(&JOB.into()).unwrap();
    // The connected process is disconnected, and the other one is rejected.
    closed(connected.into_stream());
    assert!(Peer::client(&server, 1).is_err());
    for rank in [0, 1] {
        let proc = Proc::new(JOB, Rank::new(rank));
        let gone = server.deregister_client(&proc);
        refused(gone, Status::ERR_NOT_FOUND, &[]);
        let again = client(&server, JOB, rank);
        refused(again, Status::ERR_NOT_FOUND, &[JOB, "not registered"]);
    }
    refused(
        server.deregister_nspace(&JOB.into()),
        Status::ERR_NOT_FOUND,
        &[],
    );
    // A new job can use the name again.
    two_nodes(&server);
    client(&server, JOB, 0).unwrap();
    let _connected = Peer::client(&server, 0).unwrap();
}

#[test]
fn clients_of_a_job_without_maps_are_those_of_its_size() {
    let server = started(true);
    server.register_nspace(&"none".into(), 1, &[]).unwrap();
    client(&server, "none", 17).unwrap();
    let size = [Info::new(keys::JOB_SIZE, 2_u32)];
    server.register_nspace(&"sized".into(), 2, &size).unwrap();
    client(&server, "sized", 1).unwrap();
    refused(
        client(&server, "sized", 2),
        Status::ERR_NOT_FOUND,
        &["rank 2", "2 processes"],
    );
}

#[test]
fn a_job_that_contradicts_itself_is_refused_and_nothing_changes() {
    let server = started(true);
    let register = |infos: &[Info<'_>]| server.register_nspace(&JOB.into(), 2, infos);
    let maps = |nodes: &'static str, procs: &'static str| {
        [
            Info::new(keys::NODE_MAP, nodes),
            Info::new(keys::PROC_MAP, procs),
        ]
    };
    let [nodes, procs] = maps("n00", "0-3");
    let size = Info::new(keys::JOB_SIZE, 9_u32);
    let bad = Status::ERR_BAD_PARAM;
    let words = ["pmix.job.size", "9 processes", "4"];
    refused(register(&[nodes.clone(), procs.clone(), size]), bad, &words);
    let text = Info::new(keys::JOB_SIZE, "4");
    let words = ["pmix.job.size", "STRING"];
    refused(register(&[nodes, procs, text]), bad, &words);
    let words = ["pmix.nmap", "n00", "0 and 2"];
    refused(register(&maps("n00,n01,n00", "0;1;2")), bad, &words);
    refused(client(&server, JOB, 0), Status::ERR_NOT_FOUND, &[]);
    register(&maps("n00,n01", "0;1")).unwrap();
}

#[test]
fn a_host_that_wants_no_checks_registers_as_with_openpmix() {
    let server = started(false);
    for _ in 0..2 {
        client(&server, JOB, 7).unwrap();
    }
    let infos = [
        Info::new(keys::NODE_MAP, "n00,n00"),
        Info::new(keys::PROC_MAP, "0;1"),
        Info::new(keys::JOB_SIZE, 9_u32),
    ];
    server.register_nspace(&JOB.into(), 1, &infos).unwrap();
    client(&server, JOB, 2).unwrap();
}

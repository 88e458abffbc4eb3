// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effect of each attribute of `PMIx_server_init`. Attributes about tools, users and interfaces are
//! tested with admission and listening.

use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Instant;

use pmix_server::{Error, Server};
use pmix_topology::Topology;
use pmix_types::{Info, Proc, Rank, Status, Text, Value, keys};

use super::peer;

/// Opens a server with these attributes and a directory for its files.
fn open(top: &Path, infos: &[Info<'_>]) -> Result<Server, Error> {
    let top = top.to_str().unwrap().to_owned();
    let places = [
        Info::new(keys::SERVER_TMPDIR, format!("{top}/server")),
        Info::new(keys::SYSTEM_TMPDIR, format!("{top}/system")),
    ];
    for directory in ["server", "system"] {
        fs::create_dir_all(format!("{top}/{directory}")).unwrap();
    }
    let builder = peer::builder().attributes(&places)?;
    builder.attributes(infos)?.build()
}

fn opened(infos: &[Info<'_>]) -> Server {
    let top = tempfile::tempdir().unwrap();
    open(top.path(), infos).unwrap()
}

/// Returns the rendezvous files, with their modes, of a server with a true attribute.
fn files(infos: &[Info<'_>]) -> Vec<(String, u32)> {
    let top = tempfile::tempdir().unwrap();
    let server = open(top.path(), infos).unwrap();
    let about = |path: &std::path::PathBuf| {
        let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let path = path.strip_prefix(top.path()).unwrap();
        (path.to_str().unwrap().to_owned(), mode)
    };
    server.rendezvous_files().iter().map(about).collect()
}

#[test]
fn the_name_of_a_server_is_in_its_address() {
    let named = opened(&[
        Info::new(keys::SERVER_NSPACE, "rm"),
        Info::new(keys::SERVER_RANK, Value::Rank(Rank::new(7))),
    ]);
    assert!(named.uri().starts_with("rm.7;tcp4://"), "{}", named.uri());
    assert_eq!(named.proc().rank, Rank::new(7));
}

#[test]
fn each_role_has_its_files() {
    let pid = std::process::id();
    let names = |key: &'static str| -> Vec<String> {
        let infos = [Info::new(key, true), Info::new(keys::SERVER_NSPACE, "rm")];
        files(&infos).into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(files(&[]), []);
    assert_eq!(names(keys::SERVER_SYSTEM_SUPPORT), ["system/pmix.sys.n00"]);
    assert_eq!(names(keys::SERVER_SCHEDULER), ["system/pmix.sched.n00"]);
    assert_eq!(
        names(keys::SERVER_SESSION_SUPPORT),
        ["server/pmix.n00.tool"]
    );
    assert_eq!(
        names(keys::SERVER_TOOL_SUPPORT),
        [
            format!("server/pmix.n00.tool.{pid}"),
            "server/pmix.n00.tool.rm".to_owned()
        ]
    );
}

#[test]
fn the_mode_selects_the_readers_of_the_files() {
    let mode = |infos: &[Info<'static>]| {
        let system = [Info::new(keys::SERVER_SYSTEM_SUPPORT, true)];
        files(&[&system, infos].concat())[0].1
    };
    assert_eq!(mode(&[]), 0o600);
    assert_eq!(mode(&[Info::new(keys::SOCKET_MODE, 0o640_u32)]), 0o640);
    let foreign = Info::new(keys::SERVER_ALLOW_FOREIGN_TOOLS, true);
    assert_eq!(mode(&[foreign]), 0o644);
}

#[test]
fn families_and_ports_are_obeyed() {
    let off = |key| opened(&[Info::new(key, true)]).uri().to_owned();
    assert!(off(keys::TCP_DISABLE_IPV6).contains(";tcp4://127.0.0.1:"));
    assert!(off(keys::TCP_DISABLE_IPV4).contains(";tcp6://[::1]:"));
    for (key, family) in [
        (keys::TCP_IPV4_PORT, keys::TCP_DISABLE_IPV6),
        (keys::TCP_IPV6_PORT, keys::TCP_DISABLE_IPV4),
    ] {
        // A port that was free a moment ago.
        let port = peer::address(&opened(&[Info::new(family, true)])).port();
        let infos = [Info::new(family, true), Info::new(key, i32::from(port))];
        assert_eq!(peer::address(&opened(&infos)).port(), port, "{key}");
    }
}

#[test]
fn interfaces_are_chosen_among_those_that_may_be() {
    let lo = Info::new(keys::TCP_IF_INCLUDE, "lo");
    assert!(peer::address(&opened(&[lo])).ip().is_loopback());
    let top = tempfile::tempdir().unwrap();
    let none = Info::new(keys::TCP_IF_INCLUDE, "no0");
    assert!(open(top.path(), &[none]).is_err());
    let none = Info::new(keys::TCP_IF_EXCLUDE, "127.0.0.0/8,::1");
    assert!(open(top.path(), &[none]).is_err());
    // A node without a network still has the loopback.
    let remote = Info::new(keys::SERVER_REMOTE_CONNECTIONS, true);
    assert!(open(top.path(), &[remote]).is_ok());
}

#[test]
fn the_address_is_reported_where_that_is_wanted() {
    let top = tempfile::tempdir().unwrap();
    let file = top
        .path()
        .join("uri")
        .into_os_string()
        .into_string()
        .unwrap();
    let report = Info::new(keys::TCP_REPORT_URI, file.clone());
    let server = open(top.path(), &[report]).unwrap();
    let text = fs::read_to_string(file).unwrap();
    assert_eq!(text.lines().next(), Some(server.uri()));
}

#[test]
fn a_host_with_a_loop_of_its_own_has_no_thread_beside_it() {
    let server = opened(&[Info::new(keys::EXTERNAL_PROGRESS, true)]);
    assert_eq!(server.start().unwrap_err().status(), Status::ERR_INIT);
    assert!(server.drive(Instant::now()).is_ok());
    let other = opened(&[]);
    assert_ne!(server.as_fd().as_raw_fd(), other.as_fd().as_raw_fd());
}

/// Returns the topology that a job gets from a server, with or without a topology passed by the host.
fn told(server: &Server, stated: Option<&'static str>) -> Result<Value<'static>, Status> {
    let mut infos = vec![
        Info::new(keys::NODE_MAP, "localhost"),
        Info::new(keys::PROC_MAP, "0"),
    ];
    infos.extend(stated.map(|xml| Info::new(keys::HWLOC_XML_V2, xml)));
    server
        .register_nspace(&"job@1".into(), 1, &infos)
        .expect("a job");
    let job = Proc::new("job@1", Rank::WILDCARD);
    server
        .get(&job, keys::HWLOC_XML_V2, &[])
        .map_err(|error| error.status())
}

fn server(share: bool) -> Server {
    let server = Server::builder()
        .hostname("localhost")
        .topology(Topology::flat(2))
        .share_topology(share)
        .build()
        .expect("a server");
    server.start().expect("the server starts");
    server
}

#[test]
fn jobs_get_the_topology_of_their_node_if_the_host_enables_it() {
    let text = |text: &str| Ok(Value::String(Some(Text::from(text.to_owned()))));
    let sharing = server(true);
    assert_eq!(told(&sharing, None), text(&Topology::flat(2).to_xml()));
    sharing.finalize().expect("the server ends");
    let sharing = server(true);
    assert_eq!(told(&sharing, Some("stated")), text("stated"));
    sharing.finalize().expect("the server ends");
    let silent = server(false);
    assert_eq!(told(&silent, None), Err(Status::ERR_NOT_FOUND));
    silent.finalize().expect("the server ends");
}

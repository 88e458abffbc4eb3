// SPDX-License-Identifier: MIT OR Apache-2.0
//! The topology in the job info of the processes of a job.

use pmix_server::Server;
use pmix_topology::Topology;
use pmix_types::{Info, Proc, Rank, Status, Text, Value, keys};

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

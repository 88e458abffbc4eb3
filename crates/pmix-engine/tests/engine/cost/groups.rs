// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups with long lists.

use pmix_proto::{Request, request};
use pmix_types::{Info, Proc, Rank, Status, Value};

use super::{count, far, requests_are_linear};

fn construct(procs: Vec<Proc<'static>>, infos: Vec<Info<'static>>) -> Vec<Request<'static>> {
    let group = Some("g".into());
    let construct = request::GroupConstruct {
        group: group.clone(),
        procs,
        infos,
    };
    let destruct = request::GroupDestruct {
        group,
        procs: vec![],
        infos: vec![],
    };
    vec![
        Request::GroupConstruct(construct),
        Request::GroupDestruct(destruct),
    ]
}

fn own() -> Proc<'static> {
    Proc::new("job", Rank::new(0))
}

#[test]
fn groups_that_are_made_and_taken_apart() {
    requests_are_linear(
        "infos of a construct",
        500,
        |size| {
            let info = |n: usize| Info::new(format!("key{n}"), Value::Uint32(count(n)));
            construct(vec![own()], (0..size).map(info).collect())
        },
        Status::SUCCESS,
    );
    requests_are_linear(
        "members of a group",
        500,
        |size| construct([far(size), vec![own()]].concat(), vec![]),
        Status::SUCCESS,
    );
    requests_are_linear(
        "jobs of a group",
        250,
        |size| {
            let job = |n: usize| Proc::new(format!("far{n}"), Rank::WILDCARD);
            let jobs: Vec<_> = (0..size).map(job).collect();
            construct([jobs, vec![own()]].concat(), vec![])
        },
        Status::SUCCESS,
    );
}

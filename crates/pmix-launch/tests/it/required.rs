// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each attribute of the headers, marked as required, in each call that the launcher serves. Attributes that the
//! documents do not list as supported are rejected.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use pmix_client::{Client, Error};
use pmix_types::{
    AllocDirective, App, Attribute, ErrorDetail, Info, Proc, Query, ResourceBlockDirective, Status,
    keys,
};

use crate::stage::play;

/// Returns the functions of each attribute, by its key, according to the documents. Attributes that no function
/// supports are included.
fn documented() -> BTreeMap<&'static str, BTreeSet<String>> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let page = |name: &str| fs::read_to_string(format!("{root}/{name}")).unwrap();
    let key = |name: &str| Attribute::by_name(name).map(Attribute::key);
    let attributes = page("data/attributes.tsv");
    let names = attributes
        .lines()
        .skip(1)
        .filter_map(|line| line.split('\t').next());
    let mut functions: BTreeMap<_, BTreeSet<_>> = names
        .map(|name| (key(name).unwrap(), BTreeSet::new()))
        .collect();
    let mut add = |text: &str, obey: &str| {
        for key in text.split('`').filter_map(key) {
            let obey = obey.split_whitespace().map(str::to_owned);
            functions.entry(key).or_default().extend(obey);
        }
    };
    for file in ["docs/capi.md", "docs/cli.md", "docs/directives.md"] {
        let text = page(file);
        for table in text.split("<!-- man: ").skip(1) {
            let (marked, rows) = table.split_once("-->").unwrap();
            let rows = rows
                .lines()
                .skip(1)
                .take_while(|line| line.starts_with('|'));
            for column in rows.filter_map(|row| row.split('|').nth(1)) {
                add(column, marked);
            }
        }
    }
    let text = page("docs/cli.md");
    let (_, spawned) = text.split_once("*Spawned jobs.*").unwrap();
    let (spawned, _) = spawned.split_once("*Directives that are refused*").unwrap();
    add(spawned, "PMIx_Spawn");
    functions
}

/// Returns the outcome of a reply with infos: partial success counts as success, any other status as an error.
fn said((status, _): (Status, Vec<Info<'static>>)) -> Result<(), Error> {
    match status {
        Status::SUCCESS | Status::ERR_PARTIAL_SUCCESS => Ok(()),
        other => Err(ErrorDetail::new(other, "the call was refused").into()),
    }
}

/// Makes a call with one directive.
fn call(client: &Client, function: &str, info: Info<'static>) -> Result<(), Error> {
    let own = || vec![client.proc().clone()];
    let infos = vec![info];
    let group = || "required";
    match function {
        "PMIx_Fence" => client.fence(own(), infos).wait(),
        "PMIx_Connect" => client.connect(own(), infos).wait(),
        "PMIx_Disconnect" => client.disconnect(own(), infos).wait(),
        "PMIx_Lookup" => client.lookup(["key"], infos).wait().map(drop),
        "PMIx_Unpublish" => client.unpublish(["key"], infos).wait(),
        "PMIx_Group_construct" => client
            .group_construct(group(), own(), infos)
            .wait()
            .map(drop),
        "PMIx_Group_leave" => client.group_leave(group(), infos).wait(),
        "PMIx_IOF_push" => client
            .iof_push(own(), infos, Some(b"input".to_vec()))
            .wait(),
        "PMIx_IOF_deregister" => client.iof_deregister(1, infos).wait(),
        "PMIx_Register_event_handler" => client
            .register_events(vec![Status::from_raw(-4711)], infos)
            .wait(),
        "PMIx_Job_control" => {
            let absent = Proc::new("nobody", client.proc().rank);
            client
                .job_control(vec![absent], infos)
                .wait()
                .and_then(said)
        }
        "PMIx_Session_control" => client
            .session_control(u32::MAX, infos)
            .wait()
            .and_then(said),
        "PMIx_Allocation_request" => {
            let allocate = client.allocate(AllocDirective::NEW, infos);
            allocate.wait().and_then(said)
        }
        "PMIx_Resource_block" => {
            let directive = ResourceBlockDirective::DELETE;
            client
                .resource_block(directive, group(), Vec::new(), infos)
                .wait()
        }
        "PMIx_Fabric_register" => client.fabric_register(infos).wait().and_then(said),
        "PMIx_Log" => {
            let text = Info::new(keys::LOG_STDERR, "logged\n");
            client.log(vec![text], infos).wait()
        }
        "PMIx_Process_monitor" => {
            let usage = Info::new(keys::MONITOR_PROC_RESOURCE_USAGE, true);
            client
                .monitor(usage, Status::SUCCESS, infos)
                .wait()
                .and_then(said)
        }
        "PMIx_Query_info" => {
            // The server answers one key, the launcher the other.
            let query = |key: &'static str| {
                let queries = vec![Query {
                    keys: vec![key.into()],
                    qualifiers: infos.clone(),
                }];
                client.query(queries).wait().and_then(said)
            };
            match query(keys::QUERY_NAMESPACES) {
                Err(error) if error.status() == Status::ERR_NOT_SUPPORTED => {
                    query(keys::QUERY_AVAILABLE_SLOTS)
                }
                taken => taken,
            }
        }
        "PMIx_Get_credential" => client.get_credential(infos).wait().map(drop),
        "PMIx_Validate_credential" => client
            .validate_credential(vec![1], infos)
            .wait()
            .and_then(said),
        "PMIx_Spawn" => {
            let app = App {
                cmd: Some("/bin/true".into()),
                maxprocs: 1,
                ..App::default()
            };
            client.spawn(infos, vec![app]).wait().map(drop)
        }
        other => panic!("there is no call of {other}"),
    }
}

const FUNCTIONS: &[&str] = &[
    "PMIx_Fence",
    "PMIx_Connect",
    "PMIx_Disconnect",
    "PMIx_Lookup",
    "PMIx_Unpublish",
    "PMIx_Group_construct",
    "PMIx_IOF_push",
    "PMIx_IOF_deregister",
    "PMIx_Register_event_handler",
    "PMIx_Job_control",
    "PMIx_Session_control",
    "PMIx_Allocation_request",
    "PMIx_Resource_block",
    "PMIx_Fabric_register",
    "PMIx_Log",
    "PMIx_Process_monitor",
    "PMIx_Query_info",
    "PMIx_Get_credential",
    "PMIx_Validate_credential",
    "PMIx_Spawn",
    "PMIx_Group_leave",
];

/// Makes every call with every attribute that it does not support.
pub(crate) fn requires(client: Client) {
    let mut wrong = Vec::new();
    let mut num_refused = 0;
    for (key, functions) in documented() {
        for function in FUNCTIONS {
            // The server sets the user of the caller itself and ignores these attributes.
            let is_of_server = [keys::USERID, keys::GRPID].contains(&key);
            if is_of_server || functions.contains(*function) {
                continue;
            }
            let answer = call(&client, function, Info::new(key, true).required());
            match answer.map_err(|error| error.status()) {
                Err(Status::ERR_NOT_SUPPORTED) => num_refused += 1,
                other => wrong.push(format!("{function} with {key}: {other:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A directive that an upper layer has processed is not rejected.
    let mut processed = Info::new(keys::COLOCATE_PROCS, true).required();
    processed.set_processed();
    call(&client, "PMIx_Fence", processed).unwrap();
    println!("{num_refused} refused");
    client.finalize().unwrap();
}

#[test]
fn what_is_required_and_not_documented_is_refused() {
    let played = play("requires", 1);
    assert!(played.outcome.cause.is_none(), "{}", played.errors);
    let refused = played
        .output
        .lines()
        .find_map(|line| line.strip_suffix(" refused"));
    let refused: usize = refused.unwrap().parse().unwrap();
    assert!(refused > 10_000, "{refused}");
}

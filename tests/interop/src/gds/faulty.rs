// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faulty registrations: our status, the status of each release, and the reason for each difference.

use super::entry::{Entry, Given, entry, qualifier, text};
use super::ours::Ours;
use super::theirs::Server;
use super::{keys, questions};
use crate::peers::Peer;
use crate::tally::Tally;

/// The result of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Taken,
    BadParam,
    TypeMismatch,
    /// The end of the server by a crash.
    Crash,
}

use Fate::{BadParam, Crash, Taken, TypeMismatch};

impl Fate {
    fn of(outcome: &Result<i64, String>) -> Option<Self> {
        match outcome {
            Ok(0) => Some(Taken),
            Ok(-27) => Some(BadParam),
            Ok(-18) => Some(TypeMismatch),
            Ok(_) => None,
            Err(_) => Some(Crash),
        }
    }
}

/// A registration that is faulty, or that a release rejects as such.
struct Faulty {
    name: &'static str,
    infos: Vec<Entry>,
    ours: Fate,
    /// The results of 4.2 and 5.0.
    theirs: [Fate; 2],
    /// The reason why our result differs.
    reason: &'static str,
}

const REFUSED: [Fate; 2] = [BadParam; 2];
const WRONG_TYPE: [Fate; 2] = [TypeMismatch; 2];
const TAKEN: [Fate; 2] = [Taken; 2];

/// Compares the results of every registration.
///
/// # Errors
/// Returns a message if a program does not answer.
pub(super) fn check(ours: &Ours, peers: &[Peer], tally: &mut Tally) -> Result<(), String> {
    let all = all();
    let infos: Vec<_> = all.iter().map(|faulty| faulty.infos.as_slice()).collect();
    let what = "gds: faulty registrations, ours";
    for (faulty, status) in all.iter().zip(ours.try_register(&infos)?) {
        match Fate::of(&Ok(status)) {
            Some(fate) if fate == faulty.ours => tally.pass(what),
            _ => tally.fail(what, &format!("{}: {status}", faulty.name)),
        }
    }
    for peer in peers {
        let what = format!("gds: faulty registrations, {}", peer.version);
        let mut server = Server::start(peer, false)?;
        for faulty in &all {
            let outcome = server.try_register(&faulty.infos)?;
            let [old, new] = faulty.theirs;
            let expected = if peer.reads_blob { new } else { old };
            match Fate::of(&outcome) {
                Some(fate) if fate != expected => {
                    tally.fail(&what, &format!("{}: {outcome:?}", faulty.name));
                }
                None => tally.fail(&what, &format!("{}: {outcome:?}", faulty.name)),
                Some(fate) if fate == faulty.ours => tally.pass(&what),
                Some(_) if faulty.reason.is_empty() => {
                    tally.fail(
                        &what,
                        &format!("{}: {outcome:?}, and no reason", faulty.name),
                    );
                }
                Some(_) => tally.leave_out(&what, faulty.reason),
            }
        }
    }
    Ok(())
}

fn raw(key: &'static str, list: &str) -> Entry {
    entry(key, Given::Regex(format!("raw:{list}")))
}

fn number(key: &'static str) -> Entry {
    entry(key, Given::Number(7))
}

fn array(key: &'static str, infos: Vec<Entry>) -> Entry {
    entry(key, Given::Infos(infos))
}

fn rank(rank: u32) -> Entry {
    entry(keys::RANK, Given::Rank(rank))
}

/// Returns a job of two nodes with additional entries.
fn and(more: Vec<Entry>) -> Vec<Entry> {
    let maps = [raw(keys::NODE_MAP, "a,b"), raw(keys::PROC_MAP, "0,1;2,3")];
    maps.into_iter().chain(more).collect()
}

fn maps(nodes: Entry, procs: Entry) -> Vec<Entry> {
    vec![nodes, procs]
}

fn all() -> Vec<Faulty> {
    let mut all = of_maps();
    all.extend(of_processes());
    all.extend(of_arrays());
    all
}

/// Creates an entry of the table, without field names.
fn faulty(
    name: &'static str,
    infos: Vec<Entry>,
    ours: Fate,
    theirs: [Fate; 2],
    reason: &'static str,
) -> Faulty {
    Faulty {
        name,
        infos,
        ours,
        theirs,
        reason,
    }
}

fn of_maps() -> Vec<Faulty> {
    let nodes = || raw(keys::NODE_MAP, "a,b");
    let procs = || raw(keys::PROC_MAP, "0,1;2,3");
    let given = |key, map: &str| entry(key, Given::Regex(map.to_owned()));
    vec![
        faulty(
            "maps of different length",
            maps(raw(keys::NODE_MAP, "a,b,c"), procs()),
            BadParam,
            REFUSED,
            "",
        ),
        faulty(
            "a node without processes",
            maps(raw(keys::NODE_MAP, "a,b,c"), raw(keys::PROC_MAP, "0,1;;2")),
            Taken,
            REFUSED,
            "a node may have none; the releases drop it from one map only",
        ),
        faulty("two node maps", and(vec![nodes()]), BadParam, REFUSED, ""),
        faulty(
            "two process maps",
            and(vec![procs()]),
            BadParam,
            REFUSED,
            "",
        ),
        faulty(
            "a number for a node map",
            maps(number(keys::NODE_MAP), procs()),
            TypeMismatch,
            WRONG_TYPE,
            "",
        ),
        faulty(
            "a number for a process map",
            maps(nodes(), number(keys::PROC_MAP)),
            TypeMismatch,
            WRONG_TYPE,
            "",
        ),
        faulty(
            "a node map that is cut short",
            maps(given(keys::NODE_MAP, "pmix[a[3:0-"), procs()),
            BadParam,
            REFUSED,
            "",
        ),
        faulty(
            "a rank that is no number",
            maps(nodes(), given(keys::PROC_MAP, "pmix[0-x;2]")),
            BadParam,
            TAKEN,
            "the releases read the digits in front",
        ),
        faulty(
            "a rank on two nodes",
            maps(nodes(), raw(keys::PROC_MAP, "0,1;1,2")),
            BadParam,
            TAKEN,
            "a process runs on one node; the releases keep the last one",
        ),
        faulty("a node map alone", vec![nodes()], Taken, TAKEN, ""),
        faulty("a process map alone", vec![procs()], Taken, TAKEN, ""),
    ]
}

fn of_processes() -> Vec<Faulty> {
    let value = || text(keys::MY_PROC, "x");
    let proc = |infos| and(vec![array(keys::PROC_ARRAY, infos)]);
    vec![
        faulty(
            "a process described twice",
            and(vec![
                array(keys::PROC_ARRAY, vec![rank(1), value()]),
                array(keys::PROC_ARRAY, vec![rank(1), value()]),
            ]),
            BadParam,
            TAKEN,
            "one of two descriptions of a process is a mistake",
        ),
        faulty(
            "a process without a rank",
            proc(vec![value()]),
            BadParam,
            WRONG_TYPE,
            "an entry that is missing has no type",
        ),
        faulty(
            "a process whose rank stands last",
            proc(vec![value(), rank(1)]),
            Taken,
            WRONG_TYPE,
            "the Standard asks for the rank, not for its place",
        ),
        faulty(
            "a process of any rank",
            proc(vec![rank(questions::WILDCARD), value()]),
            BadParam,
            TAKEN,
            "an array is about one process; values of the job stand elsewhere",
        ),
        faulty(
            "a process that no map has",
            proc(vec![rank(77), value()]),
            Taken,
            TAKEN,
            "",
        ),
        faulty(
            "a number for a process",
            and(vec![number(keys::PROC_ARRAY)]),
            TypeMismatch,
            WRONG_TYPE,
            "",
        ),
        faulty(
            "a number for a qualified value",
            and(vec![number(keys::QUALIFIED)]),
            BadParam,
            [Crash; 2],
            "it is refused as every array that is none",
        ),
        faulty(
            "a qualified value of a process",
            proc(vec![
                rank(1),
                array(
                    keys::QUALIFIED,
                    vec![value(), qualifier(keys::MY_COLOUR, "red")],
                ),
            ]),
            Taken,
            TAKEN,
            "",
        ),
    ]
}

fn of_arrays() -> Vec<Faulty> {
    let one = |key, infos| and(vec![array(key, infos)]);
    let size = || number(keys::APP_SIZE);
    let unknown = "pmix.rack.arr";
    let mut all: Vec<_> = [
        keys::SESSION_ARRAY,
        keys::JOB_ARRAY,
        keys::APP_ARRAY,
        keys::NODE_ARRAY,
    ]
    .into_iter()
    .map(|key| faulty(key, and(vec![number(key)]), TypeMismatch, WRONG_TYPE, ""))
    .collect();
    all.extend([
        faulty(
            "a node without name and number",
            one(keys::NODE_ARRAY, vec![number(keys::MEMORY)]),
            BadParam,
            REFUSED,
            "",
        ),
        faulty(
            "an application without a number",
            one(keys::APP_ARRAY, vec![size()]),
            BadParam,
            TAKEN,
            "its application is unknown",
        ),
        faulty(
            "an application whose number stands last",
            one(keys::APP_ARRAY, vec![size(), number(keys::APP_NUM)]),
            Taken,
            TAKEN,
            "",
        ),
        faulty(
            "a session without a number",
            one(keys::SESSION_ARRAY, vec![number(keys::UNIVERSE_SIZE)]),
            BadParam,
            REFUSED,
            "",
        ),
        faulty(
            "an array under a key that is not known",
            one(unknown, vec![number("my.rack")]),
            BadParam,
            [BadParam, Taken],
            "its subject is unknown; 5.0 keeps it as a value of the job",
        ),
        faulty(
            "an empty job array",
            one(keys::JOB_ARRAY, Vec::new()),
            Taken,
            TAKEN,
            "",
        ),
    ]);
    all
}

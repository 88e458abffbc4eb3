// SPDX-License-Identifier: MIT OR Apache-2.0
//! The placement of processes of spawned jobs by directives: their numbers for each part of the node, and the
//! processors that the kernel lets each of them use.

use std::fmt::Write as _;
use std::path::Path;

use pmix_client::Client;
use pmix_types::{Info, Proc, Rank, Status, keys};

use crate::actors::peer;
use crate::directed::start;
use crate::stage::{Played, play_plan};

/// A shell command that prints a word, the rank, and the available processors.
const SAY: &str = "grep Cpus_allowed_list: /proc/self/status | tr '\\t' ' ' | \
                   { read key cpus; echo $0 rank $PMIX_RANK uses $cpus; }";

/// Spawns jobs of processes that print a word and their available processors.
pub(crate) fn placed(mut client: Client) {
    let mut say = |word: &str, maxprocs, infos| {
        start(&mut client, &["sh", "-c", SAY, word], maxprocs, &[], infos)
    };
    let ppr = |text: &'static str| vec![Info::new(keys::PPR, text)];
    say("pairs", 4, ppr("2:package"));
    assert_eq!(
        say("five", 5, ppr("2:package")),
        Status::ERR_JOB_FAILED_TO_MAP
    );
    say("node", 0, ppr("3:node"));
    let cores = |number: u16| vec![Info::new(keys::CPUS_PER_PROC, number)];
    say("one", 2, cores(1));
    say("both", 2, cores(2));
    client.finalize().unwrap();
}

/// Spawns processes on the node of the processes of this job.
pub(crate) fn on_the_node(mut client: Client) {
    if client.proc().rank == Rank::new(0) {
        let all = Proc::new(client.proc().nspace.clone(), Rank::WILDCARD);
        let both = vec![peer(&client, 0), peer(&client, 1)];
        let mut beside = |word, mut infos: Vec<Info<'static>>, procs: Vec<Proc<'static>>| {
            infos.push(Info::new(keys::COLOCATE_PROCS, procs));
            start(&mut client, &["echo", word], 1, &[], infos)
        };
        let on_node = |number: u16| Info::new(keys::COLOCATE_NPERNODE, number);
        beside("on the node of both", vec![on_node(3)], both);
        beside("on the node of all", vec![on_node(2)], vec![all.clone()]);
        let each = Info::new(keys::COLOCATE_NPERPROC, 2u16);
        beside("beside each", vec![each.clone()], vec![all.clone()]);
        let status = beside("never", vec![on_node(2), each], vec![all]);
        assert_eq!(status, Status::ERR_BAD_PARAM);
        let status = beside("never", vec![on_node(2)], Vec::new());
        assert_eq!(status, Status::ERR_BAD_PARAM);
    }
    crate::actors::wait_for_all(&mut client);
    client.finalize().unwrap();
}

/// Returns two packages of one core with one of these processors each, as hwloc writes them.
fn machine(cpus: [u32; 2]) -> String {
    let both = mask(&cpus);
    let mut text = format!(
        "<topology version=\"2.0\">\n<object type=\"Machine\" os_index=\"0\" cpuset=\"{both}\" gp_index=\"1\">\n"
    );
    for (number, cpu) in (2..).step_by(3).zip(cpus) {
        let (core, unit, set) = (number + 1, number + 2, mask(&[cpu]));
        writeln!(
            text,
            "<object type=\"Package\" os_index=\"{cpu}\" cpuset=\"{set}\" gp_index=\"{number}\">\n\
             <object type=\"Core\" os_index=\"{cpu}\" cpuset=\"{set}\" gp_index=\"{core}\">\n\
             <object type=\"PU\" os_index=\"{cpu}\" cpuset=\"{set}\" gp_index=\"{unit}\"/>\n\
             </object>\n</object>"
        )
        .unwrap();
    }
    text + "</object>\n</topology>\n"
}

/// Returns a set of processors in words of 32 bits, the highest first.
fn mask(cpus: &[u32]) -> String {
    let num_words = cpus.iter().max().map_or(1, |highest| highest / 32 + 1);
    let words = (0..num_words).rev().map(|word| {
        let here = cpus.iter().filter(|cpu| **cpu / 32 == word);
        format!(
            "0x{:08x}",
            here.fold(0u32, |bits, cpu| bits | 1 << (cpu % 32))
        )
    });
    words.collect::<Vec<_>>().join(",")
}

/// Returns the first two processors that this process may use.
fn two_processors() -> [u32; 2] {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let runs = list.unwrap().trim().split(',').map(|run| {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        first.parse::<u32>().unwrap()..=last.parse().unwrap()
    });
    let cpus: Vec<_> = runs.flatten().take(2).collect();
    cpus.try_into()
        .expect("two processors to place processes on")
}

fn well(act: &str, num_procs: u32, machine: Option<&Path>) -> Played {
    let played = play_plan(act, num_procs, &[], |plan| {
        if let Some(file) = machine {
            plan.environment = vec![("HWLOC_XMLFILE".into(), file.into())].into();
        }
    });
    assert_eq!(
        played.outcome.cause, None,
        "{}{}",
        played.output, played.errors
    );
    played
}

#[test]
fn processes_are_bound_to_as_many_cores_and_to_the_parts_that_directives_say() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("machine.xml");
    let [first, second] = two_processors();
    std::fs::write(&file, machine([first, second])).unwrap();
    let played = well("placed", 1, Some(&file));
    let both = match second - first {
        1 => format!("{first}-{second}"),
        _ => format!("{first},{second}"),
    };
    let expected = [
        format!("both rank 0 uses {both}"),
        format!("both rank 1 uses {both}"),
        format!("one rank 0 uses {first}"),
        format!("one rank 1 uses {second}"),
        format!("pairs rank 0 uses {first}"),
        format!("pairs rank 1 uses {first}"),
        format!("pairs rank 2 uses {second}"),
        format!("pairs rank 3 uses {second}"),
    ];
    let (on_node, bound): (Vec<_>, Vec<_>) = { played.output.lines() }
        .filter(|line| line.contains(" uses "))
        .partition(|line| line.starts_with("node "));
    assert_eq!(bound, expected);
    // Binding to the node does not restrict the processors.
    assert_eq!(on_node.len(), 3, "{on_node:?}");
}

#[test]
fn so_many_processes_are_on_the_node_of_others_however_many_these_are() {
    let played = well("on_the_node", 2, None);
    for (line, times) in [
        ("on the node of both\n", 3),
        ("on the node of all\n", 2),
        ("beside each\n", 4),
        ("never\n", 0),
    ] {
        let found = played.output.matches(line).count();
        assert_eq!(found, times, "{line} in {}", played.output);
    }
}

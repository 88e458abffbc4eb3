// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of `cargo xtask bench gds` for this project: measures time and memory of a job in a
//! store.
//!
//! `gds NODE_MAP PROC_MAP NUM_NODES NUM_PROCS GETS CYCLES [procs] [folded] [reply RELEASE]` does
//! what `benches/peers/gds.c` does with a real server, and prints the same lines: a name, the
//! minimum and the median, in nanoseconds or bytes. In addition, `calls_...` is the number of
//! allocations of a get, and `scan` the time to read each byte of both maps. With `procs` every
//! process has its own array. With `folded` the maps are parsed before the registration and passed
//! folded, and `peak` is the peak memory of a registration. With `reply`, it adds the figures of
//! the job info for a client of that release. Memory means allocated and not yet freed memory.

mod meter;
mod reply;

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use gds_hash::{LocalNode, Registration, Request, Store};
use pmix_map::{NodeList, ProcMap};
use pmix_types::{DataArray, Info, Nspace, Rank, RegexBytes, Value, keys};
use preg_core::Params;

#[global_allocator]
static METER: meter::Meter = meter::Meter;

fn nspace() -> Nspace<'static> {
    Nspace::new("bench-gds@1")
}

/// The number of gets that are timed together, because reading the clock takes as long as a get.
const TOGETHER: u32 = 50;

type Fault = Box<dyn std::error::Error>;

/// The size of a job.
#[derive(Clone, Copy)]
struct Size {
    nodes: u32,
    procs: u32,
}

fn show(name: &str, mut figures: Vec<f64>) {
    figures.sort_unstable_by(f64::total_cmp);
    if let (Some(least), Some(median)) = (figures.first(), figures.get(figures.len() / 2)) {
        println!("{name} {least:.1} {median:.1}");
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a time of months is not measured"
)]
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = black_box(work());
    let took = start.elapsed().as_nanos();
    (result, took as f64)
}

/// Returns an info with a map: text, or an encoded map if the text looks like one.
fn map(key: &'static str, text: &[u8]) -> Info<'static> {
    let encoded = ["pmix[", "raw:", "blob:", "fold:"];
    let is_encoded = encoded.iter().any(|tag| text.starts_with(tag.as_bytes()));
    let value = if is_encoded {
        Value::Regex(RegexBytes(text.to_vec().into()))
    } else {
        Value::from(String::from_utf8_lossy(text).into_owned())
    };
    Info::new(key, value)
}

/// Returns process arrays as a host might register them for a job that is placed by blocks.
fn proc_arrays(size: Size) -> Vec<Info<'static>> {
    let each = size.procs / size.nodes;
    let array = |rank: u32| {
        let place = u16::try_from(rank % each).unwrap_or(u16::MAX);
        let infos = vec![
            Info::new(keys::RANK, Rank::new(rank)),
            Info::new(keys::APPNUM, Value::Uint32(0)),
            Info::new(keys::GLOBAL_RANK, Rank::new(rank)),
            Info::new(keys::APP_RANK, Rank::new(rank)),
            Info::new(keys::LOCAL_RANK, Value::Uint16(place)),
            Info::new(keys::NODE_RANK, Value::Uint16(place)),
            Info::new(keys::NODEID, Value::Uint32(rank / each)),
        ];
        Info::new(
            keys::PROC_INFO_ARRAY,
            Value::DataArray(DataArray::Info(infos)),
        )
    };
    (0..size.procs).map(array).collect()
}

/// A key that is requested for ranks or for nodes. Each get is about another rank or node.
struct Question {
    name: &'static str,
    key: &'static str,
    /// The number of ranks; `None` for gets about the job.
    ranks: Option<u32>,
    /// The number of nodes; `None` if the gets name no node.
    nodes: Option<u32>,
}

impl Question {
    fn get(&self, store: &Store, turn: u32) -> Result<Value<'static>, gds_hash::Error> {
        let rank = self.ranks.map_or(Rank::WILDCARD, |n| Rank::new(turn % n));
        let node = turn % self.nodes.unwrap_or(1);
        let how = [
            Info::new(keys::NODE_INFO, true),
            Info::new(keys::NODEID, Value::Uint32(node)),
        ];
        let how = if self.nodes.is_some() { &how[..] } else { &[] };
        store.get(&nspace(), &Request::new(rank, self.key).with(how))
    }

    fn time(&self, store: &Store, gets: u32) -> Result<(), Fault> {
        let mut times = Vec::new();
        for batch in 0..gets.div_ceil(TOGETHER) {
            let turns = (batch * TOGETHER..).take(TOGETHER as usize);
            let (results, took) = timed(|| {
                // An irregular step, so that no table can predict it.
                let mut turns = turns.map(|i| i.wrapping_mul(2_654_435_761));
                turns.try_for_each(|turn| self.get(store, turn).map(|v| drop(black_box(v))))
            });
            results?;
            times.push(took / f64::from(TOGETHER));
        }
        show(self.name, times);
        let (_, before) = meter::now();
        let value = self.get(store, 12_345)?;
        let (_, after) = meter::now();
        drop(value);
        println!("calls_{} {} {1}", self.name, after - before);
        Ok(())
    }
}

/// Registers the job. Returns the time and the bytes of memory that this took.
fn register(store: &Store, given: &RankSet) -> Result<(f64, usize), Fault> {
    let registration = given.registration();
    meter::forget_peak();
    let (before, _) = meter::now();
    let (result, took) = timed(|| store.register_nspace(&nspace(), 1, registration));
    result?;
    let (after, _) = meter::now();
    Ok((took, after.saturating_sub(before)))
}

/// The data of a registration.
struct RankSet {
    infos: Vec<Info<'static>>,
    /// The folded maps, if they are passed folded.
    maps: Option<(NodeList, ProcMap)>,
}

impl RankSet {
    fn registration(&self) -> Registration<'_> {
        let registration = Registration::new(&self.infos);
        match self.maps.clone() {
            Some((nodes, procs)) => registration.with_maps(nodes, procs),
            None => registration,
        }
    }
}

fn deregister(store: &Store) -> Result<f64, Fault> {
    let (result, took) = timed(|| store.deregister_nspace(&nspace()));
    result?;
    Ok(took)
}

fn scan(maps: [&[u8]; 2]) {
    let look = || -> usize {
        let nodes = maps[0].iter().filter(|c| **c == b',').count();
        nodes + maps[1].iter().filter(|c| **c == b',').count()
    };
    show("scan", (0..5).map(|_| timed(look).1).collect());
}

fn run(arguments: &[String]) -> Result<(), Fault> {
    let [nodes, procs, num_nodes, num_procs, gets, cycles, rest @ ..] = arguments else {
        return Err(
            "usage: gds NODE_MAP PROC_MAP NUM_NODES NUM_PROCS GETS CYCLES [procs] [folded] \
             [reply RELEASE]"
                .into(),
        );
    };
    let size = Size {
        nodes: num_nodes.parse()?,
        procs: num_procs.parse()?,
    };
    let (gets, cycles): (u32, usize) = (gets.parse()?, cycles.parse()?);
    let (nodes, procs) = (std::fs::read(nodes)?, std::fs::read(procs)?);
    let preg = Arc::new(pmix_builtin::open_preg(&Params::default())?);
    let mut infos = Vec::new();
    let maps = match rest.iter().any(|word| word == "folded") {
        true => Some((preg.parse_nodes(&nodes)?, preg.parse_procs(&procs)?)),
        false => {
            infos.extend([map(keys::NODE_MAP, &nodes), map(keys::PROC_MAP, &procs)]);
            None
        }
    };
    if rest.iter().any(|word| word == "procs") {
        infos.extend(proc_arrays(size));
    }
    let given = RankSet { infos, maps };
    let store = Store::new(preg, LocalNode::new("server"));

    // The first job includes the one-time setup of the store.
    let (took, _) = register(&store, &given)?;
    let mut registered = vec![took];
    let mut deregistered = vec![deregister(&store)?];
    let (took, memory) = register(&store, &given)?;
    registered.push(took);
    println!("memory {memory} {memory}");
    let peak = meter::peak();
    println!("peak {peak} {peak}");
    let question = |name, key, ranks, nodes| Question {
        name,
        key,
        ranks,
        nodes,
    };
    for question in [
        question("get_job", keys::JOB_SIZE, None, None),
        question("get_rank", keys::HOSTNAME, Some(size.procs), None),
        question("get_node", keys::LOCAL_PEERS, None, Some(size.nodes)),
        question("get_leader", keys::LOCALLDR, None, Some(size.nodes)),
    ] {
        question.time(&store, gets)?;
    }
    if let Some(place) = rest.iter().position(|word| word == "reply") {
        reply::time(&store, rest.get(place + 1).map_or("", String::as_str))?;
    }
    deregistered.push(deregister(&store)?);
    for _ in 0..cycles {
        registered.push(register(&store, &given)?.0);
        deregistered.push(deregister(&store)?);
    }
    show("register", registered);
    show("deregister", deregistered);
    scan([&nodes, &procs]);
    Ok(())
}

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    arguments.retain(|a| a != "--bench");
    if arguments.is_empty() {
        println!("the figures come from: cargo xtask bench gds");
        return ExitCode::SUCCESS;
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

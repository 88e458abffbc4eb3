// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random jobs, with node names of several shapes, uneven nodes, and values at every level.

use super::entry::{Entry, Given, THIS_HOST, entry, text};
use super::keys;
use super::node::{self, Named, Node};
use super::plan::{App, Form, Plan, Session, Shades};
use crate::random::Random;

/// Returns a job; `number` makes its name unique.
pub(super) fn plan(random: &mut Random, number: usize) -> Plan {
    let names = names(random);
    // The encoder of 4.2 may move a name without a digit to the end; the preg checks cover that.
    let forms = [Form::Raw, Form::Native, Form::Text, Form::Library];
    let own = names.iter().any(|name| name == THIS_HOST);
    let forms = if own { &forms[..3] } else { &forms };
    let ranks = placement(random, names.len());
    let mut plan = Plan {
        nspace: format!("gds-{number}@1"),
        form: *random.pick(forms),
        nodes: nodes(&names, ranks),
        job: Vec::new(),
        in_array: random.one_in(6),
        own: Vec::new(),
        apps: Vec::new(),
        procs: Vec::new(),
        session: None,
        shades: Vec::new(),
        again: None,
        kept: None,
        order: (0..200).collect(),
    };
    job_values(random, &mut plan);
    node_arrays(random, &mut plan);
    own_values(random, &mut plan);
    if random.one_in(3) {
        apps(random, &mut plan);
    }
    if random.one_in(2) {
        procs(random, &mut plan);
    }
    if random.one_in(3) {
        plan.session = Some(session(random, &plan));
    }
    if random.one_in(4) {
        shades(random, &mut plan);
    }
    if random.one_in(3) {
        random.shuffle(&mut plan.order);
    }
    rarer(random, &mut plan);
    plan
}

/// Adds features that only some releases accept, or that they handle differently.
fn rarer(random: &mut Random, plan: &mut Plan) {
    match random.within(0, 19) {
        0 => plan.form = Form::Regex2,
        1 | 2 if node::can_say(&plan.nodes) && !grows(plan) => plan.form = Form::Anl,
        3 if plan.form != Form::Library => idle(random, plan),
        4 | 5 if plan.form != Form::Library => again(random, plan),
        6..=8 if plan.form != Form::Library => update(random, plan),
        _ => {}
    }
}

/// Returns `true` if the stated job size exceeds the maps. A PMI-2 map would be repeated until the size is reached.
fn grows(plan: &Plan) -> bool {
    let size = plan.size();
    let grows = |e: &Entry| e.key == keys::JOB_SIZE && e.given != Given::Number(size);
    plan.job.iter().any(grows)
}

/// Removes the processes of a node.
fn idle(random: &mut Random, plan: &mut Plan) {
    let has_arrays = !plan.procs.is_empty() || !plan.apps.is_empty() || plan.nodes.len() < 2;
    let stated = |e: &Entry| e.key == keys::JOB_SIZE || e.key == keys::MAX_PROCS;
    if has_arrays || plan.job.iter().any(stated) || plan.shades.iter().any(|s| s.rank.is_some()) {
        return;
    }
    let last = plan.nodes.len() as u64 - 1;
    let place = usize::try_from(random.within(0, last)).unwrap_or(0);
    plan.nodes[place].ranks.clear();
}

/// Names a node twice in the maps.
fn again(random: &mut Random, plan: &mut Plan) {
    let last = plan.nodes.len() as u64 - 1;
    let place = usize::try_from(random.within(0, last)).unwrap_or(0);
    let ranks = plan.nodes[place].ranks.len() as u64;
    if ranks > 1 {
        let from = usize::try_from(random.within(1, ranks - 1)).unwrap_or(1);
        plan.again = Some((place, from));
    }
}

/// Splits the job into two registrations; the second one changes values of the first.
fn update(random: &mut Random, plan: &mut Plan) {
    let maps_are_kept = random.one_in(2);
    let is_map = |e: &Entry| e.key == keys::NODE_MAP || e.key == keys::PROC_MAP;
    let entries = plan.entries();
    let kept = entries.iter().map(|e| match is_map(e) {
        true => maps_are_kept,
        false => random.one_in(3),
    });
    plan.kept = Some(kept.collect());
}

/// Adds values of one key with a color as qualifier, to the job and to a process.
fn shades(random: &mut Random, plan: &mut Plan) {
    let colours = vec!["red", "blue", "green"];
    let described = plan.procs.first().map(|(rank, _)| *rank);
    for rank in [None, described] {
        let is_of_job = rank.is_none() && !plan.in_array;
        if (is_of_job || rank.is_some()) && random.one_in(2) {
            let mut colours = colours.clone();
            colours.truncate(usize::try_from(random.within(1, 3)).unwrap_or(3));
            plan.shades.push(Shades { rank, colours });
        }
    }
}

/// Returns node names of one shape; sometimes one of them is this node.
fn names(random: &mut Random) -> Vec<String> {
    let count = random.within(1, 9);
    let first = random.within(0, 120);
    let shape = random.within(0, 6);
    let step = if random.one_in(3) {
        random.within(2, 4)
    } else {
        1
    };
    let one = |i: u64| match shape {
        0 => format!("node{:04}", first + i * step),
        1 => format!("n{}", first + i * step),
        2 => format!("r{:02}n{:02}", i / 4, i % 4 + 1),
        3 => format!("x{}c{}s{}b0n{}", 1000 + first, i / 8, i / 2 % 4, i % 2),
        4 => format!(
            "gpu-{}{}",
            ["a", "b", "c"][usize::try_from(i % 3).unwrap_or(0)],
            i
        ),
        5 => format!("c{:03}.cluster.example.org", first + i * step),
        _ => {
            format!(
                "host{}",
                ["alpha", "beta", "gamma", "x"][usize::try_from(i % 4).unwrap_or(0)]
            ) + &"q".repeat(usize::try_from(i / 4).unwrap_or(0))
        }
    };
    let mut names: Vec<_> = (0..count).map(one).collect();
    if random.one_in(4) {
        random.shuffle(&mut names);
    }
    if random.one_in(4) {
        let place = usize::try_from(random.within(0, count - 1)).unwrap_or(0);
        THIS_HOST.clone_into(&mut names[place]);
    }
    names
}

/// Returns the ranks of each node: by blocks, round-robin, in pairs round-robin, or in random order.
fn placement(random: &mut Random, nodes: usize) -> Vec<Vec<u32>> {
    let even = random.within(1, 6);
    let mixed = random.one_in(3);
    let counts: Vec<u64> = (0..nodes)
        .map(|_| if mixed { random.within(1, 7) } else { even })
        .collect();
    let total = u32::try_from(counts.iter().sum::<u64>()).unwrap_or(0);
    let kind = random.within(0, 3);
    let mut left = counts;
    let mut placed = vec![Vec::new(); nodes];
    let mut ranks: Vec<u32> = (0..total).collect();
    if kind == 3 {
        // Also skip some ranks.
        ranks = (0..2 * total).collect();
        random.shuffle(&mut ranks);
        ranks.truncate(usize::try_from(total).unwrap_or(0));
    }
    let chunk = match kind {
        1 => 1,
        2 => 2,
        _ => u64::MAX,
    };
    let mut rest = ranks.into_iter();
    while left.iter().any(|n| *n > 0) {
        for (node, left) in placed.iter_mut().zip(&mut left) {
            let now = chunk.min(*left);
            node.extend(rest.by_ref().take(usize::try_from(now).unwrap_or(0)));
            *left -= now;
        }
    }
    placed
}

fn nodes(names: &[String], ranks: Vec<Vec<u32>>) -> Vec<Node> {
    let node = |((id, name), ranks): ((u32, &String), Vec<u32>)| Node {
        name: name.clone(),
        id,
        ranks,
        aliases: Vec::new(),
        values: Vec::new(),
        named: Named::Both,
    };
    (0..).zip(names).zip(ranks).map(node).collect()
}

fn job_values(random: &mut Random, plan: &mut Plan) {
    let size = plan.size();
    if plan.nodes.iter().any(|n| n.name.contains('.')) {
        plan.job.push(entry(keys::KEEP_FQDN, Given::Flag(true)));
    }
    let nodes = u32::try_from(plan.nodes.len()).unwrap_or(0);
    let possible = [
        text(keys::JOB_ID, "1234.0"),
        entry(keys::JOB_SIZE, Given::Number(size)),
        entry(keys::JOB_SIZE, Given::Number(size + 1)),
        entry(keys::NUM_NODES, Given::Number(nodes)),
        entry(keys::MAX_PROCS, Given::Number(size + 4)),
        entry(keys::OFFSET, Given::Rank(100)),
        entry(keys::NUM_APPS, Given::Number(1)),
        entry(keys::UNIVERSE_SIZE, Given::Number(size + 8)),
        text(keys::MAP_BY, "slot"),
        text(keys::MY_JOB, "a value, with \"quotes\""),
        text(keys::NODE_LIST, "as,the,host,says"),
    ];
    for one in possible {
        if random.one_in(4) && !plan.job.iter().any(|e| e.key == one.key) {
            plan.job.push(one);
        }
    }
}

/// Adds values of this node outside of any array, unless the node has an array.
fn own_values(random: &mut Random, plan: &mut Plan) {
    let here = |node: &Node| node.name == THIS_HOST && !node.has_array();
    if plan.nodes.iter().any(here) && random.one_in(2) {
        plan.own.push(entry(keys::NODE_SIZE, Given::Number(40)));
        plan.own.push(entry(keys::MEMORY, Given::Number(4096)));
    }
}

fn node_values(random: &mut Random, some: u64) -> Vec<Entry> {
    let number = u32::try_from(random.within(1, 1 << 20)).unwrap_or(1);
    let possible = [
        entry(keys::MEMORY, Given::Number(number)),
        entry(keys::NODE_SIZE, Given::Number(number % 64)),
        text(keys::MY_NODE, &format!("value {number}")),
        // Keys that the library would otherwise derive from the maps.
        text(keys::LOCAL_PEERS, "7,8,9"),
        entry(keys::LOCAL_LEADER, Given::Rank(7)),
        entry(keys::LOCAL_SIZE, Given::Number(3)),
    ];
    let mut values = Vec::new();
    for (place, one) in possible.into_iter().enumerate() {
        if random.one_in(if place < 3 { 2 } else { some }) {
            values.push(one);
        }
    }
    values
}

fn node_arrays(random: &mut Random, plan: &mut Plan) {
    let named = match random.within(0, 11) {
        0 => Named::Id,
        1..=4 => Named::Name,
        _ => Named::Both,
    };
    let all = random.one_in(2);
    let renumbered = named == Named::Both && all && random.one_in(2);
    let skip = random.one_in(3);
    for (place, node) in plan.nodes.iter_mut().enumerate() {
        if skip || !(all || random.one_in(3)) {
            continue;
        }
        node.named = named;
        node.values = node_values(random, 8);
        if node.values.is_empty() {
            node.values.push(text(keys::MY_NODE, "alone"));
        }
        if renumbered {
            node.id = 1000 - node.id;
        }
        if random.one_in(3) {
            node.aliases = vec![format!("alias{place}"), format!("10.0.0.{}", place + 1)];
        }
    }
}

/// Adds up to three applications over all ranks, if those are consecutive.
fn apps(random: &mut Random, plan: &mut Plan) {
    let size = plan.size();
    if plan.nodes.iter().flat_map(|n| &n.ranks).any(|r| *r >= size) {
        return;
    }
    let mut first = 0;
    while first < size && plan.apps.len() < 3 {
        let left = size - first;
        let part = u32::try_from(random.within(1, u64::from(left))).unwrap_or(left);
        let part = if plan.apps.len() == 2 { left } else { part };
        let number = plan.apps.len();
        let mut values = vec![text(keys::WORKING_DIR, &format!("/scratch/{number}"))];
        if random.one_in(2) {
            values.push(text(keys::ARGUMENTS, &format!("./app{number} -x")));
        }
        let mut nodes = Vec::new();
        // Skip the array of this node if the job already has values of this node.
        if random.one_in(2) {
            let any = random.within(0, plan.nodes.len() as u64 - 1);
            let here = plan.nodes.iter().position(|n| n.name == THIS_HOST);
            let place = here.unwrap_or_else(|| usize::try_from(any).unwrap_or(0));
            nodes.push((
                place,
                vec![text(keys::MY_NODE, &format!("of app {number}"))],
            ));
        }
        plan.apps.push(App {
            first,
            size: part,
            values,
            nodes,
        });
        first += part;
    }
    plan.job.retain(|e| e.key != keys::NUM_APPS);
}

/// Adds values of some or all processes.
fn procs(random: &mut Random, plan: &mut Plan) {
    let all = random.one_in(2);
    let mut procs = Vec::new();
    for node in &plan.nodes {
        for (place, rank) in (0..).zip(&node.ranks) {
            if !all && !random.one_in(3) {
                continue;
            }
            let number = plan
                .apps
                .iter()
                .position(|a| (a.first..a.first + a.size).contains(rank));
            let number = u32::try_from(number.unwrap_or(0)).unwrap_or(0);
            let possible = [
                entry(keys::APP_NUM, Given::Number(number)),
                entry(keys::GLOBAL_RANK, Given::Rank(500 + rank)),
                entry(keys::LOCAL_RANK, Given::Short(place)),
                entry(keys::NODE_RANK, Given::Short(place + 10)),
                entry(keys::NODE_ID, Given::Number(node.id)),
                text(keys::MY_PROC, &format!("value of {rank}")),
            ];
            let mut values: Vec<_> = possible.into_iter().filter(|_| random.one_in(2)).collect();
            if random.one_in(6) {
                let alias = node.aliases.first().unwrap_or(&node.name);
                values.push(text(keys::HOST_NAME, alias));
            }
            procs.push((*rank, values));
        }
    }
    if !random.one_in(3) {
        // Add a key that only one process has.
        let mut first = true;
        for (_, values) in &mut procs {
            values.retain(|e: &Entry| e.key != keys::MY_PROC || std::mem::take(&mut first));
        }
    }
    plan.procs = procs;
}

fn session(random: &mut Random, plan: &Plan) -> Session {
    let mut values = vec![text(keys::CLUSTER_ID, "cluster-a")];
    if !plan.job.iter().any(|e| e.key == keys::UNIVERSE_SIZE) {
        values.push(entry(keys::UNIVERSE_SIZE, Given::Number(64)));
    }
    if random.one_in(2) {
        values.push(text(keys::ALLOCATED, &plan.names()));
    }
    let id = u32::try_from(random.within(1, 99)).unwrap_or(1);
    Session { id, values }
}

#[cfg(test)]
mod tests {
    use super::plan;
    use crate::random::Random;

    #[test]
    fn a_seed_is_a_whole_job_and_no_rank_is_on_two_nodes() {
        for seed in 0..300 {
            let one = plan(&mut Random::new(seed), 1);
            let two = plan(&mut Random::new(seed), 1);
            assert_eq!(one.json(), two.json());
            let mut ranks: Vec<_> = one.nodes.iter().flat_map(|n| &n.ranks).collect();
            let count = ranks.len();
            ranks.sort_unstable();
            ranks.dedup();
            assert_eq!(ranks.len(), count, "seed {seed}");
            let mut names: Vec<_> = one.nodes.iter().map(|n| &n.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), one.nodes.len(), "seed {seed}");
            assert!(one.entries().len() <= one.order.len(), "seed {seed}");
        }
    }
}

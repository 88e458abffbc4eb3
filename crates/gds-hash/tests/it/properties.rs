// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the values of random jobs with a simple model, for any nesting of the registration.

use std::collections::BTreeMap;

use gds_hash::{Job, LocalNode, Request};
use pmix_types::{
    DataArray, Info, Nspace, Proc, Rank, RegexBytes, Status, Value, WireRegex2, keys,
};
use preg_core::{Params, Preg};
use proptest::collection::vec;
use proptest::prelude::*;

const NSPACE: &str = "job@1";
const JOB: Rank = Rank::WILDCARD;

/// The content of a registration.
#[derive(Clone, Debug)]
struct Plan {
    nodes: Vec<String>,
    groups: Vec<Vec<u32>>,
    /// The form of the maps.
    form: u8,
    offset: Option<u32>,
    /// The sizes of the applications, in the order of their numbers; empty if they are not
    /// registered.
    apps: Vec<u32>,
    /// The registered values of each rank, by the index of the key in `OF_RANK`.
    ranks: BTreeMap<u32, BTreeMap<usize, u16>>,
    /// The registered values of each node, by name.
    named: BTreeMap<String, Stated>,
}

#[derive(Clone, Debug, Default)]
struct Stated {
    peers: Option<String>,
    memory: Option<u64>,
}

/// Keys that a host may register for a rank. In these tests, all values have 16 bits.
const OF_RANK: [&str; 4] = [
    keys::LOCAL_RANK,
    keys::NODE_RANK,
    keys::PACKAGE_RANK,
    "my.key",
];

fn plans() -> impl Strategy<Value = Plan> {
    let name = prop_oneof![
        (0_u32..4, "(\\.site\\.org)?").prop_map(|(n, domain)| format!("n{n:02}{domain}")),
        "[a-z]{1,3}",
        (0_u32..3).prop_map(|n| format!("rack{n}-0")),
    ];
    let stated = (
        proptest::option::of("[0-9]{1,2}(,[0-9]{1,2}){0,2}"),
        any::<Option<u64>>(),
    )
        .prop_map(|(peers, memory)| Stated { peers, memory });
    (vec(name, 1..7), 1_usize..20)
        .prop_flat_map(move |(nodes, size)| {
            let places = vec(0..nodes.len(), size);
            let order = Just((0..u32::try_from(size).unwrap()).collect::<Vec<_>>()).prop_shuffle();
            let described = vec(proptest::option::of(stated.clone()), nodes.len());
            let of_rank = proptest::collection::btree_map(0..OF_RANK.len(), any::<u16>(), 0..3);
            let ranks = vec(proptest::option::of(of_rank), size);
            let apps = vec(0..=size, 0..3);
            let rest = (0_u8..4, proptest::option::of(0_u32..1_000), any::<bool>());
            (Just(nodes), places, order, described, ranks, apps, rest)
        })
        .prop_map(|(nodes, places, order, described, ranks, cuts, rest)| {
            let (form, offset, sorted) = rest;
            let mut groups = vec![Vec::new(); nodes.len()];
            for (place, rank) in places.iter().zip(order) {
                groups[*place].push(rank);
            }
            if sorted {
                groups.iter_mut().for_each(|group| group.sort_unstable());
            }
            let named = nodes.iter().cloned().zip(described);
            Plan {
                named: named.filter_map(|(n, s)| Some((n, s?))).collect(),
                apps: sizes(cuts, ranks.len()),
                ranks: (0..)
                    .zip(ranks)
                    .filter_map(|(r, s)| Some((r, s?)))
                    .collect(),
                nodes,
                groups,
                form,
                offset,
            }
        })
}

/// Divides a number of ranks into applications, and returns their sizes.
fn sizes(mut cuts: Vec<usize>, size: usize) -> Vec<u32> {
    if cuts.is_empty() {
        return Vec::new();
    }
    cuts.push(size);
    cuts.sort_unstable();
    let mut before = 0;
    let parts = cuts.into_iter().map(|cut| {
        let part = cut - before;
        before = cut;
        u32::try_from(part).unwrap()
    });
    parts.collect()
}

fn array(key: &'static str, infos: Vec<Info<'static>>) -> Info<'static> {
    Info::new(key, Value::DataArray(DataArray::Info(infos)))
}

fn preg() -> Preg {
    pmix_builtin::open_preg(&Params::default()).unwrap()
}

impl Plan {
    fn node_text(&self) -> String {
        self.nodes.join(",")
    }

    fn proc_text(&self) -> String {
        let groups = self.groups.iter().map(|group| list(group));
        groups.collect::<Vec<_>>().join(";")
    }

    /// Returns the maps in one of their forms.
    fn maps(&self, preg: &Preg) -> Vec<Info<'static>> {
        let (nodes, procs) = (self.node_text(), self.proc_text());
        let string = |text: String| Value::from(text);
        let regex = |bytes: Vec<u8>| Value::Regex(RegexBytes(bytes.into()));
        let values = match self.form {
            1 => [
                regex(preg.generate_node_regex(nodes.as_bytes()).unwrap().bytes),
                regex(preg.generate_ppn(procs.as_bytes()).unwrap().bytes),
            ],
            2 => [nodes, procs].map(|text| {
                let encoded = preg.generate_regex(text.as_bytes()).unwrap();
                Value::Regex2(Box::new(WireRegex2::from(encoded)))
            }),
            _ => [string(nodes), string(procs)],
        };
        let [nodes, procs] = values;
        vec![
            Info::new(keys::NODE_MAP, nodes),
            Info::new(keys::PROC_MAP, procs),
        ]
    }

    /// Returns the registration without nesting.
    fn infos(&self, preg: &Preg) -> Vec<Info<'static>> {
        let mut infos = self.maps(preg);
        let offset = self.offset.map(Rank::new);
        infos.extend(offset.map(|offset| Info::new(keys::NPROC_OFFSET, Value::Rank(offset))));
        for (number, size) in (0_u32..).zip(&self.apps) {
            let app = vec![
                Info::new(keys::APP_SIZE, *size),
                Info::new(keys::APPNUM, number),
            ];
            infos.push(array(keys::APP_INFO_ARRAY, app));
        }
        for (rank, stated) in &self.ranks {
            let mut proc = vec![Info::new(keys::RANK, Rank::new(*rank))];
            proc.extend(
                stated
                    .iter()
                    .map(|(k, v)| Info::new(OF_RANK[*k], Value::Uint16(*v))),
            );
            infos.push(array(keys::PROC_INFO_ARRAY, proc));
        }
        for (name, stated) in &self.named {
            let mut node = vec![Info::new(keys::HOSTNAME, name.clone())];
            let peers = stated.peers.clone();
            node.extend(peers.map(|peers| Info::new(keys::LOCAL_PEERS, peers)));
            let memory = stated.memory.map(Value::Uint64);
            node.extend(memory.map(|size| Info::new(keys::AVAIL_PHYS_MEMORY, size)));
            infos.push(array(keys::NODE_INFO_ARRAY, node));
        }
        infos
    }

    /// Returns the ranks of a node, from all its indices in the map.
    fn on(&self, name: &str) -> Vec<u32> {
        let places = self.nodes.iter().zip(&self.groups);
        let own = places.filter(|(node, _)| *node == name);
        own.flat_map(|(_, group)| group.clone()).collect()
    }

    fn node_of(&self, rank: u32) -> &str {
        let place = self.groups.iter().position(|group| group.contains(&rank));
        &self.nodes[place.unwrap()]
    }

    fn size(&self) -> u32 {
        let size: usize = self.groups.iter().map(Vec::len).sum();
        u32::try_from(size).unwrap()
    }

    fn of_job(&self, key: &str) -> Option<Value<'static>> {
        Some(match key {
            keys::JOB_SIZE | keys::MAX_PROCS => Value::Uint32(self.size()),
            keys::NUM_NODES => Value::Uint32(u32::try_from(self.nodes.len()).unwrap()),
            keys::NODE_LIST => self.node_text().into(),
            keys::PROC_MAP_RAW => self.proc_text().into(),
            keys::JOB_NUM_APPS if !self.apps.is_empty() => {
                Value::Uint32(u32::try_from(self.apps.len()).unwrap())
            }
            _ => return None,
        })
    }

    fn of_node(&self, name: &str, key: &str) -> Option<Value<'static>> {
        let stated = self.named.get(name).cloned().unwrap_or_default();
        let ranks = self.on(name);
        match key {
            keys::LOCAL_PEERS => Some(stated.peers.unwrap_or_else(|| list(&ranks)).into()),
            keys::AVAIL_PHYS_MEMORY => stated.memory.map(Value::Uint64),
            keys::LOCAL_SIZE => Some(Value::Uint32(u32::try_from(ranks.len()).unwrap())),
            keys::LOCALLDR => ranks.first().map(|rank| Value::Rank(Rank::new(*rank))),
            keys::LOCAL_PROCS => {
                let procs = ranks.iter().map(|rank| Proc::new(NSPACE, Rank::new(*rank)));
                Some(Value::DataArray(DataArray::Proc(procs.collect())))
            }
            _ => None,
        }
    }

    fn of_rank(&self, rank: u32, key: &str) -> Option<Value<'static>> {
        let stated = self.ranks.get(&rank).and_then(|stated| {
            let known = stated.iter().find(|(place, _)| OF_RANK[**place] == key);
            known.map(|(_, value)| Value::Uint16(*value))
        });
        if stated.is_some() {
            return stated;
        }
        let node = self.node_of(rank);
        let (app, place) = self
            .app_of(rank)
            .map_or((None, None), |(a, p)| (Some(a), Some(p)));
        match key {
            keys::HOSTNAME => Some(node.to_owned().into()),
            keys::NODEID => {
                let place = self.nodes.iter().position(|name| name == node).unwrap();
                Some(Value::Uint32(u32::try_from(place).unwrap()))
            }
            keys::LOCAL_RANK | keys::NODE_RANK => {
                let place = self.on(node).iter().position(|peer| *peer == rank).unwrap();
                Some(Value::Uint16(u16::try_from(place).unwrap()))
            }
            keys::GLOBAL_RANK => self.offset.map(|o| Value::Rank(Rank::new(o + rank))),
            keys::APPNUM => app.map(Value::Uint32),
            keys::APP_RANK => place.map(|place| Value::Rank(Rank::new(place))),
            _ => self.of_node(node, key),
        }
    }

    /// Returns the application of a rank, and the index of the rank in it.
    fn app_of(&self, rank: u32) -> Option<(u32, u32)> {
        let mut first = 0;
        for (number, size) in (0..).zip(&self.apps) {
            if rank < first + size {
                return Some((number, rank - first));
            }
            first += size;
        }
        None
    }
}

fn list(ranks: &[u32]) -> String {
    let ranks: Vec<_> = ranks.iter().map(u32::to_string).collect();
    ranks.join(",")
}

/// Moves infos into nested arrays, in another order. Each choice determines the place of one info.
fn nest(mut infos: Vec<Info<'static>>, choices: &[(u8, u8)]) -> Vec<Info<'static>> {
    for (what, place) in choices {
        let place = usize::from(*place) % infos.len();
        let taken = infos.remove(place);
        let into_proc_or_app = taken.key.is(keys::PROC_INFO_ARRAY);
        let wrapped = match what % 4 {
            0 => array(keys::JOB_INFO_ARRAY, vec![taken]),
            1 => array(
                keys::SESSION_INFO_ARRAY,
                vec![
                    Info::new(keys::SESSION_ID, 1_u32),
                    array(keys::JOB_INFO_ARRAY, vec![taken]),
                ],
            ),
            // A process may be described in the array of its application, node or job.
            2 if into_proc_or_app => {
                let app = infos
                    .iter_mut()
                    .find(|info| !info.key.is(keys::PROC_INFO_ARRAY));
                match app.map(|info| &mut info.value) {
                    Some(Value::DataArray(DataArray::Info(inside))) => {
                        inside.push(taken);
                        continue;
                    }
                    _ => taken,
                }
            }
            _ => taken,
        };
        infos.insert(place / 2, wrapped);
    }
    infos
}

/// Returns a value, or `None` if it is not found.
fn get(job: &Job, rank: Rank, key: &str, qualifiers: &[Info<'_>]) -> Option<Value<'static>> {
    match job.get(&Request::new(rank, key).with(qualifiers)) {
        Ok(value) => Some(value.into_owned()),
        Err(error) => {
            assert_eq!(error.status(), Status::ERR_NOT_FOUND, "{error}");
            None
        }
    }
}

/// Compares all values that the model has.
fn check(job: &Job, plan: &Plan) -> Result<(), TestCaseError> {
    let of_job = [
        keys::JOB_SIZE,
        keys::MAX_PROCS,
        keys::NUM_NODES,
        keys::NODE_LIST,
        keys::PROC_MAP_RAW,
        keys::JOB_NUM_APPS,
    ];
    for key in of_job {
        prop_assert_eq!(get(job, JOB, key, &[]), plan.of_job(key), "{}", key);
    }
    let of_node = [
        keys::LOCAL_PEERS,
        keys::LOCAL_SIZE,
        keys::LOCALLDR,
        keys::LOCAL_PROCS,
        keys::AVAIL_PHYS_MEMORY,
        "no.such.key",
    ];
    for (place, name) in plan.nodes.iter().enumerate() {
        let number = Value::Uint32(u32::try_from(place).unwrap());
        let named = Info::new(keys::HOSTNAME, name.clone());
        for qualifier in [named, Info::new(keys::NODEID, number.clone())] {
            let qualifiers = [Info::new(keys::NODE_INFO, true), qualifier];
            let known = get(job, JOB, keys::NODEID, &qualifiers);
            let first = plan.nodes.iter().position(|other| other == name).unwrap();
            let first = Value::Uint32(u32::try_from(first).unwrap());
            prop_assert_eq!(known, Some(first), "number of {}", name);
            let known = get(job, JOB, keys::HOSTNAME, &qualifiers);
            prop_assert_eq!(known, Some(name.clone().into()), "name of {}", name);
            for key in of_node {
                let found = get(job, JOB, key, &qualifiers);
                prop_assert_eq!(found, plan.of_node(name, key), "{} of {}", key, name);
            }
        }
    }
    let of_rank = [
        keys::HOSTNAME,
        keys::NODEID,
        keys::GLOBAL_RANK,
        keys::APPNUM,
        keys::APP_RANK,
    ];
    for rank in 0..plan.size() {
        for key in of_rank.iter().chain(&OF_RANK).chain(&of_node) {
            let found = get(job, Rank::new(rank), key, &[]);
            prop_assert_eq!(found, plan.of_rank(rank, key), "{} of rank {}", key, rank);
        }
    }
    for key in of_rank.iter().chain(&of_node) {
        prop_assert_eq!(get(job, Rank::new(plan.size()), key, &[]), None, "{}", key);
    }
    Ok(())
}

/// Returns the path of an info, as in errors.
fn path_of(infos: &[Info<'_>], wanted: &dyn Fn(&Info<'_>) -> bool) -> Option<String> {
    infos.iter().enumerate().find_map(|(place, info)| {
        let here = format!("[{place}] {}", info.key);
        if wanted(info) {
            return Some(here);
        }
        match &info.value {
            Value::DataArray(DataArray::Info(inside)) => {
                path_of(inside, wanted).map(|path| format!("{here} {path}"))
            }
            _ => None,
        }
    })
}

proptest! {
    #[test]
    fn every_key_agrees_with_a_naive_model(plan in plans()) {
        let preg = preg();
        let job = Job::register(&preg, &LocalNode::new("elsewhere"), NSPACE, &plan.infos(&preg));
        check(&job.unwrap(), &plan)?;
    }

    #[test]
    fn nesting_and_order_do_not_matter(
        plan in plans(),
        choices in vec(any::<(u8, u8)>(), 0..24),
    ) {
        let preg = preg();
        let infos = nest(plan.infos(&preg), &choices);
        let job = Job::register(&preg, &LocalNode::new("elsewhere"), NSPACE, &infos);
        check(&job.unwrap(), &plan)?;
    }

    #[test]
    fn a_failed_registration_names_its_entry(
        plan in plans(),
        fault in 0..5_usize,
        choices in vec(any::<(u8, u8)>(), 0..24),
    ) {
        let mark = Info::new("mark", 1_u8);
        let twice = |rank| array(keys::PROC_INFO_ARRAY, vec![Info::new(keys::RANK, rank)]);
        let faulty = match fault {
            0 => Info::new(keys::NODE_MAP, 77_u32),
            1 => array(keys::APP_INFO_ARRAY, vec![mark.clone()]),
            2 => array(keys::NODE_INFO_ARRAY, vec![mark.clone()]),
            3 => array("pmix.none.arr", vec![mark.clone()]),
            _ => twice(Rank::WILDCARD),
        };
        let mut infos = plan.infos(&preg());
        // The valid map would be the second one.
        infos.retain(|info| fault > 0 || !info.key.is(keys::NODE_MAP));
        infos.insert(0, faulty.clone());
        let infos = nest(infos, &choices);
        let error = Job::register(&preg(), &LocalNode::new("elsewhere"), NSPACE, &infos).unwrap_err();
        let is_it = |info: &Info<'_>| {
            let inside = match &info.value {
                Value::DataArray(DataArray::Info(inside)) => inside.as_slice(),
                _ => &[],
            };
            let alone = inside.first() == Some(&mark);
            info.key == faulty.key && (info.value == faulty.value || alone)
        };
        prop_assert_eq!(Some(error.entry().to_owned()), path_of(&infos, &is_it), "{}", error);
    }

    #[test]
    fn a_map_in_pmi2_notation_is_equivalent(plan in plans()) {
        let preg = preg();
        let register = |infos: &[Info<'_>]| {
            Job::register(&preg, &LocalNode::new("elsewhere"), NSPACE, infos).unwrap()
        };
        let job = register(&plan.maps(&preg));
        let anl = get(&job, JOB, keys::ANL_MAP, &[]).unwrap();
        let nodes = Info::new(keys::NODE_MAP, plan.node_text());
        let again = register(&[Info::new(keys::ANL_MAP, anl.clone()), nodes]);
        prop_assert_eq!(get(&again, JOB, keys::JOB_SIZE, &[]), plan.of_job(keys::JOB_SIZE));
        for rank in 0..plan.size() {
            let found = get(&again, Rank::new(rank), keys::HOSTNAME, &[]);
            prop_assert_eq!(found, plan.of_rank(rank, keys::HOSTNAME), "{:?}", anl);
        }
    }

    #[test]
    fn lists_agree_with_gets(plan in plans()) {
        let preg = preg();
        let job = Job::register(&preg, &LocalNode::new("elsewhere"), NSPACE, &plan.infos(&preg));
        let job = job.unwrap();
        let nspace = Nspace::new(NSPACE);
        prop_assert_eq!(job.nspace(), &nspace);
        let mut ranks: Vec<_> = job.ranks().collect();
        ranks.sort_unstable();
        let expected: Vec<_> = (0..plan.size()).map(Rank::new).collect();
        prop_assert_eq!(&ranks, &expected);
        for rank in ranks {
            for info in job.known(&Request::all(rank)).unwrap() {
                let key = info.key.as_text().to_str_lossy().into_owned();
                prop_assert_eq!(get(&job, rank, &key, &[]), Some(info.value), "{}", key);
            }
        }
        let names: Vec<_> = job.nodes().filter_map(|node| node.name).collect();
        let mut expected = Vec::<Vec<u8>>::new();
        for name in &plan.nodes {
            if !expected.iter().any(|known| known == name.as_bytes()) {
                expected.push(name.clone().into_bytes());
            }
        }
        prop_assert_eq!(names, expected);
    }
}

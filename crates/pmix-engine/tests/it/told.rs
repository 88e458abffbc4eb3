// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of large jobs, whose clients get only a part of the job info when they connect. They search their cache and
//! request some of the rest; each release has its own rules.

use std::collections::BTreeMap;

use bfrops::{Decoder, wire_type};
use pmix_engine::{Config, ReplyLimits};
use pmix_proto::{Request, request};
use pmix_types::{DataArray, Info, IntoOwned, Key, Kval, Rank, Release, Scope, Text, Value, keys};

use crate::exchange::commit;
use crate::world::{Who, World, hello};

/// The numbers of processes on three nodes, ten in two applications.
const PER_NODE: [u32; 3] = [3, 4, 3];
const NUM_RANKS: u32 = 10;

const OF_PROC: [&str; 7] = [
    keys::HOSTNAME,
    keys::NODEID,
    keys::LOCAL_RANK,
    keys::NODE_RANK,
    keys::APPNUM,
    keys::APP_RANK,
    "app.color",
];
const OF_NODE: [&str; 3] = [keys::LOCAL_PEERS, keys::LOCAL_SIZE, keys::LOCALLDR];
const OF_APP: [&str; 2] = [keys::APP_SIZE, keys::APPLDR];
const OF_JOB: [&str; 4] = [
    keys::JOB_SIZE,
    keys::NUM_NODES,
    keys::NODE_LIST,
    keys::JOB_NUM_APPS,
];

type Infos = Vec<Info<'static>>;

fn array(key: &'static str, infos: Infos) -> Info<'static> {
    Info::new(key, Value::DataArray(DataArray::Info(infos)))
}

/// Creates the job on nodes with the given reply limits.
fn world(reply: ReplyLimits) -> World {
    let mut world = World::with(3, &{
        let mut config = Config::default();
        config.reply = reply;
        config
    });
    world.job("job", &PER_NODE);
    let rank = |key: &'static str, rank: u32| Info::new(key, Value::Rank(Rank::new(rank)));
    let app = |number: u32, first: u32, size: u32| {
        let number = Info::new(keys::APPNUM, number);
        let size = Info::new(keys::APP_SIZE, size);
        array(
            keys::APP_INFO_ARRAY,
            vec![number, size, rank(keys::APPLDR, first)],
        )
    };
    let color = vec![rank(keys::RANK, 8), Info::new("app.color", "red")];
    let infos = [app(0, 0, 6), app(1, 6, 4), array(keys::PROC_DATA, color)];
    for (node, count) in world.nodes.iter_mut().zip(PER_NODE) {
        let registered = node.engine.register_nspace(&"job".into(), count, &infos);
        registered.unwrap();
    }
    world
}

/// A client of a release with its received data.
struct Client<'w> {
    world: &'w mut World,
    who: Who,
    release: Release,
    /// The data of the job, its nodes and its applications.
    kvals: Vec<Kval<'static>>,
    procs: BTreeMap<Rank, Vec<Kval<'static>>>,
}

fn find(kvals: &[Kval<'static>], key: &str) -> Option<Value<'static>> {
    let found = kvals.iter().find(|kval| kval.key.is(key));
    found.map(|kval| kval.value.clone())
}

impl<'w> Client<'w> {
    fn join(world: &'w mut World, rank: u32, release: Release) -> Self {
        let mut hello = hello("job", rank);
        hello.version = match release {
            Release::Seed | Release::Master => "7.0.0".into(),
            release => release.as_str().into(),
        };
        let who = world.connect(0, &hello);
        world.run();
        let tag = world.ask(who, &Request::JobInfo);
        world.run();
        let client = &world.clients[who];
        let payload = client.reply(tag).unwrap().payload.clone();
        let layout = client.session.form().layout;
        let mut client = Self {
            world,
            who,
            release,
            kvals: Vec::new(),
            procs: BTreeMap::new(),
        };
        let mut decoder = Decoder::new(layout, &payload);
        decoder.one::<wire_type::String>().unwrap();
        while !decoder.is_empty() {
            let kval = decoder.one::<wire_type::Kval>().unwrap();
            if let Value::ByteObject(blob) = &kval.value
                && kval.key.is(keys::PROC_BLOB)
            {
                let mut decoder = Decoder::new(layout, blob);
                let rank = decoder.one::<wire_type::Rank>().unwrap();
                let kvals = client.procs.entry(rank).or_default();
                while !decoder.is_empty() {
                    kvals.push(decoder.one::<wire_type::Kval>().unwrap().into_owned());
                }
            } else {
                client.kvals.push(kval.into_owned());
            }
        }
        client
    }

    /// Sends a request and stores the reply for later lookups.
    fn ask(&mut self, rank: Rank, key: &'static str, infos: Infos) {
        let request = request::Get {
            nspace: "job".into(),
            rank,
            infos,
            key: Some(Key::new(key)),
        };
        let tag = self.world.ask(self.who, &Request::Get(request));
        self.world.run();
        let client = &self.world.clients[self.who];
        if client.status(tag).is_some_and(|status| status.is_success()) {
            for (rank, kvals) in client.objects(tag) {
                let kvals = kvals.into_iter().map(IntoOwned::into_owned);
                match rank.is_valid() {
                    true => self.procs.entry(rank).or_default().extend(kvals),
                    false => self.kvals.extend(kvals),
                }
            }
        }
    }

    fn held_of(&self, rank: Rank, key: &str) -> Option<Value<'static>> {
        find(self.procs.get(&rank)?, key)
    }

    /// Returns the value of a key in the arrays that also contain the given info.
    fn held_in(&self, array: &str, says: &Info<'_>, key: &str) -> Option<Value<'static>> {
        let arrays = self.kvals.iter().filter(|kval| kval.key.is(array));
        let mut infos = arrays.filter_map(|kval| match &kval.value {
            Value::DataArray(DataArray::Info(infos)) => Some(infos),
            _ => None,
        });
        infos.find_map(|infos| {
            let is_it = infos
                .iter()
                .any(|info| info.key == says.key && info.value == says.value);
            let found = infos.iter().find(|info| is_it && info.key.is(key));
            found.map(|info| info.value.clone())
        })
    }

    /// Returns a value of a process. Clients do not request its location; 4.2 does not look up the node number at all.
    fn of_proc(&mut self, rank: Rank, key: &'static str) -> Option<Value<'static>> {
        match key {
            keys::NODEID if self.release == Release::V4_2_2 => return None,
            keys::HOSTNAME | keys::NODEID => {}
            _ if self.held_of(rank, key).is_some() => {}
            key if key.starts_with("pmix") => {
                self.ask(rank, key, vec![Info::new(keys::IMMEDIATE, true)]);
            }
            _ => self.ask(rank, key, vec![]),
        }
        self.held_of(rank, key)
    }

    /// Returns a value of the node of a process, which 4.2 does not request.
    fn of_its_node(&mut self, rank: Rank, key: &'static str) -> Option<Value<'static>> {
        let name = self.held_of(rank, keys::HOSTNAME)?;
        let asks = self.release != Release::V4_2_2;
        self.of_node(Info::new(keys::HOSTNAME, name), key, asks)
    }

    /// Returns a value of a named node.
    fn of_node(
        &mut self,
        name: Info<'static>,
        key: &'static str,
        asks: bool,
    ) -> Option<Value<'static>> {
        if asks && self.held_in(keys::NODE_INFO_ARRAY, &name, key).is_none() {
            let rank = match self.release {
                Release::V4_2_2 => Rank::UNDEF,
                _ => Rank::WILDCARD,
            };
            self.ask(
                rank,
                key,
                vec![Info::new(keys::NODE_INFO, true), name.clone()],
            );
        }
        self.held_in(keys::NODE_INFO_ARRAY, &name, key)
    }

    /// Returns a value of the application of a process. 5.0 must know the application, 4.2 uses the first one. Clients
    /// do not request it.
    fn of_its_app(&self, rank: Rank, key: &'static str) -> Option<Value<'static>> {
        let number = match self.release {
            Release::V4_2_2 => Value::Uint32(0),
            _ => self.held_of(rank, keys::APPNUM)?,
        };
        self.held_in(keys::APP_INFO_ARRAY, &Info::new(keys::APPNUM, number), key)
    }

    fn of_job(&mut self, key: &'static str) -> Option<Value<'static>> {
        if find(&self.kvals, key).is_none() {
            self.ask(Rank::WILDCARD, key, vec![]);
        }
        find(&self.kvals, key)
    }

    /// Returns all values by their keys and subjects.
    fn all(&mut self) -> BTreeMap<String, Option<Value<'static>>> {
        let mut all = BTreeMap::new();
        for rank in (0..NUM_RANKS).map(Rank::new) {
            for key in OF_APP {
                all.insert(format!("{key} for {rank}"), self.of_its_app(rank, key));
            }
            for key in OF_NODE {
                all.insert(format!("{key} for {rank}"), self.of_its_node(rank, key));
            }
            for key in OF_PROC {
                all.insert(format!("{key} of {rank}"), self.of_proc(rank, key));
            }
        }
        for (name, key) in ["n00", "n01", "n02"]
            .into_iter()
            .flat_map(|n| OF_NODE.map(|k| (n, k)))
        {
            let named = Info::new(keys::HOSTNAME, name);
            all.insert(format!("{key} of {name}"), self.of_node(named, key, true));
        }
        for key in OF_JOB {
            all.insert(key.to_owned(), self.of_job(key));
        }
        all
    }
}

const WHOLE: ReplyLimits = ReplyLimits {
    whole: u32::MAX,
    places: u32::MAX,
};
const PLACES: ReplyLimits = ReplyLimits {
    whole: NUM_RANKS - 1,
    places: u32::MAX,
};
const NOTHING: ReplyLimits = ReplyLimits {
    whole: 0,
    places: NUM_RANKS - 1,
};

#[test]
fn queries_of_a_large_job_match_those_of_a_small_one() {
    for release in Release::ALL {
        for rank in [0, 2] {
            let mut small = world(WHOLE);
            let small = Client::join(&mut small, rank, release).all();
            let mut large = world(PLACES);
            let mut client = Client::join(&mut large, rank, release);
            let held = client.procs[&Rank::new(9)].len();
            assert!(held <= 3, "{held} data of a process elsewhere");
            let large = client.all();
            assert_eq!(large, small, "{release:?}");
            let found = small.values().filter(|value| value.is_some()).count();
            assert!(found > 100, "{release:?} finds {found} answers");
        }
    }
}

#[test]
fn a_client_before_4_2_gets_all_job_info() {
    let mut world = world(NOTHING);
    let mut hello = hello("job", 0);
    hello.version = "4.1.2".into();
    let who = world.connect(0, &hello);
    world.run();
    let tag = world.ask(who, &Request::JobInfo);
    world.run();
    let len = world.clients[who].reply(tag).unwrap().payload.len();
    let told = Client::join(&mut world, 1, Release::V4_2_2).procs.len();
    assert_eq!(told, 3);
    assert!(len > 1500, "{len} bytes");
}

#[test]
fn the_first_reply_about_a_process_has_its_unsent_location() {
    let name = |name: &'static str| Some(Value::String(Some(Text::from(name))));
    for release in [Release::V4_2_2, Release::V5_0_11] {
        let mut world = world(NOTHING);
        let elsewhere = world.join(2, "job", 9);
        commit(&mut world, elsewhere, 9, &[(Scope::GLOBAL, "card", 7)]);
        let mut client = Client::join(&mut world, 0, release);
        assert_eq!(client.procs.len(), 3);
        assert_eq!(client.of_proc(Rank::new(5), keys::HOSTNAME), None);
        // The reply has the location with a value of the job info as well as with data of the process.
        for (rank, key, place) in [(5, keys::LOCAL_RANK, "n01"), (9, "card", "n02")] {
            let rank = Rank::new(rank);
            assert!(client.of_proc(rank, key).is_some(), "{key} of {rank}");
            assert_eq!(client.of_proc(rank, keys::HOSTNAME), name(place));
            assert!(client.held_of(rank, keys::NODEID).is_some());
        }
        // The location of a process on this node is not repeated.
        client.of_proc(Rank::new(1), keys::GLOBAL_RANK);
        let names = client.procs[&Rank::new(1)].iter();
        assert_eq!(names.filter(|kval| kval.key.is(keys::HOSTNAME)).count(), 1);
    }
}

#[test]
fn a_local_process_that_the_maps_place_elsewhere_gets_its_location() {
    let mut world = world(NOTHING);
    let proc = pmix_types::Proc::new("job", Rank::new(9));
    let uid = crate::world::UID;
    let engine = &mut world.nodes[0].engine;
    engine
        .register_client(
            &proc,
            pmix_engine::Credentials::new(uid, uid),
            pmix_engine::HostObject(9),
        )
        .unwrap();
    let client = Client::join(&mut world, 9, Release::V5_0_11);
    assert_eq!(client.procs.len(), 10);
}

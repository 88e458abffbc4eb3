// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random operations on a `PubSub`, compared with a model that searches all data for each request.
#![allow(clippy::disallowed_methods, reason = "a test begins at some instant")]

use std::time::{Duration, Instant};

use pmix_host::publish::{Caller, LookupResult, PubSub};
use pmix_types::{DataRange, Info, Nspace, Persistence, Proc, Rank, Status, Text, keys};
use proptest::prelude::*;

/// Two processes of each of two jobs; the second job is on another node, its last process belongs
/// to another user.
const NUM_PROCS: u8 = 4;
const KEYS: [&str; 3] = ["x", "y", "z"];

#[derive(Clone, Debug)]
enum Step {
    Publish(u8, usize, u8, u8),
    Lookup(u8, Vec<usize>, u8, Option<u8>),
    Unpublish(u8, Option<usize>, Option<u8>),
    Wait(u8),
    ProcEnds(u8),
    JobEnds(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = 0..NUM_PROCS;
    let key = 0..KEYS.len();
    // Proc-local, local, nspace, session, global.
    let range = prop_oneof![Just(7_u8), Just(2), Just(3), Just(4), Just(5)];
    let wanted = prop::collection::vec(key.clone(), 1..3);
    let step = prop_oneof![
        4 => (who.clone(), key.clone(), range.clone(), 0..5_u8)
            .prop_map(|(who, key, range, stays)| Step::Publish(who, key, range, stays)),
        4 => (who.clone(), wanted, range.clone(), prop::option::of(0..4_u8))
            .prop_map(|(who, keys, range, wait)| Step::Lookup(who, keys, range, wait)),
        1 => (who.clone(), prop::option::of(key), prop::option::of(range))
            .prop_map(|(who, key, range)| Step::Unpublish(who, key, range)),
        1 => (1..4_u8).prop_map(Step::Wait),
        1 => who.prop_map(Step::ProcEnds),
        1 => any::<bool>().prop_map(Step::JobEnds),
    ];
    prop::collection::vec(step, 0..60)
}

fn nspace(who: u8) -> &'static str {
    if who < 2 { "a" } else { "b" }
}

fn uid(who: u8) -> u32 {
    u32::from(who == NUM_PROCS - 1)
}

fn caller(who: u8) -> Caller {
    Caller {
        node: Some(u32::from(who >= 2)),
        ..Caller::new(Proc::new(nspace(who), Rank::new(who.into())), uid(who), 0)
    }
}

/// Returns `true` if one process is in the range around another.
fn is_in(range: u8, around: u8, who: u8) -> bool {
    match range {
        7 => around == who,
        2 | 3 => nspace(around) == nspace(who),
        _ => true,
    }
}

#[derive(Clone, Debug)]
struct Pin {
    by: u8,
    key: usize,
    range: u8,
    stays: u8,
}

#[derive(Clone, Debug)]
struct Ask {
    token: u32,
    who: u8,
    keys: Vec<usize>,
    range: u8,
    enough: usize,
    until: Option<u64>,
}

#[derive(Debug, Default)]
struct Model {
    now: u64,
    pins: Vec<Pin>,
    asks: Vec<Ask>,
}

type Answer = (u32, Status, Vec<(u8, String)>);
type Answers = Vec<Answer>;

impl Model {
    /// Returns for each key the number of the readable item, or `true` if there is one without permission.
    fn look(&self, ask: &Ask) -> Vec<Result<usize, bool>> {
        let seen = |pin: &Pin, key: usize| {
            pin.key == key && is_in(ask.range, ask.who, pin.by) && is_in(pin.range, pin.by, ask.who)
        };
        let look = |key: &usize| {
            let places = (0..self.pins.len()).filter(|place| seen(&self.pins[*place], *key));
            let places: Vec<_> = places.collect();
            let open = places
                .iter()
                .find(|place| uid(self.pins[**place].by) == uid(ask.who));
            open.copied().ok_or(!places.is_empty())
        };
        ask.keys.iter().map(look).collect()
    }

    fn answer(&mut self, ask: &Ask) -> Option<Answer> {
        let looked = self.look(ask);
        let read: Vec<_> = looked.iter().filter_map(|l| l.ok()).collect();
        let denied = looked.iter().filter(|l| **l == Err(true)).count();
        if read.len() + denied < ask.enough {
            return None;
        }
        let data = read.iter().map(|place| {
            let pin = &self.pins[*place];
            (pin.by, KEYS[pin.key].to_owned())
        });
        let data: Vec<_> = data.collect();
        let status = match (read.len(), denied) {
            (n, _) if n == ask.keys.len() => Status::SUCCESS,
            (0, n) if n == ask.keys.len() => Status::ERR_NO_PERMISSIONS,
            (0, _) => Status::ERR_NOT_FOUND,
            _ => Status::ERR_PARTIAL_SUCCESS,
        };
        let mut gone: Vec<_> = read
            .into_iter()
            .filter(|place| self.pins[*place].stays == 1)
            .collect();
        gone.sort_unstable();
        gone.dedup();
        gone.into_iter()
            .rev()
            .for_each(|place| _ = self.pins.remove(place));
        Some((ask.token, status, data))
    }

    fn publish(&mut self, pin: Pin) -> Option<Answers> {
        let around = |other: &Pin| match pin.range {
            7 => other.by == pin.by,
            2 | 3 => nspace(other.by) == nspace(pin.by),
            _ => true,
        };
        let same = |other: &Pin| other.key == pin.key && other.range == pin.range && around(other);
        if self.pins.iter().any(same) {
            return None;
        }
        let key = pin.key;
        self.pins.push(pin);
        let mut answers = Vec::new();
        for ask in std::mem::take(&mut self.asks) {
            let concerns = ask.keys.contains(&key);
            match concerns.then(|| self.answer(&ask)).flatten() {
                Some(answer) => answers.push(answer),
                None => self.asks.push(ask),
            }
        }
        Some(answers)
    }
}

fn told(looked: Vec<LookupResult<u32>>) -> Answers {
    let told = |looked: LookupResult<u32>| {
        let data = looked.data.into_iter();
        let data = data.map(|d| {
            (
                u8::try_from(d.proc.rank.as_raw()).unwrap(),
                d.key.to_string(),
            )
        });
        (looked.token, looked.status, data.collect())
    };
    looked.into_iter().map(told).collect()
}

fn range(range: u8) -> Info<'static> {
    Info::new(keys::RANGE, DataRange::from_raw(range))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    /// Compares random publishes, lookups and ends with a naive model: every lookup completes once with the
    /// result of the model.
    #[test]
    fn a_pubsub_agrees_with_a_naive_model(steps in steps()) {
        let mut model = Model::default();
        let mut pubsub = PubSub::<u32>::default();
        let mut now = Instant::now();
        let mut token = 0;
        for step in steps {
            match step {
                Step::Publish(who, key, reach, stays) => {
                    let persistence = Info::new(keys::PERSISTENCE, Persistence::from_raw(stays));
                    let infos = [Info::new(KEYS[key], 1_u32), range(reach), persistence];
                    let real = pubsub.publish(&caller(who), &infos);
                    let pin = Pin { by: who, key, range: reach, stays };
                    match model.publish(pin) {
                        Some(answers) => prop_assert_eq!(told(real.unwrap()), answers),
                        None => {
                            let refused = real.unwrap_err().status();
                            prop_assert_eq!(refused, Status::ERR_DUPLICATE_KEY);
                        }
                    }
                }
                Step::Lookup(who, wanted, reach, wait) => {
                    token += 1;
                    let names: Vec<_> = wanted.iter().map(|key| Text::from(KEYS[*key])).collect();
                    let mut infos = vec![range(reach)];
                    if let Some(seconds) = wait {
                        infos.push(Info::new(keys::WAIT, 0));
                        infos.push(Info::new(keys::TIMEOUT, i32::from(seconds)));
                    }
                    let real = pubsub.lookup(token, &caller(who), &names, &infos, now).unwrap();
                    let enough = if wait.is_some() { wanted.len() } else { 0 };
                    let until = wait.filter(|seconds| *seconds > 0);
                    let until = until.map(|seconds| model.now + u64::from(seconds));
                    let ask = Ask { token, who, keys: wanted, range: reach, enough, until };
                    let expected = model.answer(&ask);
                    if expected.is_none() {
                        model.asks.push(ask);
                    }
                    let real = told(real.into_iter().collect());
                    prop_assert_eq!(real, expected.into_iter().collect::<Vec<_>>());
                }
                Step::Unpublish(who, key, reach) => {
                    let names: Vec<_> = key.iter().map(|key| Text::from(KEYS[*key])).collect();
                    let infos: Vec<_> = reach.into_iter().map(range).collect();
                    pubsub.unpublish(&caller(who), &names, &infos).unwrap();
                    let everything = key.is_none() && reach.is_none();
                    let reach = reach.unwrap_or(4);
                    model.pins.retain(|pin| {
                        let named = key.is_none_or(|key| key == pin.key);
                        !(pin.by == who && named && (everything || pin.range == reach))
                    });
                }
                Step::Wait(seconds) => {
                    now += Duration::from_secs(seconds.into());
                    model.now += u64::from(seconds);
                    let over = |ask: &mut Ask| ask.until.is_some_and(|until| until <= model.now);
                    let over: Vec<_> = model.asks.extract_if(.., over).collect();
                    let over = over.into_iter().map(|ask| (ask.token, Status::ERR_TIMEOUT, vec![]));
                    prop_assert_eq!(told(pubsub.handle_timeout(now)), over.collect::<Vec<_>>());
                }
                Step::ProcEnds(who) => {
                    let stopped = pubsub.proc_ended(&caller(who).proc);
                    let gone = model.asks.extract_if(.., |ask| ask.who == who);
                    prop_assert_eq!(stopped, gone.map(|ask| ask.token).collect::<Vec<_>>());
                    model.pins.retain(|pin| !(pin.by == who && pin.stays == 2));
                }
                Step::JobEnds(first) => {
                    let job = if first { "a" } else { "b" };
                    let stopped = pubsub.job_ended(&Nspace::new(job));
                    let gone = model.asks.extract_if(.., |ask| nspace(ask.who) == job);
                    prop_assert_eq!(stopped, gone.map(|ask| ask.token).collect::<Vec<_>>());
                    model.pins.retain(|pin| {
                        let ends = matches!(pin.stays, 2 | 3) || matches!(pin.range, 3 | 7);
                        !(nspace(pin.by) == job && ends)
                    });
                }
            }
            prop_assert_eq!(pubsub.len(), (model.pins.len(), model.asks.len()));
        }
    }
}

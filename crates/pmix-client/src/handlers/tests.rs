// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

const ONE: Status = Status::from_raw(-3001);
const TWO: Status = Status::from_raw(-3002);

fn own() -> Proc<'static> {
    Proc::new("job", Rank::new(0))
}

fn event(status: Status) -> Event<'static> {
    Event {
        status,
        source: Proc::new("job", Rank::new(1)),
        infos: Vec::new(),
        range: None,
    }
}

fn handler(codes: &[Status], order: HandlerOrder) -> EventHandler {
    EventHandler {
        order,
        ..EventHandler::new(codes.iter().copied())
    }
}

fn chain<H>(handlers: &Handlers<H>, event: &Event<'_>) -> Vec<usize> {
    handlers.chain(event, &own(), |_| true)
}

fn named(name: &'static str, order: HandlerOrder) -> EventHandler {
    EventHandler {
        name: Some(name.into()),
        order,
        ..EventHandler::new([ONE])
    }
}

#[test]
fn a_named_handler_is_found_and_the_first_in_a_category_stays_first() {
    let mut all = Handlers::new();
    let mut add = |name: &'static str, order| all.register(named(name, order), name);
    add("first", HandlerOrder::FirstInCategory).unwrap();
    add("plain", HandlerOrder::Prepend).unwrap();
    add("last", HandlerOrder::LastInCategory).unwrap();
    add("end", HandlerOrder::Append).unwrap();
    add("before end", HandlerOrder::Before("end".into())).unwrap();
    add("after first", HandlerOrder::After("first".into())).unwrap();
    add("front", HandlerOrder::First).unwrap();
    add("back", HandlerOrder::Last).unwrap();
    add("after front", HandlerOrder::After("front".into())).unwrap();
    add("before back", HandlerOrder::Before("back".into())).unwrap();
    for (order, why) in [
        (HandlerOrder::First, "first of all"),
        (HandlerOrder::Last, "last of all"),
        (HandlerOrder::FirstInCategory, "first of its category"),
        (HandlerOrder::LastInCategory, "last of its category"),
        (
            HandlerOrder::Before("first".into()),
            "first is registered as first",
        ),
        (
            HandlerOrder::After("last".into()),
            "last is registered as last",
        ),
        (HandlerOrder::Before("front".into()), "has the name front"),
        (HandlerOrder::After("absent".into()), "has the name absent"),
    ] {
        let error = add("none", order).unwrap_err();
        assert_eq!(error.status(), Status::ERR_EVENT_REGISTRATION);
        assert!(error.to_string().contains(why), "{error}");
    }
    let order: Vec<_> = chain(&all, &event(ONE))
        .into_iter()
        .map(|id| all.begin_turn(id).unwrap().1)
        .collect();
    let expected = [
        "front",
        "first",
        "after front",
        "after first",
        "plain",
        "before end",
        "end",
        "before back",
        "last",
        "back",
    ];
    assert_eq!(order, expected);
}

#[test]
fn single_code_handlers_precede_multi_code_and_default_handlers() {
    let mut all = Handlers::new();
    let mut add = |codes: &[Status]| all.register(handler(codes, HandlerOrder::Prepend), ());
    let [any, several, one, other] =
        [&[][..], &[ONE, TWO], &[ONE], &[TWO]].map(|c| add(c).unwrap());
    assert_eq!(chain(&all, &event(ONE)), [one, several, any]);
    assert_eq!(chain(&all, &event(TWO)), [other, several, any]);
    assert_eq!(chain(&all, &event(Status::from_raw(-3003))), [any]);
    let mut quiet = event(ONE);
    quiet.infos = vec![Info::new(keys::EVENT_NON_DEFAULT, true)];
    assert_eq!(chain(&all, &quiet), [one, several]);
    assert_eq!((all.codes(), all.has_default()), (vec![TWO, ONE], true));
    assert!(all.deregister(any).is_some() && all.deregister(any).is_none());
    assert_eq!(
        (chain(&all, &event(ONE)), all.has_default()),
        (vec![one, several], false)
    );
}

#[test]
fn ranges_and_affected_processes_limit_the_events_of_a_handler() {
    let mut all = Handlers::new();
    let mut add = |infos: &[Info<'_>]| {
        let handler = EventHandler::from_infos([ONE], infos).unwrap();
        all.register(handler, ()).unwrap()
    };
    let range = |range| Info::new(keys::RANGE, Value::DataRange(range));
    let proc = |nspace: &'static str, rank| Proc::new(nspace, rank);
    let procs = |procs| Value::DataArray(DataArray::Proc(procs));
    let same_job = add(&[range(DataRange::NAMESPACE)]);
    let itself = add(&[range(DataRange::PROC_LOCAL)]);
    let here = add(&[range(DataRange::LOCAL)]);
    let custom = add(&[Info::new(
        keys::EVENT_CUSTOM_RANGE,
        procs(vec![proc("other", Rank::WILDCARD)]),
    )]);
    let about = Value::Proc(proc("job", Rank::new(4)));
    let affected = add(&[Info::new(keys::EVENT_AFFECTED_PROC, about)]);
    let chain = |source: Proc<'static>, infos: Vec<Info<'static>>| {
        let event = Event {
            source,
            infos,
            ..event(ONE)
        };
        let mut found = all.chain(&event, &own(), |proc| proc.rank == Rank::new(2));
        found.sort_unstable();
        found
    };
    assert_eq!(chain(own(), vec![]), [same_job, itself, affected]);
    assert_eq!(
        chain(proc("job", Rank::new(2)), vec![]),
        [same_job, here, affected]
    );
    assert_eq!(
        chain(proc("other", Rank::new(1)), vec![]),
        [custom, affected]
    );
    let infos = |rank| {
        let affected = procs(vec![proc("job", Rank::new(3)), proc("job", rank)]);
        vec![Info::new(keys::EVENT_AFFECTED_PROCS, affected)]
    };
    assert_eq!(chain(own(), infos(Rank::new(5))), [same_job, itself]);
    assert_eq!(
        chain(own(), infos(Rank::new(4))),
        [same_job, itself, affected]
    );
    assert_eq!(
        chain(own(), infos(Rank::WILDCARD)),
        [same_job, itself, affected]
    );
}

#[test]
fn a_deregistered_handler_has_no_turn_and_a_oneshot_handler_has_one() {
    let mut all = Handlers::new();
    let once = EventHandler {
        is_oneshot: true,
        name: Some("once".into()),
        ..EventHandler::new([ONE])
    };
    let once = all.register(once, 1).unwrap();
    let always = all.register(EventHandler::new([ONE]), 2).unwrap();
    let two_chains = [chain(&all, &event(ONE)), chain(&all, &event(ONE))];
    assert_eq!(two_chains[0], [always, once]);
    assert_eq!(all.begin_turn(once), Some((Some("once".into()), 1)));
    assert_eq!(all.begin_turn(once), None);
    all.deregister(always);
    assert_eq!(all.begin_turn(always), None);
    assert!(chain(&all, &event(ONE)).is_empty());
}

#[test]
fn cached_events_are_bounded_in_bytes() {
    let mut all = Handlers::new();
    for number in 0..9_u32 {
        let mut event = event(ONE);
        event.infos = vec![
            Info::new("number", number),
            Info::new("text", "x".repeat(1 << 20)),
        ];
        all.keep(event);
    }
    let mut large = event(TWO);
    large.infos = vec![Info::new("text", "x".repeat(5 << 20))];
    let id = all.register(EventHandler::new([ONE]), ()).unwrap();
    let taken = all.take_kept(id, &own(), |_| true);
    assert_eq!(taken.len(), 3);
    assert_eq!(taken[0].infos[0], Info::new("number", 6_u32));
    all.keep(large);
    let any = all.register(EventHandler::new([]), ()).unwrap();
    assert!(all.take_kept(any, &own(), |_| true).is_empty());
}

#[test]
fn events_are_cached_for_handlers_registered_later() {
    let mut all = Handlers::new();
    for number in 0..600_i32 {
        let mut event = event(if number % 2 == 0 { ONE } else { TWO });
        event.infos = vec![Info::new("number", number)];
        all.keep(event);
    }
    let mut gone = event(ONE);
    gone.infos = vec![Info::new(keys::EVENT_DO_NOT_CACHE, true)];
    all.keep(gone);
    let id = all.register(EventHandler::new([ONE]), ()).unwrap();
    let taken = all.take_kept(id, &own(), |_| true);
    assert_eq!(taken.len(), 256);
    assert_eq!(taken[0].infos, [Info::new("number", 88)]);
    assert!(all.take_kept(id, &own(), |_| true).is_empty());
    let any = all.register(EventHandler::new([]), ()).unwrap();
    assert_eq!(all.take_kept(any, &own(), |_| true).len(), 256);
}

#[test]
fn turns_of_100_000_handlers_are_found_in_constant_time() {
    const MANY: usize = 100_000;
    let mut all = Handlers::new();
    for number in 0..MANY {
        all.register(EventHandler::new([ONE]), number).unwrap();
    }
    let told = chain(&all, &event(ONE));
    let turns = told.into_iter().map(|id| all.begin_turn(id).unwrap().1);
    assert!(turns.eq((0..MANY).rev()));
}

#[test]
fn values_of_another_type_are_refused_by_their_key() {
    for key in [
        keys::EVENT_HDLR_NAME,
        keys::EVENT_HDLR_BEFORE,
        keys::EVENT_HDLR_AFTER,
        keys::RANGE,
        keys::EVENT_CUSTOM_RANGE,
        keys::EVENT_AFFECTED_PROC,
    ] {
        let error = EventHandler::from_infos([ONE], &[Info::new(key, 1_u32)]).unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
        assert!(error.to_string().contains(key), "{error}");
    }
}

/// A simple model of the order: a list of all handlers, in which a new one takes the first position that satisfies
/// every rule.
mod model {
    use super::*;

    #[derive(Clone, Debug)]
    pub(super) struct One {
        pub(super) id: usize,
        pub(super) category: usize,
        pub(super) handler: EventHandler,
    }

    /// Returns the sort key of a handler; a smaller key precedes in any order.
    fn key(one: &One) -> (u8, usize, u8) {
        let place = match one.handler.order {
            HandlerOrder::First => 0,
            HandlerOrder::Last => 2,
            _ => 1,
        };
        let within = match one.handler.order {
            HandlerOrder::FirstInCategory => 0,
            HandlerOrder::LastInCategory => 2,
            _ => 1,
        };
        let category = if place == 1 { one.category } else { 0 };
        (place, category, if place == 1 { within } else { 0 })
    }

    /// Inserts a handler into the list. Returns `false` if it has no position.
    pub(super) fn insert(all: &mut Vec<One>, new: One) -> bool {
        let own = key(&new);
        let is_alone = own.0 != 1 || own.2 != 1;
        if is_alone && all.iter().any(|one| key(one) == own) {
            return false;
        }
        let called = |one: &One, name: &Text<'_>| one.handler.name.as_ref() == Some(name);
        let place = match &new.handler.order {
            HandlerOrder::Before(name) | HandlerOrder::After(name) => {
                let is_behind = matches!(new.handler.order, HandlerOrder::After(_));
                let in_category = |one: &&One| {
                    key(one).0 == 1 && one.category == new.category && called(one, name)
                };
                match all.iter().find(in_category).map(|one| one.id) {
                    Some(id) => {
                        let at = all.iter().position(|one| one.id == id).unwrap_or(0);
                        at + usize::from(is_behind)
                    }
                    // Next to the first or last handler of all, as near as the category allows.
                    None if is_behind
                        && all.iter().any(|one| key(one).0 == 0 && called(one, name)) =>
                    {
                        all.iter().filter(|one| key(one) < own).count()
                    }
                    None if !is_behind
                        && all.iter().any(|one| key(one).0 == 2 && called(one, name)) =>
                    {
                        all.iter().filter(|one| key(one) <= own).count()
                    }
                    None => return false,
                }
            }
            HandlerOrder::Append => all.iter().filter(|one| key(one) <= own).count(),
            _ => all.iter().filter(|one| key(one) < own).count(),
        };
        let is_sorted = |all: &[One]| all.is_sorted_by_key(key);
        let mut tried = all.clone();
        tried.insert(place, new);
        if is_sorted(&tried) {
            *all = tried;
            return true;
        }
        false
    }
}

#[test]
fn random_registrations_have_the_order_of_the_model() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % 1_000_003).unwrap() % below
    };
    let names = ["a", "b", "c", "d"];
    let (mut placed, mut refused) = (0, 0);
    for _ in 0..5_000 {
        let (mut all, mut plain) = (Handlers::new(), Vec::new());
        for _ in 0..12 {
            let codes: &[Status] = [&[][..], &[ONE], &[ONE, TWO]][random(3)];
            let name = names[random(4)];
            let order = match random(10) {
                0 => HandlerOrder::First,
                1 => HandlerOrder::Last,
                2 => HandlerOrder::FirstInCategory,
                3 => HandlerOrder::LastInCategory,
                4 => HandlerOrder::Append,
                5 | 6 => HandlerOrder::Before(name.into()),
                7 | 8 => HandlerOrder::After(name.into()),
                _ => HandlerOrder::Prepend,
            };
            let handler = EventHandler {
                name: (random(2) == 0).then(|| names[random(4)].into()),
                order,
                ..EventHandler::new(codes.iter().copied())
            };
            let one = model::One {
                id: all.next,
                category: handler.category(),
                handler: handler.clone(),
            };
            let has_place = all.register(handler.clone(), ()).is_ok();
            assert_eq!(
                has_place,
                model::insert(&mut plain, one),
                "{handler:?} into {plain:?}"
            );
            placed += u32::from(has_place);
            refused += u32::from(!has_place);
            if random(5) == 0 && !plain.is_empty() {
                let gone = plain.remove(random(plain.len())).id;
                assert!(all.deregister(gone).is_some());
            }
            let expected: Vec<_> = plain.iter().map(|one| one.id).collect();
            assert_eq!(chain(&all, &event(ONE)), expected, "{plain:?}");
        }
    }
    assert!(
        placed > 20_000 && refused > 5_000,
        "{placed} placed, {refused} refused"
    );
}

#[test]
fn very_many_handlers_are_deregistered_in_any_order() {
    const MANY: usize = 100_000;
    let orders: [fn(usize) -> usize; 3] = [
        |number| number,
        |number| MANY - 1 - number,
        // Each number once, far from the previous one: 7,919 and the number of handlers have no common divisor.
        |number| number * 7919 % MANY,
    ];
    for order in orders {
        let mut all = Handlers::new();
        for number in 0..MANY {
            all.register(EventHandler::new([ONE]), number).unwrap();
        }
        for number in 0..MANY {
            assert!(all.has_code(ONE));
            assert!(all.deregister(order(number)).is_some());
        }
        assert!(!all.has_code(ONE) && all.codes().is_empty());
    }
}

#[test]
fn a_handler_can_always_be_placed_between_two_others() {
    const MANY: usize = 1_000;
    let mut all = Handlers::new();
    let named = |name: &'static str| EventHandler {
        name: Some(name.into()),
        ..EventHandler::new([ONE])
    };
    let behind = all.register(named("behind"), ()).unwrap();
    let before = all.register(named("before"), ()).unwrap();
    let mut between: Vec<_> = (0..MANY)
        .map(|_| {
            let order = HandlerOrder::Before("behind".into());
            let handler = EventHandler {
                order,
                ..EventHandler::new([ONE])
            };
            all.register(handler, ()).unwrap()
        })
        .collect();
    let expected = |between: &[usize]| [&[before], between, &[behind]].concat();
    assert_eq!(chain(&all, &event(ONE)), expected(&between));
    // The handlers are found at their new places.
    for id in between.split_off(MANY / 2) {
        assert!(all.deregister(id).is_some());
    }
    assert_eq!(chain(&all, &event(ONE)), expected(&between));
}

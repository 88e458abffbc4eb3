// SPDX-License-Identifier: MIT OR Apache-2.0
//! The event handlers of a process: the selection of handlers for an event, and their order.
//!
//! The chain begins with handlers for a single code, then those for several codes, then default handlers (for all
//! codes). One handler may be registered as the first of all and one as the last. Within a category the newest is
//! called first unless its registration requests otherwise.
//!
//! Source: PMIx Standard, chapter "Event Notification", attributes of `PMIx_Register_event_handler`.

mod places;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use bfrops::{Layout, Module};
use pmix_proto::{Event, PeerForm};
use pmix_types::{
    DataArray, DataRange, Info, IntoOwned as _, Proc, Rank, Status, Text, Value, keys,
};

use crate::Error;
use crate::obeyed::check_required;
use crate::obeyed::is_true;

use places::{Gap, Place, Places};

/// The largest number of events cached for later registrations.
const MOST_KEPT: usize = 512;

/// The largest size of cached events on the wire.
const MOST_KEPT_BYTES: usize = 4 << 20;

/// The position of a new handler in the chain.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum HandlerOrder {
    /// Before the others of its category, but after one registered as the first in it (`PMIX_EVENT_HDLR_PREPEND`, the
    /// default).
    #[default]
    Prepend,
    /// After the others of its category, but before one registered as the last in it (`PMIX_EVENT_HDLR_APPEND`).
    Append,
    /// Before all handlers of the process (`PMIX_EVENT_HDLR_FIRST`).
    First,
    /// After all handlers of the process (`PMIX_EVENT_HDLR_LAST`).
    Last,
    /// Before all others of its category (`PMIX_EVENT_HDLR_FIRST_IN_CATEGORY`).
    FirstInCategory,
    /// After all others of its category (`PMIX_EVENT_HDLR_LAST_IN_CATEGORY`).
    LastInCategory,
    /// Immediately before the handler with a name (`PMIX_EVENT_HDLR_BEFORE`).
    Before(Text<'static>),
    /// Immediately after the handler with a name (`PMIX_EVENT_HDLR_AFTER`).
    After(Text<'static>),
}

/// The description of a handler: its events and its position.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EventHandler {
    /// The codes of the events; empty for a default handler.
    pub codes: Vec<Status>,
    /// The name, by which other registrations refer to it (`PMIX_EVENT_HDLR_NAME`).
    pub name: Option<Text<'static>>,
    /// The position in the chain.
    pub order: HandlerOrder,
    /// The range of event sources (`PMIX_RANGE`); `None` for all.
    pub range: Option<DataRange>,
    /// The processes of a custom range (`PMIX_EVENT_CUSTOM_RANGE`).
    pub range_procs: Vec<Proc<'static>>,
    /// The affected processes (`PMIX_EVENT_AFFECTED_PROC`, `PMIX_EVENT_AFFECTED_PROCS`). An event that lists affected
    /// processes must list one of these. Empty for all.
    pub affected: Vec<Proc<'static>>,
    /// `true` if the handler is deregistered after its first event (`PMIX_EVENT_ONESHOT`).
    pub is_oneshot: bool,
}

impl EventHandler {
    /// Creates a handler for codes, or a default handler if there are none.
    #[must_use]
    pub fn new(codes: impl IntoIterator<Item = Status>) -> Self {
        Self {
            codes: codes.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Creates a handler from the infos of a registration. If several set the position, the last one applies. Infos
    /// that do not concern handlers are ignored.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` with the key of an info whose value has the wrong type, and
    /// `PMIX_ERR_NOT_SUPPORTED` for a required directive that handlers do not support.
    pub fn from_infos(
        codes: impl IntoIterator<Item = Status>,
        infos: &[Info<'_>],
    ) -> Result<Self, Error> {
        check_required("PMIx_Register_event_handler", infos)?;
        let mut handler = Self::new(codes);
        for info in infos {
            handler.take(info)?;
        }
        Ok(handler)
    }

    fn take(&mut self, info: &Info<'_>) -> Result<(), Error> {
        let set_order = |order: HandlerOrder, own: &mut HandlerOrder| {
            if info.truth().is_true() {
                *own = order;
            }
        };
        match info.key.as_text().as_str() {
            Some(keys::EVENT_HDLR_FIRST) => set_order(HandlerOrder::First, &mut self.order),
            Some(keys::EVENT_HDLR_LAST) => set_order(HandlerOrder::Last, &mut self.order),
            Some(keys::EVENT_HDLR_FIRST_IN_CATEGORY) => {
                set_order(HandlerOrder::FirstInCategory, &mut self.order);
            }
            Some(keys::EVENT_HDLR_LAST_IN_CATEGORY) => {
                set_order(HandlerOrder::LastInCategory, &mut self.order);
            }
            Some(keys::EVENT_HDLR_PREPEND) => set_order(HandlerOrder::Prepend, &mut self.order),
            Some(keys::EVENT_HDLR_APPEND) => set_order(HandlerOrder::Append, &mut self.order),
            Some(keys::EVENT_HDLR_BEFORE) => self.order = HandlerOrder::Before(text(info)?),
            Some(keys::EVENT_HDLR_AFTER) => self.order = HandlerOrder::After(text(info)?),
            Some(keys::EVENT_HDLR_NAME) => self.name = Some(text(info)?),
            Some(keys::EVENT_ONESHOT) => self.is_oneshot = info.truth().is_true(),
            Some(keys::RANGE) => match info.value {
                Value::DataRange(range) => self.range = Some(range),
                _ => return Err(wrong(info)),
            },
            Some(keys::EVENT_CUSTOM_RANGE) => {
                self.range_procs = procs(info)?;
                // A list of processes is a custom range, unless `PMIX_RANGE` names another.
                self.range.get_or_insert(DataRange::CUSTOM);
            }
            Some(keys::EVENT_AFFECTED_PROC | keys::EVENT_AFFECTED_PROCS) => {
                self.affected = procs(info)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn category(&self) -> usize {
        // As in OpenPMIx, handlers of one code come first, then those of several, then the default ones.
        match self.codes.len() {
            1 => 0,
            0 => 2,
            _ => 1,
        }
    }

    fn is_for(
        &self,
        event: &Event<'_>,
        own: &Proc<'_>,
        is_local: impl Fn(&Proc<'_>) -> bool,
    ) -> bool {
        let has_code = match self.codes.is_empty() {
            // The source of an event can exclude the default handlers.
            true => !is_true(&event.infos, keys::EVENT_NON_DEFAULT),
            false => self.codes.contains(&event.status),
        };
        let (source, range) = (&event.source, self.range.unwrap_or(DataRange::UNDEF));
        let fits = match range {
            DataRange::NAMESPACE => source.nspace == own.nspace,
            DataRange::PROC_LOCAL => source == own,
            DataRange::LOCAL => is_local(source),
            DataRange::CUSTOM => self.range_procs.iter().any(|proc| is_same(proc, source)),
            _ => true,
        };
        has_code && fits && self.affects(event)
    }

    /// Returns `true` if an event affects a process of the handler, or lists no affected processes.
    fn affects(&self, event: &Event<'_>) -> bool {
        if self.affected.is_empty() {
            return true;
        }
        let is_named = |info: &&Info<'_>| {
            info.key.is(keys::EVENT_AFFECTED_PROC) || info.key.is(keys::EVENT_AFFECTED_PROCS)
        };
        let mut named = event.infos.iter().filter(is_named).peekable();
        if named.peek().is_none() {
            return true;
        }
        named
            .filter_map(|info| procs(info).ok())
            .flatten()
            .any(|affected| self.affected.iter().any(|proc| is_same(proc, &affected)))
    }
}

/// The position of a registered handler.
#[derive(Clone, Copy, Debug)]
enum Position {
    First,
    Last,
    /// The category and the place in it.
    In(usize, Place),
}

/// A registered handler.
#[derive(Clone, Debug)]
struct Registered {
    id: usize,
    handler: EventHandler,
}

/// The action for a handler when the chain reaches it.
#[derive(Clone, Debug)]
struct Turn<H> {
    position: Position,
    name: Option<Text<'static>>,
    is_oneshot: bool,
    then: H,
}

/// The event handlers of a process in their order, each with its action `H`.
#[derive(Clone, Debug)]
pub struct Handlers<H> {
    next: usize,
    first: Option<Registered>,
    /// The handlers for one code, for several codes, and for all codes.
    categories: [Places<Registered>; 3],
    last: Option<Registered>,
    /// The action of each handler, by id.
    turns: BTreeMap<usize, Turn<H>>,
    /// The number of handlers for each code; then the number of default handlers.
    codes: BTreeMap<i32, usize>,
    num_default: usize,
    /// Events without a handler so far.
    kept: VecDeque<Kept>,
    kept_bytes: usize,
}

/// A cached event.
#[derive(Clone, Debug)]
struct Kept {
    event: Event<'static>,
    bytes: usize,
}

impl<H> Default for Handlers<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H> Handlers<H> {
    /// Creates an empty registry.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            next: 0,
            first: None,
            categories: [Places::new(), Places::new(), Places::new()],
            last: None,
            turns: BTreeMap::new(),
            codes: BTreeMap::new(),
            num_default: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
        }
    }

    /// Registers a handler and returns its unique id (`PMIx_Register_event_handler`).
    ///
    /// DEVIATION: OpenPMIx puts a handler without a directive before the first one of its category. For a position
    /// relative to another handler it searches for the name of the new handler;
    /// `a_named_handler_is_found_and_the_first_in_a_category_stays_first`.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_EVENT_REGISTRATION` if the first or last position is taken, if no handler of the category has
    /// the name that it refers to, or if the position would precede the first or follow the last handler.
    pub fn register(&mut self, handler: EventHandler, then: H) -> Result<usize, Error> {
        let category = handler.category();
        let position = match self.gap(&handler)? {
            _ if handler.order == HandlerOrder::First => Position::First,
            _ if handler.order == HandlerOrder::Last => Position::Last,
            gap => Position::In(category, self.place_in(category, gap, &handler)?),
        };
        let id = self.next;
        self.next += 1;
        let turn = Turn {
            position,
            name: handler.name.clone(),
            is_oneshot: handler.is_oneshot,
            then,
        };
        self.turns.insert(id, turn);
        for code in &handler.codes {
            *self.codes.entry(code.as_raw()).or_default() += 1;
        }
        self.num_default += usize::from(handler.codes.is_empty());
        let registered = Registered { id, handler };
        match position {
            Position::First => self.first = Some(registered),
            Position::Last => self.last = Some(registered),
            Position::In(category, place) => self.categories[category].insert(place, registered),
        }
        Ok(id)
    }

    /// Returns a place in a gap of a category. If the gap has none, all places of the category are assigned again.
    fn place_in(
        &mut self,
        category: usize,
        gap: Gap,
        handler: &EventHandler,
    ) -> Result<Place, Error> {
        // Places have room between them, so a registration usually moves no other handler.
        if let Some(place) = gap.middle() {
            return Ok(place);
        }
        let turns = &mut self.turns;
        self.categories[category].spread(|place, moved| {
            if let Some(turn) = turns.get_mut(&moved.id) {
                turn.position = Position::In(category, place);
            }
        });
        let gap = self.gap(handler)?;
        gap.middle()
            .ok_or_else(|| refused(format_args!("the limit of handlers is reached")))
    }

    /// Returns the gap between handlers of its category that a new handler belongs to.
    fn gap(&self, handler: &EventHandler) -> Result<Gap, Error> {
        let all = &self.categories[handler.category()];
        let is = |one: Option<(Place, &Registered)>, order: HandlerOrder| {
            one.filter(|(_, one)| one.handler.order == order)
                .map(|(place, _)| place)
        };
        let first = is(all.first(), HandlerOrder::FirstInCategory);
        let last = is(all.last(), HandlerOrder::LastInCategory);
        let front = || first.map_or_else(|| all.before_all(), |first| all.behind(first));
        let end = || last.map_or_else(|| all.behind_all(), |last| all.before(last));
        let taken = |is_taken: bool, what: &str| match is_taken {
            true => Err(refused(format_args!(
                "another handler is already the {what}"
            ))),
            false => Ok(()),
        };
        let called = |name: &Text<'_>| {
            let mut places = all.iter();
            places
                .find(|(_, one)| one.is_called(name))
                .map(|(place, _)| place)
        };
        match &handler.order {
            HandlerOrder::Prepend => Ok(front()),
            HandlerOrder::Append => Ok(end()),
            HandlerOrder::First => {
                taken(self.first.is_some(), "first of all").map(|()| all.before_all())
            }
            HandlerOrder::Last => {
                taken(self.last.is_some(), "last of all").map(|()| all.behind_all())
            }
            HandlerOrder::FirstInCategory => {
                taken(first.is_some(), "first of its category").map(|()| all.before_all())
            }
            HandlerOrder::LastInCategory => {
                taken(last.is_some(), "last of its category").map(|()| all.behind_all())
            }
            HandlerOrder::Before(name) => match called(name) {
                Some(place) if Some(place) == first => {
                    Err(refused(format_args!("{name} is registered as first")))
                }
                Some(place) => Ok(all.before(place)),
                None if is_called(self.last.as_ref(), name) => Ok(end()),
                None => Err(no_such(name)),
            },
            HandlerOrder::After(name) => match called(name) {
                Some(place) if Some(place) == last => {
                    Err(refused(format_args!("{name} is registered as last")))
                }
                Some(place) => Ok(all.behind(place)),
                None if is_called(self.first.as_ref(), name) => Ok(front()),
                None => Err(no_such(name)),
            },
        }
    }

    /// Deregisters a handler (`PMIx_Deregister_event_handler`). Returns `None` if the id is unknown.
    pub fn deregister(&mut self, id: usize) -> Option<EventHandler> {
        let turn = self.turns.remove(&id)?;
        let removed = match turn.position {
            Position::First => self.first.take(),
            Position::Last => self.last.take(),
            Position::In(category, place) => self.categories[category].remove(place),
        };
        let handler = removed?.handler;
        for code in &handler.codes {
            if let Entry::Occupied(mut number) = self.codes.entry(code.as_raw()) {
                *number.get_mut() -= 1;
                if *number.get() == 0 {
                    number.remove();
                }
            }
        }
        self.num_default -= usize::from(handler.codes.is_empty());
        Some(handler)
    }

    /// Removes all handlers and cached events. Ids are not used again.
    pub fn clear(&mut self) {
        let next = self.next;
        *self = Self {
            next,
            ..Self::new()
        };
    }

    fn all(&self) -> impl Iterator<Item = &Registered> {
        let between = self.categories.iter().flat_map(Places::iter);
        let between = between.map(|(_, one)| one);
        self.first.iter().chain(between).chain(&self.last)
    }

    /// Returns the codes with a handler, each once, in numerical order.
    #[must_use]
    pub fn codes(&self) -> Vec<Status> {
        self.codes.keys().copied().map(Status::from_raw).collect()
    }

    /// Returns `true` if a handler is registered for this code, apart from default handlers.
    #[must_use]
    pub fn has_code(&self, code: Status) -> bool {
        self.codes.contains_key(&code.as_raw())
    }

    /// Returns `true` if there is a default handler.
    #[must_use]
    pub const fn has_default(&self) -> bool {
        self.num_default > 0
    }

    /// Returns the ids of the handlers for an event in the order in which they are called. `own` is this process.
    /// `is_local` returns `true` for processes on this node. The driver calls [`begin_turn`](Self::begin_turn) for each
    /// id.
    #[must_use]
    pub fn chain(
        &self,
        event: &Event<'_>,
        own: &Proc<'_>,
        is_local: impl Fn(&Proc<'_>) -> bool,
    ) -> Vec<usize> {
        { self.all() }
            .filter(|one| one.handler.is_for(event, own, &is_local))
            .map(|one| one.id)
            .collect()
    }

    /// Caches an event without a handler for later registrations, unless it has `PMIX_EVENT_DO_NOT_CACHE`. Beyond 512
    /// events or 4 MiB, the oldest are dropped.
    pub fn keep(&mut self, event: Event<'static>) {
        if is_true(&event.infos, keys::EVENT_DO_NOT_CACHE) {
            return;
        }
        let bytes = wire_bytes(&event);
        self.kept_bytes = self.kept_bytes.saturating_add(bytes);
        self.kept.push_back(Kept { event, bytes });
        while self.kept.len() > MOST_KEPT || self.kept_bytes > MOST_KEPT_BYTES {
            let Some(oldest) = self.kept.pop_front() else {
                break;
            };
            self.kept_bytes = self.kept_bytes.saturating_sub(oldest.bytes);
        }
    }

    /// Removes and returns the cached events for a handler, the oldest first.
    pub fn take_kept(
        &mut self,
        id: usize,
        own: &Proc<'_>,
        is_local: impl Fn(&Proc<'_>) -> bool,
    ) -> Vec<Event<'static>> {
        let one = match self.turns.get(&id).map(|turn| turn.position) {
            Some(Position::First) => self.first.as_ref(),
            Some(Position::Last) => self.last.as_ref(),
            Some(Position::In(category, place)) => self.categories[category].get(place),
            None => None,
        };
        let Some(one) = one.filter(|_| !self.kept.is_empty()) else {
            return Vec::new();
        };
        let handler = one.handler.clone();
        let is_for = |kept: &Kept| handler.is_for(&kept.event, own, &is_local);
        let (taken, kept): (VecDeque<Kept>, VecDeque<Kept>) =
            std::mem::take(&mut self.kept).into_iter().partition(is_for);
        self.kept = kept;
        self.kept_bytes = self.kept.iter().map(|kept| kept.bytes).sum();
        taken.into_iter().map(|kept| kept.event).collect()
    }
}

impl<H: Clone> Handlers<H> {
    /// Returns the name and action of a handler, and deregisters a one-shot handler. Returns `None` if the handler is
    /// no longer registered.
    pub fn begin_turn(&mut self, id: usize) -> Option<(Option<Text<'static>>, H)> {
        let Turn {
            name,
            is_oneshot,
            then,
            ..
        } = self.turns.get(&id)?.clone();
        // The handler is removed before it runs, so that the next event cannot call it again.
        if is_oneshot {
            self.deregister(id);
        }
        Some((name, then))
    }
}

impl Registered {
    fn is_called(&self, name: &Text<'_>) -> bool {
        self.handler.name.as_ref() == Some(name)
    }
}

fn is_called(one: Option<&Registered>, name: &Text<'_>) -> bool {
    one.is_some_and(|one| one.is_called(name))
}

fn refused(why: std::fmt::Arguments<'_>) -> Error {
    Error::new(
        Status::ERR_EVENT_REGISTRATION,
        format!("cannot register the handler: {why}"),
    )
}

fn no_such(name: &Text<'_>) -> Error {
    refused(format_args!(
        "no handler of its category has the name {name}"
    ))
}

fn wrong(info: &Info<'_>) -> Error {
    let found = info.value.data_type();
    Error::new(
        Status::ERR_BAD_PARAM,
        format!("{}: {found} is not the type of this attribute", info.key),
    )
}

fn text(info: &Info<'_>) -> Result<Text<'static>, Error> {
    match &info.value {
        Value::String(Some(text)) => Ok(text.clone().into_owned()),
        _ => Err(wrong(info)),
    }
}

fn procs(info: &Info<'_>) -> Result<Vec<Proc<'static>>, Error> {
    match &info.value {
        Value::Proc(proc) => Ok(vec![proc.clone().into_owned()]),
        Value::DataArray(DataArray::Proc(procs)) => Ok(procs.clone().into_owned()),
        _ => Err(wrong(info)),
    }
}

/// Returns `true` if two names can mean the same process; a wildcard means any process of its job.
fn is_same(one: &Proc<'_>, other: &Proc<'_>) -> bool {
    let is_any = |proc: &Proc<'_>| proc.rank == Rank::WILDCARD;
    one.nspace == other.nspace && (one.rank == other.rank || is_any(one) || is_any(other))
}

#[cfg(test)]
mod tests;

/// Returns the size of an event on the wire. An event that cannot be packed, for example one with a pointer, counts 0.
fn wire_bytes(event: &Event<'_>) -> usize {
    let form = PeerForm::new(Layout::new(Module::V61), pmix_proto::RELEASE.as_bytes());
    event.encode(&form, None).map_or(0, |packed| packed.len())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The relay of events between the servers of several nodes, and the events of a lost node.
//!
//! A server delivers an event of its processes to its own clients and tools, and passes it to the host
//! (`notify_event`). The host notifies the servers of the other nodes, never that of the source.
//!
//! | event | what the host calls |
//! | --- | --- |
//! | `notify_event` of node A | [`Server::notify`](pmix_server::Server::notify) on each of [`recipients`] |
//! | node A is lost | the same with each of [`lost_events`], on every node that is left |
//!
//! After the loss of a node, the host also calls [`node_lost`](crate::collectives::Collectives::node_lost),
//! [`server_ended`](crate::groups::GroupAssembler::server_ended), `proc_ended` of each component for each process of
//! the node, and completes direct modexes that wait for the node with `PMIX_ERR_LOST_CONNECTION`.
//!
//! Source: PMIx Standard, `pmix_server_notify_event_fn_t`.

use pmix_server::upcall::NotifyEvent;
use pmix_types::{DataRange, Info, Proc, Status, keys};

/// Returns the nodes whose servers are to be notified of an event that the server of node `from` passed to the host. The
/// server `from` has delivered the event itself. Events for one node, and those for the resource manager, reach no other
/// server.
pub fn recipients(
    event: &NotifyEvent,
    from: usize,
    nodes: impl IntoIterator<Item = usize>,
) -> impl Iterator<Item = usize> {
    // A server passes some events of debuggers to its host although they stay on its node.
    let stays = [DataRange::LOCAL, DataRange::PROC_LOCAL, DataRange::RM].contains(&event.range);
    let nodes = nodes.into_iter();
    nodes.filter(move |node| !stays && *node != from)
}

/// Returns the events of a lost node, one for each of its processes that had not ended. The servers drop the data of these
/// processes.
pub fn lost_events(
    procs: impl IntoIterator<Item = Proc<'static>>,
) -> impl Iterator<Item = NotifyEvent> {
    procs.into_iter().map(|proc| {
        let infos = vec![
            Info::new(keys::EVENT_AFFECTED_PROC, proc.clone()),
            Info::new(keys::EVENT_NON_DEFAULT, true),
        ];
        // The event is the one that the server of the node would have raised.
        let lost = Status::ERR_LOST_CONNECTION;
        NotifyEvent::new(lost, proc, DataRange::NAMESPACE, infos)
    })
}

#[cfg(test)]
mod tests {
    use pmix_types::Rank;

    use super::*;

    #[test]
    fn an_event_reaches_every_other_node_unless_it_stays_on_its_own() {
        let to = |range| {
            let source = Proc::new("job", Rank::new(0));
            let event = NotifyEvent::new(Status::ERR_TIMEOUT, source, range, Vec::new());
            recipients(&event, 1, 0..4).collect::<Vec<_>>()
        };
        for range in [DataRange::GLOBAL, DataRange::NAMESPACE, DataRange::CUSTOM] {
            assert_eq!(to(range), [0, 2, 3]);
        }
        for range in [DataRange::LOCAL, DataRange::PROC_LOCAL, DataRange::RM] {
            assert!(to(range).is_empty(), "{range}");
        }
    }

    #[test]
    fn a_lost_node_is_an_event_for_each_of_its_processes() {
        let procs = [2, 3].map(|rank| Proc::new("job", Rank::new(rank)));
        let events: Vec<_> = lost_events(procs.clone()).collect();
        let sources: Vec<_> = events.iter().map(|event| event.source.clone()).collect();
        assert_eq!(sources, procs);
        let is_lost = |event: &NotifyEvent| event.status == Status::ERR_LOST_CONNECTION;
        assert!(events.iter().all(is_lost));
    }
}

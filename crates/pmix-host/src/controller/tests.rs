// SPDX-License-Identifier: MIT OR Apache-2.0

use pmix_map::Limits;
use pmix_server::upcall::{Abort, DirectModex, Fence, HostObject};
use pmix_types::{DataRange, Rank};

use super::*;

fn proc(rank: u32) -> Proc<'static> {
    Proc::new("job", Rank::new(rank))
}

/// The links to two nodes with a process each, and the other ends of these links.
fn linked() -> (ControllerLinks, [Link<char>; 2]) {
    let mut controller = ControllerLinks::new(2);
    let procs = ProcMap::parse_text(b"0;1", &Limits::default()).expect("a map");
    controller
        .add_job("job".into(), procs, vec![0, 1])
        .expect("a job");
    (controller, [Link::default(), Link::default()])
}

/// Passes all output of a node to the controller. Returns the messages for the host.
fn pass(
    controller: &mut ControllerLinks,
    node: usize,
    link: &mut Link<char>,
) -> Result<Vec<NodeMessage>, Error> {
    let output = link.output().to_vec();
    link.handle_written(output.len());
    controller.link(node).expect("a link").handle_input(&output);
    let mut messages = Vec::new();
    while let Some(message) = controller.poll_message(node, Instant::now())? {
        messages.push(message);
    }
    Ok(messages)
}

/// Passes all output of the controller to a node. Returns its messages.
fn receive(
    controller: &mut ControllerLinks,
    node: usize,
    link: &mut Link<char>,
) -> Vec<LinkMessage<char>> {
    let own = controller.link(node).expect("a link");
    link.handle_input(own.output());
    own.handle_written(usize::MAX);
    std::iter::from_fn(|| link.poll_message().expect("no error")).collect()
}

fn fence(data: &[u8]) -> Fence {
    let all = vec![Proc::new("job", Rank::WILDCARD)];
    Fence::new(all, Vec::new(), data.to_vec())
}

#[test]
fn a_fence_and_a_direct_modex_pass_between_the_nodes() {
    let (mut controller, [mut a, mut b]) = linked();
    a.call(fence(b"a"), 'a');
    b.call(fence(b"b"), 'b');
    assert_eq!(pass(&mut controller, 0, &mut a).unwrap(), []);
    assert_eq!(receive(&mut controller, 0, &mut a), []);
    assert_eq!(pass(&mut controller, 1, &mut b).unwrap(), []);
    let both = HostReply::Data(Ok(b"ab".to_vec()));
    let reply = |token| LinkMessage::Reply(token, both.clone());
    assert_eq!(receive(&mut controller, 0, &mut a), [reply('a')]);
    assert_eq!(receive(&mut controller, 1, &mut b), [reply('b')]);

    a.call(DirectModex::new(proc(1), Vec::new()), 'm');
    assert_eq!(pass(&mut controller, 0, &mut a).unwrap(), []);
    let asked = receive(&mut controller, 1, &mut b);
    let [LinkMessage::Call(number, Upcall::DirectModex(_))] = &asked[..] else {
        panic!("{asked:?}");
    };
    let data = HostReply::Data(Ok(b"card".to_vec()));
    b.reply(*number, &data);
    assert_eq!(pass(&mut controller, 1, &mut b).unwrap(), []);
    let reply = LinkMessage::Reply('m', data);
    assert_eq!(receive(&mut controller, 0, &mut a), [reply]);
}

#[test]
fn an_upcall_of_the_host_and_the_end_of_a_process_are_returned_in_their_order() {
    let (mut controller, [mut a, _]) = linked();
    let abort = Abort::new(proc(0), HostObject(0), Status::ERROR, None, Vec::new());
    a.call(abort.clone(), 'a');
    a.proc_ended(&proc(0), 3);
    a.send(b"bye").unwrap();
    let messages = pass(&mut controller, 0, &mut a).unwrap();
    let [NodeMessage::Upcall(call, upcall), rest @ ..] = &messages[..] else {
        panic!("{messages:?}");
    };
    assert_eq!(*upcall, abort.into());
    let ended = NodeMessage::Ended(proc(0), 3);
    assert_eq!(rest, [ended, NodeMessage::Own(b"bye".to_vec())]);
    controller.reply(*call, &HostReply::Done(Status::SUCCESS));
    let reply = LinkMessage::Reply('a', HostReply::Done(Status::SUCCESS));
    assert_eq!(receive(&mut controller, 0, &mut a), [reply]);
    assert_eq!(controller.jobs().num_running_of(&"job".into()), 1);

    // The same process cannot end again, and no process of another node can.
    for rank in [0, 1] {
        a.proc_ended(&proc(rank), 0);
        let error = pass(&mut controller, 0, &mut a).unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_FOUND);
    }
    controller.job_ended(&"job".into());
    a.proc_ended(&proc(0), 0);
    assert_eq!(pass(&mut controller, 0, &mut a).unwrap(), []);
}

#[test]
fn a_lost_node_ends_the_calls_that_wait_for_it() {
    let (mut controller, [mut a, mut b]) = linked();
    a.call(DirectModex::new(proc(1), Vec::new()), 'm');
    a.call(fence(b"a"), 'f');
    assert_eq!(pass(&mut controller, 0, &mut a).unwrap(), []);
    assert_eq!(receive(&mut controller, 1, &mut b).len(), 1);
    assert_eq!(controller.node_lost(1), [proc(1)]);
    let messages = receive(&mut controller, 0, &mut a);
    let [LinkMessage::Event(event), rest @ ..] = &messages[..] else {
        panic!("{messages:?}");
    };
    assert_eq!(event.status, Status::ERR_LOST_CONNECTION);
    assert_eq!(event.source, proc(1));
    let lost = Status::ERR_LOST_CONNECTION;
    let fence = LinkMessage::Reply('f', HostReply::Data(Err(lost)));
    let modex = LinkMessage::Reply('m', HostReply::Done(lost));
    assert_eq!(rest, [fence, modex]);
    assert!(controller.link(1).is_none() && controller.node_lost(1).is_empty());
    assert_eq!(controller.poll_message(1, Instant::now()).unwrap(), None);
}

#[test]
fn events_of_the_host_reach_all_nodes_also_those_that_were_added() {
    let (mut controller, _) = linked();
    assert_eq!(controller.add_node(), 2);
    let (status, range) = (Status::ERR_EXIT_NONZERO_TERM, DataRange::NAMESPACE);
    controller.notify(&NotifyEvent::new(status, proc(0), range, Vec::new()));
    for node in 0..3 {
        assert!(!controller.link(node).unwrap().output().is_empty());
    }
    let procs = ProcMap::parse_text(b"0", &Limits::default()).expect("a map");
    let refused = controller.add_job("other".into(), procs, vec![3]);
    assert_eq!(refused.unwrap_err().status(), Status::ERR_BAD_PARAM);
}

// SPDX-License-Identifier: MIT OR Apache-2.0

use pmix_server::upcall::{DirectModex, Fence};
use pmix_types::{DataRange, Info};

use super::*;

fn proc() -> Proc<'static> {
    Proc::new("job", Rank::new(1))
}

fn fence(data: &[u8]) -> Fence {
    Fence::new(vec![proc()], Vec::new(), data.to_vec())
}

/// Passes all output of one end to the other, in pieces.
fn carry<A, B>(from: &mut Link<A>, to: &mut Link<B>, step: usize) -> Vec<LinkMessage<B>> {
    let mut messages = Vec::new();
    while !from.output().is_empty() {
        let num_bytes = from.output().len().min(step);
        to.handle_input(&from.output()[..num_bytes]);
        from.handle_written(num_bytes);
        while let Some(message) = to.poll_message().expect("no error") {
            messages.push(message);
        }
    }
    messages
}

#[test]
fn messages_arrive_in_their_order_and_replies_find_their_calls() {
    for step in [1, 2, 9, 4096] {
        let (mut node, mut controller) = (Link::default(), Link::default());
        node.call(fence(b"a"), 'a');
        node.send(b"rank 1 runs").unwrap();
        node.call(fence(b"b"), 'b');
        let event = NotifyEvent::new(
            Status::ERR_TIMEOUT,
            proc(),
            DataRange::GLOBAL,
            vec![Info::new("key", 1_u32)],
        );
        node.notify(event.clone());
        node.proc_ended(&proc(), -7);
        let messages = carry(&mut node, &mut controller, step);
        let (first, second) = (CallNumber(1), CallNumber(2));
        assert_eq!(
            messages,
            [
                LinkMessage::Call(first, fence(b"a").into()),
                LinkMessage::Own(b"rank 1 runs".to_vec()),
                LinkMessage::Call(second, fence(b"b").into()),
                LinkMessage::Event(event),
                LinkMessage::Ended(proc(), -7),
            ]
        );
        controller.call(DirectModex::new(proc(), Vec::new()), 7);
        let data = |data: &[u8]| HostReply::Data(Ok(data.to_vec()));
        controller.reply(second, &data(b"2"));
        controller.reply(first, &data(b"1"));
        let messages = carry(&mut controller, &mut node, step);
        let [call, LinkMessage::Reply('b', b), LinkMessage::Reply('a', a)] = &messages[..] else {
            panic!("{messages:?}");
        };
        assert!(matches!(call, LinkMessage::Call(_, Upcall::DirectModex(_))));
        assert_eq!((b, a), (&data(b"2"), &data(b"1")));
        assert!(node.close().is_empty());
        assert_eq!(controller.close(), [7]);
    }
}

#[test]
fn a_stream_is_read_and_written_without_waiting() {
    use std::os::unix::net::UnixStream;
    let (mut here, mut there) = UnixStream::pair().expect("a pair of sockets");
    here.set_nonblocking(true).expect("nonblocking");
    there.set_nonblocking(true).expect("nonblocking");
    let (mut node, mut controller) = (Link::<()>::default(), Link::<()>::default());
    assert!(node.transfer(&mut here).expect("an open stream"));
    // More than the sockets hold, so that neither end can pass it at once.
    let message = vec![7; 4 << 20];
    node.send(&message).unwrap();
    let arrived = loop {
        assert!(node.transfer(&mut here).expect("an open stream"));
        assert!(controller.transfer(&mut there).expect("an open stream"));
        if let Some(arrived) = controller.poll_message().unwrap() {
            break arrived;
        }
    };
    assert_eq!(arrived, LinkMessage::Own(message));
    assert!(node.output().is_empty());
    node.send(b"last").unwrap();
    assert!(node.transfer(&mut here).expect("an open stream"));
    drop(here);
    assert!(controller.transfer(&mut there).expect("an open stream"));
    assert!(!controller.transfer(&mut there).expect("the end"));
    let last = controller.poll_message().unwrap();
    assert_eq!(last, Some(LinkMessage::Own(b"last".to_vec())));
}

#[test]
fn a_call_that_cannot_be_sent_fails_and_the_link_goes_on() {
    let limits = LinkLimits {
        message_bytes: 200,
        ..LinkLimits::default()
    };
    let (mut node, mut controller) = (Link::new(limits), Link::<()>::new(limits));
    node.call(fence(&[0; 300]), 'a');
    node.call(fence(b"b"), 'b');
    let failed = HostReply::Done(Status::ERR_OUT_OF_RESOURCE);
    let refused = node.poll_message().unwrap();
    assert_eq!(refused, Some(LinkMessage::Reply('a', failed.clone())));
    assert_eq!(
        node.send(&[0; 200]).unwrap_err().status(),
        Status::ERR_OUT_OF_RESOURCE
    );
    let messages = carry(&mut node, &mut controller, 64);
    let [LinkMessage::Call(number, _)] = &messages[..] else {
        panic!("{messages:?}");
    };
    // A reply that is too long becomes its error.
    controller.reply(*number, &HostReply::Data(Ok(vec![0; 300])));
    let messages = carry(&mut controller, &mut node, 64);
    assert_eq!(messages, [LinkMessage::Reply('b', failed)]);
}

/// Returns the error of a link that receives this message.
fn refusal(message: &[u8]) -> Error {
    let mut bytes = Vec::new();
    let frame = begin_frame(&mut bytes);
    bytes.extend_from_slice(message);
    frame.end(&mut bytes, 1000).unwrap();
    let mut link = Link::<()>::default();
    link.handle_input(&bytes);
    let error = link.poll_message().unwrap_err();
    // It stays broken.
    link.send(b"more").unwrap();
    link.handle_input(&bytes);
    assert_eq!(link.poll_message().unwrap_err().status(), error.status());
    error
}

#[test]
fn damaged_messages_are_errors() {
    let packed = Upcall::from(fence(b"a")).pack().unwrap();
    let call = [&[kind::CALL][..], &[0; 8], &packed].concat();
    let event = [&[kind::EVENT][..], &packed].concat();
    for message in [
        &b""[..],
        &[kind::CALL],
        &[kind::REPLY, 1, 2],
        &[kind::ENDED; 5],
        &[9],
        &event,
    ] {
        assert_eq!(refusal(message).status(), Status::ERR_BAD_PARAM);
    }
    for len in 9..call.len() {
        let error = refusal(&call[..len]);
        assert!(error.to_string().contains("damaged"), "{error}");
    }
}

#[test]
fn a_reply_to_no_call_is_dropped() {
    let (mut node, mut controller) = (Link::<()>::default(), Link::<()>::default());
    controller.reply(CallNumber(3), &HostReply::Done(Status::SUCCESS));
    controller.send(b"after").unwrap();
    let messages = carry(&mut controller, &mut node, 64);
    assert_eq!(messages, [LinkMessage::Own(b"after".to_vec())]);
}

#[test]
fn an_end_that_does_not_read_or_never_waits_breaks_the_link() {
    let limits = LinkLimits {
        unsent_bytes: 100,
        open_calls: 2,
        ..LinkLimits::default()
    };
    let mut link = Link::<()>::new(limits);
    link.send(&[0; 90]).unwrap();
    assert_eq!(link.poll_message().unwrap(), None);
    link.send(&[0; 90]).unwrap();
    let error = link.poll_message().unwrap_err();
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);

    let (mut node, mut controller) = (Link::default(), Link::<()>::new(limits));
    let mut answer = |controller: &mut Link<()>| {
        node.call(fence(b"a"), ());
        controller.handle_input(node.output());
        let num_bytes = node.output().len();
        node.handle_written(num_bytes);
        controller.poll_message()
    };
    let Ok(Some(LinkMessage::Call(number, _))) = answer(&mut controller) else {
        panic!("no call");
    };
    controller.reply(number, &HostReply::Done(Status::SUCCESS));
    assert!(answer(&mut controller).is_ok());
    controller.handle_written(usize::MAX);
    assert!(answer(&mut controller).is_ok());
    let error = answer(&mut controller).unwrap_err();
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
}

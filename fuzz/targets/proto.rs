// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wire protocol: hellos, streams of frames, and their messages.

use bfrops::{BufferKind, Layout, Module, RegexFramer};
use pmix_proto::reply::Reply;
use pmix_proto::{
    Command, Deleted, Error, Event, Flow, Frame, Header, Hello, Inbox, Output, PeerForm, Request,
    Tag, Welcome, WelcomeForm, outline,
};

use super::preg;

/// Decodes a hello, and a welcome.
pub(crate) fn handshake(data: &[u8]) {
    let hello = Hello::decode(data);
    let (explained, notes) = Hello::explain(data);
    assert_eq!(hello, explained, "noting changes what is read");
    let mut end = 0;
    for note in &notes {
        assert!(note.range.start >= end && note.range.start < note.range.end);
        end = note.range.end;
    }
    assert!(end <= data.len(), "a note past the end");
    match hello {
        Err(error) => fault(&error, data),
        Ok(hello) => said_again(&hello),
    }
    for form in [
        WelcomeForm::Index,
        WelcomeForm::Assigned,
        WelcomeForm::Server,
    ] {
        let Some((welcome, len)) = Welcome::decode(form, data) else {
            continue;
        };
        assert_eq!(
            Welcome::decode(form, &data[..len - 1]),
            None,
            "read too early"
        );
        let bytes = welcome.encode();
        // A name without a NUL exceeds the limit of a name.
        let Ok(bytes) = bytes else { continue };
        assert_eq!(Welcome::decode(form, &bytes), Some((welcome, bytes.len())));
    }
}

/// Checks that a decoded hello is encoded and decoded unchanged.
fn said_again(hello: &Hello<'_>) {
    // Infos with an encoded map or an unusual number cannot be packed again.
    let Ok(bytes) = hello.encode() else { return };
    let again = Hello::decode(&bytes[Header::LEN..]).expect("our own hello");
    let plain = |hello: &Hello<'_>| {
        Hello {
            infos: Vec::new(),
            ..hello.clone()
        }
        .encode()
    };
    assert_eq!(plain(&again), plain(hello));
    if !is_open(&format!("{:?}", hello.infos)) {
        assert_eq!(again.infos.len(), hello.infos.len());
    }
}

/// Decodes a stream of frames. The first byte selects the side, the second the payload limit, and the third the size of
/// the pieces in which the rest arrives.
pub(crate) fn frames(data: &[u8]) {
    let [side, most, size, stream @ ..] = data else {
        return;
    };
    let inbox = || match side & 1 {
        0 => Inbox::new(u32::from(*most) << 2),
        _ => Inbox::of_server(u32::from(*most) << 2),
    };
    let (mut whole, mut pieces) = (inbox(), inbox());
    whole.push(stream);
    let (frames, end) = drain(&mut whole);
    let mut seen = Vec::new();
    let mut stop = None;
    let mut rest = stream;
    let mut size = usize::from(*size);
    while !rest.is_empty() {
        // Pieces have changing sizes of one byte at least.
        size = size * 31 % 67;
        let (piece, next) = rest.split_at((1 + size).min(rest.len()));
        rest = next;
        pieces.push(piece);
        let (more, fault) = drain(&mut pieces);
        seen.extend(more);
        stop = stop.or(fault);
    }
    assert_eq!((&seen, &stop), (&frames, &end), "pieces make a difference");
    assert_eq!(whole.is_inside_frame(), pieces.is_inside_frame());
    let mut place = 0;
    for frame in &frames {
        let bytes = [&frame.header.encode()[..12], &[0; 4], &frame.payload].concat();
        let sent = stream
            .get(place..place + bytes.len())
            .expect("bytes that came");
        // The sender chooses the padding, and the byte order of a length in a hello.
        assert_eq!((&sent[..8], &sent[16..]), (&bytes[..8], &bytes[16..]));
        place += bytes.len();
    }
    if let Some(error) = end {
        assert_eq!(error.offset(), Some(place), "{error}");
    }
}

fn drain(inbox: &mut Inbox) -> (Vec<Frame>, Option<Error>) {
    let mut frames = Vec::new();
    loop {
        match inbox.next_frame() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return (frames, None),
            Err(error) => return (frames, Some(error)),
        }
    }
}

/// Decodes a message. The first byte selects the layout, the second the release, and the third the kind: a request, the
/// reply to a command, or an unsolicited message.
pub(crate) fn messages(data: &[u8]) {
    let [choice, release, what, payload @ ..] = data else {
        return;
    };
    let module = Module::ALL[usize::from(choice >> 1) % Module::ALL.len()];
    let buffer = match choice & 1 {
        0 => BufferKind::NonDescribed,
        _ => BufferKind::Described,
    };
    let layout = Layout::new(module).with_buffer(buffer);
    let version = [b'3' + release % 5, b'.', b'0'];
    let form = PeerForm::new(layout, &version);
    match what {
        0 => request(&form, payload),
        command @ 1..=127 => {
            let command = Command(command - 1);
            let framer: Option<&dyn RegexFramer> = Some(preg());
            let read = |bytes: &[u8]| {
                let reply = Reply::decode(command, &form, framer, bytes)?;
                Ok((format!("{reply:?}"), reply.encode(&form, framer)))
            };
            fixed(read, payload);
            assert_eq!(
                outline::reply(command, form.major).is_some(),
                command.0 < 40
            );
        }
        tag => notice(&form, Tag((tag & 3).into()), payload),
    }
}

fn request(form: &PeerForm, payload: &[u8]) {
    let framer: Option<&dyn RegexFramer> = Some(preg());
    let request = Request::decode(form, framer, payload);
    if let Ok(request) = &request {
        assert_eq!(Request::command_of(form, payload), Some(request.command()));
    }
    if let Ok(Request::Unknown(command)) = request {
        assert!(command.0 >= 40);
        return;
    }
    let read = |bytes: &[u8]| {
        let request = Request::decode(form, framer, bytes)?;
        Ok((format!("{request:?}"), request.encode(form, framer)))
    };
    fixed(read, payload);
}

fn notice(form: &PeerForm, tag: Tag, payload: &[u8]) {
    let framer: Option<&dyn RegexFramer> = Some(preg());
    fixed(
        |bytes| {
            Ok(match tag {
                Tag::EVENT => {
                    let event = Event::decode(form, framer, bytes)?;
                    (format!("{event:?}"), event.encode(form, framer))
                }
                Tag::OUTPUT => {
                    let output = Output::decode(form, framer, bytes)?;
                    (format!("{output:?}"), output.encode(form, framer))
                }
                Tag::FLOW => {
                    let flow = Flow::decode(form, framer, bytes)?;
                    (format!("{flow:?}"), flow.encode(form, framer))
                }
                _ => {
                    let deleted = Deleted::decode(form, framer, bytes)?;
                    (format!("{deleted:?}"), deleted.encode(form, framer))
                }
            })
        },
        payload,
    );
}

/// A formatted message, and its packed form.
type Read = Result<(String, Result<Vec<u8>, Error>), Error>;

/// Checks that a message that was decoded and packed once stays the same in further rounds.
fn fixed(read: impl Fn(&[u8]) -> Read, payload: &[u8]) {
    let (words, packed) = match read(payload) {
        Ok(read) => read,
        Err(error) => return fault(&error, payload),
    };
    // The end of a map that no encoder owns, or of a topology, depends on the following bytes.
    let is_open = ["Regex", "Topology"]
        .iter()
        .any(|name| words.contains(name));
    let bytes = match packed {
        Ok(bytes) => bytes,
        Err(error) => {
            assert!(!error.status().is_success() && error.offset().is_none());
            return assert!(is_open, "{words}: {error}");
        }
    };
    match read(&bytes) {
        Ok((_, again)) if !is_open => assert_eq!(again, Ok(bytes), "{words}"),
        Err(error) if !is_open => panic!("{words}: {error}"),
        _ => {}
    }
}

/// Returns `true` if the message contains a map that no encoder may own, or a topology: their ends depend on the
/// following bytes.
fn is_open(words: &str) -> bool {
    ["Regex", "Topology"]
        .iter()
        .any(|name| words.contains(name))
}

/// Checks that a fault has a status, an offset inside the bytes, and a short text.
fn fault(error: &Error, bytes: &[u8]) {
    assert!(!error.status().is_success(), "{error}");
    let offset = error.offset().expect("a place");
    assert!(offset <= bytes.len(), "{error} of {} bytes", bytes.len());
    assert!(error.to_string().len() < 1024, "{error}");
}

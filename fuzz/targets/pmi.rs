// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands of PMI-1 and PMI-2, and the replies to them.

use pmix_pmi::{Decoder, Reply, Request, Wire};

/// Decodes a stream of commands in pieces, and replies to each of them. The first byte selects the protocol and the
/// size of the pieces.
pub(crate) fn commands(data: &[u8]) {
    let Some((first, stream)) = data.split_first() else {
        return;
    };
    let wire = if first & 0x80 == 0 {
        Wire::V1
    } else {
        Wire::V2
    };
    let size = usize::from(first & 0x7f) + 1;
    let whole = decoded(wire, stream, stream.len().max(1));
    let pieces = decoded(wire, stream, size);
    assert_eq!(
        whole, pieces,
        "pieces of {size} bytes differ from the whole"
    );
}

/// Returns the requests of a stream up to the first bytes that are not a command.
fn decoded(wire: Wire, stream: &[u8], size: usize) -> Vec<Option<Request>> {
    let mut decoder = Decoder::default();
    decoder.set_wire(wire);
    let mut requests = Vec::new();
    for piece in stream.chunks(size) {
        decoder.push(piece).expect("memory for a short stream");
        loop {
            match decoder.next_command() {
                Ok(Some(command)) => requests.push(read(&command)),
                Ok(None) => break,
                Err(_) => return requests,
            }
        }
    }
    requests
}

/// Reads a request, and checks that each reply to it is a whole message of its protocol.
fn read(command: &pmix_pmi::Command) -> Option<Request> {
    let (request, _) = Request::read(command).ok()?;
    for reply in [
        Reply::Done,
        Reply::Missing,
        Reply::Limits,
        Reply::Number(-1),
        Reply::Value(b"a b;c\\d\n=e".to_vec()),
        Reply::Failed("line\nand\n; more".to_owned()),
        Reply::Place {
            rank: 1,
            size: 2,
            app: 0,
            parent: Some(b"job;1".to_vec()),
        },
    ] {
        let (again, ticket) = Request::read(command).expect("the same command");
        assert_eq!(again, request);
        let text = ticket.reply(&reply);
        if matches!(request, Request::Abort(..)) {
            assert!(text.is_empty(), "an abort has no reply");
            continue;
        }
        let wire = match text.starts_with(b"cmd=") {
            true => Wire::V1,
            false => Wire::V2,
        };
        let mut decoder = Decoder::default();
        decoder.set_wire(wire);
        decoder.push(&text).expect("memory for a reply");
        let message = decoder.next_command().expect("our own reply");
        let message = message.expect("a whole reply");
        if wire == Wire::V2 {
            assert_eq!(message.value("thrid"), command.value("thrid"));
            let rest = decoder.next_command();
            assert_eq!(rest.ok(), Some(None), "a reply has nothing after it");
        }
    }
    Some(request)
}

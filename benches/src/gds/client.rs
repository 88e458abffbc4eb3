// SPDX-License-Identifier: MIT OR Apache-2.0
//! A minimal client of a real server that times a reply.
//!
//! | bytes of the first message | content |
//! | --- | --- |
//! | 4, 4, 4, 4 | -1, -1, length of the rest, 0, in the byte order of the host |
//! | text | `native`, with a NUL as every text |
//! | 4, 4, 4 | length of the credential (in network order): user and group in the host's order |
//! | 1 | 0: a process that the server launched |
//! | text, 4 | its nspace and its rank (in network order) |
//! | text, text, 1, text | release, `v41`, 1 (buffers are not described), `hash` |
//!
//! The server replies with a status and an index, four bytes each. Each later message is the index, a
//! tag, the length of the rest and 0, four bytes each in network order, and a packed request. The
//! reply has the same tag. Frozen: append only.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use bfrops::{Encoder, Layout, Module, wire_type};
use pmix_types::Command;

/// The time limit of a reply. A closed connection is an error at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// The limit of the length of a reply.
const MOST: usize = 1 << 26;

/// The environment of a process that a server launched.
pub(super) type Variables = BTreeMap<String, String>;

/// A connection to a server.
pub(super) struct Client {
    socket: TcpStream,
    index: [u8; 4],
    tag: u32,
}

impl Client {
    /// Connects as rank 0 of a job, with the server's own release.
    ///
    /// # Errors
    /// Returns an error if a variable is missing or the server refuses the connection.
    pub(super) fn connect(variables: &Variables, nspace: &str) -> Result<Self, String> {
        let variable = |name: &str| {
            variables
                .get(name)
                .ok_or_else(|| format!("{name} is not set"))
        };
        let uri = variable("PMIX_SERVER_URI41")?;
        let address = uri.split_once(";tcp4://").map(|(_, address)| address);
        let address = address.ok_or_else(|| format!("{uri} has no address"))?;
        let hello = hello(nspace, variable("PMIX_VERSION")?)?;
        let mut socket = TcpStream::connect(address).map_err(|e| format!("{address}: {e}"))?;
        let mut answer = [0; 8];
        socket
            .set_nodelay(true)
            .and_then(|()| socket.set_read_timeout(Some(PATIENCE)))
            .and_then(|()| socket.write_all(&hello))
            .and_then(|()| socket.read_exact(&mut answer))
            .map_err(|e| format!("connecting as {nspace}: {e}"))?;
        match answer {
            [0, 0, 0, 0, index @ ..] => Ok(Self {
                socket,
                index,
                tag: 100,
            }),
            refusal => Err(format!("the server answered {refusal:?}")),
        }
    }

    /// Sends a command without arguments and returns the reply and the nanoseconds until it is complete.
    ///
    /// # Errors
    /// Returns an error if the connection fails or the message is not a reply to this command.
    pub(super) fn ask(&mut self, command: Command) -> Result<(Vec<u8>, f64), String> {
        let mut request = Vec::new();
        let mut encoder = Encoder::new(Layout::new(Module::V41), &mut request);
        encoder
            .one::<wire_type::Command>(&command)
            .map_err(|e| e.to_string())?;
        self.tag += 1;
        let len = u32::try_from(request.len()).map_err(|e| e.to_string())?;
        let mut message = Vec::from(self.index);
        message.extend(self.tag.to_be_bytes());
        message.extend(len.to_be_bytes());
        message.extend([0; 4]);
        message.extend(request);

        let start = Instant::now();
        let answer = self.exchange(&message)?;
        let took = start.elapsed().as_secs_f64() * 1e9;
        Ok((answer, took))
    }

    fn exchange(&mut self, message: &[u8]) -> Result<Vec<u8>, String> {
        let fault = |e: std::io::Error| format!("the server does not answer: {e}");
        let mut header = [[0; 4]; 4];
        self.socket.write_all(message).map_err(fault)?;
        let bytes = header.as_flattened_mut();
        self.socket.read_exact(bytes).map_err(fault)?;
        let [_, tag, len, _] = header.map(u32::from_be_bytes);
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if tag != self.tag || len > MOST {
            return Err(format!("an answer of {len} bytes to {tag}"));
        }
        let mut answer = vec![0; len];
        self.socket.read_exact(&mut answer).map_err(fault)?;
        Ok(answer)
    }
}

/// Returns the first message of the connection.
fn hello(nspace: &str, release: &str) -> Result<Vec<u8>, String> {
    let owner = std::fs::metadata("/proc/self").map_err(|e| format!("/proc/self: {e}"))?;
    let mut payload = Vec::new();
    let text = |payload: &mut Vec<u8>, text: &str| {
        payload.extend(text.as_bytes());
        payload.push(0);
    };
    text(&mut payload, "native");
    payload.extend(8_u32.to_be_bytes());
    payload.extend(owner.uid().to_ne_bytes());
    payload.extend(owner.gid().to_ne_bytes());
    payload.push(0);
    text(&mut payload, nspace);
    payload.extend(0_u32.to_be_bytes());
    text(&mut payload, release);
    text(&mut payload, "v41");
    payload.push(1);
    text(&mut payload, "hash");
    let len = u32::try_from(payload.len()).map_err(|e| e.to_string())?;
    let mut message = vec![0xff; 8];
    message.extend(len.to_ne_bytes());
    message.extend([0; 4]);
    message.extend(payload);
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::hello;

    #[test]
    fn the_first_message_is_that_of_a_real_client() {
        let hex = include_str!("../../../testdata/wire/client-4.2.2.hex");
        let raw = hex
            .lines()
            .find_map(|line| line.trim().strip_prefix("RAW "));
        let theirs = raw.unwrap_or_default().replace(' ', "");
        let mine = hello("JOB1", "4.2.2rc2").unwrap_or_default();
        let mine = data_encoding::HEXLOWER.encode(&mine);
        // A 4.2 client sends a byte more than it fills; user and group are those of the run.
        let (length, credential) = (16..24, 54..70);
        let rest = |text: &str| {
            let mut text = text.to_owned();
            text.replace_range(credential.clone(), "");
            text.replace_range(length.clone(), "");
            text
        };
        assert_eq!(rest(&mine) + "00", rest(&theirs));
    }
}

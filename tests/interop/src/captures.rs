// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages in the captures of `testdata/wire`, and all layouts in which they can be packed.

use std::fs;
use std::io;

use bfrops::{BufferKind, Layout, Module};
use data_encoding::HEXLOWER_PERMISSIVE;

use xtask::process::root;

/// A message of a capture.
#[derive(Clone)]
pub struct Message {
    /// `true` if the client sent it.
    pub from_client: bool,
    /// The header, also of a hello.
    pub header: Vec<u8>,
    /// The bytes after the header.
    pub payload: Vec<u8>,
}

impl Message {
    /// Returns `true` if this is the first message of a connection.
    pub fn is_hello(&self) -> bool {
        self.header.starts_with(&[0xff; 8])
    }
}

/// Returns every capture with its messages in order, sorted by file name.
///
/// # Errors
///
/// Returns the error if a file cannot be read.
pub fn read_all() -> io::Result<Vec<Vec<Message>>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(root().join("testdata/wire"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "hex") {
            paths.push(path);
        }
    }
    paths.sort();
    let read = |path| Ok(messages(&fs::read_to_string(path)?));
    paths.into_iter().map(read).collect()
}

/// Returns every layout: each module, first in non-described and then in described buffers.
pub fn layouts() -> Vec<Layout> {
    let kinds = [BufferKind::NonDescribed, BufferKind::Described];
    let of_module = |module| kinds.map(|kind| Layout::new(module).with_buffer(kind));
    Module::ALL.into_iter().flat_map(of_module).collect()
}

fn messages(text: &str) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut from_client = false;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("== ") {
            from_client = title.starts_with("CLIENT");
        } else if let Some(raw) = line.trim().strip_prefix("RAW ") {
            let (header, payload) = raw.split_once(' ').unwrap_or((raw, ""));
            messages.push(Message {
                from_client,
                header: unhex(header),
                payload: unhex(payload),
            });
        }
    }
    messages
}

fn unhex(text: &str) -> Vec<u8> {
    let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes());
    bytes.unwrap_or_default()
}

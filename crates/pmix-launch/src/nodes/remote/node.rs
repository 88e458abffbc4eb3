// SPDX-License-Identifier: MIT OR Apache-2.0
//! One node with an agent: its messages, and the text that the program that reaches it prints.

use std::io::{self, Read as _};

use super::{RemoteNode, State};
use crate::Error;
use crate::nodes::FromNode;
use crate::nodes::link::Link;

/// The beginning of the messages of an agent.
const AGENT: &str = "pmix node: ";

/// The largest text that is kept of what the program that reaches a node prints.
const MOST_SAID: usize = 4096;

impl RemoteNode {
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, State::Left | State::Lost)
    }

    /// Takes the messages that have arrived.
    pub(super) fn take_all(&mut self, mut take: impl FnMut(FromNode)) -> Result<(), Error> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        if self.state == State::Greeting && link.take_greeting()? {
            self.state = State::Ready;
        }
        while self.state != State::Greeting
            && let Some(message) = link.take()?
        {
            if message == FromNode::Bye {
                if self.state != State::Leaving {
                    return Err(Error::request("its agent was ended there"));
                }
                self.state = State::Left;
            }
            take(message);
        }
        Ok(())
    }

    /// Reads what the program that reaches the node prints.
    pub(super) fn read_errors(&mut self) {
        let mut piece = [0; 4096];
        while let Some(errors) = &mut self.errors {
            match errors.read(&mut piece) {
                Ok(0) => self.errors = None,
                Ok(len) => {
                    self.said
                        .extend_from_slice(piece.get(..len).unwrap_or_default());
                    let over = self.said.len().saturating_sub(MOST_SAID);
                    self.said.drain(..over);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.errors = None,
            }
        }
    }

    /// Takes the whole lines that an agent has printed after its greeting: its warnings.
    pub(super) fn take_lines(&mut self) -> Vec<String> {
        if !matches!(self.state, State::Ready | State::Leaving) {
            return Vec::new();
        }
        let Some(end) = memchr::memrchr(b'\n', &self.said) else {
            return Vec::new();
        };
        let rest = self.said.split_off(end + 1);
        let lines = std::mem::replace(&mut self.said, rest);
        let lines = String::from_utf8_lossy(&lines).into_owned();
        let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
        // Other lines are from the program that reaches the node.
        let lines = lines.filter_map(|line| line.strip_prefix(AGENT));
        lines
            .map(|line| format!("node {}: {line}", self.name))
            .collect()
    }

    /// Returns a message with the last line that the program printed.
    pub(super) fn with_said(&mut self, message: String) -> String {
        self.read_errors();
        let said = String::from_utf8_lossy(&self.said).into_owned();
        let noise = self.link.as_ref().map_or_else(String::new, Link::noise);
        let lines = said.lines().rev().chain(
            noise
                .lines()
                .rev()
                .filter(|_| self.state == State::Greeting),
        );
        let mut lines = lines.map(str::trim).filter(|line| !line.is_empty());
        match lines.next() {
            Some(line) => format!("{message}: {line}"),
            None => message,
        }
    }

    /// Returns the reason for the end of the link.
    pub(super) fn why_closed(&mut self) -> String {
        let how = match self.child.try_wait() {
            Ok(Some(status)) => format!(" ({status})"),
            _ => String::new(),
        };
        let message = match self.state {
            State::Greeting => format!("it could not be reached{how}"),
            _ => format!("the link to it has ended{how}"),
        };
        self.with_said(message)
    }
}

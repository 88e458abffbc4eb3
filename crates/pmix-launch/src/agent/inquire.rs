// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of the controller to the agents of other nodes.

use super::Agent;
use crate::nodes::{OnData, ToNode};

impl Agent<'_> {
    /// Returns the numbers of the other nodes whose agents serve the session, or are expected to.
    pub(crate) fn open_nodes(&self) -> Vec<usize> {
        self.others.nodes.open_places()
    }

    /// Returns the name of another node.
    pub(crate) fn name_of_node(&self, place: usize) -> &str {
        self.others.nodes.name(place)
    }

    /// Sends a request with a new number to the agent of another node. `done` is called once: with the answer, or when
    /// the node is lost.
    pub(crate) fn ask_node(&mut self, place: usize, message: impl Fn(u64) -> ToNode, done: OnData) {
        self.others.nodes.want(place, message, done);
    }
}

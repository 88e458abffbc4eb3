// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of the server of a launcher, for monitoring.
//!
//! The query key is [`QUERY_FIGURES`], a private key of this project. Its value is an array of infos with `uint64_t`
//! values:
//!
//! | key | value |
//! | --- | --- |
//! | `pmixrs.figures.connections` | connections of clients and tools |
//! | `pmixrs.figures.requests` | requests without a reply |
//! | `pmixrs.figures.request_bytes` | message bytes and memory of these requests |
//! | `pmixrs.figures.queued_bytes` | bytes that peers have not read yet |
//! | `pmixrs.figures.output_bytes` | bytes of output held for pulls |
//! | `pmixrs.figures.event_bytes` | memory of events cached for peers that register later |
//! | `pmixrs.figures.group_bytes` | memory of groups |
//! | `pmixrs.figures.restarts` | restarts of the processes of the named job, or of all jobs |

use pmix_server::Stats;
use pmix_types::{DataArray, Info, Value};

/// The key of the query for the figures of a server.
pub const QUERY_FIGURES: &str = "pmixrs.query.figures";

const CONNECTIONS: &str = "pmixrs.figures.connections";
const REQUESTS: &str = "pmixrs.figures.requests";
const REQUEST_BYTES: &str = "pmixrs.figures.request_bytes";
const QUEUED_BYTES: &str = "pmixrs.figures.queued_bytes";
const OUTPUT_BYTES: &str = "pmixrs.figures.output_bytes";
const EVENT_BYTES: &str = "pmixrs.figures.event_bytes";
const GROUP_BYTES: &str = "pmixrs.figures.group_bytes";
const RESTARTS: &str = "pmixrs.figures.restarts";

/// The figures of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerFigures {
    /// Connections of clients and tools.
    pub num_connections: u64,
    /// Requests without a reply.
    pub num_requests: u64,
    /// Message bytes and memory of these requests.
    pub request_bytes: u64,
    /// Bytes that peers have not read yet.
    pub queued_bytes: u64,
    /// Bytes of output held for pulls.
    pub output_bytes: u64,
    /// Memory of cached events.
    pub event_bytes: u64,
    /// Memory of groups.
    pub group_bytes: u64,
    /// Restarts of processes.
    pub num_restarts: u64,
}

impl ServerFigures {
    pub(crate) fn of(stats: &Stats, num_restarts: u64) -> Self {
        let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Self {
            num_connections: number(stats.num_peers),
            num_requests: number(stats.num_requests),
            request_bytes: number(stats.request_bytes),
            queued_bytes: number(stats.queued_bytes),
            output_bytes: number(stats.output_bytes),
            event_bytes: number(stats.cached_event_bytes),
            group_bytes: number(stats.group_bytes),
            num_restarts,
        }
    }

    /// Returns the value of a query.
    pub(crate) fn to_value(self) -> Value<'static> {
        let mut copy = self;
        let infos = { copy.fields().into_iter() }.map(|(key, field)| Info::new(key, *field));
        Value::DataArray(DataArray::Info(infos.collect()))
    }

    /// Reads the value of a query. Ignores parts that it does not know.
    #[must_use]
    pub fn of_value(value: &Value<'_>) -> Self {
        let mut figures = Self::default();
        for info in value.as_infos().unwrap_or_default() {
            for (key, field) in figures.fields() {
                if info.key.is(key) {
                    *field = info.value.to_number().unwrap_or_default();
                }
            }
        }
        figures
    }

    fn fields(&mut self) -> [(&'static str, &mut u64); 8] {
        [
            (CONNECTIONS, &mut self.num_connections),
            (REQUESTS, &mut self.num_requests),
            (REQUEST_BYTES, &mut self.request_bytes),
            (QUEUED_BYTES, &mut self.queued_bytes),
            (OUTPUT_BYTES, &mut self.output_bytes),
            (EVENT_BYTES, &mut self.event_bytes),
            (GROUP_BYTES, &mut self.group_bytes),
            (RESTARTS, &mut self.num_restarts),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_survive_the_reply_and_unknown_ones_are_ignored() {
        let figures = ServerFigures {
            num_connections: 1,
            num_requests: 2,
            request_bytes: 3,
            queued_bytes: 4,
            output_bytes: 5,
            event_bytes: 6,
            group_bytes: 7,
            num_restarts: u64::MAX,
        };
        assert_eq!(ServerFigures::of_value(&figures.to_value()), figures);
        let odd = vec![Info::new("other", 1_u64), Info::new(RESTARTS, true)];
        let odd = Value::DataArray(DataArray::Info(odd));
        assert_eq!(ServerFigures::of_value(&odd), ServerFigures::default());
        assert_eq!(
            ServerFigures::of_value(&Value::from("text")),
            ServerFigures::default()
        );
    }
}

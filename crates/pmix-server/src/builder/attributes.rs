// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attributes of `PMIx_server_init`.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_server_init`.

use pmix_topology::{Cpuset, Topology};
use pmix_types::{Info, Nspace, Numeric, Proc, Rank, Status, Text, Value, keys};

use super::Builder;
use crate::Error;

impl Builder {
    /// Sets the attributes of `PMIx_server_init` (PMIx Standard, "Server initialization attributes"). An
    /// unknown attribute is ignored unless it is marked as required.
    ///
    /// # Errors
    /// Returns an error with the key for a value of the wrong type or out of range, and for an unknown attribute that
    /// is required.
    pub fn attributes(mut self, infos: &[Info<'_>]) -> Result<Self, Error> {
        for info in infos {
            let key = info.key.as_text().to_str_lossy();
            self = self.attribute(&key, info).map_err(|e| e.of(&key))?;
        }
        Ok(self)
    }

    fn attribute(self, key: &str, info: &Info<'_>) -> Result<Self, Error> {
        let value = &info.value;
        Ok(match key {
            keys::SERVER_NSPACE => self.nspace(nspace(value)?),
            keys::SERVER_RANK => self.rank(rank(value)?),
            keys::SINGLETON => self.singleton(singleton(value)?),
            keys::HOSTNAME => self.hostname(text(value)?),
            keys::SERVER_TMPDIR => self.server_tmpdir(text(value)?),
            keys::SYSTEM_TMPDIR => self.system_tmpdir(text(value)?),
            keys::SERVER_TOOL_SUPPORT => self.tool_support(flag(value)?),
            keys::SERVER_SESSION_SUPPORT => self.session_support(flag(value)?),
            keys::SERVER_SYSTEM_SUPPORT => self.system_support(flag(value)?),
            keys::SERVER_SCHEDULER => self.scheduler(flag(value)?),
            keys::SERVER_SYS_CONTROLLER => self.controller(flag(value)?),
            keys::SERVER_GATEWAY => self.gateway(flag(value)?),
            keys::SERVER_ENABLE_MONITORING => self.monitoring(flag(value)?),
            keys::SERVER_ALLOW_FOREIGN_TOOLS => self.foreign_tools(flag(value)?),
            keys::SOCKET_MODE => self.socket_mode(number(value)?),
            keys::SERVER_REMOTE_CONNECTIONS => self.remote_connections(flag(value)?),
            keys::TCP_IF_INCLUDE => self.tcp_if_include(&text(value)?),
            keys::TCP_IF_EXCLUDE => self.tcp_if_exclude(&text(value)?),
            keys::TCP_IPV4_PORT => self.tcp_ipv4_port(number(value)?),
            keys::TCP_IPV6_PORT => self.tcp_ipv6_port(number(value)?),
            keys::TCP_DISABLE_IPV4 => self.tcp_disable_ipv4(flag(value)?),
            keys::TCP_DISABLE_IPV6 => self.tcp_disable_ipv6(flag(value)?),
            keys::TCP_REPORT_URI => self.report_uri(text(value)?),
            keys::LAUNCHER_RENDEZVOUS_FILE => self.rendezvous_file(text(value)?),
            keys::TOPOLOGY2 => self.topology(topology(value)?),
            keys::SERVER_SHARE_TOPOLOGY => self.share_topology(flag(value)?),
            keys::EXTERNAL_PROGRESS => self.external_progress(flag(value)?),
            keys::BIND_PROGRESS_THREAD => {
                // A required directive and `PMIX_BIND_REQUIRED` mean the same here, and their order in the list must
                // not matter.
                let is_required = self.bind_required || info.must_be_obeyed();
                self.bind_progress_thread(cpus(value)?)
                    .bind_required(is_required)
            }
            keys::BIND_REQUIRED => {
                let is_required = self.bind_required || flag(value)?;
                self.bind_required(is_required)
            }
            _ => {
                self.without_effect(key, info)?;
                self
            }
        })
    }

    /// Checks attributes that are always or never satisfied, and unknown ones.
    fn without_effect(&self, key: &str, info: &Info<'_>) -> Result<(), Error> {
        let refused = |why: &str| Err(Error::new(Status::ERR_NOT_SUPPORTED, why));
        match key {
            // The server always has one listening socket, of TCP, and packs in the layout of each peer.
            keys::SINGLE_LISTENER | keys::USOCK_DISABLE | keys::HOMOGENEOUS_SYSTEM => {
                flag(&info.value).map(drop)
            }
            keys::EVENT_BASE => {
                // The host expects that its own loop runs the server. A server that ignored the attribute would never
                // be driven.
                refused("the server has no event base; use external progress and its descriptor")
            }
            // The host handles signals and the exits of children, so the server does not use this event base.
            keys::EXTERNAL_AUX_EVENT_BASE => Ok(()),
            _ if info.must_be_obeyed() => refused("unknown attribute that is marked as required"),
            _ => {
                tracing::debug!(key, "an unknown attribute is ignored");
                Ok(())
            }
        }
    }
}

fn flag(value: &Value<'_>) -> Result<bool, Error> {
    let truth = value.truth().as_bool();
    truth.ok_or_else(|| wrong("a boolean", value))
}

fn text(value: &Value<'_>) -> Result<String, Error> {
    let text = match value {
        Value::String(Some(text)) => text.as_str(),
        _ => None,
    };
    let text = text.filter(|text| !text.is_empty()).map(str::to_owned);
    text.ok_or_else(|| wrong("a nonempty UTF-8 string", value))
}

/// Parses a list of processors: numbers of the system and ranges, separated by commas.
fn cpus(value: &Value<'_>) -> Result<Cpuset, Error> {
    let list = text(value)?;
    Cpuset::parse(&list).map_err(|e| Error::new(e.status(), e.to_string()))
}

/// Parses a topology in hwloc's XML.
fn topology(value: &Value<'_>) -> Result<Topology, Error> {
    let xml = match value {
        Value::Topology(topology) => topology.topology.as_ref().and_then(|text| text.as_str()),
        _ => None,
    };
    let xml = xml.ok_or_else(|| wrong("a topology with hwloc's XML", value))?;
    Topology::of_xml(xml.to_owned()).map_err(|e| Error::new(e.status(), e.to_string()))
}

fn nspace(value: &Value<'_>) -> Result<Nspace<'static>, Error> {
    let bytes = match value {
        Value::String(Some(text)) => text.as_bytes(),
        Value::Nspace(nspace) => nspace.as_bytes(),
        other => return Err(wrong("a name", other)),
    };
    Ok(Nspace::new(Text::new(bytes.to_vec())))
}

fn rank(value: &Value<'_>) -> Result<Rank, Error> {
    match value {
        Value::Rank(rank) => Ok(*rank),
        other => number(other).map(Rank::new),
    }
}

/// Parses the name of a singleton: nspace and rank with a dot between them.
fn singleton(value: &Value<'_>) -> Result<Proc<'static>, Error> {
    let name = text(value)?;
    let parsed = name.rsplit_once('.').and_then(|(nspace, rank)| {
        // `parse` would accept a sign.
        let is_number = rank.bytes().all(|byte| byte.is_ascii_digit());
        let rank = Rank::new(rank.parse().ok().filter(|_| is_number)?);
        let is_name = !nspace.is_empty() && nspace.len() <= Nspace::MAX_LEN;
        (is_name && rank.is_valid()).then(|| Proc::new(nspace.to_owned(), rank))
    });
    parsed.ok_or_else(|| wrong("an nspace, a dot and the rank of a process", value))
}

fn number<T: Numeric>(value: &Value<'_>) -> Result<T, Error> {
    let number = value.to_number();
    number.map_err(|_| wrong("a number in range", value))
}

fn wrong(expected: &str, found: &Value<'_>) -> Error {
    let why = format!("expected {expected}, found {:?}", found);
    Error::new(Status::ERR_BAD_PARAM, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(infos: &[Info<'_>]) -> Result<Builder, Error> {
        Builder::default().attributes(infos)
    }

    #[test]
    fn attributes_have_the_effect_of_their_methods() {
        let builder = take(&[
            Info::new(keys::SERVER_NSPACE, "rm"),
            Info::new(keys::SERVER_RANK, Value::Rank(Rank::new(7))),
            Info::new(keys::SERVER_TOOL_SUPPORT, true),
            Info::new(keys::SERVER_SYSTEM_SUPPORT, Value::Undef),
            Info::new(keys::SOCKET_MODE, 0o640_u32),
            Info::new(keys::TCP_IF_INCLUDE, "lo, 10.0.0.0/8"),
            Info::new(keys::TCP_IPV6_PORT, 4711_i32),
            Info::new(keys::EXTERNAL_PROGRESS, true),
            Info::new(keys::SERVER_GATEWAY, true),
            Info::new(keys::SERVER_ENABLE_MONITORING, false),
            Info::new(keys::LAUNCHER_RENDEZVOUS_FILE, "/run/launcher"),
            Info::new(keys::USOCK_DISABLE, true),
            Info::new(keys::SINGLE_LISTENER, false),
            Info::new(keys::SERVER_SHARE_TOPOLOGY, false),
            Info::new("some.key", "of another library"),
        ]);
        let builder = builder.unwrap();
        assert_eq!(builder.nspace, Some("rm".into()));
        assert_eq!(builder.config.server.rank, Rank::new(7));
        assert!(builder.offers.tools && builder.offers.system && !builder.offers.session);
        assert_eq!(builder.socket_mode, 0o640);
        assert_eq!(builder.listening.include, ["lo", "10.0.0.0/8"]);
        assert_eq!(builder.listening.ipv6_port, 4711);
        assert!(builder.external_progress && builder.gateway);
        assert_eq!(builder.rendezvous_file, Some("/run/launcher".into()));
        assert!(!builder.config.watches_heartbeats);
    }

    #[test]
    fn a_value_that_cannot_be_is_named_with_its_key() {
        for info in [
            Info::new(keys::TCP_IPV4_PORT, 70_000_i32),
            Info::new(keys::SERVER_TMPDIR, 1_u32),
            Info::new(keys::SERVER_TOOL_SUPPORT, "perhaps"),
            Info::new(keys::SERVER_NSPACE, false),
        ] {
            let error = take(std::slice::from_ref(&info)).err().unwrap();
            assert_eq!(error.status(), Status::ERR_BAD_PARAM);
            assert!(
                error.to_string().starts_with(&info.key.to_string()),
                "{error}"
            );
        }
    }

    #[test]
    fn a_singleton_is_named_by_nspace_and_rank() {
        let take = |name: &str| take(&[Info::new(keys::SINGLETON, name.to_owned())]);
        let builder = take("app.on.n1.3").unwrap();
        let expected = Proc::new("app.on.n1", Rank::new(3));
        assert_eq!(builder.singleton, Some(expected));
        let long = format!("{}.0", "x".repeat(Nspace::MAX_LEN + 1));
        let wrong = [
            "",
            "app",
            ".0",
            "app.",
            "app.+1",
            "app.-1",
            "app.x",
            "app.4294967295",
            "app.99999999999999999999",
            long.as_str(),
        ];
        for name in wrong {
            let error = take(name).err().unwrap();
            assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{name:.20}");
            assert!(error.to_string().contains(keys::SINGLETON), "{error}");
        }
    }

    #[test]
    fn a_topology_is_given_as_the_xml_of_hwloc() {
        let topology = |xml: &str| {
            let topology = pmix_types::Topology {
                source: Some(Text::from("hwloc:2.9.0")),
                topology: Some(Text::from(xml.to_owned())),
                support: None,
            };
            Info::new(keys::TOPOLOGY2, Value::Topology(Box::new(topology)))
        };
        let xml = Topology::flat(3).to_xml().into_owned();
        let share = Info::new(keys::SERVER_SHARE_TOPOLOGY, true);
        let builder = take(&[share, topology(&xml)]).unwrap();
        let given = builder.topology.unwrap();
        assert_eq!(given.parts(pmix_topology::Level::Core).len(), 3);
        assert!(builder.share_topology);
        for wrong in [
            topology("<topology/>"),
            Info::new(keys::TOPOLOGY2, Value::Undef),
        ] {
            let error = take(&[wrong]).err().unwrap();
            assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{error}");
            assert!(error.to_string().contains(keys::TOPOLOGY2), "{error}");
        }
    }

    #[test]
    fn unsupported_attributes_are_rejected() {
        let info = Info::new(keys::EVENT_BASE, Value::Pointer(()));
        let error = take(&[info]).err().unwrap();
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED, "{error}");
    }

    #[test]
    fn optional_directives_may_be_ignored() {
        for info in [
            Info::new(keys::BIND_REQUIRED, false),
            Info::new(keys::EXTERNAL_AUX_EVENT_BASE, Value::Pointer(())).required(),
        ] {
            assert!(take(std::slice::from_ref(&info)).is_ok(), "{info:?}");
        }
    }

    #[test]
    fn the_progress_thread_is_bound_as_a_list_says() {
        let list = || Info::new(keys::BIND_PROGRESS_THREAD, "0-1");
        let bound = |infos: &[Info<'_>]| {
            let builder = take(infos).unwrap();
            assert_eq!(builder.progress_cpus.unwrap().to_string(), "0-1");
            builder.bind_required
        };
        assert!(!bound(&[list()]));
        assert!(bound(&[list().required()]));
        assert!(bound(&[list(), Info::new(keys::BIND_REQUIRED, true)]));
        assert!(bound(&[Info::new(keys::BIND_REQUIRED, true), list()]));
        for wrong in [Value::from("1-0"), Value::from("0;1"), Value::from(true)] {
            let error = take(&[Info::new(keys::BIND_PROGRESS_THREAD, wrong)]);
            assert_eq!(error.err().unwrap().status(), Status::ERR_BAD_PARAM);
        }
    }

    #[test]
    fn an_unknown_attribute_that_is_required_is_refused() {
        let info = Info::new("some.key", true).required();
        let error = take(&[info]).err().unwrap();
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
    }
}

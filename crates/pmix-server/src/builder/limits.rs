// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parameters that limit the data sent to clients: of large jobs, in shared memory, and in advance.
//!
//! Source: this project; docs/decisions/0011, 0023 and 0024 have the reasons.

use pmix_engine::Config;
use pmix_mca::{Catalog, ParamSpec, Params};

use crate::Error;

const FRAMEWORK: &str = "gds_hash";

const WHOLE: ParamSpec = ParamSpec {
    name: "gds_hash_whole",
    default: "1024",
    help: "largest number of processes of a job whose clients receive the complete job info",
};

const PLACES: ParamSpec = ParamSpec {
    name: "gds_hash_places",
    default: "131072",
    help: "largest number of processes of a larger job whose clients receive the location of each process; \
    -1: no limit",
};

const SHARED: ParamSpec = ParamSpec {
    name: "gds_hash_shared_bytes",
    default: "268435456",
    help: "limit in bytes of the memory that a server shares with the clients of a job that use pmix-rs; 0: \
    no shared memory",
};

const UNASKED: ParamSpec = ParamSpec {
    name: "gds_hash_unasked_bytes",
    default: "1048576",
    help: "limit in bytes of the data of other processes that the reply to a get can include for a client \
    that caches it; 0: none",
};

const UNASKED_IN_ALL: ParamSpec = ParamSpec {
    name: "gds_hash_unasked_bytes_per_client",
    default: "16777216",
    help: "limit in bytes of such data in all replies to one client; 0: none",
};

/// Returns the catalog of these parameters, for output and checks.
#[must_use]
pub fn gds_parameters() -> Catalog {
    let specs = [WHOLE, PLACES, SHARED, UNASKED, UNASKED_IN_ALL];
    Catalog::new(FRAMEWORK, &specs)
}

/// Applies the parameters, which take precedence over the configuration of the host.
pub(super) fn limit_replies(config: &mut Config, params: &Params) -> Result<(), Error> {
    gds_parameters().check(params)?;
    let (reply, unasked) = (&mut config.reply, &mut config.unasked);
    for (limit, spec) in [(&mut reply.whole, WHOLE), (&mut reply.places, PLACES)] {
        let size = params.size(spec.name, u64::from(*limit))?;
        *limit = u32::try_from(size).unwrap_or(u32::MAX);
    }
    for (limit, spec) in [
        (&mut unasked.bytes_per_answer, UNASKED),
        (&mut unasked.bytes_per_client, UNASKED_IN_ALL),
    ] {
        let size = params.size(spec.name, u64::try_from(*limit).unwrap_or(u64::MAX))?;
        *limit = usize::try_from(size).unwrap_or(usize::MAX);
    }
    Ok(())
}

/// Maximum size of the address space of a table, which also applies to `-1` (no limit).
const MOST_SHARED: usize = 64 << 30;

/// Returns the limit of the memory that the processes of a job share with the server.
pub(super) fn shared_bytes(params: &Params, by_default: bool) -> Result<usize, Error> {
    let default = if by_default {
        SHARED.default.parse().unwrap_or_default()
    } else {
        0
    };
    let size = params.size(SHARED.name, default)?;
    Ok(usize::try_from(size).unwrap_or(usize::MAX).min(MOST_SHARED))
}

#[cfg(test)]
mod tests {
    use pmix_mca::Source;

    use super::*;

    #[test]
    fn the_defaults_that_are_shown_are_those_of_a_server() {
        let (mut shown, built_in) = (Config::default(), Config::default());
        let mut builder = Params::builder();
        for info in gds_parameters().describe(&Params::default()) {
            builder = builder.set(&info.name, info.default, Source::Api);
        }
        limit_replies(&mut shown, &builder.build().unwrap()).unwrap();
        assert_eq!(shown.reply, built_in.reply);
        assert_eq!(shown.unasked, built_in.unasked);
    }

    #[test]
    fn settings_take_precedence_over_the_host() {
        let mut config = Config::default();
        let builder = Params::builder()
            .set("gds_hash_unasked_bytes", "0", Source::Api)
            .set("gds_hash_unasked_bytes_per_client", "77", Source::Api);
        limit_replies(&mut config, &builder.build().unwrap()).unwrap();
        let unasked = config.unasked;
        assert_eq!(
            (unasked.bytes_per_answer, unasked.bytes_per_client),
            (0, 77)
        );
        let unknown = Params::builder().set("gds_hash_unasked", "1", Source::Api);
        let unknown = unknown.build();
        assert!(limit_replies(&mut config, &unknown.unwrap()).is_err());
    }
}

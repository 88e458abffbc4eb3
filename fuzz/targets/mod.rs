// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fuzz targets. Each is a plain function of bytes that panics if an invariant fails, so that the tests of the
//! workspace can replay `fuzz/regressions` without a fuzzer.

mod checks;
mod config;
mod dispatch;
mod engine;
mod lists;
mod peer;
mod plugin;
mod pmi;
mod proto;
mod topology;
mod values;
mod wire;

use std::sync::{Arc, OnceLock};

use pmix_mca::{Params, Source};
use preg_core::{Limits, Preg, Scheme};

use wire::Family;

/// A target, which panics if an invariant fails.
pub(crate) type Target = fn(&[u8]);

/// Every target with its name.
pub(crate) const TARGETS: &[(&str, Target)] = &[
    ("native_nodes", |data| values::nodes("native", data)),
    ("native_procs", |data| values::procs("native", data)),
    ("raw", values::raw),
    ("compress_blob", values::blob),
    ("compress_regex2", |data| values::regex2("compress", data)),
    ("fold_nodes", |data| values::nodes("fold", data)),
    ("fold_procs", |data| values::procs("fold", data)),
    ("fold_regex2", |data| values::regex2("fold", data)),
    ("dispatch", dispatch::any_bytes),
    ("node_lists", lists::nodes),
    ("proc_maps", lists::procs),
    ("plugin_boundary", plugin::boundary),
    ("bfrops_flex", |data| wire::call(Family::Flex, data)),
    ("bfrops_native", |data| wire::call(Family::Native, data)),
    ("bfrops_legacy", |data| wire::call(Family::Legacy, data)),
    ("bfrops_nested", wire::nested),
    ("bfrops_model", wire::model),
    ("bfrops_peer", peer::differential),
    ("proto_handshake", proto::handshake),
    ("proto_frames", proto::frames),
    ("proto_messages", proto::messages),
    ("engine_newer", engine::newer),
    ("pmi_commands", pmi::commands),
    ("config_plugins_toml", config::plugins_toml),
    ("config_mca_file", config::mca_file),
    ("config_environment", config::environment),
    ("topology_xml", topology::xml),
    ("topology_sets", topology::sets),
];

/// Returns the target with this name.
pub(crate) fn find(name: &str) -> Option<Target> {
    let (_, run) = TARGETS.iter().find(|(known, _)| *known == name)?;
    Some(*run)
}

/// Limits that are low enough to show a missing bound as memory growth, and high enough to reach every path.
const LIMITS: Limits = Limits {
    max_nodes: 1 << 12,
    max_ranks: 1 << 14,
    max_bytes: 1 << 18,
    max_text: 1 << 18,
    max_memory: 1 << 20,
    max_name: 1 << 12,
};

/// Returns the framework with every component of this repository active.
fn preg() -> &'static Preg {
    shared_preg()
}

/// Returns the same framework, for a datastore.
fn shared_preg() -> &'static Arc<Preg> {
    static PREG: OnceLock<Arc<Preg>> = OnceLock::new();
    PREG.get_or_init(|| {
        let params = Params::builder()
            .set("preg_fold_enabled", "true", Source::Api)
            .set("pcompress_base_limit", "16", Source::Api)
            .build()
            .expect("valid settings");
        let preg = pmix_builtin::open_preg(&params).expect("the settings can be obeyed");
        Arc::new(preg.with_limits(LIMITS))
    })
}

/// Returns the scheme of a component.
fn scheme(name: &str) -> &'static dyn Scheme {
    let module = preg().modules().iter().find(|m| m.scheme.name() == name);
    &*module.expect("the component is built in").scheme
}

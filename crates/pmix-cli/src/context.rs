// SPDX-License-Identifier: MIT OR Apache-2.0
//! The context of a command: settings, the framework, and the output.

use std::sync::Arc;

use pmix_mca::{Params, Source};
use preg_core::{Limits, Preg};

use crate::args::Global;
use crate::failure::Failure;
use crate::output::Out;
use crate::style::Style;

/// The opened framework, and the global options of the command line.
pub(crate) struct Context {
    pub(crate) preg: Arc<Preg>,
    pub(crate) params: Params,
    pub(crate) out: Out,
    pub(crate) json: bool,
    /// The style of standard output. Standard error has its own style.
    pub(crate) style: Style,
}

impl Context {
    pub(crate) fn open(global: &Global) -> Result<Self, Failure> {
        let params = params(global)?;
        for file in params.files() {
            tracing::info!("read {}", file.display());
        }
        let preg = pmix_builtin::open_preg(&params).map_err(|e| Failure::settings(&e))?;
        Ok(Self {
            preg: Arc::new(preg),
            params,
            out: Out::new(),
            json: global.json,
            style: Style::new(global.color, &std::io::stdout()),
        })
    }

    pub(crate) fn limits(&self) -> &Limits {
        self.preg.limits()
    }
}

/// Returns the parameters of this process, with `--mca` as the highest layer.
pub(crate) fn params(global: &Global) -> Result<Params, Failure> {
    let fault = |error| Failure::settings(&preg_core::Error::from(error));
    let mut builder = Params::from_process(global.config.as_deref()).map_err(fault)?;
    if !global.mca.is_empty() && pmix_mca::gained_rights() {
        let message =
            "--mca is rejected: this process runs with privileges that its caller does not have";
        return Err(Failure::usage(message));
    }
    for pair in global.mca.chunks_exact(2) {
        builder = builder.set(&pair[0], pair[1].clone(), Source::CommandLine);
    }
    builder.build().map_err(fault)
}

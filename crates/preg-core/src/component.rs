// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a component tells the framework about itself.
//!
//! Source: OpenPMIx `regex.rst`, "The MCA preg Framework".

use pmix_mca::{ParamSpec, Params};

use crate::{Error, Scheme};

/// Creates a scheme from the parameters; `None` when it cannot work on this machine.
pub type Query = fn(&Params) -> Result<Option<Box<dyn Scheme>>, Error>;

/// Describes a statically linked component: the properties of a scheme and the function that makes
/// it.
///
/// Each component crate has one `pub static COMPONENT` and submits it with
/// `inventory::submit! { Registration(&COMPONENT) }`; `pmix-builtin` also names it, since a crate
/// that nobody names registers nothing.
pub struct Component {
    /// The name, as used in `PMIX_MCA_preg` and `plugins.toml`.
    pub name: &'static str,
    /// The built-in priority; higher is asked first.
    pub priority: i32,
    /// Whether it is active when nothing is configured.
    pub enabled: bool,
    /// The bytes that its string form begins with. Text with this tag is never taken for a plain
    /// list, even where the component itself cannot run.
    pub tag: &'static [u8],
    /// The description that users are shown, in one line.
    pub about: &'static str,
    /// The parameters it understands besides `preg_<name>_priority`, `_enabled` and `_parse`.
    pub params: &'static [ParamSpec],
    /// Creates the scheme; `None` when it cannot work on this machine.
    pub query: Query,
}

/// Registers a component with `inventory`, which collects this type.
pub struct Registration(pub &'static Component);

inventory::collect!(Registration);

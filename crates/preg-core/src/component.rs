// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of a component for the framework.
//!
//! Source: OpenPMIx `regex.rst`, "The MCA preg Framework".

use pmix_mca::{ParamSpec, Params};

use crate::{Error, Scheme};

/// Creates a scheme from the parameters; returns `None` if it cannot work on this machine.
pub type Query = fn(&Params) -> Result<Option<Box<dyn Scheme>>, Error>;

/// A statically linked component: the properties of a scheme and the function that creates it.
///
/// Each component crate has one `pub static COMPONENT` and registers it with `inventory::submit! {
/// Registration(&COMPONENT) }`. `pmix-builtin` refers to it as well: the linker drops a crate
/// without references, and its registration with it.
pub struct Component {
    /// The name, as used in `PMIX_MCA_preg` and `plugins.toml`.
    pub name: &'static str,
    /// The built-in priority. The component with the highest priority comes first.
    pub priority: i32,
    /// `true` if the component is active unless a parameter disables it.
    pub enabled: bool,
    /// The prefix of every value in the component's string form. Text with this tag is never
    /// treated as a plain list, even if the component cannot run.
    pub tag: &'static [u8],
    /// A description for users, in one line.
    pub about: &'static str,
    /// The component's own parameters. Every component also has `preg_<name>_priority`, `_enabled`
    /// and `_parse`.
    pub params: &'static [ParamSpec],
    /// Creates the scheme; returns `None` if it cannot work on this machine.
    pub query: Query,
}

/// The registration of a component with `inventory`, which collects this type.
pub struct Registration(pub &'static Component);

inventory::collect!(Registration);

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registration of a job by a host.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_server_register_nspace`.

use pmix_map::{NodeList, ProcMap};
use pmix_types::{Info, keys};

/// The registration of a job: infos, and the two maps if the host has them folded.
///
/// A host with text or encoded maps passes them as `PMIX_NODE_MAP` and `PMIX_PROC_MAP` among the
/// infos; a list of infos converts into a registration. A host with a [`NodeList`] and a
/// [`ProcMap`] passes them directly, and no text is generated: the cost depends on their number of
/// runs, not on the number of nodes or processes.
///
/// ```
/// use gds_hash::{Job, LocalNode, Registration, Request};
/// use pmix_map::{Limits, NodeList, ProcMap};
/// use pmix_types::{Info, Rank, Value, keys};
/// # let preg = pmix_builtin::open_preg(&preg_core::Params::default())?;
/// let nodes = NodeList::parse_text(b"n00,n01", &Limits::default())?;
/// let procs = ProcMap::parse_text(b"0,1;2,3", &Limits::default())?;
/// let infos = [Info::new(keys::UNIV_SIZE, 8_u32)];
/// let registration = Registration::new(&infos).with_maps(nodes, procs);
/// let job = Job::register(&preg, &LocalNode::new("n00"), "job@1", registration)?;
/// assert_eq!(*job.get(&Request::new(Rank::new(2), keys::HOSTNAME))?, Value::from("n01"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Source: PMIx Standard, `PMIx_server_register_nspace`.
#[derive(Clone, Debug, Default)]
pub struct Registration<'i> {
    pub(crate) infos: &'i [Info<'i>],
    pub(crate) maps: Option<(NodeList, ProcMap)>,
    pub(crate) refuses_contradictions: bool,
}

impl<'i> Registration<'i> {
    /// Creates a registration of infos, possibly with maps among them.
    #[must_use]
    pub const fn new(infos: &'i [Info<'i>]) -> Self {
        Self {
            infos,
            maps: None,
            refuses_contradictions: false,
        }
    }

    /// Returns the infos.
    #[must_use]
    pub const fn infos(&self) -> &'i [Info<'i>] {
        self.infos
    }

    /// Replaces the infos.
    #[must_use]
    pub fn with_infos<'j>(self, infos: &'j [Info<'j>]) -> Registration<'j> {
        Registration {
            infos,
            maps: self.maps,
            refuses_contradictions: self.refuses_contradictions,
        }
    }

    /// Adds the node map and the process map of the job. A map of the job among the infos is then
    /// rejected as a duplicate; maps of the session and of applications are not.
    #[must_use]
    pub fn with_maps(mut self, nodes: NodeList, procs: ProcMap) -> Self {
        self.maps = Some((nodes, procs));
        self
    }

    /// Sets whether contradictions ([`Job::contradictions`]) reject the registration. By default
    /// the datastore accepts them with a warning, as OpenPMIx does.
    ///
    /// [`Job::contradictions`]: crate::Job::contradictions
    #[must_use]
    pub const fn refuse_contradictions(mut self, yes: bool) -> Self {
        self.refuses_contradictions = yes;
        self
    }

    /// Returns `true` if the host registers the namespace without data (`PMIX_REGISTER_NODATA`).
    pub(crate) fn has_no_data(&self) -> bool {
        let mut infos = self.infos.iter();
        infos.any(|info| info.key.is(keys::REGISTER_NODATA) && info.truth().is_true())
    }
}

impl<'i, 'a: 'i> From<&'i [Info<'a>]> for Registration<'i> {
    fn from(infos: &'i [Info<'a>]) -> Self {
        Self::new(infos)
    }
}

impl<'i, 'a: 'i> From<&'i Vec<Info<'a>>> for Registration<'i> {
    fn from(infos: &'i Vec<Info<'a>>) -> Self {
        Self::new(infos)
    }
}

impl<'i, 'a: 'i, const N: usize> From<&'i [Info<'a>; N]> for Registration<'i> {
    fn from(infos: &'i [Info<'a>; N]) -> Self {
        Self::new(infos)
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The environment variables from which a client learns its name and its server.

mod local_support;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use pmix_mca::Environment;
use pmix_proto::request::PREFETCH_VARIABLE;
use pmix_proto::{RELEASE, shared};
use pmix_types::{Envar, Info, IntoOwned, Proc, Text, Value, keys};

use crate::shared::SharedTables;

pub(crate) use self::local_support::LocalSupport;

/// The variables with the address of the server, for clients of different releases. The first one that a client finds
/// selects its form of the wire.
const URIS: [&str; 5] = [
    "PMIX_SERVER_URI41", // from 4.1: bfrops v41
    "PMIX_SERVER_URI4",  // 4.0: v4
    "PMIX_SERVER_URI3",  // 3.x: v3
    "PMIX_SERVER_URI21", // from 2.1: v21
    "PMIX_SERVER_URI2",  // 2.0: v20
];

/// The environment variables that are common to all clients.
pub(crate) struct Fork {
    pub(crate) uri: String,
    /// The components of `psec` by which clients can authenticate.
    pub(crate) security_mode: String,
    /// The variables with the parameters that clients need for these components, such as the socket of MUNGE.
    pub(crate) security_params: Vec<(&'static str, String)>,
    pub(crate) hostname: String,
    pub(crate) server_dir: PathBuf,
    pub(crate) system_dir: PathBuf,
    pub(crate) environment: Environment,
    /// `true` if clients get the variable by which Open MPI up to 4.1 detects a launcher.
    pub(crate) open_mpi_4: bool,
    /// The results of `setup_local_support` for each job.
    pub(crate) local_support: LocalSupport,
    /// The shared memory of each job.
    pub(crate) shared: Arc<SharedTables>,
}

/// An environment variable of a client.
pub(crate) type Variable = (OsString, OsString);

impl Fork {
    /// Returns the name of the server, with which its URI begins.
    fn name(&self) -> &str {
        self.uri
            .split_once(';')
            .map_or(&*self.uri, |(name, _)| name)
    }

    /// Returns the variables that a client needs. All other variables are inherited from its parent.
    pub(crate) fn environment(&self, proc: &Proc<'_>) -> Vec<Variable> {
        let rank = proc.rank.to_string();
        let nspace = OsStr::from_bytes(proc.nspace.as_bytes());
        let mut all: Vec<(&str, &OsStr)> =
            vec![("PMIX_NAMESPACE", nspace), ("PMIX_RANK", rank.as_ref())];
        all.extend(URIS.map(|name| (name, self.uri.as_ref())));
        all.extend([
            // DEVIATION: OpenPMIx also lists data stores in shared memory, in a form private to each release; here the
            // list is the same for all releases; a_client_finds_its_server_and_itself
            ("PMIX_GDS_MODULE", OsStr::new("hash")),
            ("PMIX_SECURITY_MODE", self.security_mode.as_ref()),
            (
                "PMIX_BFROP_BUFFER_TYPE",
                OsStr::new("PMIX_BFROP_BUFFER_NON_DESC"),
            ),
            ("PMIX_HOSTNAME", self.hostname.as_ref()),
            ("PMIX_VERSION", OsStr::new(RELEASE)),
            ("PMIX_SERVER_TMPDIR", self.server_dir.as_os_str()),
            ("PMIX_SYSTEM_TMPDIR", self.system_dir.as_os_str()),
            (PREFETCH_VARIABLE, OsStr::new(self.name())),
        ]);
        let params = self.security_params.iter();
        all.extend(params.map(|(name, value)| (*name, OsStr::new(value))));
        if self.open_mpi_4 {
            // Open MPI detects only this launcher by a variable alone.
            all.push(("JSM_JSRUN_PORT", OsStr::new("1")));
        }
        // This takes no lock: the caller may be a forked child.
        let shared = self.shared.address(&proc.nspace);
        let shared = shared.map(|address| format!("{} {address}", self.name()));
        if let Some(shared) = &shared {
            all.push((shared::VARIABLE, shared.as_ref()));
        }
        let own = |(name, value): (&str, &OsStr)| (name.into(), value.to_owned());
        let mut environment: Vec<Variable> = all.into_iter().map(own).collect();
        self.local_support
            .add(&proc.nspace, &self.environment, &mut environment);
        environment
    }
}

/// The prefix of the MCA parameters of this library.
const OWN: &str = "PMIX_MCA_";

/// Programming models, with the prefixes of the variables that their libraries read.
const MODELS: [(&str, &[&str]); 3] = [
    ("ompi", &["OMPI_"]),
    ("open-mpi", &["OMPI_"]),
    ("oshmem", &["OMPI_", "SHMEM_"]),
];

/// Returns the variables that the infos of a `setup_application` request, each as `PMIX_SET_ENVAR`.
pub(crate) fn setup_envars(environment: &Environment, infos: &[Info<'_>]) -> Vec<Info<'static>> {
    let asked = |key| infos.iter().any(|i| i.key.is(key) && i.truth().is_true());
    if !asked(keys::SETUP_APP_ENVARS) && !asked(keys::SETUP_APP_ALL) {
        return Vec::new();
    }
    let model = [keys::PROGRAMMING_MODEL, keys::MODEL_LIBRARY_NAME];
    let models = infos
        .iter()
        .filter(|i| model.iter().any(|key| i.key.is(key)));
    let names: Vec<_> = models.filter_map(|i| i.value.as_text().ok()?).collect();
    let prefixes = MODELS
        .iter()
        .filter(|(name, _)| names.iter().any(|n| *n == name));
    let prefixes: Vec<&str> = prefixes
        .flat_map(|(_, prefixes)| *prefixes)
        .copied()
        .collect();
    let wanted = |name: &[u8]| {
        let begins = |prefix: &str| name.starts_with(prefix.as_bytes());
        // The rest of the environment is that of the submitter's shell, which may contain secrets and paths of its own
        // node.
        begins(OWN) || prefixes.iter().any(|prefix| begins(prefix))
    };
    let vars = environment.vars.iter();
    let vars = vars.map(|(name, value)| (name.as_encoded_bytes(), value.as_encoded_bytes()));
    let set = |(name, value): (&[u8], &[u8])| {
        let envar = Envar {
            envar: Some(Text::new(name)),
            value: Some(Text::new(value)),
            // The value replaces another one; a separator would have meaning only where values are joined.
            separator: 0,
        };
        Info::new(keys::SET_ENVAR, Value::Envar(Box::new(envar))).into_owned()
    };
    vars.filter(|(name, _)| wanted(name)).map(set).collect()
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selection of the variables that an application needs from the environment of its submission.

use pmix_mca::Environment;
use pmix_types::{Envar, Info, IntoOwned, Text, Value, keys};

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

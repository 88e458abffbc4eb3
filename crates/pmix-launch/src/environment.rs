// SPDX-License-Identifier: MIT OR Apache-2.0
//! The environment of a child: the launcher's own, without the variables that an outer launcher set in it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Error;

/// The longest variable that Linux passes to a program: its name, `=` and its value, in bytes (`MAX_ARG_STRLEN`
/// without the NUL).
const LONGEST: usize = (128 << 10) - 1;

/// The limit in bytes for the environments of all applications of a job together.
const MOST_BYTES: usize = 64 << 20;

/// The bytes that are counted for a variable in each environment that contains it, in addition to its shared text.
const ENTRY_BYTES: usize = 64;

/// A change to the environment of an application.
///
/// Names and values are shared: the environments of all applications refer to one copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Export {
    /// A variable with its value.
    Set(Arc<OsStr>, Arc<OsStr>),
    /// The launcher's variable of this name.
    Pass(OsString),
    /// All of the launcher's variables with this prefix.
    PassAll(OsString),
    /// A variable with its value, unless the environment already contains the name.
    Default(Arc<OsStr>, Arc<OsStr>),
    /// A value before that of the variable, separated by this byte.
    Prepend(Arc<OsStr>, Arc<OsStr>, u8),
    /// A value after that of the variable, separated by this byte.
    Append(Arc<OsStr>, Arc<OsStr>, u8),
    /// The removal of the variable of this name.
    Unset(OsString),
    /// A list of changes, applied in order. All applications of a job share it.
    All(Arc<[Self]>),
}

impl Export {
    /// Returns the export that sets a variable.
    #[must_use]
    pub fn set(name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        Self::Set(name.as_ref().into(), value.as_ref().into())
    }

    /// Parses `NAME`, `NAME=VALUE` or `PREFIX*`. Returns `None` if the name is empty.
    #[must_use]
    pub fn parse(word: &OsStr) -> Option<Self> {
        let bytes = word.as_bytes();
        let own = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        if let Some(at) = memchr::memchr(b'=', bytes) {
            let (name, value) = (&bytes[..at], &bytes[at + 1..]);
            return (at > 0).then(|| Self::set(OsStr::from_bytes(name), OsStr::from_bytes(value)));
        }
        match bytes.strip_suffix(b"*") {
            Some(prefix) => Some(Self::PassAll(own(prefix))),
            None => (!bytes.is_empty()).then(|| Self::Pass(own(bytes))),
        }
    }
}

/// The variables of an environment with their values.
pub(crate) type Variables = BTreeMap<Arc<OsStr>, Arc<OsStr>>;

/// The builder of the environments of the applications of a job on this node.
///
/// Texts are shared, and so is the whole environment of applications with the same exports. [`MOST_BYTES`] therefore
/// bounds the memory that one request can make the launcher keep, however many variables and applications it names.
pub(crate) struct Environments<'a> {
    inherited: &'a [(OsString, OsString)],
    /// The environment of an application without exports.
    base: Arc<Variables>,
    /// The environment of the applications whose only exports are this list.
    last: Option<(Arc<[Export]>, Arc<Variables>)>,
    /// The bytes that the environments may still take.
    room: usize,
}

impl<'a> Environments<'a> {
    /// Builds the base environment from the launcher's variables, without those that another launcher set.
    pub(crate) fn new(inherited: &'a [(OsString, OsString)], oversubscribed: bool) -> Self {
        let mut base: Variables = for_open_mpi_4(oversubscribed)
            .map(|(name, value)| (OsStr::new(name).into(), OsStr::new(value).into()))
            .collect();
        let kept = |(name, value): &&(OsString, OsString)| {
            !is_foreign(name) && !is_for_another_pmi(name, value)
        };
        base.extend(inherited.iter().filter(kept).map(shared));
        Self {
            inherited,
            base: Arc::new(base),
            last: None,
            room: MOST_BYTES,
        }
    }

    /// Returns the environment of an application.
    ///
    /// # Errors
    /// Returns [`Error`] if a variable is longer than the system allows, or if the environments of all applications
    /// exceed [`MOST_BYTES`].
    pub(crate) fn of(&mut self, exports: &[Export]) -> Result<Arc<Variables>, Error> {
        let alone = match exports {
            [] => return Ok(Arc::clone(&self.base)),
            [Export::All(all)] => Some(all),
            _ => None,
        };
        if let (Some(all), Some((known, vars))) = (alone, &self.last)
            && Arc::ptr_eq(all, known)
        {
            return Ok(Arc::clone(vars));
        }
        self.take(self.base.len() * ENTRY_BYTES)?;
        let mut vars = Variables::clone(&self.base);
        for export in exports {
            self.apply(export, &mut vars)?;
        }
        let vars = Arc::new(vars);
        if let Some(all) = alone {
            self.last = Some((Arc::clone(all), Arc::clone(&vars)));
        }
        Ok(vars)
    }

    /// Applies one export to an environment.
    fn apply(&mut self, export: &Export, vars: &mut Variables) -> Result<(), Error> {
        self.take(ENTRY_BYTES)?;
        let before = vars.len();
        match export {
            Export::All(all) => {
                for export in &**all {
                    self.apply(export, vars)?;
                }
                // The recursive calls have already counted the new variables.
                return Ok(());
            }
            Export::Set(name, value) => {
                check_len(name, value.len())?;
                vars.insert(Arc::clone(name), Arc::clone(value));
            }
            Export::Default(name, value) => {
                check_len(name, value.len())?;
                vars.entry(Arc::clone(name))
                    .or_insert_with(|| Arc::clone(value));
            }
            Export::Prepend(name, value, separator) => {
                self.join(vars, name, value, *separator, |there, new| [new, there])?;
            }
            Export::Append(name, value, separator) => {
                self.join(vars, name, value, *separator, |there, new| [there, new])?;
            }
            Export::Unset(name) => {
                vars.remove(name.as_os_str());
            }
            Export::Pass(name) => {
                let passed = self.inherited.iter().filter(|(other, _)| other == name);
                vars.extend(passed.map(shared));
                if !vars.contains_key(name.as_os_str()) {
                    tracing::warn!(
                        "{} is not set, so it is not passed to the processes",
                        name.display()
                    );
                }
            }
            Export::PassAll(prefix) => {
                let begins = |name: &OsStr| name.as_bytes().starts_with(prefix.as_bytes());
                let passed = self.inherited.iter().filter(|(name, _)| begins(name));
                vars.extend(passed.map(shared));
            }
        }
        self.take(vars.len().saturating_sub(before) * ENTRY_BYTES)
    }

    /// Joins a value with the current value of a variable, or sets the variable if it is missing.
    fn join(
        &mut self,
        vars: &mut Variables,
        name: &Arc<OsStr>,
        value: &Arc<OsStr>,
        separator: u8,
        order: impl for<'b> Fn(&'b [u8], &'b [u8]) -> [&'b [u8]; 2],
    ) -> Result<(), Error> {
        let joined = match vars.get(name) {
            Some(there) => {
                let len = there.len() + 1 + value.len();
                check_len(name, len)?;
                self.take(len)?;
                let both = order(there.as_bytes(), value.as_bytes());
                OsString::from_vec(both.join(&separator)).into()
            }
            None => {
                check_len(name, value.len())?;
                Arc::clone(value)
            }
        };
        vars.insert(Arc::clone(name), joined);
        Ok(())
    }

    /// Subtracts these bytes from the room that is left.
    fn take(&mut self, num_bytes: usize) -> Result<(), Error> {
        let Some(room) = self.room.checked_sub(num_bytes) else {
            return Err(Error::no_room(format!(
                "the environments of the applications exceed {} MiB: pass fewer variables, or start fewer \
                applications at once",
                MOST_BYTES >> 20
            )));
        };
        self.room = room;
        Ok(())
    }
}

/// Returns a variable of the launcher with shared name and value.
fn shared((name, value): &(OsString, OsString)) -> (Arc<OsStr>, Arc<OsStr>) {
    (name.as_os_str().into(), value.as_os_str().into())
}

/// Returns an error if the variable is longer than the system passes to a program.
fn check_len(name: &OsStr, value_len: usize) -> Result<(), Error> {
    let len = name.len() + 1 + value_len;
    if len <= LONGEST {
        return Ok(());
    }
    // The name itself may be the long part, so the message contains only its beginning.
    let name = name.to_string_lossy();
    let name: String = name.chars().take(64).collect();
    Err(Error::request(format!(
        "the environment variable {name} has {len} bytes including its name; the limit of the system is {LONGEST}"
    )))
}

/// Returns the environment of the only application of a job.
#[cfg(test)]
fn of_children(
    inherited: &[(OsString, OsString)],
    exports: &[Export],
    oversubscribed: bool,
) -> Arc<Variables> {
    let mut environments = Environments::new(inherited, oversubscribed);
    environments.of(exports).unwrap()
}

/// Returns the variables that Open MPI up to 4.1 needs in addition to PMIx.
///
/// Open MPI looks for a launcher that it knows before it looks for a PMIx server. Without one, each process becomes a
/// singleton. The port of JSM is the variable with the fewest side effects: Open MPI only tests that it is set, and
/// nothing else reads it. The variables of Slurm are read by many programs, and those of Open MPI's own daemon make
/// Open MPI connect to that daemon.
///
/// Open MPI 4.1 does not request `pmix.ndosub` (`PMIX_NODE_OVERSUBSCRIBED`), as 5.0 does. A parameter of its own
/// makes its processes yield while they wait on an oversubscribed node.
fn for_open_mpi_4(oversubscribed: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    let yields = oversubscribed.then_some(("OMPI_MCA_mpi_oversubscribe", "1"));
    [("JSM_JSRUN_PORT", "1")].into_iter().chain(yields)
}

/// Returns rank and size under the names of Open MPI's `mpirun`, for scripts that wrap MPI programs.
///
/// No library takes these names for the sign of a launcher. The names of other launchers are not set: Open MPI 4.1 and `srun` read the variables of Slurm.
pub(crate) fn compat(
    rank: u32,
    size: u64,
    local_rank: usize,
    local_size: usize,
) -> [(&'static str, OsString); 6] {
    let local_rank = local_rank.to_string();
    let places = [
        ("OMPI_COMM_WORLD_RANK", rank.to_string()),
        ("OMPI_COMM_WORLD_SIZE", size.to_string()),
        ("OMPI_UNIVERSE_SIZE", size.to_string()),
        ("OMPI_COMM_WORLD_NODE_RANK", local_rank.clone()),
        ("OMPI_COMM_WORLD_LOCAL_RANK", local_rank),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", local_size.to_string()),
    ];
    places.map(|(name, value)| (name, value.into()))
}

/// Returns `true` if a variable selects another PMI than PMIx for Intel MPI, as profiles of Slurm sites do. A value
/// that selects PMIx is the user's choice and is kept.
fn is_for_another_pmi(name: &OsStr, value: &OsStr) -> bool {
    let file = Path::new(value).file_name().unwrap_or_default();
    match name.as_bytes() {
        b"I_MPI_PMI" => value == "pmi1" || value == "pmi2",
        b"I_MPI_PMI_LIBRARY" => memchr::memmem::find(file.as_bytes(), b"libpmix").is_none(),
        _ => false,
    }
}

/// Returns `true` if a launcher sets this variable to identify a process. A child that used the identity from an
/// outer launcher would join the wrong job.
///
/// Variables by which users configure a library (`OMPI_MCA_btl`, `PMIX_MCA_…`, `OMPI_CC`, `PMIX_PREFIX`,
/// `PRTE_ALLOW_RUN_AS_ROOT`) are kept. So are variables of Slurm that describe an allocation, as opposed to a step in it.
pub(crate) fn is_foreign(name: &OsStr) -> bool {
    const FOREIGN: &[&str] = &[
        "PMIX_",
        "PMI_",
        "PMI2_",
        "PRTE_",
        "ORTE_",
        "JSM_",
        "SLURM_",
        // Open MPI: its variables for rank and size, and the parameters that its daemons pass to the processes that
        // they start.
        "OMPI_COMM_WORLD_",
        "OMPI_UNIVERSE_SIZE",
        "OMPI_APP_CTX_",
        "OMPI_NUM_APP_CTX",
        "OMPI_FIRST_RANKS",
        "OMPI_COMMAND",
        "OMPI_ARGV",
        "OMPI_FILE_LOCATION",
        "OMPI_MCA_orte_",
        "OMPI_MCA_ess",
        "OMPI_MCA_pmix",
        "OMPI_MCA_initial_wdir",
        "OMPI_MCA_mpi_oversubscribe",
        "OMPI_MCA_shmem_RUNTIME_QUERY_hint",
        // MPICH and derived libraries.
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        "HYDI_",
        "PALS_",
    ];
    const KEPT: &[&str] = &[
        "PMIX_MCA_",
        // The directories of an installation of OpenPMIx and of PRRTE, and other settings of users.
        "PMIX_PREFIX",
        "PMIX_EXEC_PREFIX",
        "PMIX_INSTALL_PREFIX",
        "PMIX_BINDIR",
        "PMIX_LIBDIR",
        "PMIX_DATADIR",
        "PMIX_DATAROOTDIR",
        "PMIX_SYSCONFDIR",
        "PMIX_PKGLIBDIR",
        "PMIX_PKGDATADIR",
        "PMIX_INCLUDEDIR",
        "PMIX_PLUGINS",
        "PMIX_LOG",
        "PMIX_OUTPUT_",
        "PRTE_MCA_",
        "PRTE_PREFIX",
        "PRTE_ALLOW_RUN_AS_ROOT",
        // The settings of the PMI library of MPICH.
        "PMI_MAX_KVS_ENTRIES",
        "PMI_MMAP_SYNC_WAIT_TIME",
        "PMI_NO_",
        "PMI_DEBUG",
        "PMI_LIBRARY",
        "SLURM_JOB",
        "SLURM_ARRAY",
        "SLURM_SUBMIT",
        "SLURM_CLUSTER",
        "SLURM_CONF",
        "SLURM_CPUS",
        "SLURM_GPUS",
        "SLURM_MEM",
        "SLURM_RESTART_COUNT",
    ];
    let begins = |prefix: &&str| name.as_bytes().starts_with(prefix.as_bytes());
    FOREIGN.iter().any(begins) && !KEPT.iter().any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        let own = |(name, value): &(&str, &str)| (OsString::from(name), OsString::from(value));
        pairs.iter().map(own).collect()
    }

    fn names(vars: &Variables) -> Vec<&str> {
        vars.keys().map(|name| name.to_str().unwrap()).collect()
    }

    #[test]
    fn process_variables_of_an_outer_launcher_are_not_passed_on() {
        let outer = vars(&[
            ("HOME", "/h"),
            ("PMIX_RANK", "3"),
            ("PMIX_SERVER_URI41", "x"),
            ("PMI_RANK", "3"),
            ("PRTE_LAUNCHED", "1"),
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_MCA_orte_ess_num_procs", "4"),
            ("SLURM_PROCID", "3"),
            ("SLURM_STEP_ID", "0"),
            ("JSM_JSRUN_PORT", "9"),
        ]);
        let vars = of_children(&outer, &[], false);
        assert_eq!(names(&vars), ["HOME", "JSM_JSRUN_PORT"]);
        assert_eq!(&*vars[OsStr::new("JSM_JSRUN_PORT")], "1");
    }

    #[test]
    fn the_pmi_of_another_launcher_is_not_passed_on() {
        let slurm = vars(&[
            ("I_MPI_PMI", "pmi2"),
            ("I_MPI_PMI_LIBRARY", "/opt/pmix/lib/libpmi2.so"),
        ]);
        assert_eq!(names(&of_children(&slurm, &[], false)), ["JSM_JSRUN_PORT"]);
        let own = vars(&[
            ("I_MPI_PMI", "pmix"),
            ("I_MPI_PMI_LIBRARY", "/opt/lib/libpmix.so.2"),
        ]);
        let kept = of_children(&own, &[], false);
        assert_eq!(
            names(&kept),
            ["I_MPI_PMI", "I_MPI_PMI_LIBRARY", "JSM_JSRUN_PORT"]
        );
        let asked = [Export::Pass("I_MPI_PMI_LIBRARY".into())];
        let kept = of_children(&slurm, &asked, false);
        assert_eq!(names(&kept), ["I_MPI_PMI_LIBRARY", "JSM_JSRUN_PORT"]);
    }

    #[test]
    fn user_variables_are_passed_on() {
        let own = vars(&[
            ("OMPI_CC", "clang"),
            ("OMPI_MCA_btl", "self,sm"),
            ("PATH", "/bin"),
            ("PMIXER", "1"),
            ("PMIX_MCA_ptl_base_verbose", "5"),
            ("PMIX_PREFIX", "/opt/pmix"),
            ("PMIX_PLUGINS", "none"),
            ("PMI_MAX_KVS_ENTRIES", "5"),
            ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
            ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ("PRTE_MCA_prte_verbose", "1"),
            ("SLURM_JOB_ID", "7"),
        ]);
        assert_eq!(of_children(&own, &[], false).len(), own.len() + 1);
    }

    #[test]
    fn oversubscribed_processes_yield_unless_the_user_sets_the_variable() {
        let name = "OMPI_MCA_mpi_oversubscribe";
        assert_eq!(&*of_children(&[], &[], true)[OsStr::new(name)], "1");
        assert!(!of_children(&[], &[], false).contains_key(OsStr::new(name)));
        let export = Export::set(name, "0");
        assert_eq!(&*of_children(&[], &[export], true)[OsStr::new(name)], "0");
    }

    #[test]
    fn variables_are_prepended_appended_defaulted_and_unset() {
        let outer = vars(&[("PATH", "/bin"), ("A", "1"), ("U", "1")]);
        let text = |text: &str| Arc::<OsStr>::from(OsStr::new(text));
        let exports = [
            Export::Prepend(text("PATH"), text("/a"), b':'),
            Export::Append(text("PATH"), text("/z"), b':'),
            Export::Append(text("NEW"), text("x"), b','),
            Export::Default(text("A"), text("2")),
            Export::Default(text("B"), text("2")),
            Export::Unset("U".into()),
        ];
        let vars = of_children(&outer, &exports, false);
        assert_eq!(&*vars[OsStr::new("PATH")], "/a:/bin:/z");
        assert_eq!(names(&vars), ["A", "B", "JSM_JSRUN_PORT", "NEW", "PATH"]);
        assert_eq!(&*vars[OsStr::new("A")], "1");
        assert_eq!(&*vars[OsStr::new("B")], "2");
    }

    #[test]
    fn exports_override_withheld_variables() {
        let outer = vars(&[("PMIX_RANK", "3"), ("SLURM_PROCID", "3"), ("A", "1")]);
        let exports: Vec<_> = ["SLURM_*", "A=2", "B=x=y", "UNSET"]
            .iter()
            .map(|word| Export::parse(OsStr::new(word)).unwrap())
            .collect();
        let vars = of_children(&outer, &exports, false);
        assert_eq!(names(&vars), ["A", "B", "JSM_JSRUN_PORT", "SLURM_PROCID"]);
        assert_eq!(&*vars[OsStr::new("A")], "2");
        assert_eq!(&*vars[OsStr::new("B")], "x=y");
        assert_eq!(Export::parse(OsStr::new("=1")), None);
        assert_eq!(Export::parse(OsStr::new("")), None);
    }

    #[test]
    fn applications_share_the_variables_of_their_job() {
        let outer = vars(&[("A", "1")]);
        let all: Arc<[Export]> = [Export::set("LONG", "x".repeat(100_000))].into();
        let mut environments = Environments::new(&outer, false);
        let shared = [Export::All(Arc::clone(&all))];
        let first = environments.of(&shared).unwrap();
        let second = environments.of(&shared).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        // An application with variables of its own shares the values of the job.
        let own = [Export::set("OWN", "1"), Export::All(all)];
        let name = OsStr::new("LONG");
        for _ in 0..10_000 {
            let other = environments.of(&own).unwrap();
            assert!(Arc::ptr_eq(&first[name], &other[name]));
        }
    }

    #[test]
    fn an_invalid_variable_is_refused_by_its_name() {
        let outer = vars(&[("THERE", "x")]);
        let value: Arc<OsStr> = OsStr::new(&"x".repeat(LONGEST - 6)).into();
        let name: Arc<OsStr> = OsStr::new("THERE").into();
        let fits = [Export::Set(Arc::clone(&name), Arc::clone(&value))];
        let mut environments = Environments::new(&outer, false);
        environments.of(&fits).unwrap();
        for export in [
            Export::set("LONGER", &value),
            Export::Default(OsStr::new("LONGER").into(), Arc::clone(&value)),
            Export::Prepend(Arc::clone(&name), Arc::clone(&value), b':'),
            Export::Append(name, value, b':'),
        ] {
            let error = environments.of(&[export]).unwrap_err().to_string();
            assert!(error.contains("131071") && error.contains("ER"), "{error}");
        }
    }

    #[test]
    fn environments_over_the_total_size_limit_are_refused() {
        let num = MOST_BYTES / ENTRY_BYTES / 1000;
        let many: Arc<[Export]> = (0..num)
            .map(|number| Export::set(format!("V{number}"), ""))
            .collect();
        let mut environments = Environments::new(&[], false);
        let mut refused = None;
        for number in 0..1000 {
            let own = Export::set("OWN", number.to_string());
            let made = environments.of(&[own, Export::All(Arc::clone(&many))]);
            refused = made.err();
            if refused.is_some() {
                break;
            }
        }
        let error = refused.unwrap();
        let status = pmix_types::Status::ERR_JOB_INSUFFICIENT_RESOURCES;
        assert_eq!(error.status(), status);
    }
}

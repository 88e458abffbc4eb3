// SPDX-License-Identifier: MIT OR Apache-2.0
//! The environment of a child: what the launcher has, less what another launcher left in it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

/// Variables to set or to pass on whatever they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Export {
    /// This variable with this value.
    Set(OsString, OsString),
    /// The variable of this name as the launcher has it.
    Pass(OsString),
    /// All variables that begin so.
    PassAll(OsString),
    /// This variable with this value unless there is one of its name.
    Default(OsString, OsString),
    /// This value in front of that of a variable, with this byte between them.
    Prepend(OsString, OsString, u8),
    /// This value behind that of a variable, with this byte between them.
    Append(OsString, OsString, u8),
    /// No variable of this name.
    Unset(OsString),
}

impl Export {
    /// Reads `NAME`, `NAME=VALUE` or `PREFIX*`; none if there is no name.
    #[must_use]
    pub fn parse(word: &OsStr) -> Option<Self> {
        let bytes = word.as_bytes();
        let own = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        if let Some(at) = memchr::memchr(b'=', bytes) {
            return (at > 0).then(|| Self::Set(own(&bytes[..at]), own(&bytes[at + 1..])));
        }
        match bytes.strip_suffix(b"*") {
            Some(prefix) => Some(Self::PassAll(own(prefix))),
            None => (!bytes.is_empty()).then(|| Self::Pass(own(bytes))),
        }
    }

    /// Adds what it says to an environment that was made of `inherited`.
    fn apply(&self, inherited: &[(OsString, OsString)], vars: &mut Variables) {
        let mut pass = |wanted: &dyn Fn(&OsStr) -> bool| {
            let passed = inherited.iter().filter(|(name, _)| wanted(name));
            vars.extend(passed.cloned());
        };
        match self {
            Self::Set(name, value) => {
                vars.insert(name.clone(), value.clone());
            }
            Self::Default(name, value) => {
                vars.entry(name.clone()).or_insert_with(|| value.clone());
            }
            Self::Prepend(name, value, separator) => {
                join(vars, name, value, *separator, |there, new| [new, there]);
            }
            Self::Append(name, value, separator) => {
                join(vars, name, value, *separator, |there, new| [there, new]);
            }
            Self::Unset(name) => {
                vars.remove(name);
            }
            Self::Pass(name) => {
                pass(&|other| other == name);
                if !vars.contains_key(name) {
                    tracing::warn!("{} is not set, so it is not passed on", name.display());
                }
            }
            Self::PassAll(prefix) => {
                pass(&|other| other.as_bytes().starts_with(prefix.as_bytes()));
            }
        }
    }
}

/// Joins a value with that of a variable, if there is one.
fn join(
    vars: &mut Variables,
    name: &OsStr,
    value: &OsStr,
    separator: u8,
    order: impl for<'b> Fn(&'b [u8], &'b [u8]) -> [&'b [u8]; 2],
) {
    let joined = match vars.get(name) {
        Some(there) => {
            let both = order(there.as_bytes(), value.as_bytes());
            OsString::from_vec(both.join(&separator))
        }
        None => value.to_owned(),
    };
    vars.insert(name.to_owned(), joined);
}

/// Variables and their values.
pub(crate) type Variables = BTreeMap<OsString, OsString>;

/// The environment of the children of an application, on a node where they do or do not have a
/// processor each.
pub(crate) fn of_children(
    inherited: &[(OsString, OsString)],
    exports: &[Export],
    oversubscribed: bool,
) -> Variables {
    let mut vars: Variables = for_open_mpi_4(oversubscribed)
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let kept = |(name, value): &&(OsString, OsString)| {
        !is_foreign(name) && !is_for_another_pmi(name, value)
    };
    vars.extend(inherited.iter().filter(kept).cloned());
    for export in exports {
        export.apply(inherited, &mut vars);
    }
    vars
}

/// What Open MPI up to 4.1 needs beside PMIx.
///
/// It looks for a launcher that it knows before it looks for a server: without a sign of one each
/// process takes itself for a job of its own. Of the signs that it knows this is the least: JSM's
/// port is looked for by nothing else, and only for being there, while the variables of Slurm are
/// read by many a program, and those of Open MPI's own daemon make it look for that daemon.
///
/// What PMIx would tell it of a node with more processes than processors (`pmix.ndosub`, which 5.0
/// asks for) it takes from a parameter of its own: who waits then yields.
fn for_open_mpi_4(oversubscribed: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    let yields = oversubscribed.then_some(("OMPI_MCA_mpi_oversubscribe", "1"));
    [("JSM_JSRUN_PORT", "1")].into_iter().chain(yields)
}

/// Rank and size where scripts around MPI programs look for them, by the names of Open MPI's `mpirun`.
///
/// They only tell, and no library takes them for the sign of a launcher. Those of other launchers are
/// not set: MPICH takes `PMI_RANK` for one, and Slurm's are read by Open MPI's 4.1 and by `srun`.
pub(crate) fn compat(
    rank: u32,
    size: u64,
    local_rank: usize,
    local_size: usize,
) -> [(&'static str, OsString); 5] {
    let local_rank = local_rank.to_string();
    let places = [
        ("OMPI_COMM_WORLD_RANK", rank.to_string()),
        ("OMPI_COMM_WORLD_SIZE", size.to_string()),
        ("OMPI_COMM_WORLD_NODE_RANK", local_rank.clone()),
        ("OMPI_COMM_WORLD_LOCAL_RANK", local_rank),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", local_size.to_string()),
    ];
    places.map(|(name, value)| (name, value.into()))
}

/// Whether a variable tells Intel MPI to speak the PMI of another launcher, as the profiles of sites with Slurm do.
/// One that names PMIx is a user's choice.
fn is_for_another_pmi(name: &OsStr, value: &OsStr) -> bool {
    let file = Path::new(value).file_name().unwrap_or_default();
    match name.as_bytes() {
        b"I_MPI_PMI" => value == "pmi1" || value == "pmi2",
        b"I_MPI_PMI_LIBRARY" => memchr::memmem::find(file.as_bytes(), b"libpmix").is_none(),
        _ => false,
    }
}

/// Whether a variable tells a process which process it is of which job, as some launcher would:
/// a child that believed an outer launcher would take part in the wrong job.
///
/// What a user sets to steer a library (`OMPI_MCA_btl`, `PMIX_MCA_…`, `OMPI_CC`) stays, and so
/// does what describes an allocation of Slurm rather than a step in it.
pub(crate) fn is_foreign(name: &OsStr) -> bool {
    const FOREIGN: &[&str] = &[
        "PMIX_",
        "PMI_",
        "PMI2_",
        "PRTE_",
        "ORTE_",
        "JSM_",
        "SLURM_",
        // Open MPI: its own word for rank and size, and the parameters by which its daemons speak
        // to the processes that they start.
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
        // MPICH and its relatives.
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        "HYDI_",
        "PALS_",
    ];
    const KEPT: &[&str] = &[
        "PMIX_MCA_",
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
    fn what_an_outer_launcher_said_of_its_own_process_is_not_passed_on() {
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
        assert_eq!(vars[OsStr::new("JSM_JSRUN_PORT")], "1");
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
    fn what_a_user_set_is_passed_on() {
        let own = vars(&[
            ("OMPI_CC", "clang"),
            ("OMPI_MCA_btl", "self,sm"),
            ("PATH", "/bin"),
            ("PMIXER", "1"),
            ("PMIX_MCA_ptl_base_verbose", "5"),
            ("SLURM_JOB_ID", "7"),
        ]);
        assert_eq!(of_children(&own, &[], false).len(), own.len() + 1);
    }

    #[test]
    fn processes_that_share_processors_are_told_to_yield_unless_a_user_says_otherwise() {
        let name = "OMPI_MCA_mpi_oversubscribe";
        assert_eq!(of_children(&[], &[], true)[OsStr::new(name)], "1");
        assert!(!of_children(&[], &[], false).contains_key(OsStr::new(name)));
        let export = Export::Set(name.into(), "0".into());
        assert_eq!(of_children(&[], &[export], true)[OsStr::new(name)], "0");
    }

    #[test]
    fn variables_are_joined_kept_and_taken_away() {
        let outer = vars(&[("PATH", "/bin"), ("A", "1"), ("U", "1")]);
        let path = |value: &str| (OsString::from("PATH"), OsString::from(value));
        let exports = [
            Export::Prepend(path("").0, path("/a").1, b':'),
            Export::Append(path("").0, path("/z").1, b':'),
            Export::Append("NEW".into(), "x".into(), b','),
            Export::Default("A".into(), "2".into()),
            Export::Default("B".into(), "2".into()),
            Export::Unset("U".into()),
        ];
        let vars = of_children(&outer, &exports, false);
        assert_eq!(vars[OsStr::new("PATH")], "/a:/bin:/z");
        assert_eq!(names(&vars), ["A", "B", "JSM_JSRUN_PORT", "NEW", "PATH"]);
        assert_eq!(
            (&vars[OsStr::new("A")], &vars[OsStr::new("B")]),
            (&"1".into(), &"2".into())
        );
    }

    #[test]
    fn exports_outrank_what_is_held_back() {
        let outer = vars(&[("PMIX_RANK", "3"), ("SLURM_PROCID", "3"), ("A", "1")]);
        let exports: Vec<_> = ["SLURM_*", "A=2", "B=x=y", "UNSET"]
            .iter()
            .map(|word| Export::parse(OsStr::new(word)).unwrap())
            .collect();
        let vars = of_children(&outer, &exports, false);
        assert_eq!(names(&vars), ["A", "B", "JSM_JSRUN_PORT", "SLURM_PROCID"]);
        assert_eq!(vars[OsStr::new("A")], "2");
        assert_eq!(vars[OsStr::new("B")], "x=y");
        assert_eq!(Export::parse(OsStr::new("=1")), None);
        assert_eq!(Export::parse(OsStr::new("")), None);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! MCA parameters of the launchers of Open MPI 4 (ORTE) and 5 (PRRTE), as `--mca` and as variables: those that place
//! processes or form output have the effect of the option of `pmix run`, and a warning names the others.
//!
//! Source: `ompi_info --param all all --level 9` of Open MPI 4.1, `prte_info` of PRRTE 3.

use std::ffi::OsString;

use pmix_topology::Cpuset;

use crate::args::{BindTo, MapByArg, Run};
use crate::failure::Failure;
use crate::run::nodes::DefaultHostfile;
use crate::run::variables::is_rank;

/// The effect of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    MapBy,
    BindTo,
    CpusPerRank,
    CpuSet,
    Oversubscribe,
    NoOversubscribe,
    ReportBindings,
    TagOutput,
    MergeOutput,
    OutputDir,
    Hostfile,
    KeepGoing,
    /// No effect; the text is the replacement.
    Unused(&'static str),
}

impl Meaning {
    /// Returns the option with the same effect.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::MapBy => "--map-by",
            Self::BindTo => "--bind-to",
            Self::CpusPerRank => "--cpus-per-rank",
            Self::CpuSet => "--cpu-set",
            Self::Oversubscribe => "--oversubscribe",
            Self::NoOversubscribe => "--nooversubscribe",
            Self::ReportBindings => "--report-bindings",
            Self::TagOutput => "--tag-output",
            Self::MergeOutput => "--merge-output",
            Self::OutputDir => "--output-dir",
            Self::Hostfile => "--hostfile",
            Self::KeepGoing => "--keep-going",
            Self::Unused(_) => "",
        }
    }
}

/// The parameters that users set, and their effects.
pub(crate) const PARAMETERS: &[(&[&str], Meaning)] = &[
    (
        &["rmaps_base_mapping_policy", "rmaps_default_mapping_policy"],
        Meaning::MapBy,
    ),
    (
        &["hwloc_base_binding_policy", "hwloc_default_binding_policy"],
        Meaning::BindTo,
    ),
    (
        &["rmaps_base_cpus_per_proc", "rmaps_base_cpus_per_rank"],
        Meaning::CpusPerRank,
    ),
    (
        &[
            "hwloc_base_cpu_list",
            "hwloc_base_cpu_set",
            "hwloc_default_cpu_list",
        ],
        Meaning::CpuSet,
    ),
    (&["rmaps_base_oversubscribe"], Meaning::Oversubscribe),
    (&["rmaps_base_no_oversubscribe"], Meaning::NoOversubscribe),
    (
        &["hwloc_base_report_bindings", "rmaps_base_display_map"],
        Meaning::ReportBindings,
    ),
    (&["orte_tag_output"], Meaning::TagOutput),
    (
        &["orte_map_stddiag_to_stdout", "orte_map_stderr_to_stdout"],
        Meaning::MergeOutput,
    ),
    (&["orte_output_filename"], Meaning::OutputDir),
    (
        &["orte_default_hostfile", "prte_default_hostfile"],
        Meaning::Hostfile,
    ),
    (
        &["orte_enable_recovery", "prte_enable_recovery"],
        Meaning::KeepGoing,
    ),
    (
        &["rmaps_base_pernode", "rmaps_base_n_pernode"],
        Meaning::Unused("use `-n N` for the number of processes on this node"),
    ),
    (
        &["rmaps_base_n_persocket"],
        Meaning::Unused("use `--map-by ppr:N:package`"),
    ),
    (
        &["rmaps_base_ranking_policy", "rmaps_default_ranking_policy"],
        Meaning::Unused("ranks follow the order of `--map-by`"),
    ),
    (
        &["rmaps_rank_file_path", "orte_rankfile"],
        Meaning::Unused("use `--map-by PART` and `--cpu-set LIST`"),
    ),
    (
        &["orte_timestamp_output", "orte_xml_output", "orte_xterm"],
        Meaning::Unused("use `--tag-output`"),
    ),
    (
        &[
            "orte_tmpdir_base",
            "prte_tmpdir_base",
            "orte_local_tmpdir_base",
        ],
        Meaning::Unused("set TMPDIR to the directory"),
    ),
    (
        &["hwloc_base_use_hwthreads_as_cpus"],
        Meaning::Unused("use `--bind-to hwthread`"),
    ),
];

/// The frameworks of the launchers and their daemons.
const FRAMEWORKS: &[&str] = &[
    "dfs",
    "errmgr",
    "ess",
    "filem",
    "grpcomm",
    "iof",
    "odls",
    "oob",
    "orte",
    "plm",
    "prte",
    "prtebacktrace",
    "prtedl",
    "prteif",
    "prteinstalldirs",
    "prtereachable",
    "ras",
    "rmaps",
    "rml",
    "routed",
    "rtc",
    "schizo",
    "snapc",
    "sstore",
    "state",
];

/// Returns `true` if a framework belongs to the launchers.
pub(super) fn is_of_launcher(framework: &str) -> bool {
    FRAMEWORKS.contains(&framework)
}

/// Returns `true` if a parameter is one of the launchers.
pub(super) fn is_parameter(name: &str) -> bool {
    meaning(name).is_some() || is_of_launcher(name.split('_').next().unwrap_or_default())
}

/// Applies the parameters of a command line, then those of the environment, to options that are not given. Returns the
/// default hostfile in the environment, which has a lower priority than an allocation.
///
/// # Errors
/// A usage error if a value on the command line is invalid. In the environment, it causes a warning.
pub(super) fn apply(
    args: &mut Run,
    pairs: &[String],
    vars: &[(OsString, OsString)],
) -> Result<Option<DefaultHostfile>, Failure> {
    let mut given = Vec::new();
    for pair in pairs.chunks_exact(2) {
        let (name, value) = (&*pair[0], &*pair[1]);
        let Some(meaning) = meaning(name) else {
            if is_of_launcher(name.split('_').next().unwrap_or_default()) {
                tracing::warn!(
                    "--mca {name}: a parameter of the launcher of Open MPI, which has no effect on pmix run"
                );
            }
            continue;
        };
        set(args, meaning, value).map_err(|why| {
            let failure = Failure::usage(format!("--mca {name} {value}: {why}"));
            failure.cure(match meaning.option() {
                "" => "omit the parameter".to_owned(),
                option => format!("use `{option}`"),
            })
        })?;
        warn_if_unused(&format!("--mca {name}"), meaning);
        given.push(meaning);
    }
    // A process of another launcher has the parameters of its daemons.
    if is_rank(vars) {
        return Ok(None);
    }
    let mut hostfile = None;
    for (variable, raw) in vars {
        let (variable, value) = (variable.to_string_lossy(), raw.to_string_lossy());
        let name = ["OMPI_MCA_", "PRTE_MCA_"]
            .iter()
            .find_map(|prefix| variable.strip_prefix(prefix));
        let Some(name) = name else { continue };
        match meaning(name) {
            // The command line has priority, also with a false value.
            Some(meaning) if given.contains(&meaning) => {}
            Some(Meaning::Hostfile) => {
                hostfile = hostfile.or_else(|| {
                    let variable = variable.into_owned();
                    let path = Some(raw.clone()).filter(|path| !path.is_empty());
                    path.map(|path| DefaultHostfile { variable, path })
                });
            }
            Some(Meaning::CpuSet) if args.cpu_set.is_some() => {}
            Some(meaning) => {
                let named = format!("{variable}={value}");
                let result = match meaning {
                    Meaning::CpuSet => available(&named, &value).map(|cpus| args.cpu_set = cpus),
                    _ => set(args, meaning, &value),
                };
                if let Err(why) = result {
                    tracing::warn!("environment variable {variable}={value} has no effect: {why}");
                }
                warn_if_unused(&format!("environment variable {variable}"), meaning);
            }
            None if name.starts_with("rmaps_") => tracing::warn!(
                "environment variable {variable}: a parameter of the launcher of Open MPI, which has no effect on pmix run"
            ),
            None => {}
        }
    }
    Ok(hostfile)
}

/// Returns the processors of a list in the environment that are available. A site may set the list for all its nodes.
///
/// # Errors
/// A message if the list is invalid or none of its processors is available.
fn available(variable: &str, value: &str) -> Result<Option<Cpuset>, String> {
    let cpus = cpus(value)?;
    let Ok(allowed) = Cpuset::of_thread() else {
        return Ok(Some(cpus));
    };
    let both = cpus.and(&allowed);
    if both.is_empty() {
        return Err(format!(
            "none of these processors is available: this process is restricted to {allowed}"
        ));
    }
    if !cpus.is_endless() && !cpus.is_subset(&allowed) {
        tracing::warn!(
            "environment variable {variable}: only the processors {both} of the list are used, because this process is \
            restricted to {allowed}"
        );
    }
    Ok(Some(both))
}

/// Parses a list of processors.
///
/// # Errors
/// A message if the list is invalid or empty.
fn cpus(value: &str) -> Result<Cpuset, String> {
    let cpus = Cpuset::parse(value).ok().filter(|cpus| !cpus.is_empty());
    cpus.ok_or_else(|| "expected processor numbers and ranges, such as 0-3,8".to_owned())
}

fn meaning(name: &str) -> Option<Meaning> {
    let found = PARAMETERS.iter().find(|(names, _)| names.contains(&name));
    found.map(|(_, meaning)| *meaning)
}

fn warn_if_unused(parameter: &str, meaning: Meaning) {
    if let Meaning::Unused(cure) = meaning {
        tracing::warn!("{parameter} has no effect on pmix run: {cure}");
    }
}

/// Sets the option of a parameter unless it is given.
///
/// # Errors
/// A message if the value is invalid.
fn set(args: &mut Run, meaning: Meaning, value: &str) -> Result<(), String> {
    match meaning {
        Meaning::MapBy => {
            let map_by = MapByArg::parse(value)?;
            args.map_by.get_or_insert(map_by);
        }
        Meaning::BindTo => {
            let part = BindTo::parse(value)?;
            args.bind_to.get_or_insert(part);
        }
        Meaning::CpusPerRank => {
            let cpus = value.parse().ok().filter(|cpus| *cpus > 0);
            let cpus = cpus.ok_or("expected a number above 0")?;
            args.cpus_per_rank.get_or_insert(cpus);
        }
        Meaning::CpuSet => {
            let cpus = cpus(value)?;
            args.cpu_set.get_or_insert(cpus);
        }
        Meaning::Oversubscribe => args.habits.oversubscribe |= truth(value)?,
        Meaning::NoOversubscribe => args.habits.nooversubscribe |= truth(value)?,
        Meaning::ReportBindings => args.report_bindings |= truth(value)?,
        Meaning::TagOutput => {
            args.tag_output |= truth(value)? && !args.whole_lines && !args.no_whole_lines
        }
        Meaning::MergeOutput => args.merge_output |= truth(value)?,
        Meaning::OutputDir => {
            args.output_dir.get_or_insert_with(|| value.into());
        }
        Meaning::Hostfile if args.app.host.is_none() => {
            args.app.hostfile.get_or_insert_with(|| value.into());
        }
        Meaning::KeepGoing => args.keep_going |= truth(value)?,
        Meaning::Hostfile | Meaning::Unused(_) => {}
    }
    Ok(())
}

/// Parses the value of a parameter that is true or false.
fn truth(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "t" | "yes" | "y" | "enabled" => Ok(true),
        "0" | "false" | "f" | "no" | "n" | "disabled" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command, Part};
    use clap::Parser as _;

    fn applied(line: &str, pairs: &[&str], vars: &[(&str, &str)]) -> Result<Run, Failure> {
        let words = ["pmix", "run"].into_iter().chain(line.split(' '));
        let Command::Run(mut run) = Cli::try_parse_from(words).unwrap().command else {
            unreachable!("the words name the command")
        };
        let pairs: Vec<_> = pairs.iter().map(|word| (*word).to_owned()).collect();
        let vars: Vec<_> = vars
            .iter()
            .map(|(name, value)| (OsString::from(*name), OsString::from(*value)))
            .collect();
        apply(&mut run, &pairs, &vars).map(|_| *run)
    }

    #[test]
    fn a_value_on_the_command_line_has_priority_over_a_variable() {
        let vars = [
            ("OMPI_MCA_orte_tag_output", "1"),
            ("PRTE_MCA_prte_enable_recovery", "1"),
            ("OMPI_MCA_hwloc_base_binding_policy", "core:no-overload"),
        ];
        let run = applied("true", &["orte_tag_output", "0"], &vars).unwrap();
        assert!(!run.tag_output && run.keep_going);
        assert_eq!(run.bind_to, None);
        for value in ["core:no-overload", "core:x", "nowhere"] {
            let pairs = ["hwloc_base_binding_policy", value];
            assert!(applied("true", &pairs, &[]).is_err(), "{value}");
        }
        let pairs = ["hwloc_base_binding_policy", "core:if-supported"];
        let run = applied("true", &pairs, &[]).unwrap();
        assert_eq!(run.bind_to, Some(BindTo::Core));
    }

    #[test]
    fn processors_in_a_variable_are_limited_to_those_available() {
        let allowed = Cpuset::of_thread().unwrap();
        let all = [("OMPI_MCA_hwloc_base_cpu_set", "0-4095")];
        assert_eq!(applied("true", &[], &all).unwrap().cpu_set, Some(allowed));
        let none = [("OMPI_MCA_hwloc_base_cpu_set", "4000-4095")];
        assert_eq!(applied("true", &[], &none).unwrap().cpu_set, None);
    }

    #[test]
    fn parameters_of_launchers_have_the_effect_of_options_that_are_not_given() {
        let pairs = [
            "rmaps_base_mapping_policy",
            "core",
            "hwloc_base_binding_policy",
            "socket",
        ];
        let run = applied("true", &pairs, &[]).unwrap();
        assert_eq!(run.map_by.unwrap().part, Part::Core);
        assert_eq!(run.bind_to, Some(BindTo::Package));
        let run = applied("--map-by numa --bind-to none true", &pairs, &[]).unwrap();
        assert_eq!(run.map_by.unwrap().part, Part::Numa);
        assert_eq!(run.bind_to, Some(BindTo::None));
        let vars = [
            ("OMPI_MCA_orte_tag_output", "1"),
            ("PRTE_MCA_rmaps_default_mapping_policy", "package:PE=2"),
            ("OMPI_MCA_rmaps_base_mapping_policy", "no-such"),
        ];
        let run = applied("true", &[], &vars).unwrap();
        assert!(run.tag_output);
        assert_eq!(run.map_by.unwrap().cores_each, Some(2));
        // The command line has priority, and a process of another launcher has the parameters of its daemons.
        let run = applied("true", &pairs, &vars).unwrap();
        assert_eq!(run.map_by.unwrap().part, Part::Core);
        let inside = [vars[0], ("OMPI_COMM_WORLD_RANK", "0")];
        assert!(!applied("true", &[], &inside).unwrap().tag_output);
        let failure = applied("true", &["rmaps_base_mapping_policy", "x"], &[])
            .err()
            .unwrap();
        assert!(
            format!("{failure:?}").contains("use `--map-by`"),
            "{failure:?}"
        );
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of `--map-by` and `--bind-to`, with the directives and modifiers of prterun.

use std::ffi::OsStr;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, ValueEnum};
use pmix_launch::MapBy;
use pmix_topology::Level;

/// A part of the node, for `--map-by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Cores in sequence.
    Slot,
    /// The whole node.
    Node,
    /// Packages, round-robin.
    #[value(alias = "socket")]
    Package,
    /// NUMA nodes, round-robin.
    Numa,
    /// Level 3 caches, round-robin.
    L3cache,
    /// Level 2 caches, round-robin.
    L2cache,
    /// Level 1 caches, round-robin.
    L1cache,
    /// Cores, round-robin.
    Core,
    /// Hardware threads, round-robin.
    Hwthread,
}

/// The part of the node that a process is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BindTo {
    /// No binding.
    None,
    /// A package.
    #[value(alias = "socket")]
    Package,
    /// A NUMA node.
    Numa,
    /// The processors that share a level 3 cache.
    L3cache,
    /// The processors that share a level 2 cache.
    L2cache,
    /// The processors that share a level 1 cache.
    L1cache,
    /// A core.
    Core,
    /// A hardware thread.
    Hwthread,
}

impl Part {
    /// Returns the corresponding value of `pmix-launch`.
    pub(crate) fn map_by(self) -> MapBy {
        let level = match self {
            Self::Slot => return MapBy::Slot,
            Self::Node => Level::Node,
            Self::Package => Level::Package,
            Self::Numa => Level::Numa,
            Self::L3cache => Level::L3Cache,
            Self::L2cache => Level::L2Cache,
            Self::L1cache => Level::L1Cache,
            Self::Core => Level::Core,
            Self::Hwthread => Level::HwThread,
        };
        MapBy::Level(level)
    }
}

impl BindTo {
    /// Returns the corresponding value of `pmix-launch`.
    pub(crate) fn level(self) -> Option<Level> {
        match self {
            Self::None => None,
            Self::Package => Some(Level::Package),
            Self::Numa => Some(Level::Numa),
            Self::L3cache => Some(Level::L3Cache),
            Self::L2cache => Some(Level::L2Cache),
            Self::L1cache => Some(Level::L1Cache),
            Self::Core => Some(Level::Core),
            Self::Hwthread => Some(Level::HwThread),
        }
    }
}

/// The argument of `--map-by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapByArg {
    pub(crate) part: Part,
    /// Number of cores of each process (`pe=N`).
    pub(crate) cores_each: Option<u32>,
    /// Number of processes on each part (`ppr:N:PART`).
    pub(crate) procs_each: Option<u32>,
    /// `true` if parts can have more processes than that (`oversubscribe`), `false` if the job cannot have more processes
    /// than the node has slots (`nooversubscribe`).
    pub(crate) oversubscribe: Option<bool>,
    /// `true` if `pe=N` counts hardware threads (`hwtcpus`).
    pub(crate) counts_threads: bool,
}

/// The mapping policies of other launchers that this one does not have, with their replacements.
pub(crate) const POLICIES: &[(&str, &str)] = &[
    (
        "pe-list",
        "use --cpu-set LIST for the processors, and --map-by core:pe=1 for one core for each process",
    ),
    (
        "seq",
        "ranks follow the order of the processors; use --cpu-set LIST to select these",
    ),
    (
        "rankfile",
        "start an application for each group of processors, with `taskset -c LIST PROGRAM : taskset -c LIST PROGRAM`",
    ),
    (
        "dist",
        "`lstopo` shows the processors near a device; select them with --cpu-set LIST",
    ),
    (
        "likwid",
        "use --cpu-set LIST for the processors that likwid-pin would use",
    ),
];

/// The modifiers of prterun for `--map-by`. Those without a replacement are accepted.
pub(crate) const MODIFIERS: &[(&str, Option<&str>)] = &[
    ("pe", None),
    // All nodes of a job are this node.
    ("span", None),
    ("oversubscribe", None),
    ("nooversubscribe", None),
    (
        "nolocal",
        Some("omit it, and name the nodes of the job in --host or --hostfile"),
    ),
    ("hwtcpus", None),
    // Processors are counted by cores anyway.
    ("corecpus", None),
    (
        "device",
        Some("`lstopo` shows the processors near a device; select them with --cpu-set LIST"),
    ),
    // Spawned jobs have the policy of the first job unless they name another one.
    ("inherit", None),
    (
        "noinherit",
        Some("a spawned job names its own policy with PMIX_MAPBY"),
    ),
    (
        "qfile",
        Some("start an application for each line of the file, separated by ` : `"),
    ),
    (
        "file",
        Some("start an application for each line of the file, separated by ` : `"),
    ),
    (
        "ordered",
        Some("ranks always follow the order of the processors; use --cpu-set LIST to select these"),
    ),
];

impl Default for MapByArg {
    fn default() -> Self {
        Self {
            part: Part::Slot,
            cores_each: None,
            procs_each: None,
            oversubscribe: None,
            counts_threads: false,
        }
    }
}

impl MapByArg {
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        // A list of processors contains commas, which otherwise separate modifiers.
        if let Some((name, cure)) = policy_elsewhere(word) {
            return Err(format!("the policy {name} is not supported: {cure}"));
        }
        let mut words = word.split([':', ',']);
        let first = words.next().unwrap_or_default();
        let mut found = Self::default();
        if first.eq_ignore_ascii_case("ppr") {
            let (Some(count), Some(part)) = (words.next(), words.next()) else {
                return Err("expected ppr:N:PART, as in ppr:2:package".to_owned());
            };
            found.procs_each = Some(number(count)?);
            found.part = part_of(part)?;
        } else if !first.is_empty() || words.clone().next().is_none() {
            // Only modifiers, as in `:oversubscribe`, modify the default.
            found.part = part_of(first)?;
        }
        for word in words {
            found.modify(word)?;
        }
        Ok(found)
    }

    /// Applies a modifier.
    fn modify(&mut self, word: &str) -> Result<(), String> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        let Some((name, cure)) = modifier(name) else {
            let names: Vec<_> = MODIFIERS
                .iter()
                .filter(|(_, cure)| cure.is_none())
                .collect();
            let names: Vec<_> = names.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "unknown modifier {word:?}, expected pe=N or one of {}",
                names[1..].join(", ")
            ));
        };
        if let Some(cure) = cure {
            return Err(format!("the modifier {name} is not supported: {cure}"));
        }
        match (name, value) {
            ("pe", Some(count)) => self.cores_each = Some(number(count)?),
            ("pe", None) => return Err("expected pe=N, as in core:pe=2".to_owned()),
            (_, Some(_)) => return Err(format!("the modifier {name} takes no value")),
            ("oversubscribe", None) => self.oversubscribe = Some(true),
            ("nooversubscribe", None) => self.oversubscribe = Some(false),
            ("hwtcpus", None) => self.counts_threads = true,
            (_, None) => {}
        }
        Ok(())
    }
}

/// Returns a policy of other launchers, and its replacement.
fn policy_elsewhere(word: &str) -> Option<&'static (&'static str, &'static str)> {
    let name = word.split([':', '=', ',']).next().unwrap_or_default();
    POLICIES
        .iter()
        .find(|(known, _)| name.eq_ignore_ascii_case(known))
}

/// Returns the modifier with this name. As with prterun, the name may be abbreviated.
fn modifier(word: &str) -> Option<(&'static str, Option<&'static str>)> {
    let word = word.to_ascii_lowercase();
    let exact = MODIFIERS.iter().find(|(name, _)| *name == word);
    let begins = || {
        let mut all = MODIFIERS
            .iter()
            .filter(|(name, _)| word.len() > 2 && name.starts_with(&word));
        all.next().filter(|_| all.next().is_none())
    };
    exact.or_else(begins).copied()
}

fn part_of(word: &str) -> Result<Part, String> {
    if let Some((name, cure)) = policy_elsewhere(word) {
        return Err(format!("the part {name} is not supported: {cure}"));
    }
    Part::from_str(word, true).map_err(|_| {
        format!("unknown part of a node {word:?}, expected for example slot, core or package")
    })
}

fn number(word: &str) -> Result<u32, String> {
    let number = word.parse::<u32>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("expected a number above 0, not {word:?}"))
}

/// The parser of `--bind-to`: a part, with the modifiers of prterun, which change nothing here.
#[derive(Clone)]
pub(crate) struct BindToParser;

impl TypedValueParser for BindToParser {
    type Value = BindTo;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<BindTo, clap::Error> {
        let text = value.to_string_lossy();
        let part = part_to_bind(&text).map_err(|why| {
            let message = format!("invalid value '{text}' for '--bind-to <PART>': {why}\n");
            clap::Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
        })?;
        let part = part.to_ascii_lowercase();
        EnumValueParser::<BindTo>::new().parse_ref(command, arg, OsStr::new(&part))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let parts = BindTo::value_variants().iter();
        Some(Box::new(parts.filter_map(BindTo::to_possible_value)))
    }
}

impl BindTo {
    /// Parses a part with the modifiers of `--bind-to`.
    ///
    /// # Errors
    /// A message if the part or a modifier is unknown or not supported.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let part = part_to_bind(text)?;
        Self::from_str(part, true).map_err(|_| {
            format!("unknown part of a node {part:?}, expected for example core, package or none")
        })
    }
}

/// Returns the word for the part in a value of `--bind-to`.
///
/// # Errors
/// A message if a modifier is unknown or not supported.
fn part_to_bind(text: &str) -> Result<&str, String> {
    let mut words = text.split(':');
    let part = words.next().unwrap_or_default();
    words.try_for_each(bind_modifier)?;
    Ok(part)
}

/// Checks a modifier of `--bind-to`.
fn bind_modifier(word: &str) -> Result<(), String> {
    match word.to_ascii_lowercase().as_str() {
        // Several processes can share a processor, and a node without cores binds to what it has.
        "overload-allowed" | "if-supported" => Ok(()),
        "no-overload" => Err(
            "the modifier no-overload is not supported: --map-by core:pe=1 fails if there are fewer cores than \
            processes"
                .to_owned(),
        ),
        "report" => Err(
            "the modifier report is not supported: use --report-bindings".to_owned(),
        ),
        word if word.starts_with("limit=") => Err(
            "the modifier limit is not supported: --map-by ppr:N:PART sets the number of processes on each part"
                .to_owned(),
        ),
        _ => Err(format!(
            "unknown modifier {word:?}, expected overload-allowed or if-supported"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_modifier_of_prterun_is_accepted_or_named() {
        for word in [
            "OVERSUBSCRIBE",
            "NOOVERSUBSCRIBE",
            "SPAN",
            "HWTCPUS",
            "CORECPUS",
            "INHERIT",
            "oversub",
            "PE=1",
        ] {
            assert!(MapByArg::parse(&format!(":{word}")).is_ok(), "{word}");
            assert!(MapByArg::parse(&format!("core:{word}")).is_ok(), "{word}");
        }
        for (word, cure) in [
            ("NOLOCAL", "name the nodes of the job"),
            ("DEVICE=mlx5_0", "lstopo"),
            ("NOINHERIT", "PMIX_MAPBY"),
            ("QFILE=x", "an application for each"),
            ("FILE=x", "an application for each"),
            ("ORDERED", "--cpu-set LIST"),
        ] {
            let why = MapByArg::parse(&format!("core:{word}")).unwrap_err();
            let name = word.split('=').next().unwrap().to_ascii_lowercase();
            assert!(why.contains(&format!("modifier {name} is")), "{why}");
            assert!(why.contains(cure), "{why}");
        }
        for word in [
            "pe-list=0,2",
            "PE-LIST=0,2:ordered",
            "seq",
            "rankfile:file=x",
            "dist:mlx5",
        ] {
            let why = MapByArg::parse(word).unwrap_err();
            assert!(why.starts_with("the policy "), "{why}");
        }
        assert!(
            MapByArg::parse("core:x")
                .unwrap_err()
                .contains("unknown modifier \"x\"")
        );
        assert!(MapByArg::parse("").unwrap_err().contains("unknown part"));
        // The form of Open MPI 4.
        let found = MapByArg::parse("ppr:2:socket:PE=2,oversubscribe").unwrap();
        assert_eq!((found.procs_each, found.cores_each), (Some(2), Some(2)));
        assert!(found.oversubscribe == Some(true) && found.part == Part::Package);
    }
}

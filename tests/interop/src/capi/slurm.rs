// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slurm over several nodes on this machine, each in network, mount and UTS namespaces of its own. Our library replaces
//! the one that Slurm's plugin loads, on all nodes, on some, or on none. If namespaces are not allowed, the daemons of
//! all nodes run side by side and our library is preloaded.

mod allocations;
mod cluster;
mod endings;
mod large;
pub(crate) mod source;
mod steps;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use xtask::install::{self, Root};
use xtask::process;

use super::machines::{Form, NO_NAMESPACES};
use super::swapped::{MPI4PY, compile_in};
use super::{OURS, Options, Swap};
use crate::peers::{Library, Peer};
use crate::server::case::Case;
use crate::server::{missing, programs, run_all};
use crate::tally::Tally;
use cluster::{Cluster, START, Setup};
use source::Source;
use steps::{Client, Step, mpi_steps};

/// The Debian packages that these checks need.
pub(super) const PACKAGES: &[&str] = &[
    "slurmctld",
    "slurmd",
    "slurm-client",
    "munge",
    "iproute2",
    "util-linux",
];

/// The libraries of the nodes in each cluster.
const SETUPS: [Setup; 3] = [
    Setup {
        title: "the installed library in slurmstepd",
        ..Setup::new(&[false; 4])
    },
    Setup {
        title: "ours in slurmstepd",
        ..Setup::new(&[true; 4])
    },
    Setup {
        title: "ours in slurmstepd of two of four nodes, and munge",
        munge: true,
        ..Setup::new(&[true, false, true, false])
    },
];

/// The clusters of a Slurm in a root, besides those above: two nodes that are daemons side by side.
const NAMED: [Setup; 2] = [
    Setup {
        title: "the installed library in two slurmd of one machine",
        is_named: true,
        ..Setup::new(&[false; 2])
    },
    Setup {
        title: "ours in two slurmd of one machine",
        is_named: true,
        ..Setup::new(&[true; 2])
    },
];

/// The beginning of our library's version text.
const OURS_VERSION: &str = "pmix-rs";

/// The beginning of the version text of other libraries.
const THEIRS: &str = "OpenPMIx";

/// Runs the programs with each library in each of the clusters, and our launcher, `pmix`, in allocations of those
/// without our library.
///
/// # Errors
/// Returns a message if a program does not compile.
pub(super) fn run(
    swap: &Swap,
    pmix: &Path,
    peers: &[Peer],
    options: &Options,
    until: Instant,
    tally: &mut Tally,
) -> Result<(), String> {
    if !install::is_root() {
        tally.skip("capi: Slurm", "only root can make nodes of this machine");
        return Ok(());
    }
    let source = match options.release {
        None => match Source::of_machine(peers) {
            Ok(source) => source,
            Err(why) => {
                missing(&why, tally);
                return Ok(());
            }
        },
        Some(release) => match Source::of_root(release) {
            Ok(source) => source,
            Err(why) => {
                tally.skip("capi: Slurm of a root", &why);
                return Ok(());
            }
        },
    };
    let mut form = match options.no_namespaces {
        true => Form::Names,
        false => Form::Namespaces,
    };
    if swap.file.starts_with("/tmp") && form == Form::Namespaces {
        tally.skip(
            "capi: Slurm",
            "each node has a /tmp of its own, and this is in /tmp",
        );
        return Ok(());
    }
    let run = Run {
        programs: Programs::prepare(swap, &source, tally),
        hostile: hostile(&options.profile)?,
        pmix,
        long: options.long,
        until,
    };
    let named = source.root.iter().flat_map(|_| NAMED);
    for setup in SETUPS.into_iter().chain(named) {
        let title = format!("capi: {} with {}", source.name, setup.title);
        let start = |form| Cluster::start(form, setup, &source, &swap.file, until);
        let mut started = start(if setup.is_named { Form::Names } else { form });
        if let Err(why) = &started
            && form == Form::Namespaces
            && why.starts_with(NO_NAMESPACES)
        {
            println!("{why}: the nodes are daemons of this machine");
            form = Form::Names;
            started = start(form);
        }
        match started {
            Ok(mut cluster) => run.on(&mut cluster, setup, &title, tally)?,
            Err(why) => tally.fail(&title, &why),
        }
    }
    if source.root.is_some() {
        large::run((&source, form), &swap.library, &run.programs, until, tally)?;
    }
    Ok(())
}

/// The parts of a run that all clusters share.
struct Run<'a> {
    programs: Programs,
    /// The program of the attack.
    hostile: PathBuf,
    /// Our launcher.
    pmix: &'a Path,
    long: bool,
    until: Instant,
}

impl Run<'_> {
    /// Runs every check on a cluster.
    fn on(
        &self,
        cluster: &mut Cluster,
        setup: Setup,
        title: &str,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let &Self { long, until, .. } = self;
        let cases = self.programs.cases(cluster, setup, title, long)?;
        run_all(cases, until, tally)?;
        let own = self.programs.lead(setup);
        let stuck = own.compile("stuck")?;
        let short = own.compile("short")?;
        let is_main = !setup.munge && !setup.is_named;
        let mut ends = vec![endings::cancelled(cluster, title, &stuck, until)];
        if setup.ours.first() == Some(&true) && (long || is_main) {
            let programs = (&*own.compile("attacked")?, &*short);
            let count = if long { 20_000 } else { 2_000 };
            let hostile = (&*self.hostile, count);
            let attacked = endings::attacked(cluster, title, programs, hostile, until);
            ends.push(attacked.map(|said| println!("{title}: {said}")));
        }
        if long || is_main {
            ends.push(endings::fifty(cluster, title, &short, until));
        }
        // The launcher does not use the library of the nodes, so one cluster suffices.
        if !setup.ours.contains(&true) && is_main {
            ends.push(allocations::launched(cluster, title, self.pmix, until));
        }
        ends.push(cluster.has_ended().map_or(Ok(()), Err));
        for end in ends {
            match end {
                Ok(()) => tally.pass(title),
                Err(why) => tally.fail(title, &why),
            }
        }
        Ok(())
    }
}

/// Builds the program of `cargo xtask faults`, which also provides the attacking process.
fn hostile(profile: &str) -> Result<PathBuf, String> {
    let package = process::selection(profile, "pmix-faults");
    process::run(process::cargo(["build", "--bin", "pmix-faults"]).args(package))?;
    Ok(install::built(profile).join("pmix-faults"))
}

/// A library for which the C programs are compiled.
struct Own {
    /// The release, which names the folder of the programs.
    release: String,
    library: Library,
    version: Option<&'static str>,
}

impl Own {
    fn compile(&self, name: &str) -> Result<PathBuf, String> {
        programs::compile_for(&self.release, &self.library, name)
    }

    fn client(&self) -> Client {
        Client {
            title: self.release.clone(),
            libraries: None,
            version: self.version,
            may_fail: false,
        }
    }
}

/// An Open MPI whose programs are run, or a Python with mpi4py, with its own library and with ours.
struct Mpi {
    title: &'static str,
    /// The compiler wrapper or the Python.
    program: PathBuf,
    libraries: [(String, Option<PathBuf>); 2],
    /// The root that has the program, if it is not on this machine.
    root: Option<Root>,
}

/// The programs to run.
struct Programs {
    own: Vec<Own>,
    /// The programs of the installed library, over which ours may be mounted.
    mounted: Own,
    mpi: Vec<Mpi>,
    /// Each Python that has mpi4py.
    pythons: Vec<Mpi>,
}

impl Programs {
    fn prepare(swap: &Swap, source: &Source, tally: &mut Tally) -> Self {
        let ours = |release: &str| Own {
            release: release.to_owned(),
            library: swap.library.clone(),
            version: Some(OURS_VERSION),
        };
        let mut own = vec![ours(OURS)];
        let mut mounted = None;
        let (mut mpi, mut pythons) = (Vec::new(), Vec::new());
        for other in &source.others {
            let theirs = |release: String, library: &Library| Own {
                release,
                library: library.clone(),
                version: Some(THEIRS),
            };
            own.push(theirs(
                format!("{} of its own", other.version),
                &other.library,
            ));
            if let Some(library) = &other.plugged {
                mounted = Some(theirs(other.version.clone(), library));
            }
            // The other library is found without a variable, unless ours is mounted over it.
            let folder = other.plugged.as_ref().map(|_| other.library.folder());
            let libraries = [
                (OURS.to_owned(), Some(swap.folder().to_owned())),
                (other.version.clone(), folder.map(Path::to_owned)),
            ];
            let compiler = std::iter::once(&other.mpi);
            for (list, programs) in [
                (&mut mpi, compiler.collect::<Vec<_>>()),
                (&mut pythons, other.pythons.iter().collect()),
            ] {
                for (title, program) in programs {
                    match program {
                        Ok(program) => list.push(Mpi {
                            title,
                            program: program.clone(),
                            libraries: libraries.clone(),
                            // A wrapper of a package runs where the package is.
                            root: source.root.clone().filter(|_| other.plugged.is_some()),
                        }),
                        Err(why) => missing(why, tally),
                    }
                }
            }
        }
        Self {
            own,
            mounted: mounted.unwrap_or_else(|| ours(OURS)),
            mpi,
            pythons,
        }
    }

    /// Returns the library of the steps that only one client runs: ours if it is under test, else the control.
    fn lead(&self, setup: Setup) -> &Own {
        match setup.ours.contains(&true) {
            true => self.own.first().unwrap_or(&self.mounted),
            false => &self.mounted,
        }
    }

    /// Returns every run on a cluster.
    fn cases(
        &self,
        cluster: &Cluster,
        setup: Setup,
        title: &str,
        long: bool,
    ) -> Result<Vec<Case>, String> {
        let mut cases = Vec::new();
        let whole = setup.ours.iter().all(|ours| *ours);
        let wanted = |step: &Step| {
            (long || step.short) && (whole || !step.whole) && step.fits(cluster.num_nodes())
        };
        let lead = self.lead(setup);
        // A client of 5.0.11 queries a server of 4.2.2 for the node by its own host name, which differs from the names
        // here.
        let unknown = |own: &Own| {
            cluster.form() == Form::Names
                && !setup.ours.iter().all(|ours| *ours)
                && !own.release.starts_with("4.")
                && own.release != OURS
        };
        for step in steps::steps().into_iter().filter(wanted) {
            for own in self.own.iter().filter(|own| !unknown(own)) {
                if step.every || own.release == OURS || own.release == lead.release {
                    let program = own.compile(step.program())?;
                    cases.push(step.case(cluster, title, &own.client(), &[&program])?);
                }
            }
        }
        if cluster.form() == Form::Names {
            // Stop here: on named machines the client's library is the same on every node, and Open MPI counts
            // processes with one host name as one node.
            return Ok(cases);
        }
        cases.extend(self.on_one_node(cluster, setup, title)?);
        cases.extend(self.python(cluster, title, long)?);
        let home = install::scratch("interop/capi/runs")?;
        for mpi in &self.mpi {
            for step in mpi_steps().into_iter().filter(wanted) {
                let program = compile_in(mpi.root.as_ref(), &mpi.program, step.program(), &home)?;
                let tasks = PathBuf::from(step.tasks());
                for (library, folder) in &mpi.libraries {
                    let client = Client {
                        title: format!("{} with {library}", mpi.title),
                        libraries: folder.clone(),
                        version: None,
                        may_fail: library != OURS,
                    };
                    cases.push(step.case(cluster, title, &client, &[&program, &tasks])?);
                }
            }
        }
        Ok(cases)
    }

    /// Returns runs of the installed library's program on single nodes. It loads ours where that is
    /// mounted.
    fn on_one_node(
        &self,
        cluster: &Cluster,
        setup: Setup,
        title: &str,
    ) -> Result<Vec<Case>, String> {
        let program = self.mounted.compile("across")?;
        let nodes = cluster.nodes().zip(setup.ours).take(2);
        let case = |(node, ours): (&'static str, &bool)| {
            let client = Client {
                title: format!(
                    "{} where {} is mounted",
                    self.mounted.release,
                    match ours {
                        true => OURS,
                        false => "nothing",
                    }
                ),
                libraries: None,
                version: Some(if *ours { OURS_VERSION } else { THEIRS }),
                may_fail: false,
            };
            steps::on_node(node).case(cluster, title, &client, &[&program])
        };
        nodes.map(case).collect()
    }

    /// Returns runs of mpi4py, with its own library and with ours.
    fn python(&self, cluster: &Cluster, title: &str, long: bool) -> Result<Vec<Case>, String> {
        let mut cases = Vec::new();
        for mpi in &self.pythons {
            for (library, folder) in &mpi.libraries {
                let steps = steps::python_steps().into_iter();
                for step in steps.filter(|step| long || step.short) {
                    let client = Client {
                        title: format!("{} with {library}", mpi.title),
                        libraries: folder.clone(),
                        version: None,
                        may_fail: library != OURS,
                    };
                    let tasks = step.tasks();
                    let words = [
                        &mpi.program,
                        Path::new("-c"),
                        Path::new(MPI4PY),
                        tasks.as_ref(),
                    ];
                    cases.push(step.case(cluster, title, &client, &words)?);
                }
            }
        }
        Ok(cases)
    }
}

/// The cluster: the first two nodes have ours, the others the installed library.
const SETUP: Setup = Setup {
    title: "ours beside the installed library",
    ..Setup::new(&[true, true, false, false])
};

/// The library of a step, in `slurmstepd` and in its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Both {
    /// Our library.
    Ours,
    /// The installed library.
    Installed,
}

/// Slurm over four nodes of this machine, two with each library. Dropping it ends everything.
pub struct Beside {
    cluster: Cluster,
    ours: PathBuf,
    installed: PathBuf,
}

impl Beside {
    /// Starts the daemons, and compiles a file of `tests/server/programs` for our library and for the installed one.
    ///
    /// # Errors
    /// Returns a message without root, without Slurm, or if the nodes do not become idle.
    pub fn start(ours: &Library, installed: &Library, program: &str) -> Result<Self, String> {
        if !install::is_root() {
            return Err("only root can make nodes of this machine".to_owned());
        }
        install::packages(PACKAGES);
        let source = Source::of_machine(&[])?;
        // Copy the installed library, as ours is mounted over it on the nodes.
        let copy = installed.copied(&install::scratch("interop/capi/beside")?)?;
        let programs = (
            programs::compile_for("ours", ours, program)?,
            programs::compile_for("beside", &copy, program)?,
        );
        let start =
            |form| Cluster::start(form, SETUP, &source, ours.file(), Instant::now() + START);
        let cluster = match start(Form::Namespaces) {
            Err(why) if why.starts_with(NO_NAMESPACES) => start(Form::Names),
            started => started,
        };
        Ok(Self {
            cluster: cluster?,
            ours: programs.0,
            installed: programs.1,
        })
    }

    /// Returns a step of the program on the two nodes with a library, with this many processes on each.
    #[must_use]
    pub fn step(&self, library: Both, each: u32) -> Command {
        let (nodes, program) = match library {
            Both::Ours => ("n1,n2", &self.ours),
            Both::Installed => ("n3,n4", &self.installed),
        };
        let mut command = self.cluster.inside("srun");
        command.args(["--mpi=pmix", "--time=3", "--quiet", "-N", "2", "-n"]);
        command.arg((2 * each).to_string());
        command.arg(format!("--ntasks-per-node={each}"));
        command.args(["--nodelist", nodes]).arg(program);
        command
    }
}

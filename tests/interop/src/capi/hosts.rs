// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts in C that make the calls of flux-pmix, OpenPBS, CraneSched and ParaStation, and a host for each manner in which
//! hosts complete `client_connected`. Each host is built with our library and with each release. A client of the release
//! must print the same lines under both, except for the differences in `testdata/interop/hosts.tsv`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::{OURS, Swap};
use crate::peers::{Library, Peer};
use crate::server::case::{Case, Judge, run_within};
use crate::server::launcher::Launcher;
use crate::server::{missing, run_all};
use crate::tally::Tally;
use xtask::{install, process};

/// The products whose calls a host makes, with the sources of the host.
const PRODUCTS: [(&str, &[&str]); 4] = [
    ("flux", &["flux.c"]),
    ("openpbs", &["openpbs.c"]),
    ("cranesched", &["cranesched.c"]),
    ("parastation", &["parastation.c", "parastation_job.c"]),
];

/// The sources that all hosts share.
const SHARED: [&str; 2] = ["host.c", "refusals.c"];

/// The manners in which `connected.c` completes the upcalls about clients, and `true` for each for which a client of a
/// release since 5.0.8 waits forever.
const MANNERS: [(&str, bool); 8] = [
    ("none", false),
    ("never", true),
    ("inside", false),
    ("succeeded", false),
    ("later", false),
    ("inside2", false),
    ("succeeded2", false),
    ("later2", false),
];

/// The numbers of local ranks, and of ranks of a second node that does not exist.
const SIZES: [(u32, u32); 4] = [(1, 0), (2, 0), (4, 0), (2, 2)];

/// The numbers of ranks of MPI jobs.
const MPI_SIZES: [u32; 2] = [2, 4];

/// The program of MPI: the sum of all ranks, and a message to the next rank.
const ALLREDUCE: &str = "from mpi4py import MPI; w = MPI.COMM_WORLD; n = w.size; \
                         assert w.allreduce(w.rank) == n * (n - 1) // 2; \
                         assert w.sendrecv(w.rank, (w.rank + 1) % n) == (w.rank - 1) % n; \
                         print(f'rank {w.rank} of {n} passed')";

/// The time limit of a run of the client.
const LIMIT: Duration = Duration::from_secs(45);

/// The hosts and the client, built with one library.
struct Built {
    release: String,
    home: PathBuf,
}

impl Built {
    fn new(release: &str, library: &Library) -> Result<Self, String> {
        let home = install::scratch(&format!("interop/capi/hosts-{release}"))?;
        let folder = process::root().join("tests/capi/hosts");
        let compile = |name: &str, sources: &[&str]| {
            let sources: Vec<_> = sources.iter().map(|source| folder.join(source)).collect();
            library.compile_with(&home.join(name), &folder, &sources)
        };
        for (name, sources) in PRODUCTS {
            compile(name, &[sources, &SHARED].concat())?;
        }
        compile("connected", &["connected.c", SHARED[0], SHARED[1]])?;
        compile("client", &["client.c"])?;
        Ok(Self {
            release: release.to_owned(),
            home,
        })
    }

    /// Returns a command that starts a job. The caller adds the program.
    fn command(&self, host: &str, manner: Option<&str>, (local, remote): (u32, u32)) -> Command {
        let mut command = Command::new(self.home.join(host));
        Launcher::clean(&mut command);
        command.args(manner);
        command.args(["-n", &local.to_string(), "-r", &remote.to_string()]);
        command
    }

    fn client(&self) -> PathBuf {
        self.home.join("client")
    }
}

/// Returns a setting without which a product does not run with a release. The session that ParaStation registers for
/// all jobs does not begin with its number, and the shared memory of release 5 refuses it.
fn setting(product: &str, release: &str) -> Option<(&'static str, &'static str)> {
    (product == "parastation" && release.starts_with("5.")).then_some(("PMIX_MCA_gds", "hash"))
}

/// Builds every host and runs the client and a program of Open MPI 5.
///
/// # Errors
/// Returns a message if a host does not compile.
pub(super) fn run(
    swap: &Swap,
    peers: &[Peer],
    until: Instant,
    tally: &mut Tally,
) -> Result<(), String> {
    let ours = Built::new(OURS, &swap.library)?;
    let theirs: Result<Vec<_>, String> = peers
        .iter()
        .map(|peer| Built::new(&peer.version, &peer.library))
        .collect();
    let theirs = theirs?;
    let differences = Differences::read()?;
    let mut seen = BTreeSet::new();
    for peer in &theirs {
        compare(&ours, peer, &differences, &mut seen, tally);
    }
    for unused in differences.unused(&theirs, &seen) {
        tally.fail(
            "capi: differences of hosts",
            &format!("does not occur: {unused}"),
        );
    }
    let mut cases = Vec::new();
    for server in std::iter::once(&ours).chain(&theirs) {
        cases.extend(manners(server, &ours));
        cases.extend(aborts(server, &ours));
    }
    cases.extend(own_client(&ours));
    match allreduce(&ours, &theirs) {
        Ok(found) => cases.extend(found),
        Err(why) => missing(&why, tally),
    }
    run_all(cases, until, tally)
}

/// Runs the client of a release under each product's host with that release and with ours, and compares the lines.
fn compare(
    ours: &Built,
    theirs: &Built,
    differences: &Differences,
    seen: &mut BTreeSet<usize>,
    tally: &mut Tally,
) {
    for (product, _) in PRODUCTS {
        let what = format!("capi: calls of {product}, ours and {}", theirs.release);
        for size in SIZES {
            let lines = |server: &Built| {
                let name = format!("{product}-{}-{}-{}", theirs.release, size.0, size.1);
                let mut command = server.command(product, None, size);
                command.envs(setting(product, &theirs.release));
                lines(command, &theirs.client(), &server.home.join(name))
            };
            let found = lines(theirs).and_then(|stock| Ok((stock, lines(ours)?)));
            let faults = found.map(|(stock, found)| {
                differences.faults(product, &theirs.release, &stock, &found, seen)
            });
            match faults {
                Ok(faults) if faults.is_empty() => tally.pass(&what),
                Ok(faults) => tally.fail(&what, &format!("{size:?}: {}", faults.join("; "))),
                Err(why) => tally.fail(&what, &format!("{size:?}: {why}")),
            }
        }
    }
}

/// Returns the lines that the processes of a job print. A host or library may print others.
fn lines(mut command: Command, client: &Path, output: &Path) -> Result<BTreeSet<String>, String> {
    let home = install::scratch("interop/capi/runs")?;
    let status = run_within(command.arg(client), LIMIT, output, &home)?;
    let text = std::fs::read(output).map_err(|e| format!("{}: {e}", output.display()))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    if !status.success() {
        return Err(format!(
            "{status}: {}",
            text.lines().last().unwrap_or_default()
        ));
    }
    let is_of_rank = |line: &&str| {
        let rank = line.split_once(": ").map(|(rank, _)| rank);
        rank.is_some_and(|rank| rank.parse::<u32>().is_ok())
    };
    Ok(text.lines().filter(is_of_rank).map(str::to_owned).collect())
}

/// A line of the client that differs between a release and ours.
struct Difference {
    product: String,
    release: String,
    theirs: String,
    ours: String,
}

/// The list of the differences.
struct Differences(Vec<Difference>);

impl Differences {
    fn read() -> Result<Self, String> {
        let file = process::root().join("testdata/interop/hosts.tsv");
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let lines = text.lines().skip(1);
        let read = lines.map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
            [product, release, theirs, ours, reason] if !reason.is_empty() => Ok(Difference {
                product: product.to_owned(),
                release: release.to_owned(),
                theirs: theirs.to_owned(),
                ours: ours.to_owned(),
            }),
            _ => Err(format!("{}: {line:?}", file.display())),
        });
        Ok(Self(read.collect::<Result<_, String>>()?))
    }

    /// Returns the lines of only one server that are not listed. Adds the places of listed lines to `seen`.
    fn faults(
        &self,
        product: &str,
        release: &str,
        theirs: &BTreeSet<String>,
        ours: &BTreeSet<String>,
        seen: &mut BTreeSet<usize>,
    ) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |side: &str, line: &String, text: fn(&Difference) -> &str| {
            // The rank of the caller is not part of a listed line.
            let said = line
                .split_once(": ")
                .map_or(line.as_str(), |(_, said)| said);
            let listed = self.0.iter().position(|one| {
                one.product == product
                    && release.starts_with(&one.release)
                    && matches(text(one), said)
            });
            match listed {
                Some(place) => drop(seen.insert(place)),
                None => faults.push(format!("only {side}: {line}")),
            }
        };
        for line in theirs.difference(ours) {
            check(release, line, |one| &one.theirs);
        }
        for line in ours.difference(theirs) {
            check(OURS, line, |one| &one.ours);
        }
        faults
    }

    /// Returns the differences of the present releases that no run has shown.
    fn unused(&self, releases: &[Built], seen: &BTreeSet<usize>) -> Vec<String> {
        let is_present = |one: &Difference| {
            let mut releases = releases.iter();
            releases.any(|built| built.release.starts_with(&one.release))
        };
        let unused = self
            .0
            .iter()
            .enumerate()
            .filter(|(place, _)| !seen.contains(place));
        let unused = unused.filter(|(_, one)| is_present(one));
        unused
            .map(|(_, one)| format!("{} {} {}", one.product, one.release, one.theirs))
            .collect()
    }
}

/// Returns `true` if a text is that of a pattern, in which `#` is any number.
fn matches(pattern: &str, text: &str) -> bool {
    let is_number = |word: &str| word.parse::<i64>().is_ok();
    let (pattern, text): (Vec<_>, Vec<_>) =
        (pattern.split(' ').collect(), text.split(' ').collect());
    pattern.len() == text.len()
        && std::iter::zip(pattern, text)
            .all(|(part, word)| part == word || part == "#" && is_number(word))
}

/// Returns a run of the client under a server for each manner. A release that waits for the callback is not run with a
/// host that never calls back.
fn manners(server: &Built, ours: &Built) -> Vec<Case> {
    let waits = server.release != OURS && !server.release.starts_with("4.");
    let (left_out, run): (Vec<_>, Vec<_>) = MANNERS.iter().partition(|(_, hangs)| waits && *hangs);
    for (manner, _) in left_out {
        println!(
            "left out: connected {manner} with {}: its client waits forever",
            server.release
        );
    }
    run.into_iter()
        .map(|(manner, _)| {
            let command = server.command("connected", Some(manner), (2, 0));
            let what = format!("capi: client_connected, server {}", server.release);
            client_case(what, manner, command, ours, Judge::Code(0))
        })
        .collect()
}

/// Returns an abort under the host of each product.
fn aborts(server: &Built, ours: &Built) -> Vec<Case> {
    let case = |(product, _): &(&str, _)| {
        let command = server.command(product, None, (2, 0));
        let what = format!("capi: abort under hosts, server {}", server.release);
        let mut case = client_case(what, product, command, ours, Judge::Fails);
        case.command
            .envs(setting(product, &server.release))
            .arg("abort");
        case
    };
    PRODUCTS.iter().map(case).collect()
}

/// Returns a run of our client under our server for each product and size.
fn own_client(ours: &Built) -> Vec<Case> {
    let sizes = |(product, _): &(&'static str, _)| SIZES.map(|size| (*product, size));
    let runs = PRODUCTS.iter().flat_map(sizes);
    runs.map(|(product, size)| {
        let command = ours.command(product, None, size);
        let name = format!("{product} {size:?}");
        let what = "capi: calls of products, ours on both sides".to_owned();
        client_case(what, &name, command, ours, Judge::Code(0))
    })
    .collect()
}

fn client_case(
    what: String,
    name: &str,
    mut command: Command,
    client: &Built,
    judge: Judge,
) -> Case {
    command.arg(client.client());
    Case {
        what,
        name: name.to_owned(),
        command,
        limit: LIMIT,
        judge,
        is_control: false,
    }
}

/// Returns runs of Open MPI 5 under the host of each product, with ours and with each release as the server.
fn allreduce(ours: &Built, theirs: &[Built]) -> Result<Vec<Case>, String> {
    install::pip(install::WHEEL)?;
    install::pip("mpi4py")?;
    let python = install::venv()?;
    let mut cases = Vec::new();
    for server in std::iter::once(ours).chain(theirs) {
        for ((product, _), size) in PRODUCTS
            .iter()
            .flat_map(|one| MPI_SIZES.map(|size| (one, size)))
        {
            let mut command = server.command(product, None, (size, 0));
            command.envs(setting(product, &server.release));
            command.arg(&python).args(["-c", ALLREDUCE]);
            let passed = usize::try_from(size).unwrap_or(0);
            cases.push(Case {
                what: format!("capi: Open MPI 5 under hosts, server {}", server.release),
                name: format!("{product} on {size}"),
                command,
                limit: LIMIT,
                judge: Judge::Says(vec![("passed", passed)], &[]),
                is_control: server.release != OURS,
            });
        }
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(lines: &[&str]) -> BTreeSet<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn a_number_of_a_listed_line_may_differ() {
        assert!(matches(
            "# pmix.x: PMIX_UINT32 #",
            "-2 pmix.x: PMIX_UINT32 7"
        ));
        assert!(!matches(
            "# pmix.x: PMIX_UINT32 #",
            "-2 pmix.x: PMIX_UINT32"
        ));
        assert!(!matches("# pmix.x", "two pmix.x"));
    }

    #[test]
    fn only_listed_differences_of_a_product_pass() {
        let listed = Differences(vec![Difference {
            product: "flux".to_owned(),
            release: "4.".to_owned(),
            theirs: "key: 1".to_owned(),
            ours: "key: 2".to_owned(),
        }]);
        let (theirs, ours) = (
            set(&["0: key: 1", "0: same"]),
            set(&["0: key: 2", "0: same"]),
        );
        let mut seen = BTreeSet::new();
        let mut count = |product: &str, release: &str, theirs, ours| {
            listed
                .faults(product, release, theirs, ours, &mut seen)
                .len()
        };
        assert_eq!(count("flux", "5.0.11", &theirs, &ours), 2);
        assert_eq!(count("openpbs", "4.2.2", &theirs, &ours), 2);
        assert_eq!(count("flux", "4.2.2", &ours, &theirs), 2);
        assert_eq!(count("flux", "4.2.2", &theirs, &ours), 0);
        assert_eq!(seen, BTreeSet::from([0]));
    }

    #[test]
    fn the_list_of_differences_can_be_read() {
        assert!(Differences::read().is_ok());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask interop skew`: the server library of one release with the client library of another, including ours, in
//! the same checks. The results are the page `docs/skew.md`.

mod checks;

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use xtask::install::{self, Root};
use xtask::process;

use crate::capi;
use crate::peers::{Library, Peer};
use crate::server::case::{Case, Judge};
use crate::server::launcher::Launcher;
use crate::server::missing;
use crate::tally::Tally;
use checks::{CHECKS, Check, NOTES, note};

/// The number of processes of each job.
const SIZE: u32 = 3;

/// The number of concurrent runs, which mostly wait.
const AT_ONCE: usize = 3;

/// The time limit of one run, and of a run that is known to fail.
const LIMIT: Duration = Duration::from_secs(25);

const LIMIT_OF_KNOWN: Duration = Duration::from_secs(5);

/// The number of attempts under a real server, which sometimes crashes.
const ATTEMPTS: u32 = 3;

/// The time limit of all runs together.
const LIMIT_OF_ALL: Duration = Duration::from_secs(30 * 60);

/// The libraries in private roots: the name in reports, the release of Debian, and the packages. Their tables are at the
/// end of the page and are not compared. What holds with every real library on the other side must hold with pmix-rs.
const ROOTS: &[(&str, &str, &[&str])] = &[
    ("5.0.7", "trixie", install::TRIXIE),
    ("7.0", install::NEWEST, install::SID),
];

/// The page with which the results are compared.
const PAGE: &str = "docs/skew.md";

/// A program with a library, and the library's name in the table.
struct Side<T> {
    library: String,
    program: T,
}

/// A check of a pair: the indexes of the check, the server and the client.
type Cell = (usize, usize, usize);

/// Runs every check with every pair, and compares or writes the page.
///
/// # Errors
/// Returns a message if a program does not compile.
pub(crate) fn run(peers: &[Peer], write: bool, tally: &mut Tally) -> Result<(), String> {
    let Some(include) = peers.first().map(|peer| peer.library.include()) else {
        return Ok(());
    };
    // All libraries use the headers of a real release, which proves that ours accepts them unchanged.
    let ours = Library::new(include.to_owned(), capi::library("dev")?.file().to_owned());
    let mut servers = vec![Side {
        program: Launcher::host_of("ours", &ours)?,
        library: "ours".to_owned(),
    }];
    let mut clients = vec![client("ours", &ours, &[])?];
    for peer in peers {
        let release = release(&peer.version);
        servers.push(Side {
            program: Launcher::host(peer)?,
            library: release.to_owned(),
        });
        clients.push(client(release, &peer.library, &[])?);
    }
    let mut versions = Vec::new();
    for (release, debian, packages) in ROOTS {
        let root = Root::debian(debian, packages);
        let library = root.and_then(|root| {
            let version = root.version("libpmix2t64")?;
            println!("{release}: libpmix2t64 {version}");
            versions.push(format!("- {release}: libpmix2t64 {version} of {debian}"));
            Library::loaded_from(&root, include.to_owned())
        });
        match library {
            Ok(library) => {
                servers.push(Side {
                    program: Launcher::host_of(release, &library)?,
                    library: (*release).to_owned(),
                });
                clients.push(client(release, &library, &[])?);
            }
            // sid changes from day to day, so the absence of a root is no failure.
            Err(why) => tally.skip("skew: private roots", &format!("{release}: {why}")),
        }
    }
    match older(include) {
        Ok(older) => clients.push(client("3.2", &older, &["skew/older.c"])?),
        Err(why) => missing(&why, tally),
    }
    let held = run_all(&servers, &clients)?;
    judge(&servers, &clients, &held, tally);
    compare_page(&servers, &clients, &held, &versions, write, tally)
}

/// Returns the release of a version: `4.2.2` for `4.2.2rc2`.
fn release(version: &str) -> &str {
    version.split("rc").next().unwrap_or(version)
}

/// Builds the library that contains the 3.2 client.
fn older(include: &Path) -> Result<Library, String> {
    let compiler = install::older_mpicc()?;
    let library = compiler
        .ancestors()
        .nth(2)
        .map(|prefix| prefix.join("lib/libopen-pal.so.40"))
        .filter(|file| file.exists())
        .ok_or_else(|| format!("no libopen-pal.so.40 beside {}", compiler.display()))?;
    Ok(Library::new(include.to_owned(), library))
}

/// The sources of the client.
const PARTS: &[&str] = &[
    "skew/skew.c",
    "skew/later.c",
    "skew/types.c",
    "programs/check.c",
];

fn client(release: &str, library: &Library, more: &[&str]) -> Result<Side<PathBuf>, String> {
    let source = process::root().join("tests/server");
    let program = install::scratch("interop/skew")?.join(format!("skew-{release}"));
    let parts = PARTS.iter().chain(more).map(|part| source.join(part));
    library.compile_with(&program, &source, &parts.collect::<Vec<_>>())?;
    Ok(Side {
        library: release.to_owned(),
        program,
    })
}

/// The result of each cell. An error is the reason of a failure.
type Held = HashMap<Cell, Result<(), String>>;

fn run_all(servers: &[Side<Launcher>], clients: &[Side<PathBuf>]) -> Result<Held, String> {
    let home = install::scratch("interop/skew")?;
    let until = Instant::now() + LIMIT_OF_ALL;
    let mut cells = VecDeque::new();
    for check in 0..CHECKS.len() {
        for server in 0..servers.len() {
            cells.extend((0..clients.len()).map(|client| (check, server, client)));
        }
    }
    let waiting = Mutex::new(cells);
    let worker = || {
        let mut held = Held::new();
        while let Some(cell) = waiting.lock().ok()?.pop_front() {
            let (check, server, client) = cell;
            let done = run_cell(
                &CHECKS[check],
                &servers[server],
                &clients[client],
                &home,
                until,
            );
            held.insert(cell, done);
        }
        Some(held)
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        let mut all = Held::new();
        for running in running {
            let held = running.join().ok().flatten();
            all.extend(held.ok_or("a thread of the checks panicked")?);
        }
        Ok(all)
    })
}

/// Runs one check, and repeats it with a real server, which sometimes crashes.
fn run_cell(
    check: &Check,
    server: &Side<Launcher>,
    client: &Side<PathBuf>,
    home: &Path,
    until: Instant,
) -> Result<(), String> {
    let known = note(check.name, &server.library, &client.library).is_some();
    let attempts = if server.library == "ours" || known || is_in_root(&server.library) {
        1
    } else {
        ATTEMPTS
    };
    let name = format!(
        "{} of {} under {}",
        check.name, client.library, server.library
    );
    let mut command = server.program.command(SIZE);
    command
        .args(["--procs", "stated"])
        .args(check.host)
        .arg(&client.program)
        .arg(check.name);
    let mut case = Case {
        what: "skew".to_owned(),
        name: name.clone(),
        command,
        limit: if known { LIMIT_OF_KNOWN } else { LIMIT },
        judge: Judge::Code(check.code),
        is_control: false,
    };
    let output = home.join(name.replace(' ', "-"));
    let mut done = case.run(&output, home, until);
    for _ in 1..attempts {
        match &done {
            Ok(()) => break,
            Err(why) => println!("again: {why}"),
        }
        done = case.run(&output, home, until);
    }
    done
}

/// Returns `true` for a library in a private root.
fn is_in_root(name: &str) -> bool {
    ROOTS.iter().any(|(release, ..)| *release == name)
}

/// Counts the results that match the notes.
fn judge(servers: &[Side<Launcher>], clients: &[Side<PathBuf>], held: &Held, tally: &mut Tally) {
    let (server_names, client_names) = (names(servers), names(clients));
    for ((check, server, client), done) in held {
        let (check, server, client) = (
            CHECKS[*check].name,
            server_names[*server],
            client_names[*client],
        );
        let what = format!("skew: clients of {client} under a server of {server}");
        if is_in_root(server) || is_in_root(client) {
            // The library of a root changes from day to day, so what other real libraries achieve takes the place of
            // notes: what holds for each of them on one side must hold for ours.
            let real = held.iter().filter(|((k, s, c), _)| {
                let (s, c) = (server_names[*s], client_names[*c]);
                CHECKS[*k].name == check
                    && if server == "ours" {
                        c == client && s != "ours" && s != "3.2"
                    } else {
                        s == server && c != "ours" && c != "3.2"
                    }
            });
            let holds_for_real = real.clone().count() > 0 && { real }.all(|(_, done)| done.is_ok());
            let is_ours = server == "ours" || client == "ours";
            match done {
                Err(why) if is_ours && holds_for_real => tally.fail(&what, why),
                Err(_) => {
                    println!("{check}: no, of {client} under {server}");
                    tally.pass(&what);
                }
                Ok(()) => tally.pass(&what),
            }
            continue;
        }
        match (note(check, server, client), done) {
            (Some((_, limit)), _) if limit.is_refuted(done.is_ok()) => {
                tally.fail(
                    &what,
                    &format!("{check}: it holds, against a note: {}", limit.text),
                );
            }
            // The failure is a known limit.
            (Some(_), _) | (None, Ok(())) => tally.pass(&what),
            (None, Err(why)) => tally.fail(&what, why),
        }
    }
}

/// Returns the names of the libraries.
fn names<T>(sides: &[Side<T>]) -> Vec<&str> {
    sides.iter().map(|side| &*side.library).collect()
}

/// Compares or writes the page if every pair was measured. The tables of libraries in private roots are only written.
fn compare_page(
    servers: &[Side<Launcher>],
    clients: &[Side<PathBuf>],
    held: &Held,
    versions: &[String],
    write: bool,
    tally: &mut Tally,
) -> Result<(), String> {
    let (servers, clients) = (names(servers), names(clients));
    let holds = |check: &str, server: &str, client: &str| {
        let check = CHECKS.iter().position(|one| one.name == check);
        let server = servers.iter().position(|one| *one == server);
        let client = clients.iter().position(|one| *one == client);
        let cell = check.zip(server).zip(client).map(|((a, b), c)| (a, b, c));
        cell.and_then(|cell| held.get(&cell))
            .is_some_and(Result::is_ok)
    };
    let (roots, system_servers): (Vec<_>, Vec<_>) =
        servers.iter().partition(|name| is_in_root(name));
    let system_clients: Vec<_> = clients
        .iter()
        .copied()
        .filter(|name| !is_in_root(name))
        .collect();
    if system_servers.len() < 3 || system_clients.len() < 4 {
        return Ok(());
    }
    let page = page(&system_servers, &system_clients, holds);
    let file = process::root().join(PAGE);
    let read = || std::fs::read_to_string(&file).map_err(|e| format!("{PAGE}: {e}"));
    if write {
        let others = match roots.len() == ROOTS.len() {
            true => appendix(&roots, &clients, versions, holds),
            false => read()?.split_off(page_of_system(&read()?).len()),
        };
        std::fs::write(&file, page.clone() + &others).map_err(|e| format!("{PAGE}: {e}"))?;
    }
    match page_of_system(&read()?) == page {
        true => tally.pass("skew: the page"),
        false => tally.fail(
            "skew: the page",
            &format!("{PAGE} is not what was measured; --write writes it"),
        ),
    }
    Ok(())
}

/// Returns the part of the page before the tables of libraries in private roots.
fn page_of_system(page: &str) -> &str {
    page.split_once(OTHERS).map_or(page, |(system, _)| system)
}

/// The beginning of the tables of libraries in private roots.
const OTHERS: &str = "\n# Libraries of newer releases of Debian\n";

/// The introduction of these tables.
const ABOUT_OTHERS: &str = "
These tables have the libraries of other releases of Debian in private roots, whose versions change. The task writes the
tables and does not compare them. It fails if a check fails with pmix-rs on one side but passes with every release of
OpenPMIx since 4.2.2 in place of pmix-rs.

";

/// Returns the tables of libraries in private roots: their servers with all clients, and our server with their clients.
fn appendix(
    roots: &[&str],
    clients: &[&str],
    versions: &[String],
    holds: impl Fn(&str, &str, &str) -> bool,
) -> String {
    let mut text = format!("{OTHERS}{ABOUT_OTHERS}{}\n", versions.join("\n"));
    let tables = [("ours", roots)];
    for (server, clients) in tables
        .into_iter()
        .chain(roots.iter().map(|root| (*root, clients)))
    {
        let title = format!("{server}, clients: {}", clients.join(", "));
        write_table(&mut text, &title, clients, |check, client| {
            shown(holds(check, server, client))
        });
    }
    text
}

const HEAD: &str = "\
<!-- Written by `cargo xtask interop skew --write`. -->
# Servers and clients of different releases

`cargo xtask interop skew` runs a host in C (`tests/server/host`) with the server library of one release, and three
processes (`tests/server/skew`) with the client library of another release. Both are compiled with the headers of 4.2.2.
`ours` is pmix-rs; the other names are releases of OpenPMIx. The client of 3.2 is the client inside Open MPI 4.1.8. Each
table has one server. The task fails if a result differs from this page. A `no` has a note, and its cause is OpenPMIx:
the check also fails without pmix-rs.

Expected results: the server refuses a process of another user, a spawn returns `PMIX_ERR_NOT_SUPPORTED` because the
host does not spawn, and the host ends the job after an abort or a killed process.
";

/// Writes a table of results. `cell` returns the text for a check and a client.
fn write_table(
    text: &mut String,
    title: &str,
    clients: &[&str],
    cell: impl Fn(&str, &str) -> String,
) {
    let _ = write!(text, "\n## Server: {title}\n\n| check | ");
    let _ = writeln!(text, "{} |", clients.join(" | "));
    let _ = writeln!(text, "| --- |{}", " --- |".repeat(clients.len()));
    for check in CHECKS {
        let _ = write!(text, "| {} |", check.title);
        for client in clients {
            let _ = write!(text, " {} |", cell(check.name, client));
        }
        text.push('\n');
    }
}

/// Returns the text of a result without a note.
fn shown(holds: bool) -> String {
    let text = if holds { "yes" } else { "no" };
    text.to_owned()
}

/// Returns the page. `held` returns `true` if a check succeeded between a server and a client.
fn page(servers: &[&str], clients: &[&str], held: impl Fn(&str, &str, &str) -> bool) -> String {
    let mut page = HEAD.to_owned();
    for server in servers {
        write_table(&mut page, server, clients, |check, client| {
            let holds = held(check, server, client);
            match note(check, server, client) {
                Some((number, limit)) if !limit.is_refuted(holds) => format!("no ({number})"),
                _ => shown(holds),
            }
        });
    }
    page.push_str("\n## Notes\n\n");
    for (number, note) in (1..).zip(NOTES) {
        let _ = writeln!(page, "{number}. {}", note.text);
    }
    page
}

#[cfg(test)]
mod tests {
    use xtask::process;

    use super::*;

    const LIBRARIES: [&str; 4] = ["ours", "4.2.2", "5.0.11", "3.2"];

    #[test]
    fn the_committed_page_is_that_of_the_notes() {
        let all = page(&LIBRARIES[..3], &LIBRARIES, |check, server, client| {
            note(check, server, client).is_none()
        });
        let committed = std::fs::read_to_string(process::root().join("docs/skew.md"));
        assert_eq!(page_of_system(&committed.expect("the page")), all);
    }

    #[test]
    fn what_did_not_hold_is_a_no() {
        let none = page(&["ours"], &["ours"], |_, _, _| false);
        assert_eq!(none.matches("| no |").count(), CHECKS.len());
    }
}

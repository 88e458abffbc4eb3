// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks of settings: parameters, security modules, variables of a launcher, and the
//! configuration of Slurm.

use std::ffi::OsStr;
use std::fs;
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pmix_client::{Settings, Uri};
use pmix_mca::Params;
use pmix_server::{NoHost, Server};
use pmix_types::Status;

use super::{Finding, Subject, libraries};
use crate::args::Global;
use crate::context;
use crate::info::server_catalogs;

/// The time limit for connecting to a server.
const CONNECT: Duration = Duration::from_secs(2);
/// The default socket of the MUNGE daemon.
const MUNGE: &str = "/run/munge/munge.socket.2";
/// The default paths of Slurm's configuration.
const SLURM: &[&str] = &["/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf"];
/// The default directories of Slurm's plug-ins.
const SLURM_PLUGINS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/slurm-wlm",
    "/usr/lib/aarch64-linux-gnu/slurm-wlm",
    "/usr/lib64/slurm",
    "/usr/lib/slurm",
    "/usr/local/lib/slurm",
];
/// The maximum size of a plug-in of Slurm in bytes.
const LARGEST_PLUGIN: u64 = 16 << 20;
/// The maximum size of a configuration file in bytes.
const LONGEST: u64 = 1 << 20;

pub(super) fn check(global: &Global, subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    match context::params(global) {
        Err(failure) => findings.push(Finding::fault(
            "parameters",
            failure.message(),
            "`pmix info` shows every parameter and the source of its value",
        )),
        Ok(params) => {
            findings.push(parameters(&params));
            findings.extend(server(&params, subject));
            findings.push(munge(&params));
        }
    }
    findings.extend(launched(subject));
    if let Some(path) = subject.var("HWLOC_XMLFILE")
        && let Err(error) = fs::metadata(&path)
    {
        findings.push(Finding::fault(
            "topology",
            format!("HWLOC_XMLFILE names {path}: {error}"),
            "unset it, or create the file with lstopo --of xml",
        ));
    }
    findings.push(slurm(subject));
    findings
}

fn parameters(params: &Params) -> Finding {
    let refused = pmix_builtin::open_preg(params).err().map(|e| e.to_string());
    let refused = refused.or_else(|| {
        let catalogs = server_catalogs();
        let mut checked = catalogs.iter().filter_map(|one| one.check(params).err());
        checked.next().map(|error| error.to_string())
    });
    let files: Vec<_> = { params.files().iter() }
        .map(|file| file.display().to_string())
        .collect();
    match refused {
        Some(why) => Finding::fault(
            "parameters",
            why,
            "`pmix info` shows every parameter and the source of its value",
        ),
        None if files.is_empty() => Finding::ok("parameters", "no configuration file"),
        None => Finding::ok("parameters", format!("read {}", files.join(", "))),
    }
}

/// Checks that a server can start with its security modules. Another check reports unusable
/// directories.
fn server(params: &Params, subject: &Subject<'_>) -> Option<Finding> {
    let dir = subject.directory(&["PMIX_SERVER_TMPDIR", "TMPDIR", "TEMP", "TMP"]);
    if !dir.is_dir() {
        return None;
    }
    let built = Server::builder()
        .host(NoHost)
        .nspace(format!("doctor.{}", std::process::id()))
        .server_tmpdir(&dir)
        .system_tmpdir(&dir)
        .params(params.clone())
        .build();
    let started = built.and_then(|server| {
        server.start()?;
        server.finalize()
    });
    Some(match started {
        Ok(()) => {
            let modules = match params.text("psec", "") {
                "" => "all enabled",
                named => named,
            };
            Finding::ok("server", format!("can start; security modules: {modules}"))
        }
        Err(error) => Finding::fault(
            "server",
            format!("cannot start: {error}"),
            "`pmix info psec` shows the parameters of security modules",
        ),
    })
}

/// Checks that the MUNGE daemon listens. This is required if its security module is configured.
fn munge(params: &Params) -> Finding {
    let socket = match params.text("psec_munge_socket", "") {
        "" => MUNGE,
        named => named,
    };
    let named = params.text("psec", "");
    let is_wanted = !named.starts_with('^') && named.split(',').any(|one| one.trim() == "munge");
    match (UnixStream::connect(socket), is_wanted) {
        (Ok(_), _) => Finding::ok("munge", format!("the daemon listens on {socket}")),
        (Err(error), true) => Finding::fault(
            "munge",
            format!("psec = {named}, but no daemon answers on {socket}: {error}"),
            "start munged, or set psec_munge_socket to its socket",
        ),
        (Err(_), false) => Finding::ok("munge", "no daemon is running; none is required"),
    }
}

/// Checks the variables of a launcher in the environment. They may be those of a job that has
/// terminated.
fn launched(subject: &Subject<'_>) -> Option<Finding> {
    const HELP: &str = "a launcher sets these variables for its processes: unset PMIX_NAMESPACE, PMIX_RANK \
    and PMIX_SERVER_URI* in a shell outside a job";
    match Settings::of(subject.environment) {
        Ok(settings) => {
            let Uri {
                server, address, ..
            } = settings.server.as_ref()?;
            let name = &server.nspace;
            Some(match TcpStream::connect_timeout(address, CONNECT) {
                Ok(_) => Finding::ok(
                    "environment",
                    format!("this is {} of {name}", settings.proc.nspace),
                ),
                Err(error) => Finding::fault(
                    "environment",
                    format!(
                        "the server {name} named by the environment cannot be reached: {error}"
                    ),
                    HELP,
                ),
            })
        }
        Err(error) if error.status() == Status::ERR_NOT_AVAILABLE => {
            let is_left = ["PMIX_NAMESPACE", "PMIX_RANK"].iter();
            let left: Vec<_> = is_left.filter(|name| subject.var(name).is_some()).collect();
            match (left.first(), Uri::of_environment(subject.environment)) {
                (_, Err(error)) => Some(Finding::fault("environment", error.to_string(), HELP)),
                (Some(name), Ok(_)) => Some(Finding::fault(
                    "environment",
                    format!("{name} is set: {error}"),
                    HELP,
                )),
                (None, Ok(_)) => None,
            }
        }
        Err(error) => Some(Finding::fault("environment", error.to_string(), HELP)),
    }
}

/// Checks that Slurm has its plug-in for PMIx.
fn slurm(subject: &Subject<'_>) -> Finding {
    let named = subject.var("SLURM_CONF").map(PathBuf::from);
    let usual = SLURM.iter().map(PathBuf::from).find(|path| path.exists());
    let Some(path) = named.or(usual) else {
        return Finding::ok("slurm", "no slurm.conf");
    };
    let shown = path.display();
    let text = match pmix_files::read_regular(&path, LONGEST) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            let found = format!("{shown}: {error}");
            return Finding::fault(
                "slurm",
                found,
                "set SLURM_CONF to the configuration file of the cluster",
            );
        }
    };
    let setting = |name: &str| {
        text.lines().rev().find_map(|line| {
            let (key, value) = line.split('#').next()?.split_once('=')?;
            key.trim()
                .eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    };
    let dirs: Vec<PathBuf> = match setting("PluginDir") {
        Some(list) => list.split(':').map(PathBuf::from).collect(),
        None => SLURM_PLUGINS
            .iter()
            .map(PathBuf::from)
            .filter(|dir| dir.exists())
            .collect(),
    };
    let missing: Vec<_> = dirs.iter().filter(|dir| !dir.is_dir()).collect();
    if let Some(dir) = missing.first() {
        let found = format!("{shown}: PluginDir {} does not exist", dir.display());
        return Finding::fault(
            "slurm",
            found,
            "install Slurm's plug-ins, or correct PluginDir",
        );
    }
    let plugins: Vec<_> = dirs.iter().flat_map(|dir| plugins_in(dir)).collect();
    let asked = subject
        .var("SLURM_MPI_TYPE")
        .or_else(|| setting("MpiDefault"));
    let wants = asked.is_some_and(|name| name.starts_with("pmix"));
    match (plugins.is_empty(), wants) {
        (false, _) => loaded(
            subject,
            &format!("{shown}: {}", plugins.join(", ")),
            &plugins,
        ),
        (true, true) => Finding::fault(
            "slurm",
            format!("{shown}: MpiDefault is pmix, but the plug-in mpi_pmix.so is not installed"),
            "install Slurm's plug-in for PMIx, or set MpiDefault to another",
        ),
        (true, false) => Finding::warning(
            "slurm",
            format!("{shown}: the plug-in mpi_pmix.so is not installed"),
            "srun --mpi=pmix does not work without it",
        ),
    }
}

/// Reports the libraries that plug-ins open.
fn loaded(subject: &Subject<'_>, found: &str, plugins: &[String]) -> Finding {
    let mut libraries: Vec<PathBuf> = plugins.iter().flat_map(opened).collect();
    libraries.sort();
    libraries.dedup();
    let (mut shown, mut versions) = (Vec::new(), Vec::new());
    for library in &libraries {
        match libraries::version(library) {
            Ok(version) => {
                shown.push(format!("{version} in {}", library.display()));
                versions.push(version);
            }
            Err(why) => {
                return Finding::fault(
                    "slurm",
                    format!("{found}, which opens {}: {why}", library.display()),
                    "install a libpmix there: srun --mpi=pmix fails without it",
                );
            }
        }
    }
    if let Some((path, version)) = libraries::first(subject)
        && !versions.is_empty()
        && !versions.contains(&version)
    {
        return Finding::warning(
            "slurm",
            format!(
                "{found}, which opens {}, but programs load {version} in {}",
                shown.join(", "),
                path.display()
            ),
            "srun --mpi=pmix serves programs with a library of another release: install one release for both (the plug-in \
             opens an absolute path, so LD_LIBRARY_PATH of slurmd has no effect)",
        );
    }
    match shown.is_empty() {
        true => Finding::ok("slurm", found),
        false => Finding::ok(
            "slurm",
            format!("{found}, which opens {}", shown.join(", ")),
        ),
    }
}

/// Returns the files of `libpmix` that a plug-in opens. Its file has the name of the library and the directory that its
/// configure script found, as two strings. A plug-in that was built with a run path has no directory.
fn opened(plugin: &String) -> Vec<PathBuf> {
    let bytes = pmix_files::read_regular(Path::new(plugin), LARGEST_PLUGIN).unwrap_or_default();
    let texts: Vec<_> = bytes.split(|byte| *byte == 0).collect();
    let names = ["libpmix.so.2", "libpmix.so"];
    let name = names
        .into_iter()
        .find(|name| texts.contains(&name.as_bytes()));
    let Some(name) = name else {
        return Vec::new();
    };
    let paths = texts
        .iter()
        .filter(|text| text.starts_with(b"/") && !text.contains(&b'%'));
    let files = paths.map(|dir| Path::new(OsStr::from_bytes(dir)).join(name));
    // Other absolute paths in the plug-in have no such file. The directory of a library that was removed still has
    // PMIx in its name.
    files
        .filter(|file| file.exists() || names_pmix(file))
        .collect()
}

/// Returns `true` if the name of the directory contains `pmix`.
fn names_pmix(file: &Path) -> bool {
    let dir = file.parent().unwrap_or(file).as_os_str().as_bytes();
    memchr::memmem::find(dir, b"pmix").is_some()
}

/// Returns the plug-ins for PMIx in a directory.
fn plugins_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names
        .filter(|name| name.starts_with("mpi_pmix") && name.ends_with(".so"))
        .map(|name| dir.join(name).display().to_string())
        .collect();
    names.sort();
    names
}

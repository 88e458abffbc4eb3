// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of a launcher that a tool starts as its child: the command, its environment and its job info,
//! from the infos and the application of `PMIx_Spawn`.
//!
//! | attribute | effect |
//! | --- | --- |
//! | `PMIX_LAUNCH_DIRECTIVES`, `PMIX_DEBUG_STOP_IN_INIT` | passed to the launcher in its job info |
//! | `PMIX_SET_ENVAR` and the like, `PMIX_LAUNCHER_RENDEZVOUS_FILE` | changes the environment |
//! | `PMIX_WDIR` | the working directory |
//! | `PMIX_FWD_STDIN` | the launcher reads the standard input of the tool; without it, it reads nothing |
//! | `PMIX_SPAWN_TOOL`, `PMIX_FWD_STDOUT`, `PMIX_FWD_STDERR`, `PMIX_NOTIFY_COMPLETION`, `PMIX_PERSONALITY`, `PMIX_NON_PMI` | none: the launcher always shares the standard output and error of the tool, and its exit is always reported |
//! | others | `PMIX_ERR_NOT_SUPPORTED` if required, otherwise none |
//!
//! Source: PMIx Standard, chapter "Process Management", `PMIx_Spawn`, and chapter "Tools and Debuggers".

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{fs, io};

use pmix_client::Uri;
use pmix_mca::Environment;
use pmix_types::{App, Envar, Info, InfoFlags, Status, Text, Value, keys};

use crate::Error;

/// Prefixes of the names of variables that describe the process of the tool, which a launcher must not inherit.
const OF_TOOL: &[&str] = &[
    "PMIX_SERVER_URI",
    "PMIX_LAUNCHER_",
    "PMIX_KEEPALIVE_PIPE",
    "PMIXRS_",
];

/// The attributes that request behavior that every launcher has anyway.
const GIVEN: &[&str] = &[
    keys::SPAWN_TOOL,
    keys::FWD_STDOUT,
    keys::FWD_STDERR,
    keys::NOTIFY_COMPLETION,
    keys::PERSONALITY,
    keys::NON_PMI,
];

/// The attributes that change the launcher's environment.
const OF_VARIABLES: &[&str] = &[
    keys::SET_ENVAR,
    keys::ADD_ENVAR,
    keys::PREPEND_ENVAR,
    keys::APPEND_ENVAR,
    keys::FIRST_ENVAR,
    keys::UNSET_ENVAR,
    keys::LAUNCHER_RENDEZVOUS_FILE,
];

/// The command line of a launcher to start.
pub(super) struct CommandLine {
    /// The program, if it is not the first word.
    program: Option<OsString>,
    words: Vec<OsString>,
    wdir: Option<PathBuf>,
    vars: BTreeMap<OsString, OsString>,
    reads: bool,
    /// The infos for the launcher's job.
    pub(super) job_info: Vec<Info<'static>>,
}

impl CommandLine {
    /// Builds the command line from the arguments of `PMIx_Spawn`.
    pub(super) fn of(infos: &[Info<'static>], apps: &[App<'static>]) -> Result<Self, Error> {
        let [app] = apps else {
            let why = "a tool without a server can start only one launcher at a time";
            return Err(Error::new(Status::ERR_NOT_SUPPORTED, why));
        };
        match app.maxprocs {
            0 | 1 => {}
            number => {
                let why = format!("a launcher is one process, not {number}");
                let status = match number {
                    ..0 => Status::ERR_BAD_PARAM,
                    _ => Status::ERR_NOT_SUPPORTED,
                };
                return Err(Error::new(status, why));
            }
        }
        let words = app.argv.iter().map(own);
        let cmd = app.cmd.as_ref().map(own);
        let mut line = Self {
            program: cmd.filter(|cmd| !cmd.is_empty()),
            words: words.collect(),
            wdir: app.cwd.as_ref().map(|cwd| own(cwd).into()),
            vars: inherited(),
            reads: false,
            job_info: Vec::new(),
        };
        let program = line.program.as_ref().or_else(|| line.words.first());
        if program.is_none_or(|program| program.is_empty()) {
            let why = "the application of a launcher names no program";
            return Err(Error::new(Status::ERR_JOB_NO_EXE_SPECIFIED, why));
        }
        for text in &app.env {
            let text = text.as_bytes();
            if let Some(at) = text.iter().position(|byte| *byte == b'=') {
                let (name, value) = text.split_at(at);
                let value = value.get(1..).unwrap_or_default();
                line.set(OsStr::from_bytes(name), OsStr::from_bytes(value));
            }
        }
        for info in infos.iter().chain(&app.info) {
            line.take(info)?;
        }
        Ok(line)
    }

    fn take(&mut self, info: &Info<'static>) -> Result<(), Error> {
        let is_any = |keys: &[&str]| keys.iter().any(|key| info.key.is(key));
        if is_any(&[keys::LAUNCH_DIRECTIVES, keys::DEBUG_STOP_IN_INIT]) {
            self.job_info.push(Info {
                flags: InfoFlags::default(),
                ..info.clone()
            });
        } else if is_any(OF_VARIABLES) {
            self.variable(info)?;
        } else if is_any(&[keys::WDIR]) {
            self.wdir = Some(text(info)?.into());
        } else if is_any(&[keys::FWD_STDIN]) {
            self.reads = info.truth().is_true();
        } else if !is_any(GIVEN) && info.flags.contains(InfoFlags::REQD) {
            let key = &info.key;
            let why = format!("a tool that starts a launcher itself does not support {key}");
            return Err(Error::new(Status::ERR_NOT_SUPPORTED, why));
        }
        Ok(())
    }

    fn variable(&mut self, info: &Info<'static>) -> Result<(), Error> {
        let is = |key: &str| info.key.is(key);
        if is(keys::UNSET_ENVAR) {
            self.vars.remove(&text(info)?);
            return Ok(());
        }
        if is(keys::LAUNCHER_RENDEZVOUS_FILE) {
            let file = text(info)?;
            self.set("PMIX_LAUNCHER_RENDEZVOUS_FILE".as_ref(), &file);
            return Ok(());
        }
        let Value::Envar(envar) = &info.value else {
            return Err(wrong(info, "an environment variable"));
        };
        let Envar {
            envar,
            value,
            separator,
        } = &**envar;
        let name = envar.as_ref().map(own).unwrap_or_default();
        let value = value.as_ref().map(own).unwrap_or_default();
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            return Err(wrong(info, "a variable with a valid name"));
        }
        let known = self.vars.get(&name).filter(|known| !known.is_empty());
        let joined = |first: &OsStr, second: &OsStr| {
            let bytes = [first.as_bytes(), &[*separator], second.as_bytes()].concat();
            OsString::from_vec(bytes)
        };
        let new = match known {
            Some(_) if is(keys::ADD_ENVAR) => return Ok(()),
            Some(known) if is(keys::APPEND_ENVAR) => joined(known, &value),
            Some(known) if !is(keys::SET_ENVAR) => joined(&value, known),
            _ => value,
        };
        self.set(&name, &new);
        Ok(())
    }

    /// Sets a variable. A variable that cannot be passed to a process is skipped.
    fn set(&mut self, name: &OsStr, value: &OsStr) {
        let has_end = |text: &OsStr| text.as_bytes().contains(&0);
        if !(name.is_empty() || has_end(name) || has_end(value)) {
            self.vars.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Returns `true` if the environment tells the launcher to connect to the server with this URI.
    pub(super) fn connects_with(&self, uri: &str) -> bool {
        let named = self.vars.get(OsStr::new("PMIX_LAUNCHER_RNDZ_URI"));
        let parsed = |text: &str| text.parse::<Uri>().ok();
        named.and_then(|named| named.to_str()).is_some_and(|named| {
            named == uri || parsed(named).is_some_and(|named| parsed(uri) == Some(named))
        })
    }

    /// Returns the command. The variables in `more` replace variables of the same name.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_JOB_WDIR_NOT_FOUND` or `PMIX_ERR_JOB_WDIR_NOT_ACCESSIBLE` if the working directory does not
    /// exist or may not be entered.
    pub(super) fn command(self, more: Vec<(OsString, OsString)>) -> Result<Command, Error> {
        let name = self.words.first();
        let program = self.program.as_ref().or(name);
        // `of` has checked that there is a program.
        let mut command = Command::new(program.map(OsString::as_os_str).unwrap_or_default());
        if let Some(name) = name {
            command.arg0(name);
        }
        let args = self.words.iter().skip(1);
        command.args(args).env_clear().envs(self.vars).envs(more);
        if let Some(wdir) = self.wdir.filter(|wdir| !wdir.as_os_str().is_empty()) {
            // The `.` makes the kernel check that the directory may be entered.
            match fs::metadata(wdir.join(".")) {
                Ok(_) => {}
                Err(error) if is_missing(&error) => {
                    let why = format!("the directory {} does not exist", wdir.display());
                    return Err(Error::new(Status::ERR_JOB_WDIR_NOT_FOUND, why));
                }
                Err(error) => {
                    let why = format!(
                        "cannot enter the working directory {}: {error}",
                        wdir.display()
                    );
                    return Err(Error::new(Status::ERR_JOB_WDIR_NOT_ACCESSIBLE, why));
                }
            }
            command.current_dir(wdir);
        }
        if !self.reads {
            command.stdin(Stdio::null());
        }
        Ok(command)
    }
}

/// Returns `true` if a path does not exist.
fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Returns the variables of this process that do not describe the tool itself.
fn inherited() -> BTreeMap<OsString, OsString> {
    let all = Environment::of_process().vars.into_iter();
    let is_of_tool = |name: &OsString| {
        let mut beginnings = OF_TOOL.iter();
        beginnings.any(|beginning| name.as_bytes().starts_with(beginning.as_bytes()))
    };
    all.filter(|(name, _)| !is_of_tool(name)).collect()
}

fn own(text: &Text<'_>) -> OsString {
    OsString::from_vec(text.as_bytes().to_vec())
}

fn text(info: &Info<'_>) -> Result<OsString, Error> {
    match &info.value {
        Value::String(Some(text)) if !text.is_empty() => Ok(own(text)),
        _ => Err(wrong(info, "a text")),
    }
}

fn wrong(info: &Info<'_>, expected: &str) -> Error {
    let why = format!("{} of a launcher must be {expected}", info.key);
    Error::new(Status::ERR_BAD_PARAM, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app() -> App<'static> {
        App {
            argv: ["launcher", "run"].map(Into::into).to_vec(),
            maxprocs: 1,
            ..App::default()
        }
    }

    fn line(infos: &[Info<'static>], app: App<'static>) -> Result<CommandLine, Error> {
        CommandLine::of(infos, &[app])
    }

    fn var(key: &'static str, name: &'static str, value: &'static str) -> Info<'static> {
        let envar = Envar {
            envar: Some(name.into()),
            value: Some(value.into()),
            separator: b':',
        };
        Info::new(key, Value::Envar(Box::new(envar)))
    }

    #[test]
    fn variables_are_set_and_changed_in_their_order() {
        let infos = [
            var(keys::SET_ENVAR, "S", "set"),
            var(keys::ADD_ENVAR, "S", "added"),
            var(keys::ADD_ENVAR, "N", "added"),
            var(keys::APPEND_ENVAR, "A", "behind"),
            var(keys::PREPEND_ENVAR, "A", "before"),
            Info::new(keys::UNSET_ENVAR, "U"),
            Info::new(keys::LAUNCHER_RENDEZVOUS_FILE, "/file"),
        ];
        let app = App {
            env: ["A=x=y", "U=x", "none", "=x"].map(Into::into).to_vec(),
            ..app()
        };
        let line = line(&infos, app).unwrap_or_else(|_| panic!("a command"));
        let of = |name: &str| line.vars.get(OsStr::new(name)).and_then(|it| it.to_str());
        assert_eq!((of("S"), of("N")), (Some("set"), Some("added")));
        assert_eq!((of("A"), of("U")), (Some("before:x=y:behind"), None));
        assert_eq!(of("PMIX_LAUNCHER_RENDEZVOUS_FILE"), Some("/file"));
        assert_eq!((of("none"), of("")), (None, None));
    }

    #[test]
    fn a_command_has_the_first_argument_for_its_name() {
        let named = App {
            cmd: Some("sh".into()),
            argv: ["name", "-c", "echo $0"].map(Into::into).to_vec(),
            ..app()
        };
        let line = line(&[], named).unwrap_or_else(|_| panic!("a command"));
        let output = line.command(Vec::new()).unwrap().output().unwrap();
        assert_eq!(output.stdout, b"name\n");
    }

    #[test]
    fn an_unusable_working_directory_is_reported() {
        let of = |wdir: &'static str| {
            let app = App {
                cwd: Some(wdir.into()),
                ..app()
            };
            line(&[], app)
                .and_then(|line| line.command(Vec::new()))
                .err()
                .map(|error| error.status())
        };
        assert_eq!(of("/"), None);
        assert_eq!(of("/no/such/place"), Some(Status::ERR_JOB_WDIR_NOT_FOUND));
        assert_eq!(of("/dev/null"), Some(Status::ERR_JOB_WDIR_NOT_FOUND));
        // The kernel returns `ENAMETOOLONG` for a path that is too long, which counts as not accessible.
        let long: &'static str = "/a".repeat(4096).leak();
        assert_eq!(of(long), Some(Status::ERR_JOB_WDIR_NOT_ACCESSIBLE));
    }

    #[test]
    fn a_launcher_connects_to_the_server_in_its_rendezvous_variable() {
        let of = |var: &'static str| {
            let app = App {
                env: vec![var.into()],
                ..app()
            };
            let line = line(&[], app).unwrap_or_else(|_| panic!("a command"));
            line.connects_with("tool.0;tcp4://127.0.0.1:4711")
        };
        assert!(of("PMIX_LAUNCHER_RNDZ_URI=tool.0;tcp4://127.0.0.1:4711"));
        assert!(!of("PMIX_LAUNCHER_RNDZ_URI=tool.0;tcp4://127.0.0.1:4712"));
        assert!(!of("PMIX_LAUNCHER_RNDZ_URI=x"));
        assert!(!of("OTHER=tool.0;tcp4://127.0.0.1:4711"));
    }

    #[test]
    fn an_application_that_a_fork_cannot_start_is_refused() {
        let refused = |infos: &[Info<'static>], app: App<'static>| {
            line(infos, app).err().map(|error| error.status())
        };
        let with = |maxprocs| App { maxprocs, ..app() };
        assert_eq!(refused(&[], with(0)), None);
        assert_eq!(refused(&[], with(2)), Some(Status::ERR_NOT_SUPPORTED));
        assert_eq!(refused(&[], with(-1)), Some(Status::ERR_BAD_PARAM));
        let nameless = App {
            argv: Vec::new(),
            ..app()
        };
        assert_eq!(
            refused(&[], nameless),
            Some(Status::ERR_JOB_NO_EXE_SPECIFIED)
        );
        let tag = Info::new(keys::TAG_OUTPUT, true);
        assert_eq!(refused(std::slice::from_ref(&tag), app()), None);
        assert_eq!(
            refused(&[tag.required()], app()),
            Some(Status::ERR_NOT_SUPPORTED)
        );
        let spawned = Info::new(keys::SPAWN_TOOL, true).required();
        assert_eq!(refused(&[spawned], app()), None);
        let both = CommandLine::of(&[], &[app(), app()]);
        assert_eq!(
            both.err().map(|error| error.status()),
            Some(Status::ERR_NOT_SUPPORTED)
        );
    }
}

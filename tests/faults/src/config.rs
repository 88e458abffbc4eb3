// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that another user plants where a command runs: configuration, and names of session directories.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use xtask::{install, process};

use super::wait::shown;
use super::{Field, Verdict, launcher};

/// The user ID of an unprivileged user.
const STRANGER: u32 = 54_321;

/// The time limit of a command that finds planted files.
const PATIENCE: Duration = Duration::from_secs(60);

/// Commands that read the configuration; the short form runs the first ones.
const COMMANDS: &[&[&str]] = &[
    &["map", "count", "n[1-3]"],
    &["run", "-n", "1", "true"],
    &["plugins", "list"],
    &["info"],
    &["wire", "decode", "--hex", "00"],
    &["map", "encode", "n1,n2"],
    &["hello", "--help"],
    &["info", "--json"],
];

/// A working directory for a command, and a plugin that the command must not load.
struct Trap {
    pmix: PathBuf,
    /// The root of the trap, below the directory for temporary files: a checkout may be owned by any user.
    root: TempDir,
    cwd: PathBuf,
    /// The file that the library creates when it is loaded.
    sign: PathBuf,
}

type Plant = fn(&Trap, &Path) -> std::io::Result<()>;

/// Objects planted as `plugins.toml`, and the text that the warning contains.
const PLANTS: &[(&str, Plant, &str)] = &[
    (
        "writable",
        |trap, at| trap.configuration(at, 0o666),
        "mode 0666",
    ),
    (
        "group-writable",
        |trap, at| trap.configuration(at, 0o664),
        "mode 0664",
    ),
    (
        "below an open directory",
        |trap, at| {
            trap.configuration(at, 0o644)?;
            fs::set_permissions(&trap.cwd, Permissions::from_mode(0o777))
        },
        "mode 0777",
    ),
    (
        "link in an open directory",
        |trap, at| {
            let other = trap.root.path().join("other.toml");
            trap.configuration(&other, 0o644)?;
            symlink(other, at)?;
            fs::set_permissions(&trap.cwd, Permissions::from_mode(0o777))
        },
        "mode 0777",
    ),
    ("pipe", |_, at| fifo(at), "a pipe"),
    ("device", |_, at| symlink("/dev/zero", at), "a device"),
    ("directory", |_, at| fs::create_dir(at), "a directory"),
    (
        "huge",
        |trap, at| {
            trap.configuration(at, 0o644)?;
            File::options().write(true).open(at)?.set_len(1 << 30)
        },
        "more than 4194304 bytes",
    ),
];

/// Objects that only root can plant for another user.
const FOREIGN: &[(&str, Plant, &str)] = &[
    (
        "of another user",
        |trap, at| {
            trap.configuration(at, 0o644)?;
            chown(at, Some(STRANGER), None)
        },
        "belongs to user 54321, mode 0644",
    ),
    (
        "of another user in a sticky directory",
        |trap, at| {
            trap.configuration(at, 0o644)?;
            chown(at, Some(STRANGER), None)?;
            fs::set_permissions(&trap.cwd, Permissions::from_mode(0o1777))
        },
        "belongs to user 54321, mode 0644",
    ),
    (
        "in a directory of another user",
        |trap, at| {
            trap.configuration(at, 0o644)?;
            chown(&trap.cwd, Some(STRANGER), None)
        },
        "belongs to user 54321, mode 0755",
    ),
];

/// Plants configurations of another user: commands load nothing from them and give their usual results.
pub(super) fn planted(field: &Field) -> Result<Verdict, String> {
    let trap = Trap::new(field)?;
    let commands = &COMMANDS[..field.count(COMMANDS.len(), 2)];
    let root = install::is_root();
    let plants = PLANTS.iter().chain(FOREIGN.iter().filter(|_| root));
    let (mut runs, mut longest) = (0u32, Duration::ZERO);
    // Prove that the trap works: a trusted configuration must load the library.
    let at = trap.fresh()?;
    let fault = |e: std::io::Error| e.to_string();
    trap.configuration(&at, 0o644).map_err(fault)?;
    let (output, _) = trap.run(&["map", "encode", "n1,n2"])?;
    if output.stdout != b"raw:n1,n2\n" || !trap.caught() {
        return Err(format!("one's own file is not obeyed: {output:?}"));
    }
    for (what, plant, says) in plants {
        let at = trap.fresh()?;
        let expected = commands.iter().map(|args| trap.run(args));
        let expected: Vec<_> = expected.collect::<Result<_, _>>()?;
        plant(&trap, &at).map_err(|e| format!("{what}: {e}"))?;
        for (args, (without, _)) in commands.iter().zip(&expected) {
            let (output, took) = trap.run(args)?;
            let fault = |why: &str| Err(format!("{what}: {args:?}: {why}: {output:?}"));
            if trap.caught() {
                return fault("code of another user ran");
            }
            if (output.status, &output.stdout) != (without.status, &without.stdout) {
                return fault("it does not answer as without");
            }
            let said = String::from_utf8_lossy(&output.stderr);
            let told = said
                .lines()
                .filter(|line| line.contains("is not read"))
                .count();
            // Help is printed before the configuration is read.
            let due = usize::from(args[0] != "hello");
            if told != due || (due == 1 && !said.contains(says)) {
                return fault("no one warning");
            }
            runs += 1;
            longest = longest.max(took);
        }
    }
    Ok(Verdict::Held(format!(
        "{} kinds of plants, {runs} commands as without, one warning each, the longest {}",
        PLANTS.len() + if root { FOREIGN.len() } else { 0 },
        shown(longest),
    )))
}

/// Occupies the names that session directories could have.
pub(super) fn sessions(field: &Field) -> Result<Verdict, String> {
    if !install::is_root() {
        return Ok(Verdict::Skipped("only root can be another user".to_owned()));
    }
    let trap = Trap::new(field)?;
    trap.fresh()?;
    let shared = trap.root.path().join("shared");
    let fault = |e: std::io::Error| e.to_string();
    fs::create_dir(&shared).map_err(fault)?;
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).map_err(fault)?;
    let names = field.count(150_000, 1_000);
    // Occupy every name that the next launchers would have if a name contained only the process ID.
    let next = std::process::id();
    for number in 0..names {
        let (pid, number) = (next as usize + number / 50, number % 50);
        let taken = shared.join(format!("pmix-run.0.{pid}.{number}"));
        fs::create_dir(&taken).map_err(fault)?;
        chown(&taken, Some(STRANGER), None).map_err(fault)?;
    }
    let mut longest = Duration::ZERO;
    for _ in 0..3 {
        let begun = Instant::now();
        let mut command = trap.command(
            &trap.pmix,
            &["run", "-n", "1", "sh", "-c", "test -d $PMIX_TMPDIR || true"],
        );
        command.env("TMPDIR", &shared);
        let output = ended(command)?;
        longest = longest.max(begun.elapsed());
        if !output.status.success() {
            return Err(format!("a launch failed: {output:?}"));
        }
    }
    let left = fs::read_dir(&shared).map_err(fault)?.count();
    if left != names {
        return Err(format!(
            "{names} directories of another user, {left} afterwards"
        ));
    }
    fs::remove_dir_all(&shared).map_err(fault)?;
    Ok(Verdict::Held(format!(
        "{names} names taken: 3 of 3 launches, the longest {}; nothing of the other user removed",
        shown(longest)
    )))
}

/// Runs commands with a plugin that exits the process while it is loaded: each command must fail.
pub(super) fn exits(field: &Field) -> Result<Verdict, String> {
    let trap = Trap::new(field)?;
    let at = trap.fresh()?;
    let fault = |e: std::io::Error| e.to_string();
    let source = trap.root.path().join("exits.c");
    let code =
        "#include <stdlib.h>\n__attribute__((constructor)) static void ends(void) { exit(0); }\n";
    fs::write(&source, code).map_err(fault)?;
    compile(&source, &trap.library())?;
    trap.configuration(&at, 0o644).map_err(fault)?;
    let library = trap.library().display().to_string();
    let commands: [&[&str]; 4] = [
        &["plugins", "check", &library],
        &["plugins", "list"],
        &["run", "-n", "2", "true"],
        &["map", "encode", "n1,n2"],
    ];
    for args in commands {
        let (output, _) = trap.run(args)?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(1) || !said.contains("it ended the process") {
            return Err(format!("{args:?}: {output:?}"));
        }
    }
    Ok(Verdict::Held(format!(
        "{} of {} commands fail and name the plugin",
        commands.len(),
        commands.len()
    )))
}

/// Compiles a library to which no other user may write.
fn compile(source: &Path, library: &Path) -> Result<(), String> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut build = Command::new(compiler);
    build.args(["-shared", "-fPIC", "-o"]);
    process::run(build.arg(library).arg(source))?;
    let private = Permissions::from_mode(0o755);
    fs::set_permissions(library, private).map_err(|e| e.to_string())
}

impl Trap {
    fn new(field: &Field) -> Result<Self, String> {
        let fault = |e: std::io::Error| e.to_string();
        let root = TempDir::with_prefix("pmix-faults.").map_err(fault)?;
        fs::set_permissions(root.path(), Permissions::from_mode(0o755)).map_err(fault)?;
        let trap = Self {
            pmix: launcher::build(field)?,
            cwd: root.path().join("cwd"),
            sign: root.path().join("mark/ran"),
            root,
        };
        fs::create_dir(trap.root.path().join("mark")).map_err(fault)?;
        let open = Permissions::from_mode(0o777);
        fs::set_permissions(trap.root.path().join("mark"), open).map_err(fault)?;
        let source = format!(
            "#include <stdio.h>\n__attribute__((constructor)) static void left(void)\n\
             {{ FILE *f = fopen(\"{}\", \"w\"); if (f) fclose(f); }}\n",
            trap.sign.display()
        );
        let file = trap.root.path().join("trap.c");
        fs::write(&file, source).map_err(fault)?;
        compile(&file, &trap.library())?;
        Ok(trap)
    }

    fn library(&self) -> PathBuf {
        self.root.path().join("trap.so")
    }

    /// Creates an empty working directory and returns the path at which a file is to be planted.
    fn fresh(&self) -> Result<PathBuf, String> {
        let fault = |e: std::io::Error| e.to_string();
        if self.cwd.exists() {
            fs::remove_dir_all(&self.cwd).map_err(fault)?;
        }
        fs::create_dir(&self.cwd).map_err(fault)?;
        fs::set_permissions(&self.cwd, Permissions::from_mode(0o755)).map_err(fault)?;
        Ok(self.cwd.join("plugins.toml"))
    }

    /// Writes a configuration that loads the library.
    fn configuration(&self, at: &Path, mode: u32) -> std::io::Result<()> {
        let library = self.library().display().to_string();
        fs::write(
            at,
            format!("[[plugin]]\npath = {library:?}\n[preg]\nselect = \"raw\"\n"),
        )?;
        fs::set_permissions(at, Permissions::from_mode(mode))
    }

    /// Returns `true` if the library was loaded, and resets the trap.
    fn caught(&self) -> bool {
        fs::remove_file(&self.sign).is_ok()
    }

    fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.cwd).env_clear();
        command.env("PATH", "/usr/bin:/bin");
        command
    }

    fn run(&self, args: &[&str]) -> Result<(Output, Duration), String> {
        let begun = Instant::now();
        let output = ended(self.command(&self.pmix, args))?;
        Ok((output, begun.elapsed()))
    }
}

/// Returns the output of a command, which is killed if it does not end in time.
fn ended(mut command: Command) -> Result<Output, String> {
    let fault = |e: std::io::Error| e.to_string();
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(fault)?;
    let begun = Instant::now();
    // Reading after the exit cannot deadlock: the output of each command fits into the buffer of a pipe.
    while child.try_wait().map_err(fault)?.is_none() {
        if begun.elapsed() > PATIENCE {
            child.kill().map_err(fault)?;
            return Err(format!("{command:?} does not end"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().map_err(fault)
}

fn fifo(at: &Path) -> std::io::Result<()> {
    match Command::new("mkfifo").arg(at).status()?.success() {
        true => Ok(()),
        false => Err(std::io::Error::other("no pipe")),
    }
}

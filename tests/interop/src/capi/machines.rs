// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated machines on this one. Each has its own network, mount and UTS namespaces. All share
//! one process namespace, which a holder process owns. When the holder ends, the kernel ends every
//! process in the namespace, so nothing is left however this program ends.
//!
//! If namespaces are not allowed, machines are only names that distinguish the daemons on this
//! machine. Each daemon then has a port of its own, and a library is preloaded instead of mounted
//! over a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use xtask::install::Root;
use xtask::process::output;

/// The reason given in a container that may not create namespaces.
pub(super) const NO_NAMESPACES: &str = "namespaces cannot be made here";

/// The path at which the machines see the folder of this program; short, as socket paths are limited.
const SHARED: &str = "/run/shared";

/// The time limit for creating a namespace, and for its end.
const LIMIT: Duration = Duration::from_secs(20);

/// The script of the holder. It mounts a `/run` of its own, where `ip` keeps network names, and then waits for the end
/// of its input. The shell must stay: the first process of a process namespace reaps the others.
const HOLD: &str = "mount -t tmpfs run /run && mkdir /run/netns \"$1\" && mount --bind \"$0\" \"$1\" \
                    && echo ready > \"$0/ready\" && cat; exit 1";

/// The separation of the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Namespaces for each machine.
    Namespaces,
    /// Names only.
    Names,
}

/// The process that owns the namespaces.
struct Holder {
    process: Child,
    /// The standard input of the holder, which ends when this is closed.
    input: Option<ChildStdin>,
}

/// The simulated machines.
pub(super) struct Machines {
    /// The folder of this program, shared by all machines.
    folder: PathBuf,
    /// The holder, or `None` if the machines are only names and run the programs of this machine.
    holder: Option<Holder>,
    /// The separation of the machines.
    form: Form,
    /// The processes that run on them in the foreground.
    running: Vec<Child>,
    /// The names of their networks.
    names: &'static [&'static str],
}

impl Machines {
    /// Creates machines with these names on one network. The first has the bridge. The last byte of
    /// an address is the place in the list plus one. With a root, they run the programs of the root.
    ///
    /// # Errors
    /// Returns a message if they cannot be created. It begins with [`NO_NAMESPACES`] if namespaces are not allowed.
    pub(super) fn start(
        form: Form,
        folder: &Path,
        names: &'static [&'static str],
        root: Option<&Root>,
    ) -> Result<Self, String> {
        let fault = |e: io::Error| format!("{}: {e}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(fault)?;
        }
        fs::create_dir_all(folder).map_err(fault)?;
        let mut machines = Self {
            folder: folder.to_owned(),
            holder: None,
            form,
            running: Vec::new(),
            names,
        };
        if form == Form::Names && root.is_none() {
            return Ok(machines);
        }
        let cover = root.map(|root| format!("{} && ", root.cover()));
        let hold = cover.unwrap_or_default() + HOLD;
        let errors = fs::File::create(folder.join("holder.log")).map_err(fault)?;
        let mut command = Command::new("unshare");
        // `--kill-child` ends the namespace even if `unshare` itself is killed.
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["sh", "-c", &hold]).arg(folder).arg(SHARED);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let begun = command.stderr(errors).spawn();
        let mut process = begun.map_err(|e| format!("{NO_NAMESPACES}: unshare: {e}"))?;
        let input = process.stdin.take();
        machines.holder = Some(Holder { process, input });
        machines.wait_for_holder()?;
        if form == Form::Namespaces {
            machines.connect()?;
        }
        Ok(machines)
    }

    fn wait_for_holder(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        let ready = self.folder.join("ready");
        while !ready.exists() {
            let ended = self.holder.as_mut().map(|holder| holder.process.try_wait());
            let ended = ended.transpose().map_err(|e| e.to_string())?.flatten();
            if ended.is_some() || begun.elapsed() > LIMIT {
                let log = fs::read_to_string(self.folder.join("holder.log"));
                let why = log.unwrap_or_default();
                return Err(format!("{NO_NAMESPACES}: {}", why.trim()));
            }
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Returns the separation of the machines.
    pub(super) fn form(&self) -> Form {
        self.form
    }

    /// Returns the path at which the machines see the folder of this program.
    pub(super) fn shared(&self) -> std::path::Display<'_> {
        match self.form() {
            Form::Namespaces => Path::new(SHARED).display(),
            Form::Names => self.folder.display(),
        }
    }

    /// Returns the address of a machine by its number.
    pub(super) fn address(&self, number: usize) -> String {
        match self.form() {
            Form::Namespaces => address(number),
            Form::Names => "127.0.0.1".to_owned(),
        }
    }

    /// Returns a command in the holder's namespaces.
    fn held(&self, program: &str) -> Command {
        let Some(holder) = &self.holder else {
            return Command::new(program);
        };
        let of = |kind: &str| format!("/proc/{}/ns/{kind}", holder.process.id());
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount={}", of("mnt")));
        command.arg(format!("--pid={}", of("pid_for_children")));
        command.args(["--", program]);
        command
    }

    fn ip(&self, words: &[&str]) -> Result<(), String> {
        let mut command = self.held("timeout");
        command.args([&LIMIT.as_secs().to_string(), "ip"]);
        let done = output(command.args(words));
        done.map(drop)
            .map_err(|why| format!("{NO_NAMESPACES}: {why}"))
    }

    /// Creates the networks and the bridge between them.
    fn connect(&self) -> Result<(), String> {
        let bridge = self.names.first().copied().unwrap_or_default();
        for (number, name) in self.names.iter().enumerate() {
            self.ip(&["netns", "add", name])?;
            self.ip(&["-n", name, "link", "set", "lo", "up"])?;
            let own = match *name == bridge {
                true => {
                    self.ip(&["-n", name, "link", "add", "bridge0", "type", "bridge"])?;
                    "bridge0"
                }
                false => {
                    let pair = ["link", "add", name, "type", "veth", "peer", "name", "eth0"];
                    self.ip(&[&["-n", bridge][..], &pair, &["netns", name]].concat())?;
                    self.ip(&["-n", bridge, "link", "set", name, "master", "bridge0", "up"])?;
                    "eth0"
                }
            };
            let address = format!("{}/24", address(number));
            self.ip(&["-n", name, "addr", "add", &address, "dev", own])?;
            self.ip(&["-n", name, "link", "set", own, "up"])?;
        }
        let hosts = self.names.iter().enumerate();
        let hosts = hosts.map(|(number, name)| format!("{} {name}\n", address(number)));
        // Programs that no machine runs by itself have the host name of this machine and the network of the first one.
        // The controller of Slurm 24.11 looks that name up, and retries for 10 s if there is no answer.
        let here = format!("{} {}\n", address(0), host_name()?);
        let text = format!("127.0.0.1 localhost\n{}{here}", hosts.collect::<String>());
        let file = self.folder.join("hosts");
        fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))
    }

    /// Returns a command in the network of a machine, with the mounts that all machines share.
    pub(super) fn inside(&self, name: &str, program: &str) -> Command {
        if self.form() == Form::Names {
            return self.held(program);
        }
        let mut command = self.held("ip");
        command.args(["netns", "exec", name, program]);
        command
    }

    /// Runs a shell command on a machine until this value is dropped, with each file mounted over the path beside it.
    /// If machines are names, the files are libraries and are preloaded.
    ///
    /// # Errors
    /// Returns a message if it cannot start.
    pub(super) fn run(
        &mut self,
        name: &str,
        environment: (&str, &str),
        mounts: &[(&Path, &Path)],
        run: &str,
    ) -> Result<(), String> {
        let log = fs::File::create(self.folder.join(format!("{name}.log")));
        let log = log.map_err(|e| format!("log of {name}: {e}"))?;
        let errors = log.try_clone().map_err(|e| e.to_string())?;
        let mut command = match self.form() {
            Form::Namespaces => self.mounted(name, mounts, run),
            Form::Names => self.preloaded(mounts, run),
        };
        command.env(environment.0, environment.1);
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        self.running
            .push(command.spawn().map_err(|e| format!("{name}: {e}"))?);
        Ok(())
    }

    /// Returns a shell command on a machine with namespaces.
    pub(super) fn command(&self, name: &str, run: &str) -> Command {
        self.mounted(name, &[], run)
    }

    /// Returns a shell command with files mounted over others.
    fn mounted(&self, name: &str, mounts: &[(&Path, &Path)], run: &str) -> Command {
        let hosts = Path::new(SHARED).join("hosts");
        let known = (hosts.as_path(), Path::new("/etc/hosts"));
        let mounts: String = std::iter::once(&known)
            .chain(mounts)
            .map(|(from, to)| format!("mount --bind '{}' '{}' && ", from.display(), to.display()))
            .collect();
        let mut command = self.inside(name, "unshare");
        command.args(["--mount", "--uts", "sh", "-c"]);
        command.arg(format!("hostname {name} && {mounts}{run}"));
        command
    }

    /// Returns a shell command that ends with this program, with the files preloaded.
    fn preloaded(&self, files: &[(&Path, &Path)], run: &str) -> Command {
        let mut command = self.held("setpriv");
        command.args(["--pdeathsig", "KILL", "sh", "-c", run]);
        let files: Vec<_> = files
            .iter()
            .map(|(file, _)| file.to_string_lossy())
            .collect();
        if !files.is_empty() {
            command.env("LD_PRELOAD", files.join(":"));
        }
        command
    }

    /// Returns `true` if a process that must run until the end has exited.
    pub(super) fn has_ended(&mut self) -> bool {
        let mut all = self.running.iter_mut();
        all.any(|child| child.try_wait().is_ok_and(|status| status.is_some()))
    }

    /// Returns the end of the output of each machine.
    pub(super) fn last_words(&self) -> String {
        let last_of = |name: &&str| {
            let log = fs::read(self.folder.join(format!("{name}.log"))).unwrap_or_default();
            let text = String::from_utf8_lossy(&log).into_owned();
            let lines: Vec<_> = text.lines().collect();
            let from = lines.len().saturating_sub(4);
            format!("{name}: {}", lines[from..].join(" | "))
        };
        self.names
            .iter()
            .map(last_of)
            .collect::<Vec<_>>()
            .join("; ")
    }
}

/// Returns the host name of this machine, without a domain.
pub(super) fn host_name() -> Result<String, String> {
    let file = "/proc/sys/kernel/hostname";
    let name = fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    Ok(name.trim().split('.').next().unwrap_or_default().to_owned())
}

/// Returns the address of a machine that has a network.
fn address(number: usize) -> String {
    format!("10.99.0.{}", number + 1)
}

impl Drop for Machines {
    fn drop(&mut self) {
        if let Some(holder) = &mut self.holder {
            drop(holder.input.take());
            let begun = Instant::now();
            while holder
                .process
                .try_wait()
                .is_ok_and(|status| status.is_none())
            {
                if begun.elapsed() > LIMIT {
                    let _ = holder.process.kill();
                    let _ = holder.process.wait();
                }
                sleep(Duration::from_millis(5));
            }
        }
        for child in &mut self.running {
            // Processes in namespaces have ended with the holder already.
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

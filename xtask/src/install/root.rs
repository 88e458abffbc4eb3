// SPDX-License-Identifier: MIT OR Apache-2.0
//! Private roots: another release of Debian below the target directory, with the software that the release of this
//! machine does not have yet. Nothing outside the root changes.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{is_root, may_install, scratch, target};
use crate::process::output;

/// The release of Debian with the newest libraries.
pub const NEWEST: &str = "sid";

/// The packages of the root of that release.
pub const SID: &[&str] = &[
    "libpmix-dev",
    "libpmix-bin",
    "libprrte-bin",
    "openmpi-bin",
    "libopenmpi-dev",
    "mpich",
    "libmpich-dev",
    "gcc",
    "libc6-dev",
    "libc-bin",
    "bash",
    "coreutils",
];

/// The packages of the root of Debian trixie.
pub const TRIXIE: &[&str] = &[
    "slurmctld",
    "slurmd",
    "slurm-client",
    "munge",
    "libpmix-dev",
    "libopenmpi-dev",
    "openmpi-bin",
    "python3-mpi4py",
    "gcc",
    "libc6-dev",
    "libc-bin",
    "dash",
    "bash",
    "coreutils",
    "findutils",
    "grep",
    "procps",
    "hostname",
    "mount",
    "iproute2",
    "util-linux",
];

/// The directories in which apt lists its sources.
const SOURCES: [&str; 2] = ["/etc/apt/sources.list", "/etc/apt/sources.list.d"];

/// The keys with which Debian signs its releases.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The script that enters a root: its arguments are the root, the target directory, and the command. The mounts belong
/// to a namespace of their own and end with it.
const ENTER: &str = r#"
root=$0 target=$1
shift
mount --make-rprivate /
for name in proc sys dev tmp; do mount --rbind "/$name" "$root/$name"; done
mkdir -p "$root$target"
mount --bind "$target" "$root$target"
exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"
"#;

/// A root with a release of Debian.
#[derive(Clone, Debug)]
pub struct Root {
    path: PathBuf,
}

impl Root {
    /// Returns the root of a release with these packages and their dependencies. If it is missing, the packages are
    /// downloaded from the mirror of this machine and unpacked; their scripts do not run.
    ///
    /// # Errors
    /// Returns a message if the root is missing and nothing may be installed, if this is not Debian or the user is not
    /// root, and if a package does not exist.
    pub fn debian(release: &str, packages: &[&str]) -> Result<Self, String> {
        if !is_root() {
            return Err(format!("a root of Debian {release} needs the user root"));
        }
        let path = target().join("roots").join(release);
        let stamp = path.join(".packages");
        let wanted = packages.join("\n");
        let root = Self { path };
        if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
            return Ok(root);
        }
        if !may_install() {
            return Err(format!(
                "the root of Debian {release} does not exist; `--install` creates it"
            ));
        }
        eprintln!("unpacking Debian {release} in {}", root.path.display());
        root.unpack(release, packages)?;
        fs::write(&stamp, wanted).map_err(|e| format!("{}: {e}", stamp.display()))?;
        Ok(root)
    }

    fn unpack(&self, release: &str, packages: &[&str]) -> Result<(), String> {
        let home = scratch(&format!("roots/apt-{release}"))?;
        let archives = scratch(&format!("roots/apt-{release}/cache/archives"))?;
        for part in ["lists/partial", "cache/archives/partial"] {
            scratch(&format!("roots/apt-{release}/{part}"))?;
        }
        let write = |name: &str, text: &str| {
            let file = home.join(name);
            fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
            Ok::<_, String>(file)
        };
        // With an empty status, every dependency is downloaded.
        let status = write("status", "")?;
        let mirror = mirror()?;
        let sources = write(
            "sources.list",
            &format!("deb [signed-by={KEYS}] {mirror} {release} main\n"),
        )?;
        let apt = |words: &[&str]| {
            let mut command = Command::new("apt-get");
            for (name, path) in [
                ("Dir::Etc::sourcelist", sources.as_path()),
                ("Dir::Etc::sourceparts", Path::new("/nonexistent")),
                ("Dir::State::lists", &home.join("lists")),
                ("Dir::State::status", &status),
                ("Dir::Cache", &home.join("cache")),
                ("Dir::Cache::archives", &archives),
            ] {
                command.arg("-o").arg(format!("{name}={}", path.display()));
            }
            command.args(["-o", "APT::Sandbox::User=root", "-qq"]);
            output(command.args(words)).map(drop)
        };
        apt(&["update"])?;
        let mut install = vec![
            "--download-only",
            "-y",
            "--no-install-recommends",
            "install",
        ];
        install.extend(packages);
        apt(&install)?;
        for name in ["proc", "sys", "dev", "tmp"] {
            scratch(&format!("roots/{release}/{name}"))?;
        }
        let fault = |e: std::io::Error| format!("{}: {e}", archives.display());
        for entry in fs::read_dir(&archives).map_err(fault)? {
            let file = entry.map_err(fault)?.path();
            if file.extension() == Some(OsStr::new("deb")) {
                // Links to directories of the root are followed: packages still name files below /lib.
                let unpack = "dpkg-deb --fsys-tarfile \"$0\" | tar -x --keep-directory-symlink -C \"$1\" -f -";
                let mut command = Command::new("sh");
                output(command.args(["-c", unpack]).arg(&file).arg(&self.path))?;
            }
        }
        output(&mut self.command("ldconfig")).map(drop)
    }

    /// Returns the directory of the root.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a command that runs a program inside the root, where the target directory has the same path as outside.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", ENTER]);
        command.arg(&self.path).arg(target()).arg(program);
        command
    }

    /// Returns the shell command that mounts the programs and libraries of the root over those of this machine. It is
    /// meant for a mount namespace of its own. Other directories, `/etc` with its users among them, stay those of the
    /// machine, so programs find the repository and each other at their usual paths.
    #[must_use]
    pub fn cover(&self) -> String {
        let path = self.path.display();
        // The loader of the root searches the cache for libraries, so both come from the same release.
        format!(
            "mount --bind '{path}/etc/ld.so.cache' /etc/ld.so.cache && mount --bind '{path}/usr' /usr"
        )
    }

    /// Returns a command that runs a program of the root with the files of this machine, see [`Self::cover`].
    #[must_use]
    pub fn covering(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c"]);
        command.arg(format!("{} && exec \"$0\" \"$@\"", self.cover()));
        command.arg(program);
        command
    }

    /// Creates a symbolic link in the root, as the script of a package would.
    ///
    /// # Errors
    /// Returns a message if it cannot be created.
    pub fn link(&self, path: &str, to: &str) -> Result<(), String> {
        let path = self.path.join(path);
        match std::os::unix::fs::symlink(to, &path) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => {
                Err(format!("{}: {e}", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the version of an installed package.
    ///
    /// # Errors
    /// Returns a message if the package is not in the root.
    pub fn version(&self, package: &str) -> Result<String, String> {
        let release = self.path.file_name().unwrap_or_default();
        let archives = target()
            .join("roots")
            .join(format!("apt-{}/cache/archives", release.to_string_lossy()));
        let start = format!("{package}_");
        let fault = |e: std::io::Error| format!("{}: {e}", archives.display());
        for entry in fs::read_dir(&archives).map_err(fault)? {
            let name = entry
                .map_err(fault)?
                .file_name()
                .to_string_lossy()
                .into_owned();
            if let Some(rest) = name.strip_prefix(&start) {
                let version = rest.split('_').next().unwrap_or(rest);
                return Ok(version.replace("%3a", ":"));
            }
        }
        Err(format!("the root has no package {package}"))
    }
}

/// Returns the mirror of Debian that this machine uses.
fn mirror() -> Result<String, String> {
    let mut files = Vec::new();
    for source in SOURCES.map(Path::new) {
        match fs::read_dir(source) {
            Ok(entries) => files.extend(entries.flatten().map(|entry| entry.path())),
            Err(_) => files.push(source.to_owned()),
        }
    }
    let texts = files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok());
    texts
        .flat_map(|text| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .find(|word| word.contains("://") && word.trim_end_matches('/').ends_with("/debian"))
        .ok_or_else(|| "apt names no mirror of Debian".to_owned())
}

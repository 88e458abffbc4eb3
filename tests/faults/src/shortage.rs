// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine that lacks a resource, and directories in which another user planted files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use pmix_proto::{Request, reply, request};
use pmix_types::{Info, Proc, Rank, Scope, Status};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::server::{Server, address_space, files, me};
use super::wait::shown;
use super::{Field, Verdict, good};

/// The limit of the server's descriptors.
const DESCRIPTORS: u32 = 32;

/// The number of clients, more than the server has descriptors for.
const CLIENTS: u32 = 40;

/// The limit of processor use of a server that waits for descriptors.
const MOST_LOAD: f64 = 0.1;

/// Connects more clients than there are descriptors: connected clients are served, the others connect when descriptors
/// are closed, and the server does not spin.
pub(super) fn descriptors(field: &Field) -> Result<Verdict, String> {
    let directory = field.directory("descriptors")?;
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {DESCRIPTORS}; exec \"$@\""), "sh"]);
    command.arg(&field.program).arg(&directory);
    let mut server = Server::start_by(command, &directory)?;
    server.job("many", CLIENTS)?;
    let base = server.figures()?;
    let uri = server.uri.clone();
    let (load, fences) = thread::scope(|scope| {
        let mut inside = Vec::new();
        let room = DESCRIPTORS - server.descriptors_below(DESCRIPTORS);
        for rank in 0..room {
            inside.push(good::connect(&uri, "many", rank).map_err(|e| e.to_string())?);
        }
        let late = |rank| {
            let uri = &uri;
            scope.spawn(move || good::connect(uri, "many", rank)?.finalize())
        };
        let late: Vec<_> = (room..CLIENTS).map(late).collect();
        let lasted = Duration::from_millis(if field.short { 1000 } else { 5000 });
        let before = server.figures()?.time;
        sleep(lasted);
        let used = server.figures()?.time.saturating_sub(before);
        // All descriptors are in use, so none of these clients may have connected.
        let early = late.iter().filter(|client| client.is_finished()).count();
        if early > 0 {
            let now = server.figures()?;
            return Err(format!("{early} clients did not have to wait: {now:?}"));
        }
        let begun = Instant::now();
        let only = [Proc::new("many", Rank::new(0))];
        let done = inside.first().map(|client| client.fence(&only, []).wait());
        done.transpose().map_err(|e| e.to_string())?;
        let took = begun.elapsed();
        for client in inside {
            client.finalize().map_err(|e| e.to_string())?;
        }
        for client in late {
            let came = client.join().map_err(|_| "panicked".to_owned())?;
            came.map_err(|e| format!("a client that had to wait: {e}"))?;
        }
        Ok((used.as_secs_f64() / lasted.as_secs_f64(), took))
    })?;
    let after = server.settle(base.descriptors)?;
    let lines = server.end()?.lines().count();
    let figures = format!(
        "limit {DESCRIPTORS}, {CLIENTS} clients: a fence meanwhile took {}, load {:.1} %, all came in; \
         {lines} lines of log; descriptors {} and {}",
        shown(fences),
        load * 100.0,
        base.descriptors,
        after.descriptors,
    );
    match load < MOST_LOAD && lines < 20 {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}

/// The memory left to a server.
const LEFT: u64 = 48 << 20;

/// Starts a server with little memory left: puts and publications beyond it are refused, and other requests are served.
pub(super) fn memory(field: &Field) -> Result<Verdict, String> {
    let mut server = field.server("memory", &[])?;
    server.job("large", 2)?;
    let connect = |rank| good::connect(&server.uri, "large", rank).map_err(|e| e.to_string());
    let (greedy, other) = (connect(0)?, connect(1)?);
    let limit = Some(address_space(server.pid())? + LEFT);
    let limit = Rlimit {
        current: limit,
        maximum: limit,
    };
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw);
    prlimit(pid, Resource::As, limit).map_err(|e| e.to_string())?;
    let mut refused = Vec::new();
    for size in [1, 4, 16, 20] {
        let key = format!("k{size}");
        let put = greedy.put(Scope::GLOBAL, &*key, "x".repeat(size << 20));
        let committed = put.and_then(|()| greedy.commit());
        let data = Info::new("published", "x".repeat(size << 20));
        let publish = Request::Publish(request::Publish {
            uid: me().0,
            infos: vec![data],
        });
        let payload = greedy.request(publish).wait().map_err(|e| e.to_string())?;
        let published = reply::Done::decode(greedy.form(), None, &payload);
        let published = published.map_err(|e| e.to_string())?.status;
        let committed = committed.map_or_else(|e| e.status(), |()| Status::SUCCESS);
        refused.extend([committed, published].map(|status| (size, status)));
        for client in [&other, &greedy] {
            let fence = client.fence([client.proc().clone()], []).wait();
            fence.map_err(|e| e.to_string())?;
        }
    }
    other
        .put(Scope::GLOBAL, "card", "ib0")
        .map_err(|e| e.to_string())?;
    other.commit().map_err(|e| e.to_string())?;
    for client in [greedy, other] {
        client.finalize().map_err(|e| e.to_string())?;
    }
    let lines = server.end()?.lines().count();
    let num_refused = refused
        .iter()
        .filter(|(_, status)| *status == Status::ERR_NOMEM);
    let num_refused = num_refused.count();
    let figures = format!(
        "{} MiB left: {num_refused} of {} puts and publications of 1 to 20 MiB are {}; {lines} lines of log",
        LEFT >> 20,
        refused.len(),
        Status::ERR_NOMEM
    );
    let is_refused = |at: usize| {
        refused
            .get(at)
            .is_some_and(|(_, status)| *status == Status::ERR_NOMEM)
    };
    match is_refused(6) && is_refused(7) && num_refused < refused.len() {
        true => Ok(Verdict::Held(figures)),
        false => Err(format!("{figures}: {refused:?}")),
    }
}

/// Fills the disk before the server starts, and after.
pub(super) fn disk(field: &Field) -> Result<Verdict, String> {
    let directory = field.directory("disk")?;
    if let Some(why) = no_mounts(&directory) {
        return Ok(Verdict::Skipped(why));
    }
    let why = refusal(mounted(field, &directory, "size=4k"), &directory)?;
    says(
        &why,
        &[&directory.display().to_string(), "o space left on device"],
    )?;
    let command = mounted(field, &directory, "size=64k");
    let mut server = Server::start_by(command, &directory)?;
    server.job("good", 2)?;
    let inside = server
        .root()
        .join(directory.strip_prefix("/").unwrap_or(&directory));
    let filled = fs::write(inside.join("full"), vec![0; 1 << 20]);
    if filled.is_ok() {
        return Err("the disk did not fill".to_owned());
    }
    let client = good::connect(&server.uri, "good", 0).map_err(|e| e.to_string())?;
    client.finalize().map_err(|e| e.to_string())?;
    server.end()?;
    Ok(Verdict::Held(format!("said: {}", why.trim())))
}

/// Starts servers in directories that cannot or must not be used.
pub(super) fn directories(field: &Field) -> Result<Verdict, String> {
    let top = field.directory("directories")?;
    let shown = |path: &Path| path.display().to_string();
    let mut refused = 0;
    let mut expect = |path: &Path, parts: &[&str]| {
        let mut command = Command::new(&field.program);
        command.arg(path);
        says(&refusal(command, path)?, parts)?;
        refused += 1;
        Ok::<_, String>(())
    };
    let writable = top.join("writable");
    make(&writable, 0o777)?;
    expect(&writable, &[&shown(&writable), "mode 0777"])?;
    let link = top.join("link");
    symlink(&top, &link).map_err(|e| e.to_string())?;
    expect(&link, &[&shown(&link), "is a symbolic link"])?;
    expect(Path::new("/proc/nowhere"), &["/proc/nowhere"])?;
    if me().0 == 0 {
        let foreign = top.join("foreign");
        make(&foreign, 0o755)?;
        chown(&foreign, Some(65_534), None).map_err(|e| e.to_string())?;
        expect(&foreign, &[&shown(&foreign), "is owned by user 65534"])?;
    } else {
        let closed = top.join("closed");
        make(&closed, 0o555)?;
        expect(&closed, &[&shown(&closed), "ermission denied"])?;
    }
    if no_mounts(&top).is_none() {
        let mounted = mounted(field, &top, "ro");
        says(
            &refusal(mounted, &top)?,
            &[&shown(&top), "ead-only file system"],
        )?;
        refused += 1;
    }
    Ok(Verdict::Held(format!(
        "{refused} directories refused, each by name"
    )))
}

/// Plants objects in place of the server's rendezvous file.
pub(super) fn planted(field: &Field) -> Result<Verdict, String> {
    let top = field.directory("planted")?;
    let precious = top.join("precious");
    let directory = top.join("session");
    let place = directory.join("pmix.n00.tool");
    type Plant = fn(&Path, &Path) -> std::io::Result<()>;
    let plants: [(&str, Plant, Option<&str>); 5] = [
        (
            "a link",
            |to, at| symlink(to, at),
            Some("is a symbolic link"),
        ),
        (
            "a link to nothing",
            |_, at| symlink("nowhere", at),
            Some("is a symbolic link"),
        ),
        (
            "a directory",
            |_, at| fs::create_dir(at),
            Some("is not a regular file"),
        ),
        ("a pipe", fifo, Some("is not a regular file")),
        // The server replaces its own name. The other name of the file keeps its content.
        ("a hard link", |to, at| fs::hard_link(to, at), None),
    ];
    for (what, plant, why) in plants {
        let fault = |e: std::io::Error| format!("{what}: {e}");
        fs::write(&precious, "precious").map_err(fault)?;
        fs::create_dir_all(&directory).map_err(fault)?;
        plant(&precious, &place).map_err(fault)?;
        match why {
            Some(part) => {
                let mut command = Command::new(&field.program);
                command.arg(&directory);
                let said = refusal(command, &directory)?;
                says(&said, &[&place.display().to_string(), part])?;
                if files(&directory).len() != 1 {
                    return Err(format!("{what}: left {:?}", files(&directory)));
                }
            }
            None => drop(Server::start(&field.program, &directory, &[])?.end()?),
        }
        if fs::read(&precious).map_err(fault)? != b"precious" {
            return Err(format!("{what}: another file was written"));
        }
        fs::remove_dir_all(&directory).map_err(fault)?;
    }
    Ok(Verdict::Held(
        "4 refused, 1 replaced, nothing else touched".to_owned(),
    ))
}

fn fifo(_: &Path, at: &Path) -> std::io::Result<()> {
    let made = Command::new("mkfifo").arg(at).status()?;
    match made.success() {
        true => Ok(()),
        false => Err(std::io::Error::other("no pipe")),
    }
}

fn make(path: &Path, mode: u32) -> Result<(), String> {
    let made = fs::create_dir(path)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)));
    made.map_err(|e| format!("{}: {e}", path.display()))
}

/// Returns the reason why this user cannot mount file systems, if any.
fn no_mounts(directory: &Path) -> Option<String> {
    let mut probe = Command::new("unshare");
    probe
        .args(["-m", "mount", "-t", "tmpfs", "none"])
        .arg(directory);
    match probe.output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("unshare: {error}")),
    }
}

/// Returns a command that starts a server in a file system of its own, which is unmounted at its end.
fn mounted(field: &Field, directory: &Path, options: &str) -> Command {
    let script = format!("mount -t tmpfs -o {options} none \"$1\" && exec \"$0\" \"$1\"");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]);
    command.arg(&field.program).arg(directory);
    command
}

/// Returns the message of a server that does not start.
fn refusal(command: Command, directory: &Path) -> Result<String, String> {
    match Server::start_by(command, directory) {
        Err(why) => Ok(why),
        Ok(_) => Err(format!("a server started in {}", directory.display())),
    }
}

fn says(why: &str, parts: &[&str]) -> Result<(), String> {
    match parts.iter().find(|part| !why.contains(**part)) {
        Some(part) => Err(format!("{why:?} does not say {part:?}")),
        None => Ok(()),
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server with one job, for tests of its clients.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use pmix::params::Environment;
use pmix::prelude::*;

/// The nspace of the job.
pub(crate) const JOB: &str = "job@1";

/// The time limit of each call, which only a fault reaches.
const LIMIT: Duration = Duration::from_secs(60);

/// The result of a test.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Starts a server without a host, registers a job of local processes, and returns the settings with which each process
/// connects.
#[allow(dead_code, reason = "each test file has a part of this one")]
pub(crate) fn serve(folder: &Path, size: u32) -> Result<(Server, Vec<Settings>)> {
    serve_with(folder, size, |builder| builder)
}

/// Starts a server like [`serve`], with additional configuration.
pub(crate) fn serve_with(
    folder: &Path,
    size: u32,
    configure: impl FnOnce(pmix::server::Builder) -> pmix::server::Builder,
) -> Result<(Server, Vec<Settings>)> {
    let server = Server::builder().host(NoHost).hostname("n00");
    let server = server.server_tmpdir(folder).system_tmpdir(folder);
    let server = configure(server).build()?;
    server.start()?;
    let nodes = NodeList::parse_text(b"n00", &Limits::default())?;
    let ranks = format!("0-{}", size - 1);
    let procs = ProcMap::parse_text(ranks.as_bytes(), &Limits::default())?;
    let job = Registration::new(&[]).with_maps(nodes, procs);
    server.register_nspace(&JOB.into(), size, job)?;
    let user = Credentials {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    };
    let settings = (0..size).map(|rank| -> Result<Settings> {
        let proc = Proc::new(JOB, Rank::new(rank));
        server.register_client(&proc, user, HostObject(0))?;
        let mut settings = Settings::of(&Environment {
            vars: server.setup_fork(&proc)?,
            cwd: folder.into(),
            home: None,
            system: folder.into(),
        })?;
        settings.time_limit = Some(LIMIT);
        Ok(settings)
    });
    let settings = settings.collect::<Result<_>>()?;
    Ok((server, settings))
}

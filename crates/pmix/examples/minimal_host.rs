// SPDX-License-Identifier: MIT OR Apache-2.0
//! The smallest host that runs a parallel program: one job, all of it on this node.
//!
//!     cargo run -p pmix --example minimal_host -- 4 ./a.out ARGS
//!
//! It registers a job and its processes, starts them with the environment that the server gives,
//! waits for them and ends with the first exit code that is not 0. `pmix run` does the rest of what
//! a launcher does.

use std::process::{Child, Command, ExitCode};

use pmix::prelude::*;
use pmix::server::Error;
use rustix::process::{getegid, geteuid};

const JOB: &str = "job@1";

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let num_procs = args.next().and_then(|n| n.to_str()?.parse().ok());
    let (Some(num_procs), Some(program)) = (num_procs, args.next()) else {
        eprintln!("usage: minimal_host NUMBER PROGRAM [ARGUMENT]...");
        return ExitCode::from(2);
    };
    let mut command = Command::new(program);
    command.args(args);
    match run(num_procs, &mut command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("minimal_host: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(num_procs: u32, command: &mut Command) -> Result<u8, Box<dyn std::error::Error>> {
    let server = Server::builder().hostname("localhost").build()?;
    server.start()?;
    register(&server, num_procs)?;
    let mut children = Vec::new();
    for rank in 0..num_procs {
        let proc = Proc::new(JOB, Rank::new(rank));
        children.push(command.envs(server.setup_fork(&proc)?).spawn()?);
    }
    let code = wait(children)?;
    server.finalize()?;
    Ok(code)
}

/// Says which job there is and which processes of it are here: all of them. What follows from the
/// two maps, such as the size of the job, need not be said.
fn register(server: &Server, num_procs: u32) -> Result<(), Error> {
    let ranks: Vec<_> = (0..num_procs).map(|rank| rank.to_string()).collect();
    let infos = [
        Info::new(keys::NODE_MAP, "localhost"),
        Info::new(keys::PROC_MAP, ranks.join(",")),
        Info::new(keys::JOBID, JOB),
        Info::new(keys::UNIV_SIZE, num_procs),
    ];
    server.register_nspace(&JOB.into(), num_procs, &infos)?;
    let user = Credentials {
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
    };
    for rank in 0..num_procs {
        let proc = Proc::new(JOB, Rank::new(rank));
        server.register_client(&proc, user, HostObject(rank.into()))?;
    }
    Ok(())
}

/// The first exit code that is not 0; 1 for a process that a signal ended.
fn wait(children: Vec<Child>) -> std::io::Result<u8> {
    let mut first = 0;
    for mut child in children {
        let status = child.wait()?;
        let code = status
            .code()
            .map_or(1, |code| u8::try_from(code).unwrap_or(1));
        first = if first == 0 { code } else { first };
    }
    Ok(first)
}

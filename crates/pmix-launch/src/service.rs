// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server to which the processes of the session connect.

use std::sync::Arc;

use pmix_server::{ClonePolicy, Server, WireObserver};
use pmix_types::{Nspace, Proc, Rank, Status};

use crate::host::LocalHost;
use crate::session_dir::SessionDir;
use crate::{Error, Part, Plan};

/// Starts the server, which the session drives. Tools find it by the files in the session directory.
pub(crate) fn start(
    plan: &Plan,
    session: &SessionDir,
    host: LocalHost,
    observer: Option<Box<dyn WireObserver>>,
) -> Result<Server, Error> {
    let is_of_system = plan.system_server.is_some();
    let cannot = |e: pmix_server::Error| match e.status() {
        Status::ERR_EXISTS | Status::ERR_NO_PERMISSIONS | Status::ERR_RESOURCE_BUSY
            if is_of_system =>
        {
            // Another server has the place, or its directory is not writable: the request is at fault, not the
            // system.
            Error::taken("cannot become the system server", e)
        }
        _ => Error::server("the server cannot start", e),
    };
    let own = name(plan);
    let mut builder = Server::builder();
    if let Some(observer) = observer {
        builder = builder.wire_observer(observer);
    }
    builder
        .host(host)
        .nspace(own.nspace)
        .rank(own.rank)
        .hostname(String::from_utf8_lossy(plan.layout.host()))
        .server_tmpdir(session.path())
        .system_tmpdir(plan.system_server.as_ref().unwrap_or(&plan.tmpdir))
        .system_support(is_of_system)
        .tool_support(true)
        .report_fences(plan.diagnosis.fences)
        .rendezvous_required(is_of_system)
        .params(plan.params.clone())
        .preg(Arc::clone(&plan.preg))
        .external_progress(true)
        // A process may start further programs that use PMIx, one after another or at the same time. Each has the user
        // and the rank of the process, and a user can act for his own processes anyway.
        .config(|config| config.clone_policy = ClonePolicy::Accept)
        .build()
        .map_err(cannot)
}

/// Returns the name of the server of this node in the session of a plan.
pub(crate) fn name(plan: &Plan) -> Proc<'static> {
    let rank = match plan.part {
        Part::Member { node, .. } => node,
        Part::Alone | Part::Controller(_) => 0,
    };
    Proc::new(server_nspace(&plan.nspace), Rank::new(rank))
}

/// Returns the nspace of the server: that of the first job with the suffix `.server`, shortened if necessary.
fn server_nspace(nspace: &str) -> String {
    const SUFFIX: &str = ".server";
    let mut most = Nspace::MAX_LEN - SUFFIX.len();
    while !nspace.is_char_boundary(most.min(nspace.len())) {
        most -= 1;
    }
    format!("{}{SUFFIX}", &nspace[..most.min(nspace.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_leaves_room_for_the_servers() {
        assert_eq!(server_nspace("job@1"), "job@1.server");
        for long in ["x".repeat(255), "é".repeat(127)] {
            let name = server_nspace(&long);
            assert!(name.len() <= Nspace::MAX_LEN && name.ends_with(".server"));
        }
    }
}

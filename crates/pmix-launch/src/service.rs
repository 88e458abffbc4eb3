// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server that the processes of the job speak to.

use std::sync::Arc;

use pmix_server::{Server, WireObserver};
use pmix_types::{Nspace, Proc, Rank};

use crate::host::LocalHost;
use crate::session_dir::SessionDir;
use crate::{Error, Plan};

/// Starts a server for one job, which goes on when the job lets it. Tools find it by the files in
/// the directory of the session.
pub(crate) fn start(
    plan: &Plan,
    session: &SessionDir,
    host: LocalHost,
    observer: Option<Box<dyn WireObserver>>,
) -> Result<Server, Error> {
    let cannot = |e| Error::server("the server cannot start", e);
    let mut builder = Server::builder();
    if let Some(observer) = observer {
        builder = builder.wire_observer(observer);
    }
    builder
        .host(host)
        .nspace(server_nspace(&plan.nspace))
        .hostname(String::from_utf8_lossy(plan.layout.host()))
        .server_tmpdir(session.path())
        .system_tmpdir(&plan.tmpdir)
        .tool_support(true)
        .rendezvous_required(false)
        .params(plan.params.clone())
        .preg(Arc::clone(&plan.preg))
        .external_progress(true)
        .build()
        .map_err(cannot)
}

/// What the server is called.
pub(crate) fn name(nspace: &str) -> Proc<'static> {
    Proc::new(server_nspace(nspace), Rank::new(0))
}

/// The server's own job: that of the processes with `.server` behind, cut short where that is too
/// long for a name.
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

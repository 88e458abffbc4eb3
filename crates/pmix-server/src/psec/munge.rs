// SPDX-License-Identifier: MIT OR Apache-2.0
//! The component `munge`: the daemon of the node authenticates the creator of a credential.
//!
//! The MUNGE library blocks until the daemon replies, so a dedicated thread calls it, and nothing else waits.
//! The engine rejects a peer whose credential is not verified within the time limit of its handshake.
//! Requests stay queued while the daemon does not respond.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::mpsc::{self, SyncSender, TrySendError};

use pmix_engine::{Claim, PeerId, Psec, Verification, Verified};
use pmix_types::{ErrorDetail, Status};

use crate::Error;

/// Maximum number of credentials queued for the daemon, which takes about a millisecond for each.
const MAX_WAITING: usize = 1024;

/// Maximum length of a credential. A MUNGE credential without a payload has about 200 bytes.
const MAX_CREDENTIAL: usize = 64 << 10;

/// The verified user and group of a credential, or the error.
type VerifyResult = Result<Verified, pmix_engine::Error>;

pub(super) struct Munge {
    requests: SyncSender<(PeerId, Vec<u8>)>,
}

impl Munge {
    /// Opens the library. A thread passes the daemon's reply about a credential to `report`. The thread ends when
    /// this object is dropped, or with the pending reply of the daemon.
    pub(super) fn open(
        library: &OsStr,
        socket: Option<&Path>,
        report: impl Fn(PeerId, VerifyResult) + Send + 'static,
    ) -> Result<Self, Error> {
        let mut munge = pmix_mca::Munge::open(library, socket)?;
        // The channel is bounded, since any local process can connect and send a credential.
        let (requests, queue) = mpsc::sync_channel::<(PeerId, Vec<u8>)>(MAX_WAITING);
        let ask = move || {
            for (peer, credential) in queue {
                let decoded = munge.decode(&credential);
                let fault = |e: pmix_mca::Error| ErrorDetail::passed_on(e.status(), e);
                let verified = decoded.map(|(uid, gid)| Verified {
                    uid: Some(uid),
                    gid: Some(gid),
                });
                report(peer, verified.map_err(fault).map_err(Into::into));
            }
        };
        let thread = std::thread::Builder::new().name("munge".to_owned());
        let cannot = |e| Error::io("cannot start a thread for the MUNGE library", e);
        thread.spawn(ask).map_err(cannot)?;
        Ok(Self { requests })
    }
}

impl Psec for Munge {
    fn name(&self) -> &str {
        "munge"
    }

    fn verify(
        &self,
        credential: &[u8],
        claim: &Claim<'_>,
    ) -> Result<Verification, pmix_engine::Error> {
        let refuse = |message| pmix_engine::Error::new(Status::ERR_INVALID_CRED, message);
        if credential.len() > MAX_CREDENTIAL {
            let len = credential.len();
            return Err(refuse(format!(
                "munge: a credential of {len} bytes exceeds the limit of {MAX_CREDENTIAL}"
            )));
        }
        // The engine is locked during this call, so a full queue must not block it.
        let sent = self.requests.try_send((claim.peer, credential.to_vec()));
        sent.map_err(|error| match error {
            TrySendError::Full(_) => refuse(format!(
                "munge: the daemon does not respond, and {MAX_WAITING} credentials are waiting"
            )),
            TrySendError::Disconnected(_) => refuse("munge: its thread has ended".to_owned()),
        })?;
        Ok(Verification::Pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use gds_hash::{LocalNode, Store};
    use pmix_engine::{Config, Engine, Origin};
    use pmix_mca::Params;
    use pmix_proto::Role;

    /// A library whose daemon responds when a file exists.
    const LIBRARY: &str = r#"
#include <stddef.h>
#include <string.h>
#include <unistd.h>
int munge_decode(const char *cred, void *ctx, void **buf, int *len, unsigned *uid, unsigned *gid)
{
    (void)ctx; (void)buf; (void)len;
    while (strcmp(cred, "hang") == 0 && access(FREED, F_OK) != 0)
        usleep(1000);
    *uid = 7;
    *gid = 8;
    return 0;
}
const char *munge_strerror(int code) { (void)code; return "?"; }
void *munge_ctx_create(void) { static int context; return &context; }
int munge_ctx_set(void *ctx, int option, ...) { (void)ctx; (void)option; return 0; }
void munge_ctx_destroy(void *ctx) { (void)ctx; }
"#;

    #[test]
    fn a_blocked_daemon_delays_only_its_requests() {
        let dir = tempfile::tempdir().unwrap();
        let (source, library) = (dir.path().join("munge.c"), dir.path().join("munge.so"));
        let freed = dir.path().join("freed");
        fs::write(&source, LIBRARY).unwrap();
        #[expect(
            clippy::disallowed_methods,
            reason = "the compiler is chosen by the environment"
        )]
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut compile = Command::new(compiler);
        compile.args(["-shared", "-fPIC", "-o"]).arg(&library);
        compile.arg(format!("-DFREED=\"{}\"", freed.display()));
        assert!(compile.arg(&source).status().unwrap().success());

        let (answered, answers) = mpsc::channel();
        let munge = Munge::open(library.as_os_str(), None, move |peer, answer| {
            answered.send((peer, answer)).unwrap();
        })
        .unwrap();
        let preg = Arc::new(pmix_builtin::open_preg(&Params::default()).unwrap());
        let store = Arc::new(Store::new(preg, LocalNode::new("n0")));
        let mut engine = Engine::new(Config::default(), store, Vec::new());
        let peer = engine.open(Origin::default(), Instant::now());
        let claim = Claim {
            peer,
            role: Role::CLIENT,
            proc: None,
            uid: None,
            gid: None,
            origin: Origin::default(),
        };
        let ask = |credential: &[u8]| munge.verify(credential, &claim);

        assert_eq!(ask(b"hang").unwrap(), Verification::Pending);
        assert_eq!(ask(b"good").unwrap(), Verification::Pending);
        assert!(answers.try_recv().is_err(), "the daemon has said nothing");
        let error = ask(&vec![b'x'; MAX_CREDENTIAL + 1]).unwrap_err();
        assert!(error.to_string().contains("65537 bytes"), "{error}");
        // The thread takes the first credential from the queue, now or later.
        let full = (0..=MAX_WAITING).find_map(|_| ask(b"good").err());
        let full = full.expect("no more than so many wait");
        assert_eq!(full.status(), Status::ERR_INVALID_CRED);
        assert!(full.to_string().contains("does not respond"), "{full}");

        fs::write(&freed, "").unwrap();
        let good = Verified {
            uid: Some(7),
            gid: Some(8),
        };
        for _ in 0..2 {
            let (of, answer) = answers.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!((of, answer.unwrap()), (peer, good));
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The component `munge`: the daemon of the node says who made the credential.
//!
//! The library blocks until the daemon has answered, so a thread of its own asks it. One that hangs
//! holds up a server once, for [`DEADLINE`]; until it answers, whoever else comes is refused at once.

use std::cell::Cell;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use pmix_engine::{Claim, Psec, Verified};
use pmix_types::{ErrorDetail, Status};

use crate::Error;

/// How long the daemon may take. It answers in about a millisecond.
const DEADLINE: Duration = Duration::from_millis(400);

/// The user and group that made a credential, or why they are not known.
type Answer = Result<(u32, u32), pmix_engine::Error>;

pub(super) struct Munge {
    questions: Sender<Vec<u8>>,
    answers: Receiver<Answer>,
    /// Whether the answer to a question was not waited for any more.
    hangs: Cell<bool>,
}

impl Munge {
    pub(super) fn open(library: &OsStr, socket: Option<&Path>) -> Result<Self, Error> {
        let mut munge = pmix_mca::Munge::open(library, socket)?;
        let (questions, asked) = mpsc::channel::<Vec<u8>>();
        let (answered, answers) = mpsc::channel();
        let ask = move || {
            for credential in asked {
                let decoded = munge.decode(&credential);
                let fault = |e: pmix_mca::Error| ErrorDetail::passed_on(e.status(), e);
                if answered
                    .send(decoded.map_err(fault).map_err(Into::into))
                    .is_err()
                {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("munge".to_owned());
        let cannot = |e| Error::io("no thread for the MUNGE library", e);
        thread.spawn(ask).map_err(cannot)?;
        Ok(Self {
            questions,
            answers,
            hangs: Cell::new(false),
        })
    }

    fn ask(&self, credential: &[u8]) -> Answer {
        let late = |what: &str| {
            let message = format!("munge: the daemon does not answer{what}");
            Err(pmix_engine::Error::new(Status::ERR_INVALID_CRED, message))
        };
        // What it says late is of somebody who was refused by then.
        if self.hangs.get() && self.answers.try_recv().is_err() {
            return late(" an earlier question");
        }
        self.hangs.set(false);
        if self.questions.send(credential.to_vec()).is_err() {
            return late(", as its thread has ended");
        }
        self.answers.recv_timeout(DEADLINE).unwrap_or_else(|_| {
            self.hangs.set(true);
            late(&format!(" within {} ms", DEADLINE.as_millis()))
        })
    }
}

impl Psec for Munge {
    fn name(&self) -> &str {
        "munge"
    }

    fn verify(&self, credential: &[u8], _: &Claim<'_>) -> Result<Verified, pmix_engine::Error> {
        let (uid, gid) = self.ask(credential)?;
        Ok(Verified {
            uid: Some(uid),
            gid: Some(gid),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;
    use std::time::Instant;

    /// A library whose daemon answers when there is a file.
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
    fn a_daemon_that_hangs_holds_up_one_question_and_is_asked_again_when_it_answers() {
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

        let munge = Munge::open(library.as_os_str(), None).unwrap();
        let error = munge.ask(b"hang").unwrap_err();
        assert_eq!(error.status(), Status::ERR_INVALID_CRED);
        assert!(error.to_string().contains("within 400 ms"), "{error}");
        let error = munge.ask(b"good").unwrap_err().to_string();
        assert!(error.contains("an earlier question"), "{error}");
        fs::write(&freed, "").unwrap();
        // The late answer is nobody's; a machine that others use may be slow to give the next.
        let begun = Instant::now();
        let answer = loop {
            let answer = munge.ask(b"good");
            if answer.is_ok() || begun.elapsed() > Duration::from_secs(60) {
                break answer;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(answer.unwrap(), (7, 8));
    }
}

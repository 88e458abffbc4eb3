// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers with a forged identity: the server must refuse and log each one.

use pmix_types::{Scope, Status};

use super::peer::{argument, enter, of_user};
use super::server::{Server, me};
use super::{Field, Verdict, good};

/// The user ID of a user that owns no files.
const NOBODY: u32 = 65_534;

/// Tries false claims of this user.
pub(super) fn forged(field: &Field) -> Result<Verdict, String> {
    let mut server = field.server("forged", &[])?;
    server.job("good", 2)?;
    server.tell(&format!("job other 1 1 {NOBODY} {NOBODY}"))?;
    let base = server.figures()?.descriptors;
    let (uid, gid) = me();
    let first = good::connect(&server.uri, "good", 0).map_err(|e| e.to_string())?;
    let lies = [
        (
            "a wrong group",
            "good",
            1,
            (uid, gid + 1),
            "the group of the credential",
        ),
        ("a forged nspace", "bad", 0, (uid, gid), "not registered"),
        ("a forged rank", "good", 2, (uid, gid), "not registered"),
        (
            "a rank that is no process",
            "good",
            u32::MAX - 1,
            (uid, gid),
            "not registered",
        ),
        (
            "a second connection",
            "good",
            0,
            (uid, gid),
            "is already connected",
        ),
        (
            "another user's job",
            "other",
            0,
            (uid, gid),
            "connected as it",
        ),
        (
            "another user",
            "other",
            0,
            (NOBODY, NOBODY),
            "connected as it",
        ),
    ];
    for (what, job, rank, user, reason) in lies {
        let seen = server.log().len();
        if enter(&server.uri, job, rank, user).is_ok() {
            return Err(format!("{what} came in"));
        }
        is_logged(&server, seen, reason).map_err(|why| format!("{what}: {why}"))?;
    }
    // In a user namespace, the system tells a process other numbers; the owner of the socket decides.
    let inside = enter(&server.uri, "good", 1, (uid + 1, gid + 1));
    inside.map_err(|e| format!("with the numbers of a user namespace: {e}"))?;
    first.finalize().map_err(|e| e.to_string())?;
    server.settle(base)?;
    server.end()?;
    Ok(Verdict::Held(format!(
        "{} claims refused and logged",
        lies.len()
    )))
}

/// Tries the same as another user, which requires root.
pub(super) fn foreign(field: &Field) -> Result<Verdict, String> {
    let (uid, gid) = me();
    if uid != 0 {
        return Ok(Verdict::Skipped("only root can be another user".to_owned()));
    }
    let mut server = field.server("foreign", &[])?;
    server.job("good", 1)?;
    server.tell(&format!("job other 1 1 {NOBODY} {NOBODY}"))?;
    let owner = good::connect(&server.uri, "good", 0).map_err(|e| e.to_string())?;
    let put = owner.put(Scope::GLOBAL, "card", "secret");
    put.and_then(|()| owner.commit())
        .map_err(|e| e.to_string())?;
    let uri = argument(&server.uri);
    let enter = |job: &str, uid: u32, gid: u32| {
        let (uid, gid) = (uid.to_string(), gid.to_string());
        of_user(NOBODY, &["enter", &uri, job, "0", &uid, &gid])
    };
    let seen = server.log().len();
    expect(
        "with the credential of root",
        &enter("good", uid, gid)?,
        "out",
    )?;
    is_logged(
        &server,
        seen,
        "is a process of user 0, but a process of user 65534 connected as it",
    )?;
    expect("under its own name", &enter("good", NOBODY, NOBODY)?, "out")?;
    expect("in its own job", &enter("other", NOBODY, NOBODY)?, "in")?;
    let seen = server.log().len();
    let denied = Status::ERR_NO_PERMISSIONS.as_raw().to_string();
    let read = of_user(NOBODY, &["read", &uri, "other", "good"])?;
    expect("reading the data of root's job", &read, &denied)?;
    is_logged(
        &server,
        seen,
        "user 65534 is not permitted to read job good of user 0",
    )?;
    owner.finalize().map_err(|e| e.to_string())?;
    server.end()?;
    Ok(Verdict::Held(
        "2 entries and 1 reading refused, 2 logged".to_owned(),
    ))
}

fn expect(what: &str, seen: &str, expected: &str) -> Result<(), String> {
    match seen == expected {
        true => Ok(()),
        false => Err(format!("another user {what}: {seen}, not {expected}")),
    }
}

/// Fails unless the server logged a warning with this reason after the first `seen` bytes.
fn is_logged(server: &Server, seen: usize, reason: &str) -> Result<(), String> {
    let found = super::wait::until(std::time::Duration::from_secs(5), || {
        let log = server.log();
        log.get(seen..)?.contains(reason).then_some(())
    });
    found.ok_or_else(|| format!("the log does not say {reason:?}"))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who asks, among the infos that the host is handed.

use pmix_types::{Info, IntoOwned, keys};

/// Infos of a process with its user and group behind them, as every host is to be told (PMIx
/// Standard, chapter "Server"). What the process says about them itself does not count.
pub(crate) fn with_user(infos: &[Info<'_>], (uid, gid): (u32, u32)) -> Vec<Info<'static>> {
    let said = |info: &&Info<'_>| !info.key.is(keys::USERID) && !info.key.is(keys::GRPID);
    let infos = infos.iter().filter(said).cloned();
    let mut infos: Vec<_> = infos.map(IntoOwned::into_owned).collect();
    infos.push(Info::new(keys::USERID, uid));
    infos.push(Info::new(keys::GRPID, gid));
    infos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_cannot_claim_to_be_another_user() {
        let claimed = [
            Info::new(keys::USERID, 0_u32),
            Info::new("k", true),
            Info::new(keys::GRPID, 0_u32),
        ];
        let expected = [
            Info::new("k", true),
            Info::new(keys::USERID, 7_u32),
            Info::new(keys::GRPID, 8_u32),
        ];
        assert_eq!(with_user(&claimed, (7, 8)), expected);
    }
}

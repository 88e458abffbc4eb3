// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lookups in lists of infos, for the engine and its host.

use std::time::Duration;

use pmix_types::memory::{self, OutOfMemory};
use pmix_types::{Info, IntoOwned, Measure, Value, keys};

/// Returns the time limit of an operation (`PMIX_TIMEOUT`), or `None` without one. Zero seconds mean no limit.
#[must_use]
pub fn timeout(infos: &[Info<'_>]) -> Option<Duration> {
    let seconds = value(infos, keys::TIMEOUT)?.to_number::<u32>().ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

/// Returns `true` if the first info of a key is true.
#[must_use]
pub fn is_set(infos: &[Info<'_>], key: &str) -> bool {
    let found = infos.iter().find(|info| info.key.is(key));
    found.is_some_and(|info| info.truth().is_true())
}

/// Returns the value of the first info of a key.
#[must_use]
pub fn value<'i>(infos: &'i [Info<'_>], key: &str) -> Option<&'i Value<'i>> {
    let found = infos.iter().find(|info| info.key.is(key));
    found.map(|info| &info.value)
}

/// Copies infos of the host.
///
/// # Errors
///
/// Returns an error if the process has no memory for the copies.
pub(crate) fn try_to_owned(infos: &[Info<'_>]) -> Result<Vec<Info<'static>>, OutOfMemory> {
    let each = infos.iter().map(|info| info.measure(Measure::All));
    let bytes = each.fold(size_of_val(infos), usize::saturating_add);
    // A failed allocation in the copy itself would abort the process of the host.
    memory::check(bytes)?;
    Ok(infos.to_vec().into_owned())
}

/// Appends the user and group of a process to its infos, which the PMIx Standard (chapter "Server") requires for
/// upcalls. Infos of the process under these keys are dropped, so that it cannot claim another identity.
pub(crate) fn with_user(infos: &[Info<'_>], (uid, gid): (u32, u32)) -> Vec<Info<'static>> {
    let is_own = |info: &&Info<'_>| !info.key.is(keys::USERID) && !info.key.is(keys::GRPID);
    let infos = infos.iter().filter(is_own).cloned();
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

    #[test]
    fn no_time_is_no_limit() {
        let of = |seconds: i32| timeout(&[Info::new(keys::TIMEOUT, seconds)]);
        assert_eq!(of(0), None);
        assert_eq!(of(-1), None);
        assert_eq!(of(3), Some(Duration::from_secs(3)));
    }
}

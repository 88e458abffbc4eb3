// SPDX-License-Identifier: MIT OR Apache-2.0
//! Session control (`PMIx_Session_control`). There is one session, with the launcher's process id as number. All of
//! its jobs are paused, resumed, signaled or terminated together.
//!
//! Source: Exceptions to the PMIx Standard: extensions, 4.32.1 and 4.32.2.

use std::time::Instant;

use pmix_server::upcall::SessionControl;
use pmix_types::{Attribute, Info, Status, Value, keys};
use rustix::process::Signal;

use super::{Controller, Cx};
use crate::Cause;

/// The number that denotes all sessions.
const ALL: u32 = u32::MAX;

/// An action on all jobs of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Signal(Signal),
    End,
}

impl Controller {
    /// Applies the directives to the jobs of the session, either all of them or none.
    pub(crate) fn control_session(&mut self, cx: &mut Cx<'_>, call: &SessionControl) -> Status {
        if ![ALL, std::process::id()].contains(&call.session) {
            return Status::ERR_NOT_FOUND;
        }
        let actions = match actions_of(&call.directives) {
            Ok(actions) => actions,
            Err((info, status)) => {
                let who = cx.identify(&call.proc);
                let key = info.key.to_string();
                let name = Attribute::name_of(&key);
                cx.warn(format!(
                    "{who} requested {name}, which pmix run does not support"
                ));
                return status;
            }
        };
        if actions.is_empty() {
            return Status::ERR_BAD_PARAM;
        }
        let now = Instant::now();
        for action in actions {
            match action {
                Action::Signal(signal) => cx.agent.signal_all(signal),
                Action::End => {
                    // First the waiting spawns, so that no job starts while the session ends.
                    self.refuse_waiting(cx);
                    let by = cx.identify(&call.proc);
                    for index in 0..self.jobs.len() {
                        self.fail(cx, index, Cause::SessionEnded { by: by.clone() }, now);
                    }
                    self.spread_failures(cx, now);
                }
            }
        }
        Status::SUCCESS
    }
}

/// Returns the requested actions in the order of their first occurrences. A repeated action is executed once, so that
/// repetitions cost no time.
///
/// # Errors
/// Returns the first directive that is not supported, and the status for the reply.
fn actions_of<'i>(
    directives: &'i [Info<'static>],
) -> Result<Vec<Action>, (&'i Info<'static>, Status)> {
    let mut actions = Vec::new();
    for info in directives {
        let action = action_of(info).map_err(|status| (info, status))?;
        actions.extend(action.filter(|new| !actions.contains(new)));
    }
    Ok(actions)
}

/// Returns the action of a directive, or `None` if it requests none.
fn action_of(info: &Info<'_>) -> Result<Option<Action>, Status> {
    let wanted = |action| Ok(info.truth().is_true().then_some(action));
    match () {
        () if info.key.is(keys::SESSION_PAUSE) => wanted(Action::Signal(Signal::STOP)),
        () if info.key.is(keys::SESSION_RESUME) => wanted(Action::Signal(Signal::CONT)),
        () if info.key.is(keys::SESSION_TERMINATE) => wanted(Action::End),
        () if info.key.is(keys::SESSION_SIGNAL) => {
            let number: Option<i32> = info.value.to_number().ok();
            let signal = number.and_then(Signal::from_named_raw);
            let signal = signal.ok_or(Status::ERR_BAD_PARAM)?;
            Ok(Some(Action::Signal(signal)))
        }
        // The id only names the request.
        () if info.key.is(keys::SESSION_CTRL_ID) => Ok(None),
        // A directive with the value `false` requests nothing.
        () if matches!(info.value, Value::Bool(false)) => Ok(None),
        () if info.key.as_bytes().starts_with(b"pmix.ssn.") => Err(Status::ERR_NOT_SUPPORTED),
        () => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_launcher_does_to_its_session_is_done_and_the_rest_refused() {
        let of = |key: &'static str| action_of(&Info::new(key, true));
        assert_eq!(
            of(keys::SESSION_PAUSE),
            Ok(Some(Action::Signal(Signal::STOP)))
        );
        assert_eq!(
            of(keys::SESSION_RESUME),
            Ok(Some(Action::Signal(Signal::CONT)))
        );
        assert_eq!(of(keys::SESSION_TERMINATE), Ok(Some(Action::End)));
        for key in [
            keys::SESSION_APP,
            keys::SESSION_COMPLETE,
            keys::SESSION_INSTANTIATE,
            keys::SESSION_PREEMPT,
            keys::SESSION_PROVISION,
            keys::SESSION_RESTORE,
        ] {
            assert_eq!(of(key), Err(Status::ERR_NOT_SUPPORTED), "{key}");
            assert_eq!(action_of(&Info::new(key, false)), Ok(None), "{key}");
        }
        let signal = |number: i32| action_of(&Info::new(keys::SESSION_SIGNAL, number));
        assert_eq!(signal(10), Ok(Some(Action::Signal(Signal::USR1))));
        assert_eq!(signal(0), Err(Status::ERR_BAD_PARAM));
        assert_eq!(action_of(&Info::new(keys::SESSION_CTRL_ID, "a")), Ok(None));
    }

    #[test]
    fn what_is_asked_for_twice_is_done_once() {
        let signal = |number: i32| Info::new(keys::SESSION_SIGNAL, number);
        let mut directives = vec![signal(10), signal(12)];
        directives.extend((0..1000).map(|_| signal(10)));
        let signals = [Signal::USR1, Signal::USR2].map(Action::Signal);
        assert_eq!(actions_of(&directives).unwrap(), signals);
        directives.push(Info::new(keys::SESSION_APP, true));
        let (refused, status) = actions_of(&directives).unwrap_err();
        assert!(refused.key.is(keys::SESSION_APP) && status == Status::ERR_NOT_SUPPORTED);
    }
}

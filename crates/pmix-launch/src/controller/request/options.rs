// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of `PMIX_RUNTIME_OPTIONS`, as in `prterun --runtime-options`. Each is equivalent to a directive.

use std::ffi::OsString;

use pmix_types::Text;

use super::{Refusal, Request};

impl Request {
    /// Parses options such as `error-nonzero-status=false,max-restarts=2`, in upper or lower case.
    pub(super) fn options(&mut self, text: &Text<'_>) -> Result<(), Refusal> {
        let text = text.to_str_lossy();
        let options = text.split(',').map(str::trim);
        for option in options.filter(|option| !option.is_empty()) {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value.trim())),
                None => (option, None),
            };
            if !self.option(&name.trim().to_ascii_lowercase(), value) {
                let what = format!("PMIX_RUNTIME_OPTIONS {option:?}");
                return Err(Refusal::unsupported(what));
            }
        }
        Ok(())
    }

    /// Parses one option. Returns `true` if it is supported.
    fn option(&mut self, name: &str, value: Option<&str>) -> bool {
        match (name, flag(value), value) {
            ("error-nonzero-status", Some(flag), _) => self.ends_by_exit_code = Some(flag),
            ("recoverable" | "continuous", Some(flag), _) => self.keep_going = Some(flag),
            ("donotlaunch", Some(flag), _) => self.is_only_prepared = flag,
            ("show-progress", Some(flag), _) => self.shows_progress = flag,
            ("report-child-jobs-separately", Some(flag), _) => self.reports_children_apart = flag,
            // These request the default behavior.
            ("aggregate-help" | "aggregate-help-messages", Some(true), _)
            | ("notifyerrors" | "fwd-environment", Some(true), _) => {}
            ("max-restarts", _, Some(number)) => match number.parse() {
                Ok(number) => self.max_restarts = Some(number),
                Err(_) => return false,
            },
            ("exec-agent", _, Some(agent)) if !agent.trim().is_empty() => {
                self.form.agent = agent.split_whitespace().map(OsString::from).collect();
            }
            _ => return false,
        }
        true
    }
}

/// Parses a flag; an option without a value is `true`.
fn flag(value: Option<&str>) -> Option<bool> {
    match value.map(str::to_ascii_lowercase).as_deref() {
        None | Some("true" | "yes" | "t" | "y" | "1") => Some(true),
        Some("false" | "no" | "f" | "n" | "0") => Some(false),
        Some(_) => None,
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of commands, and the types packed in values.

use pmix_proto::Command;
use pmix_proto::outline::Part;
use pmix_types::DataType;

/// Returns the command with this name, in upper or lower case, or number.
pub(super) fn named(text: &str) -> Option<Command> {
    let is_named =
        |command: &&Command| command.name().is_some_and(|n| n.eq_ignore_ascii_case(text));
    let found = Command::ALL.iter().find(is_named).copied();
    found.or_else(|| Some(Command(text.parse().ok()?)).filter(|command| command.name().is_some()))
}

/// Returns the names of all commands, for messages.
pub(super) fn names() -> String {
    let names = Command::ALL.iter().filter_map(|command| command.name());
    names.collect::<Vec<_>>().join(", ")
}

/// Returns the parts of the value of this key, if it is a packed buffer itself.
pub(super) fn blob(key: &str) -> Option<Vec<Part>> {
    let first = match key {
        pmix_types::keys::PROC_BLOB => Part::One("rank", DataType::PROC_RANK),
        pmix_types::keys::MAP_BLOB => Part::One("nodes", DataType::SIZE),
        _ => return None,
    };
    let kvals = Part::Rest(vec![Part::One("kval", DataType::KVAL)]);
    Some(vec![first, kvals])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_by_number_and_by_name() {
        assert_eq!(named("getnb"), Some(Command::GETNB));
        assert_eq!(named("4"), Some(Command::GETNB));
        assert_eq!((named("40"), named("x")), (None, None));
    }
}

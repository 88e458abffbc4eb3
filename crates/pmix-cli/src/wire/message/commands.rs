// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the messages of each command hold: the calls of the request and of the reply.
//!
//! A request begins with a call of its command. Where releases differ the newest form that the
//! client's release has is the one.

use pmix_types::DataType as T;

/// A part of a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// A call of one datum.
    One(&'static str, T),
    /// A call of a size, and if it is not 0 a call of so many data.
    Many(&'static str, T),
    /// A call of a size, and so many calls of one datum.
    Each(&'static str, T),
    /// A call of one datum that is a buffer, and what is packed in it.
    Packed(&'static str, T, &'static [Self]),
    /// What follows if the status or truth value before it says so.
    If(&'static [Self]),
    /// What may follow.
    Maybe(&'static [Self]),
    /// What follows again and again up to the end.
    Rest(&'static [Self]),
}

use Step::{Each, If, Many, Maybe, One, Packed, Rest};

/// The calls of a message, from one major release of the client on.
pub(super) type Form = (u32, &'static [Step]);

/// A command.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) number: u8,
    pub(super) name: &'static str,
    pub(super) request: &'static [Form],
    pub(super) reply: &'static [Form],
}

impl Command {
    /// The command with this number.
    pub(super) fn of(number: u8) -> Option<&'static Self> {
        COMMANDS.iter().find(|command| command.number == number)
    }

    /// The command with this name, in upper or lower case, or number.
    pub(super) fn named(text: &str) -> Option<&'static Self> {
        let named = |command: &&Self| command.name.eq_ignore_ascii_case(text);
        let found = COMMANDS.iter().find(named);
        found.or_else(|| Self::of(text.parse().ok()?))
    }
}

/// The form of a release.
pub(super) fn form(forms: &[Form], major: u32) -> &'static [Step] {
    let mut fitting = forms.iter().filter(|(since, _)| *since <= major);
    fitting.next_back().map_or(&[], |(_, steps)| steps)
}

const fn command(
    number: u8,
    name: &'static str,
    request: &'static [Form],
    reply: &'static [Form],
) -> Command {
    Command {
        number,
        name,
        request,
        reply,
    }
}

const INFOS: Step = Many("infos", T::INFO);
const PROCS: Step = Many("procs", T::PROC);
const STATUS: Step = One("status", T::STATUS);
const KVALS: Step = Rest(&[One("kval", T::KVAL)]);

/// Nothing but a status.
const DONE: &[Form] = &[(0, &[STATUS])];
/// A status and what was found.
const FOUND: &[Form] = &[(0, &[STATUS, Maybe(&[INFOS])])];

/// What an event says, which is also what a client says to raise one.
pub(super) const EVENT: &[Step] = &[
    One("command", T::COMMAND),
    One("status", T::STATUS),
    One("source", T::PROC),
    INFOS,
    Maybe(&[One("range", T::DATA_RANGE)]),
];

/// Output that a server forwards.
pub(super) const OUTPUT: &[Step] = &[
    One("source", T::PROC),
    One("channel", T::IOF_CHANNEL),
    One("id of the pull", T::SIZE),
    INFOS,
    One("data", T::BYTE_OBJECT),
];

/// What a server forwards to stop or restart a flow of output.
pub(super) const FLOW: &[Step] = &[
    One("source", T::PROC),
    One("channel", T::IOF_CHANNEL),
    One("flag", T::BOOL),
    INFOS,
];

/// A key that was deleted.
pub(super) const DELETED: &[Step] = &[
    One("proc", T::PROC),
    One("scope", T::SCOPE),
    One("key", T::STRING),
];

/// What a server says that has no use for a message.
pub(super) const REFUSED: &[Step] = &[STATUS];

/// What a client adds to its introduction.
pub(super) const INTRODUCTION: &[Step] = &[INFOS];

/// Values that are packed buffers themselves, by their keys.
pub(super) const BLOBS: &[(&str, &[Step])] = &[
    ("pmix.pblob", &[One("rank", T::PROC_RANK), KVALS]),
    ("pmix.mblob", &[One("nodes", T::SIZE), KVALS]),
];

/// Every command, by number.
#[rustfmt::skip]
const COMMANDS: &[Command] = &[
    command(0, "REQ", &[(0, &[])], &[(0, &[One("nspace", T::STRING), KVALS])]),
    command(1, "ABORT", &[(0, &[STATUS, One("message", T::STRING), PROCS])], DONE),
    command(2, "COMMIT", &[(0, &[Rest(&[One("scope", T::SCOPE), Packed("data", T::BUFFER, &[KVALS])])])], DONE),
    command(3, "FENCENB", &[(0, &[PROCS, INFOS])], DONE),
    command(4, "GETNB", &[(0, &[One("nspace", T::STRING), One("rank", T::PROC_RANK), INFOS, One("key", T::STRING)])],
        &[(0, &[STATUS, If(&[Rest(&[Packed("data", T::BYTE_OBJECT, &[One("proc", T::PROC), KVALS])])])])]),
    command(5, "FINALIZE", &[(0, &[])], DONE),
    command(6, "PUBLISH", &[(0, &[One("uid", T::UINT32), INFOS])], DONE),
    command(7, "LOOKUP", &[(0, &[One("uid", T::UINT32), Each("keys", T::STRING), INFOS])],
        &[(0, &[STATUS, If(&[Many("found", T::PDATA)])])]),
    command(8, "UNPUBLISH", &[(0, &[One("uid", T::UINT32), Each("keys", T::STRING), INFOS])], DONE),
    command(9, "SPAWN", &[(0, &[INFOS, Many("apps", T::APP)])], &[(0, &[STATUS, Maybe(&[One("nspace", T::STRING)])])]),
    command(10, "CONNECT", &[(0, &[PROCS, INFOS])],
        &[(0, &[STATUS, Rest(&[Packed("job", T::BYTE_OBJECT, &[One("nspace", T::STRING), KVALS])])])]),
    command(11, "DISCONNECT", &[(0, &[PROCS, INFOS])], DONE),
    command(12, "NOTIFY", &[(0, &[STATUS, One("range", T::DATA_RANGE), INFOS])], DONE),
    command(13, "REGEVENTS", &[(0, &[Many("codes", T::STATUS), INFOS])], DONE),
    command(14, "DEREGEVENTS", &[(0, &[Rest(&[One("code", T::STATUS)])])], &[(0, &[])]),
    command(15, "QUERY", &[(0, &[Many("queries", T::QUERY)])], FOUND),
    command(16, "LOG", &[(0, &[One("time", T::TIME), Many("data", T::INFO), Many("directives", T::INFO)])], DONE),
    command(17, "ALLOC", &[(0, &[One("directive", T::ALLOC_DIRECTIVE), INFOS])], FOUND),
    command(18, "JOB_CONTROL", &[(0, &[Many("targets", T::PROC), INFOS])], FOUND),
    command(19, "MONITOR", &[(0, &[One("monitor", T::INFO), One("error", T::STATUS), INFOS])], FOUND),
    command(20, "GET_CREDENTIAL", &[(0, &[INFOS])], &[(0, &[STATUS, Maybe(&[One("credential", T::BYTE_OBJECT), INFOS])])]),
    command(21, "VALIDATE_CRED", &[(0, &[One("credential", T::BYTE_OBJECT), INFOS])], FOUND),
    command(22, "IOF_PULL", &[(0, &[PROCS, INFOS, One("channels", T::IOF_CHANNEL), One("local id", T::SIZE)])],
        &[(0, &[STATUS, Maybe(&[One("remote id", T::SIZE)])])]),
    command(23, "IOF_PUSH", &[(0, &[PROCS, INFOS, One("data", T::BYTE_OBJECT)])], DONE),
    command(24, "GROUP_CONSTRUCT", &[(0, &[One("group", T::STRING), PROCS, INFOS])], &[
        (0, &[STATUS, Maybe(&[One("context id", T::SIZE)])]),
        (5, &[STATUS, Maybe(&[PROCS, Maybe(&[One("context id", T::SIZE)])])]),
        (6, &[STATUS, Maybe(&[PROCS, One("has context id", T::BOOL), If(&[One("context id", T::SIZE)]), INFOS])]),
    ]),
    command(27, "GROUP_LEAVE", &[(0, &[One("group", T::STRING), INFOS])], DONE),
    command(28, "GROUP_DESTRUCT", &[
        (0, &[One("group", T::STRING), INFOS]),
        (5, &[One("group", T::STRING), PROCS, INFOS]),
    ], DONE),
    command(29, "IOF_DEREG", &[(0, &[INFOS, One("remote id", T::SIZE)])], DONE),
    command(30, "FABRIC_REGISTER", &[(0, &[INFOS])], FOUND),
    command(31, "FABRIC_UPDATE", &[(0, &[One("index", T::SIZE)])], FOUND),
    command(32, "DEVICE_DISTANCES", &[(0, &[One("topology", T::TOPO), One("cpuset", T::PROC_CPUSET), INFOS])],
        &[(0, &[STATUS, If(&[Many("distances", T::DEVICE_DIST)])])]),
    command(33, "REFRESH_CACHE", &[(0, &[One("nspace", T::STRING), One("rank", T::PROC_RANK)])], &[(0, &[STATUS, KVALS])]),
    command(34, "RESBLK", &[(0, &[One("directive", T::RESBLOCK_DIRECTIVE), One("block", T::STRING), Many("units", T::RESOURCE_UNIT), INFOS])], DONE),
    command(35, "SESSION_CTRL", &[(0, &[One("session", T::UINT32), INFOS])], FOUND),
    command(36, "REQ_SYSINFO", &[(0, &[])], &[(0, &[STATUS, KVALS])]),
    command(37, "RESOLVE_PEERS", &[(0, &[One("node", T::STRING), One("nspace", T::STRING)])],
        &[(0, &[STATUS, If(&[PROCS])])]),
    command(38, "RESOLVE_NODE", &[(0, &[One("nspace", T::STRING)])], &[(0, &[STATUS, If(&[One("nodes", T::STRING)])])]),
    command(39, "GDS_FALLBACK", &[(0, &[One("module", T::STRING)])], &[(0, &[One("nspace", T::STRING), KVALS])]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_by_number_and_by_name() {
        let numbers: Vec<_> = COMMANDS.iter().map(|c| c.number).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b));
        assert_eq!(Command::of(4).unwrap().name, "GETNB");
        assert_eq!(Command::named("getnb").unwrap().number, 4);
        assert_eq!(Command::named("4").unwrap().number, 4);
        assert!(Command::of(25).is_none() && Command::named("x").is_none());
    }

    #[test]
    fn the_newest_form_that_a_release_has_is_taken() {
        let reply = Command::of(24).unwrap().reply;
        let len = |major| match form(reply, major) {
            [_, Maybe(steps)] => steps.len(),
            _ => 0,
        };
        assert_eq!([len(3), len(4), len(5), len(6), len(7)], [1, 1, 2, 4, 4]);
    }
}

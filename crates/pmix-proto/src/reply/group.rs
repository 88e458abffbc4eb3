// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reply to the construction of a group, the only reply that differs between releases.
//!
//! | client | packed after the status `PMIX_SUCCESS` |
//! | --- | --- |
//! | 4 | `PMIX_SIZE`, the context id, if any |
//! | 5 | `PMIX_SIZE` and `PMIX_PROC`, the members; `PMIX_SIZE`, the context id, if any |
//! | 6 and later | `PMIX_SIZE` and `PMIX_PROC`, the members; `PMIX_BOOL`, whether there is a context id; `PMIX_SIZE`, the context id, if so; `PMIX_SIZE`, how many infos; `PMIX_INFO` each |
//!
//! The form depends on the release in the client's hello, because clients of 4.2 and 5.0 have the
//! same layout. A server of 4.2 does not know the later forms. It replies to every client in the
//! form of 4: after the status, one number or nothing. A client of a later release recognizes this
//! form, because no members follow the number. A client of 5.0 does not accept an empty list of
//! members. Frozen: append only.
//!
//! Source: OpenPMIx, `PMIx_Group_construct` of releases 4 to 6; PMIx Standard, chapter "Process
//! Sets and Groups".

use pmix_types::{DataType, Info, Proc, Status};

use crate::codec::{Each, Many, Maybe, One, Part, Reader, Shape, Writer, payloads};
use crate::{Error, wire_type};

/// The constructed group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group<'a> {
    /// The status. After a failure, there are no other fields.
    pub status: Status,
    /// The members. Since 5.0.
    pub members: Vec<Proc<'a>>,
    /// The context id, if one was requested.
    pub context_id: Option<u64>,
    /// The infos that the members contributed, one info each. Since 6.0.
    pub infos: Vec<Info<'a>>,
}

payloads! { Group<'a>, }

impl Shape for Group<'_> {
    type Of<'m> = Group<'m>;

    fn read<'m>(reader: &mut Reader<'m>) -> Result<Group<'m>, Error> {
        let mut group = Group {
            status: reader.one::<wire_type::Status>()?,
            ..Group::default()
        };
        // A failure has no other fields. Every release also accepts a success without other fields.
        if !group.status.is_success() || reader.is_empty() {
            return Ok(group);
        }
        if reader.major() >= 5 {
            if let Some(number) = reader.last_number()? {
                // A server of 4.2 sends 0 or `NO_CONTEXT_ID` for a group without a context id.
                group.context_id = (number != 0 && number != NO_CONTEXT_ID).then_some(number);
                return Ok(group);
            }
            let members = Many::<wire_type::Proc>::read(reader);
            group.members = members.map_err(|error| error.inside("members"))?;
        }
        let has_context = match reader.major() >= 6 {
            true => Maybe::<One<wire_type::Bool>>::read(reader)? == Some(true),
            false => !reader.is_empty(),
        };
        if has_context {
            group.context_id = Some(reader.one::<wire_type::Size>()?);
        }
        if reader.major() >= 6 {
            let infos = Maybe::<Each<wire_type::Info>>::read(reader);
            let infos = infos.map_err(|error| error.inside("infos"))?;
            group.infos = infos.unwrap_or_default();
        }
        Ok(group)
    }

    fn write(writer: &mut Writer<'_>, group: &Group<'_>) -> Result<(), Error> {
        writer.one::<wire_type::Status>(&group.status)?;
        if !group.status.is_success() {
            return Ok(());
        }
        match writer.major() {
            0..=4 => {}
            5 if group.members.is_empty() => return Ok(()),
            _ => Many::<wire_type::Proc>::write(writer, &group.members)?,
        }
        if writer.major() >= 6 {
            writer.one::<wire_type::Bool>(&group.context_id.is_some())?;
        }
        Maybe::<One<wire_type::Size>>::write(writer, &group.context_id)?;
        match writer.major() >= 6 {
            true => Each::<wire_type::Info>::write(writer, &group.infos),
            false => Ok(()),
        }
    }

    fn outline(_: &'static str, major: u32) -> Vec<Part> {
        let context_id = vec![Part::One("context_id", DataType::SIZE)];
        let members = Part::Many("members", DataType::PROC);
        let rest = match major {
            0..=4 => context_id,
            5 => vec![members, Part::Maybe(context_id)],
            _ => vec![
                members,
                Part::One("has_context_id", DataType::BOOL),
                Part::If(context_id),
                Part::Each("infos", DataType::INFO),
            ],
        };
        vec![Part::One("status", DataType::STATUS), Part::Maybe(rest)]
    }
}

/// The number that means that there is no context id.
const NO_CONTEXT_ID: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PeerForm;
    use bfrops::{Layout, Module};
    use pmix_types::Rank;

    fn form(version: &str) -> PeerForm {
        PeerForm::new(Layout::new(Module::V41), version.as_bytes())
    }

    fn group() -> Group<'static> {
        Group {
            status: Status::SUCCESS,
            members: vec![Proc::new("j", Rank::new(0))],
            context_id: Some(9),
            infos: vec![Info::new("a", 1_u32), Info::new("b", 2_u32)],
        }
    }

    #[test]
    fn every_release_gets_the_form_that_it_reads() {
        let members = b"\x02\x01\x02\x04j\0\0";
        let infos = b"\x02\x02\x02\x04a\0\0\x0e\x01\x02\x04b\0\0\x0e\x02";
        let whole = [
            ("4.2.2", [&b"\x02\0\x02\x09"[..]].concat()),
            ("5.0.11", [b"\x02\0", &members[..], b"\x02\x09"].concat()),
            (
                "7.0.0",
                [b"\x02\0", &members[..], b"\x02\x01\x02\x09", infos].concat(),
            ),
        ];
        for (version, bytes) in whole {
            let form = form(version);
            assert_eq!(group().encode(&form, None).unwrap(), bytes, "{version}");
            let seen = Group::decode(&form, None, &bytes).unwrap();
            let expected = Group {
                members: if form.major >= 5 {
                    group().members
                } else {
                    vec![]
                },
                infos: if form.major >= 6 {
                    group().infos
                } else {
                    vec![]
                },
                ..group()
            };
            assert_eq!(seen, expected, "{version}");
            assert_eq!(seen.encode(&form, None).unwrap(), bytes);
        }
    }

    #[test]
    fn a_client_of_5_0_never_gets_an_empty_list_of_members() {
        let empty = Group {
            members: vec![],
            ..group()
        };
        assert_eq!(empty.encode(&form("5.0.11"), None).unwrap(), [2, 0]);
    }

    #[test]
    fn clients_of_every_release_read_the_answer_of_a_server_of_4_2() {
        let answers: [(&[u8], Option<u64>); 4] = [
            (b"\x02\0\x02\x09", Some(9)),
            (b"\x02\0\x02\0", None),
            (b"\x02\0\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff", None),
            (b"\x02\0", None),
        ];
        for version in ["5.0.11", "6.1.0", "7.0.0"] {
            for (bytes, context_id) in answers {
                let seen = Group::decode(&form(version), None, bytes).unwrap();
                assert_eq!(seen.context_id, context_id, "{version} {bytes:?}");
                assert_eq!((seen.status, seen.members.len()), (Status::SUCCESS, 0));
            }
        }
    }

    #[test]
    fn rejects_a_number_of_members_without_members() {
        for bytes in [&b"\x02\0\x02\x02\x02\x01"[..], b"\x02\0\x02"] {
            assert!(Group::decode(&form("7.0.0"), None, bytes).is_err());
        }
    }

    #[test]
    fn nothing_follows_a_failure() {
        let failed = Group {
            status: Status::ERR_TIMEOUT,
            ..group()
        };
        for version in ["4.2.2", "5.0.11", "7.0.0"] {
            let bytes = failed.encode(&form(version), None).unwrap();
            assert_eq!(bytes, [2, 47], "{version}");
            let seen = Group::decode(&form(version), None, &bytes).unwrap();
            assert_eq!(seen.status, Status::ERR_TIMEOUT);
        }
    }
}

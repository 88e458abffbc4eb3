// SPDX-License-Identifier: MIT OR Apache-2.0
//! The unsolicited messages of a server. Each kind has its own tag.
//!
//! Source: OpenPMIx; PMIx Standard, chapters "Event Notification" and "Tools and Debuggers", for
//! the meaning of the messages.

use pmix_types::{
    Bytes, DataRange, DataType, Info, IntoOwned, IofChannel, Key, Measure, Proc, Scope, Status,
};

use crate::codec::{Many, Maybe, One, Part, Reader, Shape, Writer, message, payloads};
use crate::{Command, Error, wire_type};

/// An event for a client that registered for it, on [`Tag::EVENT`](crate::Tag::EVENT).
///
/// | field | call | since |
/// | --- | --- | --- |
/// | command | `PMIX_COMMAND`, 12 | 2.0 |
/// | status | `PMIX_STATUS` | 2.0 |
/// | source | `PMIX_PROC` | 2.0 |
/// | infos | `PMIX_SIZE` and `PMIX_INFO` | 2.0 |
/// | range | `PMIX_DATA_RANGE`, optional | 6.0 |
///
/// Frozen: append only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event<'a> {
    /// The code of the event.
    pub status: Status,
    /// The process that generated the event.
    pub source: Proc<'a>,
    /// The infos of the event.
    pub infos: Vec<Info<'a>>,
    /// The range of the event. Clients of earlier releases ignore it.
    pub range: Option<DataRange>,
}

impl Shape for Event<'_> {
    type Of<'m> = Event<'m>;

    fn read<'m>(reader: &mut Reader<'m>) -> Result<Event<'m>, Error> {
        let command = Command::from(reader.one::<wire_type::Command>()?);
        if command != Command::NOTIFY {
            let message = format!("an event with {command} instead of NOTIFY");
            return Err(Error::malformed(0, message));
        }
        Ok(Event {
            status: reader.one::<wire_type::Status>()?,
            source: reader.one::<wire_type::Proc>()?,
            infos: Many::<wire_type::Info>::read(reader)?,
            range: Maybe::<One<wire_type::DataRange>>::read(reader)?,
        })
    }

    fn write(writer: &mut Writer<'_>, event: &Event<'_>) -> Result<(), Error> {
        writer.one::<wire_type::Command>(&Command::NOTIFY.into())?;
        writer.one::<wire_type::Status>(&event.status)?;
        writer.one::<wire_type::Proc>(&event.source)?;
        Many::<wire_type::Info>::write(writer, &event.infos)?;
        Maybe::<One<wire_type::DataRange>>::write(writer, &event.range)
    }

    fn outline(_: &'static str, _: u32) -> Vec<Part> {
        vec![
            Part::One("command", DataType::COMMAND),
            Part::One("status", DataType::STATUS),
            Part::One("source", DataType::PROC),
            Part::Many("infos", DataType::INFO),
            Part::Maybe(vec![Part::One("range", DataType::DATA_RANGE)]),
        ]
    }
}

impl IntoOwned for Event<'_> {
    type Owned = Event<'static>;

    fn into_owned(self) -> Event<'static> {
        Event {
            status: self.status,
            source: self.source.into_owned(),
            infos: self.infos.into_owned(),
            range: self.range,
        }
    }

    fn measure(&self, what: Measure) -> usize {
        self.source.measure(what) + self.infos.measure(what)
    }
}

/// The key of an info in an [`Output`]: the number of pieces of output that were dropped for this
/// pull (`PMIX_UINT64`). A server of this project drops pieces that the peer does not read in time.
/// Other peers ignore the info.
pub const LOST_OUTPUT: &str = "pmixrs.iof.lost";

message! {
    /// Forwarded output, on [`Tag::OUTPUT`](crate::Tag::OUTPUT).
    Output<'a> {
        /// The process whose output or input this is.
        source: Proc<'a> = One<wire_type::Proc>,
        /// The stream.
        channel: IofChannel = One<wire_type::IofChannel>,
        /// The number that the client assigned to its handler when it requested the output; 0 for
        /// output that a tool receives without a request.
        local_id: u64 = One<wire_type::Size>,
        /// The directives for formatting the output.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
        /// The output. No bytes mean the end of the stream.
        data: Bytes<'a> = One<wire_type::ByteObject>,
    }

    /// A request to stop or restart a flow of input, on [`Tag::FLOW`](crate::Tag::FLOW). Since 7.0.
    Flow<'a> {
        /// The process whose input is controlled.
        source: Proc<'a> = One<wire_type::Proc>,
        /// The stream.
        channel: IofChannel = One<wire_type::IofChannel>,
        /// `true` to stop, `false` to restart.
        stop: bool = One<wire_type::Bool>,
        /// The infos of the request.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// The notification that a key was deleted, on [`Tag::DELETED`](crate::Tag::DELETED). Since
    /// 7.0; clients of earlier releases do not know the tag.
    Deleted<'a> {
        /// The process that had put the key.
        proc: Proc<'a> = One<wire_type::Proc>,
        /// The scope in which the key is deleted.
        scope: Scope = One<wire_type::Scope>,
        /// The key.
        key: Key<'a> = One<wire_type::Key>,
    }
}

payloads! { Event<'a>, Output<'a>, Flow<'a>, Deleted<'a>, }

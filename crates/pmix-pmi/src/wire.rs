// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text form of commands: bytes to [`Command`]s.
//!
//! | wire | a command |
//! | --- | --- |
//! | PMI-1 | one line, `cmd=get kvsname=job key=card` |
//! | PMI-1, spawn | lines `key=value` from `mcmd=spawn` to `endcmd`, once for each application |
//! | PMI-2 | its length in six characters, then `cmd=kvs-get;key=card;` |
//!
//! Source: PMI 1.1, 1.2 and 2.0 of MPICH; captured commands of MPICH 5.0.2, Intel MPI 2021.18 and Slurm's client.

use pmix_types::memory;

use crate::Error;

/// The largest length of a command in bytes, for the command lines of the applications of a spawn. Each process of a
/// node may have sent a part of such a command.
pub const MAX_COMMAND_BYTES: usize = 1 << 20;

/// The number of characters of a length in PMI-2.
const LENGTH: usize = 6;

/// The bytes that an attribute takes in memory in addition to its text.
const ENTRY: usize = 96;

/// The largest number of attributes of a command other than a spawn of PMI-1.
const MAX_ATTRIBUTES: usize = MAX_COMMAND_BYTES / ENTRY;

/// The form of the commands of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    /// Lines of `key=value`, separated by spaces.
    V1,
    /// `key=value;` after a length.
    V2,
}

/// A key and its value.
pub(crate) type Attribute = (String, Vec<u8>);

/// A command: its name and its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The form in which the command was received, and in which the reply is sent.
    pub wire: Wire,
    /// The name, for example `barrier_in`.
    pub name: String,
    /// The attributes. In a spawn these are the attributes before the first application (PMI-2).
    pub(crate) attributes: Vec<Attribute>,
    /// The attributes of the applications of a spawn.
    pub(crate) sections: Vec<Vec<Attribute>>,
}

impl Command {
    fn new(wire: Wire, name: impl Into<String>) -> Self {
        Self {
            wire,
            name: name.into(),
            attributes: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// Returns the value of an attribute.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&[u8]> {
        find(&self.attributes, key)
    }
}

/// Returns the value of a key.
pub(crate) fn find<'a>(attributes: &'a [Attribute], key: &str) -> Option<&'a [u8]> {
    let found = attributes.iter().find(|(other, _)| other == key);
    found.map(|(_, value)| value.as_slice())
}

/// A decoder of the commands of one connection.
#[derive(Debug)]
pub struct Decoder {
    wire: Wire,
    /// The largest length of a command in bytes.
    limit: usize,
    /// The received bytes that are not part of a returned command.
    bytes: Vec<u8>,
    /// The number of `bytes` without a line end, so that each byte is searched once.
    searched: usize,
    /// The spawn whose lines are being received, and the number of their bytes with those of their list entries.
    spawn: Option<(Command, usize)>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            wire: Wire::V1,
            limit: MAX_COMMAND_BYTES,
            bytes: Vec::new(),
            searched: 0,
            spawn: None,
        }
    }
}

impl Decoder {
    /// Sets the form of the commands that follow. A connection begins with [`Wire::V1`].
    pub fn set_wire(&mut self, wire: Wire) {
        self.wire = wire;
        self.searched = 0;
    }

    /// Sets the largest length in bytes of the commands that follow, at first [`MAX_COMMAND_BYTES`].
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Adds received bytes.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOMEM` if the process has no memory for them.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Ok(memory::append(&mut self.bytes, bytes)?)
    }

    /// Returns the next complete command, or `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for bytes that are not a command, and `PMIX_ERR_OUT_OF_RESOURCE` for a command
    /// longer than the [limit](Self::set_limit). The connection cannot continue then.
    pub fn next_command(&mut self) -> Result<Option<Command>, Error> {
        let next = match self.wire {
            Wire::V1 => self.next_of_lines(),
            Wire::V2 => self.next_with_length(),
        }?;
        let in_lines = self.spawn.as_ref().map_or(0, |(_, len)| *len);
        match next.is_none() && in_lines + self.bytes.len() > self.limit {
            true => Err(too_long(self.limit)),
            false => Ok(next),
        }
    }

    fn next_of_lines(&mut self) -> Result<Option<Command>, Error> {
        let mut start = 0;
        let result = loop {
            let from = start + self.searched;
            let Some(end) = self.bytes[from..].iter().position(|byte| *byte == b'\n') else {
                self.searched = self.bytes.len() - start;
                break Ok(None);
            };
            let line = &self.bytes[start..from + end];
            start = from + end + 1;
            self.searched = 0;
            match read_line(&mut self.spawn, line) {
                Ok(None) => {}
                result => break result,
            }
        };
        self.bytes.drain(..start);
        result
    }

    fn next_with_length(&mut self) -> Result<Option<Command>, Error> {
        let Some((length, rest)) = self.bytes.split_at_checked(LENGTH) else {
            return Ok(None);
        };
        let len = std::str::from_utf8(length).ok();
        let len: Option<usize> = len.and_then(|text| text.trim().parse().ok());
        let Some(len) = len else {
            let message = "a PMI-2 command does not begin with its length in six digits";
            return Err(Error::malformed(message));
        };
        let Some(body) = rest.get(..len) else {
            return Ok(None);
        };
        let command = read_fields(body);
        self.bytes.drain(..LENGTH + len);
        command.map(Some)
    }
}

fn too_long(limit: usize) -> Error {
    let message = format!("a PMI command is longer than {limit} bytes");
    Error::new(pmix_types::Status::ERR_OUT_OF_RESOURCE, message)
}

/// Reads one line of PMI-1. Returns the command that it completes.
fn read_line(spawn: &mut Option<(Command, usize)>, line: &[u8]) -> Result<Option<Command>, Error> {
    if let Some(text) = line.strip_prefix(b"cmd=")
        && spawn.is_none()
    {
        return read_words(text).map(Some);
    }
    if line == b"mcmd=spawn" {
        let (command, len) = spawn.get_or_insert_with(|| (Command::new(Wire::V1, "spawn"), 0));
        *len += line.len() + ENTRY;
        if *len > MAX_COMMAND_BYTES {
            return Err(too_long(MAX_COMMAND_BYTES));
        }
        command.sections.push(Vec::new());
        return Ok(None);
    }
    let Some((command, len)) = spawn else {
        return Err(Error::malformed(format!(
            "a PMI command does not begin with cmd= or mcmd=spawn: {}",
            shown(line)
        )));
    };
    *len += line.len() + ENTRY;
    if *len > MAX_COMMAND_BYTES {
        return Err(too_long(MAX_COMMAND_BYTES));
    }
    let Some(section) = command.sections.last_mut() else {
        return Ok(None);
    };
    if line != b"endcmd" {
        section.push(attribute(line)?);
        return Ok(None);
    }
    let total = find(section, "totspawns").and_then(|text| std::str::from_utf8(text).ok());
    let total: Option<usize> = total.and_then(|text| text.parse().ok());
    let Some(total) = total else {
        let message = "a spawn does not state the number of its applications (totspawns)";
        return Err(Error::malformed(message));
    };
    match command.sections.len() < total {
        true => Ok(None),
        false => Ok(spawn.take().map(|(command, _)| command)),
    }
}

/// Reads the words of a line of PMI-1, after `cmd=`.
///
/// Clients write values as they are, including spaces: a word without `=` is part of the value before it. The last
/// attribute of a command has the rest of the line.
fn read_words(line: &[u8]) -> Result<Command, Error> {
    let (name, mut rest) = split_once(line, b' ');
    let mut command = Command::new(Wire::V1, text(name)?);
    let last = match command.name.as_str() {
        "put" => "value=",
        "publish_name" => "port=",
        "lookup_name" | "unpublish_name" => "service=",
        "abort" => "message=",
        _ => "\n",
    };
    while !rest.is_empty() {
        if rest.starts_with(last.as_bytes()) {
            command.attributes.push(attribute(rest)?);
            break;
        }
        let (word, others) = split_once(rest, b' ');
        rest = others;
        if word.is_empty() {
            continue;
        }
        if command.attributes.len() >= MAX_ATTRIBUTES {
            return Err(too_long(MAX_COMMAND_BYTES));
        }
        match (word.contains(&b'='), command.attributes.last_mut()) {
            (false, Some((_, value))) => {
                value.push(b' ');
                value.extend_from_slice(word);
            }
            _ => command.attributes.push(attribute(word)?),
        }
    }
    Ok(command)
}

/// Reads the body of a command of PMI-2. A semicolon in a value is doubled.
fn read_fields(body: &[u8]) -> Result<Command, Error> {
    let mut command = Command::new(Wire::V2, String::new());
    let mut rest = body.strip_suffix(b"\0").unwrap_or(body);
    let mut is_first = true;
    let mut num_fields = 0;
    while !rest.is_empty() {
        num_fields += 1;
        if num_fields > MAX_ATTRIBUTES {
            return Err(too_long(MAX_COMMAND_BYTES));
        }
        let (field, others) = split_field(rest);
        rest = others;
        if field.is_empty() {
            continue;
        }
        let (key, value) = attribute(&field)?;
        if std::mem::take(&mut is_first) {
            if key != "cmd" {
                let message = format!("a PMI-2 command begins with {key}= instead of cmd=");
                return Err(Error::malformed(message));
            }
            command.name = text(&value)?;
            continue;
        }
        if key == "subcmd" {
            command.sections.push(Vec::new());
        }
        match command.sections.last_mut() {
            Some(section) => section.push((key, value)),
            None => command.attributes.push((key, value)),
        }
    }
    match command.name.is_empty() {
        true => Err(Error::malformed("a PMI-2 command has no name")),
        false => Ok(command),
    }
}

/// Returns the field before the first single semicolon, with doubled ones as single ones, and the bytes after it.
fn split_field(bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut field = Vec::new();
    let mut rest = bytes;
    loop {
        let (part, others) = split_once(rest, b';');
        field.extend_from_slice(part);
        match others.strip_prefix(b";") {
            Some(others) => {
                field.push(b';');
                rest = others;
            }
            None => return (field, others),
        }
    }
}

/// Splits `key=value`. A key without a value has an empty one.
fn attribute(bytes: &[u8]) -> Result<Attribute, Error> {
    let (key, value) = split_once(bytes, b'=');
    Ok((text(key)?, value.to_vec()))
}

/// Returns the bytes before and after the first separator.
fn split_once(bytes: &[u8], separator: u8) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == separator) {
        Some(place) => (&bytes[..place], &bytes[place + 1..]),
        None => (bytes, &[]),
    }
}

/// Returns a name as text.
fn text(bytes: &[u8]) -> Result<String, Error> {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| {
        Error::malformed(format!(
            "a name in a PMI command is not UTF-8: {}",
            shown(bytes)
        ))
    })?;
    Ok(text.to_owned())
}

/// Returns the beginning of received bytes for an error message.
fn shown(bytes: &[u8]) -> String {
    let bytes = bytes.get(..64).unwrap_or(bytes);
    format!("{:?}", String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of bytes that a connection reads at once.
    const READ: usize = 16 << 10;

    fn decoded(bytes: &[u8]) -> Result<Vec<Command>, Error> {
        let mut decoder = Decoder::default();
        decoder.push(bytes)?;
        let mut commands = Vec::new();
        while let Some(command) = decoder.next_command()? {
            commands.push(command);
        }
        Ok(commands)
    }

    fn pairs(attributes: &[Attribute]) -> Vec<(&str, &str)> {
        let pair = |(key, value): &'_ Attribute| {
            let value: &str = std::str::from_utf8(value).unwrap();
            // The tests compare with literals, which live long enough.
            (key.clone().leak() as &str, value.to_owned().leak() as &str)
        };
        attributes.iter().map(pair).collect()
    }

    /// The lines of MPICH 5.0.2 with Hydra, from the start of a process to its end.
    const MPICH: &[u8] = b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\ncmd=get_appnum\n\
        cmd=get_my_kvsname\ncmd=get kvsname=kvs_20073_0_29891941_vm key=PMI_process_mapping\n\
        cmd=publish_name service=svc x port=port y\ncmd=lookup_name service=svc x\ncmd=barrier_in\ncmd=finalize\n";

    #[test]
    fn captured_lines_of_mpich_are_read_with_their_spaces() {
        let commands = decoded(MPICH).unwrap();
        let names: Vec<_> = commands
            .iter()
            .map(|command| command.name.as_str())
            .collect();
        assert_eq!(
            names,
            [
                "init",
                "get_maxes",
                "get_appnum",
                "get_my_kvsname",
                "get",
                "publish_name",
                "lookup_name",
                "barrier_in",
                "finalize"
            ]
        );
        assert_eq!(
            pairs(&commands[0].attributes),
            [("pmi_version", "1"), ("pmi_subversion", "1")]
        );
        assert_eq!(
            pairs(&commands[5].attributes),
            [("service", "svc x"), ("port", "port y")]
        );
        assert_eq!(pairs(&commands[6].attributes), [("service", "svc x")]);
    }

    #[test]
    fn the_last_value_has_the_rest_of_the_line() {
        let line = b"cmd=put kvsname=job key=k value=a b=c  d\\e\n";
        let commands = decoded(line).unwrap();
        assert_eq!(
            pairs(&commands[0].attributes),
            [("kvsname", "job"), ("key", "k"), ("value", "a b=c  d\\e")]
        );
    }

    #[test]
    fn bytes_arrive_in_any_pieces() {
        let whole = decoded(MPICH).unwrap();
        for size in [1, 7, 64] {
            let mut decoder = Decoder::default();
            let mut commands = Vec::new();
            for piece in MPICH.chunks(size) {
                decoder.push(piece).unwrap();
                while let Some(command) = decoder.next_command().unwrap() {
                    commands.push(command);
                }
            }
            assert_eq!(commands, whole);
        }
    }

    #[test]
    fn a_captured_spawn_has_one_section_for_each_application() {
        let bytes = b"mcmd=spawn\nnprocs=2\nexecname=/usr/bin/python\ntotspawns=2\nspawnssofar=1\nargcnt=1\n\
            arg1=a b\npreput_num=1\npreput_key_0=PARENT_ROOT_PORT_NAME\npreput_val_0=tag#0$conn=$\ninfo_num=0\nendcmd\n\
            mcmd=spawn\nnprocs=1\nexecname=b\ntotspawns=2\nspawnssofar=2\nargcnt=0\nendcmd\ncmd=barrier_in\n";
        let commands = decoded(bytes).unwrap();
        assert_eq!(commands.len(), 2);
        let [first, second] = &commands[0].sections[..] else {
            panic!("{commands:?}");
        };
        assert_eq!(find(first, "arg1"), Some(&b"a b"[..]));
        assert_eq!(find(first, "preput_val_0"), Some(&b"tag#0$conn=$"[..]));
        assert_eq!(find(second, "execname"), Some(&b"b"[..]));
        assert_eq!(commands[1].name, "barrier_in");
    }

    #[test]
    fn fields_of_pmi_2_have_doubled_semicolons() {
        let body = b"cmd=kvs-put;key=a;value=x;;y=z;thrid=7;";
        let bytes = [format!("{:6}", body.len()).as_bytes(), body].concat();
        let mut decoder = Decoder::default();
        decoder.set_wire(Wire::V2);
        for byte in &bytes {
            assert_eq!(decoder.next_command().unwrap(), None);
            decoder.push(&[*byte]).unwrap();
        }
        let command = decoder.next_command().unwrap().unwrap();
        assert_eq!((command.wire, command.name.as_str()), (Wire::V2, "kvs-put"));
        assert_eq!(
            pairs(&command.attributes),
            [("key", "a"), ("value", "x;y=z"), ("thrid", "7")]
        );
    }

    #[test]
    fn other_bytes_are_refused() {
        for bytes in [
            &b"hello\n"[..],
            b"\n",
            b"mcmd=spawn\nnprocs=1\nendcmd\n",
            b"cmd=put \xff=1\n",
        ] {
            decoded(bytes).unwrap_err();
        }
        let mut decoder = Decoder::default();
        decoder.push(&vec![b'a'; MAX_COMMAND_BYTES + 1]).unwrap();
        let refused = decoder.next_command().unwrap_err();
        assert_eq!(refused.status(), pmix_types::Status::ERR_OUT_OF_RESOURCE);
        let mut decoder = Decoder::default();
        decoder.set_limit(READ);
        decoder.push(&vec![b'a'; READ + 1]).unwrap();
        decoder.next_command().unwrap_err();
        for line in ["mcmd=spawn\n", "mcmd=spawn\na\n"] {
            let mut decoder = Decoder::default();
            let bytes = line.repeat(MAX_COMMAND_BYTES / ENTRY);
            let refused = bytes.as_bytes().chunks(READ).find_map(|piece| {
                decoder.push(piece).unwrap();
                decoder.next_command().err()
            });
            let refused = refused.expect("an endless spawn is refused");
            assert_eq!(refused.status(), pmix_types::Status::ERR_OUT_OF_RESOURCE);
        }
        let mut decoder = Decoder::default();
        decoder.set_wire(Wire::V2);
        decoder.push(b"-00001cmd=finalize;").unwrap();
        decoder.next_command().unwrap_err();
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, is_second: bool) {
            let mut decoder = Decoder::default();
            decoder.set_wire(if is_second { Wire::V2 } else { Wire::V1 });
            decoder.push(&bytes).unwrap();
            while let Ok(Some(_)) = decoder.next_command() {}
        }
    }
}

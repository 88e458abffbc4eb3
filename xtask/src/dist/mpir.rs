// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debug information for the types of the MPIR symbols, for a command without other debug information. Debuggers read
//! the layout of a process's entry from it.
//!
//! Source: "The MPIR Process Acquisition Interface", version 1.1; "DWARF Debugging Information Format", version 4.

use std::fs;
use std::path::Path;
use std::process::Command;

use xtask::process::output;

use crate::files::write;

/// The variables; `true` for a volatile one. The first is the process table.
const VARIABLES: [(&str, bool); 6] = [
    ("MPIR_proctable", false),
    ("MPIR_proctable_size", false),
    ("MPIR_being_debugged", true),
    ("MPIR_debug_state", true),
    ("MPIR_i_am_starter", false),
    ("MPIR_partial_attach_ok", false),
];

/// A kind of entry: the tag, `true` if it has children, and its attributes with their forms.
type Abbreviation = (u8, bool, &'static [(u8, u8)]);

/// The abbreviations, which DWARF numbers from 1.
const ABBREVIATIONS: [Abbreviation; 8] = [
    (
        COMPILE_UNIT,
        true,
        &[(PRODUCER, STRING), (LANGUAGE, DATA1), (NAME, STRING)],
    ),
    (
        BASE_TYPE,
        false,
        &[(NAME, STRING), (BYTE_SIZE, DATA1), (ENCODING, DATA1)],
    ),
    (POINTER_TYPE, false, &[(BYTE_SIZE, DATA1), (TYPE, REF4)]),
    (STRUCTURE_TYPE, true, &[(NAME, STRING), (BYTE_SIZE, DATA1)]),
    (
        MEMBER,
        false,
        &[(NAME, STRING), (TYPE, REF4), (MEMBER_LOCATION, DATA1)],
    ),
    (TYPEDEF, false, &[(NAME, STRING), (TYPE, REF4)]),
    (VOLATILE_TYPE, false, &[(TYPE, REF4)]),
    (
        VARIABLE,
        false,
        &[
            (NAME, STRING),
            (TYPE, REF4),
            (EXTERNAL, FLAG_PRESENT),
            (LOCATION, EXPRLOC),
        ],
    ),
];

// Tags (DW_TAG), attributes (DW_AT) and forms (DW_FORM) of DWARF.
const MEMBER: u8 = 0x0d;
const POINTER_TYPE: u8 = 0x0f;
const COMPILE_UNIT: u8 = 0x11;
const STRUCTURE_TYPE: u8 = 0x13;
const TYPEDEF: u8 = 0x16;
const BASE_TYPE: u8 = 0x24;
const VARIABLE: u8 = 0x34;
const VOLATILE_TYPE: u8 = 0x35;
const LOCATION: u8 = 0x02;
const NAME: u8 = 0x03;
const BYTE_SIZE: u8 = 0x0b;
const LANGUAGE: u8 = 0x13;
const PRODUCER: u8 = 0x25;
const MEMBER_LOCATION: u8 = 0x38;
const ENCODING: u8 = 0x3e;
const EXTERNAL: u8 = 0x3f;
const TYPE: u8 = 0x49;
const STRING: u8 = 0x08;
const DATA1: u8 = 0x0b;
const REF4: u8 = 0x13;
const EXPRLOC: u8 = 0x18;
const FLAG_PRESENT: u8 = 0x19;

/// C99 (DW_LANG), signed numbers and characters (DW_ATE), and "at this address" (DW_OP).
const C99: u8 = 0x0c;
const SIGNED: u8 = 0x05;
const SIGNED_CHAR: u8 = 0x06;
const ADDR: u8 = 0x03;

/// The offset of a type in the information.
#[derive(Clone, Copy)]
struct Place(u32);

/// A compilation unit under construction.
struct Unit(Vec<u8>);

impl Unit {
    /// Creates a unit with a header of unknown length: version 4, the first abbreviation, addresses of 8 bytes.
    fn new() -> Self {
        let mut unit = Self(vec![0; 4]);
        unit.0.extend(4_u16.to_le_bytes());
        unit.0.extend(0_u32.to_le_bytes());
        unit.0.push(8);
        unit
    }

    /// Begins an entry of a kind.
    fn entry(&mut self, tag: u8) -> Place {
        let place = Place(u32::try_from(self.0.len()).unwrap_or(u32::MAX));
        let number = (1..).zip(ABBREVIATIONS).find(|(_, kind)| kind.0 == tag);
        self.0.push(number.map_or(0, |(number, _)| number));
        place
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.0.extend(text.as_bytes());
        self.byte(0)
    }

    fn byte(&mut self, byte: u8) -> &mut Self {
        self.0.push(byte);
        self
    }

    fn of(&mut self, place: Place) -> &mut Self {
        self.0.extend(place.0.to_le_bytes());
        self
    }

    fn base(&mut self, name: &str, size: u8, encoding: u8) -> Place {
        let place = self.entry(BASE_TYPE);
        self.text(name).byte(size).byte(encoding);
        place
    }

    fn pointer(&mut self, to: Place) -> Place {
        let place = self.entry(POINTER_TYPE);
        self.byte(8).of(to);
        place
    }

    /// Returns the unit with its length, which counts the bytes after the length field.
    fn end(mut self) -> Vec<u8> {
        self.byte(0);
        let len = u32::try_from(self.0.len() - 4).unwrap_or(u32::MAX);
        self.0.splice(..4, len.to_le_bytes());
        self.0
    }
}

/// Returns the information about variables at these addresses.
fn information(addresses: &[u64]) -> Vec<u8> {
    let mut unit = Unit::new();
    unit.entry(COMPILE_UNIT);
    unit.text("pmix-rs").byte(C99).text("mpir.c");
    let int = unit.base("int", 4, SIGNED);
    let char = unit.base("char", 1, SIGNED_CHAR);
    let text = unit.pointer(char);
    let row = unit.entry(STRUCTURE_TYPE);
    unit.text("MPIR_PROCDESC").byte(24);
    for (name, kind, offset) in [
        ("host_name", text, 0),
        ("executable_name", text, 8),
        ("pid", int, 16),
    ] {
        unit.entry(MEMBER);
        unit.text(name).of(kind).byte(offset);
    }
    unit.byte(0);
    let named = unit.entry(TYPEDEF);
    unit.text("MPIR_PROCDESC").of(row);
    let table = unit.pointer(named);
    let volatile = unit.entry(VOLATILE_TYPE);
    unit.of(int);
    for ((name, is_volatile), address) in VARIABLES.into_iter().zip(addresses) {
        let kind = match name {
            "MPIR_proctable" => table,
            _ if is_volatile => volatile,
            _ => int,
        };
        unit.entry(VARIABLE);
        unit.text(name).of(kind).byte(9).byte(ADDR);
        unit.0.extend(address.to_le_bytes());
    }
    unit.end()
}

/// Returns the abbreviations.
fn abbreviations() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, (tag, has_children, attributes)) in (1_u8..).zip(ABBREVIATIONS) {
        bytes.extend([number, tag, has_children.into()]);
        bytes.extend(attributes.iter().flat_map(|(name, form)| [*name, *form]));
        bytes.extend([0, 0]);
    }
    bytes.push(0);
    bytes
}

/// Adds the types to a program that has the symbols and no debug information. A program that is not 64-bit
/// little-endian is left unchanged.
///
/// # Errors
/// Returns a message if a symbol is missing or the program cannot be changed.
pub(super) fn describe(program: &Path, listed: &str) -> Result<(), String> {
    let shown = program.display();
    let head = fs::read(program).map_err(|e| format!("{shown}: {e}"))?;
    if head.get(4..6) != Some(&[2, 1]) {
        println!("{shown}: its symbols of MPIR have no types");
        return Ok(());
    }
    let address = |name: &str| {
        let line = listed
            .lines()
            .find(|line| line.split(' ').next_back() == Some(name));
        let number = line.and_then(|line| line.split(' ').next());
        let number = number.and_then(|number| u64::from_str_radix(number, 16).ok());
        number.ok_or_else(|| format!("{shown}: no symbol {name}"))
    };
    let addresses = VARIABLES.iter().map(|(name, _)| address(name));
    let addresses: Vec<_> = addresses.collect::<Result<_, _>>()?;
    let mut objcopy = Command::new("objcopy");
    let mut files = Vec::new();
    for (section, bytes) in [
        (".debug_info", information(&addresses)),
        (".debug_abbrev", abbreviations()),
    ] {
        let file = program.with_extension(section.trim_start_matches('.'));
        write(&file, &bytes)?;
        objcopy
            .arg("--add-section")
            .arg(format!("{section}={}", file.display()));
        let flags = format!("{section}=contents,readonly,debug");
        objcopy.args(["--set-section-flags", &flags]);
        files.push(file);
    }
    let copied = output(objcopy.arg(program));
    for file in files {
        fs::remove_file(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    copied?;
    let read = output(Command::new("objdump").arg("--dwarf=info").arg(program))?;
    match String::from_utf8_lossy(&read).contains("MPIR_PROCDESC") {
        true => Ok(()),
        false => Err(format!("{shown}: objdump finds no types of MPIR")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::strip_command;
    use super::*;

    const PROGRAM: &str = "
        struct row { char *host; char *program; int pid; };
        static struct row rows[2] = {{\"n1\", \"./a\", 7}, {\"n2\", \"./b\", 8}};
        struct row *MPIR_proctable = rows;
        int MPIR_proctable_size = 2, MPIR_i_am_starter = 1, MPIR_partial_attach_ok = 1;
        volatile int MPIR_being_debugged, MPIR_debug_state;
        void MPIR_Breakpoint(void) { MPIR_debug_state = 1; }
        int main(void) { MPIR_Breakpoint(); return MPIR_being_debugged; }
    ";

    #[test]
    #[ignore = "needs gdb"]
    fn a_debugger_reads_the_table_of_a_stripped_program_by_its_types() {
        let folder = std::env::temp_dir().join(format!("xtask-mpir-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (source, program) = (folder.join("mpir.c"), folder.join("mpir"));
        fs::write(&source, PROGRAM).unwrap();
        output(Command::new("cc").arg("-o").arg(&program).arg(&source)).unwrap();
        strip_command(&program).unwrap();
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "--batch"]);
        for line in [
            "ptype MPIR_proctable",
            "whatis MPIR_proctable",
            "whatis MPIR_being_debugged",
            "break MPIR_Breakpoint",
            "run",
            "set var MPIR_being_debugged = 3",
            "printf \"%s %s %d of %d\\n\", MPIR_proctable[1].host_name, MPIR_proctable[1].executable_name, \
             MPIR_proctable[1].pid, MPIR_proctable_size",
            "print sizeof(MPIR_PROCDESC)",
            "continue",
        ] {
            gdb.args(["-ex", line]);
        }
        let said = output(gdb.arg(&program)).unwrap();
        let said = String::from_utf8_lossy(&said);
        let row = "type = struct MPIR_PROCDESC {\n    char *host_name;\n    char *executable_name;\n    int pid;\n} *\n";
        for part in [
            row,
            "type = MPIR_PROCDESC *\n",
            "type = volatile int\n",
            "n2 ./b 8 of 2\n",
            "= 24\n",
            "exited with code 03",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}

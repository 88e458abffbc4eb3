// SPDX-License-Identifier: MIT OR Apache-2.0
//! The target machine of a library file, read before the dynamic linker opens the file.
//!
//! The dynamic linker's message about a file for another machine does not tell the machines.
//! Layout: System V ABI, "ELF Header".

use crate::LoadFault;

/// The number of bytes of the file that are read.
pub(crate) const HEADER_LEN: usize = 64;

/// The names of machines by their ELF number. Other machines are shown by number.
const MACHINES: &[(u16, &str)] = &[
    (3, "x86"),
    (8, "mips"),
    (20, "powerpc"),
    (21, "powerpc64"),
    (22, "s390x"),
    (40, "arm"),
    (62, "x86_64"),
    (183, "aarch64"),
    (243, "riscv"),
    (258, "loongarch"),
];

/// The class, byte order and machine of an ELF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    bits: u8,
    big_endian: bool,
    machine: u16,
}

impl Target {
    /// Returns the target of this process. The machine is 0 if it is not in `MACHINES`.
    fn host() -> Self {
        let arch = match std::env::consts::ARCH {
            "riscv64" | "riscv32" => "riscv",
            "loongarch64" => "loongarch",
            "mips64" => "mips",
            other => other,
        };
        let machine = MACHINES.iter().find(|(_, name)| *name == arch);
        Self {
            bits: if cfg!(target_pointer_width = "64") {
                64
            } else {
                32
            },
            big_endian: cfg!(target_endian = "big"),
            machine: machine.map_or(0, |(number, _)| *number),
        }
    }

    fn name(self) -> String {
        let known = MACHINES.iter().find(|(number, _)| *number == self.machine);
        let machine = known.map_or_else(
            || format!("ELF machine {}", self.machine),
            |(_, name)| (*name).to_owned(),
        );
        let order = if self.big_endian { ", big-endian" } else { "" };
        format!("{machine} ({} bits{order})", self.bits)
    }
}

/// Checks that a file, given by its first bytes, is a library for this machine.
pub(crate) fn check(header: &[u8]) -> Result<(), LoadFault> {
    let not = |why: &str| Err(LoadFault::NotALibrary(why.to_owned()));
    if header.is_empty() {
        return not("the file is empty");
    }
    if !header.starts_with(b"\x7fELF") {
        return not("it does not begin with an ELF header");
    }
    let Some([class, order]) = header.get(4..6).and_then(|b| <[u8; 2]>::try_from(b).ok()) else {
        return not("it ends within its ELF header");
    };
    let big_endian = order == 2;
    let half = |at: usize| -> Option<u16> {
        let bytes: [u8; 2] = header.get(at..at + 2)?.try_into().ok()?;
        Some(if big_endian {
            u16::from_be_bytes(bytes)
        } else {
            u16::from_le_bytes(bytes)
        })
    };
    let (Some(kind), Some(machine)) = (half(16), half(18)) else {
        return not("it ends within its ELF header");
    };
    let file = Target {
        bits: if class == 2 { 64 } else { 32 },
        big_endian,
        machine,
    };
    let host = Target::host();
    if host.machine != 0 && file != host {
        return Err(LoadFault::OtherMachine {
            file: file.name(),
            host: host.name(),
        });
    }
    match kind {
        3 => Ok(()),
        1 => not("it is an object file; link it with -shared"),
        2 => not("it is a program; link it with -shared"),
        other => not(&format!("it is an ELF file of type {other}")),
    }
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;

    fn header(class: u8, order: u8, kind: u16, machine: u16) -> Vec<u8> {
        let mut bytes = b"\x7fELF".to_vec();
        bytes.extend([class, order, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        for half in [kind, machine] {
            let le = half.to_le_bytes();
            bytes.extend(if order == 2 { half.to_be_bytes() } else { le });
        }
        bytes
    }

    #[test]
    fn a_library_of_another_machine_is_named_with_both() {
        let says = |bytes: &[u8]| check(bytes).unwrap_err().to_string();
        assert_eq!(check(&header(2, 1, 3, 62)), Ok(()));
        assert_eq!(
            says(&header(2, 1, 3, 183)),
            "was built for aarch64 (64 bits), this host is x86_64 (64 bits)"
        );
        assert!(says(&header(1, 1, 3, 3)).contains("x86 (32 bits)"));
        assert!(says(&header(2, 2, 3, 22)).contains("s390x (64 bits, big-endian)"));
        assert!(says(&header(2, 1, 3, 9999)).contains("ELF machine 9999"));
    }

    #[test]
    fn rejects_files_that_are_not_libraries() {
        let says = |bytes: &[u8]| check(bytes).unwrap_err().to_string();
        assert!(says(b"").contains("empty"));
        assert!(says(b"#!/bin/sh\n").contains("ELF"));
        assert!(says(b"\x7fELF").contains("ends within"));
        assert!(says(&header(2, 1, 3, 62)[..17]).contains("ends within"));
        assert!(says(&header(2, 1, 1, 62)).contains("-shared"));
        assert!(says(&header(2, 1, 4, 62)).contains("type 4"));
    }
}

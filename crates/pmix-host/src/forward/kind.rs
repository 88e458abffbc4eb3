// SPDX-License-Identifier: MIT OR Apache-2.0
//! The type of an open file, without a request to its file system.

use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, StatxFlags, fstat, statx};
use rustix::io::Errno;

/// Returns the type of an open file as the kernel has it in memory. `fstat(2)` may ask the server of a network file
/// system, which may never respond.
pub(super) fn kind_of(fd: BorrowedFd<'_>) -> Result<FileType, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    match statx(fd, c"", flags, StatxFlags::TYPE) {
        Ok(about) => Ok(FileType::from_raw_mode(about.stx_mode.into())),
        // The kernel is older than 4.11, or a filter of system calls rejects `statx`.
        Err(Errno::NOSYS | Errno::PERM) => {
            fstat(fd).map(|about| FileType::from_raw_mode(about.st_mode))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn files_pipes_and_devices_are_distinguished() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let file = tempfile::tempfile().unwrap();
        let null = File::open("/dev/null").unwrap();
        let of = |fd: BorrowedFd<'_>| kind_of(fd).unwrap();
        assert_eq!(of(reader.as_fd()), FileType::Fifo);
        assert_eq!(of(file.as_fd()), FileType::RegularFile);
        assert_eq!(of(null.as_fd()), FileType::CharacterDevice);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket between the launcher and the command that executes a program in its place.
//!
//! The socket is standard input of the command. The launcher sends the standard input of the program, and the command
//! replies only if it fails. The end of the stream without a reply therefore means that the kernel has executed the
//! program, because this closes the socket.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// The step of the command that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Prepare = 1,
    Execute = 2,
}

/// The failure of a command.
#[derive(Debug)]
pub(super) struct WrapperFailure {
    pub(super) step: Step,
    pub(super) cause: io::Error,
}

/// The launcher's end of the socket.
pub(super) struct LauncherEnd(OwnedFd);

/// Creates the socket and sends the standard input of the program. Returns the end of the launcher, and the standard
/// input of the command.
pub(super) fn connect(input: BorrowedFd<'_>) -> io::Result<(LauncherEnd, OwnedFd)> {
    let (here, there) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let inputs = [input];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&inputs)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // The socket has room for one byte, so this does not wait for the command.
    sendmsg(
        &here,
        &[IoSlice::new(&[0])],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    Ok((LauncherEnd(here), there))
}

impl LauncherEnd {
    /// Waits until the kernel has executed the program, or the command has failed or was killed. Returns the failure.
    pub(super) fn failure(self) -> io::Result<Option<WrapperFailure>> {
        let mut reply = Vec::new();
        File::from(self.0).take(8).read_to_end(&mut reply)?;
        let [step, errno @ ..] = &*reply else {
            return Ok(None);
        };
        let step = match step {
            1 => Step::Prepare,
            _ => Step::Execute,
        };
        let cause = <[u8; 4]>::try_from(errno).map(i32::from_ne_bytes);
        let cause = cause.map_err(|_| io::ErrorKind::UnexpectedEof)?;
        Ok(Some(WrapperFailure {
            step,
            cause: io::Error::from_raw_os_error(cause),
        }))
    }
}

/// The command's end of the socket.
pub(super) struct WrapperEnd(File);

impl WrapperEnd {
    /// Takes the socket from standard input, which becomes that of the program.
    pub(super) fn take() -> io::Result<Self> {
        let socket = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
        let input = received(socket.as_fd())?;
        rustix::stdio::dup2_stdin(input)?;
        Ok(Self(socket.into()))
    }

    /// Reports the failure of a step to the launcher.
    pub(super) fn report(&mut self, failure: &WrapperFailure) -> io::Result<()> {
        let errno = failure.cause.raw_os_error();
        let errno = errno.unwrap_or(Errno::INVAL.raw_os_error());
        let mut reply = vec![failure.step as u8];
        reply.extend(errno.to_ne_bytes());
        self.0.write_all(&reply)
    }
}

/// Receives the standard input of the program.
fn received(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        flags,
    )?;
    let mut messages = ancillary.drain();
    let input = messages.find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut inputs) => inputs.next(),
        _ => None,
    });
    input.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_reaches_the_launcher_and_the_end_of_the_stream_is_success() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (launcher, command) = connect(writer.as_fd()).unwrap();
        drop(writer);
        let input = received(command.as_fd()).unwrap();
        File::from(input).write_all(b"same").unwrap();
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "same");
        let mut command = WrapperEnd(command.into());
        let failure = WrapperFailure {
            step: Step::Execute,
            cause: Errno::NOEXEC.into(),
        };
        command.report(&failure).unwrap();
        drop(command);
        let failure = launcher.failure().unwrap().unwrap();
        assert_eq!(failure.step, Step::Execute);
        assert_eq!(failure.cause.raw_os_error(), Some(8));

        let (launcher, command) = connect(reader.as_fd()).unwrap();
        drop(received(command.as_fd()).unwrap());
        drop(command);
        assert!(launcher.failure().unwrap().is_none());
        let (launcher, command) = connect(reader.as_fd()).unwrap();
        received(command.as_fd()).unwrap();
        File::from(command).write_all(&[1, 0]).unwrap();
        assert_eq!(
            launcher.failure().unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The destinations of the two streams of each process.

use std::io::PipeWriter;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::Stdio;

use mio::unix::pipe::Receiver;
use pmix_host::forward::OutputFile;
use pmix_types::Rank;
use rustix::fs::{FileType, major, minor};

use super::files::{Files, RankFiles};
use crate::process::limits;
use crate::{Error, OutputForm, Plan};

/// The major and minor numbers of the null device on Linux.
const NULL_DEVICE: (u32, u32) = (1, 3);

/// The destinations of the two streams of each process: files, the streams of the launcher, or pipes to the launcher.
///
/// A pipe costs a descriptor for each process and a copy of every byte. The launcher therefore creates pipes only if
/// it has to process the output.
pub(crate) struct Route<'a> {
    files: Option<Files<'a>>,
    /// For each stream, the stream of the launcher that processes inherit; `None` for a pipe.
    shared: [Option<BorrowedFd<'a>>; 2],
    is_merged: bool,
}

/// The streams of one process.
pub(crate) struct Streams {
    /// The standard output and standard error that the process gets.
    pub(crate) stdio: [Stdio; 2],
    /// The reading end of the pipe that both streams share.
    pub(crate) merged: Option<Receiver>,
    /// The files to which output from the pipes is copied.
    pub(crate) files: [Option<OutputFile>; 2],
}

impl<'a> Route<'a> {
    /// Selects the destinations for a plan that starts this number of processes.
    pub(crate) fn new(
        plan: &'a Plan,
        num_started: usize,
        output: BorrowedFd<'a>,
        errors: BorrowedFd<'a>,
    ) -> Self {
        let output_of_job = &plan.output;
        let files = Files::of_plan(plan);
        let is_unmixed = is_unmixed(plan, num_started);
        // With one pipe for both streams, the order in which a process wrote to them is kept.
        let is_merged = output_of_job.is_merged
            || is_unmixed && !plan.forward_io && files.is_none() && are_one(output, errors);
        let streams = own_streams(is_merged, output, errors);
        Self {
            files,
            shared: streams.map(|fd| (!passes(plan, fd, is_unmixed)).then_some(fd)),
            is_merged,
        }
    }

    /// Returns the number of descriptors that the launcher holds for each process while the files of all are open.
    pub(crate) fn most_descriptors(&self) -> usize {
        let num_files = self.files.as_ref().map_or(0, Files::num_each);
        self.num_descriptors().max(num_files)
    }

    /// Opens the files of a process. The call can take as long as the disk needs.
    pub(crate) fn open(&self, rank: Rank, is_first: bool) -> Result<Option<RankFiles>, Error> {
        let files = self.files.as_ref();
        files.map(|files| files.open(rank, is_first)).transpose()
    }

    /// Returns the number of descriptors that the launcher holds for each process.
    pub(crate) fn num_descriptors(&self) -> usize {
        (1 + usize::from(self.files.is_some())) * self.num_pipes()
    }

    /// Returns the number of pipes of each process.
    pub(crate) fn num_pipes(&self) -> usize {
        let num_pipes = self.shared.iter().filter(|fd| fd.is_none()).count();
        match self.is_merged {
            true => num_pipes.min(1),
            false => num_pipes,
        }
    }

    /// Returns the smallest number of descriptors with which the launcher can serve each process of a plan.
    pub(crate) fn least_descriptors(
        plan: &Plan,
        output: BorrowedFd<'_>,
        errors: BorrowedFd<'_>,
    ) -> usize {
        let is_merged = plan.output.is_merged;
        let streams = own_streams(is_merged, output, errors).into_iter();
        let num_pipes = streams.filter(|&fd| passes(plan, fd, false)).count();
        let each = 1 + usize::from(plan.output.files.is_some());
        each * match is_merged {
            true => num_pipes.min(1),
            false => num_pipes,
        }
    }

    /// Returns standard output and standard error of a process whose files are open.
    pub(crate) fn streams(&self, files: Option<RankFiles>) -> Result<Streams, Error> {
        let mut files = files.map_or([None, None], |files| files.map(Some));
        let cannot = |e| Error::system("cannot forward output", e);
        let mut merged = None;
        let mut pipe: Option<PipeWriter> = None;
        if self.is_merged && self.shared[0].is_none() {
            let (reader, writer) = std::io::pipe().map_err(cannot)?;
            let reader = Receiver::from(OwnedFd::from(reader));
            reader.set_nonblocking(true).map_err(cannot)?;
            (merged, pipe) = (Some(reader), Some(writer));
        }
        let mut stdio = Vec::with_capacity(2);
        for (shared, file) in self.shared.iter().zip(&mut files) {
            stdio.push(match (shared, &pipe) {
                (None, Some(pipe)) => pipe.try_clone().map(Stdio::from).map_err(cannot)?,
                (None, None) => Stdio::piped(),
                (Some(fd), _) => match file.take() {
                    Some(OutputFile { file, .. }) => {
                        file.try_clone().map(Stdio::from).map_err(cannot)?
                    }
                    None => fd.try_clone_to_owned().map(Stdio::from).map_err(cannot)?,
                },
            });
        }
        let mut stdio = stdio.into_iter();
        let mut next = || stdio.next().unwrap_or_else(Stdio::null);
        Ok(Streams {
            stdio: [next(), next()],
            merged,
            files,
        })
    }
}

/// Returns the streams of the launcher for standard output and error of processes.
fn own_streams<'a>(
    is_merged: bool,
    output: BorrowedFd<'a>,
    errors: BorrowedFd<'a>,
) -> [BorrowedFd<'a>; 2] {
    match is_merged {
        true => [output, output],
        false => [output, errors],
    }
}

/// Returns `true` if output for a stream of the launcher has to pass through the launcher.
///
/// Processes do not inherit a terminal. They are in a background process group there, so the kernel would stop them
/// when they change its settings, or when they write to it after `stty tostop`.
fn passes(plan: &Plan, stream: BorrowedFd<'_>, is_unmixed: bool) -> bool {
    let output = &plan.output;
    let form = match output.form {
        OutputForm::Unmixed if !is_unmixed || is_null(stream) => OutputForm::Plain,
        form => form,
    };
    plan.forward_io
        || match &output.files {
            Some(files) => files.is_copied,
            None => form != OutputForm::Plain || rustix::termios::isatty(stream),
        }
}

/// Returns `true` if lines of several processes are kept apart by default. That needs pipes and is
/// therefore skipped for a single process, and if the limit of descriptors would prevent the job from running.
fn is_unmixed(plan: &Plan, num_started: usize) -> bool {
    let has_room = || match limits::check(num_started, 2) {
        Ok(()) => true,
        Err(error) => {
            tracing::info!("lines of different ranks may be mixed: {error}");
            false
        }
    };
    plan.output.form == OutputForm::Unmixed && plan.layout.here().len() > 1 && has_room()
}

/// Returns `true` if a stream is the null device.
fn is_null(stream: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(stream).is_ok_and(|about| {
        FileType::from_raw_mode(about.st_mode) == FileType::CharacterDevice
            && (major(about.st_rdev), minor(about.st_rdev)) == NULL_DEVICE
    })
}

/// Returns `true` if both streams refer to the same file, pipe or terminal.
fn are_one(output: BorrowedFd<'_>, errors: BorrowedFd<'_>) -> bool {
    let of = |fd| rustix::fs::fstat(fd).map(|about| (about.st_dev, about.st_ino));
    matches!((of(output), of(errors)), (Ok(output), Ok(errors)) if output == errors)
}

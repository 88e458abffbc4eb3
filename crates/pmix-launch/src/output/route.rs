// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the two streams of each process lead.

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

/// The numbers of the null device on Linux.
const NULL_DEVICE: (u32, u32) = (1, 3);

/// Where the two streams of each process lead: to files, to those of the launcher, or through pipes
/// to the launcher.
///
/// A pipe costs a descriptor for each process and a copy of every byte, so there is one only where
/// something is done with the bytes on their way.
pub(crate) struct Route<'a> {
    files: Option<Files<'a>>,
    /// For each stream, the one of the launcher that it shares; a pipe where there is none.
    shared: [Option<BorrowedFd<'a>>; 2],
    is_merged: bool,
}

/// The streams of one process.
pub(crate) struct Streams {
    /// What the process has for standard output and standard error.
    pub(crate) stdio: [Stdio; 2],
    /// The end that is read of a pipe that both lead to.
    pub(crate) merged: Option<Receiver>,
    /// The files that what comes through the pipes is copied to.
    pub(crate) files: [Option<OutputFile>; 2],
}

impl<'a> Route<'a> {
    /// What a plan asks for, beside the streams of the launcher, for so many processes that are to be started.
    pub(crate) fn new(
        plan: &'a Plan,
        num_started: usize,
        output: BorrowedFd<'a>,
        errors: BorrowedFd<'a>,
    ) -> Self {
        let output_of_job = &plan.output;
        let files = Files::of_plan(plan);
        let is_unmixed = is_unmixed(plan, num_started);
        // In one file, what a process writes to both stays in the order in which it wrote it.
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

    /// Opens the files of a process. A disk decides how long that takes.
    pub(crate) fn open(&self, rank: Rank, is_first: bool) -> Result<Option<RankFiles>, Error> {
        let files = self.files.as_ref();
        files.map(|files| files.open(rank, is_first)).transpose()
    }

    /// How many descriptors the launcher holds for each process.
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

    /// How many descriptors the launcher needs for each process of a plan.
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

/// The streams of the launcher for standard output and error of processes.
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

/// Whether what is for a stream of the launcher passes through it.
///
/// A terminal is not shared: processes are in the background there, and would be stopped when they set
/// it up, or when they write to one that is set up so (`stty tostop`).
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

/// Whether lines of several processes are kept apart unasked, which nothing needs where there is one, and for
/// which a job is not refused that can run without.
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

/// Returns `true` if a stream leads to a device that keeps nothing.
fn is_null(stream: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(stream).is_ok_and(|about| {
        FileType::from_raw_mode(about.st_mode) == FileType::CharacterDevice
            && (major(about.st_rdev), minor(about.st_rdev)) == NULL_DEVICE
    })
}

/// Whether two streams lead to one file, pipe or terminal.
fn are_one(output: BorrowedFd<'_>, errors: BorrowedFd<'_>) -> bool {
    let of = |fd| rustix::fs::fstat(fd).map(|about| (about.st_dev, about.st_ino));
    matches!((of(output), of(errors)), (Ok(output), Ok(errors)) if output == errors)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the two streams of each process lead.

use std::io::PipeWriter;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::Stdio;

use mio::unix::pipe::Receiver;
use pmix_host::forward::OutputFile;
use pmix_types::Rank;

use super::files::Files;
use super::pattern::Names;
use crate::{Error, OutputForm, Plan};

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
    /// What a plan asks for, beside the streams of the launcher.
    pub(crate) fn new(
        plan: &'a Plan,
        output: BorrowedFd<'a>,
        errors: BorrowedFd<'a>,
    ) -> Result<Self, Error> {
        let (layout, output_of_job) = (&plan.layout, &plan.output);
        let names = Names::new(&plan.nspace, layout.host(), layout.num_procs());
        let files = output_of_job.files.as_ref();
        let files = files.map(|files| Files::create(files, names, output_of_job.is_merged));
        Ok(Self {
            files: files.transpose()?,
            shared: own_streams(plan, output, errors).map(|fd| (!passes(plan, fd)).then_some(fd)),
            is_merged: plan.output.is_merged,
        })
    }

    /// How many descriptors the launcher holds for each process of a plan.
    pub(crate) fn num_descriptors(
        plan: &Plan,
        output: BorrowedFd<'_>,
        errors: BorrowedFd<'_>,
    ) -> usize {
        let streams = own_streams(plan, output, errors).into_iter();
        let num_pipes = streams.filter(|&fd| passes(plan, fd)).count();
        let each = 1 + usize::from(plan.output.files.is_some());
        each * match plan.output.is_merged {
            true => num_pipes.min(1),
            false => num_pipes,
        }
    }

    /// Standard output and standard error of a process, the first of its rank or one that is started again.
    pub(crate) fn of(&self, rank: Rank, is_first: bool) -> Result<Streams, Error> {
        let mut files = [None, None];
        if let Some(asked) = &self.files {
            files = asked.of(rank, is_first)?.map(Some);
        }
        let cannot = |e| Error::system("cannot hand the output on", e);
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
                    Some(OutputFile { file, .. }) => Stdio::from(file),
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
    plan: &Plan,
    output: BorrowedFd<'a>,
    errors: BorrowedFd<'a>,
) -> [BorrowedFd<'a>; 2] {
    match plan.output.is_merged {
        true => [output, output],
        false => [output, errors],
    }
}

/// Whether what is for a stream of the launcher passes through it.
///
/// A terminal is not shared: processes are in the background there, and would be stopped when they set
/// it up, or when they write to one that is set up so (`stty tostop`).
fn passes(plan: &Plan, stream: BorrowedFd<'_>) -> bool {
    let output = &plan.output;
    plan.forward_io
        || match &output.files {
            Some(files) => files.is_copied,
            None => output.form != OutputForm::Plain || rustix::termios::isatty(stream),
        }
}

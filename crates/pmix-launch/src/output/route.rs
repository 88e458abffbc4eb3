// SPDX-License-Identifier: MIT OR Apache-2.0
//! The destinations of the two streams of each process.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::Stdio;

use mio::unix::pipe::Receiver;
use pmix_host::forward::{OutputFile, OutputStream};
use rustix::fs::{FileType, Stat, major, minor};
use rustix::termios::Termios;

use super::files::{Files, RankFiles};
use super::terminal::ProcessTerminal;
use crate::process::limits;
use crate::{Error, OutputForm, Plan, PseudoTerminals};

/// The major and minor numbers of the null device on Linux.
const NULL_DEVICE: (u32, u32) = (1, 3);

/// The standard streams of the launcher.
#[derive(Clone, Copy, Debug)]
pub struct Standard<'a> {
    /// The input for rank 0.
    pub input: BorrowedFd<'a>,
    /// The destination of the standard output of processes.
    pub output: BorrowedFd<'a>,
    /// The destination of the standard error of processes.
    pub errors: BorrowedFd<'a>,
}

/// A standard stream of the launcher.
#[derive(Clone, Copy)]
struct OwnStream<'a> {
    fd: BorrowedFd<'a>,
    is_null: bool,
    is_terminal: bool,
}

/// The standard output and standard error of the launcher, examined once.
///
/// A stream may be a file on a server that does not answer, and then even `fstat` waits. The session examines both
/// before it serves any process.
#[derive(Clone, Copy)]
pub(crate) struct OwnStreams<'a> {
    output: OwnStream<'a>,
    errors: OwnStream<'a>,
    /// `true` if both refer to the same file, pipe or terminal.
    are_one: bool,
}

impl<'a> OwnStreams<'a> {
    /// Examines the streams.
    pub(crate) fn examine(output: BorrowedFd<'a>, errors: BorrowedFd<'a>) -> Self {
        let about = [output, errors].map(|fd| rustix::fs::fstat(fd).ok());
        let place = |about: &Option<Stat>| about.as_ref().map(|about| (about.st_dev, about.st_ino));
        let own = |fd: BorrowedFd<'a>, about: &Option<Stat>| OwnStream {
            fd,
            is_null: about.as_ref().is_some_and(is_null),
            is_terminal: rustix::termios::isatty(fd),
        };
        Self {
            output: own(output, &about[0]),
            errors: own(errors, &about[1]),
            are_one: place(&about[0]).is_some() && place(&about[0]) == place(&about[1]),
        }
    }

    /// Returns `true` if the stream of the launcher for this kind of output is a terminal.
    pub(crate) fn is_terminal(&self, kind: OutputStream) -> bool {
        match kind {
            OutputStream::Output => self.output.is_terminal,
            OutputStream::Errors => self.errors.is_terminal,
        }
    }

    /// Returns `true` if the standard output of the processes of a plan is a pseudo terminal. It is a file if the
    /// output goes only to files.
    pub(crate) fn has_terminals(&self, plan: &Plan) -> bool {
        let is_wanted = match plan.output.pseudo_terminals {
            PseudoTerminals::Inherited => self.output.is_terminal,
            PseudoTerminals::All => true,
            PseudoTerminals::None => false,
        };
        // Lines that are kept apart do not matter: the output for a terminal passes through the launcher either way.
        is_wanted && passes(plan, self.output, false, true)
    }

    /// Returns `true` if the pseudo terminal of the process that reads this terminal is its standard input, too.
    ///
    /// Tags and whole lines would hide an incomplete line, which the user is editing, and files contain no echo.
    pub(crate) fn has_keyboard(&self, plan: &Plan, input: BorrowedFd<'_>) -> bool {
        self.has_terminals(plan)
            && is_untagged(plan)
            && plan.output.files.is_none()
            && !plan.forward_io
            && plan.wrapper.is_some()
            && rustix::termios::isatty(input)
    }

    /// Returns the streams for standard output and error of processes.
    fn for_processes(self, is_merged: bool) -> [OwnStream<'a>; 2] {
        match is_merged {
            true => [self.output, self.output],
            false => [self.output, self.errors],
        }
    }
}

/// The destinations of the two streams of each process: files, the streams of the launcher, or pipes to the launcher.
///
/// A pipe costs a descriptor for each process and a copy of every byte. The launcher therefore creates pipes only if
/// it has to process the output.
pub(crate) struct Route<'a> {
    /// The number of files of each process; `None` if output does not go to files.
    num_files: Option<usize>,
    /// For each stream, the stream of the launcher that processes inherit; `None` for a pipe.
    shared: [Option<BorrowedFd<'a>>; 2],
    is_merged: bool,
    /// The standard output of the launcher, with the size of the pseudo terminals, if standard output of processes is
    /// one.
    terminal: Option<BorrowedFd<'a>>,
    /// `true` if a process is not started without its pseudo terminal.
    insists: bool,
}

/// The streams of one process.
pub(crate) struct Streams {
    /// The standard output and standard error that the process gets; `None` for a file that is not open yet.
    stdio: [Option<Stdio>; 2],
    /// `true` if standard output is a pseudo terminal.
    is_terminal: bool,
    /// The standard input of the process and the launcher's end of it, if standard input is the pseudo terminal, too.
    keyboard: Option<(OwnedFd, OwnedFd)>,
    /// The reading end of the pipe that both streams share, or of the pseudo terminal.
    output: Option<Receiver>,
    /// The files to which output from the pipes is copied.
    files: [Option<OutputFile>; 2],
}

/// The ends of the streams of one process that the launcher keeps.
#[derive(Default)]
pub(crate) struct KeptStreams {
    /// The reading end of the pipe that both streams share, or of the pseudo terminal.
    pub(crate) output: Option<Receiver>,
    /// The end of standard input that the launcher writes, if that is the pseudo terminal.
    pub(crate) keyboard: Option<OwnedFd>,
    /// The files to which output from the pipes is copied.
    pub(crate) files: [Option<OutputFile>; 2],
}

impl<'a> Route<'a> {
    /// Selects the destinations for a plan that starts this number of processes.
    pub(crate) fn new(plan: &Plan, num_started: usize, own: OwnStreams<'a>) -> Self {
        let output_of_job = &plan.output;
        let num_files = Files::of_plan(plan).as_ref().map(Files::num_each);
        let is_unmixed = is_unmixed(plan, num_started);
        let is_terminal = own.has_terminals(plan);
        // With one pipe for both streams, the order in which a process wrote to them is kept. With a pseudo terminal,
        // programs also find it as standard error.
        let is_one_form = is_unmixed || is_terminal && is_untagged(plan);
        let is_merged = output_of_job.is_merged
            || is_one_form && !plan.forward_io && num_files.is_none() && own.are_one;
        let streams = own.for_processes(is_merged);
        let shared = [0, 1].map(|stream| {
            let (own, is_output) = (streams[stream], stream == 0 || is_merged);
            (!passes(plan, own, is_unmixed, is_output)).then_some(own.fd)
        });
        let insists = output_of_job.pseudo_terminals == PseudoTerminals::All;
        // Other programs of the node need pseudo terminals, too, for example remote shells.
        let has_room = || insists || num_started <= limits::num_free_terminals() / 2;
        Self {
            num_files,
            shared,
            is_merged,
            terminal: (is_terminal && shared[0].is_none() && has_room()).then_some(own.output.fd),
            insists,
        }
    }

    /// Returns the number of descriptors that the launcher holds for each process while the files of all are open.
    pub(crate) fn most_descriptors(&self) -> usize {
        self.num_descriptors().max(self.num_files.unwrap_or(0))
    }

    /// Returns `true` if the output of processes goes to files.
    pub(crate) fn has_files(&self) -> bool {
        self.num_files.is_some()
    }

    /// Returns the number of descriptors that the launcher holds for each process.
    pub(crate) fn num_descriptors(&self) -> usize {
        (1 + usize::from(self.has_files())) * self.num_pipes()
    }

    /// Returns `true` if standard output of processes is a pseudo terminal.
    pub(crate) const fn has_terminals(&self) -> bool {
        self.terminal.is_some()
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
    pub(crate) fn least_descriptors(plan: &Plan, own: OwnStreams<'_>) -> usize {
        let is_merged = plan.output.is_merged;
        let streams = own.for_processes(is_merged).into_iter();
        let streams = streams.zip([true, is_merged]);
        let num_pipes = streams
            .filter(|(own, is_output)| passes(plan, *own, false, *is_output))
            .count();
        let each = 1 + usize::from(plan.output.files.is_some());
        each * match is_merged {
            true => num_pipes.min(1),
            false => num_pipes,
        }
    }

    /// Returns standard output and standard error of a process. Its files are added by [`Streams::add`]. With the modes
    /// of the launcher's terminal, a pseudo terminal is also its standard input.
    pub(crate) fn streams(&self, keyboard: Option<&Termios>) -> Result<Streams, Error> {
        let cannot = |e| Error::system("cannot forward output", e);
        let terminal = match self.terminal {
            Some(own) => self.open_terminal(own, keyboard)?,
            None => None,
        };
        let is_terminal = terminal.is_some();
        let keyboard = match &terminal {
            Some((reader, process)) if keyboard.is_some() => {
                let reader = reader.as_fd().try_clone_to_owned();
                let both = process.try_clone().and_then(|own| Ok((own, reader?)));
                Some(both.map_err(cannot)?)
            }
            _ => None,
        };
        let opened = match terminal {
            Some(terminal) => Some(terminal),
            None if self.is_merged && self.shared[0].is_none() => {
                let (reader, writer) = std::io::pipe().map_err(cannot)?;
                let reader = Receiver::from(OwnedFd::from(reader));
                reader.set_nonblocking(true).map_err(cannot)?;
                Some((reader, OwnedFd::from(writer)))
            }
            None => None,
        };
        let (output, writer) = opened.unzip();
        let stdio = |stream: usize| match (&self.shared[stream], &writer) {
            (None, Some(writer)) if stream == 0 || self.is_merged => {
                writer.try_clone().map(Stdio::from).map(Some)
            }
            (None, _) => Ok(Some(Stdio::piped())),
            (Some(_), _) if self.has_files() => Ok(None),
            (Some(fd), _) => fd.try_clone_to_owned().map(Stdio::from).map(Some),
        };
        Ok(Streams {
            stdio: [stdio(0).map_err(cannot)?, stdio(1).map_err(cannot)?],
            is_terminal,
            keyboard,
            output,
            files: [None, None],
        })
    }

    /// Opens a pseudo terminal of the size of the launcher's own. Returns `None` if the system has no more, and the plan
    /// does not insist.
    fn open_terminal(
        &self,
        own: BorrowedFd<'_>,
        keyboard: Option<&Termios>,
    ) -> Result<Option<(Receiver, OwnedFd)>, Error> {
        let size = rustix::termios::tcgetwinsize(own).ok();
        let opened = match keyboard {
            Some(modes) => ProcessTerminal::for_keyboard(size, modes),
            None => ProcessTerminal::for_output(size),
        };
        match opened {
            Ok(terminal) => Ok(Some((terminal.reader, terminal.process))),
            Err(e) if self.insists => Err(Error::system("cannot open a pseudo terminal", e)),
            Err(e) => {
                tracing::info!("the output of a process is a pipe, not a pseudo terminal: {e}");
                Ok(None)
            }
        }
    }
}

impl Streams {
    /// Returns `true` if standard output is a pseudo terminal.
    pub(crate) const fn has_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns `true` if standard input is the pseudo terminal, too.
    pub(crate) const fn has_keyboard(&self) -> bool {
        self.keyboard.is_some()
    }

    /// Adds the files of the process: it writes to them itself, or the launcher copies its output to them.
    pub(crate) fn add(&mut self, files: RankFiles) -> Result<(), Error> {
        let cannot = |e| Error::system("cannot forward output", e);
        for ((stdio, kept), file) in self.stdio.iter_mut().zip(&mut self.files).zip(files) {
            match stdio {
                Some(_) => *kept = Some(file),
                None => *stdio = Some(file.file.try_clone().map(Stdio::from).map_err(cannot)?),
            }
        }
        Ok(())
    }

    /// Splits the streams into those of the process and those of the launcher. The input is `None` unless it is the
    /// pseudo terminal.
    pub(crate) fn split(self) -> (Option<OwnedFd>, [Stdio; 2], KeptStreams) {
        let Self {
            stdio,
            keyboard,
            output,
            files,
            ..
        } = self;
        let stdio = stdio.map(|stdio| stdio.unwrap_or_else(Stdio::null));
        let (input, keyboard) = keyboard.unzip();
        let kept = KeptStreams {
            output,
            keyboard,
            files,
        };
        (input, stdio, kept)
    }
}

/// Returns `true` if output for a stream of the launcher has to pass through the launcher.
///
/// Standard output (`is_output`) also does so if it is to be a pseudo terminal. Processes do not inherit a terminal.
/// They are in a background process group there, so the kernel would stop them when they change its settings, or when
/// they write to it after `stty tostop`.
fn passes(plan: &Plan, stream: OwnStream<'_>, is_unmixed: bool, is_output: bool) -> bool {
    let output = &plan.output;
    let form = match output.form {
        OutputForm::Unmixed if !is_unmixed || stream.is_null => OutputForm::Plain,
        form => form,
    };
    plan.forward_io
        || is_output && output.pseudo_terminals == PseudoTerminals::All
        || match &output.files {
            Some(files) => files.is_copied,
            None => form != OutputForm::Plain || stream.is_terminal,
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

/// Returns `true` if lines have neither tags nor a form that holds back a part of a line.
fn is_untagged(plan: &Plan) -> bool {
    matches!(plan.output.form, OutputForm::Unmixed | OutputForm::Plain)
}

/// Returns `true` if a stream is the null device.
fn is_null(about: &Stat) -> bool {
    FileType::from_raw_mode(about.st_mode) == FileType::CharacterDevice
        && (major(about.st_rdev), minor(about.st_rdev)) == NULL_DEVICE
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::path::PathBuf;

    use super::*;
    use crate::{FilePattern, OutputFiles};

    #[test]
    fn output_that_goes_only_to_files_has_no_terminal() {
        let terminal = ProcessTerminal::for_output(None).unwrap();
        let own = OwnStreams::examine(terminal.process.as_fd(), terminal.process.as_fd());
        let mut plan = Plan::of_test(&[2]);
        let has_terminals = |plan: &Plan| {
            let found = own.has_terminals(plan);
            let route = Route::new(plan, 2, own);
            assert_eq!(found, route.terminal.is_some());
            found
        };
        assert!(has_terminals(&plan));
        let files = |is_copied| OutputFiles {
            dir: PathBuf::from("d"),
            name: FilePattern::default(),
            is_copied,
        };
        plan.output.files = Some(files(false));
        assert!(!has_terminals(&plan));
        plan.output.pseudo_terminals = PseudoTerminals::All;
        assert!(has_terminals(&plan));
        plan.output.pseudo_terminals = PseudoTerminals::Inherited;
        plan.output.files = Some(files(true));
        assert!(has_terminals(&plan));
        plan.output.pseudo_terminals = PseudoTerminals::None;
        assert!(!has_terminals(&plan));
    }
}

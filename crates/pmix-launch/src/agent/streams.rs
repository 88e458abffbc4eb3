// SPDX-License-Identifier: MIT OR Apache-2.0
//! The streams of the processes of a node: output that is forwarded to the streams of the launcher and to files, log
//! texts, and the input of the first job.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::process::ChildStdin;
use std::time::{Duration, Instant};

use mio::{Registry, Token};
use pmix_host::forward::{
    Delivery, HeldStream, LineForm, OutputChunk, OutputFile, OutputForwarder, OutputStream,
};
use pmix_host::helpers::Helpers;
use pmix_server::Completion;
use pmix_server::upcall::{Log, PushStdin};
use pmix_types::{Nspace, Proc, Rank};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{
    InputModes, LocalModes, OutputModes, Termios, tcgetattr, tcgetpgrp, tcgetwinsize,
};

use super::log::{Logs, Outlets};
use crate::input::{self, Input, ProcessInput, SavedModes, TerminalInput};
use crate::output::{OwnStreams, Route, Standard};
use crate::{Error, Plan};

/// The time after which a partial line is written to a terminal.
const PATIENCE_OF_USER: Duration = Duration::from_millis(100);

/// The time after which a partial line of the process that reads the keyboard is written, while other processes run.
/// Typed keys appear as late, which a user does not notice.
const PATIENCE_OF_TYPIST: Duration = Duration::from_millis(20);

/// The time without progress after which files are given up, once a signal has terminated all processes. Progress of
/// any thread that writes files restarts it.
const FILE_PATIENCE: Duration = Duration::from_millis(200);

/// The streams of the processes and of the launcher.
pub(crate) struct Streams<'a> {
    standard: Standard<'a>,
    /// The standard output and standard error of the launcher.
    own: OwnStreams<'a>,
    forward: OutputForwarder<'a>,
    logs: Logs,
    input: Input<'a>,
    /// The process of the first job whose pseudo terminal is its standard input, while it runs.
    at_keyboard: Option<Proc<'static>>,
    /// The number of output bytes that readers had taken at the last check during termination.
    written: u64,
    /// The streams of other nodes: node, process and name of the stream.
    fed: BTreeMap<(usize, Proc<'static>, &'static str), OutputStream>,
}

impl<'a> Streams<'a> {
    pub(super) fn new(
        plan: &Plan,
        standard: Standard<'a>,
        own: OwnStreams<'a>,
        first_token: usize,
        helpers: Helpers,
    ) -> Self {
        let forward = OutputForwarder::new(first_token, standard.output, standard.errors)
            .on_host(&String::from_utf8_lossy(plan.layout.host()))
            .keep_chunks_if(plan.forward_io)
            .write_files_by(helpers);
        Self {
            standard,
            own,
            forward,
            logs: Logs::default(),
            input: Input::Own,
            at_keyboard: None,
            written: 0,
            fed: BTreeMap::new(),
        }
    }

    /// Selects the destinations of the output of a plan that starts this number of processes.
    pub(super) fn route(&self, plan: &Plan, num_started: usize) -> Route<'a> {
        Route::new(plan, num_started, self.own)
    }

    /// Returns the standard input for a process that does not read pushed input.
    pub(super) fn input_of(&self, plan: &Plan, rank: Rank) -> Result<ProcessInput, Error> {
        input::of(plan, rank, self.standard.input)
    }

    /// Returns the modes of the launcher's terminal if this process of the first job gets a pseudo terminal as standard
    /// input.
    pub(super) fn keyboard_of(&self, plan: &Plan, rank: Rank) -> Option<Termios> {
        let reads = plan.stdin_rank == Some(rank);
        let has = reads && self.own.has_keyboard(plan, self.standard.input);
        let mut modes = tcgetattr(has.then_some(self.standard.input)?).ok()?;
        if tcgetpgrp(self.standard.input) != Ok(getpgrp()) {
            // A launcher in the background sees the modes in which the shell edits its line.
            modes.local_modes.insert(
                LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN,
            );
            modes.input_modes.insert(InputModes::ICRNL);
            modes
                .output_modes
                .insert(OutputModes::OPOST | OutputModes::ONLCR);
        }
        Some(modes)
    }

    /// Forwards a stream of a process.
    pub(super) fn add_output(
        &mut self,
        registry: &Registry,
        source: Proc<'static>,
        (kind, pipe): (OutputStream, mio::unix::pipe::Receiver),
        shown: Option<LineForm>,
        file: Option<OutputFile>,
    ) -> Result<(), Error> {
        let rank = source.rank;
        let shown = shown.map(|form| match form {
            // The user edits an incomplete line. A program that writes a line in pieces must not have lines of other
            // processes in between.
            LineForm::WholeWithin(_) if self.at_keyboard.as_ref() == Some(&source) => {
                LineForm::WholeWithin(PATIENCE_OF_TYPIST)
            }
            _ if self.at_keyboard.as_ref() == Some(&source) => LineForm::Plain,
            // On a terminal a prompt has to appear without much delay.
            LineForm::WholeWithin(_) if self.own.is_terminal(kind) => {
                LineForm::WholeWithin(PATIENCE_OF_USER)
            }
            form => form,
        });
        let delivery = Delivery { shown, file };
        let added = (self.forward).add(registry, source, delivery, kind, pipe);
        added.map_err(|e| Error::system(format!("cannot read from rank {rank}"), e))
    }

    /// Forwards the input of the launcher, or pushed input, to the process of the first job that reads it.
    pub(super) fn fill_input(
        &mut self,
        plan: &Plan,
        registry: &Registry,
        token: usize,
        rank0: ChildStdin,
    ) -> Result<(), Error> {
        let made = Input::new(plan, registry, token, self.standard.input, rank0);
        self.input = made.map_err(|e| Error::system("cannot fill standard input", e))?;
        Ok(())
    }

    /// Forwards the keyboard to the pseudo terminal of a process, which leads its session. Its output must be added after
    /// this.
    pub(super) fn attach_keyboard(
        &mut self,
        registry: &Registry,
        token: usize,
        process: (Proc<'static>, Pid),
        keyboard: OwnedFd,
    ) -> Result<(), Error> {
        let (proc, pid) = process;
        let made = Input::of_keyboard(registry, token, self.standard.input, keyboard, pid);
        self.input = made.map_err(|e| Error::system("cannot read the keyboard", e))?;
        self.at_keyboard = Some(proc);
        Ok(())
    }

    /// Begins the conversion of line ends of a process that reads the keyboard.
    pub(super) fn begin_conversion(&mut self, source: &Proc<'_>) {
        if self.at_keyboard.as_ref() == Some(source) {
            (self.forward).restore_line_ends(source, OutputStream::Output, true);
        }
    }

    /// Forwards available input. Returns `true` once after the terminal hung up.
    pub(super) fn turn_input(&mut self, registry: &Registry, now: Instant) -> bool {
        self.input.turn(registry, now);
        let echo = self.input.typed().map(TerminalInput::take_echo);
        if let (Some(echo), Some(proc)) = (echo, &self.at_keyboard) {
            // The echo of a few keys is lost if the terminal is full.
            let _ = (self.forward).write_as(proc, LineForm::Plain, OutputStream::Output, &echo);
        }
        let has_hung_up = self.input.take_hang_up();
        if has_hung_up
            && self.own.is_terminal(OutputStream::Output)
            && let Some(proc) = self.at_keyboard.take()
        {
            // Its output has no destination any more. Without its terminal the program ends as it would in a shell.
            self.forward.close_stream(&proc, OutputStream::Output);
        }
        has_hung_up
    }

    /// Adds a stream of a process of another node.
    pub(super) fn add_fed(
        &mut self,
        node: (usize, &str),
        source: Proc<'static>,
        kind: OutputStream,
        shown: Option<LineForm>,
    ) {
        let shown = shown.map(|form| match form {
            LineForm::WholeWithin(_) if self.own.is_terminal(kind) => {
                LineForm::WholeWithin(PATIENCE_OF_USER)
            }
            form => form,
        });
        let delivery = Delivery { shown, file: None };
        self.fed.insert((node.0, source.clone(), kind.name()), kind);
        self.forward.add_fed(node, source, delivery, kind);
    }

    /// Passes output of a process of another node, or the end of the stream if there are no bytes. Returns `false` if the
    /// stream is not open.
    pub(super) fn feed(
        &mut self,
        place: usize,
        source: &Proc<'static>,
        kind: OutputStream,
        bytes: &[u8],
    ) -> bool {
        if bytes.is_empty() {
            self.fed.remove(&(place, source.clone(), kind.name()));
        }
        self.forward.feed(source, kind, bytes)
    }

    /// Returns a copy of the standard input of the launcher.
    pub(super) fn own_input(&self) -> std::io::Result<OwnedFd> {
        self.standard.input.try_clone_to_owned()
    }

    /// Ends the streams of a node that was lost.
    pub(super) fn end_fed(&mut self, place: usize) {
        let forward = &mut self.forward;
        self.fed.retain(|(node, source, _), kind| {
            let is_lost = *node == place;
            if is_lost {
                forward.feed(source, *kind, &[]);
            }
            !is_lost
        });
    }

    /// Returns the numbers of bytes of each node that were written since the last call.
    pub(super) fn take_fed(&mut self) -> BTreeMap<usize, usize> {
        self.forward.take_fed()
    }

    /// Stops reading the output of processes while `is_held` is `true`.
    pub(super) fn hold(&mut self, is_held: bool) {
        self.forward.hold(is_held);
    }

    /// Returns the modes of the user's terminal, once, if the watcher does not know them.
    pub(super) fn take_modes(&mut self) -> Option<SavedModes> {
        self.input.typed()?.take_modes()
    }

    /// Restores the modes of the launcher's terminal before the launcher stops.
    pub(super) fn suspend_keyboard(&mut self) {
        if let Some(typed) = self.input.typed() {
            typed.suspend();
        }
    }

    /// Sets the modes of the launcher's terminal after the launcher was continued.
    pub(super) fn resume_keyboard(&mut self) {
        if let Some(typed) = self.input.typed() {
            typed.resume();
        }
    }

    /// Restores the modes of the launcher's terminal if the process that reads the keyboard is among those that have
    /// ended.
    pub(super) fn end_keyboard(&mut self, registry: &Registry, ended: &[Proc<'static>]) {
        if self
            .at_keyboard
            .take_if(|proc| ended.contains(proc))
            .is_some()
            && let Some(typed) = self.input.typed()
        {
            typed.end(registry);
        }
    }

    /// Returns `true` if input is to be forwarded even without an event of the poll.
    pub(super) fn is_input_due(&self, now: Instant) -> bool {
        self.input.deadline().is_some_and(|until| until <= now)
    }

    /// Passes pushed input to the process of the first job that reads it.
    pub(super) fn push_input(&mut self, plan: &Plan, call: PushStdin, done: Completion<()>) {
        self.input.push(plan, call, done);
    }

    /// Writes and forwards output and log texts. Returns the output for peers that pull it.
    pub(super) fn turn(&mut self, registry: &Registry) -> Vec<OutputChunk> {
        if let (Some(typed), Some(proc)) = (self.input.typed(), &self.at_keyboard)
            && let Some(is_converted) = typed.take_conversion()
        {
            // Before output is read that the program wrote after the change.
            let kind = OutputStream::Output;
            (self.forward).restore_line_ends(proc, kind, is_converted);
        }
        self.logs.write(&mut self.forward);
        // Log texts first: a request waits for its text, while the writer of a pipe only waits when the pipe is full.
        self.forward.turn(registry);
        self.forward.take_chunks()
    }

    /// Handles an event of the poll. Returns `false` if the token does not belong to output.
    pub(super) fn handle_ready(&mut self, token: Token) -> bool {
        self.forward.handle_ready(token)
    }

    pub(super) fn tick(&mut self, now: Instant) {
        self.logs.tick(now);
        self.forward.tick(now);
    }

    /// Returns `true` if the standard output of the processes of a plan is a pseudo terminal.
    pub(super) fn are_live(&self, plan: &Plan) -> bool {
        self.own.has_terminals(plan)
    }

    /// Gives the pseudo terminals of processes the size of the launcher's terminal.
    pub(super) fn resize(&self) {
        let size = tcgetwinsize(self.standard.output);
        if let Ok(size) = size.or_else(|_| tcgetwinsize(self.standard.input)) {
            self.forward.resize(size);
        }
    }

    /// Writes a text of the launcher itself to its standard error.
    pub(super) fn write_error(&mut self, text: &str) {
        self.forward.write_error(text.as_bytes());
    }

    /// Returns `true` if standard error accepts more text.
    pub(super) fn has_room_for_errors(&self) -> bool {
        self.forward.has_room(OutputStream::Errors)
    }

    /// Writes the texts of a log request. Returns the messages for channels that rejected their text.
    pub(super) fn log(
        &mut self,
        plan: &Plan,
        call: Log,
        form: LineForm,
        done: Completion<()>,
    ) -> Vec<String> {
        let outlets = Outlets {
            forward: &mut self.forward,
            syslog: &plan.syslog,
        };
        self.logs.log(call, form, done, outlets)
    }

    /// Returns `true` if a turn can write something at once.
    pub(super) fn is_busy(&self) -> bool {
        self.forward.is_busy() || self.logs.is_busy(&self.forward)
    }

    /// Returns the time of the next turn if no event comes before.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadlines = [
            self.logs.deadline(),
            self.forward.deadline(),
            self.input.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Returns `true` if all streams were closed and everything was written.
    pub(super) fn are_over(&self) -> bool {
        self.forward.num_open() == 0 && self.forward.is_drained() && self.logs.is_empty()
    }

    /// Returns `true` if a stream of the job is open.
    pub(super) fn has_open(&self, nspace: &Nspace<'_>) -> bool {
        self.forward.has_open(nspace)
    }

    /// Gives up output files without progress. Returns the time of the next check, if any file is not written.
    pub(super) fn give_up_files(&mut self, now: Instant) -> Option<Instant> {
        if !self.forward.has_unwritten_files() {
            return None;
        }
        self.forward.give_up_files(FILE_PATIENCE, now);
        // Several checks within the patience, because progress of another file restarts it.
        now.checked_add(FILE_PATIENCE / 4)
    }

    /// Stops reading the output of a job, and warns of streams that its descendants hold open.
    pub(super) fn close(&mut self, nspace: &Nspace<'_>) {
        warn_of_held(&self.forward.drain_and_close(nspace));
    }

    /// Returns `true` if readers have read output since the last call.
    pub(super) fn have_progressed(&mut self) -> bool {
        let written = self.forward.num_written();
        // The count is kept even if the caller does not act on it, so that each progress counts once.
        written > std::mem::replace(&mut self.written, written)
    }

    /// Drops output that its readers have not read.
    pub(super) fn lose(&mut self) {
        let lost = self.forward.discard() + self.logs.lose();
        if lost > 0 {
            tracing::warn!("the last {lost} bytes of output were lost because they were not read");
        }
    }

    /// Reports the numbers of suppressed messages at the end of the session.
    pub(super) fn end(&mut self) {
        self.logs.end();
    }
}

/// Warns of streams that descendants of the job hold open and for which the launcher does not wait.
fn warn_of_held(held: &[HeldStream]) {
    const NAMED: usize = 4;
    if held.is_empty() {
        return;
    }
    let mut named: Vec<_> = held
        .iter()
        .take(NAMED)
        .map(|held| {
            let (rank, stream) = (held.source.rank, held.kind.name());
            format!("{stream} of rank {rank} ({} bytes)", held.num_bytes)
        })
        .collect();
    if held.len() > NAMED {
        named.push(format!("{} more", held.len() - NAMED));
    }
    tracing::warn!(
        "remaining child processes of the job still have its output open, and the launcher does not wait for \
        them; output so far is kept, later output may be lost: {}",
        named.join(", ")
    );
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix run` at a terminal: the pseudo terminal that is standard input of rank 0.

use std::fs;
use std::io::Read as _;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};
use rustix::termios::{InputModes, LocalModes, OutputModes, Termios, tcgetattr};

use crate::run_terminal::{CTRL_C, CTRL_D, CTRL_Z, Leader, Terminal, processor_ticks};

/// The modes that the launcher changes.
pub(crate) type Modes = (InputModes, OutputModes, LocalModes);

/// Returns the modes of a terminal.
pub(crate) fn modes(terminal: &Terminal) -> Modes {
    let Termios {
        input_modes,
        output_modes,
        local_modes,
        ..
    } = tcgetattr(&terminal.keyboard).unwrap();
    (input_modes, output_modes, local_modes)
}

/// Waits until the modes of a terminal are as expected.
pub(crate) fn await_modes(terminal: &Terminal, expected: impl Fn(Modes) -> bool) {
    let begun = Instant::now();
    while !expected(modes(terminal)) {
        let now = modes(terminal);
        assert!(begun.elapsed() < Duration::from_secs(60), "{now:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns `true` for modes in which the terminal passes every key on.
pub(crate) fn are_raw((_, _, local): Modes) -> bool {
    !local.intersects(LocalModes::ICANON | LocalModes::ISIG | LocalModes::ECHO)
}

/// Reads the screen up to a text.
pub(crate) fn read_to(terminal: &mut Terminal, text: &str) -> String {
    let mut read = Vec::new();
    while !read.ends_with(text.as_bytes()) {
        let mut byte = [0];
        terminal.screen.read_exact(&mut byte).unwrap();
        read.push(byte[0]);
    }
    String::from_utf8_lossy(&read).into_owned()
}

// Planted: rank 0 reads a pipe, does not begin a session, or has no controlling terminal.
#[test]
fn rank_0_leads_the_session_of_its_terminal() {
    let script = "[ $PMIX_RANK = 0 ] || exit 0; \
        test -t 0 && test -t 1 && test -t 2 && test -r /dev/tty && echo all > /dev/tty; \
        cut -d' ' -f1,5,6,8 /proc/self/stat; echo $$; read x; echo \"<$x>\"";
    for options in [&["-n", "1"][..], &["-n", "2", "--no-whole-lines"]] {
        let args = [options, &["sh", "-c", script]].concat();
        let mut terminal = Terminal::start(&args);
        assert_eq!(terminal.line(), "all");
        let ids = terminal.line();
        let ids: Vec<_> = ids.split(' ').collect();
        let shell = terminal.line();
        // Its process group, its session, and the foreground process group of its terminal.
        assert_eq!(ids[1..], [&shell; 3], "{ids:?}");
        terminal.press(b"typed\n");
        assert_eq!(terminal.line(), "<typed>");
        assert_eq!(terminal.end(), Some(0));
    }
}

// `script -c 'pmix run ...' < FILE` types the file and Ctrl-D before the launcher changes the modes of the terminal.
#[test]
fn keys_that_were_typed_before_the_start_reach_rank_0_with_the_end_of_input() {
    let wait = "while ! [ -e $TMPDIR/go ]; do sleep 0.01; done; exec \"$@\"";
    let before = ["sh", "-c", wait, "sh"];
    for typed in [&b"typed\nlines\n\x04"[..], b"\x04"] {
        let args = ["-n", "1", "sh", "-c", "cat; echo the end"];
        let mut terminal = Terminal::started(Leader::Launcher, &before, &args);
        terminal.press(typed);
        fs::write(terminal.tmp.path().join("go"), "").unwrap();
        let screen = read_to(&mut terminal, "the end\r\n");
        assert!(
            !screen.contains('\0') && !screen.contains("^@"),
            "{screen:?}"
        );
        assert_eq!(screen.contains("lines\r\n"), typed.len() > 1, "{screen:?}");
        assert_eq!(terminal.end(), Some(0));
    }
}

#[test]
fn a_time_limit_ends_the_program_in_the_foreground_of_an_interactive_shell() {
    let shell = ["bash", "--norc", "--noprofile", "-i"];
    let options = ["-n", "1", "--timeout", "2", "--grace", "5"];
    let mut terminal = Terminal::start(&[&options[..], &shell].concat());
    // The shell ignores SIGTERM, and exits after its program.
    terminal.press(b"sh -c 'trap \"echo he\"ard TERM; echo rea\"\"dy; sleep 60 & wait'; exit\n");
    read_to(&mut terminal, "ready\r\n");
    read_to(&mut terminal, "heard\r\n");
    assert_eq!(terminal.end(), Some(124));
}

// A shell with job control gives each of its programs a process group. One of them is stopped, one has lost its parent.
#[test]
fn a_time_limit_ends_the_programs_in_the_background_of_an_interactive_shell() {
    let shell = ["bash", "--norc", "--noprofile", "-i"];
    let options = ["-n", "1", "--timeout", "2", "--grace", "5"];
    let mut terminal = Terminal::start(&[&options[..], &shell].concat());
    let script = "trap 'echo $1 >> $TMPDIR/heard; exit' TERM; case $1 in stopped) kill -STOP $$;; esac; \
        echo $1 >> $TMPDIR/begun; while :; do sleep 0.05; done";
    fs::write(terminal.tmp.path().join("job"), script).unwrap();
    terminal
        .press(b"sh $TMPDIR/job running & sh $TMPDIR/job stopped & (sh $TMPDIR/job orphan &)\n");
    terminal.press(b"trap 'echo shell heard' TERM; while :; do sleep 0.05; done\n");
    let mut screen = Vec::new();
    // A terminal without programs ends with an error.
    let _ = terminal.screen.read_to_end(&mut screen);
    let dir = terminal.tmp.path().to_owned();
    let heard = fs::read_to_string(dir.join("heard")).unwrap_or_default();
    let mut heard: Vec<_> = heard.lines().collect();
    heard.sort_unstable();
    let screen = String::from_utf8_lossy(&screen);
    assert_eq!(heard, ["orphan", "running", "stopped"], "{screen}");
    assert_eq!(terminal.end(), Some(124), "{screen}");
}

// Python writes the text and the end of a line on standard error separately.
#[test]
fn lines_that_rank_0_writes_in_pieces_are_not_mixed_with_others() {
    // In each turn, rank 1 writes a line between both pieces of a line of rank 0, which are milliseconds apart.
    let script = "i=0; while [ $i -lt 20 ]; do case $PMIX_RANK in \
        0) printf 'line of '; : > $TMPDIR/a$i; until [ -e $TMPDIR/b$i ]; do :; done; sleep 0.003; echo 0;; \
        1) until [ -e $TMPDIR/a$i ]; do :; done; echo line of 1; : > $TMPDIR/b$i;; \
        esac; i=$((i + 1)); done";
    let mut terminal = Terminal::start(&["-n", "2", "sh", "-c", script]);
    let mut screen = Vec::new();
    // A terminal without programs ends with an error.
    let _ = terminal.screen.read_to_end(&mut screen);
    assert_eq!(terminal.end(), Some(0));
    let screen = String::from_utf8_lossy(&screen);
    // A busy machine may take longer between both pieces than the launcher waits.
    let num_whole = screen.lines().filter(|line| *line == "line of 0").count();
    assert!(num_whole >= 10, "{num_whole} lines are whole: {screen}");
}

#[test]
fn input_is_no_terminal_where_it_would_hide_what_is_edited() {
    let script = "test -t 0 || echo none";
    for options in [
        &["--no-pty"][..],
        &["--stdin", "none"],
        &["--forward-io"],
        &["--whole-lines"],
    ] {
        let mut terminal = Terminal::start(&[options, &["sh", "-c", script]].concat());
        assert_eq!(terminal.line(), "none", "{options:?}");
        assert_eq!(terminal.end(), Some(0));
    }
}

#[test]
fn an_interactive_shell_has_job_control() {
    let shell = ["bash", "--norc", "--noediting", "-i"];
    let mut terminal = Terminal::start(&shell);
    terminal.press(b"PS1=; exec 2>&1; echo re''ady\n");
    read_to(&mut terminal, "ready\r\n");
    // The key interrupts the command in the foreground, and the job continues.
    terminal.press(b"sh -c 'echo up; exec sleep 1000'\n");
    read_to(&mut terminal, "up\r\n");
    terminal.press(CTRL_C);
    terminal.press(b"echo code $?\n");
    read_to(&mut terminal, "code 130\r\n");
    // It starts no process: one that is stopped between vfork and exec would hold up its parent.
    terminal.press(b"sh -c 'echo up; read x; echo resumed $x'\n");
    read_to(&mut terminal, "up\r\n");
    terminal.press(CTRL_Z);
    read_to(&mut terminal, "Stopped");
    terminal.press(b"fg\n");
    terminal.press(b"here\n");
    read_to(&mut terminal, "resumed here\r\n");
    // The shell reads this after the command has ended, so no stopped command holds up its exit.
    terminal.press(b"exit 4\n");
    assert_eq!(terminal.end(), Some(4));
}

// Planted: the launcher takes every Ctrl-C, also that of an interpreter that computes.
#[test]
fn a_program_that_has_edited_lines_keeps_the_keys() {
    let script = "trap 'echo told' INT; stty -icanon; echo raw; dd bs=1 count=1 2> /dev/null; stty icanon; echo; \
        echo cooked; while ! [ -e $TMPDIR/go ]; do sleep 0.1; done; echo on";
    let mut terminal = Terminal::start(&["--grace", "0.1", "bash", "-c", script]);
    assert_eq!(terminal.line(), "raw");
    terminal.press(b"k");
    assert_eq!(terminal.line(), "k");
    assert_eq!(terminal.line(), "cooked");
    terminal.press(CTRL_C);
    assert_eq!(terminal.line(), "told");
    thread::sleep(Duration::from_millis(300));
    fs::write(terminal.tmp.path().join("go"), "").unwrap();
    assert_eq!(terminal.line(), "on");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn keys_without_signals_reach_the_program() {
    let script = "stty -isig -echo; echo ready; head -c 3 | od -An -tx1";
    let mut terminal = Terminal::start(&["sh", "-c", script]);
    assert_eq!(terminal.line(), "ready");
    terminal.press(b"\x03\x1a\n");
    assert_eq!(terminal.line(), " 03 1a 0a");
    assert_eq!(terminal.end(), Some(0));
}

// Planted: the terminal of the launcher keeps its conversion, or the filter removes line ends of the program.
#[test]
fn line_ends_are_converted_once() {
    let script = "printf 'a\\nb\\r\\nc\\n'; read x; stty -opost; echo raw; read x; printf 'd\\ne\\r\\nf'; read x; stty opost; printf 'g\\n'; read x";
    let mut terminal = Terminal::start(&["sh", "-c", script]);
    assert_eq!(read_to(&mut terminal, "c\r\n"), "a\r\nb\r\r\nc\r\n");
    terminal.press(b"\n");
    read_to(&mut terminal, "raw");
    await_modes(&terminal, |(_, output, _)| {
        !output.contains(OutputModes::OPOST)
    });
    terminal.press(b"\n");
    assert!(read_to(&mut terminal, "f").ends_with("d\ne\r\nf"));
    terminal.press(b"\n");
    read_to(&mut terminal, "g");
    await_modes(&terminal, |(_, output, _)| {
        output.contains(OutputModes::OPOST)
    });
    terminal.press(b"\n");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn a_password_is_not_echoed() {
    let script =
        "stty echo; echo; stty -echo; echo ask; read x; stty echo; echo \"length ${#x}\"; read y";
    let mut terminal = Terminal::start(&["sh", "-c", script]);
    read_to(&mut terminal, "ask\r\n");
    terminal.press(b"secret\n");
    assert_eq!(read_to(&mut terminal, "6\r\n"), "length 6\r\n");
    terminal.press(b"shown\n");
    read_to(&mut terminal, "shown\r\n");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn files_get_the_bytes_that_a_program_has_written() {
    // The output of the launcher is a file, and its input the terminal.
    let wrapper = ["sh", "-c", "exec \"$@\" > $TMPDIR/log", "sh"];
    let script = "test -t 0 && test -t 1 && printf 'a\\nb\\r\\nc\\r'";
    let mut terminal =
        Terminal::started(Leader::Launcher, &wrapper, &["--pty", "sh", "-c", script]);
    assert!(terminal.ends_within(Duration::from_secs(60)));
    let log = fs::read(terminal.tmp.path().join("log")).unwrap();
    assert_eq!(log, b"a\nb\r\nc\r");
}

// Planted: a launcher that stops, exits or is killed leaves its modes.
#[test]
fn the_modes_of_the_terminal_are_restored() {
    let worker = "echo $PPID; read x; exit 3";
    let mut terminal = Terminal::led_by(Leader::Shell, &["sh", "-c", worker]);
    let before = terminal.modes.local_modes;
    let launcher = terminal.line();
    let launcher = Pid::from_raw(launcher.parse().unwrap()).unwrap();
    await_modes(&terminal, are_raw);
    // No shell sets the modes here: its parent ignores that it stops.
    kill_process(launcher, Signal::TSTP).unwrap();
    await_modes(&terminal, |modes| !are_raw(modes));
    assert_eq!(modes(&terminal).2, before);
    kill_process(launcher, Signal::CONT).unwrap();
    await_modes(&terminal, are_raw);
    kill_process(launcher, Signal::KILL).unwrap();
    await_modes(&terminal, |modes| !are_raw(modes));
    assert_eq!(modes(&terminal).2, before);

    let mut terminal = Terminal::start(&["sh", "-c", worker]);
    terminal.line();
    await_modes(&terminal, are_raw);
    terminal.press(b"\n");
    assert!(terminal.line().contains("exit code 3"));
    assert!(!are_raw(modes(&terminal)));
    assert_eq!(terminal.end(), Some(3));
}

#[test]
fn other_ranks_keep_their_keys_and_lines_after_the_end_of_rank_0() {
    let script = "[ $PMIX_RANK = 0 ] && { echo $PPID; exit; }; trap 'echo told; exit 0' INT; \
        while ! [ -e $TMPDIR/go ]; do sleep 0.1; done; echo ready; while :; do sleep 1000 & wait; done";
    let mut terminal = Terminal::start(&["-n", "2", "--keep-going", "sh", "-c", script]);
    let launcher = terminal.line();
    await_modes(&terminal, |modes| !are_raw(modes));
    fs::write(terminal.tmp.path().join("go"), "").unwrap();
    assert_eq!(terminal.line(), "ready");
    let before = processor_ticks(&launcher);
    thread::sleep(Duration::from_millis(500));
    let used = processor_ticks(&launcher) - before;
    assert!(used < 10, "{used} ticks in half a second");
    terminal.press(CTRL_C);
    assert_eq!(terminal.line(), "told");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn ctrl_z_stops_the_job_and_ctrl_d_ends_its_input() {
    let mut terminal = Terminal::start(&["-n", "1", "cat"]);
    terminal.press(b"before\n");
    assert_eq!(terminal.line(), "before");
    terminal.press(CTRL_Z);
    let stopped = waitpid(Some(terminal.pid()), WaitOptions::UNTRACED).unwrap();
    assert!(WaitStatus::stopped(stopped.unwrap().1));
    assert!(!are_raw(modes(&terminal)));
    kill_process(terminal.pid(), Signal::CONT).unwrap();
    await_modes(&terminal, are_raw);
    terminal.press(b"after\n");
    assert_eq!(terminal.line(), "after");
    terminal.press(CTRL_D);
    assert_eq!(terminal.end(), Some(0));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix run` at a terminal: input, the keys that send signals, and signals of other processes.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::command::{self, Running, Watchdog};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{
    LocalModes, OptionalActions, Termios, Winsize, tcgetattr, tcsetattr, tcsetwinsize,
};
use tempfile::TempDir;

/// A launcher in the foreground of its own terminal. The test has the other side of the terminal.
pub(crate) struct Terminal {
    child: Child,
    pub(crate) keyboard: File,
    pub(crate) screen: BufReader<File>,
    pub(crate) tmp: TempDir,
    /// The modes of the terminal before the launcher started.
    pub(crate) modes: Termios,
    _watchdog: Watchdog,
}

/// The session leader of the terminal, which the kernel signals on a hangup.
#[derive(Clone, Copy)]
pub(crate) enum Leader {
    Launcher,
    /// A shell that keeps running, so that the launcher gets no SIGHUP, and that runs the launcher in the
    /// foreground. It writes the exit code of the launcher to the file `code`.
    Shell,
    /// A shell that runs the launcher in the background.
    ShellWithBackground,
}

impl Leader {
    /// Returns the words before those of the launcher.
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Launcher => &[],
            Self::Shell => &[
                "sh",
                "-c",
                "trap : HUP; \"$@\"; echo $? > $TMPDIR/code",
                "sh",
            ],
            Self::ShellWithBackground => &[
                "bash",
                "-mc",
                "trap : HUP; \"$@\" & wait $!; echo $? > $TMPDIR/code",
                "sh",
            ],
        }
    }
}

impl Terminal {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::led_by(Leader::Launcher, args)
    }

    pub(crate) fn led_by(leader: Leader, args: &[&str]) -> Self {
        Self::started(leader, &[], args)
    }

    pub(crate) fn started(leader: Leader, before: &[&str], args: &[&str]) -> Self {
        let tmp = tempfile::tempdir().unwrap();
        let side = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&side).unwrap();
        unlockpt(&side).unwrap();
        let name = ptsname(&side, Vec::new()).unwrap().into_string().unwrap();
        // A plain open of the device would make it the controlling terminal.
        let terminal = OpenOptions::new()
            .read(true)
            .write(true)
            .open(name)
            .unwrap();
        let mut modes = tcgetattr(&terminal).unwrap();
        modes
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ECHOCTL);
        // Otherwise an interrupt would discard unread input.
        modes.local_modes.insert(LocalModes::NOFLSH);
        tcsetattr(&terminal, OptionalActions::Now, &modes).unwrap();
        let stdio = || Stdio::from(terminal.try_clone().unwrap());
        // A background test run ignores the signals of the keyboard, and a launcher keeps signals ignored.
        // The command of util-linux runs a program on the terminal that is its standard input.
        let launcher = command::command(&[&["run"], args].concat());
        let child = Command::new("env")
            .args(["--default-signal", "setsid", "--ctty"])
            .args(leader.words())
            .args(before)
            .arg(env!("CARGO_BIN_EXE_pmix"))
            .args(launcher.get_args())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("TMPDIR", tmp.path())
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .spawn()
            .unwrap();
        let screen = File::from(side);
        Self {
            _watchdog: Watchdog::of(&child),
            modes,
            child,
            keyboard: screen.try_clone().unwrap(),
            screen: BufReader::new(screen),
            tmp,
        }
    }

    pub(crate) fn press(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).unwrap();
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.screen.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Returns `true` if the launcher exits within this time.
    pub(crate) fn ends_within(&mut self, limit: Duration) -> bool {
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if begun.elapsed() >= limit {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Closes the terminal, waits until the shell that leads its session exits, and returns the exit code of the
    /// launcher. `launcher` is the process ID that the job printed.
    pub(crate) fn hang_up(mut self, launcher: &str) -> String {
        let none = || File::open("/dev/null").unwrap();
        self.keyboard = none();
        self.screen = BufReader::new(none());
        if !self.ends_within(Duration::from_secs(60)) {
            let about = fs::read_to_string(format!("/proc/{launcher}/stat"));
            let launcher = Pid::from_raw(launcher.parse().unwrap()).unwrap();
            // A launcher that spins would disturb every later test.
            let _ = kill_process(launcher, Signal::KILL);
            panic!("the launcher goes on: {about:?}");
        }
        let code = fs::read_to_string(self.tmp.path().join("code")).unwrap();
        code.trim().to_owned()
    }

    /// Waits for the end and returns the exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Kill the launcher of a failed test. Killing a reaped child fails, which is ignored.
        let _ = self.child.kill();
    }
}

pub(crate) const CTRL_C: &[u8] = b"\x03";
pub(crate) const CTRL_D: &[u8] = b"\x04";
pub(crate) const CTRL_Z: &[u8] = b"\x1a";

/// Returns the state of a process according to the system: `S` sleeps, `T` is stopped.
fn state(pid: &str) -> Option<char> {
    let about = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).ok()?;
    about.rsplit_once(") ")?.1.chars().next()
}

#[test]
fn terminal_input_reaches_rank_0() {
    let mut terminal = Terminal::start(&[
        "-n",
        "2",
        "sh",
        "-c",
        "while read x; do echo \"<$x>\"; done",
    ]);
    terminal.press(b"first\n");
    assert_eq!(terminal.line(), "<first>");
    terminal.press(b"second\n");
    assert_eq!(terminal.line(), "<second>");
    terminal.press(CTRL_D);
    assert_eq!(terminal.end(), Some(0));
}

/// A program that reports an interrupt and continues.
const STUBBORN: &str = "trap 'echo told' INT; echo ready; while :; do sleep 1000 & wait; done";

#[test]
fn an_interrupt_is_for_the_job_and_the_second_ends_it() {
    let mut terminal = Terminal::start(&["--grace", "1000", "sh", "-c", STUBBORN]);
    assert_eq!(terminal.line(), "ready");
    terminal.press(CTRL_C);
    assert_eq!(terminal.line(), "told");
    let said = terminal.line();
    let expected = "rank 0 did not exit yet and will be killed after 1000s, or immediately after another SIGINT";
    assert!(said.contains("SIGINT was sent to run-"), "{said}");
    assert!(said.ends_with(expected), "{said}");
    terminal.press(CTRL_C);
    assert!(terminal.line().ends_with("the launcher got SIGINT twice"));
    assert_eq!(terminal.end(), Some(130));
}

#[test]
fn processes_that_ignore_an_interrupt_are_killed_after_the_grace() {
    let rank_1_obeys = format!("[ $PMIX_RANK = 1 ] && echo ready && exec sleep 1000; {STUBBORN}");
    let args = [
        "-n",
        "3",
        "--keep-going",
        "--grace",
        "0.8",
        "sh",
        "-c",
        &rank_1_obeys,
    ];
    let mut terminal = Terminal::start(&args);
    for _ in 0..3 {
        assert_eq!(terminal.line(), "ready");
    }
    terminal.press(CTRL_C);
    let lines: Vec<_> = (0..4).map(|_| terminal.line()).collect();
    let lines: Vec<_> = lines.iter().filter(|line| *line != "told").collect();
    let [said, killed] = lines[..] else {
        panic!("{lines:?}");
    };
    assert!(
        said.contains("ranks 0, 2 did not exit yet and will be killed after 800ms"),
        "{said}"
    );
    assert!(killed.contains("ranks 0, 2 of run-"), "{killed}");
    assert!(
        killed.ends_with("did not exit within 800ms after SIGINT: killed (SIGKILL)"),
        "{killed}"
    );
    assert!(terminal.line().contains(" was killed by SIGINT"));
    assert_eq!(terminal.end(), Some(130));
}

#[test]
fn an_interrupt_ends_programs_that_do_not_care() {
    let mut terminal = Terminal::start(&["-n", "2", "sh", "-c", "echo ready; exec sleep 1000"]);
    assert_eq!(terminal.line(), "ready");
    assert_eq!(terminal.line(), "ready");
    terminal.press(CTRL_C);
    assert!(terminal.line().ends_with(" was killed by SIGINT"));
    assert_eq!(terminal.end(), Some(130));
}

#[test]
fn the_job_stops_and_goes_on_with_the_launcher() {
    let worker = "echo $$; read x; echo $x; exit 3";
    let mut terminal = Terminal::start(&["-n", "1", "sh", "-c", worker]);
    let worker = terminal.line();
    terminal.press(CTRL_Z);
    let (_, status) = waitpid(Some(terminal.pid()), WaitOptions::UNTRACED)
        .unwrap()
        .unwrap();
    assert!(WaitStatus::stopped(status), "{status:?}");
    // The signal was sent before the launcher stopped, and is acted on when the worker next runs.
    while state(&worker) != Some('T') {
        std::thread::yield_now();
    }
    kill_process(terminal.pid(), Signal::CONT).unwrap();
    terminal.press(b"awake\n");
    assert_eq!(terminal.line(), "awake");
    assert!(terminal.line().contains("exit code 3"));
    assert_eq!(terminal.end(), Some(3));
}

/// Returns the processor time of a process in ticks of a hundredth of a second.
pub(crate) fn processor_ticks(pid: &str) -> u64 {
    let about = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap();
    let (_, fields) = about.rsplit_once(") ").unwrap();
    let fields: Vec<_> = fields.split(' ').collect();
    // Fields 14 and 15 (proc_pid_stat(5)).
    fields[11..13]
        .iter()
        .map(|ticks| ticks.parse::<u64>().unwrap())
        .sum()
}

#[test]
fn a_terminal_hangup_ends_the_job_without_a_signal() {
    // The second job stops when it reads the terminal, as an interactive shell in the background does.
    let worker = "echo $PPID; read x; sleep 1000";
    let stopped = "echo $PPID; kill -STOP $$; sleep 1000";
    for (leader, worker) in [
        (Leader::Shell, worker),
        (Leader::Shell, stopped),
        (Leader::ShellWithBackground, worker),
    ] {
        let mut terminal = Terminal::led_by(leader, &["-n", "1", "sh", "-c", worker]);
        let launcher = terminal.line();
        assert_eq!(terminal.hang_up(&launcher), "129", "{worker}");
    }
}

#[test]
fn a_launcher_that_ignores_hang_ups_goes_on_without_its_terminal() {
    let ignoring = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"];
    let worker = "echo $PPID; read x; [ -z \"$x\" ] && sleep 0.2; exit 7";
    let mut terminal = Terminal::started(Leader::Shell, &ignoring, &["sh", "-c", worker]);
    let launcher = terminal.line();
    assert_eq!(terminal.hang_up(&launcher), "7");
}

#[test]
fn terminal_input_for_others_does_not_wake_a_background_launcher() {
    let worker = "echo $PPID; while ! [ -e $TMPDIR/go ]; do sleep 0.1; done; read x; echo \"<$x>\"";
    let leader = Leader::ShellWithBackground;
    let mut terminal = Terminal::led_by(leader, &["-n", "1", "sh", "-c", worker]);
    let launcher = terminal.line();
    terminal.press(b"not for the job\n");
    thread::sleep(Duration::from_millis(300));
    let before = processor_ticks(&launcher);
    thread::sleep(Duration::from_secs(1));
    let used = processor_ticks(&launcher) - before;
    assert!(used < 20, "{used} ticks in a second");
    assert_eq!(terminal.hang_up(&launcher), "129");
}

#[test]
fn signals_reach_every_process_and_its_children() {
    let inner = "trap 'echo inner; exit 0' USR1; echo ready; while :; do sleep 1000 & wait; done";
    let outer = format!("trap : USR1; sh -c \"{inner}\"; echo outer");
    let mut running = Running::start(&["-n", "2", "sh", "-c", &outer]);
    assert_eq!(
        (running.line(), running.line()),
        ("ready".into(), "ready".into())
    );
    running.signal("USR1");
    let (code, rest, _) = running.end();
    let mut lines: Vec<_> = rest.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["inner", "inner", "outer", "outer"]);
    assert_eq!(code, Some(0));
}

#[test]
fn a_second_sigterm_kills_processes_that_ignore_the_first() {
    let stubborn = "trap 'echo told' TERM; echo ready; while :; do sleep 1000 & wait; done";
    let mut running = Running::start(&["--grace", "60", "sh", "-c", stubborn]);
    assert_eq!(running.line(), "ready");
    running.signal("TERM");
    assert_eq!(running.line(), "told");
    // Signals within 50 ms count as one, and a signal after the end of the job ends the launcher itself.
    std::thread::sleep(std::time::Duration::from_millis(100));
    running.signal("TERM");
    let (code, rest, errors) = running.end();
    assert_eq!((code, rest.as_str()), (Some(143), ""));
    // On a slow machine the notification comes after half a second.
    assert!(
        errors.ends_with("pmix run: the launcher got SIGTERM twice\n"),
        "{errors}"
    );
}

// Planted: processes get pipes, and pseudo terminals keep their first size.
#[test]
fn processes_write_to_a_pseudo_terminal_of_the_size_of_the_terminal() {
    let script = "test -t 1 && echo tty; while read line; do stty size <&1; done";
    let mut terminal = Terminal::start(&["-n", "1", "sh", "-c", script]);
    let size = |columns| Winsize {
        ws_row: 31,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    assert_eq!(terminal.line(), "tty");
    for columns in [77, 132] {
        tcsetwinsize(&terminal.keyboard, size(columns)).unwrap();
        let begun = Instant::now();
        // The launcher learns of the new size by a signal.
        loop {
            terminal.press(b"go\n");
            if terminal.line() == format!("31 {columns}") {
                break;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "the size is the old one"
            );
            thread::sleep(Duration::from_millis(50));
        }
    }
    terminal.press(CTRL_D);
    assert_eq!(terminal.end(), Some(0));
}

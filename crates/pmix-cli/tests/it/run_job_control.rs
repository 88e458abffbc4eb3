// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix run` as a job of an interactive shell: in the background, and after Ctrl-Z.

use rustix::termios::{LocalModes, Winsize, tcsetwinsize};

use crate::run_keyboard::{are_raw, await_modes, read_to};
use crate::run_terminal::{CTRL_Z, Leader, Terminal};

/// A shell in the foreground of its terminal, which edits its line. Its variable `run` is the launcher for one process.
fn shell() -> Terminal {
    let shell = "run=\"$1 run --node-name n1 -n 1\"; export run; exec bash --norc --noprofile -i";
    let mut terminal = Terminal::started(Leader::Launcher, &["sh", "-c", shell, "sh"], &[]);
    terminal.press(b"PS1=; bind 'set enable-bracketed-paste off' 2> /dev/null; echo re''ady\n");
    read_to(&mut terminal, "ready\r\n");
    await_edited(&terminal);
    terminal
}

/// Waits until the shell edits its line: it reads each key, and its keys send signals.
fn await_edited(terminal: &Terminal) {
    await_modes(terminal, |(_, _, local)| {
        local.contains(LocalModes::ISIG) && !local.contains(LocalModes::ICANON)
    });
}

fn resize(terminal: &Terminal, ws_col: u16) {
    let size = Winsize {
        ws_row: 31,
        ws_col,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&terminal.keyboard, size).unwrap();
}

// Planted: the launcher changes the modes of a terminal in whose background it is, gives its program the modes in which the
// shell edits, or does not take the terminal in `fg`.
#[test]
fn a_launcher_in_the_background_leaves_the_terminal_to_the_shell_until_it_is_in_the_foreground() {
    let mut terminal = shell();
    let script = "stty -a | tr ' ;' '\\n\\n' | grep -E '^-?(icanon|echo|isig|icrnl|opost|onlcr)$' | sort | tr '\\n' ' '; \
        echo be''gun; read x; echo \"<$x>\"; exit 3";
    // The line is long, so it is typed in a file.
    std::fs::write(terminal.tmp.path().join("script"), script).unwrap();
    // The launcher starts while the shell edits its line.
    let wait = "while ! [ -e $TMPDIR/go ]; do sleep 0.01; done; exec $run sh $TMPDIR/script";
    std::fs::write(terminal.tmp.path().join("wait"), wait).unwrap();
    terminal.press(b"sh $TMPDIR/wait & echo wait''ing\n");
    read_to(&mut terminal, "waiting\r\n");
    await_edited(&terminal);
    std::fs::write(terminal.tmp.path().join("go"), "").unwrap();
    let shown = read_to(&mut terminal, "begun\r\n");
    let shown = shown.lines().last().unwrap();
    assert!(
        shown.ends_with("echo icanon icrnl isig onlcr opost begun"),
        "{shown}"
    );
    await_edited(&terminal);
    terminal.press(b"echo st''ill\n");
    read_to(&mut terminal, "still\r\n");
    await_edited(&terminal);
    terminal.press(b"fg\n");
    await_modes(&terminal, are_raw);
    terminal.press(b"typed\n");
    read_to(&mut terminal, "<typed>\r\n");
    read_to(&mut terminal, "exit code 3");
    await_edited(&terminal);
    terminal.press(b"echo code $?\n");
    read_to(&mut terminal, "code 3\r\n");
    terminal.press(b"exit\n");
    assert_eq!(terminal.end(), Some(0));
}

// The kernel tells the foreground process group of a new size, which the stopped launcher is not.
#[test]
fn a_job_has_the_size_that_the_terminal_got_while_it_was_stopped() {
    let mut terminal = shell();
    resize(&terminal, 77);
    let script = "echo be''gun; while read x; do [ \"$x\" = end ] && exit 4; stty size; done";
    std::fs::write(terminal.tmp.path().join("script"), script).unwrap();
    terminal.press(b"$run sh $TMPDIR/script\n");
    read_to(&mut terminal, "begun\r\n");
    await_modes(&terminal, are_raw);
    terminal.press(b"x\n");
    read_to(&mut terminal, "31 77\r\n");
    terminal.press(CTRL_Z);
    read_to(&mut terminal, "Stopped");
    await_edited(&terminal);
    resize(&terminal, 132);
    terminal.press(b"fg\n");
    await_modes(&terminal, are_raw);
    terminal.press(b"x\n");
    read_to(&mut terminal, "31 132\r\n");
    terminal.press(b"end\n");
    read_to(&mut terminal, "exit code 4");
    await_edited(&terminal);
    terminal.press(b"exit\n");
    assert_eq!(terminal.end(), Some(4));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `console` blocks of a page: commands after `$ `, each followed by its output.
//!
//! A comment before a block, `<!-- console: varies WORD...; any order -->`, names the parts of the output that vary
//! between runs. docs/testing.md describes it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, PipeReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::command::Watchdog;

/// Returns the page with the output of every `console` block regenerated where it differs.
pub(crate) fn rerun(page: &str, dir: &Path) -> String {
    let lines: Vec<_> = page.lines().collect();
    let mut made = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        made.push((*line).to_owned());
        at += 1;
        if *line == "```console" {
            let marks = Marks::of(at.checked_sub(2).and_then(|before| lines.get(before)));
            let rest = lines.get(at..).unwrap_or_default();
            let len = rest.iter().position(|line| *line == "```");
            let block = rest.get(..len.expect("the block ends")).unwrap_or(rest);
            marks.assert_used(block);
            made.extend(rerun_block(block, &marks, dir));
            made.push("```".to_owned());
            at += block.len() + 1;
        }
    }
    made.push(String::new());
    made.join("\n")
}

fn rerun_block(block: &[&str], marks: &Marks, dir: &Path) -> Vec<String> {
    let mut session = Session::new(dir);
    let mut made = Vec::new();
    let mut at = 0;
    while let Some(line) = block.get(at) {
        if line.starts_with("$ cargo ") {
            // Set-up commands show no output, and need not be repeated.
            made.extend(block.iter().skip(at).map(|line| (*line).to_owned()));
            break;
        }
        made.push((*line).to_owned());
        at += 1;
        if let Some(command) = line.strip_prefix("$ ") {
            let rest = block.get(at..).unwrap_or_default();
            let len = rest.iter().position(|line| line.starts_with("$ "));
            let shown = rest.get(..len.unwrap_or(rest.len())).unwrap_or(rest);
            made.extend(session.run(command, shown, marks));
            at += shown.len();
        }
    }
    session.end();
    made
}

/// The time limit of a command, longer than any command of a page takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A terminal session: its directory, its background commands, and the values of variable words.
pub(crate) struct Session<'a> {
    dir: &'a Path,
    /// The directory of sessions, so that a page only finds its own servers.
    tmp: TempDir,
    background: Vec<Background>,
    bound: Bound,
}

/// A background command (` &`).
struct Background {
    child: Child,
    lines: Receiver<String>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(dir: &'a Path) -> Self {
        Self {
            dir,
            tmp: tempfile::tempdir().expect("a directory"),
            background: Vec::new(),
            bound: Bound::new(),
        }
    }

    /// Runs a command. Returns the lines that the page must have after it: the existing lines, if
    /// they are correct.
    pub(crate) fn run(&mut self, command: &str, shown: &[&str], marks: &Marks) -> Vec<String> {
        let command = with_bound(command, &self.bound);
        let until = Instant::now() + LIMIT;
        loop {
            let mut has_changed = false;
            let made = match command.strip_suffix(" &") {
                Some(command) => self.begin(command, shown.len()),
                None if command == "wait" => self.wait(),
                None => {
                    let (lines, is_success) = self.in_foreground(&command);
                    has_changed = is_success && changes(&command);
                    lines
                }
            };
            let lines: Vec<_> = made.iter().map(String::as_str).collect();
            if let Some(bound) = marks.matches(shown, &lines) {
                self.bound.extend(bound);
                return shown.iter().map(|line| (*line).to_owned()).collect();
            }
            // A reader types the next command after the job has started. A test may be faster, so
            // the command is repeated.
            let is_early = !self.background.is_empty() && !command.ends_with(" &");
            if !is_early || has_changed || command == "wait" || Instant::now() > until {
                return made;
            }
        }
    }

    fn command(&self, script: &str) -> Command {
        let bin = Path::new(env!("CARGO_BIN_EXE_pmix"))
            .parent()
            .expect("a directory");
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(self.dir)
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .env("HOME", "/nonexistent")
            .env("TMPDIR", self.tmp.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs a command. Returns its output, and `true` if it succeeded.
    fn in_foreground(&self, command: &str) -> (Vec<String>, bool) {
        let mut shell = self.command(&format!("{{ {command}\n}} 2>&1"));
        let child = shell.stdout(Stdio::piped()).spawn().expect("a shell");
        let _watchdog = Watchdog::of(&child);
        let output = child.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout);
        let lines = text.lines().map(str::to_owned).collect();
        (lines, output.status.success())
    }

    /// Starts a command in the background, and waits for as many lines as the page has.
    fn begin(&mut self, command: &str, num_lines: usize) -> Vec<String> {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut shell = self.command(&format!("exec 2>&1; exec {command}"));
        let child = shell.stdout(writer).spawn().expect("a shell");
        // Close the shell's end of the pipe, so that the reader sees the end.
        drop(shell);
        let started = Background {
            child,
            lines: read(reader),
        };
        let until = Instant::now() + LIMIT;
        let left = || until.saturating_duration_since(Instant::now());
        let made = (0..num_lines).map_while(|_| started.lines.recv_timeout(left()).ok());
        let made = made.collect();
        self.background.push(started);
        made
    }

    /// Waits for the background commands, and returns their output since the last command.
    fn wait(&mut self) -> Vec<String> {
        let mut made = Vec::new();
        for mut ended in self.background.drain(..) {
            made.extend(ended.rest());
        }
        made
    }

    /// Ends all background commands of the block.
    pub(crate) fn end(mut self) {
        self.wait();
        let left: Vec<_> = std::fs::read_dir(&self.tmp)
            .expect("the directory")
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

impl Background {
    /// Returns its output up to its end.
    fn rest(&mut self) -> Vec<String> {
        let until = Instant::now() + LIMIT;
        let mut made = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => made.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    panic!("a command in the background does not end: {made:?}")
                }
            }
        }
        self.child.wait().expect("it ends");
        made
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Killing a reaped child fails, which is ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(reader: PipeReader) -> Receiver<String> {
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        // The receiver is dropped when it has the output it needs.
        for line in BufReader::new(reader).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// Returns `true` if a command must not be run twice.
fn changes(command: &str) -> bool {
    const CHANGING: [&str; 4] = ["pmix kill", "pmix release", "pmix publish", "pmix run"];
    CHANGING.iter().any(|words| command.contains(words))
}

#[test]
fn only_commands_without_side_effects_are_repeated() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut session = Session::new(dir.path());
    let marks = Marks::default();
    session.run("sleep 600 &", &[], &marks);
    let said = session.run("echo a >> done; : pmix kill; cat done", &["b"], &marks);
    assert_eq!(said, ["a"]);
    let looks = "echo a >> seen; wc -l < seen";
    assert_eq!(session.run(looks, &["3"], &marks), ["3"]);
    let fails = "echo a >> failed; wc -l < failed; : pmix kill; [ $(wc -l < failed) = 3 ]";
    assert_eq!(session.run(fails, &["3"], &marks), ["3"]);
}

/// The last values of the variable words.
type Bound = BTreeMap<String, String>;

/// The directives in the comment before a block.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// The words that vary, longer ones first.
    varies: Vec<String>,
    any_order: bool,
}

/// A part of a shown line.
#[derive(Clone, Copy, PartialEq)]
enum Piece<'a> {
    Text(&'a str),
    Blanks,
    /// A variable word, which matches any other word.
    Word(&'a str),
    /// `…`, which matches any text.
    Anything,
}

impl Marks {
    /// Parses the line before a block, if it is such a comment.
    pub(crate) fn of(line: Option<&&str>) -> Self {
        let mut marks = Self::default();
        let comment = line.and_then(|line| line.strip_prefix("<!-- console: "));
        let Some(comment) = comment.and_then(|rest| rest.strip_suffix(" -->")) else {
            return marks;
        };
        for part in comment.split("; ") {
            match part.strip_prefix("varies ") {
                Some(words) => marks.varies = words.split(' ').map(str::to_owned).collect(),
                None if part == "any order" => marks.any_order = true,
                None => panic!("`{part}` is nothing that can be said of a console block"),
            }
        }
        marks
            .varies
            .sort_by_key(|word| std::cmp::Reverse(word.len()));
        marks
    }

    /// Asserts that each variable word occurs in the block.
    pub(crate) fn assert_used(&self, block: &[&str]) {
        for word in &self.varies {
            let is_used = block.iter().any(|line| {
                let pieces = self.pieces(line);
                pieces.contains(&Piece::Word(word))
            });
            assert!(is_used, "{word} varies and is in no line of {block:?}");
        }
    }

    /// Returns the values of the variable words if the printed lines match the shown ones.
    pub(crate) fn matches(&self, shown: &[&str], made: &[&str]) -> Option<Bound> {
        let mut bound = Bound::new();
        let is_shown = if self.any_order {
            self.in_any_order(shown, made, &mut bound)
        } else {
            self.in_order(shown, made, &mut bound)
        };
        is_shown.then_some(bound)
    }

    fn in_any_order(&self, shown: &[&str], made: &[&str], bound: &mut Bound) -> bool {
        let mut left = made.to_vec();
        for line in shown {
            let found = left.iter().position(|made| self.line(line, made, bound));
            match found {
                Some(at) => left.remove(at),
                None => return false,
            };
        }
        left.is_empty()
    }

    /// Matches the lines in order. A line `…` matches any number of lines.
    fn in_order(&self, shown: &[&str], made: &[&str], bound: &mut Bound) -> bool {
        match (shown, made) {
            ([], made) => made.is_empty(),
            (["…", shown @ ..], made) => {
                (0..=made.len()).any(|skipped| self.in_order(shown, &made[skipped..], bound))
            }
            ([line, shown @ ..], [first, made @ ..]) => {
                self.line(line, first, bound) && self.in_order(shown, made, bound)
            }
            (_, []) => false,
        }
    }

    fn line(&self, shown: &str, made: &str, bound: &mut Bound) -> bool {
        let pieces = self.pieces(shown);
        let varies = |piece: &Piece<'_>| matches!(piece, Piece::Word(_) | Piece::Anything);
        if !pieces.iter().any(varies) {
            return shown == made;
        }
        fits(&pieces, made, bound)
    }

    fn pieces<'a>(&'a self, line: &'a str) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        let mut from = 0;
        let mut at = 0;
        while let Some(c) = line[at..].chars().next() {
            let (piece, len) = if c == ' ' {
                let rest = line[at..].trim_start_matches(' ');
                (Piece::Blanks, line.len() - at - rest.len())
            } else if c == '…' {
                (Piece::Anything, c.len_utf8())
            } else if let Some(word) = self.varies.iter().find(|word| is_at(line, at, word)) {
                (Piece::Word(word), word.len())
            } else {
                at += c.len_utf8();
                continue;
            };
            if from < at {
                pieces.push(Piece::Text(&line[from..at]));
            }
            pieces.push(piece);
            at += len;
            from = at;
        }
        if from < at {
            pieces.push(Piece::Text(&line[from..at]));
        }
        pieces
    }
}

/// Returns a command with the values of the variable words before it.
fn with_bound(command: &str, bound: &Bound) -> String {
    let mut made = String::new();
    let mut at = 0;
    while let Some(c) = command[at..].chars().next() {
        let mut words = bound.iter();
        if let Some((word, stands_for)) = words.find(|(word, _)| is_at(command, at, word)) {
            made.push_str(stands_for);
            at += word.len();
        } else {
            made.push(c);
            at += c.len_utf8();
        }
    }
    made
}

/// Returns `true` if a text has a whole word at a position.
fn is_at(text: &str, at: usize, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let rest = &text[at..];
    rest.starts_with(word)
        && !is_part(text[..at].chars().next_back())
        && !is_part(rest[word.len()..].chars().next())
}

/// Returns `true` if a text matches. Spaces match any number of spaces, because the width of
/// columns depends on their contents.
fn fits(pieces: &[Piece<'_>], text: &str, bound: &mut Bound) -> bool {
    let Some((first, pieces)) = pieces.split_first() else {
        return text.is_empty();
    };
    match first {
        Piece::Text(shown) => text
            .strip_prefix(shown)
            .is_some_and(|rest| fits(pieces, rest, bound)),
        Piece::Blanks => {
            let rest = text.trim_start_matches(' ');
            rest.len() < text.len() && fits(pieces, rest, bound)
        }
        Piece::Anything => ends(text).any(|end| fits(pieces, &text[end..], bound)),
        Piece::Word(word) => {
            let len = text.find(' ').unwrap_or(text.len());
            let found = ends(&text[..len])
                .skip(1)
                .find(|end| fits(pieces, &text[*end..], bound));
            if let Some(end) = found {
                bound.insert((*word).to_owned(), text[..end].to_owned());
            }
            found.is_some()
        }
    }
}

/// Returns the possible ends of a prefix of a text.
fn ends(text: &str) -> impl Iterator<Item = usize> + '_ {
    let inner = text.char_indices().map(|(at, _)| at);
    inner.chain([text.len()])
}

#[test]
fn a_variable_word_matches_and_the_rest_must_be_equal() {
    let marks = Marks::of(Some(&"<!-- console: varies 4711 run-n01-4711 n01 -->"));
    let fits = |shown: &str, made: &str| marks.matches(&[shown], &[made]);
    let bound = fits("server run-n01-4711@1, n01", "server run-a-7@1, b.c").expect("it fits");
    assert_eq!(bound["run-n01-4711"], "run-a-7");
    assert_eq!(bound["n01"], "b.c");
    assert_eq!(
        with_bound("kill run-n01-4711@1 n012", &bound),
        "kill run-a-7@1 n012"
    );
    assert!(fits("  0   4711 up", " 0 123456 up").is_some());
    assert!(fits("  0   4711 up", " 1 123456 up").is_none());
    assert!(fits("  0   4711 up", " 0 12 34 up").is_none());
    assert!(fits("  0   4711 up", " 0  up").is_none());
    assert!(fits("14711 n012", "1 n012").is_none());
    assert!(fits("a  b", "a b").is_none());
}

#[test]
fn an_ellipsis_matches_any_lines_or_any_text() {
    let marks = Marks::default();
    let fits = |made: &[&str]| marks.matches(&["a", "…", "b … c"], made).is_some();
    assert!(fits(&["a", "b 1 c"]));
    assert!(fits(&["a", "x", "y", "b 1 2 c"]));
    assert!(!fits(&["a", "x"]));
    assert!(!fits(&["a", "x", "b 1 d"]));
}

#[test]
fn lines_in_any_order_are_each_there_once() {
    let marks = Marks::of(Some(&"<!-- console: varies n01; any order -->"));
    let fits = |made: &[&str]| marks.matches(&["0 on n01", "1 on n01"], made).is_some();
    assert!(fits(&["1 on a", "0 on a"]));
    assert!(!fits(&["1 on a", "1 on a"]));
    assert!(!fits(&["1 on a", "0 on a", "0 on a"]));
}

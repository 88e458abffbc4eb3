// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads each page of the site in a browser, wide and narrow, and measures it.
//!
//! Source: HTML, "The iframe element"; CSSOM View, for widths and heights.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use serde_json::Value;
use xtask::Outcome;
use xtask::install;

/// The name of the browser's Debian package and program.
const BROWSER: &str = "chromium";

/// Options of the browser: a fresh profile, and no requests to other hosts.
const OPTIONS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
    "--window-size=1400,1000",
];

/// The time limit of the browser for all pages.
const PATIENCE: Duration = Duration::from_secs(300);

/// The page that loads the others and reports their sizes; `PAGES` is replaced by their list.
const LOOKS: &str = include_str!("looks.html");

/// Loads every page, if a browser is installed.
pub(super) fn check(outcome: &mut Outcome, folder: &Path, pages: &[String]) {
    install::packages(&[BROWSER]);
    match Command::new(BROWSER).arg("--version").output() {
        Err(_) => outcome.skip("pages", "there is no chromium"),
        Ok(_) => outcome.check("pages", looked_at(folder, pages)),
    }
}

/// Returns an error if the browser reports a fault of a page.
fn looked_at(folder: &Path, pages: &[String]) -> Result<(), String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
    let port = listener.local_addr().map_err(|e| e.to_string())?.port();
    let list = serde_json::to_string(pages).map_err(|e| e.to_string())?;
    let looks = LOOKS.replace("PAGES", &list);
    let (sender, said) = mpsc::channel();
    let site = Arc::new(Site {
        folder: folder.to_owned(),
        looks,
        said: sender,
    });
    std::thread::spawn(move || site.serve(&listener));
    let profile = install::scratch("book")?.join("browser");
    // The directory is missing in the first run.
    let _ = fs::remove_dir_all(&profile);
    let mut browser = Command::new(BROWSER);
    browser
        .args(OPTIONS)
        .arg(format!("--user-data-dir={}", profile.display()));
    browser.arg(format!("http://127.0.0.1:{port}/looks"));
    let quiet = browser
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let browser = quiet.spawn().map_err(|e| format!("{BROWSER}: {e}"))?;
    let _ends = Ends(browser);
    let mut missing = Vec::new();
    loop {
        match said.recv_timeout(PATIENCE) {
            Ok(Said::Missing(path)) => missing.push(path),
            Ok(Said::Seen(text)) => return judged(&text, pages.len(), &missing),
            Err(_) => return Err("the browser does not say what it sees".to_owned()),
        }
    }
}

/// A browser process that is killed on drop.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // The kill fails if the browser has exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Checks the report of the browser.
fn judged(text: &str, pages: usize, missing: &[String]) -> Result<(), String> {
    let seen: Value = serde_json::from_str(text).map_err(|e| format!("what is seen: {e}"))?;
    let seen = seen.as_array().ok_or("what is seen is no list")?;
    let mut faults: Vec<_> = missing
        .iter()
        .map(|path| format!("there is no {path}"))
        .collect();
    let mut longest = 0;
    for one in seen {
        longest = longest.max(one["line"].as_u64().unwrap_or(0));
        for fault in one["faults"].as_array().into_iter().flatten() {
            faults.push(format!(
                "{} in {} pixels: {fault}",
                one["page"], one["width"]
            ));
        }
    }
    println!(
        "{} pages loaded, at most {longest} letters in a line",
        seen.len()
    );
    if seen.len() != 2 * pages || longest == 0 {
        faults.push(format!("{} of {} pages were loaded", seen.len(), 2 * pages));
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults.join("; ")),
    }
}

/// A message about the browser's progress.
enum Said {
    /// A request for a file that does not exist.
    Missing(String),
    /// The report after all pages are loaded.
    Seen(String),
}

/// The site, served to the browser.
struct Site {
    folder: PathBuf,
    looks: String,
    said: Sender<Said>,
}

impl Site {
    /// Handles each connection in a thread: browsers open some in advance and send nothing on them.
    fn serve(self: &Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming().flatten() {
            let site = Arc::clone(self);
            std::thread::spawn(move || {
                // The write may fail if the browser closed the connection.
                let _ = site.answer(&stream);
            });
        }
    }

    fn answer(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut length = 0;
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = header.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut words = line.split(' ');
        let (method, path) = (words.next(), words.next().unwrap_or_default());
        let path = path
            .split(['?', '#'])
            .next()
            .unwrap_or_default()
            .trim_start_matches('/');
        if method == Some("POST") {
            let mut body = String::new();
            reader.take(length).read_to_string(&mut body)?;
            let _ = self.said.send(Said::Seen(body));
            return respond(stream, "200 OK", "text/plain", b"");
        }
        match path {
            "looks" => respond(stream, "200 OK", "text/html", self.looks.as_bytes()),
            // Browsers request this file by themselves.
            "favicon.ico" => respond(stream, "204 No Content", "text/plain", b""),
            path => match fs::read(self.folder.join(path)) {
                Ok(bytes) if !path.contains("..") => respond(stream, "200 OK", kind(path), &bytes),
                _ => {
                    let _ = self.said.send(Said::Missing(path.to_owned()));
                    respond(stream, "404 Not Found", "text/plain", b"")
                }
            },
        }?;
        stream.flush()
    }
}

fn respond(mut stream: &TcpStream, status: &str, kind: &str, body: &[u8]) -> std::io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}

/// Returns the content type for a file name.
fn kind(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css",
        Some("js") => "text/javascript",
        Some("svg") => "image/svg+xml",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_with_a_fault_fails() {
        let seen = r#"[{"page":"a","width":1280,"line":80,"faults":[]},
                       {"page":"a","width":400,"line":40,"faults":[]}]"#;
        assert_eq!(judged(seen, 1, &[]), Ok(()));
        assert!(judged(seen, 2, &[]).is_err_and(|why| why.contains("2 of 4 pages")));
        let missing = judged(seen, 1, &["b.css".to_owned()]);
        assert!(missing.is_err_and(|why| why.contains("there is no b.css")));
        let fault = seen.replacen("[]", r#"["no text"]"#, 1);
        let fault = judged(&fault, 1, &[]).expect_err("a fault");
        assert!(
            fault.contains(r#""a" in 1280 pixels: "no text""#),
            "{fault}"
        );
        assert!(judged("{}", 0, &[]).is_err() && judged("[]", 0, &[]).is_err());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix run --report=html`: the page about a job.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use crate::command::{Outcome, assert_nothing_left, finish, launcher};

/// Runs a job with a report in a new directory. Returns its outcome and the page.
fn report(args: &[&str], file: &str) -> (Outcome, String) {
    let home = TempDir::new().unwrap();
    let (mut command, tmp) = launcher(args);
    command.current_dir(home.path());
    let outcome = finish(command, b"");
    assert_nothing_left(&tmp);
    let path = home.path().join(file);
    let page = fs::read_to_string(&path).unwrap();
    let mode = fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(
        outcome.stderr.contains(&format!("report: {file}")),
        "{}",
        outcome.stderr
    );
    (outcome, page)
}

/// Asserts that a browser needs nothing but the page.
fn assert_alone(page: &str) {
    for reference in [
        "http:", "https:", "src=", "href=", "url(", "@import", "<script",
    ] {
        assert!(!page.contains(reference), "{reference}: {page}");
    }
    for element in ["html", "head", "body", "svg", "table", "div", "style"] {
        let (opened, closed) = (format!("<{element}"), format!("</{element}>"));
        let begins = page.match_indices(&opened).filter(|(at, _)| {
            let next = page.as_bytes().get(at + opened.len());
            next.is_some_and(|next| [b' ', b'>'].contains(next))
        });
        assert_eq!(
            begins.count(),
            page.matches(&closed).count(),
            "{element}: {page}"
        );
    }
}

#[test]
fn the_page_has_the_timeline_the_fences_and_the_placement() {
    let program = env!("CARGO_BIN_EXE_pmix");
    let args = [
        "--report=html",
        "-n",
        "2",
        "--nspace",
        "job@1",
        "--node-name",
        "n<1>",
    ];
    let (outcome, page) = report(
        &[&args[..], &[program, "hello", "--fences", "3"]].concat(),
        "job@1.html",
    );
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_alone(&page);
    assert!(page.contains("2 processes on n&lt;1&gt;, "), "{page}");
    assert!(page.contains("<p>All processes succeeded.</p>"), "{page}");
    for rank in [0, 1] {
        let title = format!("<title>rank {rank}: start ");
        let title = page
            .split(&title)
            .nth(1)
            .unwrap()
            .split("</title>")
            .next()
            .unwrap();
        assert!(
            title.contains(", init ") && title.ends_with(", exit code 0"),
            "{title}"
        );
    }
    // The program fences before and after its own fences.
    let num = page
        .split("Fences: ")
        .nth(1)
        .unwrap()
        .split('.')
        .next()
        .unwrap();
    let num: u32 = num.parse().unwrap();
    assert!(num >= 3, "{page}");
    assert!(
        page.contains("<h2>Longest fences</h2>") && page.contains(": first call "),
        "{page}"
    );
    assert!(page.contains("<tr><td>n&lt;1&gt;</td>"), "{page}");
}

#[test]
fn failures_and_names_of_the_user_are_shown_as_text() {
    let script = "test $PMIX_RANK = 0 || exit 3 # <script>alert('&')</script>";
    let args = [
        "--report=html:page.html",
        "-n",
        "2",
        "--keep-going",
        "sh",
        "-c",
        script,
    ];
    let (outcome, page) = report(&args, "page.html");
    assert_eq!(outcome.code, 3);
    assert_alone(&page);
    assert!(
        page.contains("# &lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;"),
        "{page}"
    );
    assert!(
        page.contains("<title>rank 1: start ") && page.contains(", exit code 3</title>"),
        "{page}"
    );
    assert!(
        page.contains("<td class=\"bad\">exit code 3</td>"),
        "{page}"
    );
    assert!(page.contains("<rect class=\"end\""), "{page}");
    assert!(page.contains("No fence completed."), "{page}");
}

#[test]
fn a_large_job_has_bars_for_several_ranks() {
    let args = [
        "--report=html:page.html",
        "-n",
        "300",
        "--oversubscribe",
        "true",
    ];
    let (outcome, page) = report(&args, "page.html");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_alone(&page);
    assert!(
        page.contains("Each bar shows 2 consecutive ranks"),
        "{page}"
    );
    assert!(page.contains("<title>ranks 298 to 299: start "), "{page}");
    assert!(page.contains("100 more processes are not listed"), "{page}");
}

#[test]
fn a_report_that_cannot_be_written_stops_the_job_before_it_begins() {
    for (option, why) in [
        (
            "--report=html:/nonexistent/page.html",
            "cannot write /nonexistent/page.html: ",
        ),
        ("--report=html:", "expected text, html or html:FILE"),
        ("--report=svg", "expected text, html or html:FILE"),
    ] {
        let (command, tmp) = launcher(&[option, "echo", "ran"]);
        let outcome = finish(command, b"");
        assert_nothing_left(&tmp);
        assert_eq!((outcome.code, outcome.text().as_str()), (2, ""), "{option}");
        assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
    }
    // Without a value, the report is text, and the next word is the program.
    let (command, _tmp) = launcher(&["--report", "echo", "ran"]);
    let outcome = finish(command, b"");
    assert_eq!((outcome.code, outcome.text().as_str()), (0, "ran"));
    assert!(outcome.stderr.contains("exit code 0"), "{}", outcome.stderr);
}

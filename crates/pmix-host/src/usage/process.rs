// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resource usage of one process.

use std::path::PathBuf;

use pmix_types::{ErrorDetail, ProcStats, Status, Text, Timeval, keys};
use rustix::time::{ClockId, clock_gettime};

use super::Wanted;
use super::file::{megabytes, named, now, number, read, read_text, real};
use crate::Error;

/// The largest length of a command line; the rest is cut.
const LONGEST_COMMAND: usize = 256;

/// The contents of files below `/proc/PID` for a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessTexts<'t> {
    /// The file `stat`.
    pub stat: &'t str,
    /// The file `status`; empty if it was not read.
    pub status: &'t str,
    /// The file `smaps_rollup`; empty if it was not read.
    pub smaps_rollup: &'t str,
    /// The file `cmdline`; empty if it was not read.
    pub cmdline: &'t [u8],
}

/// The files to read of a process. Each variant includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// The file `stat`: without sizes of memory, and with the name of the program in place of the command line.
    State,
    /// The files `status` and `cmdline` as well.
    Memory,
    /// The file `smaps_rollup` as well, for which the kernel walks all memory of the process.
    Proportional,
}

impl Detail {
    /// Returns the smallest variant with all requested figures.
    #[must_use]
    pub fn of(wanted: &Wanted) -> Self {
        let sizes = [
            keys::CMD_LINE,
            keys::PROC_VSIZE,
            keys::PROC_RSS,
            keys::PROC_PEAK_VSIZE,
        ];
        match () {
            () if wanted.has(keys::PROC_PSS) => Self::Proportional,
            () if sizes.iter().any(|key| wanted.has(key)) => Self::Memory,
            () => Self::State,
        }
    }
}

/// Measures the current usage of a process. The names of the process and of its node are left empty. The share of a
/// processor is the average since the start of the process.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_FOUND` if there is no such process, and `PMIX_ERR_NOT_AVAILABLE` if it ended in the meantime
/// or the kernel's files are malformed.
pub fn process(pid: i32, detail: Detail) -> Result<ProcStats<'static>, Error> {
    let dir = PathBuf::from(format!("/proc/{pid}"));
    let stat = read_text(&dir.join("stat"))?;
    // The following files can be denied, and disappear when the process ends.
    let text = |needed: Detail, name: &str| match detail >= needed {
        true => read_text(&dir.join(name)).unwrap_or_default(),
        false => String::new(),
    };
    let status = text(Detail::Memory, "status");
    let smaps_rollup = text(Detail::Proportional, "smaps_rollup");
    let cmdline = match detail >= Detail::Memory {
        true => read(&dir.join("cmdline")).unwrap_or_default(),
        false => Vec::new(),
    };
    let texts = ProcessTexts {
        stat: &stat,
        status: &status,
        smaps_rollup: &smaps_rollup,
        cmdline: &cmdline,
    };
    // The kernel counts the start of a process from the boot, with the time that the node was suspended.
    let since_boot = clock_gettime(ClockId::Boottime);
    let since_boot = since_boot.try_into().unwrap_or_default();
    let ticks = rustix::param::clock_ticks_per_second();
    process_stats(&texts, ticks, since_boot)
}

/// Returns the largest resident memory of a process so far in bytes. A process that has exited has none.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_FOUND` if there is no such process, and `PMIX_ERR_NOT_AVAILABLE` if it has exited.
pub fn largest_memory(pid: i32) -> Result<u64, Error> {
    let status = read_text(&PathBuf::from(format!("/proc/{pid}/status")))?;
    match named(&status, ["VmHWM"]) {
        [0] => {
            let what = format!("/proc/{pid}/status has no VmHWM: the process has exited");
            Err(ErrorDetail::new(Status::ERR_NOT_AVAILABLE, what).into())
        }
        [kilobytes] => Ok(kilobytes.saturating_mul(1024)),
    }
}

/// Returns the processor time of a process and of its children that it has waited for, also after its exit until it is
/// reaped.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_FOUND` if there is no such process, and `PMIX_ERR_NOT_AVAILABLE` if the file is malformed.
pub fn processor_time(pid: i32) -> Result<std::time::Duration, Error> {
    let stat = read_text(&PathBuf::from(format!("/proc/{pid}/stat")))?;
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    let used = ticks_used(&stat).ok_or_else(|| {
        let what = format!("invalid file /proc/{pid}/stat");
        Error::from(ErrorDetail::new(Status::ERR_NOT_AVAILABLE, what))
    })?;
    let micros = used.saturating_mul(1_000_000) / ticks;
    Ok(std::time::Duration::from_micros(micros))
}

/// Returns the sum of the times of a process and of its children in the file `stat`.
fn ticks_used(stat: &str) -> Option<u64> {
    // The program name is in parentheses and can itself contain parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_ascii_whitespace().skip(UTIME - FIRST);
    let times: [u64; 4] = [
        words.next()?.parse().ok()?,
        words.next()?.parse().ok()?,
        words.next()?.parse().ok()?,
        words.next()?.parse().ok()?,
    ];
    Some(times.into_iter().fold(0, u64::saturating_add))
}

/// Parses the files of a process. `ticks_per_second` is the unit of the times in the file `stat`, and `since_boot` is
/// the time from the boot of the node to the read.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_AVAILABLE` if the file `stat` is malformed.
pub fn process_stats(
    texts: &ProcessTexts<'_>,
    ticks_per_second: u64,
    since_boot: std::time::Duration,
) -> Result<ProcStats<'static>, Error> {
    let unreadable = || {
        let what = "invalid file /proc/PID/stat: expected 39 fields, the second in parentheses (see proc(5))";
        Error::from(ErrorDetail::new(Status::ERR_NOT_AVAILABLE, what))
    };
    // The program name is in parentheses and can itself contain parentheses.
    let (pid, rest) = texts.stat.split_once(" (").ok_or_else(unreadable)?;
    let (program, rest) = rest.rsplit_once(')').ok_or_else(unreadable)?;
    let mut words = [""; FIELDS];
    let mut found = rest.split_ascii_whitespace();
    for word in &mut words {
        *word = found.next().ok_or_else(unreadable)?;
    }
    let field = |number: usize| words.get(number - FIRST).copied().unwrap_or_default();
    let used = number(field(UTIME)).saturating_add(number(field(STIME)));
    let ticks = ticks_per_second.max(1);
    let [peak, size, resident] = named(texts.status, ["VmPeak", "VmSize", "VmRSS"]);
    let [pss] = named(texts.smaps_rollup, ["Pss"]);
    Ok(ProcStats {
        node: None,
        proc: pmix_types::Proc::default(),
        pid: pid.trim().parse().unwrap_or_default(),
        cmd: Some(command(texts.cmdline, program)),
        state: field(STATE).bytes().next().unwrap_or_default(),
        time: time(used, ticks),
        percent_cpu: share(used, number(field(START)), ticks, since_boot),
        priority: field(PRIORITY).parse().unwrap_or_default(),
        num_threads: short(field(THREADS)),
        pss: megabytes(pss),
        vsize: megabytes(size),
        rss: megabytes(resident),
        peak_vsize: megabytes(peak),
        processor: short(field(PROCESSOR)),
        sample_time: now(),
    })
}

// The numbers of the fields of `stat` in proc(5). The first one after the name has number 3.
const FIRST: usize = 3;
const STATE: usize = 3;
const UTIME: usize = 14;
const STIME: usize = 15;
const PRIORITY: usize = 18;
const THREADS: usize = 20;
const START: usize = 22;
const PROCESSOR: usize = 39;
/// Number of fields to read.
const FIELDS: usize = PROCESSOR - FIRST + 1;

/// Returns the words of the command line joined by spaces, or the name of the program.
fn command(cmdline: &[u8], program: &str) -> Text<'static> {
    // Programs that set their own title leave NULs at its end.
    let end = cmdline.iter().rposition(|byte| *byte != 0);
    let words = end.and_then(|end| cmdline.get(..=end)).unwrap_or_default();
    let words = match words {
        [] => program.as_bytes(),
        words => words,
    };
    let shown = words.iter().take(LONGEST_COMMAND);
    let shown = shown.map(|byte| if *byte == 0 { b' ' } else { *byte });
    Text::new(shown.collect::<Vec<_>>())
}

fn time(used: u64, ticks: u64) -> Timeval {
    let micros = u128::from(used % ticks) * 1_000_000 / u128::from(ticks);
    Timeval {
        tv_sec: i64::try_from(used / ticks).unwrap_or(i64::MAX),
        tv_usec: i64::try_from(micros).unwrap_or_default(),
    }
}

/// Returns the average share of a processor since the start of a process, in percent.
fn share(used: u64, started: u64, ticks: u64, since_boot: std::time::Duration) -> f32 {
    let seconds = since_boot.as_secs_f32() - real(started) / real(ticks);
    // The quotient is meaningless within the first tick.
    match seconds * real(ticks) >= 1.0 {
        true => real(used) / real(ticks) / seconds * 100.0,
        false => 0.0,
    }
}

fn short(word: &str) -> u16 {
    u16::try_from(number(word)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// 200 and 50 ticks of processor time, started 1,000 ticks after the boot, 4 threads, on processor 17.
    const STAT: &str = "4321 (a ) b (c) S 1 4321 4321 0 -1 4194304 117 0 0 0 200 50 0 0 20 0 4 0 1000 \
                        3133440 412 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 17 0 0 0 0 0\n";
    const STATUS: &str =
        "Name:\ta ) b (c\nVmPeak:\t  4096 kB\nVmSize:\t    3072 kB\nVmRSS:\t    1536 kB\n";

    fn stats(texts: &ProcessTexts<'_>) -> Result<ProcStats<'static>, Error> {
        process_stats(texts, 100, Duration::from_secs(20))
    }

    #[test]
    fn process_figures_are_read_from_proc() {
        let texts = ProcessTexts {
            stat: STAT,
            status: STATUS,
            smaps_rollup: "Rss: 1780 kB\nPss:    512 kB\nPss_Dirty: 1 kB\n",
            cmdline: b"sh\0-c\0true\0",
        };
        let stats = stats(&texts).unwrap();
        let expected = ProcStats {
            node: None,
            proc: pmix_types::Proc::default(),
            pid: 4321,
            cmd: Some("sh -c true".into()),
            state: b'S',
            time: Timeval {
                tv_sec: 2,
                tv_usec: 500_000,
            },
            // 2.5 of the 10 seconds since the start.
            percent_cpu: 25.0,
            priority: 20,
            num_threads: 4,
            pss: 0.5,
            vsize: 3.0,
            rss: 1.5,
            peak_vsize: 4.0,
            processor: 17,
            sample_time: stats.sample_time,
        };
        assert_eq!(stats, expected);
    }

    #[test]
    fn processor_time_includes_children_and_memory_is_of_a_living_process() {
        let stat = STAT.replacen(" 200 50 0 0 ", " 200 50 30 7 ", 1);
        assert_eq!(ticks_used(&stat), Some(287));
        assert_eq!(ticks_used("1 (a) S 1"), None);
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(largest_memory(own).unwrap() > 1 << 16);
        assert!(processor_time(own).is_ok());
        let gone = processor_time(i32::MAX).unwrap_err();
        assert_eq!(gone.status(), Status::ERR_NOT_FOUND);
    }

    #[test]
    fn a_process_without_memory_has_the_name_of_its_program() {
        let texts = ProcessTexts {
            stat: STAT,
            cmdline: b"\0\0",
            ..ProcessTexts::default()
        };
        let stats = stats(&texts).unwrap();
        assert_eq!(stats.cmd, Some("a ) b (c".into()));
        assert_eq!((stats.rss, stats.pss), (0.0, 0.0));
        let long = vec![b'x'; 10_000];
        let texts = ProcessTexts {
            cmdline: &long,
            ..texts
        };
        let cut = super::tests::stats(&texts).unwrap().cmd.unwrap();
        assert_eq!(cut.as_bytes().len(), LONGEST_COMMAND);
    }

    #[test]
    fn damaged_files_are_rejected_or_bounded() {
        let ends = (0..STAT.len()).filter_map(|end| STAT.get(..end));
        for stat in ends {
            let texts = ProcessTexts {
                stat,
                ..ProcessTexts::default()
            };
            // No input causes a panic. Input with fewer than 39 fields is rejected.
            let is_whole = stat.rsplit_once(')').is_some_and(|(before, rest)| {
                before.contains(" (") && rest.split_ascii_whitespace().count() >= FIELDS
            });
            assert_eq!(stats(&texts).is_ok(), is_whole, "{stat}");
        }
        let huge = STAT.replace(" 200 50 ", " 18446744073709551615 99999999999999999999 ");
        let huge = huge
            .replace(" 17 17 ", " 17 99999 ")
            .replace(" 4 0 1000 ", " -4 0 1000 ");
        let texts = ProcessTexts {
            stat: &huge,
            ..ProcessTexts::default()
        };
        let stats = stats(&texts).unwrap();
        assert_eq!((stats.processor, stats.num_threads), (u16::MAX, 0));
        assert!(stats.time.tv_sec > 0 && stats.percent_cpu.is_finite());
        // A clock without ticks, and a boot after the start of the process.
        let texts = ProcessTexts {
            stat: STAT,
            ..ProcessTexts::default()
        };
        let young = process_stats(&texts, 0, Duration::ZERO).unwrap();
        assert_eq!(young.percent_cpu, 0.0);
    }

    #[test]
    fn no_more_files_are_read_than_figures_need() {
        let of = |figures: &[&'static str]| {
            let infos = figures.iter().map(|key| pmix_types::Info::new(*key, true));
            let figures = pmix_types::DataArray::Info(infos.collect());
            Detail::of(&Wanted::of_value(&pmix_types::Value::DataArray(figures)))
        };
        assert_eq!(of(&[]), Detail::Proportional);
        assert_eq!(of(&[keys::PROC_RSS, keys::PROC_PSS]), Detail::Proportional);
        for key in [
            keys::CMD_LINE,
            keys::PROC_VSIZE,
            keys::PROC_RSS,
            keys::PROC_PEAK_VSIZE,
        ] {
            assert_eq!(of(&[keys::PROC_OS_STATE, key]), Detail::Memory, "{key}");
        }
        let of_stat = [
            keys::PROC_OS_STATE,
            keys::PROC_TIME,
            keys::PROC_PERCENT_CPU,
            keys::PROC_PRIORITY,
            keys::PROC_NUM_THREADS,
            keys::PROC_CPU,
            keys::PROC_SAMPLE_TIME,
        ];
        assert_eq!(of(&of_stat), Detail::State);
    }

    #[test]
    fn this_process_uses_memory_and_runs() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let stats = process(pid, Detail::Proportional).unwrap();
        assert_eq!(stats.pid, pid);
        assert!(matches!(stats.state, b'R' | b'S'), "{}", stats.state);
        assert!(stats.rss > 0.0 && stats.pss > 0.0 && stats.vsize >= stats.rss);
        assert!(stats.peak_vsize >= stats.vsize && stats.num_threads > 0);
        let command = stats.cmd.unwrap();
        let state = process(pid, Detail::State).unwrap();
        assert_eq!((state.pid, state.rss, state.pss), (pid, 0.0, 0.0));
        assert!(command.as_bytes().len() > state.cmd.unwrap().as_bytes().len());
        let none = process(-1, Detail::State).unwrap_err();
        assert_eq!(none.status(), Status::ERR_NOT_FOUND);
    }
}

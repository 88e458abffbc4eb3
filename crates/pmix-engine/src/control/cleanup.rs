// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files and directories that are to be removed when a process or a job ends.

use std::collections::{BTreeMap, HashMap, HashSet};

use pmix_types::{Info, Nspace, Proc, Rank, Status, Text, Value, keys};

use crate::Error;

/// What is to be removed, and what is not (PMIx Standard, "Job control attributes"). The engine
/// only keeps it; who removes does so with the rights of the user and follows no link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleanup {
    /// Files, by their absolute paths.
    pub files: Vec<Text<'static>>,
    /// Directories.
    pub directories: Vec<CleanupDirectory>,
    /// Names and paths that are to be left.
    pub ignored: Vec<Text<'static>>,
}

/// A directory that is to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanupDirectory {
    /// Its absolute path.
    pub path: Text<'static>,
    /// Whether what is below it goes too (`PMIX_CLEANUP_RECURSIVE`).
    pub recursive: bool,
    /// Whether only empty directories go (`PMIX_CLEANUP_EMPTY`).
    pub only_empty: bool,
    /// Whether the directory itself stays (`PMIX_CLEANUP_LEAVE_TOPDIR`).
    pub leave_top: bool,
}

/// The cleanup that a job control request asks for.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CleanupRequest {
    pub(super) cleanup: Cleanup,
    /// How many infos of the request were about it.
    pub(super) num_infos: usize,
}

impl CleanupRequest {
    /// Reads what a request asks to be removed.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a list that is no string, and for a path that is not absolute or
    /// goes up: what it means would be decided by somebody else.
    pub(super) fn read(infos: &[Info<'_>]) -> Result<Self, Error> {
        let mut requested = Self::default();
        let (mut recursive, mut only_empty, mut leave_top) = (false, false, false);
        let mut directories = Vec::new();
        for info in infos {
            let is_true = info.truth().is_true();
            match info.key.as_text().as_str() {
                Some(keys::REGISTER_CLEANUP) => requested.cleanup.files.extend(paths(info)?),
                Some(keys::REGISTER_CLEANUP_DIR) => directories.extend(paths(info)?),
                Some(keys::CLEANUP_IGNORE) => requested.cleanup.ignored.extend(list(info)?),
                Some(keys::CLEANUP_RECURSIVE) => recursive = is_true,
                Some(keys::CLEANUP_EMPTY) => only_empty = is_true,
                Some(keys::CLEANUP_LEAVE_TOPDIR) => leave_top = is_true,
                _ => continue,
            }
            requested.num_infos += 1;
        }
        let directory = |path| CleanupDirectory {
            path,
            recursive,
            only_empty,
            leave_top,
        };
        requested.cleanup.directories = directories.into_iter().map(directory).collect();
        Ok(requested)
    }
}

/// Whether an info is about what is to be removed.
pub(super) fn is_about_cleanup(info: &Info<'_>) -> bool {
    matches!(
        info.key.as_text().as_str(),
        Some(
            keys::REGISTER_CLEANUP
                | keys::REGISTER_CLEANUP_DIR
                | keys::CLEANUP_IGNORE
                | keys::CLEANUP_RECURSIVE
                | keys::CLEANUP_EMPTY
                | keys::CLEANUP_LEAVE_TOPDIR
        )
    )
}

/// A list of names with commas between them.
fn list(info: &Info<'_>) -> Result<Vec<Text<'static>>, Error> {
    let Value::String(Some(text)) = &info.value else {
        let found = info.value.data_type();
        return Err(Error::bad(format!("{} has type {found}", info.key)));
    };
    let names = text.as_bytes().split(|byte| *byte == b',');
    let names = names.filter(|name| !name.is_empty());
    Ok(names.map(|name| Text::new(name.to_vec())).collect())
}

fn paths(info: &Info<'_>) -> Result<Vec<Text<'static>>, Error> {
    let paths = list(info)?;
    let safe = |path: &Text<'_>| {
        let bytes = path.as_bytes();
        bytes.starts_with(b"/") && bytes.split(|byte| *byte == b'/').all(|part| part != b"..")
    };
    match paths.iter().find(|path| !safe(path)) {
        Some(path) => Err(Error::bad(format!(
            "{} of {path:?}, which is not absolute or goes up",
            info.key
        ))),
        None => Ok(paths),
    }
}

/// The process at whose end something is removed (with the wildcard rank the job), and for which user.
pub(super) type CleanupKey = (Proc<'static>, (u32, u32));

/// Holds what is to be removed at the end of which process or job.
#[derive(Debug, Default)]
pub(super) struct Cleanups(BTreeMap<CleanupKey, Cleanup>);

impl Cleanups {
    /// Adds a requested for the end of each target, or of none with an error.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES` if something is to be removed and to be left,
    /// `PMIX_ERR_OUT_OF_RESOURCE` if a job would have more than `most` paths.
    pub(super) fn add(
        &mut self,
        targets: &[Proc<'static>],
        user: (u32, u32),
        requested: &Cleanup,
        most: usize,
    ) -> Result<(), Error> {
        let mut changed = BTreeMap::new();
        for target in targets {
            let key = (target.clone(), user);
            let known = changed.remove(&key).or_else(|| self.0.get(&key).cloned());
            let mut cleanup = known.unwrap_or_default();
            cleanup.merge(requested);
            cleanup.check()?;
            changed.insert(key, cleanup);
        }
        self.check_room(&changed, most)?;
        self.0.extend(changed);
        Ok(())
    }

    fn check_room(
        &self,
        changed: &BTreeMap<CleanupKey, Cleanup>,
        most: usize,
    ) -> Result<(), Error> {
        for (target, _) in changed.keys() {
            let of_job = |((proc, _), _): &(&CleanupKey, &Cleanup)| proc.nspace == target.nspace;
            let kept = self.0.iter().filter(of_job);
            let kept = kept.filter(|(key, _)| !changed.contains_key(*key));
            let all = kept.chain(changed.iter().filter(of_job));
            let number: usize = all.map(|(_, cleanup)| cleanup.len()).sum();
            if number > most {
                let message = format!("a job may have {most} paths to be removed, not {number}");
                return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
            }
        }
        Ok(())
    }

    /// A process has ended: what is to be removed now, for which users.
    pub(super) fn proc_ended(&mut self, proc: &Proc<'_>) -> Vec<(CleanupKey, Cleanup)> {
        let own = |(known, _): &CleanupKey| known == proc;
        self.0.extract_if(.., |key, _| own(key)).collect()
    }

    /// A job has ended: what is to be removed now, for which processes and users.
    pub(super) fn job_ended(&mut self, nspace: &Nspace<'_>) -> Vec<(CleanupKey, Cleanup)> {
        let own = |(known, _): &CleanupKey| known.nspace == *nspace;
        self.0.extract_if(.., |key, _| own(key)).collect()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.len()
    }
}

/// The name under which what belongs to the end of a job is kept.
pub(super) fn whole_job(nspace: &Nspace<'static>) -> Proc<'static> {
    Proc::new(nspace.as_text().clone(), Rank::WILDCARD)
}

impl Cleanup {
    fn len(&self) -> usize {
        self.files.len() + self.directories.len() + self.ignored.len()
    }

    /// Takes in what another request asks; of a directory that is named again the wider holds.
    fn merge(&mut self, more: &Self) {
        let places = self.directories.iter().enumerate();
        let mut places: HashMap<_, _> = places.map(|(at, d)| (d.path.clone(), at)).collect();
        for directory in &more.directories {
            let place = *places.entry(directory.path.clone()).or_insert_with(|| {
                self.directories.push(directory.clone());
                self.directories.len() - 1
            });
            if let Some(known) = self.directories.get_mut(place) {
                known.recursive |= directory.recursive;
                known.leave_top |= directory.leave_top;
                known.only_empty &= directory.only_empty;
            }
        }
        add_new(&mut self.files, &more.files);
        add_new(&mut self.ignored, &more.ignored);
    }

    fn check(&self) -> Result<(), Error> {
        let ignored: HashSet<_> = self.ignored.iter().collect();
        let directories = self.directories.iter().map(|directory| &directory.path);
        let mut removed = self.files.iter().chain(directories);
        match removed.find(|path| ignored.contains(path)) {
            Some(path) => Err(Error::new(
                Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES,
                format!("{path:?} is to be removed and to be left"),
            )),
            None => Ok(()),
        }
    }
}

fn add_new(known: &mut Vec<Text<'static>>, more: &[Text<'static>]) {
    let mut seen: HashSet<_> = known.iter().cloned().collect();
    let new = more.iter().filter(|path| seen.insert((*path).clone()));
    let new: Vec<_> = new.cloned().collect();
    known.extend(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: (u32, u32) = (100, 10);

    fn proc(rank: u32) -> Proc<'static> {
        Proc::new("a", Rank::new(rank))
    }

    fn read(infos: &[(&'static str, &'static str)]) -> Result<CleanupRequest, Error> {
        let info = |(key, text): &(&'static str, &'static str)| Info::new(*key, *text);
        let infos: Vec<_> = infos.iter().map(info).collect();
        CleanupRequest::read(&infos)
    }

    fn texts(list: &[Text<'_>]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn paths_come_in_lists_and_flags_hold_for_the_request() {
        let requested = read(&[
            (keys::REGISTER_CLEANUP, "/t/a,/t/b,"),
            (keys::REGISTER_CLEANUP_DIR, "/t/d"),
            (keys::CLEANUP_RECURSIVE, "true"),
            (keys::CLEANUP_IGNORE, "core,/t/d/keep"),
            ("pmix.jctrl.pause", "true"),
        ]);
        let requested = requested.unwrap();
        assert_eq!(requested.num_infos, 4);
        assert_eq!(texts(&requested.cleanup.files), ["/t/a", "/t/b"]);
        assert_eq!(texts(&requested.cleanup.ignored), ["core", "/t/d/keep"]);
        let expected = CleanupDirectory {
            path: Text::from("/t/d"),
            recursive: true,
            only_empty: false,
            leave_top: false,
        };
        assert_eq!(requested.cleanup.directories, [expected]);
    }

    #[test]
    fn a_path_that_others_could_bend_is_refused() {
        for path in ["relative", "/t/../etc/passwd", "/..", "./x", "/ok,../x"] {
            for key in [keys::REGISTER_CLEANUP, keys::REGISTER_CLEANUP_DIR] {
                let refused = read(&[(key, path)]).unwrap_err();
                assert_eq!(refused.status(), Status::ERR_BAD_PARAM, "{path}");
            }
        }
        assert!(read(&[(keys::REGISTER_CLEANUP, "/t/..a/b..")]).is_ok());
        let number = [Info::new(keys::REGISTER_CLEANUP, 1_u32)];
        let refused = CleanupRequest::read(&number).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_BAD_PARAM);
    }

    #[test]
    fn what_is_to_go_and_to_stay_is_a_conflict_that_changes_nothing() {
        let mut cleanups = Cleanups::default();
        let add = |cleanups: &mut Cleanups, infos| {
            let requested = read(infos).unwrap();
            let added = cleanups.add(&[proc(0)], USER, &requested.cleanup, 100);
            added.map_err(|error| error.status())
        };
        add(&mut cleanups, &[(keys::REGISTER_CLEANUP, "/t/a")]).unwrap();
        let conflict = Err(Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES);
        let ignore = [
            (keys::CLEANUP_IGNORE, "/t/a"),
            (keys::REGISTER_CLEANUP, "/t/b"),
        ];
        assert_eq!(add(&mut cleanups, &ignore), conflict);
        let ended = cleanups.proc_ended(&proc(0));
        assert_eq!(texts(&ended[0].1.files), ["/t/a"]);
    }

    #[test]
    fn what_is_asked_again_is_asked_once_and_the_wider_holds() {
        let mut cleanups = Cleanups::default();
        let requests = [
            &[
                (keys::REGISTER_CLEANUP_DIR, "/d"),
                (keys::CLEANUP_EMPTY, "true"),
            ][..],
            &[
                (keys::REGISTER_CLEANUP_DIR, "/d"),
                (keys::CLEANUP_RECURSIVE, "true"),
            ],
            &[(keys::REGISTER_CLEANUP, "/f,/f")],
        ];
        for requested in requests {
            let requested = read(requested).unwrap();
            cleanups
                .add(&[proc(0)], USER, &requested.cleanup, 100)
                .unwrap();
        }
        let (_, cleanup) = cleanups.proc_ended(&proc(0)).remove(0);
        assert_eq!(texts(&cleanup.files), ["/f"]);
        assert_eq!(cleanup.directories.len(), 1);
        assert!(cleanup.directories[0].recursive && !cleanup.directories[0].only_empty);
    }

    #[test]
    fn each_wish_is_handed_out_once_at_the_end_it_was_for() {
        let mut cleanups = Cleanups::default();
        let requested = read(&[(keys::REGISTER_CLEANUP, "/f")]).unwrap().cleanup;
        let job = whole_job(&Nspace::new("a"));
        let targets = [proc(0), proc(1), job.clone()];
        cleanups.add(&targets, USER, &requested, 100).unwrap();
        cleanups
            .add(&targets[..1], (7, 7), &requested, 100)
            .unwrap();
        assert_eq!(cleanups.proc_ended(&proc(0)).len(), 2, "one for each user");
        assert_eq!(cleanups.proc_ended(&proc(0)), []);
        assert_eq!(cleanups.job_ended(&Nspace::new("b")), []);
        let ended = cleanups.job_ended(&Nspace::new("a"));
        let key: Vec<_> = ended.into_iter().map(|((proc, _), _)| proc).collect();
        assert_eq!(key, [proc(1), job], "processes first");
        assert_eq!(cleanups.len(), 0);
    }

    #[test]
    fn a_job_asks_for_so_many_paths() {
        let mut cleanups = Cleanups::default();
        let two = read(&[(keys::REGISTER_CLEANUP, "/1,/2")]).unwrap().cleanup;
        cleanups.add(&[proc(0)], USER, &two, 3).unwrap();
        cleanups.add(&[proc(0)], USER, &two, 3).unwrap();
        let refused = cleanups.add(&[proc(1)], USER, &two, 3).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_OUT_OF_RESOURCE);
        let elsewhere = Proc::new("b", Rank::new(0));
        cleanups.add(&[elsewhere], USER, &two, 3).unwrap();
        assert_eq!(cleanups.len(), 2);
    }
}

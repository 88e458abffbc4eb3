// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directives among the infos of a publish, a lookup or an unpublish.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use pmix_engine::Procs;
use pmix_types::{DataArray, DataRange, Info, Key, Persistence, Proc, Value, keys};

use crate::Error;

/// The directives among the infos.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Directives {
    /// The range, if one is given.
    pub(super) range: Option<DataRange>,
    /// The processes of a custom range.
    pub(super) listed: Option<Procs>,
    /// The persistence of the data, if given.
    pub(super) persistence: Option<Persistence>,
    /// The permitted readers of the data; `None` for the publisher's user.
    pub(super) access: Option<Arc<Access>>,
    /// The number of values that a lookup waits for, if it waits; 0 means all.
    pub(super) wait: Option<usize>,
    /// The time limit of the wait; `None` for no limit.
    pub(super) timeout: Option<Duration>,
}

/// The permitted readers of data: users and groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    uids: HashSet<u32>,
    gids: HashSet<u32>,
}

impl Directives {
    /// Parses the directives. Returns them and the other infos, which are the data.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` if a directive has the wrong type.
    pub(super) fn read<'i, 'a>(infos: &'i [Info<'a>]) -> Result<(Self, Vec<&'i Info<'a>>), Error> {
        let mut directives = Self::default();
        let mut data = Vec::new();
        for info in infos {
            if !directives.take(info)? {
                data.push(info);
            }
        }
        Ok((directives, data))
    }

    /// Stores an info if it is a directive. Returns `true` if it is.
    fn take(&mut self, info: &Info<'_>) -> Result<bool, Error> {
        let Some(key) = info.key.as_text().as_str() else {
            return Ok(false);
        };
        match key {
            keys::RANGE => self.range = Some(range(info)?),
            keys::PERSISTENCE => self.persistence = Some(persistence(info)?),
            keys::EVENT_CUSTOM_RANGE => {
                let listed = self.listed.get_or_insert_default();
                listed.extend(procs(info)?);
            }
            keys::ACCESS_PERMISSIONS => self.access = Some(Arc::new(Access::read(info)?)),
            keys::WAIT => self.wait = Some(usize::try_from(number(info)?).unwrap_or(0)),
            keys::TIMEOUT => {
                let seconds = u64::try_from(number(info)?).unwrap_or(0);
                self.timeout = (seconds > 0).then(|| Duration::from_secs(seconds));
            }
            // The server adds these. It has verified the user, so values of the process do not count.
            keys::USERID | keys::GRPID => {}
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Access {
    /// Returns `true` if a user and group is permitted to read.
    pub(super) fn lets(&self, uid: u32, gid: u32) -> bool {
        self.uids.contains(&uid) || self.gids.contains(&gid)
    }

    /// Returns the number of users and groups.
    pub(super) fn len(&self) -> usize {
        self.uids.len() + self.gids.len()
    }

    /// Reads an array of infos with arrays of numbers.
    fn read(info: &Info<'_>) -> Result<Self, Error> {
        let mut access = Self::default();
        let permissions = info.value.as_infos().map_err(|_| wrong(info))?;
        for permission in permissions {
            if permission.key.is(keys::ACCESS_USERIDS) {
                access.uids.extend(numbers(permission)?);
            } else if permission.key.is(keys::ACCESS_GRPIDS) {
                access.gids.extend(numbers(permission)?);
            }
        }
        Ok(access)
    }
}

fn range(info: &Info<'_>) -> Result<DataRange, Error> {
    match &info.value {
        Value::DataRange(range) => Ok(*range),
        Value::Uint8(number) => Ok(DataRange::from_raw(*number)),
        _ => Err(wrong(info)),
    }
}

fn persistence(info: &Info<'_>) -> Result<Persistence, Error> {
    match &info.value {
        Value::Persistence(persistence) => Ok(*persistence),
        Value::Uint8(number) => Ok(Persistence::from_raw(*number)),
        _ => Err(wrong(info)),
    }
}

fn procs<'i, 'a>(info: &'i Info<'a>) -> Result<&'i [Proc<'a>], Error> {
    match &info.value {
        Value::Proc(proc) => Ok(std::slice::from_ref(proc)),
        Value::DataArray(DataArray::Proc(procs)) => Ok(procs),
        _ => Err(wrong(info)),
    }
}

fn numbers(info: &Info<'_>) -> Result<Vec<u32>, Error> {
    match &info.value {
        Value::DataArray(DataArray::Uint32(ids) | DataArray::Uint(ids)) => Ok(ids.clone()),
        Value::Uint32(id) | Value::Uint(id) => Ok(vec![*id]),
        _ => Err(wrong(info)),
    }
}

/// Returns a number of any numeric type; negative numbers count as 0.
fn number(info: &Info<'_>) -> Result<i64, Error> {
    match &info.value {
        // A flag without a value means the default.
        Value::Undef | Value::Bool(_) => Ok(0),
        value => value.to_number().map_err(|_| wrong(info)),
    }
}

#[cold]
fn wrong(info: &Info<'_>) -> Error {
    let found = info.value.data_type();
    Error::bad(format!("{} has the unexpected type {found}", info.key))
}

/// Returns `true` if a key can be published: it is not empty and every peer supports its length.
pub(super) fn is_key(key: &Key<'_>) -> bool {
    (1..=Key::MAX_LEN).contains(&key.as_bytes().len())
}

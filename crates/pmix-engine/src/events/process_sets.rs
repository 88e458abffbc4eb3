// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process sets that the host defines and deletes, and the events that report it.

use pmix_types::{DataRange, Info, IntoOwned, Proc, Status, Text, Value, keys, memory};

use super::{Events, Notification, Reporter};
use crate::Error;
use crate::cx::Cx;

impl Events {
    /// Defines a process set and raises the event.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` without a name or without members, and `PMIX_ERR_NOMEM` if the process has no memory
    /// for the members.
    pub(crate) fn define_set(
        &mut self,
        cx: &mut Cx,
        name: &Text<'_>,
        members: &[Proc<'_>],
    ) -> Result<(), Error> {
        // One list is stored, and one is in the event.
        memory::check(size_of_val(members).saturating_mul(2))?;
        let members = Proc::owned_list(members);
        (cx.process_sets).define(name.clone().into_owned(), members.clone())?;
        // The set is defined first: a process that receives the event may query it at once.
        let users = owners(cx, &members);
        self.notify_set_change(cx, Status::PROCESS_SET_DEFINE, name, Some(members), users);
        Ok(())
    }

    /// Deletes a process set and raises the event.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if the set is not defined.
    pub(crate) fn delete_set(&mut self, cx: &mut Cx, name: &Text<'_>) -> Result<(), Error> {
        let members = cx.process_sets.delete(name)?;
        let users = owners(cx, &members);
        self.notify_set_change(cx, Status::PROCESS_SET_DELETE, name, None, users);
        Ok(())
    }

    /// Notifies the registered local processes of the definition or deletion of a set (PMIx Standard,
    /// `PMIx_server_define_process_set`). If the owners of the members' jobs are known, only processes of these users
    /// receive the event.
    fn notify_set_change(
        &mut self,
        cx: &mut Cx,
        status: Status,
        name: &Text<'_>,
        members: Option<Vec<Proc<'static>>>,
        users: Option<Vec<u32>>,
    ) {
        let name = Value::String(Some(name.clone().into_owned()));
        let mut infos = vec![
            Info::new(keys::EVENT_NON_DEFAULT, true),
            Info::new(keys::PSET_NAME, name),
        ];
        if let Some(members) = members {
            infos.push(Info::new(keys::PSET_MEMBERS, members));
        }
        let source = cx.config.server.clone();
        let range = DataRange::LOCAL;
        if let Ok(notification) = Notification::new(Reporter::Server, status, source, range, infos)
        {
            self.raise(cx, notification.only_of(users));
        }
    }
}

/// Returns the owners of the members' jobs; `None` if no owner is known.
fn owners(cx: &Cx, members: &[Proc<'static>]) -> Option<Vec<u32>> {
    let runs = members.chunk_by(|one, other| one.nspace == other.nspace);
    let owners = cx.owners(runs.filter_map(<[_]>::first).map(|member| &member.nspace));
    Some(owners).filter(|owners| !owners.is_empty())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups: collectives with a name, and invitations.
//!
//! Source: PMIx Standard, chapter "Process Sets and Groups".

use pmix_proto::{Request, request};
use pmix_types::{Info, IntoOwned as _, Proc, Text};

use super::Client;
use crate::call::{Call, GroupCall};
use crate::{Error, Group};

impl Client {
    /// Constructs a group; each member must call it (`PMIx_Group_construct`).
    ///
    /// # Errors
    ///
    /// The call returns `PMIX_ERR_BAD_PARAM` for an invalid name or list, `PMIX_ERR_EXISTS` if this process is in a
    /// group of the name, `PMIX_ERR_TIMEOUT`, and `PMIX_ERR_LOST_CONNECTION` if a member is lost.
    pub fn group_construct<'a>(
        &'a self,
        name: impl Into<Text<'a>>,
        procs: impl Into<Vec<Proc<'a>>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, Group> {
        self.call(Request::GroupConstruct(request::GroupConstruct {
            group: Some(name.into()),
            procs: procs.into(),
            infos: infos.into(),
        }))
    }

    /// Leaves a group; the server notifies the other members (`PMIx_Group_leave`).
    ///
    /// # Errors
    ///
    /// The call returns `PMIX_ERR_NOT_FOUND` if this process is not in the group.
    pub fn group_leave<'a>(
        &'a self,
        name: impl Into<Text<'a>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        self.call(Request::GroupLeave(request::GroupLeave {
            group: Some(name.into()),
            infos: infos.into(),
        }))
    }

    /// Destructs a group; each member must call it (`PMIx_Group_destruct`).
    ///
    /// # Errors
    ///
    /// The call returns `PMIX_ERR_NOT_FOUND` if this process is not in the group, `PMIX_ERR_TIMEOUT`, and
    /// `PMIX_ERR_LOST_CONNECTION` if a member is lost.
    pub fn group_destruct<'a>(
        &'a self,
        name: impl Into<Text<'a>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        // The core adds the members that it knows, as servers of 5.0 require.
        self.call(Request::GroupDestruct(request::GroupDestruct {
            group: Some(name.into()),
            procs: Vec::new(),
            infos: infos.into(),
        }))
    }

    /// Invites processes to a group that this process leads, and completes when all have answered
    /// (`PMIx_Group_invite`). The list includes this process and may have whole jobs.
    ///
    /// Directives:
    ///
    /// - `pmix.timeout`: the time limit in seconds, at most that of the call.
    /// - `pmix.grp.opt`: forms the group without processes that decline or are lost.
    /// - `pmix.grp.notterm`: notifies the members when one of them is lost later.
    /// - `pmix.grp.actxid`: requests a context id from the host. If the host assigns none, the call fails only if the
    ///   directive is required.
    ///
    /// If a process declines or is lost, the [listener](Self::set_listener) first gets a
    /// [`ClientEvent::Group`](crate::ClientEvent::Group). Without a listener the directives decide.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use pmix_client::{Client, ClientEvent, Decision};
    ///
    /// let client = Client::from_env()?;
    /// client.set_listener(|event| {
    ///     if let ClientEvent::Group(event, decision) = event {
    ///         println!("not with {:?}", event.source);
    ///         decision.decide(Decision::GoOnWithout).expect("no invitation is open");
    ///     }
    /// });
    /// let invite = client.group_invite("ocean", [client.job()], []);
    /// let group = invite.within(Duration::from_secs(30)).wait()?;
    /// println!("{} members", group.members.len());
    /// # Ok::<(), pmix_client::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The call returns `PMIX_GROUP_INVITE_DECLINED` or `PMIX_GROUP_INVITE_FAILED` if a process declines or is lost,
    /// `PMIX_GROUP_CONSTRUCT_ABORT` if a process aborts, `PMIX_ERR_TIMEOUT`, and `PMIX_ERR_BAD_PARAM` for an invalid
    /// name or list. In a callback, the wait returns `PMIX_ERR_WOULD_BLOCK`.
    pub fn group_invite<'a>(
        &'a self,
        name: impl Into<Text<'a>>,
        procs: impl Into<Vec<Proc<'a>>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, Group> {
        let name = name.into().into_owned();
        let invite = GroupCall::Invite(name, procs.into(), infos.into());
        Call::of_group(self.shared(), invite)
    }

    /// Accepts the invitation of a leader, and completes when the group is formed (`PMIx_Group_join`). The invitation
    /// is the event `PMIX_GROUP_INVITED`, whose source is the leader. Without `leader`, this is the last unanswered
    /// invitation that the process received; it must be registered for the event.
    ///
    /// If the leader is lost, another process that joined may lead in its place. This process does so only if its
    /// [listener](Self::set_listener) decides it.
    ///
    /// Directive: `pmix.timeout` is the time limit in seconds, at most that of the call.
    ///
    /// # Errors
    ///
    /// The call returns
    ///
    /// - `PMIX_GROUP_CONSTRUCT_ABORT` if the group is not formed, or is formed without this process;
    /// - `PMIX_GROUP_LEADER_FAILED` if the leader is lost and no other process leads in its place;
    /// - `PMIX_ERR_NOT_FOUND` without a leader and without a received invitation;
    /// - `PMIX_ERR_BAD_PARAM` for an invalid name or leader;
    /// - `PMIX_ERR_TIMEOUT`, another status of the server, or an error if no reply arrives.
    ///
    /// In a callback, the wait returns `PMIX_ERR_WOULD_BLOCK`.
    pub fn group_join<'a>(
        &'a self,
        name: impl Into<Text<'a>>,
        leader: impl Into<Option<&'a Proc<'a>>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, Group> {
        let name = name.into().into_owned();
        let join = GroupCall::Join(name, leader.into(), infos.into());
        Call::of_group(self.shared(), join)
    }

    /// Declines the invitation of a leader (`PMIx_Group_join`). Without `leader`, it selects the invitation as
    /// [`group_join`](Self::group_join) does.
    ///
    /// # Errors
    ///
    /// The call returns `PMIX_ERR_BAD_PARAM` for an invalid name, and `PMIX_ERR_NOT_FOUND` if no invitation was
    /// received.
    pub fn group_decline<'a>(
        &'a self,
        name: impl Into<Text<'a>>,
        leader: impl Into<Option<&'a Proc<'a>>>,
    ) -> Call<'a> {
        let decline = GroupCall::Decline(name.into().into_owned(), leader.into());
        Call::of_group(self.shared(), decline)
    }

    /// Aborts the invitation to a group, or the wait for a group that this process joins; all participants are
    /// notified, once. Returns `false` if there is none.
    pub fn group_abort(&self, name: &Text<'_>) -> bool {
        self.0.abort_group(name)
    }

    /// Returns the leader of the last unanswered invitation (`PMIX_GROUP_INVITED`) to a group of this name.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if there is none.
    pub fn invited_by(&self, name: &Text<'_>) -> Result<Proc<'static>, Error> {
        self.0.invited_by(name)
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tools: peers without a registration. The host names them or leaves that to the engine.

use std::collections::HashSet;

use pmix_proto::{Hello, Inbox, PeerForm, Role, Welcome};
use pmix_types::{Info, IntoOwned, Nspace, Proc, Rank, Status, Text, Value, keys};

use super::Admission;
use super::identity::Identity;
use crate::cx::Cx;
use crate::host::{HostReply, ToolConnected};
use crate::peers::{Member, Peer, PeerId, Phase};
use crate::pending::{Pending, PendingTool};
use crate::timer::Timer;
use crate::{Error, Origin};

impl Admission {
    /// Asks the host to admit a tool.
    pub(super) fn admit_tool(
        &mut self,
        cx: &mut Cx,
        peer: PeerId,
        hello: &Hello<'_>,
        form: PeerForm,
        identity: Identity,
    ) -> Result<(), Error> {
        let user = Self::tool_user(cx, identity)?;
        let proc = hello.proc.clone().map(IntoOwned::into_owned);
        if let Some(proc) = &proc {
            Self::check_tool_name(cx, proc)?;
        }
        let infos = about(hello, user, proc.as_ref());
        let until = cx.after(cx.config.tool_time);
        // The tool has completed its part. From here on it waits for the host, with a time limit of its own.
        self.end_handshake(cx, peer);
        if let (Some(found), Some(until)) = (cx.peers.get_mut(peer), until) {
            found.phase = Phase::PendingTool(until);
            cx.timers.set(until, Timer::Handshake(peer));
        }
        let pending = PendingTool {
            role: hello.role,
            form,
            user,
            proc,
        };
        let pending = Pending::ToolConnected(peer, Box::new(pending));
        cx.call_host(ToolConnected { infos }, pending);
        Ok(())
    }

    /// Adds a tool that the host connected to, without a handshake.
    pub(crate) fn add_tool(
        cx: &mut Cx,
        origin: Origin,
        proc: Proc<'static>,
        form: PeerForm,
    ) -> Result<PeerId, Error> {
        let Origin { uid, gid, .. } = origin;
        let user = Self::tool_user(cx, Identity { uid, gid })?;
        Self::check_tool_name(cx, &proc)?;
        // No hello follows: the host made this connection and knows the tool.
        let inbox = Inbox::new(cx.config.max_message);
        let member = Member {
            proc,
            form,
            role: Role::TOOL_WITH_ID,
            user,
            client: None,
            incarnation: 1,
            is_finalized: false,
            has_job_info: false,
            has_ignored_fields: false,
            knows: HashSet::new(),
            has_refreshed: false,
        };
        let (nspace, rank) = (member.proc.nspace.clone(), member.proc.rank);
        let peer = cx.peers.add(Peer::admitted(origin, inbox, member));
        tracing::info!(%peer, %nspace, %rank, "a tool that the host connected to");
        Ok(peer)
    }

    /// Returns the user of a tool if the server serves that user.
    fn tool_user(cx: &Cx, identity: Identity) -> Result<(u32, u32), Error> {
        let (own, own_group) = cx.config.user.unzip();
        let uid = identity.uid.or(own);
        let allowed = cx.config.foreign_tools || uid == own || uid == Some(0);
        match (uid, own) {
            (Some(uid), Some(_)) if !allowed => Err(Error::denied(format!(
                "this server does not accept tools of user {uid}"
            ))),
            _ => Ok((
                uid.unwrap_or_default(),
                identity.gid.or(own_group).unwrap_or_default(),
            )),
        }
    }

    /// Checks that a tool may use the name in its hello.
    fn check_tool_name(cx: &Cx, proc: &Proc<'_>) -> Result<(), Error> {
        let (nspace, rank) = (&proc.nspace, proc.rank);
        if nspace.is_empty() || !rank.is_valid() {
            return Err(Error::bad(format!(
                "{nspace:?}, {rank:?} is not the name of a tool"
            )));
        }
        let is_job = cx
            .registry
            .job(nspace)
            .is_some_and(|job| !job.clients.is_empty());
        // Other processes would take the tool for the server or for a process of the job.
        if *proc == cx.config.server || is_job {
            return Err(Error::denied(format!(
                "{nspace} cannot be used as the name of a tool"
            )));
        }
        let mut members = cx.peers.members();
        // A finalized tool may connect again before its previous connection closes.
        match members.any(|(_, member)| member.proc == *proc && !member.is_finalized) {
            true => Err(Error::new(
                Status::ERR_DUPLICATE_KEY,
                format!("tool {nspace}, {rank} is already connected"),
            )),
            false => Ok(()),
        }
    }

    /// Handles the host's decision about a tool; a host without an implementation leaves it to the engine.
    ///
    /// DEVIATION: the engine names a tool without a name; OpenPMIx refuses it;
    /// `a_tool_is_given_an_unused_name`.
    pub(crate) fn handle_tool_reply(
        &mut self,
        cx: &mut Cx,
        peer: PeerId,
        tool: PendingTool,
        reply: HostReply,
    ) {
        let status = reply.status();
        // The host may give a name to a tool, but a name that the tool chose is checked again below.
        let is_of_host =
            matches!(&reply, HostReply::Tool(Ok(name)) if tool.proc.as_ref() != Some(name));
        let named = match (reply, tool.proc) {
            (HostReply::Tool(Ok(proc)), _) => Some(proc),
            (HostReply::NotSupported, proc) => proc.or_else(|| Some(self.name_tool(cx))),
            (_, proc) if status.is_success() => proc.or_else(|| Some(self.name_tool(cx))),
            _ => None,
        };
        let named = named.ok_or_else(|| Error::new(status, "the host rejected the tool"));
        // Another tool may have taken the name while the host decided.
        let named = named.and_then(|proc| match is_of_host {
            true => Ok(proc),
            false => Self::check_tool_name(cx, &proc).map(|()| proc),
        });
        let proc = match named {
            Ok(proc) => proc,
            Err(error) => {
                Self::welcome(cx, peer, &Welcome::Refused(error.status()));
                return cx.refuse(peer, error);
            }
        };
        let member = Member {
            proc,
            form: tool.form,
            role: tool.role,
            user: tool.user,
            client: None,
            incarnation: 1,
            is_finalized: false,
            has_job_info: false,
            has_ignored_fields: false,
            knows: HashSet::new(),
            has_refreshed: false,
        };
        self.admit(cx, peer, member);
    }

    /// Refuses a tool without a decision of the host in time.
    pub(super) fn refuse_pending_tool(cx: &mut Cx, peer: PeerId) {
        let status = Status::ERR_TIMEOUT;
        Self::welcome(cx, peer, &Welcome::Refused(status));
        cx.refuse(
            peer,
            Error::new(
                status,
                "the host did not reply to the connection of the tool",
            ),
        );
    }

    /// Returns an unused name for a tool. A tool may have brought such a name from an earlier server of this name.
    fn name_tool(&mut self, cx: &Cx) -> Proc<'static> {
        loop {
            self.num_tools += 1;
            let server = cx.config.server.nspace.as_bytes();
            let suffix = format!(".tool.{}", self.num_tools);
            // A long server name is cut to leave room for the number.
            let room = Nspace::MAX_LEN.saturating_sub(suffix.len());
            let server = server.get(..room).unwrap_or(server);
            let name = Proc::new([server, suffix.as_bytes()].concat(), Rank::new(0));
            if Self::check_tool_name(cx, &name).is_ok() {
                return name;
            }
        }
    }
}

/// Returns the infos about a tool for the host.
fn about(
    hello: &Hello<'_>,
    (uid, gid): (u32, u32),
    proc: Option<&Proc<'static>>,
) -> Vec<Info<'static>> {
    let mut infos = hello.infos.clone().into_owned();
    // The host decides by the verified user, not by the one that the tool claims.
    infos.retain(|info| !info.key.is(keys::USERID) && !info.key.is(keys::GRPID));
    let version = Text::new(hello.version.as_bytes().to_vec());
    infos.push(Info::new(keys::VERSION_INFO, Value::String(Some(version))));
    infos.push(Info::new(keys::USERID, uid));
    infos.push(Info::new(keys::GRPID, gid));
    if let Some(proc) = proc {
        let nspace = Value::String(Some(proc.nspace.as_text().clone()));
        infos.push(Info::new(keys::NSPACE, nspace));
        infos.push(Info::new(keys::RANK, Value::Rank(proc.rank)));
    }
    infos
}

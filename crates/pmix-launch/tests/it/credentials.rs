// SPDX-License-Identifier: MIT OR Apache-2.0
//! Credentials that processes request, pass to others, and have validated.

use pmix_client::Client;
use pmix_proto::{Request, reply, request};
use pmix_types::{Info, IntoOwned, Status, Value, keys};
use rustix::process::{getegid, geteuid};

use crate::actors::{peer, rank, wait_for_all};
use crate::stage::play;

#[test]
fn a_credential_of_one_process_tells_another_its_user() {
    let played = play("credentials", 2);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
}

fn make(client: &mut Client, infos: Vec<Info<'static>>) -> (Status, Vec<u8>, Vec<Info<'static>>) {
    let request = Request::GetCredential(request::GetCredential { infos });
    let payload = client.request(request).wait().unwrap();
    let answer = reply::Credential::decode(client.form(), None, &payload).unwrap();
    let credential = answer
        .credential
        .map_or_else(Vec::new, |bytes| bytes.to_vec());
    let infos = answer.infos.unwrap_or_default().into_iter();
    (
        answer.status,
        credential,
        infos.map(IntoOwned::into_owned).collect(),
    )
}

fn validate(
    client: &mut Client,
    credential: &[u8],
    infos: Vec<Info<'static>>,
) -> (Status, Vec<Info<'static>>) {
    let request = Request::ValidateCredential(request::ValidateCredential {
        credential: credential.to_vec().into(),
        infos,
    });
    let payload = client.request(request).wait().unwrap();
    let answer = reply::Infos::decode(client.form(), None, &payload).unwrap();
    let infos = answer.infos.unwrap_or_default().into_iter();
    (answer.status, infos.map(IntoOwned::into_owned).collect())
}

fn of_type(name: &'static str) -> Vec<Info<'static>> {
    vec![Info::new(keys::CRED_TYPE, name)]
}

/// Rank 0 publishes its credential, and rank 1 has it validated.
pub(crate) fn credentials(mut client: Client) {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    if rank(&client) == 0 {
        let (status, credential, infos) = make(&mut client, vec![]);
        assert_eq!((status, &infos), (Status::SUCCESS, &of_type("native")));
        let several = make(&mut client, of_type("munge, native"));
        assert_eq!(several, (Status::SUCCESS, credential.clone(), infos));
        for (infos, refused) in [
            (of_type("munge"), Status::ERR_NOT_SUPPORTED),
            (of_type("none"), Status::ERR_NOT_SUPPORTED),
            (of_type(""), Status::ERR_NOT_SUPPORTED),
            (vec![Info::new(keys::CRED_TYPE, 7)], Status::ERR_BAD_PARAM),
            // The server ignores a user id that the client claims.
            (
                vec![
                    Info::new(keys::USERID, uid + 1),
                    Info::new(keys::CRED_TYPE, "x"),
                ],
                Status::ERR_NOT_SUPPORTED,
            ),
        ] {
            assert_eq!(make(&mut client, infos).0, refused);
        }
        let claimed = make(&mut client, vec![Info::new(keys::USERID, uid + 1)]);
        assert_eq!(claimed.1, credential);
        let value = Value::ByteObject(credential.into());
        client
            .publish(&[Info::new("credential", value)])
            .wait()
            .unwrap();
    }
    wait_for_all(&mut client);
    if rank(&client) == 1 {
        let (_, found) = client.lookup(["credential"], &[]).wait().unwrap();
        assert_eq!(found[0].proc, peer(&client, 0));
        let Value::ByteObject(credential) = &found[0].value else {
            panic!("{found:?}");
        };
        let (status, infos) = validate(&mut client, credential, vec![]);
        let expected = [
            Info::new(keys::CRED_TYPE, "native"),
            Info::new(keys::USERID, uid),
            Info::new(keys::GRPID, gid),
        ];
        assert_eq!((status, infos.as_slice()), (Status::SUCCESS, &expected[..]));
        refused(&mut client, uid, gid);
    }
    wait_for_all(&mut client);
    client.finalize().unwrap();
}

fn refused(client: &mut Client, uid: u32, gid: u32) {
    let pair = |uid: u32, gid: u32| [uid.to_ne_bytes(), gid.to_ne_bytes()].concat();
    let good = pair(uid, gid);
    let cut = good[..7].to_vec();
    let long = [&good[..], b"x"].concat();
    for (credential, infos, status) in [
        (
            pair(uid.wrapping_add(1), gid),
            vec![],
            Status::ERR_INVALID_CRED,
        ),
        (
            pair(uid, gid.wrapping_add(1)),
            vec![],
            Status::ERR_INVALID_CRED,
        ),
        (cut, vec![], Status::ERR_INVALID_CRED),
        (long, vec![], Status::ERR_INVALID_CRED),
        (vec![], vec![], Status::ERR_INVALID_CRED),
        (vec![0; 100_000], vec![], Status::ERR_INVALID_CRED),
        (good, of_type("munge"), Status::ERR_INVALID_CRED),
        // This server does not read credentials of MUNGE.
        (
            b"MUNGE:AwQFAAB:".to_vec(),
            vec![],
            Status::ERR_NOT_SUPPORTED,
        ),
    ] {
        let told = validate(client, &credential, infos);
        assert_eq!(told, (status, vec![]), "{credential:?}");
    }
}

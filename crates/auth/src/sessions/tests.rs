use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use firn_model::tenant::TenantSettings;
use firn_storage::Disk;
use firn_storage::sim::SimDisk;
use serde_json::{Map, json};

use super::*;
use crate::control::Parts;
use crate::sign_in_throttle::SignInThrottleLimits;
use crate::users::{Hidden, NewUser, Password};

const HOUR_MS: i64 = 60 * 60 * 1000;

struct World {
    disk: SimDisk,
    now_ms: Arc<AtomicI64>,
    control: Control,
}

fn open(disk: &SimDisk, now_ms: &Arc<AtomicI64>) -> Control {
    let (now_ms, drawn) = (
        Arc::clone(now_ms),
        AtomicU64::new(now_ms.load(Ordering::Relaxed) as u64),
    );
    let parts = Parts {
        disk: Arc::new(disk.clone()),
        folder: PathBuf::from("/data/control"),
        now_ms: Arc::new(move || now_ms.load(Ordering::Relaxed)),
        stopwatch: Arc::new(std::time::Duration::default),
        random: Arc::new(move |bytes| {
            let digest = Sha256::digest(drawn.fetch_add(1, Ordering::Relaxed).to_le_bytes());
            bytes.iter_mut().zip(digest).for_each(|(byte, drawn)| *byte = drawn);
        }),
        slowdown: SignInThrottleLimits::default(),
        sessions: SessionLimits::default(),
    };
    Control::open(parts).unwrap()
}

impl World {
    /// The operator `elastic`, and one user each of the tenants `acme` and `bolt`.
    fn new() -> Self {
        let disk = SimDisk::new();
        disk.create_dir_all(std::path::Path::new("/data")).unwrap();
        disk.sync_dir(std::path::Path::new("/")).unwrap();
        let now_ms = Arc::new(AtomicI64::new(1_000_000));
        let control = open(&disk, &now_ms);
        let world = Self { disk, now_ms, control };
        for tenant in ["acme", "bolt"] {
            let id = TenantId::parse(tenant).unwrap();
            world.control.put_tenant(&id, TenantSettings::default()).unwrap();
        }
        world.user("elastic", "operator", None);
        world.user("ann", "tenant_reader", Some("acme"));
        world.user("bob", "tenant_admin", Some("bolt"));
        world
    }

    /// Creates a user without the time for hashing a password.
    fn user(&self, name: &str, role: &str, tenant: Option<&str>) {
        let user = User {
            name: name.to_owned(),
            password_hash: Hidden(format!("hash of {name}")),
            roles: vec![role.to_owned()],
            full_name: None,
            email: None,
            metadata: tenant.map_or_else(Map::new, |tenant| {
                json!({"tenant": tenant}).as_object().cloned().unwrap()
            }),
            enabled: true,
        };
        let put = |state: &mut State, _| Ok(state.users.insert(name.to_owned(), Arc::new(user)));
        self.control.change(put).unwrap();
    }

    fn sign_in(&self, name: &str) -> SessionToken {
        let state = self.control.state();
        let identity = identity_of(&state, &state.users[name]);
        self.control.open_session(&identity, None).unwrap().0
    }

    fn is_in(&self, token: &SessionToken) -> bool {
        self.control.session(token).is_some()
    }

    fn wait(&self, ms: i64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }

    fn reopen(self) -> Self {
        let control = open(&self.disk, &self.now_ms);
        Self { control, ..self }
    }
}

fn view(tenant: &str) -> Option<View> {
    Some(View {
        tenant: TenantId::parse(tenant).unwrap(),
        reason: "ticket 1".to_owned(),
    })
}

#[test]
fn a_token_finds_its_session_and_is_not_stored() {
    let world = World::new();
    let token = world.sign_in("ann");
    let signed_in = world.control.session(&token).unwrap();
    assert_eq!(signed_in.identity.user_name(), Some("ann"));
    assert_eq!(signed_in.identity.tenant().unwrap().as_str(), "acme");
    assert_eq!(SessionToken::parse(token.as_str()), Some(token.clone()));
    let other = SessionToken::parse(&token.as_str().replace(&token.as_str()[..1], "_")).unwrap();
    assert!(!world.is_in(&other) || other == token);
    let file = world.disk.read(std::path::Path::new("/data/control/control")).unwrap();
    let file = String::from_utf8_lossy(&file).into_owned();
    assert!(file.contains("token_sha256"), "{file}");
    for secret in [token.as_str().to_owned(), token.csrf(None)] {
        assert!(!file.contains(&secret), "{file}");
        assert!(!format!("{token:?} {signed_in:?}").contains(&secret));
    }
    assert!(token.is_csrf(None, &token.csrf(None)));
    assert!(!token.is_csrf(None, "") && !token.is_csrf(None, token.as_str()));
    let [acme, bolt] = ["acme", "bolt"].map(|name| TenantId::parse(name).unwrap());
    for view in [None, Some(&acme), Some(&bolt)] {
        let of_views = [None, Some(&acme), Some(&bolt)].map(|other| token.is_csrf(view, &token.csrf(other)));
        assert_eq!(of_views.into_iter().filter(|is_same| *is_same).count(), 1, "{view:?}");
    }
    for text in [
        "",
        "a",
        &"a".repeat(42),
        &"a".repeat(44),
        &"ä".repeat(21),
        &format!("{} ", "a".repeat(42)),
    ] {
        assert_eq!(SessionToken::parse(text), None, "{text}");
    }
}

#[test]
fn a_session_ends_when_it_is_idle_and_when_it_is_old() {
    let world = World::new();
    let (idle, used) = (world.sign_in("ann"), world.sign_in("ann"));
    assert_eq!(world.control.session(&idle).unwrap().expires_in.as_secs(), 8 * 3600);
    for hour in 1..7 * 24 {
        world.wait(HOUR_MS);
        assert!(world.is_in(&used), "hour {hour}");
        if hour == 9 {
            assert!(!world.is_in(&idle));
        }
    }
    world.wait(HOUR_MS - 1000);
    assert_eq!(world.control.session(&used).unwrap().expires_in.as_secs(), 1);
    world.wait(1000);
    assert!(!world.is_in(&used));
    // The next change removes them.
    world.sign_in("bob");
    assert_eq!(world.control.state().sessions.len(), 1);
}

#[test]
fn sessions_live_through_a_restart() {
    let world = World::new();
    let token = world.sign_in("elastic");
    world.control.set_view(&token, view("acme")).unwrap();
    world.wait(7 * HOUR_MS);
    assert!(world.is_in(&token));
    world.control.write_last_uses().unwrap();
    let world = world.reopen();
    world.wait(7 * HOUR_MS);
    let signed_in = world.control.session(&token).expect("its last use was written down");
    assert_eq!(signed_in.session.view, view("acme"));
    world.control.end_session(&token).unwrap();
    world.control.end_session(&token).unwrap();
    assert!(!world.reopen().is_in(&token), "one that ended stays so");
}

#[test]
fn another_password_ends_all_sessions_of_its_user_at_once() {
    let world = World::new();
    let (ann, bob) = (world.sign_in("ann"), world.sign_in("bob"));
    let own = world.control.session(&ann).unwrap().own;
    world
        .control
        .set_password(&own, "ann", &Password("another".to_owned()))
        .unwrap();
    assert!(!world.is_in(&ann) && world.is_in(&bob));
    // A user who signed in with the old password a moment before gets no session.
    let error = world.control.open_session(&own, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
}

#[test]
fn a_session_has_the_current_privileges_of_its_user() {
    let world = World::new();
    let (operator, ann) = (world.sign_in("elastic"), world.sign_in("ann"));
    let asker = world.control.session(&operator).unwrap().own;
    let may_write = |token: &SessionToken| {
        let signed_in = world.control.session(token);
        signed_in.is_some_and(|signed_in| signed_in.identity.has(Privilege::Write))
    };
    assert!(!may_write(&ann));
    let put = |roles: &[&str], enabled: bool| {
        let new = NewUser {
            roles: roles.iter().map(|&role| role.to_owned()).collect(),
            metadata: json!({"tenant": "acme"}).as_object().cloned().unwrap(),
            enabled,
            ..NewUser::default()
        };
        world.control.put_user(&asker, "ann", new).unwrap();
    };
    put(&["tenant_writer"], true);
    assert!(may_write(&ann), "at once");
    put(&["tenant_reader"], true);
    assert!(world.is_in(&ann) && !may_write(&ann), "at once");
    put(&["tenant_reader"], false);
    assert!(!world.is_in(&ann));
    put(&["tenant_reader"], true);
    assert!(!world.is_in(&ann), "it ended then, and does not begin again");
    let ann = world.sign_in("ann");
    assert!(world.is_in(&ann));
    world.control.delete_user(&asker, "ann").unwrap();
    world.user("ann", "tenant_reader", Some("acme"));
    assert!(!world.is_in(&ann), "another user of the same name");
    let bob = world.sign_in("bob");
    world.control.close_tenant(&TenantId::parse("bolt").unwrap()).unwrap();
    assert!(!world.is_in(&bob));
}

#[test]
fn too_many_sessions_end_those_that_were_used_longest_ago() {
    let world = World::new();
    let others = world.sign_in("bob");
    let mut tokens = Vec::new();
    for _ in 0..OF_USER_MAX {
        world.wait(1);
        tokens.push(world.sign_in("ann"));
    }
    world.wait(1);
    assert!(world.is_in(&tokens[0]), "used now");
    tokens.push(world.sign_in("ann"));
    let alive: Vec<usize> = (0..tokens.len()).filter(|at| world.is_in(&tokens[*at])).collect();
    assert_eq!(alive.len(), OF_USER_MAX);
    assert!(!alive.contains(&1), "the second was used longest ago");
    assert!(world.is_in(&others));
}

#[test]
fn sessions_of_tenants_end_no_operator_s() {
    let session = |user: &str, number: u64, used_ms: i64| {
        let id = SessionId(Sha256::digest(format!("{user} {number}")).into());
        let session = Session {
            id,
            user: user.to_owned(),
            password: PasswordStamp([0; 32]),
            created_ms: 0,
            view: None,
            last_used_ms: Arc::new(AtomicI64::new(used_ms)),
        };
        (id, Arc::new(session))
    };
    let world = World::new();
    let mut state = State::clone(&world.control.state());
    state
        .sessions
        .extend((0..OF_USER_MAX as u64).map(|number| session("elastic", number, 0)));
    state
        .sessions
        .extend((0..ALL_MAX as u64).map(|number| session("ann", number, 1)));
    // More than one user may have: simulates many users.
    let bob = Arc::clone(&state.users["bob"]);
    make_room(&mut state, &bob);
    assert_eq!(state.sessions.len(), ALL_MAX - 1);
    let of = |name: &str| state.sessions.values().filter(|session| session.user == name).count();
    assert_eq!(of("elastic"), OF_USER_MAX, "although they were used longest ago");
    let ann = Arc::clone(&state.users["ann"]);
    make_room(&mut state, &ann);
    assert_eq!(
        state.sessions.values().filter(|session| session.user == "ann").count(),
        OF_USER_MAX - 1
    );
}

#[test]
fn a_view_is_a_reader_s_and_an_operator_s_only() {
    let world = World::new();
    let token = world.sign_in("elastic");
    let signed_in = world.control.set_view(&token, view("acme")).unwrap();
    let identity = &signed_in.identity;
    assert_eq!(identity.tenant().unwrap().as_str(), "acme");
    assert_eq!(identity.user_name(), Some("elastic"));
    assert_eq!(identity.roles().collect::<Vec<_>>(), ["tenant_reader"]);
    assert!(identity.has(Privilege::Read) && identity.is_viewing());
    for privilege in [
        Privilege::Write,
        Privilege::Refresh,
        Privilege::CreateIndex,
        Privilege::ManageOwnIndex,
        Privilege::Manage,
        Privilege::ManageOwnKeys,
        Privilege::ManageTenant,
        Privilege::Monitor,
        Privilege::ManageCluster,
    ] {
        assert!(!identity.has(privilege), "{privilege:?}");
    }
    assert!(signed_in.own.is_operator() && signed_in.own.tenant().is_none());
    let error = world
        .control
        .set_password(identity, "elastic", &Password("another".to_owned()));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Forbidden);
    let back = world.control.set_view(&token, None).unwrap();
    assert!(back.identity.tenant().is_none() && !back.identity.is_viewing());

    let refused = |token: &SessionToken, view: Option<View>| world.control.set_view(token, view).unwrap_err().kind();
    assert_eq!(refused(&token, view("noname")), ErrorKind::ResourceNotFound);
    let reason = |reason: &str| {
        let view = view("acme").unwrap();
        Some(View {
            reason: reason.to_owned(),
            ..view
        })
    };
    assert_eq!(refused(&token, reason(" ")), ErrorKind::RequestValidation);
    assert_eq!(refused(&token, reason(&"x".repeat(1001))), ErrorKind::RequestValidation);
    let bob = world.sign_in("bob");
    assert_eq!(refused(&bob, view("acme")), ErrorKind::Forbidden);

    // A user who is no longer an operator loses the view.
    world.control.set_view(&token, view("acme")).unwrap();
    let demoted = |state: &mut State, _| {
        let user = state.users.get_mut("elastic").unwrap();
        Arc::make_mut(user).roles = vec!["superuser".to_owned()];
        Ok(())
    };
    world.control.change(demoted).unwrap();
    assert!(world.is_in(&token), "another name of the same");
    let demoted = |state: &mut State, _| {
        let user = state.users.get_mut("elastic").unwrap();
        Arc::make_mut(user).roles = Vec::new();
        Ok(())
    };
    world.control.change(demoted).unwrap();
    assert!(!world.is_in(&token));
}

#[test]
fn a_view_of_a_deleted_tenant_shows_nothing_and_can_be_ended() {
    let world = World::new();
    let token = world.sign_in("elastic");
    world.control.set_view(&token, view("acme")).unwrap();
    let acme = TenantId::parse("acme").unwrap();
    world.control.close_tenant(&acme).unwrap();
    world.control.forget_tenant(&acme).unwrap();
    let signed_in = world.control.session(&token).unwrap();
    assert_eq!(signed_in.identity.tenant(), Some(&acme));
    assert!(
        world
            .control
            .set_view(&token, None)
            .unwrap()
            .identity
            .tenant()
            .is_none()
    );
}

#[test]
fn signing_in_anew_ends_the_session_before() {
    let world = World::new();
    let first = world.sign_in("ann");
    let own = world.control.session(&first).unwrap().own;
    let (second, _) = world.control.open_session(&own, Some(&first)).unwrap();
    assert!(!world.is_in(&first) && world.is_in(&second));
    assert!(world.control.open_session(&Identity::open(), None).is_err());
}

#[test]
fn what_goes_on_is_admitted_as_long_as_nothing_changes() {
    let world = World::new();
    let (ann, operator) = (world.sign_in("ann"), world.sign_in("elastic"));
    let at_first = world.control.session(&ann).unwrap().identity;
    let admits = |token: Option<&SessionToken>| world.control.still_admits(&at_first, token);
    assert!(admits(Some(&ann)) && admits(None));
    assert!(!admits(Some(&operator)), "that one may something else");
    let asker = world.control.session(&operator).unwrap().own;
    let put = |role: &str| {
        let new = NewUser {
            roles: vec![role.to_owned()],
            metadata: json!({"tenant": "acme"}).as_object().cloned().unwrap(),
            enabled: true,
            ..NewUser::default()
        };
        world.control.put_user(&asker, "ann", new).unwrap();
    };
    put("tenant_writer");
    assert!(!admits(Some(&ann)) && !admits(None));
    put("tenant_reader");
    assert!(admits(Some(&ann)) && admits(None));
    // A check is not a use of the session.
    world.wait(8 * HOUR_MS - 1);
    assert!(admits(Some(&ann)));
    world.wait(1);
    assert!(!admits(Some(&ann)) && admits(None));
    let ann = world.sign_in("ann");
    world.control.end_session(&ann).unwrap();
    assert!(!admits(Some(&ann)));
    world.control.close_tenant(&TenantId::parse("acme").unwrap()).unwrap();
    assert!(!admits(None));

    // In a tenant's view, and then without it.
    let operator = world.sign_in("elastic");
    let viewing = world.control.set_view(&operator, view("bolt")).unwrap().identity;
    assert!(world.control.still_admits(&viewing, Some(&operator)));
    world.control.set_view(&operator, None).unwrap();
    assert!(!world.control.still_admits(&viewing, Some(&operator)));
    assert!(world.control.still_admits(&Identity::open(), None));
}

//! Tests of the control record over a simulated disk, with a simulated clock.

mod credential_changes;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use firn_auth::{
    Authentication, Control, CreatedApiKey, Credentials, Identity, IndexEntry, KeyFilter, NewApiKey, NewUser, Parts,
    Password, Principal, Privilege, RoleDescriptor, SessionLimits, SignInThrottleLimits,
};
use firn_model::tenant::{Quotas, TenantId, TenantSettings};
use firn_model::{ErrorKind, Result};
use firn_storage::Disk;
use firn_storage::sim::SimDisk;
use serde_json::json;

const PASSWORD: &str = "correct horse";
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

struct World {
    disk: SimDisk,
    now_ms: Arc<AtomicI64>,
    /// Monotonic time, independent of the wall clock.
    passed_ms: Arc<AtomicI64>,
    control: Control,
}

fn parts(disk: &SimDisk, now_ms: &Arc<AtomicI64>, passed_ms: &Arc<AtomicI64>) -> Parts {
    let (now_ms, passed_ms, next) = (Arc::clone(now_ms), Arc::clone(passed_ms), AtomicU8::new(0));
    Parts {
        disk: Arc::new(disk.clone()),
        folder: PathBuf::from("/data/control"),
        now_ms: Arc::new(move || now_ms.load(Ordering::Relaxed)),
        stopwatch: Arc::new(move || Duration::from_millis(passed_ms.load(Ordering::Relaxed) as u64)),
        // Different bytes for each call, the same ones in each run.
        random: Arc::new(move |bytes| bytes.fill_with(|| next.fetch_add(1, Ordering::Relaxed))),
        slowdown: SignInThrottleLimits::default(),
        sessions: SessionLimits::default(),
    }
}

impl World {
    fn new() -> Self {
        let disk = SimDisk::new();
        // Another component creates the data folder.
        disk.create_dir_all(Path::new("/data")).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        let now_ms = Arc::new(AtomicI64::new(1_000_000));
        let passed_ms = Arc::new(AtomicI64::new(0));
        let control = Control::open(parts(&disk, &now_ms, &passed_ms)).unwrap();
        control.set_operator_password(&Password(PASSWORD.to_owned())).unwrap();
        Self {
            disk,
            now_ms,
            passed_ms,
            control,
        }
    }

    fn now(&self) -> i64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    /// Advances both clocks.
    fn pass(&self, ms: i64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
        self.passed_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Returns the names of all keys, oldest first.
    fn key_names(&self) -> Vec<String> {
        let keys = self.control.api_keys(&self.operator(), &KeyFilter::default());
        keys.iter().map(|key| key.name.clone()).collect()
    }

    fn reopen(self) -> Self {
        let control = Control::open(parts(&self.disk, &self.now_ms, &self.passed_ms)).unwrap();
        Self { control, ..self }
    }

    fn sign_in(&self, name: &str, password: &str) -> Option<Arc<Identity>> {
        let credentials = Credentials::Password {
            name: name.to_owned(),
            password: password.to_owned(),
        };
        match self.control.authenticate(&credentials, Instant::now()) {
            Authentication::Known(identity) => Some(identity),
            Authentication::Unknown(_) => None,
            Authentication::Check(check) => match self.control.check_password(&check, Instant::now()) {
                Authentication::Known(identity) => Some(identity),
                _ => None,
            },
        }
    }

    fn operator(&self) -> Arc<Identity> {
        self.sign_in("elastic", PASSWORD).unwrap()
    }

    fn key(&self, key: &CreatedApiKey) -> Result<Arc<Identity>, Option<&'static str>> {
        let credentials = Credentials::ApiKey {
            id: key.key.id.clone(),
            secret: key.secret.clone(),
        };
        match self.control.authenticate(&credentials, Instant::now()) {
            Authentication::Known(identity) => Ok(identity),
            Authentication::Unknown(detail) => Err(detail),
            Authentication::Check(_) => panic!("keys are checked at once"),
        }
    }

    /// Creates a tenant with an admin.
    fn tenant(&self, name: &str) -> Arc<Identity> {
        self.control.put_tenant(&id(name), TenantSettings::default()).unwrap();
        let admin = format!("{name}-admin");
        let new = user(&["tenant_admin"], json!({"tenant": name}));
        self.control.put_user(&self.operator(), &admin, new).unwrap();
        self.sign_in(&admin, PASSWORD).unwrap()
    }
}

fn id(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

fn user(roles: &[&str], metadata: serde_json::Value) -> NewUser {
    NewUser {
        password: Some(Password(PASSWORD.to_owned())),
        roles: roles.iter().map(|&role| role.to_owned()).collect(),
        metadata: metadata.as_object().unwrap().clone(),
        enabled: true,
        ..NewUser::default()
    }
}

#[test]
fn users_cannot_lock_themselves_out_and_an_operator_remains() {
    let world = World::new();
    let control = &world.control;
    let refused = |outcome: Result<()>, expect: &str| {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IllegalArgument);
        assert!(error.reason().contains(expect), "{error}");
    };
    let own = "users may not update the enabled status of their own account";
    let (elastic, admin) = (world.operator(), world.tenant("acme"));
    refused(control.set_enabled(&elastic, "elastic", false), own);
    refused(control.set_enabled(&admin, "acme-admin", false), own);
    let disabled = NewUser {
        enabled: false,
        ..user(&["tenant_admin"], json!({}))
    };
    refused(control.put_user(&admin, "acme-admin", disabled).map(drop), own);
    let key = control.create_api_key(&admin, new_key("k")).unwrap();
    refused(control.set_enabled(&world.key(&key).unwrap(), "acme-admin", false), own);
    control.set_enabled(&elastic, "acme-admin", false).unwrap();

    let operator = || user(&["superuser"], json!({}));
    control.put_user(&elastic, "second", operator()).unwrap();
    let second = world.sign_in("second", PASSWORD).unwrap();
    control.set_enabled(&second, "elastic", false).unwrap();
    let last = "this would leave no operator who can sign in";
    refused(control.delete_user(&second, "second").map(drop), last);
    refused(
        control.put_user(&second, "second", user(&[], json!({}))).map(drop),
        last,
    );
    control.put_user(&second, "third", operator()).unwrap();
    control.set_enabled(&second, "third", false).unwrap();
    refused(control.delete_user(&second, "second").map(drop), last);

    // Recovery with access to the machine: set the operator's password again.
    let password = Password(PASSWORD.to_owned());
    assert!(control.is_operator_disabled() && !control.is_operator_password(&password));
    assert!(world.sign_in("elastic", PASSWORD).is_none());
    control.set_operator_password(&password).unwrap();
    assert!(!control.is_operator_disabled() && control.is_operator_password(&password));
    assert!(control.delete_user(&world.operator(), "second").unwrap());
}

fn new_key(name: &str) -> NewApiKey {
    NewApiKey {
        name: name.to_owned(),
        ..NewApiKey::default()
    }
}

fn role(cluster: &[&str], names: &[&str], privileges: &[&str]) -> RoleDescriptor {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<String>>();
    RoleDescriptor {
        cluster: owned(cluster),
        indices: vec![IndexEntry {
            names: owned(names),
            privileges: owned(privileges),
        }],
        ..RoleDescriptor::default()
    }
}

#[test]
fn everything_is_there_after_a_restart() {
    let world = World::new();
    let admin = world.tenant("acme");
    world
        .control
        .put_role(&world.operator(), "own", role(&[], &["a-*"], &["read"]))
        .unwrap();
    let key = world.control.create_api_key(&admin, new_key("shipper")).unwrap();
    world.key(&key).unwrap();
    world.control.write_last_uses().unwrap();
    let world = world.reopen();
    assert!(world.sign_in("acme-admin", PASSWORD).is_some());
    let identity = world.key(&key).unwrap();
    assert_eq!(identity.tenant(), Some(&id("acme")));
    let keys = world.control.api_keys(&world.operator(), &KeyFilter::default());
    assert_eq!(keys[0].last_used_ms(), Some(1_000_000));
    assert!(world.control.roles().iter().any(|role| role.name == "own"));
    assert_eq!(world.control.tenants().len(), 1);
}

/// The power fails at each step of a change: afterwards the change has happened or not, and firn starts.
#[test]
fn a_change_that_is_cut_off_happened_or_not() {
    let mut outcomes = [0, 0];
    for step in 0.. {
        let world = World::new();
        let steps = AtomicI64::new(0);
        let durable = std::sync::Mutex::new(None);
        let durable = Arc::new(durable);
        let seen = Arc::clone(&durable);
        world.disk.set_hook(Some(Arc::new(move |disk: &SimDisk, _| {
            if steps.fetch_add(1, Ordering::Relaxed) == step {
                *seen.lock().unwrap() = Some(disk.crash(step as u64));
            }
        })));
        world
            .control
            .put_tenant(&id("acme"), TenantSettings::default())
            .unwrap();
        world.disk.set_hook(None);
        let Some(after_crash) = durable.lock().unwrap().take() else {
            break;
        };
        let control = Control::open(parts(&after_crash, &world.now_ms, &world.passed_ms)).unwrap();
        assert!(
            control.has_users(),
            "step {step}: what was acknowledged before is there"
        );
        outcomes[control.tenants().len()] += 1;
    }
    assert!(outcomes[0] > 0 && outcomes.iter().sum::<i32>() >= 3, "{outcomes:?}");
}

#[test]
fn a_damaged_record_is_refused() {
    let world = World::new();
    let path = PathBuf::from("/data/control/control");
    let mut bytes = world.disk.read(&path).unwrap().to_vec();
    let at = bytes.len() - 10;
    bytes[at] ^= 1;
    world.disk.write_atomic(&path, &bytes).unwrap();
    let reason = Control::open(parts(&world.disk, &world.now_ms, &world.passed_ms)).unwrap_err();
    let reason = reason.reason();
    assert!(reason.starts_with("refusing to start: the record of users"), "{reason}");
    assert!(reason.contains("its checksum is ["), "{reason}");
}

#[test]
fn a_key_expires_and_stays_so_when_the_clock_goes_back() {
    let world = World::new();
    let new = NewApiKey {
        expires_in_ms: Some(5000),
        ..new_key("short")
    };
    let key = world.control.create_api_key(&world.operator(), new).unwrap();
    assert!(world.key(&key).is_ok());
    world.pass(4999);
    assert!(world.key(&key).is_ok());
    world.pass(1);
    assert_eq!(world.key(&key).unwrap_err(), Some("api key is expired"));
    world.now_ms.fetch_sub(DAY_MS, Ordering::Relaxed);
    assert_eq!(world.key(&key).unwrap_err(), Some("api key is expired"));
    // A new key is not older than earlier keys.
    let next = world
        .control
        .create_api_key(&world.operator(), new_key("next"))
        .unwrap();
    assert!(next.key.created_ms >= key.key.created_ms && world.key(&next).is_ok());
}

#[test]
fn a_clock_that_was_years_ahead_leaves_keys_as_they_were() {
    let world = World::new();
    let new = NewApiKey {
        expires_in_ms: Some(30 * DAY_MS as u64),
        ..new_key("month")
    };
    let key = world.control.create_api_key(&world.operator(), new).unwrap();
    let years = 20 * 365 * DAY_MS;
    world.now_ms.fetch_add(years, Ordering::Relaxed);
    assert_eq!(world.key(&key).unwrap_err(), Some("api key is expired"));
    // Changes in the meantime remove nothing irreversibly, even if there are many.
    for name in ["one", "two", "three"] {
        world.pass(60_000);
        world.control.create_api_key(&world.operator(), new_key(name)).unwrap();
    }
    world.now_ms.fetch_sub(years, Ordering::Relaxed);
    assert!(world.key(&key).is_ok(), "the clock is right again");
    let world = world.reopen();
    assert!(world.key(&key).is_ok());
    // An older time is wrong, too: a month has passed.
    world.pass(30 * DAY_MS);
    world.now_ms.fetch_sub(29 * DAY_MS, Ordering::Relaxed);
    assert_eq!(world.key(&key).unwrap_err(), Some("api key is expired"));
}

#[test]
fn keys_end_at_once_and_are_forgotten_later() {
    let world = World::new();
    let operator = world.operator();
    let key = world.control.create_api_key(&operator, new_key("a")).unwrap();
    let filter = KeyFilter {
        ids: vec![key.key.id.clone()],
        ..KeyFilter::default()
    };
    let (now, before) = world.control.invalidate_api_keys(&operator, &filter).unwrap();
    assert_eq!((now.len(), before.len()), (1, 0));
    assert_eq!(world.key(&key).unwrap_err(), Some("api key has been invalidated"));
    let (now, before) = world.control.invalidate_api_keys(&operator, &filter).unwrap();
    assert_eq!((now.len(), before.len()), (0, 1));
    world.pass(8 * DAY_MS);
    world.control.create_api_key(&operator, new_key("b")).unwrap();
    assert_eq!(world.key_names(), ["a", "b"]);
    // Another day, after which the clock is considered correct.
    world.pass(DAY_MS);
    world.control.create_api_key(&operator, new_key("c")).unwrap();
    assert_eq!(world.key_names(), ["b", "c"]);
    // A wrong secret reveals nothing, not even that the key has ended.
    let wrong = CreatedApiKey {
        secret: "x".to_owned(),
        ..key
    };
    assert_eq!(world.key(&wrong).unwrap_err(), None);
}

#[test]
fn a_key_does_no_more_than_its_maker_nor_than_it_says() {
    let world = World::new();
    world
        .control
        .put_role(
            &world.operator(),
            "reader",
            role(&["manage_own_api_key"], &["web-*"], &["read"]),
        )
        .unwrap();
    world
        .control
        .put_user(&world.operator(), "me", user(&["reader"], json!({})))
        .unwrap();
    let me = world.sign_in("me", PASSWORD).unwrap();
    let new = NewApiKey {
        role_descriptors: [("all".to_owned(), role(&["all"], &["*-2026"], &["all"]))].into(),
        ..new_key("greedy")
    };
    let key = world.key(&world.control.create_api_key(&me, new).unwrap()).unwrap();
    assert!(!key.has(Privilege::Write) && !key.has(Privilege::ManageCluster));
    let scope = key.scope(Privilege::Read).unwrap();
    assert!(scope.allows_name("web-2026") && !scope.allows_name("web-2025") && !scope.allows_name("mail-2026"));
    assert!(key.has_for(Privilege::Read, "web-2026") && !key.has_for(Privilege::Read, "web-2025"));
    // As in Elasticsearch, the key keeps privileges that its creator loses later: it has to be invalidated.
    world.control.delete_role(&world.operator(), "reader").unwrap();
    assert!(key.has(Privilege::Read) && !world.sign_in("me", PASSWORD).unwrap().has(Privilege::Read));
    // It cannot create keys.
    let error = world.control.create_api_key(&key, new_key("child")).unwrap_err();
    assert!(
        error.reason().starts_with("creating derived api keys requires"),
        "{error}"
    );
}

#[test]
fn admins_of_a_tenant_access_only_their_tenant() {
    let world = World::new();
    let (acme, other) = (world.tenant("acme"), world.tenant("other"));
    let key = world.control.create_api_key(&acme, new_key("shipper")).unwrap();
    assert_eq!(key.key.metadata["tenant"], "acme");
    let identity = world.key(&key).unwrap();
    assert_eq!(identity.scope(Privilege::Read).unwrap().tenant_id(), Some(&id("acme")));
    for privilege in [
        Privilege::Manage,
        Privilege::Monitor,
        Privilege::ManageCluster,
        Privilege::ManageSecurity,
    ] {
        assert!(!identity.has(privilege), "{privilege:?}");
    }

    assert!(world.control.api_keys(&other, &KeyFilter::default()).is_empty());
    let all = KeyFilter {
        name: Some("*".to_owned()),
        ..KeyFilter::default()
    };
    assert_eq!(
        world.control.invalidate_api_keys(&other, &all).unwrap(),
        (vec![], vec![])
    );
    let names = |who: &Identity| {
        world
            .control
            .users(who)
            .iter()
            .map(|user| user.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&acme), ["acme-admin"]);
    assert_eq!(names(&world.operator()), ["acme-admin", "elastic", "other-admin"]);

    // Neither a user nor a key for another tenant, nor another tenant's user.
    let forged = user(&["tenant_admin"], json!({"tenant": "other"}));
    assert_eq!(
        world.control.put_user(&acme, "spy", forged).unwrap_err().kind(),
        ErrorKind::Forbidden
    );
    let forged = NewApiKey {
        metadata: json!({"tenant": "other"}).as_object().unwrap().clone(),
        ..new_key("spy")
    };
    assert_eq!(
        world.control.create_api_key(&acme, forged).unwrap_err().kind(),
        ErrorKind::Forbidden
    );
    for taken in ["other-admin", "elastic"] {
        let error = world
            .control
            .put_user(&acme, taken, user(&["tenant_reader"], json!({})))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Forbidden);
        assert!(
            world
                .control
                .set_password(&acme, taken, &Password("another one".into()))
                .is_err()
        );
        assert!(!world.control.delete_user(&acme, taken).unwrap());
    }
    // A user that the admin creates belongs to the tenant, even if the metadata says otherwise, and is no operator.
    world
        .control
        .put_user(&acme, "bob", user(&["tenant_reader"], json!({})))
        .unwrap();
    assert_eq!(world.sign_in("bob", PASSWORD).unwrap().tenant(), Some(&id("acme")));
    assert!(
        world
            .control
            .put_user(&acme, "eve", user(&["operator"], json!({})))
            .is_err()
    );
}

#[test]
fn a_role_of_a_tenant_s_user_gives_no_access_outside_the_tenant() {
    let world = World::new();
    world.tenant("acme");
    world
        .control
        .put_role(&world.operator(), "everything", role(&["all"], &["*"], &["all"]))
        .unwrap();
    let new = user(&["everything"], json!({"tenant": "acme"}));
    world.control.put_user(&world.operator(), "bob", new).unwrap();
    let bob = world.sign_in("bob", PASSWORD).unwrap();
    assert!(bob.has(Privilege::Read) && !bob.has(Privilege::Manage) && !bob.has(Privilege::ManageSecurity));
    assert!(!bob.scope(Privilege::Read).unwrap().is_unlimited());
    assert!(
        world
            .control
            .put_role(&world.operator(), "admins", role(&["manage_tenant"], &["a"], &["read"]))
            .is_err()
    );
}

#[test]
fn an_operator_s_key_can_be_a_tenant_s() {
    let world = World::new();
    let operator = world.operator();
    let mut new = new_key("shipper");
    new.metadata.insert("tenant".to_owned(), "acme".into());
    assert!(
        world.control.create_api_key(&operator, new.clone()).is_err(),
        "the tenant is not declared"
    );
    world.tenant("acme");
    let key = world
        .key(&world.control.create_api_key(&operator, new).unwrap())
        .unwrap();
    assert_eq!(key.tenant(), Some(&id("acme")));
    assert!(key.has(Privilege::Write) && !key.has(Privilege::ManageCluster));
    assert!(matches!(key.principal(), Principal::ApiKey(_)));
}

#[test]
fn callers_of_a_closed_tenant_are_refused() {
    let world = World::new();
    let admin = world.tenant("acme");
    let key = world.control.create_api_key(&admin, new_key("shipper")).unwrap();
    world.control.close_tenant(&id("acme")).unwrap();
    assert!(world.key(&key).is_err() && world.sign_in("acme-admin", PASSWORD).is_none());
    let error = world
        .control
        .put_tenant(&id("acme"), TenantSettings::default())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::VersionConflict);
    let world = world.reopen();
    world.control.close_tenant(&id("acme")).unwrap();
    assert!(world.key(&key).is_err());
    world.control.forget_tenant(&id("acme")).unwrap();
    world.control.forget_tenant(&id("acme")).unwrap();
    assert!(world.control.tenants().is_empty());
    // A later tenant of the same name is another tenant: old keys are invalid for it.
    world.tenant("acme");
    assert!(world.key(&key).is_err());
}

#[test]
fn settings_are_inherited() {
    let world = World::new();
    let settings = |events, share| TenantSettings {
        quotas: Quotas {
            ingest_events_per_second: events,
            search_cpu_share: share,
            ..Quotas::default()
        },
        ..TenantSettings::default()
    };
    world.control.put_tenant_defaults(settings(Some(10), Some(50))).unwrap();
    let admin = world.tenant("acme");
    world.control.put_tenant(&id("acme"), settings(Some(99), None)).unwrap();
    let effective = world.control.tenant_settings(&id("acme")).unwrap().quotas;
    assert_eq!(
        (effective.ingest_events_per_second, effective.search_cpu_share),
        (Some(99), Some(50))
    );
    assert_eq!(admin.scope(Privilege::Read).unwrap().weight(), 50);
    world.control.put_tenant(&id("acme"), settings(None, Some(7))).unwrap();
    assert_eq!(
        world
            .sign_in("acme-admin", PASSWORD)
            .unwrap()
            .scope(Privilege::Read)
            .unwrap()
            .weight(),
        7
    );
}

#[test]
fn passwords_change_at_once() {
    let world = World::new();
    let operator = world.operator();
    world.control.put_user(&operator, "me", user(&[], json!({}))).unwrap();
    let me = world.sign_in("me", PASSWORD).unwrap();
    world
        .control
        .set_password(&me, "me", &Password("another one".to_owned()))
        .unwrap();
    assert!(world.sign_in("me", PASSWORD).is_none() && world.sign_in("me", "another one").is_some());
    world.control.set_enabled(&operator, "me", false).unwrap();
    assert!(world.sign_in("me", "another one").is_none());
    // A key is not the user: it cannot change a user's password.
    let key = world.control.create_api_key(&operator, new_key("key")).unwrap();
    assert!(
        world
            .control
            .set_password(&me, "elastic", &Password("stolen".to_owned()))
            .is_err()
    );
    drop(key);
    assert!(
        world
            .control
            .set_password(&operator, "elastic", &Password("short".to_owned()))
            .is_err()
    );
    assert!(world.control.delete_user(&operator, "elastic").is_err());
}

#[test]
fn a_key_of_few_rights_does_not_take_over_its_maker() {
    let world = World::new();
    let new = NewApiKey {
        role_descriptors: [("r".to_owned(), role(&["manage_own_api_key"], &["a"], &["read"]))].into(),
        ..new_key("few")
    };
    let operator = world.operator();
    world.control.create_api_key(&operator, new_key("many")).unwrap();
    let key = world
        .key(&world.control.create_api_key(&operator, new).unwrap())
        .unwrap();
    assert!(
        world
            .control
            .set_password(&key, "elastic", &Password("stolen password".to_owned()))
            .is_err()
    );
    assert!(world.control.users(&key).is_empty());
    let seen = world.control.api_keys(&key, &KeyFilter::default());
    assert_eq!(seen.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["few"]);
}

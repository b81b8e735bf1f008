//! Tests that users, passwords, roles and keys created or changed by an API key never exceed the key.

use std::sync::Arc;

use firn_auth::{
    CreatedApiKey, Identity, KeyFilter, NewApiKey, Password, Privilege, RoleDescriptor, SessionToken, View,
};
use firn_model::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use crate::{PASSWORD, World, id, new_key, role, user};

/// Creates a key with these descriptors, for a tenant or none.
fn key_of(
    world: &World,
    maker: &Identity,
    name: &str,
    descriptor: Option<RoleDescriptor>,
) -> (CreatedApiKey, Arc<Identity>) {
    let new = NewApiKey {
        role_descriptors: descriptor.map(|role| ("r".to_owned(), role)).into_iter().collect(),
        ..new_key(name)
    };
    let created = world.control.create_api_key(maker, new).unwrap();
    let identity = world.key(&created).unwrap();
    (created, identity)
}

fn password() -> Password {
    Password("another password".to_owned())
}

/// Tries every change of a user; `roles` are the new roles.
fn changes_of_users(world: &World, asker: &Identity, name: &str, roles: &[&str], metadata: Value) -> Vec<Result<()>> {
    let control = &world.control;
    vec![
        control.put_user(asker, name, user(roles, metadata)).map(drop),
        control.set_password(asker, name, &password()),
        control.set_enabled(asker, name, false),
        control.set_enabled(asker, name, true),
        control.delete_user(asker, name).map(drop),
    ]
}

#[track_caller]
fn forbidden(outcome: Result<()>, expect: &str) {
    let error = outcome.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    assert!(error.reason().contains(expect), "{error}");
}

const BY_NAME: &str = "needs the cluster privilege [manage_security] by name in its [role_descriptors]";

#[test]
fn a_key_without_the_right_by_name_changes_no_users_or_roles() {
    let world = World::new();
    let (operator, admin) = (world.operator(), world.tenant("acme"));
    let control = &world.control;
    control
        .put_user(&operator, "bob", user(&["tenant_reader"], json!({"tenant": "acme"})))
        .unwrap();
    control
        .put_role(&operator, "small", role(&[], &["a"], &["read"]))
        .unwrap();
    let before = format!("{:?} {:?}", control.users(&operator), control.roles());
    // Neither privileges inherited from the creator nor a privilege that includes the required one are enough.
    for (maker, descriptor) in [
        (&operator, None),
        (&operator, Some(role(&["all"], &["*"], &["all"]))),
        (&operator, Some(role(&["manage_api_key"], &["*"], &["all"]))),
        (&operator, Some(role(&[], &["*"], &["read"]))),
        (&admin, None),
        (&admin, Some(role(&["all"], &["*"], &["all"]))),
        (&admin, Some(role(&["manage_own_api_key"], &["events"], &["read"]))),
    ] {
        let (_, key) = key_of(&world, maker, "k", descriptor);
        assert!(!key.may_change_users());
        for name in ["bob", "eve"] {
            for outcome in changes_of_users(&world, &key, name, &["tenant_admin"], json!({"tenant": "acme"})) {
                forbidden(outcome, BY_NAME);
            }
        }
        forbidden(
            control.put_role(&key, "small", role(&[], &["*"], &["all"])).map(drop),
            BY_NAME,
        );
        forbidden(
            control.put_role(&key, "new", role(&[], &["a"], &["read"])).map(drop),
            BY_NAME,
        );
        forbidden(control.delete_role(&key, "small").map(drop), BY_NAME);
        // Nor its creator's password.
        let own = key.user_name().unwrap().to_owned();
        forbidden(control.set_password(&key, &own, &password()), BY_NAME);
    }
    assert_eq!(format!("{:?} {:?}", control.users(&operator), control.roles()), before);
    assert!(world.sign_in("elastic", PASSWORD).is_some() && world.sign_in("acme-admin", PASSWORD).is_some());
}

#[test]
fn a_key_that_expires_makes_nothing_that_outlives_it() {
    let world = World::new();
    let (operator, admin) = (world.operator(), world.tenant("acme"));
    for maker in [&operator, &admin] {
        let new = NewApiKey {
            role_descriptors: [("r".to_owned(), role(&["all", "manage_security"], &["*"], &["all"]))].into(),
            expires_in_ms: Some(5000),
            ..new_key("short")
        };
        let key = world.key(&world.control.create_api_key(maker, new).unwrap()).unwrap();
        for outcome in changes_of_users(&world, &key, "eve", &["tenant_reader"], json!({"tenant": "acme"})) {
            forbidden(outcome, "they would outlive the key");
        }
        let outcome = world
            .control
            .put_role(&key, "new", role(&[], &["a"], &["read"]))
            .map(drop);
        forbidden(outcome, "they would outlive the key");
        // A derived key has no privileges, and expires with its creator.
        let derived = NewApiKey {
            role_descriptors: [("r".to_owned(), RoleDescriptor::default())].into(),
            expires_in_ms: Some(1 << 40),
            ..new_key("derived")
        };
        let forever = NewApiKey {
            expires_in_ms: None,
            ..derived.clone()
        };
        for new in [derived, forever] {
            let derived = world.control.create_api_key(&key, new).unwrap();
            let identity = world.key(&derived).unwrap();
            for privilege in firn_auth::PrivilegeSet::all()
                .iter()
                .filter(|one| *one != Privilege::Any)
            {
                assert!(!identity.has(privilege), "{privilege:?}");
            }
            assert_eq!(derived.key.expires_ms, Some(world.now() + 5000));
        }
        world.pass(10);
    }
}

#[test]
fn a_key_with_the_right_hands_out_no_more_than_it_has() {
    let world = World::new();
    let operator = world.operator();
    world.tenant("acme");
    let control = &world.control;
    for (name, descriptor) in [
        ("logs", role(&["monitor"], &["logs-a*"], &["read"])),
        ("wider", role(&["monitor"], &["log*"], &["read"])),
        ("writes", role(&[], &["logs-a"], &["write"])),
        ("manages", role(&["manage"], &["logs-a"], &["read"])),
        ("secures", role(&["manage_security"], &["logs-a"], &["read"])),
    ] {
        control.put_role(&operator, name, descriptor).unwrap();
    }
    let (_, key) = key_of(
        &world,
        &operator,
        "provisioner",
        Some(role(&["manage_security", "monitor"], &["logs-*"], &["read"])),
    );
    assert!(key.may_change_users());
    let put = |name: &str, roles: &[&str], metadata| control.put_user(&key, name, user(roles, metadata)).map(drop);
    put("bob", &["logs"], json!({})).unwrap();
    control.set_password(&key, "bob", &password()).unwrap();
    assert!(world.sign_in("bob", "another password").unwrap().has(Privilege::Read));
    let more = "grants more than the API key has";
    for roles in [
        &["wider"] as &[&str],
        &["writes"],
        &["manages"],
        &["logs", "operator"],
        &["superuser"],
        // A user who may create users may create an operator.
        &["secures"],
    ] {
        forbidden(put("eve", roles, json!({})), more);
        forbidden(put("bob", roles, json!({})), more);
    }
    // An undefined role may grant anything later.
    forbidden(put("eve", &["later"], json!({})), "the role [later] is not defined");
    for roles in [
        &["tenant_reader"] as &[&str],
        &["tenant_admin"],
        &["secures"],
        &["logs"],
    ] {
        // In a tenant, the same pattern matches more: the tenant's private indices.
        forbidden(put("eve", roles, json!({"tenant": "acme"})), more);
    }
    // A key cannot change users with more privileges, not even to reduce them.
    control
        .put_user(&operator, "boss", user(&["operator"], json!({})))
        .unwrap();
    for outcome in changes_of_users(&world, &key, "boss", &["logs"], json!({})) {
        forbidden(outcome, more);
    }
    for outcome in changes_of_users(&world, &key, "acme-admin", &["logs"], json!({})) {
        forbidden(outcome, more);
    }
    assert!(world.sign_in("boss", PASSWORD).is_some() && world.sign_in("acme-admin", PASSWORD).is_some());
    // Nor the user who created it.
    forbidden(
        control.set_password(&key, "elastic", &password()),
        "cannot change the user who created it",
    );

    // The same applies to roles: neither to more privileges nor from more.
    control
        .put_role(&key, "own", role(&[], &["logs-b"], &["read"]))
        .unwrap();
    for descriptor in [
        role(&["manage_security"], &["logs-b"], &["read"]),
        role(&[], &["*"], &["read"]),
        role(&[], &["logs-b"], &["all"]),
    ] {
        forbidden(control.put_role(&key, "own", descriptor.clone()).map(drop), more);
        forbidden(control.put_role(&key, "another", descriptor).map(drop), more);
    }
    forbidden(
        control
            .put_role(&key, "writes", role(&[], &["logs-b"], &["read"]))
            .map(drop),
        more,
    );
    forbidden(control.delete_role(&key, "writes").map(drop), more);
    assert!(control.delete_role(&key, "own").unwrap());
}

#[test]
fn a_key_with_everything_provisions_tenants() {
    let world = World::new();
    let operator = world.operator();
    world.tenant("acme");
    let control = &world.control;
    let (_, key) = key_of(
        &world,
        &operator,
        "provisioner",
        Some(role(&["all", "manage_security"], &["*"], &["all"])),
    );
    control
        .put_user(&key, "ann", user(&["tenant_admin"], json!({"tenant": "acme"})))
        .unwrap();
    control
        .put_user(&key, "second", user(&["operator"], json!({})))
        .unwrap();
    assert!(world.sign_in("ann", PASSWORD).unwrap().has(Privilege::ManageTenant));
    forbidden(
        control.set_password(&key, "elastic", &password()),
        "cannot change the user who created it",
    );

    // A tenant's key with all privileges of the tenant: it creates admins, only of its tenant.
    let admin = world.sign_in("acme-admin", PASSWORD).unwrap();
    let (_, key) = key_of(
        &world,
        &admin,
        "of-tenant",
        Some(role(&["all", "manage_security"], &["*"], &["all"])),
    );
    control
        .put_user(&key, "ann", user(&["tenant_reader"], json!({})))
        .unwrap();
    control
        .put_user(&key, "zoe", user(&["tenant_admin"], json!({})))
        .unwrap();
    assert_eq!(world.sign_in("zoe", PASSWORD).unwrap().tenant(), Some(&id("acme")));
    forbidden(
        control.set_password(&key, "acme-admin", &password()),
        "cannot change the user who created it",
    );
    assert!(control.put_user(&key, "second", user(&[], json!({}))).is_err());
    // A key that may only read creates readers.
    let (_, key) = key_of(
        &world,
        &admin,
        "of-tenant",
        Some(role(
            &["manage_security"],
            &["*"],
            &["read", "view_index_metadata", "monitor"],
        )),
    );
    control
        .put_user(&key, "reader", user(&["tenant_reader"], json!({})))
        .unwrap();
    for roles in [["tenant_admin"], ["tenant_writer"]] {
        forbidden(
            control.put_user(&key, "eve", user(&roles, json!({}))).map(drop),
            "grants more than the API key has",
        );
    }
    forbidden(
        control.set_password(&key, "zoe", &password()),
        "grants more than the API key has",
    );
}

#[test]
fn a_key_ends_only_itself_without_the_right_by_name() {
    let world = World::new();
    let (operator, admin) = (world.operator(), world.tenant("acme"));
    let all = KeyFilter {
        name: Some("*".to_owned()),
        ..KeyFilter::default()
    };
    for maker in [&operator, &admin] {
        let (other, _) = key_of(&world, maker, "other", None);
        for descriptor in [
            None,
            Some(role(&["all"], &["*"], &["all"])),
            Some(role(&["manage_own_api_key"], &["*"], &["read"])),
        ] {
            let (created, key) = key_of(&world, maker, "narrow", descriptor);
            let (ended, _) = world.control.invalidate_api_keys(&key, &all).unwrap();
            assert_eq!(ended, std::slice::from_ref(&created.key.id));
            assert!(world.key(&created).is_err() && world.key(&other).is_ok());
            // A request that was authenticated with it can do nothing more.
            let error = world.control.invalidate_api_keys(&key, &all).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unauthenticated);
        }
    }
    let (other, _) = key_of(&world, &admin, "other", None);
    let (_, key) = key_of(
        &world,
        &operator,
        "ends",
        Some(role(&["manage_api_key"], &["a"], &["read"])),
    );
    let by_id = KeyFilter {
        ids: vec![other.key.id.clone()],
        ..KeyFilter::default()
    };
    let (ended, _) = world.control.invalidate_api_keys(&key, &by_id).unwrap();
    assert_eq!(ended, std::slice::from_ref(&other.key.id));
    assert!(world.key(&other).is_err());
}

#[test]
fn a_key_that_ended_while_its_request_waited_changes_nothing() {
    let world = World::new();
    let operator = world.operator();
    let (created, key) = key_of(
        &world,
        &operator,
        "k",
        Some(role(&["all", "manage_security"], &["*"], &["all"])),
    );
    let filter = KeyFilter {
        ids: vec![created.key.id.clone()],
        ..KeyFilter::default()
    };
    world.control.invalidate_api_keys(&operator, &filter).unwrap();
    let unauthenticated = |outcome: Result<()>| {
        assert_eq!(
            outcome.map_err(|error: Error| error.kind()),
            Err(ErrorKind::Unauthenticated)
        );
    };
    for outcome in changes_of_users(&world, &key, "eve", &[], json!({})) {
        unauthenticated(outcome);
    }
    unauthenticated(world.control.put_role(&key, "r", RoleDescriptor::default()).map(drop));
    let derived = NewApiKey {
        role_descriptors: [("r".to_owned(), RoleDescriptor::default())].into(),
        ..new_key("derived")
    };
    unauthenticated(world.control.create_api_key(&key, derived).map(drop));
}

#[test]
fn an_operator_who_views_a_tenant_changes_no_credentials() {
    let world = World::new();
    world.tenant("acme");
    let operator = world.operator();
    let (other, _) = key_of(&world, &operator, "other", None);
    let (token, _): (SessionToken, _) = world.control.open_session(&operator, None).unwrap();
    let view = View {
        tenant: id("acme"),
        reason: "a question".to_owned(),
    };
    let eyes = world.control.set_view(&token, Some(view)).unwrap().identity;
    assert!(!eyes.may_change_users());
    let refused = "changes are not allowed in a tenant's view";
    for name in ["acme-admin", "eve"] {
        for outcome in changes_of_users(&world, &eyes, name, &["tenant_reader"], json!({})) {
            forbidden(outcome, refused);
        }
    }
    forbidden(
        world.control.put_role(&eyes, "r", RoleDescriptor::default()).map(drop),
        refused,
    );
    forbidden(world.control.create_api_key(&eyes, new_key("k")).map(drop), refused);
    forbidden(
        world
            .control
            .invalidate_api_keys(&eyes, &KeyFilter::default())
            .map(drop),
        refused,
    );
    assert!(world.key(&other).is_ok() && world.sign_in("acme-admin", PASSWORD).is_some());
}

/// In a tenant `web-*` also matches `acme~web-1`, which an operator with this pattern cannot access.
#[test]
fn a_key_for_a_tenant_reaches_no_more_than_its_maker() {
    let world = World::new();
    let operator = world.operator();
    world.tenant("acme");
    let descriptor = role(&["manage_own_api_key"], &["web-*"], &["read"]);
    world.control.put_role(&operator, "web", descriptor).unwrap();
    world
        .control
        .put_user(&operator, "me", user(&["web"], json!({})))
        .unwrap();
    let me = world.sign_in("me", PASSWORD).unwrap();
    let mut new = new_key("k");
    new.metadata.insert("tenant".to_owned(), "acme".into());
    forbidden(
        world.control.create_api_key(&me, new.clone()).map(drop),
        "only privileges for all names [*] can be given to a tenant",
    );
    world.control.create_api_key(&me, new_key("k")).unwrap();
    world.control.create_api_key(&operator, new).unwrap();
}

#[test]
fn names_of_users_and_roles_are_no_paths() {
    let world = World::new();
    let operator = world.operator();
    for name in ["", ".", "..", " a", "a ", "a\u{0}", "a\n", "ä", &"x".repeat(508)] {
        let user = world.control.put_user(&operator, name, user(&[], json!({})));
        assert_eq!(
            user.unwrap_err().kind(),
            ErrorKind::RequestValidation,
            "user [{name:?}]"
        );
        let role = world.control.put_role(&operator, name, RoleDescriptor::default());
        assert_eq!(
            role.unwrap_err().kind(),
            ErrorKind::RequestValidation,
            "role [{name:?}]"
        );
    }
    world
        .control
        .put_role(&operator, "DOMAIN\\some role/of x", RoleDescriptor::default())
        .unwrap();
}

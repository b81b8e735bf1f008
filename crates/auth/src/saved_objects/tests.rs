use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use firn_model::tenant::TenantSettings;
use firn_storage::sim::SimDisk;
use serde_json::json;

use super::*;
use crate::control::{Control, Parts};
use crate::identity::Identity;
use crate::sessions::{SessionLimits, SessionToken, View};
use crate::sign_in_throttle::SignInThrottleLimits;
use crate::users::{NewUser, Password};

fn open(disk: &SimDisk) -> Control {
    let (now_ms, drawn) = (AtomicI64::new(1000), AtomicU64::new(0));
    let parts = Parts {
        disk: Arc::new(disk.clone()),
        folder: PathBuf::from("/data/control"),
        now_ms: Arc::new(move || now_ms.fetch_add(1, Ordering::Relaxed)),
        stopwatch: Arc::new(std::time::Duration::default),
        random: Arc::new(move |bytes| {
            let number = drawn.fetch_add(1, Ordering::Relaxed).to_be_bytes();
            bytes
                .iter_mut()
                .rev()
                .zip(number.iter().rev())
                .for_each(|(byte, drawn)| *byte = *drawn);
        }),
        slowdown: SignInThrottleLimits::default(),
        sessions: SessionLimits::default(),
    };
    Control::open(parts).unwrap()
}

struct World {
    disk: SimDisk,
    control: Control,
}

impl World {
    fn new() -> Self {
        let disk = SimDisk::new();
        disk.create_dir_all(Path::new("/data")).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        let control = open(&disk);
        control
            .set_operator_password(&Password("correct horse".to_owned()))
            .unwrap();
        for tenant in ["acme", "bolt"] {
            control.put_tenant(&id(tenant), TenantSettings::default()).unwrap();
            let new = NewUser {
                password: Some(Password("correct horse".to_owned())),
                roles: vec!["tenant_reader".to_owned()],
                metadata: json!({"tenant": tenant}).as_object().cloned().unwrap(),
                enabled: true,
                ..NewUser::default()
            };
            control
                .put_user(&Identity::open(), &format!("{tenant}_user"), new)
                .unwrap();
        }
        Self { disk, control }
    }

    fn who(&self, name: &str) -> Identity {
        let state = self.control.state();
        crate::authenticate::identity_of(&state, &state.users[name])
    }

    fn put(&self, who: &Identity, name: &str, version: Option<u64>, new: NewSaved) -> Result<(Arc<Saved>, bool)> {
        self.control
            .put_saved_object(who, SavedKind::Search, Some(name), version, new)
    }

    fn titles(&self, who: &Identity) -> Vec<String> {
        let found = self.control.saved_objects(who, None);
        found.iter().map(|saved| saved.title.clone()).collect()
    }
}

fn id(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

fn new(title: &str) -> NewSaved {
    NewSaved {
        title: title.to_owned(),
        description: String::new(),
        state: json!({"search": format!("q={title}")}),
    }
}

#[test]
fn tenants_and_operators_have_separate_objects() {
    let world = World::new();
    let (acme, bolt, operator) = (world.who("acme_user"), world.who("bolt_user"), world.who("elastic"));
    for (who, title) in [(&acme, "of acme"), (&bolt, "of bolt"), (&operator, "of operators")] {
        let (saved, is_new) = world.put(who, "same", None, new(title)).unwrap();
        assert!(is_new && saved.version == 1, "{title}");
    }
    for (who, title) in [(&acme, "of acme"), (&bolt, "of bolt"), (&operator, "of operators")] {
        assert_eq!(world.titles(who), [title]);
        let (saved, state) = world.control.saved_object(who, SavedKind::Search, "same").unwrap();
        assert_eq!(
            (saved.title.as_str(), &state),
            (title, &json!({"search": format!("q={title}")}))
        );
        assert_eq!(saved.updated_by.as_deref(), who.user_name());
    }
    world.put(&bolt, "theirs", None, new("theirs")).unwrap();
    let missing = |outcome: Result<()>| {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceNotFound);
        error.reason().replace("theirs", "NAME").replace("nonames", "NAME")
    };
    let get = |id: &str| world.control.saved_object(&acme, SavedKind::Search, id).map(|_| ());
    let delete = |id: &str| world.control.delete_saved_object(&acme, SavedKind::Search, id, None);
    assert_eq!(missing(get("theirs")), missing(get("nonames")));
    assert_eq!(missing(delete("theirs")), missing(delete("nonames")));
    // The same name, but another object.
    assert!(world.put(&acme, "theirs", Some(0), new("mine")).unwrap().1);
    assert_eq!(world.titles(&bolt), ["of bolt", "theirs"]);
    delete("same").unwrap();
    assert_eq!((world.titles(&acme).len(), world.titles(&operator).len()), (1, 1));
}

#[test]
fn versions_keep_two_people_apart() {
    let world = World::new();
    let ann = world.who("acme_user");
    let put = |version, title: &str| {
        let put = world.put(&ann, "a", version, new(title));
        put.map(|(saved, is_new)| (saved.version, is_new))
            .map_err(|error| error.kind())
    };
    assert_eq!(put(Some(1), "x"), Err(ErrorKind::VersionConflict));
    assert_eq!(put(Some(0), "one"), Ok((1, true)));
    assert_eq!(put(Some(0), "x"), Err(ErrorKind::VersionConflict));
    assert_eq!(put(Some(1), "two"), Ok((2, false)));
    assert_eq!(put(Some(1), "x"), Err(ErrorKind::VersionConflict));
    assert_eq!(put(None, "three"), Ok((3, false)));
    assert_eq!(world.titles(&ann), ["three"]);
    let (saved, _) = world.control.saved_object(&ann, SavedKind::Search, "a").unwrap();
    assert!(saved.created_ms < saved.updated_ms);
    let delete = |version| world.control.delete_saved_object(&ann, SavedKind::Search, "a", version);
    assert_eq!(delete(Some(2)).unwrap_err().kind(), ErrorKind::VersionConflict);
    delete(Some(3)).unwrap();
    assert_eq!(delete(Some(3)).unwrap_err().kind(), ErrorKind::ResourceNotFound);
}

#[test]
fn what_is_not_small_and_named_is_refused() {
    let world = World::new();
    let ann = world.who("acme_user");
    let refused = |name: &str, new: NewSaved| world.put(&ann, name, None, new).unwrap_err().kind();
    for name in ["", "a.b", "../a", "a/b", "ä", "a b", &"x".repeat(65)] {
        assert_eq!(refused(name, new("t")), ErrorKind::IllegalArgument, "{name}");
    }
    for title in ["", "  ", &"x".repeat(257)] {
        assert_eq!(refused("a", new(title)), ErrorKind::RequestValidation, "{title}");
    }
    let description = |chars: usize| NewSaved {
        description: "ä".repeat(chars),
        ..new("t")
    };
    assert_eq!(refused("a", description(1001)), ErrorKind::RequestValidation);
    let state = |bytes: usize| NewSaved {
        state: json!("x".repeat(bytes - 2)),
        ..new("t")
    };
    assert_eq!(refused("a", state(STATE_BYTES_MAX + 1)), ErrorKind::RequestValidation);
    world.put(&ann, "a", None, description(1000)).unwrap();
    world.put(&ann, &"x".repeat(64), None, state(STATE_BYTES_MAX)).unwrap();
    assert!(SavedKind::parse("searches").is_err());
}

#[test]
fn there_are_so_many_and_so_large_ones_of_a_tenant() {
    let world = World::new();
    let (ann, bolt) = (world.who("acme_user"), world.who("bolt_user"));
    {
        // Added in memory: a thousand syncs would test nothing more.
        let mut objects = world.control.saved.lock();
        let own = objects.of.entry(Some(id("acme"))).or_default();
        for number in 0..OF_ONE_MAX {
            let saved = Saved {
                kind: SavedKind::Search,
                id: format!("s{number}"),
                tenant: Some(id("acme")),
                title: "t".to_owned(),
                description: String::new(),
                version: 1,
                created_ms: 0,
                updated_ms: 0,
                updated_by: None,
                bytes: 1000,
            };
            own.insert((saved.kind, saved.id.clone()), Arc::new(saved));
        }
    }
    world
        .disk
        .create_dir_all(Path::new("/data/control/saved/acme"))
        .unwrap();
    let error = world.put(&ann, "more", None, new("t")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IllegalArgument);
    assert_eq!(
        error.reason(),
        "cannot save the search [more]: at most [1000] saved objects of tenant [acme] are allowed"
    );
    assert!(
        !world.put(&ann, "s1", None, new("t")).unwrap().1,
        "one that is there can be changed"
    );
    world.put(&bolt, "more", None, new("t")).unwrap();
    world
        .control
        .delete_saved_object(&ann, SavedKind::Search, "s1", None)
        .unwrap();
    world.put(&ann, "more", None, new("t")).unwrap();
    {
        let mut objects = world.control.saved.lock();
        let own = objects.of.get_mut(&Some(id("bolt"))).unwrap();
        let large = own.values_mut().next().unwrap();
        Arc::make_mut(large).bytes = OF_ONE_BYTES_MAX - 100;
    }
    let error = world.put(&bolt, "large", None, new("t")).unwrap_err();
    assert!(
        error.reason().contains("may have at most [33554432] bytes together"),
        "{error}"
    );
}

#[test]
fn they_survive_a_power_loss_and_go_with_their_tenant() {
    let world = World::new();
    let (acme, bolt, operator) = (world.who("acme_user"), world.who("bolt_user"), world.who("elastic"));
    for who in [&acme, &bolt, &operator] {
        world.put(who, "live", None, new("live")).unwrap();
        world.put(who, "gone", None, new("gone")).unwrap();
        world
            .control
            .delete_saved_object(who, SavedKind::Search, "gone", None)
            .unwrap();
    }
    let made = world
        .control
        .put_saved_object(&acme, SavedKind::Dashboard, None, None, new("made"))
        .unwrap();
    assert_eq!(made.0.id.len(), 20);
    let disk = world.disk.crash(7);
    let world = World {
        control: open(&disk),
        disk,
    };
    assert_eq!(world.titles(&acme), ["live", "made"]);
    assert_eq!(
        (world.titles(&bolt), world.titles(&operator)),
        (vec!["live".to_owned()], vec!["live".to_owned()])
    );
    let (again, state) = world
        .control
        .saved_object(&acme, SavedKind::Dashboard, &made.0.id)
        .unwrap();
    assert_eq!((&again, state), (&made.0, new("made").state));

    world.control.begin_deletion(&id("acme"), None, false).unwrap();
    let error = world.put(&acme, "late", None, new("late")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IllegalArgument);
    let disk = world.disk.crash(7);
    assert!(!disk.exists(Path::new("/data/control/saved/acme")).unwrap());
    let control = open(&disk);
    assert!(control.saved_objects(&acme, None).is_empty());
    assert_eq!(control.saved_objects(&bolt, None).len(), 1);
}

#[test]
fn only_the_damaged_object_is_skipped() {
    let world = World::new();
    let acme = world.who("acme_user");
    for name in ["good", "bad", "cut"] {
        world.put(&acme, name, None, new(name)).unwrap();
    }
    let path = |name: &str| PathBuf::from(format!("/data/control/saved/acme/search.{name}"));
    let mut bytes = world.disk.read(&path("bad")).unwrap().to_vec();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    world.disk.write_atomic(&path("bad"), &bytes).unwrap();
    let bytes = world.disk.read(&path("cut")).unwrap();
    world
        .disk
        .write_atomic(&path("cut"), &bytes[..bytes.len() - 1])
        .unwrap();
    world.disk.write_atomic(&path("what is this"), b"?").unwrap();
    let error = world.control.saved_object(&acme, SavedKind::Search, "bad").unwrap_err();
    assert!(error.reason().contains("its checksum is ["), "{error}");
    let world = World {
        control: open(&world.disk),
        disk: world.disk,
    };
    assert_eq!(world.titles(&acme), ["good"]);
    let damaged = world.control.damaged_saved_objects(&acme, None);
    let ids: Vec<&str> = damaged.iter().map(|damaged| damaged.id.as_str()).collect();
    assert_eq!(ids, ["bad", "cut"]);
    assert!(
        world
            .control
            .damaged_saved_objects(&world.who("bolt_user"), None)
            .is_empty()
    );
    let error = world.control.saved_object(&acme, SavedKind::Search, "cut").unwrap_err();
    assert!(error.reason().contains("[control/saved/acme/search.cut]"), "{error}");
    world
        .control
        .delete_saved_object(&acme, SavedKind::Search, "cut", None)
        .unwrap();
    let error = world.control.saved_object(&acme, SavedKind::Search, "cut").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceNotFound);
    world.put(&acme, "bad", Some(0), new("mended")).unwrap();
    assert!(world.control.damaged_saved_objects(&acme, None).is_empty());
    assert_eq!(world.titles(&acme), ["good", "mended"]);
}

#[test]
fn a_lost_file_is_missed() {
    let world = World::new();
    let acme = world.who("acme_user");
    for name in ["here", "lost", "removed"] {
        world.put(&acme, name, None, new(name)).unwrap();
    }
    world
        .control
        .delete_saved_object(&acme, SavedKind::Search, "removed", None)
        .unwrap();
    let folder = PathBuf::from("/data/control/saved/acme");
    world.disk.remove_file(&folder.join("search.lost")).unwrap();
    // Missing at the next start and at each one after it.
    for _ in 0..2 {
        let control = open(&world.disk);
        let damaged = control.damaged_saved_objects(&acme, None);
        assert_eq!(damaged.len(), 1, "{damaged:?}");
        assert_eq!(
            damaged[0].reason,
            "file [control/saved/acme/search.lost]: the file is missing"
        );
        let error = control.saved_object(&acme, SavedKind::Search, "lost").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
        assert_eq!(control.saved_objects(&acme, None).len(), 1);
    }
    // A lost or damaged list is rebuilt from the existing files.
    let control = open(&world.disk);
    control
        .delete_saved_object(&acme, SavedKind::Search, "lost", None)
        .unwrap();
    for damage in ["lost", "damaged"] {
        match damage {
            "lost" => world.disk.remove_file(&folder.join("_list")).unwrap(),
            _ => world
                .disk
                .write_atomic(&folder.join("_list"), b"firn-saved-list 1 00000000 2\n{}")
                .unwrap(),
        }
        let control = open(&world.disk);
        assert_eq!(control.saved_objects(&acme, None).len(), 1, "{damage}");
        assert!(control.damaged_saved_objects(&acme, None).is_empty(), "{damage}");
    }
    world.disk.remove_file(&folder.join("search.here")).unwrap();
    assert_eq!(open(&world.disk).damaged_saved_objects(&acme, None).len(), 1);
}

#[test]
fn an_operator_in_a_tenant_s_view_changes_none() {
    let world = World::new();
    let acme = world.who("acme_user");
    world.put(&acme, "a", None, new("a")).unwrap();
    let (token, _): (SessionToken, _) = world.control.open_session(&world.who("elastic"), None).unwrap();
    let view = View {
        tenant: id("acme"),
        reason: "ticket 1".to_owned(),
    };
    let signed_in = world.control.set_view(&token, Some(view)).unwrap();
    assert_eq!(world.titles(&signed_in.identity), ["a"]);
    let put = world.put(&signed_in.identity, "a", None, new("b")).unwrap_err();
    let delete = world
        .control
        .delete_saved_object(&signed_in.identity, SavedKind::Search, "a", None);
    assert_eq!(
        (put.kind(), delete.unwrap_err().kind()),
        (ErrorKind::Forbidden, ErrorKind::Forbidden)
    );
    assert_eq!(world.titles(&acme), ["a"]);
}

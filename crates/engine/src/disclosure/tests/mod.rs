//! Tests of [`Disclosed`] over a fake engine: every operation, as an operator and as a tenant.

mod leaking;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use firn_model::mapping::Analyzer;
use firn_model::metadata::Command;
use firn_model::names::private_index_name;
use firn_model::tenant::TenantId;
use firn_query::query::Query;
use firn_query::search::{IndexTarget, SearchRequest};
use serde_json::json;

use self::leaking::{Leaking, SECRET, SECRET_COUNT, repository_error};
use super::*;
use crate::admin::{AnalyzeRequest, ForceMergeRequest, PurgeRequest};
use crate::context::{CloseContexts, ContextKind, OpenPointInTime, ScrollRequest};
use crate::document::{BulkRequest, Refresh};
use crate::fields::FieldsInUseRequest;
use crate::mounts::{MountSnapshot, Storage};
use crate::terms_enum::TermsEnumRequest;
use crate::{Engine, ErrorKind, Progress, Result};

/// Outcome of a request, printed with all its details.
type Printed<'a> = Pin<Box<dyn Future<Output = String> + Send + 'a>>;
type Request = for<'a> fn(&'a dyn Engine, &'a RequestContext) -> Printed<'a>;

/// One operation.
struct Operation {
    name: &'static str,
    /// The fake's answer says what no tenant may see.
    is_leaking: bool,
    request: Request,
}

macro_rules! operations {
    ($engine:ident, $ctx:ident; $($name:literal $is_leaking:ident $request:expr;)*) => {
        [$(Operation {
            name: $name,
            is_leaking: operations!(@ $is_leaking),
            request: |$engine, $ctx| Box::pin(async move { print($request.await) }),
        }),*]
    };
    (@ leaks) => { true };
    (@ clean) => { false };
}

/// Returns all operations that take the context of a request, without those of snapshots, which are for operators.
fn operations() -> impl IntoIterator<Item = Operation> {
    operations! {
        engine, ctx;
        "metadata" clean engine.metadata(ctx);
        "metadata_with_mappings" clean engine.metadata_with_mappings(ctx);
        "execute" clean engine.execute(ctx, Command::DeleteIndices { names: Vec::new() });
        "bulk" leaks engine.bulk(ctx, bulk());
        "get" leaks engine.get(ctx, Vec::new());
        "explain_query" leaks engine.explain_query(ctx, target(), Query::MatchNone);
        "search" leaks engine.search(ctx, SearchRequest::new(target()));
        "search_cost" clean engine.search_cost(ctx, SearchRequest::new(target()));
        "fields_in_use" clean engine.fields_in_use(ctx, FieldsInUseRequest { target: target(), index_filter: None });
        "terms_enum" leaks engine.terms_enum(ctx, terms());
        "open_point_in_time" leaks engine.open_point_in_time(ctx, point_in_time());
        "points_in_time" clean engine.points_in_time(ctx);
        "scroll" leaks engine.scroll(ctx, ScrollRequest { id: String::new(), keep_alive: None });
        "close_contexts" clean engine.close_contexts(ctx, ContextKind::Scroll, CloseContexts::All);
        "refresh" leaks engine.refresh(ctx, target());
        "checkpoints" leaks engine.checkpoints(ctx, target());
        "flush" leaks engine.flush(ctx, target());
        "clear_cache" leaks engine.clear_cache(ctx, target());
        "force_merge" leaks engine.force_merge(ctx, force_merge());
        "purge_tenant" clean engine.purge_tenant(ctx, PurgeRequest::all_of(acme()));
        "drop_unused_of" clean engine.drop_unused_of(ctx, acme());
        "stats" leaks engine.stats(ctx, target());
        "recoveries" clean engine.recoveries(ctx, target());
        "node_stats" clean engine.node_stats(ctx);
        "source_positions" leaks engine.source_positions(ctx, "source");
        "source_position" leaks engine.source_position(ctx, "source", "partition");
        "forget_source_positions" clean engine.forget_source_positions(ctx, "source", &[]);
        "tenant_usage" leaks engine.tenant_usage(ctx);
        "analyze" clean engine.analyze(ctx, AnalyzeRequest { analyzer: Analyzer::Standard, text: Vec::new() });
        "mount_snapshot" clean engine.mounts().unwrap().mount_snapshot(ctx, mount());
        "mounted_shards" clean engine.mounts().unwrap().mounted_shards(ctx, target());
        "shared_cache_stats" clean engine.mounts().unwrap().shared_cache_stats(ctx);
        "pin_shared_cache" clean engine.mounts().unwrap().pin_shared_cache(ctx, target(), true);
        "clear_shared_cache" leaks engine.mounts().unwrap().clear_shared_cache(ctx, target());
        "devices" clean engine.tiers().unwrap().devices(ctx);
        "moves" leaks engine.tiers().unwrap().moves(ctx, target());
        "quarantined_folders" clean engine.quarantine().unwrap().quarantined_folders(ctx);
        "adopt_quarantined" clean engine.quarantine().unwrap().adopt_quarantined(ctx, "id", None);
        "remove_quarantined" clean engine.quarantine().unwrap().remove_quarantined(ctx, "id");
    }
}

fn print<T: std::fmt::Debug>(outcome: Result<T>) -> String {
    format!("{outcome:?}")
}

fn acme() -> TenantId {
    TenantId::parse("acme").unwrap()
}

fn target() -> IndexTarget {
    IndexTarget::default()
}

fn bulk() -> BulkRequest {
    BulkRequest {
        items: Vec::new(),
        refresh: Refresh::No,
        timeout: None,
        origin: None,
    }
}

fn terms() -> TermsEnumRequest {
    TermsEnumRequest::parse(target(), &json!({"field": "a"})).unwrap()
}

fn point_in_time() -> OpenPointInTime {
    OpenPointInTime {
        target: target(),
        routing: Vec::new(),
        keep_alive: Duration::ZERO,
        index_filter: None,
        allow_partial_results: true,
    }
}

fn force_merge() -> ForceMergeRequest {
    ForceMergeRequest {
        target: target(),
        max_num_segments: None,
        only_expunge_deletes: false,
        flush: true,
    }
}

fn mount() -> MountSnapshot {
    MountSnapshot {
        repository: String::new(),
        snapshot: String::new(),
        index: String::new(),
        renamed_index: None,
        storage: Storage::FullCopy,
        index_settings: json!({}),
        ignore_index_settings: Vec::new(),
    }
}

fn ctx_of(scope: Scope) -> RequestContext {
    RequestContext {
        scope: Arc::new(scope),
        action: "indices:data/read/search",
        ..RequestContext::new()
    }
}

fn as_operator() -> RequestContext {
    ctx_of(Scope::operator())
}

fn as_tenant() -> RequestContext {
    ctx_of(Scope::tenant(acme()))
}

fn answering() -> Disclosed {
    Disclosed::new(Arc::new(Leaking { error: None }))
}

fn failing(error: Error) -> Disclosed {
    Disclosed::new(Arc::new(Leaking { error: Some(error) }))
}

/// Runs a request on an engine that never waits.
fn run(mut request: Printed<'_>) -> String {
    match request.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(printed) => printed,
        Poll::Pending => panic!("the fake engine waits"),
    }
}

fn is_leak(printed: &str) -> bool {
    printed.contains(SECRET) || printed.contains(&SECRET_COUNT.to_string())
}

#[test]
fn no_answer_for_a_tenant_says_what_an_operator_may_see() {
    let engine = answering();
    for operation in operations() {
        let all = run((operation.request)(&engine, &as_operator()));
        assert_eq!(is_leak(&all), operation.is_leaking, "[{}]: {all}", operation.name);
        let own = run((operation.request)(&engine, &as_tenant()));
        assert!(!is_leak(&own), "[{}]: {own}", operation.name);
    }
}

#[test]
fn no_error_for_a_tenant_says_where_a_repository_is() {
    for kind in [ErrorKind::Unavailable, ErrorKind::Repository] {
        let engine = failing(repository_error(kind));
        for operation in operations() {
            let whole = run((operation.request)(&engine, &as_operator()));
            assert!(whole.contains(SECRET), "[{}]: {whole}", operation.name);
            let redacted = run((operation.request)(&engine, &as_tenant()));
            assert!(!redacted.contains("splits"), "[{}]: {redacted}", operation.name);
            assert!(
                redacted.contains("the snapshot repository"),
                "[{}]: {redacted}",
                operation.name
            );
        }
    }
}

#[test]
fn a_limited_scope_gets_one_error_for_missing_and_forbidden_names() {
    let engine = failing(Error::index_not_found("logs"));
    let named = ctx_of(Scope::operator().within(vec!["web".to_owned()]));
    for operation in operations() {
        let missing = run((operation.request)(&engine, &as_operator()));
        assert!(
            missing.contains("no such index [logs]"),
            "[{}]: {missing}",
            operation.name
        );
        for ctx in [&named, &as_tenant()] {
            let refused = run((operation.request)(&engine, ctx));
            let expect = "action [indices:data/read/search] is unauthorized on indices [logs]";
            assert!(refused.contains(expect), "[{}]: {refused}", operation.name);
        }
    }
}

#[test]
fn the_error_of_a_command_has_the_tenants_name_for_its_index() {
    let private = private_index_name(&acme(), "web").unwrap();
    let error = Error::illegal_argument("no").with_index(private.clone());
    let disclosed = rules::disclose_command_error(&as_tenant(), error.clone());
    assert_eq!(disclosed.index(), Some("web"));
    let disclosed = rules::disclose_command_error(&as_operator(), error);
    assert_eq!(disclosed.index(), Some(private.as_str()));
}

#[test]
fn partial_results_of_a_search_are_disclosed_as_its_answer() {
    let failures = |scope: Scope| {
        let progress = Arc::new(Progress::default());
        let ctx = RequestContext {
            progress: Some(Arc::clone(&progress)),
            ..ctx_of(scope)
        };
        run(Box::pin(async {
            print(answering().search(&ctx, SearchRequest::new(target())).await)
        }));
        format!("{:?}", progress.latest().unwrap().shards.failures)
    };
    assert!(failures(Scope::operator()).contains(SECRET));
    let redacted = failures(Scope::tenant(acme()));
    assert!(
        redacted.contains("snapshot repository") && !redacted.contains(SECRET),
        "{redacted}"
    );
}

#[test]
fn a_tenant_sees_its_documents_and_which_shards_fail() {
    let engine = answering();
    let stats = run(Box::pin(async { print(engine.stats(&as_tenant(), target()).await) }));
    for part in [
        "shard: 1",
        r#"failure: Some("the shard is not available")"#,
        "is_recovering: true",
        "doc_count: 3",
        "store_size_bytes: 5",
        "data_set_size_bytes: 7",
        "max_seq_no: -1",
    ] {
        assert!(stats.contains(part), "{part}: {stats}");
    }
    let usage = run(Box::pin(async { print(engine.tenant_usage(&as_tenant()).await) }));
    assert!(usage.contains("acme") && !usage.contains("bolt"), "{usage}");
}

#[test]
fn only_an_unlimited_scope_sees_the_quarantine() {
    let engine = answering();
    let count = |ctx: RequestContext| engine.quarantine().unwrap().quarantined_count(&ctx);
    assert_eq!(count(as_operator()), SECRET_COUNT);
    assert_eq!(count(as_tenant()), 0);
    assert_eq!(count(ctx_of(Scope::operator().within(vec!["*".to_owned()]))), 0);
}

#[test]
fn a_redacted_error_withholds_nothing_further() {
    let scope = Scope::tenant(acme());
    for kind in [ErrorKind::Unavailable, ErrorKind::Repository] {
        let error = repository_error(kind).with_index("logs");
        assert!(rules::is_withheld(&scope, &error) && !rules::is_withheld(&Scope::operator(), &error));
        let redacted = rules::disclose_error(&as_tenant(), error);
        assert_eq!((redacted.kind(), redacted.index()), (kind, Some("logs")));
        assert!(redacted.cause().is_none() && !rules::is_withheld(&scope, &redacted));
    }
    assert!(!rules::is_withheld(
        &scope,
        &repository_error(ErrorKind::IllegalArgument)
    ));
}

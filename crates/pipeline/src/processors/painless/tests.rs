//! Tests of scripts: conditions, changes, refusals, failures.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Script;
use crate::processors::Budget;
use crate::processors::failure::FailureKind;
use crate::processors::tests::document;

fn source() -> Value {
    json!({
        "a": 1, "t": "Hello World", "n": null, "b": true, "d": 1.5, "big": 12_345_678_901_i64,
        "l": [1, 2, "x"], "m": {"x": 1, "y": {"z": "deep"}}, "a.b": "dotted", "tags": ["red", "blue"]
    })
}

#[track_caller]
fn condition(script: &str, expected: bool) {
    let compiled = Script::compile(script, None).unwrap_or_else(|error| panic!("{script}: {error}"));
    let result = compiled.condition(&document(source()), &mut Budget::default());
    match result {
        Ok(result) => assert_eq!(result, expected, "{script}"),
        Err(failure) => panic!("{script}: {:?}", failure.root()),
    }
}

#[track_caller]
fn changes(script: &str, before: Value, after: Value) {
    let compiled = Script::compile(script, None).unwrap_or_else(|error| panic!("{script}: {error}"));
    let mut document = document(before);
    if let Err(failure) = compiled.run(&mut document, &mut Budget::default()) {
        panic!("{script}: {:?}", failure.root());
    }
    assert_eq!(Value::Object(document.source), after, "{script}");
}

#[track_caller]
fn fails(script: &str, kind: FailureKind, reason: &str) {
    let compiled = Script::compile(script, None).unwrap_or_else(|error| panic!("{script}: {error}"));
    let failure = compiled
        .run(&mut document(source()), &mut Budget::default())
        .unwrap_err();
    assert_eq!(
        (failure.root().kind, failure.root().reason.as_str()),
        (kind, reason),
        "{script}"
    );
}

#[track_caller]
fn refused(script: &str, reason: &str) {
    let error = Script::compile(script, None).unwrap_err();
    assert_eq!(error.reason(), "compile error", "{script}");
    assert_eq!(error.cause().map(|cause| cause.reason()), Some(reason), "{script}");
}

#[test]
fn comparisons() {
    for script in [
        "true",
        "ctx.a == 1",
        "ctx.a == 1.0",
        "ctx.a != 2 && ctx.t != null",
        "ctx.n == null && ctx.missing == null",
        "ctx.missing?.deep == null",
        "ctx.m?.y?.z == 'deep'",
        "ctx['a.b'] == \"dotted\"",
        "ctx.l[0] == 1 && ctx.l.2 == 'x' && ctx.l[-1] == 'x'",
        "ctx.d > 1 && ctx.d <= 1.5 && ctx.big >= 12345678901L",
        "!(ctx.a > 1) || false",
        "ctx.a + 1 == 2 && 7 / 2 == 3 && 7 % 4 == 3 && -ctx.a == -1",
        "7.0 / 2 == 3.5 && 2 + 3 * 4 == 14 && (2 + 3) * 4 == 20",
        "ctx.a > 0 ? ctx.b : false",
        "(ctx.missing ?: 'x') == 'x'",
        "ctx.t + 1 == 'Hello World1'",
        "'a' + null + 1.0 + true == 'anull1.0true'",
        "ctx.m == ['x': 1, 'y': ['z': 'deep']]",
        "ctx.l == [1, 2, 'x']",
        "ctx._index == 'index' && ctx._id == '1'",
    ] {
        condition(script, true);
    }
    condition("ctx.a == '1'", false);
    condition("ctx.t == 'hello world'", false);
}

#[test]
fn methods() {
    for script in [
        "ctx.t.contains('World')",
        "ctx.t.startsWith('Hello') && ctx.t.endsWith('d')",
        "ctx.t.length() == 11 && ctx.t.toLowerCase() == 'hello world' && ctx.t.toUpperCase() == 'HELLO WORLD'",
        "ctx.t.substring(6) == 'World' && ctx.t.substring(0, 5) == 'Hello'",
        "ctx.t.indexOf('o') == 4 && ctx.t.lastIndexOf('o') == 7 && ctx.t.indexOf('o', 5) == 7 && ctx.t.indexOf('?') == -1",
        "ctx.t.replace('o', '0') == 'Hell0 W0rld'",
        "ctx.t.splitOnToken(' ')[1] == 'World' && ctx.t.splitOnToken('o', 2).size() == 2",
        "' x '.trim() == 'x' && ''.isEmpty() && 'ä€😀'.length() == 4 && 'a😀b'.substring(3) == 'b'",
        "ctx.t.equals('Hello World') && 'A'.equalsIgnoreCase('a') && 'abc'.charAt(1) == 'b'",
        "ctx.tags.contains('red') && !ctx.tags.contains('green') && ctx.tags.size() == 2 && ctx.tags.length == 2",
        "ctx.containsKey('a') && !ctx.containsKey('zz') && ctx.m.containsKey('x')",
        "ctx.m.get('x') == 1 && ctx.m.getOrDefault('zz', 5) == 5 && ctx.m.keySet().contains('y') && ctx.m.size() == 2",
        "ctx.t instanceof String && ctx.l instanceof List && ctx.m instanceof Map && ctx.a instanceof Integer",
        "!(ctx.big instanceof Integer) && ctx.big instanceof Long && ctx.d instanceof Double && !(ctx.n instanceof String)",
        "ctx.t =~ /W.r/ && ctx.t ==~ /hello.*/i && !(ctx.t ==~ /World/)",
        "ctx.missing?.contains('x') == null",
        "Integer.parseInt('12') == 12 && Math.max(1, 2) == 2 && String.valueOf(1) == '1' && String.join('-', ctx.tags) == 'red-blue'",
        "(int) 1.9 == 1 && (double) 1 / 2 == 0.5 && Math.round(1.5) == 2 && Math.floor(1.5) == 1.0",
        "'/'.contains('/') && 4 / 2 / 1 == 2",
        "field('a.b').get('') == 'dotted' && field('m.y.z').get(null) == 'deep' && field('no.such').get(7) == 7",
        "$('m.x', 0) == 1 && $('n', 'none') == 'none' && $('a.b.c', null) == null",
    ] {
        condition(script, true);
    }
}

#[test]
fn statements() {
    condition("if (ctx.a == 1) { return true } return false", true);
    condition("def x = ctx.a; x += 2; return x == 3;", true);
    condition(
        "for (t in ctx.tags) { if (t == 'blue') { return true; } } return false;",
        true,
    );
    condition(
        "int sum = 0; for (int i = 0; i < 5; i++) { if (i == 3) continue; sum += i } sum == 7",
        true,
    );
    condition(
        "int i = 0; while (true) { i++; if (i == 4) break; } /* note */ i == 4 // end",
        true,
    );
    condition(
        "if (ctx.a == 2) return true; else if (ctx.a == 1) return true; else return false",
        true,
    );
    condition(
        "List<String> l = new ArrayList(); l.add('x'); Map<String, Object> m = [:]; m.k = l; m.k[0] == 'x'",
        true,
    );
}

#[test]
fn changes_of_the_document() {
    changes("ctx.a = 1", json!({}), json!({"a": 1}));
    changes(
        "ctx.a.b = 'x'; ctx['c.d'] = [1]",
        json!({"a": {}}),
        json!({"a": {"b": "x"}, "c.d": [1]}),
    );
    changes(
        "ctx.a++; ++ctx.a; ctx.b = ctx.a--",
        json!({"a": 1}),
        json!({"a": 2, "b": 3}),
    );
    changes(
        "ctx.l.add(3); ctx.l.remove(0); ctx.l[0] = 9",
        json!({"l": [1, 2]}),
        json!({"l": [9, 3]}),
    );
    changes(
        "ctx.l.add(0, 'first'); ctx.l.addAll(['y', 'z'])",
        json!({"l": [1]}),
        json!({"l": ["first", 1, "y", "z"]}),
    );
    changes(
        "ctx.remove('a'); ctx.m.remove('x')",
        json!({"a": 1, "m": {"x": 1}}),
        json!({"m": {}}),
    );
    changes(
        "ctx.m.put('k', ['n': 1]); ctx.putIfAbsent('a', 5)",
        json!({"m": {}, "a": 1}),
        json!({"m": {"k": {"n": 1}}, "a": 1}),
    );
    // A variable and the document are one list.
    changes(
        "def l = ctx.l; l.add(2); def m = ctx.m; m.x = l.size()",
        json!({"l": [1], "m": {}}),
        json!({"l": [1, 2], "m": {"x": 2}}),
    );
    changes(
        "for (entry in ctx.m.entrySet()) { ctx[entry.getKey() + '_copy'] = entry.getValue() }",
        json!({"m": {"a": 1, "b": 2}}),
        json!({"m": {"a": 1, "b": 2}, "a_copy": 1, "b_copy": 2}),
    );
    changes(
        "for (String key : ctx.keySet()) { if (key.startsWith('x')) { ctx.remove(key) } }",
        json!({"x1": 1, "y": 2, "x2": 3}),
        json!({"y": 2}),
    );
    changes(
        "if (ctx.a == null) { ctx.a = []; } ctx.a.add('t')",
        json!({}),
        json!({"a": ["t"]}),
    );
    changes(
        "for (x in ctx.l) { ctx.l.add(x) }",
        json!({"l": [1, 2]}),
        json!({"l": [1, 2, 1, 2]}),
    );
}

#[test]
fn refusals() {
    refused("ctx.a.foo()", "[method foo/0] is not implemented by firn");
    refused("ctx.l.removeIf(x -> x == 1)", "[->] is not implemented by firn");
    refused("x == 1", "cannot resolve symbol [x]");
    refused("System.exit(1)", "[System.exit] is not implemented by firn");
    refused("doc('a')", "[function doc] is not implemented by firn");
    refused("field('a')", "expected ['.'] but found [<EOF>].");
    refused("metadata().index", "[function metadata] is not implemented by firn");
    refused("try { } catch (Exception e) { }", "[try] is not implemented by firn");
    refused("ctx.a == ", "unexpected token [<EOF>].");
    refused("ctx.a = 'x", "unterminated string");
    refused("if (ctx.a", "expected [')'] but found [<EOF>].");
    refused("1 = 2", "invalid assignment: cannot assign a value to this expression");
    refused("def x = 1; def x = 2;", "variable [x] is already defined");
    refused(
        "ctx.t ==~ ctx.a",
        "[a regular expression that is no constant] is not implemented by firn",
    );
    refused("ctx.a == 1 ctx.b", "unexpected token [ctx].");
}

#[test]
fn deep_scripts_are_refused() {
    for script in [
        "(".repeat(10_000),
        "!".repeat(10_000),
        "[".repeat(10_000),
        "if (true) ".repeat(1000),
        "ctx.a = ".repeat(3000),
        format!("1{}", "+1".repeat(20_000)),
        format!("ctx{}", ".a".repeat(20_000)),
        "true ? ".repeat(3000),
    ] {
        assert!(Script::compile(&script, None).is_err(), "{}", &script[..20]);
    }
    assert!(Script::compile(&" ".repeat(70_000), None).is_err());
}

#[test]
fn failures() {
    let null = "cannot access method/field [b] from a null def reference";
    fails("ctx.missing.b", FailureKind::NullPointer, null);
    let null = "cannot access method/field [contains] from a null def reference";
    fails("ctx.missing.contains('x')", FailureKind::NullPointer, null);
    fails("1 / 0", FailureKind::Arithmetic, "/ by zero");
    fails(
        "ctx.l[7]",
        FailureKind::IndexOutOfBounds,
        "Index 7 out of bounds for length 3",
    );
    fails(
        "'abc'.substring(5)",
        FailureKind::IndexOutOfBounds,
        "begin 5, end 3, length 3",
    );
    fails(
        "Integer.parseInt('x')",
        FailureKind::NumberFormat,
        "For input string: \"x\"",
    );
    let cast = "Cannot apply [<] operation to types [java.lang.String] and [java.lang.Integer].";
    fails("ctx.t < 1", FailureKind::ClassCast, cast);
    fails(
        "if (ctx.t) { }",
        FailureKind::ClassCast,
        "Cannot cast java.lang.String to java.lang.Boolean",
    );
    let size = "dynamic method [java.lang.String, size/0] not found";
    fails("ctx.t.size()", FailureKind::IllegalArgument, size);
    let index = "_index [1] is wrong type, expected assignable to [java.lang.String], not [java.lang.Integer]";
    fails("ctx._index = 1", FailureKind::IllegalArgument, index);
    let nan = "JSON has no number [NaN]";
    fails("ctx.x = 0.0 / 0.0", FailureKind::IllegalArgument, nan);
    fails(
        "params.x = 1",
        FailureKind::UnsupportedOperation,
        "the ingest document and params cannot be changed here",
    );
}

#[test]
fn a_condition_changes_nothing() {
    let script = Script::compile("ctx.a = 2; return true", None).unwrap();
    let failure = script
        .condition(&document(source()), &mut Budget::default())
        .unwrap_err();
    assert_eq!(failure.root().kind, FailureKind::UnsupportedOperation);
}

#[test]
fn endless_scripts_end() {
    for script in [
        "while (true) { }",
        "for (;;) { ctx.x = 1 }",
        "def s = 'x'; while (true) { s += s }",
        "def l = []; while (true) { l.add(l) }",
        "def l = []; while (true) { l = [l] }",
        "def l = [1]; while (true) { l.addAll(l) }",
        "def s = 'aaaaaaaaaa'; while (true) { s = s.replace('a', 'aaaaaaaaaa') }",
        "while (true) { ctx.m = ctx.keySet() }",
        "ctx.x = ctx.m; while (true) { ctx.x.y = ctx.x }",
    ] {
        let compiled = Script::compile(script, None).unwrap();
        let mut budget = Budget {
            steps: 100_000,
            output_bytes: 8 << 20,
        };
        let failure = compiled.run(&mut document(source()), &mut budget).unwrap_err();
        let is_end = failure.kind == FailureKind::BudgetExceeded || failure.root().reason.contains("nests deeper");
        assert!(is_end, "{script}: {:?}", failure.root());
    }
}

#[test]
fn a_mistake_has_its_position() {
    let error = Script::compile("ctx.a == 1 && ?", None).unwrap_err();
    let details = error.details().unwrap();
    assert_eq!(details["position"]["offset"], json!(14));
    assert_eq!(
        details["script_stack"],
        json!(["ctx.a == 1 && ?", "              ^---- HERE"])
    );
    assert_eq!(details["lang"], json!("painless"));
}

proptest! {
    /// Texts of a script's words never panic, neither parsed nor run.
    #[test]
    fn nothing_panics(words in prop::collection::vec(prop::sample::select(vec![
        "ctx", ".", "?.", "a", "l", "m", "t", "=", "==", "+", "-", "*", "/", "%", "(", ")", "[", "]", "{", "}", "if", "else",
        "for", "in", "while", "return", "def", "x", ";", ",", ":", "?", "!", "&&", "||", "1", "2.5", "'s'", "/r/", "=~",
        "instanceof", "String", "List", "int", "new", "ArrayList", "size", "add", "get", "substring", "length", "++", "null",
        "true", "params", "remove", "keySet", "é", "\"", "0x",
    ]), 0..30)) {
        let script = words.join(" ");
        if let Ok(compiled) = Script::compile(&script, None) {
            let mut budget = Budget { steps: 10_000, output_bytes: 1 << 20 };
            let _ = compiled.run(&mut document(source()), &mut budget);
        }
    }

    /// Sums and products are those of Rust.
    #[test]
    fn arithmetic(a in -1000_i64..1000, b in -1000_i64..1000, c in 1_i64..50) {
        let expected = a + b * c - a / c % 7;
        condition(&format!("{a} + {b} * {c} - {a} / {c} % 7 == {expected}"), true);
    }
}

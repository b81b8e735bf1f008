//! Tests of scripts: results, refusals, and robustness against arbitrary input.

use firn_model::ErrorKind;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const VALUES: [f64; 4] = [1.0, 2.0, f64::NAN, 6.0];

fn scope() -> Scope<'static> {
    Scope {
        variables: &[
            ("a", Some(8.0)),
            ("b", Some(0.5)),
            ("none", None),
            ("_value", Some(3.0)),
        ],
        values: &VALUES,
    }
}

fn run(source: &str, lang: Lang) -> Result<Value> {
    let mut script = Script::compile(source, lang)?;
    script.params = json!({"i": 7, "f": 2.5, "flag": true, "text": "x", "a": 1000})
        .as_object()
        .unwrap()
        .clone();
    Ok(script.run(&scope(), &mut Steps::default())?.unwrap_or(Value::Null))
}

fn check(source: &str, expected: Value) {
    let value = run(source, Lang::Painless).unwrap_or_else(|error| panic!("{source}: {error}"));
    match (value, expected) {
        (Value::Float(left), Value::Float(right)) if left.is_nan() && right.is_nan() => {}
        (Value::Float(left), Value::Float(right)) => {
            assert!(
                left == right || (left - right).abs() < 1e-9,
                "{source}: {left} not {right}"
            )
        }
        (left, right) => assert_eq!(left, right, "{source}"),
    }
}

fn check_expression(source: &str, expected: f64) {
    let script = Script::compile(source, Lang::Expression).unwrap_or_else(|error| panic!("{source}: {error}"));
    assert_eq!(
        script.number(&scope(), &mut Steps::default()).unwrap(),
        Some(expected),
        "{source}"
    );
}

/// Checks that a source fails at this byte for this reason.
fn check_fails(source: &str, what: &str, at: u64, reason: &str) {
    let error = run(source, Lang::Painless).expect_err(source);
    assert_eq!(error.kind(), ErrorKind::Script, "{source}");
    assert_eq!(error.reason(), what, "{source}");
    assert_eq!(error.cause().unwrap().reason(), reason, "{source}");
    assert_eq!(error.details().unwrap()["position"]["offset"], at, "{source}");
}

#[test]
fn arithmetic() {
    check("1 + 2 * 3", Value::Int(7));
    check("(1 + 2) * 3 - -1", Value::Int(10));
    check("7 / 2", Value::Int(3));
    check("7 / 2.0", Value::Float(3.5));
    check("(double) 7 / 2", Value::Float(3.5));
    check("(long) 7.9 % 4", Value::Int(3));
    check("params.a / params.b", Value::Float(16.0));
    check("params['i'] * params.f", Value::Float(17.5));
    check("1e2 + .5 + 2L + 1f", Value::Float(103.5));
    check("1.0 / 0", Value::Float(f64::INFINITY));
    check("params._value", Value::Float(3.0));
    check("9223372036854775807 + 1", Value::Int(i64::MIN));
}

#[test]
fn logic() {
    check("params.a > 3 && !(params.b >= 1)", Value::Bool(true));
    check("1 == 1.0 && 1 != 2", Value::Bool(true));
    check("false || params.flag", Value::Bool(true));
    // The right side is not evaluated.
    check("true || params.none > 1", Value::Bool(true));
    check("params.none == null", Value::Bool(true));
    check("params.unknown != null", Value::Bool(false));
    check("params.none == null ? 0 : params.none", Value::Int(0));
    check("params.none ?: 5", Value::Int(5));
    check("1 < 2 ? 3 < 4 ? 5 : 6 : 7", Value::Int(5));
    check("Double.NaN > 1", Value::Bool(false));
}

#[test]
fn statements() {
    check("return params.a;", Value::Float(8.0));
    check(
        "def x = params.a; double y = x * 2; x = y + 1; return x",
        Value::Float(17.0),
    );
    check("if (params.none == null) { return 1 } return 2", Value::Int(1));
    check(
        "if (params.a < 1) return 1; else if (params.a < 9) { return 2; } else { return 3; }",
        Value::Int(2),
    );
    check("if (params.a < 1) { return 1 }", Value::Null);
    check("// why\n 1 /* and */ + 1", Value::Int(2));
}

#[test]
fn no_result_is_a_default() {
    let script = Script::compile("if (false) { return 1 }", Lang::Painless).unwrap();
    let steps = &mut Steps::default();
    assert_eq!(script.number(&scope(), steps).unwrap(), None);
    assert_eq!(script.double(&scope(), steps).unwrap(), 0.0);
    assert!(!script.boolean(&scope(), steps).unwrap());
    let null = Script::compile("return null", Lang::Painless).unwrap();
    assert!(null.double(&scope(), steps).is_err());
}

#[test]
fn functions() {
    check("Math.max(params.a, 1) + Math.abs(-2)", Value::Float(10.0));
    check("Math.round(2.5)", Value::Int(3));
    check(
        "Math.pow(2, 10) + Math.sqrt(16) + Math.log10(100)",
        Value::Float(1030.0),
    );
    check("Math.floor(Math.PI)", Value::Float(3.0));
    check("Double.isNaN(values[2])", Value::Bool(true));
    check("values.length", Value::Int(4));
    check("values[-1] - values[0]", Value::Float(5.0));
}

#[test]
fn moving_functions() {
    check("MovingFunctions.max(values)", Value::Float(f64::NAN));
    check("MovingFunctions.unweightedAvg(values)", Value::Float(3.0));
    check(
        "MovingFunctions.stdDev(values, MovingFunctions.unweightedAvg(values))",
        Value::Float((14.0_f64 / 3.0).sqrt()),
    );
    check(
        "MovingFunctions.linearWeightedAvg(values)",
        Value::Float((1.0 + 4.0 + 18.0) / 7.0),
    );
    check("MovingFunctions.ewma(values, 0.5)", Value::Float(3.75));
    // Levels 1, 1.5, 3.875; trends 0, 0.25.
    check("MovingFunctions.holt(values, 0.5, 0.5)", Value::Float(3.875));
    let of = |source: &str, values: &[f64]| {
        let scope = Scope {
            values,
            ..Scope::default()
        };
        let script = Script::compile(source, Lang::Painless).unwrap();
        script.number(&scope, &mut Steps::default()).map(Option::unwrap)
    };
    assert_eq!(of("MovingFunctions.min(values)", &[3.0, 1.0]).unwrap(), 1.0);
    assert_eq!(of("MovingFunctions.sum(values)", &[]).unwrap(), 0.0);
    for source in [
        "max(values)",
        "unweightedAvg(values)",
        "linearWeightedAvg(values)",
        "ewma(values, 1)",
        "holt(values, 1, 1)",
    ] {
        assert!(
            of(&format!("MovingFunctions.{source}"), &[]).unwrap().is_nan(),
            "{source}"
        );
    }
    let season = "MovingFunctions.holtWinters(values, 0.5, 0.5, 0.5, 2, false)";
    assert_eq!(of(season, &[0.0; 4]).unwrap(), 0.0);
    let steady = "MovingFunctions.holtWinters(values, 0.5, 0.5, 0.5, 2, true)";
    assert!((of(steady, &[1.0, 3.0, 1.0, 3.0, 1.0, 3.0]).unwrap() - 1.0).abs() < 1e-6);
    let error = of(season, &[1.0; 3]).unwrap_err();
    assert!(
        error.to_string().contains("(2 * period == 2 * 2 == 4) data-points"),
        "{error}"
    );
}

#[test]
fn expressions_of_lucene() {
    check_expression("a / 5", 1.6);
    check_expression("max(a, 2) + ln(1) - _value", 5.0);
    check_expression("a > 1 && b < 1", 1.0);
    check_expression("(a > 1) * 3 + 7 / 2", 6.5);
    check_expression("a > 100 ? 1 : sqrt(16)", 4.0);
    let selector = Script::compile("b", Lang::Expression).unwrap();
    assert!(selector.boolean(&scope(), &mut Steps::default()).unwrap());
    for source in ["foo(1)", "a; b", "return a", "params.a", "abs(1, 2)"] {
        assert!(Script::compile(source, Lang::Expression).is_err(), "{source}");
    }
    assert!(run("unknown + 1", Lang::Expression).is_err());
}

#[test]
fn refuses_with_the_position() {
    let compile = "compile error";
    check_fails("1 +", compile, 3, "unexpected end of script.");
    check_fails("", compile, 0, "unexpected end of script.");
    check_fails("1 + * 2", compile, 4, "unexpected token ['*'] was encountered.");
    check_fails("(1 + 2", compile, 6, "unexpected end of script. expected [')']");
    check_fails("params.a + b", compile, 11, "cannot resolve symbol [b]");
    check_fails("Math.foo(1)", compile, 0, "static method [Math, foo/1] not found");
    check_fails("Math.max(1)", compile, 0, "static method [Math, max/1] not found");
    check_fails("while (true) {}", compile, 0, "cannot resolve symbol [while]");
    check_fails("doc['a'].value", compile, 0, "cannot resolve symbol [doc]");
    check_fails("1; 2", compile, 0, "not a statement: result not used");
    check_fails("x = 1", compile, 0, "variable [x] is not defined");
    check_fails("1 # 2", compile, 2, "unexpected character [#].");
    check_fails("'open", compile, 0, "unterminated string");
    check_fails("12abc", compile, 0, "invalid number");
    check_fails(
        "params",
        compile,
        6,
        "[params] must be followed by the name of a parameter",
    );
    check_fails(
        "MovingFunctions.max(1)",
        compile,
        20,
        "the first argument of [MovingFunctions.max] must be [values]",
    );
    let runtime = "runtime error";
    check_fails(
        "params.none + 1",
        runtime,
        6,
        "cannot use null as a number: null pointer",
    );
    check_fails(
        "1 + params.text",
        runtime,
        10,
        "parameter [text] is neither a number nor a boolean",
    );
    check_fails("1 / 0", runtime, 2, "/ by zero");
    check_fails("1 && true", runtime, 0, "Cannot cast from [long] to [boolean].");
    check_fails("values[9]", runtime, 7, "Index 9 out of bounds for length 4");
}

#[test]
fn errors_have_the_shape_of_elasticsearch() {
    let error = Script::compile("params.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa +* 1", Lang::Painless).unwrap_err();
    assert_eq!(
        serde_json::Value::Object(error.details().unwrap().clone()),
        json!({
            "script_stack": ["... aaaaaaaaaaaaaaaaaaaaaaa +* 1", "                             ^---- HERE"],
            "script": "params.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa +* 1",
            "lang": "painless",
            "position": {"offset": 40, "start": 15, "end": 43}
        })
    );
}

#[test]
fn scripts_parse_and_print() {
    let round = |script: Json| {
        let parsed = Script::parse(&script).unwrap();
        assert_eq!(Script::parse(&parsed.print()).unwrap(), parsed);
    };
    round(json!("params.a > 1"));
    round(json!({"source": "a * 2", "lang": "expression"}));
    round(json!({"inline": "params.a * params.x", "params": {"x": 2}}));
    let refused = |script: Json, reason: &str| assert_eq!(Script::parse(&script).unwrap_err().reason(), reason);
    refused(
        json!({"id": "mine"}),
        "the stored script [mine] is not implemented by firn",
    );
    refused(
        json!({"source": "1", "lang": "groovy"}),
        "script_lang not supported [groovy]",
    );
    refused(json!({"source": "1", "foo": 1}), "[script] unknown field [foo]");
    refused(
        json!({"source": 1}),
        "[script] source doesn't support values of type: VALUE_NUMBER",
    );
    refused(
        json!({}),
        "must specify either [source] for an inline script or [id] for a stored script",
    );
}

#[test]
fn everything_is_bounded() {
    for source in [
        "(".repeat(100_000),
        "(".repeat(20_000),
        "-".repeat(20_000) + "1",
        "1".to_owned() + &"+1".repeat(20_000),
        "1".to_owned() + &" ? 1 : 1".repeat(5_000),
        "if (true) ".repeat(5_000) + "1",
    ] {
        assert!(Script::compile(&source, Lang::Painless).is_err(), "{}", &source[..20]);
    }
    let script = Script::compile("MovingFunctions.sum(values)", Lang::Painless).unwrap();
    let scope = Scope {
        values: &[1.0; 100],
        ..Scope::default()
    };
    let steps = &mut Steps::new(1000);
    let runs = (0..100).take_while(|_| script.run(&scope, steps).is_ok()).count();
    assert_eq!(runs, 9);
}

proptest! {
    #[test]
    fn no_source_panics(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "1", "2.5", "params", ".a", "['b']", "values", "[", "]", "(", ")", "+", "-", "*", "/", "%", "<", "==", "&&",
                "!", "?", ":", "?:", "Math.max", "MovingFunctions.ewma", ",", "null", "true", "return ", "if", "{", "}", ";",
                "def x", "=", "x", " ", "é", "'", "(double)",
            ]),
            0..12,
        )
    ) {
        let source = parts.concat();
        for lang in [Lang::Painless, Lang::Expression] {
            let _ = run(&source, lang);
        }
    }
}

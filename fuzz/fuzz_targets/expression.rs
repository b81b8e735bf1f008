//! Fuzz target: no script makes the expression language panic, and each ends within its step limit.
#![no_main]

use firn_query::expression::{Lang, Scope, Script, Steps};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(source) = std::str::from_utf8(data) else { return };
    let variables = [("a", Some(1.5)), ("b", None), ("_value", Some(-3.0))];
    let scope = Scope { variables: &variables, values: &[1.0, -2.0, f64::NAN, 4.0] };
    for lang in [Lang::Painless, Lang::Expression] {
        let Ok(script) = Script::compile(source, lang) else { continue };
        assert_eq!(Script::parse(&script.print()).ok().as_ref(), Some(&script));
        let _ = script.run(&scope, &mut Steps::new(100_000));
        let _ = script.number(&scope, &mut Steps::new(100_000));
        let _ = script.boolean(&scope, &mut Steps::new(100_000));
    }
});

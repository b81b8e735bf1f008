//! Reference of all settings, for the manual and for `--help`.

use std::fmt::Write;

use super::accepted::WITHOUT_EFFECT;
use super::definitions::{DEFINITIONS, DefaultValue, Definition, Kind, environment_name};

/// Returns the text of `docs/operate/settings.md`.
pub(crate) fn markdown() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         <!-- Printed by `firn settings --markdown` from crates/firn/src/settings/definitions.rs; a test compares. -->\n\n\
         Set a setting in a YAML file (`firn serve -c firn.yml`, nested or with dotted names, `${NAME:default}` \
         reads a variable), as an environment variable, or on the command line (`-E name=value`). Later sources win: \
         default, file, environment, `-E`, flag. A name that neither firn nor Elasticsearch knows stops the start with a suggestion.\n",
    );
    for_each_section(|section, definitions| {
        let _ = write!(
            page,
            "\n## {section}\n\n| setting | default | values | description |\n| --- | --- | --- | --- |\n"
        );
        for definition in definitions {
            let default = match definition.default {
                DefaultValue::Fixed(text) => format!("`{text}`"),
                DefaultValue::Derived(text) => text.to_owned(),
            };
            let variable = match definition.kind {
                Kind::Secret => "[keystore](security.md#the-keystore) only".to_owned(),
                _ if definition.is_family() => "no variable".to_owned(),
                _ => format!("`{}`", environment_name(definition.name)),
            };
            let _ = writeln!(
                page,
                "| `{}`<br>{variable} | {default} | {} | {} |",
                definition.name,
                definition.kind.unit(),
                definition.help
            );
        }
    });
    page.push_str(
        "\n## Without effect\n\nfirn accepts these Elasticsearch settings, so that it starts with the `elasticsearch.yml` of another server. \
         Each causes a warning in the log. A name with `*` stands for all names with this prefix. Settings that restrict access and that \
         firn does not have (client certificates, IP filters, FIPS mode) stop the start instead.\n\n\
         | settings | why |\n| --- | --- |\n",
    );
    for group in WITHOUT_EFFECT {
        let names: Vec<String> = group.names.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(page, "| {} | {} |", names.join(", "), group.why);
    }
    page
}

/// Returns the settings section of `firn serve --help`, which `firn settings` prints too.
pub(crate) fn help() -> String {
    let mut text = String::from(
        "Settings (in the file of -c, as -E name=value, or as FIRN_HTTP_PORT for http.port; `firn settings --markdown` \
         has the whole reference):\n",
    );
    for_each_section(|section, definitions| {
        let _ = writeln!(text, "\n  {section}");
        for definition in definitions {
            let default = match definition.default {
                DefaultValue::Fixed(default) | DefaultValue::Derived(default) => default,
            };
            let _ = writeln!(
                text,
                "    {}  [{}] [default: {default}]\n        {}",
                definition.name,
                definition.kind.unit(),
                definition.help
            );
        }
    });
    text
}

fn for_each_section(mut print: impl FnMut(&str, &[Definition])) {
    for definitions in DEFINITIONS.chunk_by(|left, right| left.section == right.section) {
        print(definitions[0].section, definitions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE_DOCS=1 cargo test -p firn settings_page` writes the page again.
    #[test]
    fn settings_page_is_in_step() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/settings.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
            std::fs::write(&path, markdown()).expect("a written page");
        }
        let page = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            page,
            markdown(),
            "run `firn settings --markdown > docs/operate/settings.md`"
        );
    }

    #[test]
    fn every_setting_is_in_the_help() {
        let help = help();
        assert!(DEFINITIONS.iter().all(|definition| help.contains(definition.name)));
    }
}

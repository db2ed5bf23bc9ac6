//! The program's own documentation: help, manual, completions, and the table of CONFIGURATION.md.

use std::path::Path;

use crate::fixture::Platform;

const WORDS: [&str; 10] =
    ["up", "serve", "migrate", "check", "config", "token", "demo", "completions", "man", "help"];

#[test]
fn help_names_every_command_and_what_to_do_first() {
    for asked in [&["help"][..], &["--help"]] {
        let help = Platform::new().run(asked);
        help.succeeded();
        for word in WORDS {
            assert!(help.out.contains(&format!("\n  {word} ")), "{word} in {}", help.out);
        }
        for hint in ["platform ready", "platform demo", "PLATFORM_DATA_DIR", "certs/ca.pem", "Exit codes: 0"]
        {
            assert!(help.out.contains(hint), "{hint} in {}", help.out);
        }
    }
    for word in WORDS.into_iter().filter(|word| *word != "help") {
        let help = Platform::new().run(&["help", word]);
        help.succeeded();
        assert!(help.out.contains(&format!("platform {word}")), "{}", help.out);
    }
}

#[test]
fn the_manual_is_a_page_with_a_section_for_every_command() {
    let page = Platform::new().run(&["man"]);
    page.succeeded();
    assert!(page.out.contains(".TH platform 1"), "{}", page.out);
    for word in WORDS.into_iter().filter(|word| *word != "help") {
        assert!(
            page.out.contains(&format!(".SH \"PLATFORM {}\"", word.to_uppercase())),
            "{word} in {}",
            page.out
        );
    }
}

#[test]
fn completions_are_made_for_three_shells_and_refused_for_others() {
    for (shell, mark) in
        [("bash", "complete -F _platform"), ("zsh", "#compdef platform"), ("fish", "complete -c platform")]
    {
        let made = Platform::new().run(&["completions", shell]);
        made.succeeded();
        assert!(made.out.contains(mark), "{shell}: {}", made.out);
        assert!(made.out.contains("completions") && made.out.contains("demo"), "{shell}: {}", made.out);
    }
    Platform::new().run(&["completions", "cmd"]).refused(&["cmd", "bash", "zsh", "fish"]);
}

#[test]
fn configuration_md_has_the_programs_own_table_of_variables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../CONFIGURATION.md");
    let document = std::fs::read_to_string(path).expect("CONFIGURATION.md");
    let table = document.split("<!-- variables -->\n").nth(1).and_then(|rest| rest.split("<!-- end").next());
    let made = Platform::new().run(&["config", "--markdown"]);
    made.succeeded();
    assert!(made.out.contains("| `PLATFORM_DATA_DIR` | `./.platform` |"), "{}", made.out);
    assert_eq!(table, Some(made.out.as_str()), "renew it: cargo xtask config");
}

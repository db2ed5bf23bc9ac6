//! Names and numbers of migration files: `NNNN_description.sql`, numbered from 0001 without gaps or duplicates.

use super::{Finding, MAX_FILES, Rule};

/// All problems with the file names of one `migrations/` folder.
pub(super) fn check(names: &[&str]) -> Vec<Finding> {
    let finding =
        |name: &str, rule, message: String| Finding { file: name.to_owned(), place: None, rule, message };
    if names.len() > MAX_FILES {
        return vec![finding("migrations", Rule::Size, format!("at most {MAX_FILES} files"))];
    }
    let mut findings = Vec::new();
    let mut numbered = Vec::new();
    for name in names {
        match number(name) {
            Some(number) => numbered.push((number, *name)),
            None => findings.push(finding(
                name,
                Rule::FileName,
                "a file is named NNNN_description.sql, the description in lower-case letters, digits and _"
                    .to_owned(),
            )),
        }
    }
    numbered.sort_unstable();
    let wrong = (1_u16..).zip(&numbered).find(|(expected, (number, _))| expected != number);
    // Only the first wrong number: the later ones are wrong for the same reason.
    findings.extend(wrong.map(|(expected, (number, name))| {
        finding(name, Rule::Numbering, format!("{number:04} stands where {expected:04} should"))
    }));
    findings
}

/// The number of a well-formed name.
fn number(name: &str) -> Option<u16> {
    let (digits, rest) = name.split_at_checked(4)?;
    let description = rest.strip_prefix('_')?.strip_suffix(".sql")?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let fits = (1..=100).contains(&description.len()) && description.bytes().all(plain);
    let numeric = digits.bytes().all(|byte| byte.is_ascii_digit());
    if fits && numeric { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(names: &[&str]) -> Vec<(String, Rule)> {
        check(names).into_iter().map(|finding| (finding.file, finding.rule)).collect()
    }

    #[test]
    fn files_are_numbered_from_one_without_a_gap() {
        assert!(rules(&["0001_a.sql", "0002_b_2.sql", "0003_c.sql"]).is_empty());
        assert!(rules(&["0002_b.sql", "0001_a.sql"]).is_empty(), "the order of a listing does not count");
        assert_eq!(rules(&["0001_a.sql", "0003_c.sql"]), [("0003_c.sql".to_owned(), Rule::Numbering)]);
        assert_eq!(rules(&["0002_b.sql"]), [("0002_b.sql".to_owned(), Rule::Numbering)]);
        assert_eq!(rules(&["0000_a.sql"]), [("0000_a.sql".to_owned(), Rule::Numbering)]);
        assert_eq!(rules(&["0001_a.sql", "0001_b.sql"]), [("0001_b.sql".to_owned(), Rule::Numbering)]);
    }

    #[test]
    fn a_name_is_a_number_and_a_description() {
        let long = format!("0001_{}.sql", "a".repeat(101));
        for bad in [
            "1_a.sql",
            "00001_a.sql",
            "0001-a.sql",
            "0001_.sql",
            "0001_a",
            "0001_A.sql",
            "0001_a.up.sql",
            "0001_ä.sql",
            "README.md",
            "",
            "ää",
            "+001_a.sql",
            &long,
        ] {
            assert_eq!(rules(&[bad]), [(bad.to_owned(), Rule::FileName)], "{bad}");
        }
        assert!(rules(&[&format!("0001_{}.sql", "a".repeat(100))]).is_empty());
    }
}

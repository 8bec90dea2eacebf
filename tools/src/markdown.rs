//! The tables in the pages of this repository that tools write and read.

use anyhow::Context as _;

/// Finds a number in a table: the row by its first cells, the column by the start of its name.
///
/// # Errors
///
/// If there is none; the message ends with `advice`.
pub fn number(text: &str, row: &[&str], column: &str, advice: &str) -> anyhow::Result<f64> {
    let mut header: Vec<&str> = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if cells.iter().any(|name| name.starts_with(column)) {
            header = cells;
        } else if cells.get(1..).is_some_and(|cells| cells.starts_with(row)) {
            let at = header.iter().position(|name| name.starts_with(column));
            if let Some(number) = at.and_then(|at| cells.get(at)?.parse().ok()) {
                return Ok(number);
            }
        }
    }
    let row = row.join(" ");
    anyhow::bail!("the table has no {column} of {row}; {advice}")
}

/// Returns a page with what stands between the marks `<!-- name -->` and `<!-- /name -->` replaced.
///
/// # Errors
///
/// If it has no such marks.
pub fn replaced(page: &str, name: &str, table: &str) -> anyhow::Result<String> {
    let marks = [format!("<!-- {name} -->\n"), format!("<!-- /{name} -->\n")];
    let parts = page.split_once(&marks[0]).and_then(|(head, rest)| {
        let (_, tail) = rest.split_once(&marks[1])?;
        Some([head, &marks[0], table, &marks[1], tail].concat())
    });
    parts.with_context(|| format!("it lacks the marks {marks:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_name() {
        let text = "| core | matrix, keys |\n|---|---|\n| a | 4.5 |\n\n| model | core | cycles | code |\n\
                    |---|---|---|---|\n| m | a | 70 | 9 |\n";
        let find = |row: &[&str], column| number(text, row, column, "run tools/bench --update");
        assert!((find(&["a"], "matrix").unwrap() - 4.5).abs() < 1e-9);
        assert!((find(&["m", "a"], "cycles").unwrap() - 70.0).abs() < 1e-9);
        let error = find(&["m", "b"], "cycles").unwrap_err().to_string();
        assert_eq!(
            error,
            "the table has no cycles of m b; run tools/bench --update"
        );
    }

    #[test]
    fn a_table_is_replaced_between_its_marks() {
        let page = "a\n<!-- t -->\nold\n<!-- /t -->\nb\n";
        let new = replaced(page, "t", "new\n").unwrap();
        assert_eq!(new, "a\n<!-- t -->\nnew\n<!-- /t -->\nb\n");
        assert!(replaced(page, "u", "new\n").is_err());
    }
}

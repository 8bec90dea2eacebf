//! Pieces of HTML.

/// Replaces what HTML would read as markup.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Writes a table; the first row is its head, and all cells are escaped.
#[must_use]
pub fn table(rows: &[Vec<String>]) -> String {
    let row = |cells: &[String], tag: &str| {
        let cells: String = cells
            .iter()
            .map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)))
            .collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = rows
        .iter()
        .enumerate()
        .map(|(i, cells)| row(cells, if i == 0 { "th" } else { "td" }))
        .collect();
    format!("<table>\n{body}</table>\n")
}

/// Writes a page of sections, each with a heading and a body that is HTML already.
#[must_use]
pub fn page(title: &str, sections: &[(&str, String)]) -> String {
    const STYLE: &str = "body{font:15px sans-serif;max-width:70em;margin:2em auto;padding:0 1em}\
        table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:2px 8px;text-align:left}\
        pre{background:#f4f4f4;padding:8px;white-space:pre-wrap}svg{max-width:100%;height:auto}\
        .wide{overflow-x:auto}.wide svg{max-width:none}";
    let title = escape(title);
    let body: String = sections
        .iter()
        .map(|(heading, body)| format!("<h2>{}</h2>\n{body}\n", escape(heading)))
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n<h1>{title}</h1>\n{body}</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::{escape, table};

    #[test]
    fn markup_in_a_cell_stays_text() {
        assert_eq!(
            escape("<a href=\"x\">&"),
            "&lt;a href=&quot;x&quot;&gt;&amp;"
        );
        let rows = [vec!["a<b".to_owned()], vec!["1".to_owned()]];
        let html = table(&rows);
        assert!(
            html.contains("<th>a&lt;b</th>") && html.contains("<td>1</td>"),
            "{html}"
        );
    }
}

//! HTML of a report: the document with its style, tables, lists of contents, and texts that are no markup.

use super::SubjectReport;

const STYLE: &str = include_str!("style.css");

/// A text in which nothing is markup.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A document that asks for nothing else.
pub fn document(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
         {body}</body>\n</html>\n"
    )
}

/// Links to the subjects.
pub fn contents(reports: &[SubjectReport]) -> String {
    let item =
        |r: &SubjectReport| format!("<li><a href=\"#{}\">{}</a> at {}</li>\n", r.id("top"), escaped(&r.page.name), escaped(&r.page.sizes));
    format!("<nav><ul>\n{}</ul></nav>\n", reports.iter().map(item).collect::<String>())
}

/// What stands in a table.
pub enum Cell {
    Text(String),
    /// A text that leads to an anchor of the page.
    Link {
        text: String,
        anchor: String,
    },
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl Cell {
    fn html(self) -> String {
        match self {
            Cell::Text(text) => escaped(&text),
            Cell::Link { text, anchor } => format!("<a href=\"#{anchor}\">{}</a>", escaped(&text)),
        }
    }
}

/// A table. A column whose head ends in ` us` or is `#` holds numbers.
pub fn table<C: Into<Cell>>(head: &[&str], rows: impl Iterator<Item = Vec<C>>) -> String {
    table_with_ids(head, rows.map(|row| (None, row)))
}

/// The same, with anchors of rows.
pub fn table_with_ids<C: Into<Cell>>(head: &[&str], rows: impl Iterator<Item = (Option<String>, Vec<C>)>) -> String {
    let class = |name: &str| if name.ends_with(" us") || name == "#" { " class=\"number\"" } else { "" };
    let heads: String = head.iter().map(|name| format!("<th{}>{}</th>", class(name), escaped(name))).collect();
    let heads = if head.iter().all(|name| name.is_empty()) { String::new() } else { format!("<thead><tr>{heads}</tr></thead>\n") };
    let row = |(id, cells): (Option<String>, Vec<C>)| {
        let id = id.map_or(String::new(), |id| format!(" id=\"{id}\""));
        let cell = |(cell, name): (C, &&str)| format!("<td{}>{}</td>", class(name), cell.into().html());
        let cells: String = cells.into_iter().zip(head).map(cell).collect();
        format!("<tr{id}>{cells}</tr>\n")
    };
    format!("<div class=\"wide\"><table>\n{heads}<tbody>\n{}</tbody></table></div>\n", rows.map(row).collect::<String>())
}

/// Text behind a line that opens it.
pub fn details(summary: &str, body: &str) -> String {
    format!("<details><summary>{}</summary>\n{body}</details>\n", escaped(summary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_no_markup() {
        assert_eq!(escaped("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
        let table = table(&["name", "us us"], [vec!["<script>".to_string(), "1".to_string()]].into_iter());
        assert!(table.contains("<td>&lt;script&gt;</td><td class=\"number\">1</td>") && !table.contains("<script>"), "{table}");
    }
}

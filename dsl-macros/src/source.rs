//! The text of a function as its author wrote it, and where it starts.

use proc_macro2::{TokenStream, TokenTree};

/// Text and place of some tokens.
pub struct Source {
    /// The text; its first line is indented as in the file, so that columns agree.
    pub text: String,
    /// Line of the first token, from 1.
    pub line: u32,
    /// Column of the first token, from 1.
    pub column: u32,
}

/// The text of tokens, with the author's line breaks and the comments inside of braces. Comments between the tokens of a
/// signature are lost.
pub fn of(tokens: TokenStream) -> Source {
    let mut text = String::new();
    let mut first = None;
    let (mut line, mut column) = (0, 0);
    for token in tokens.clone() {
        let span = token.span();
        let (start, end) = (span.start(), span.end());
        if first.is_none() {
            first = Some(start);
            line = start.line;
        }
        if start.line > line {
            text.extend(std::iter::repeat_n('\n', start.line - line));
            column = 0;
        }
        text.extend(std::iter::repeat_n(' ', start.column.saturating_sub(column)));
        let piece = match &token {
            TokenTree::Group(g) => g.span().source_text(),
            _ => span.source_text(),
        };
        text.push_str(&piece.unwrap_or_else(|| token.to_string()));
        (line, column) = (end.line, end.column);
    }
    let start = first.map_or((0, 0), |f| (f.line as u32, f.column as u32 + 1));
    if start.0 == 0 {
        text = tokens.to_string();
    }
    Source { text, line: start.0, column: start.1 }
}

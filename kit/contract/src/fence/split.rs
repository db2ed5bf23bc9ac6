//! Splits a file into statements. Each is parsed alone, so that one that is not understood does not hide the others.
//! The limits keep the tree so shallow that no text can exhaust the stack, and parsing so fast that no text can stall a
//! check.

use sqlparser::ast::Statement;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Word};

use super::{MAX_FILE_BYTES, Refusal, Rule, forms};

/// Deepest nesting of parentheses and brackets: the parser tries some of them twice on each level.
const MAX_NESTING: usize = 12;
/// Most words and operators in one statement that could each deepen the tree by one level (`a + b + c …`). A table of a
/// hundred columns has about five hundred.
const MAX_JOINTS: usize = 1_500;
/// Deepest recursion of the parser.
const PARSER_DEPTH: usize = 40;

/// The tokens of one statement.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// The line on which the statement begins.
    pub(super) line: u64,
    tokens: Vec<TokenWithSpan>,
}

impl Piece {
    /// Parses the statement.
    pub(super) fn parse(&self) -> Result<Statement, Refusal> {
        self.limits()?;
        let dialect = PostgreSqlDialect {};
        let mut parser = Parser::new(&dialect)
            .with_recursion_limit(PARSER_DEPTH)
            .with_tokens_with_locations(self.tokens.clone());
        let parsed = parser.parse_statement();
        let rest = parser.peek_token();
        match parsed {
            Ok(statement) if rest.token == Token::EOF => Ok(statement),
            Ok(_) => Err(self.not_understood(&format!("unexpected {} after its end", rest.token))),
            Err(error) => Err(self.not_understood(&error.to_string())),
        }
    }

    /// Its words in capitals, by which a refusal is classified.
    pub(super) fn words(&self) -> Vec<String> {
        let word = |token: &TokenWithSpan| {
            if let Token::Word(Word { value, .. }) = &token.token {
                return Some(value.to_ascii_uppercase());
            }
            let setting = Token::SingleQuotedString("search_path".to_owned());
            (token.token == setting).then(|| "SEARCH_PATH".to_owned())
        };
        self.tokens.iter().filter_map(word).collect()
    }

    /// Refuses a statement that the parser does not know, by the rule that it most likely violates.
    fn not_understood(&self, why: &str) -> Refusal {
        let otherwise = || (Rule::NotUnderstood, format!("the statement is not understood: {why}"));
        forms::telling(&self.words()).unwrap_or_else(otherwise)
    }

    fn limits(&self) -> Result<(), Refusal> {
        let joints = self.tokens.iter().filter(|token| is_joint(&token.token)).count();
        if joints > MAX_JOINTS {
            let message = format!("a statement has at most {MAX_JOINTS} keywords and operators");
            return Err((Rule::Size, message));
        }
        let mut depth = 0_usize;
        for token in &self.tokens {
            if matches!(token.token, Token::LParen | Token::LBracket) {
                depth += 1;
            } else if matches!(token.token, Token::RParen | Token::RBracket) {
                depth = depth.saturating_sub(1);
            }
            if depth > MAX_NESTING {
                return Err((Rule::Size, format!("parentheses nest at most {MAX_NESTING} deep")));
            }
        }
        Ok(())
    }
}

/// The statements of a file, without comments.
pub(super) fn split(text: &str) -> Result<Vec<Piece>, Refusal> {
    check_text(text)?;
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, text).tokenize_with_location();
    let tokens =
        tokens.map_err(|error| (Rule::NotUnderstood, format!("the file is not understood: {error}")))?;
    let statements = tokens.split(|token| token.token == Token::SemiColon);
    Ok(statements.filter_map(piece).collect())
}

fn piece(tokens: &[TokenWithSpan]) -> Option<Piece> {
    let said = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
    let tokens: Vec<TokenWithSpan> = tokens.iter().filter(said).cloned().collect();
    let line = tokens.first()?.span.start.line;
    Some(Piece { line, tokens })
}

/// Refuses text that the parser and PostgreSQL could read differently, before either reads it.
fn check_text(text: &str) -> Result<(), Refusal> {
    if text.len() > MAX_FILE_BYTES {
        return Err((Rule::Size, format!("a file has at most {MAX_FILE_BYTES} bytes")));
    }
    let odd = |c: char| (c.is_control() && c != '\n' && c != '\t') || (c.is_whitespace() && !c.is_ascii());
    if let Some(found) = text.replace("\r\n", "\n").chars().find(|c| odd(*c)) {
        let message = format!("the file holds the character U+{:04X}", u32::from(found));
        return Err((Rule::NotUnderstood, message));
    }
    if text.starts_with("-- no-transaction") {
        let message = "a migration runs in a transaction: it may not begin with \"-- no-transaction\"";
        return Err((Rule::Transaction, message.to_owned()));
    }
    Ok(())
}

/// Names, literals and separators cannot deepen the tree; any other token might.
fn is_joint(token: &Token) -> bool {
    !matches!(
        token,
        Token::Word(Word { keyword: Keyword::NoKeyword, .. })
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::Comma
            | Token::Period
            | Token::LParen
            | Token::RParen
    ) && *token != Token::make_keyword("NULL")
        && *token != Token::make_keyword("TRUE")
        && *token != Token::make_keyword("FALSE")
}

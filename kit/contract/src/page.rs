//! Numbered pages: `page` >= 1 (default 1), `pageSize` 1..=100 (default 25); out-of-range values are refused, never
//! clamped.

use serde::{Deserialize, Serialize};

use crate::FieldProblem;

/// Largest `pageSize`.
pub const MAX_PAGE_SIZE: u32 = 100;
/// The default `pageSize`.
pub const DEFAULT_PAGE_SIZE: u32 = 25;

/// The page that a client requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// 1-based.
    pub page: u32,
    /// Rows per page.
    pub page_size: u32,
}

impl PageRequest {
    /// Parses the two query values; reports every invalid one.
    ///
    /// # Errors
    /// One problem for each value that is not an integer in range.
    pub fn parse(page: Option<&str>, page_size: Option<&str>) -> Result<Self, Vec<FieldProblem>> {
        let mut problems = Vec::new();
        let mut read = |name: &str, text: Option<&str>, default: u32, max: u32| match text {
            None => default,
            Some(text) => integer(text, max).unwrap_or_else(|| {
                problems.push(FieldProblem::new(name, "range", format!("an integer from 1 to {max}")));
                default
            }),
        };
        let request = Self {
            page: read("page", page, 1, u32::MAX),
            page_size: read("pageSize", page_size, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE),
        };
        if problems.is_empty() { Ok(request) } else { Err(problems) }
    }

    /// Rows to skip, for SQL.
    #[must_use]
    pub fn offset(self) -> i64 {
        i64::from(self.page - 1) * i64::from(self.page_size)
    }

    /// Rows to take, for SQL.
    #[must_use]
    pub fn limit(self) -> i64 {
        i64::from(self.page_size)
    }
}

fn integer(text: &str, max: u32) -> Option<u32> {
    let digits_only = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits_only { text.parse::<u32>().ok()? } else { return None };
    (1..=max).contains(&number).then_some(number)
}

/// One page of a list, as the specification's page envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// The rows of this page.
    pub items: Vec<T>,
    /// Rows in the whole list.
    pub total: i64,
    /// As requested.
    pub page: u32,
    /// As requested.
    pub page_size: u32,
    /// `ceil(total / pageSize)`; 0 when the list is empty.
    pub total_pages: i64,
}

impl<T> Page<T> {
    /// The page that answers `request`.
    #[must_use]
    pub fn new(request: PageRequest, items: Vec<T>, total: i64) -> Self {
        let size = i64::from(request.page_size);
        let total_pages = (total + size - 1) / size;
        Self { items, total, page: request.page, page_size: request.page_size, total_pages }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_limits_and_one_past_them() {
        assert_eq!(PageRequest::parse(None, None), Ok(PageRequest { page: 1, page_size: 25 }));
        assert_eq!(PageRequest::parse(Some("7"), Some("100")), Ok(PageRequest { page: 7, page_size: 100 }));
        for (page, size) in
            [("0", "1"), ("1", "0"), ("1", "101"), ("-1", "1"), ("1.0", "1"), ("+1", "1"), ("", "1")]
        {
            let problems = PageRequest::parse(Some(page), Some(size)).expect_err("out of range");
            assert_eq!(problems.len(), 1, "{page} {size}");
        }
        assert_eq!(PageRequest::parse(Some("x"), Some("y")).expect_err("both").len(), 2);
        let last = PageRequest::parse(Some("4294967295"), Some("100")).expect("in range");
        assert_eq!(last.offset(), 429_496_729_400);
    }

    #[test]
    fn total_pages_rounds_up_and_is_zero_when_empty() {
        let request = PageRequest { page: 1, page_size: 25 };
        for (total, pages) in [(0, 0), (1, 1), (25, 1), (26, 2)] {
            assert_eq!(Page::<u8>::new(request, vec![], total).total_pages, pages);
        }
    }
}

//! Tables in markdown.

/// Rows of cells under a head; numbers stand to the right.
pub(super) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(head: &[&str]) -> Self {
        Self { head: head.iter().map(|name| (*name).to_string()).collect(), rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(super) fn write(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let numeric = |column: usize| {
            let cell = |row: &Vec<String>| {
                row.get(column).is_none_or(|cell| cell.starts_with(|c: char| c.is_ascii_digit() || "–+*−<".contains(c)))
            };
            column > 0 && self.rows.iter().all(cell)
        };
        let rule: Vec<String> =
            (0..self.head.len()).map(|column| if numeric(column) { "--:" } else { "---" }.into()).collect();
        line(&self.head) + &line(&rule) + &self.rows.iter().map(|row| line(row)).collect::<String>()
    }
}

/// A share in percent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

use crate::bits::Rows;

/// Turns rows of columns into columns of rows: bit `c` of row `r` becomes bit `r` of row `c`.
pub(crate) fn transpose(from: &Rows<u64>, rows: usize, to: &mut Rows<u64>, columns: usize) {
    let mut block = [0u64; 64];
    for row_word in 0..rows.div_ceil(64) {
        for column_word in 0..columns.div_ceil(64) {
            for (at, word) in block.iter_mut().enumerate() {
                let row = row_word * 64 + at;
                *word = if row < rows { from.row(row)[column_word] } else { 0 };
            }
            if block.iter().any(|&word| word != 0) {
                turn(&mut block);
            }
            for (at, &word) in block.iter().enumerate() {
                let column = column_word * 64 + at;
                if column < columns {
                    to.row_mut(column)[row_word] = word;
                }
            }
        }
    }
}

/// Transposes 64 × 64 bits by swapping ever smaller quarters.
fn turn(block: &mut [u64; 64]) {
    let mut size = 32;
    let mut mask = 0x0000_0000_ffff_ffffu64;
    while size > 0 {
        for low in (0..64).filter(|at| at & size == 0) {
            let swapped = ((block[low] >> size) ^ block[low + size]) & mask;
            block[low] ^= swapped << size;
            block[low + size] ^= swapped;
        }
        size /= 2;
        mask ^= mask << size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::{get, set};

    #[test]
    fn every_bit_changes_places() {
        let (rows, columns) = (130, 70);
        let mut from = Rows::new(rows, 2);
        let on = |row: usize, column: usize| (row * 31 + column * 17) % 7 < 3;
        for row in 0..rows {
            (0..columns).filter(|&column| on(row, column)).for_each(|column| set(from.row_mut(row), column));
        }
        let mut to = Rows::new(columns, 3);
        transpose(&from, rows, &mut to, columns);
        for row in 0..rows {
            for column in 0..columns {
                assert_eq!(get(to.row(column), row), on(row, column), "row {row}, column {column}");
            }
        }
    }
}

//! Branches as arrows next to the listing: each in a lane of its own, the shortest next to the text.

use super::listing::Instruction;

struct Arrow {
    /// Rows of the listing, top and bottom.
    top: usize,
    bottom: usize,
    /// Row that it points at.
    to: usize,
    lane: usize,
}

/// All arrows of a listing.
pub(super) struct Arrows {
    /// Row of each instruction that is shown.
    row_of: Vec<Option<usize>>,
    arrows: Vec<Arrow>,
    lanes: usize,
}

impl Arrows {
    /// Returns the arrows between instructions that are both shown, in at most `lanes_max` lanes. Other
    /// branches only appear in the text.
    pub(super) fn new(instructions: &[Instruction], shown: &[usize], lanes_max: usize) -> Arrows {
        let mut row_of = vec![None; instructions.len()];
        for (row, index) in shown.iter().enumerate() {
            row_of[*index] = Some(row);
        }
        let row_at = |address: u64| {
            let index = instructions.binary_search_by_key(&address, |one| one.address).ok()?;
            row_of[index]
        };
        let mut arrows: Vec<Arrow> = shown
            .iter()
            .enumerate()
            .filter_map(|(from, index)| {
                let to = row_at(instructions[*index].target?)?;
                Some(Arrow { top: from.min(to), bottom: from.max(to), to, lane: 0 })
            })
            .collect();
        arrows.sort_by_key(|arrow| (arrow.bottom - arrow.top, arrow.top, arrow.to));
        let mut taken: Vec<Vec<(usize, usize)>> = Vec::new();
        arrows.retain_mut(|arrow| {
            let free = |lane: &Vec<(usize, usize)>| {
                lane.iter().all(|(top, bottom)| arrow.bottom < *top || *bottom < arrow.top)
            };
            let lane = taken.iter().position(free).unwrap_or(taken.len());
            if lane == taken.len() {
                if lane == lanes_max {
                    return false;
                }
                taken.push(Vec::new());
            }
            taken[lane].push((arrow.top, arrow.bottom));
            arrow.lane = lane;
            true
        });
        Arrows { row_of, arrows, lanes: taken.len() }
    }

    /// Returns the text to the left of an instruction.
    pub(super) fn at(&self, index: usize) -> String {
        let Some(row) = self.row_of.get(index).copied().flatten() else { return String::new() };
        let width = self.lanes * 2 + 2;
        let mut cells = vec![' '; width];
        for arrow in self.arrows.iter().filter(|arrow| arrow.top <= row && row <= arrow.bottom) {
            let column = (self.lanes - 1 - arrow.lane) * 2;
            if row != arrow.top && row != arrow.bottom {
                cells[column] = '│';
                continue;
            }
            for cell in &mut cells[column + 1..width - 1] {
                if *cell == ' ' {
                    *cell = '─';
                }
            }
            cells[column] = if row == arrow.top { '╭' } else { '╰' };
            if row == arrow.to {
                cells[width - 2] = '▶';
            }
        }
        cells.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_and_a_jump_over_it() {
        let row = |address, target| Instruction { address, target, ..Instruction::default() };
        let rows = [row(0, Some(4)), row(1, None), row(2, None), row(3, Some(1)), row(4, None)];
        let arrows = Arrows::new(&rows, &[0, 1, 2, 3, 4], 6);
        let drawn: Vec<String> = (0..5).map(|index| arrows.at(index)).collect();
        assert_eq!(drawn, ["╭──── ", "│ ╭─▶ ", "│ │   ", "│ ╰── ", "╰───▶ "]);
        // With only one end shown, there is no arrow.
        assert_eq!(Arrows::new(&rows, &[0, 2], 6).at(0), "  ");
    }
}

/**
 * The number of edits (insert, delete, replace, swap neighbours) from `a` to `b`: the optimal string alignment
 * distance.
 */
function distance(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const now = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      let cost = Math.min(
        (last[column] ?? 0) + 1,
        (now[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (same ? 0 : 1),
      );
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (swapped) cost = Math.min(cost, (before[column - 2] ?? 0) + 1);
      now.push(cost);
    }
    before = last;
    last = now;
  }
  return last[b.length] ?? 0;
}

const longest = 80;
const plain = (text: string): string => text.toLowerCase().replace(/[_\s-]/g, "");

/**
 * The known word that was probably intended: equal except for case, "-" and "_", else within a third of the letters.
 * Undefined if there is none.
 */
export function nearest(text: string, known: Iterable<string>): string | undefined {
  if (text.length > longest) return undefined;
  let best: string | undefined;
  let fewest = Math.min(4, Math.floor(text.length / 3) + 1);
  for (const word of known) {
    if (word === text) continue;
    if (plain(word) === plain(text)) return word;
    if (Math.abs(word.length - text.length) >= fewest) continue;
    const edits = distance(text.toLowerCase(), word.toLowerCase());
    if (edits < fewest) {
      best = word;
      fewest = edits;
    }
  }
  return best;
}

/** The suggestion for a word that was probably mistyped. */
export const meant = (word: string): string => `did you mean "${word}"?`;

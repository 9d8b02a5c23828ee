/** One cell: plain text, or text with a colour that does not count for the width. */
export type Cell = string | { readonly text: string; readonly tint: ((text: string) => string) | undefined };

const textOf = (cell: Cell): string => (typeof cell === "string" ? cell : cell.text);

/** Columns two blanks apart, each as wide as its longest cell; the last one is not filled up. */
export function table(rows: readonly (readonly Cell[])[]): string {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) {
      widths[column] = Math.max(widths[column] ?? 0, textOf(cell).length);
    }
  }
  return rows
    .map(
      row =>
        `${row
          .map((cell, column) => filled(cell, row, column, widths))
          .join("  ")
          .trimEnd()}\n`,
    )
    .join("");
}

function filled(cell: Cell, row: readonly Cell[], column: number, widths: readonly number[]): string {
  const text = textOf(cell);
  const blanks = column === row.length - 1 ? "" : " ".repeat((widths[column] ?? 0) - text.length);
  return `${typeof cell !== "string" && cell.tint ? cell.tint(text) : text}${blanks}`;
}

/** As many names as fit into a line. */
export function someOf(names: readonly string[], most = 4): string {
  if (names.length <= most) return names.join(", ");
  return `${names.slice(0, most - 1).join(", ")} and ${names.length - most + 1} more`;
}

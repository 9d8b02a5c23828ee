/** One cell: plain text, or text with a colour that does not count towards the width. */
export type Cell = string | { readonly text: string; readonly tint: ((text: string) => string) | undefined };

const textOf = (cell: Cell): string => (typeof cell === "string" ? cell : cell.text);

/** Formats columns two spaces apart, each as wide as its longest cell; the last one is not padded. */
export function table(rows: readonly (readonly Cell[])[]): string {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, textOf(cell).length);
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

/** Like `table`, with texts of the last column continued on further lines if a line would exceed `width`. */
export function tableWithin(width: number, rows: readonly (readonly Cell[])[]): string {
  const columns = Math.max(0, ...rows.map(row => row.length));
  const before = rows.map(row => row.slice(0, columns - 1).map(textOf));
  const used = Array.from({ length: columns - 1 }, (_, column) =>
    Math.max(0, ...before.map(row => row[column]?.length ?? 0)),
  ).reduce((sum, each) => sum + each + 2, 0);
  const room = Math.max(leastRoom, width - used);
  return table(
    rows.flatMap(row => {
      const last = row[columns - 1];
      if (typeof last !== "string") return [row];
      const [first = "", ...more] = linesOf(last, room);
      return [[...row.slice(0, columns - 1), first], ...more.map(line => [...row.slice(1).map(() => ""), line])];
    }),
  );
}

/** The minimum width of the last column; a narrower one would be unreadable. */
const leastRoom = 24;

/** Wraps a text at spaces into lines of at most `width` characters; a longer word stays whole. */
export function linesOf(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** The first names, and the number of the others. */
export function someOf(names: readonly string[], most = 4): string {
  if (names.length <= most) return names.join(", ");
  return `${names.slice(0, most - 1).join(", ")} and ${names.length - most + 1} more`;
}

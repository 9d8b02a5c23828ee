/** One line of the result. Peer and target are absent where there is nothing to compare with. */
export interface Figure {
  readonly what: string;
  readonly value: number;
  readonly unit: string;
  /** The unmerged proxy of democratic-csi, measured the same way on the same kind of machine, unless `what` names another. */
  readonly peer?: number;
  /** The value that must be reached; smaller is better unless `atLeast` is set. */
  readonly target?: number;
  readonly atLeast?: boolean;
}

const number = (value: number): string => {
  if (!Number.isFinite(value)) return "-";
  if (Math.abs(value) >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-US");
  return value.toPrecision(value < 1 ? 2 : 3);
};

function ratio({ value, peer }: Figure): string {
  return peer === undefined || !(peer > 0) ? "" : `${(value / peer).toFixed(2)} x`;
}

function target({ value, target: wanted, atLeast, unit }: Figure): string {
  if (wanted === undefined) return "";
  const reached = atLeast ? value >= wanted : value <= wanted;
  return `${atLeast ? ">=" : "<="} ${number(wanted)} ${unit} ${reached ? "reached" : "MISSED"}`;
}

/** The table that `make bench` prints, one figure a line. */
export function table(figures: readonly Figure[]): string {
  const rows = [
    ["figure", "csimux", "peer", "ratio", "target"],
    ...figures.map(figure => [
      figure.what,
      `${number(figure.value)} ${figure.unit}`,
      figure.peer === undefined ? "" : `${number(figure.peer)} ${figure.unit}`,
      ratio(figure),
      target(figure),
    ]),
  ];
  const widths = [0, 1, 2, 3, 4].map(column => Math.max(...rows.map(row => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join(" | ");
  const rule = widths.map(width => "-".repeat(width)).join("-|-");
  const [head = [], ...body] = rows;
  return [line(head), rule, ...body.map(line)].join("\n");
}

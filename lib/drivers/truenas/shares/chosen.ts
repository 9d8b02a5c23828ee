import { CsiError } from "../../../core/errors.ts";
import type { Row, ShareContext } from "./share.ts";

/** What a connection file chooses among the objects of an administrator: by the id of the API, or by a word that is seen. */
export type ObjectChoice = number | string;

/** Objects of one kind, and the words by which each is known: comments, addresses. */
export interface ChoiceOptions {
  /** Such as "iSCSI portal". */
  readonly kind: string;
  readonly rows: readonly Row[];
  wordsOf(row: Row): readonly string[];
}

const equal = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase();

/** The one that is chosen. Throws "failed-precondition" when none is, or several are. */
export function chosen(site: ShareContext, { kind, rows, wordsOf }: ChoiceOptions, choice: ObjectChoice): Row {
  const found = rows.filter(row =>
    typeof choice === "number" ? row.id === choice : wordsOf(row).some(word => equal(word, choice)),
  );
  const [first, second] = found;
  if (first && !second) return first;
  const known = (second ? found : rows).map(row => `${row.id} (${wordsOf(row).join(", ")})`).join("; ");
  const named = typeof choice === "number" ? `with id ${choice}` : `known as "${choice}"`;
  throw new CsiError(
    "failed-precondition",
    second
      ? `connection "${site.connection}": several ${kind}s are ${named}: ${known}; name one of them by its id`
      : `connection "${site.connection}": there is no ${kind} ${named}; there are: ${known || "none"}`,
  );
}

/** The ids of those that are chosen; nobody is asked when the file names ids alone. */
export async function idsOf(
  site: ShareContext,
  choices: readonly ObjectChoice[],
  all: () => Promise<ChoiceOptions>,
): Promise<readonly number[]> {
  if (choices.every(choice => typeof choice === "number")) return choices;
  const known = await all();
  return choices.map(choice => (typeof choice === "number" ? choice : chosen(site, known, choice).id));
}

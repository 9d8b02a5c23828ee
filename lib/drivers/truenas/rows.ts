import { NotTrueNas } from "./connect.ts";

/** What a query answers of one object. */
export type Row = Readonly<Record<string, unknown>>;

const isRow = (value: unknown): value is Row => typeof value === "object" && value !== null && !Array.isArray(value);

/** The list that a query answers. Throws NotTrueNas for anything else: as an empty list it would say that the object is gone. */
export function listOf<R extends Row = Row>(method: string, answer: unknown): readonly R[] {
  if (Array.isArray(answer) && answer.every(isRow)) return answer as readonly Row[] as readonly R[];
  throw new NotTrueNas(`TrueNAS has answered ${method} with something else than a list`);
}

import { CsiError } from "../core/errors.ts";
import type { Page, PageRequest } from "./driver.ts";

/** Nomad prints tokens into a command line to be pasted: a character without meaning to a shell. */
const mark = ".";

/** The token of the page after this name. */
export const tokenAfter = (name: string): string => mark + name;

/** The name after which a page begins; "" for the first. A token is "." and the last name of the page before. */
function after(token: string | undefined, isName: (text: string) => boolean): string {
  if (token === undefined) return "";
  const name = token.slice(mark.length);
  if (token.startsWith(mark) && isName(name)) return name;
  throw new CsiError("aborted", "the page token is not one of this listing; start the listing again");
}

/**
 * One page of the things behind `names`, in the order of their names. `load` answers undefined for what does not belong in the
 * list. `next` is set only when there is one more item. Throws "aborted" for a foreign token (CSI ListVolumes, ListSnapshots).
 */
export async function pageOf<T>(
  names: readonly string[],
  isName: (text: string) => boolean,
  request: PageRequest,
  load: (name: string) => Promise<T | undefined>,
): Promise<Page<T>> {
  const start = after(request.token, isName);
  const items: T[] = [];
  let last = start;
  for (const name of names.filter(name => name > start && isName(name)).sort()) {
    const item = await load(name);
    if (item === undefined) continue;
    if (items.length === request.max) return { items, next: tokenAfter(last) };
    items.push(item);
    last = name;
  }
  return { items, next: undefined };
}

const holds = /^( +)(?:await )?using \w+ =/;
/** Returns something, in code. */
const returns = /^(?!\s*(?:\*|\/\/)).*?\breturn (.+)/;
/** What is awaited or needs no waiting: a name, a literal, an object or list, and ids, which `handles` only translates. */
const isValue = /^(?:await\b|handles\.|[[{"`\d]|!?[\w.#?]+;|\w+ \? [\w[\]]+ : [\w[\]]+;)/;

/**
 * Returns of a call that is not awaited, in a block that holds something with `using`: what is held would be released before the call
 * has ended. One line for each, with what to write.
 */
export function unawaitedReturns(path: string, text: string): readonly string[] {
  const found: string[] = [];
  let indent = Number.POSITIVE_INFINITY;
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    if (line.search(/\S/) < indent) indent = Number.POSITIVE_INFINITY;
    const [, spaces] = holds.exec(line) ?? [];
    if (spaces !== undefined) indent = Math.min(indent, spaces.length);
    const [, returned] = returns.exec(line) ?? [];
    if (indent === Number.POSITIVE_INFINITY || returned === undefined || isValue.test(returned)) continue;
    const remedy = "write `return await`, or return the value of a constant";
    found.push(`${path}:${index + 1}: returned before what \`using\` holds is needed no longer: ${remedy}`);
  }
  return found;
}

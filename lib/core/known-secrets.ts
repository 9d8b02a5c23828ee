/**
 * Secrets of open connections, which no line of the log, no status and no message may show. A storage may repeat anything that it
 * was sent, in any field; what leaves this process is looked through once, instead of wherever an answer is read.
 */

/** The shortest word that is looked for: a shorter one would be found everywhere. */
const shortest = 4;

/** How many users each word has. */
const users = new Map<string, number>();
/** The words by their first characters, the longest first, so that no rest of one stays behind. */
const byStart = new Map<string, string[]>();

/** Hides these words, also as they stand in an address, a form or JSON, until the function that is returned is called. */
export function keepSecret(secrets: readonly string[]): () => void {
  const forms = secrets.flatMap(word => [word, encodeURIComponent(word), JSON.stringify(word).slice(1, -1)]);
  const words = [...new Set(forms)].filter(word => word.length >= shortest);
  for (const word of words) {
    const known = users.get(word) ?? 0;
    users.set(word, known + 1);
    if (known > 0) continue;
    const start = word.slice(0, shortest);
    const alike = [...(byStart.get(start) ?? []), word];
    byStart.set(
      start,
      alike.sort((a, b) => b.length - a.length),
    );
  }
  return () => {
    for (const word of words.splice(0)) forget(word);
  };
}

function forget(word: string): void {
  const left = (users.get(word) ?? 1) - 1;
  if (left > 0) return void users.set(word, left);
  users.delete(word);
  const start = word.slice(0, shortest);
  const alike = (byStart.get(start) ?? []).filter(other => other !== word);
  if (alike.length > 0) byStart.set(start, alike);
  else byStart.delete(start);
}

/** The text with each of these words replaced by "***". */
export function withoutKnownSecrets(text: string): string {
  if (byStart.size === 0) return text;
  let shown = "";
  let from = 0;
  for (let at = 0; at + shortest <= text.length; at++) {
    const word = byStart.get(text.slice(at, at + shortest))?.find(each => text.startsWith(each, at));
    if (word === undefined) continue;
    shown += `${text.slice(from, at)}***`;
    from = at + word.length;
    at = from - 1;
  }
  return from === 0 ? text : shown + text.slice(from);
}

/** Fields of a log line as they may be shown: an error is its message and those of its causes, never its members. */
export function shown(value: unknown, depth = 0): unknown {
  if (typeof value === "string") return withoutKnownSecrets(value);
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Error) return withoutKnownSecrets(messages(value));
  if ("toJSON" in value) return value;
  if (depth === deepest) return "…";
  if (Array.isArray(value)) return value.map(each => shown(each, depth + 1));
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, shown(each, depth + 1)]));
}

const deepest = 8;

function messages(error: Error): string {
  const texts: string[] = [];
  for (let each: unknown = error; each instanceof Error && texts.length < deepest; each = each.cause)
    texts.push(each.message);
  return texts.join(": ");
}

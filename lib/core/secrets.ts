/**
 * Secrets of open connections, which must not appear in logs, status or messages. A storage system may return anything
 * that it was sent, in any field, so all output of this process is filtered here instead of wherever an answer is read.
 */

/** The shortest secret that is hidden: shorter ones would match ordinary text. */
const shortest = 4;

/** The number of users of each secret. */
const users = new Map<string, number>();
/** Secrets by their first characters, the longest first, so that no part of a longer one remains. */
const byStart = new Map<string, string[]>();

/** Hides these secrets, also when encoded for a URL, a form or JSON, until the returned function is called. */
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

/** The text with each known secret replaced by "***". */
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

/**
 * The value as JSON, with each known secret in its texts replaced by "***". A number that contains the digits of a secret stays: masked, it
 * would end the JSON.
 */
export const jsonWithoutSecrets = (value: unknown): string =>
  JSON.stringify(value, (_, each: unknown) => (typeof each === "string" ? withoutKnownSecrets(each) : each));

/**
 * Fields of a log line made safe to show: an error becomes its message and the messages of its causes, without other
 * members.
 */
export function loggable(value: unknown, depth = 0): unknown {
  if (typeof value === "string") return withoutKnownSecrets(value);
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Error) return withoutKnownSecrets(messages(value));
  if ("toJSON" in value) return value;
  if (depth === deepest) return "…";
  if (Array.isArray(value)) return value.map(each => loggable(each, depth + 1));
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, loggable(each, depth + 1)]));
}

const deepest = 8;

function messages(error: Error): string {
  const texts: string[] = [];
  for (let each: unknown = error; each instanceof Error && texts.length < deepest; each = each.cause)
    texts.push(each.message);
  return texts.join(": ");
}

/**
 * The text with every secret replaced by "***", the longest first so that no part of a longer one remains. A secret of
 * less than four characters is masked only as a separate word: inside words this would garble the text, and the secret
 * cannot be recognised there anyway.
 */
export function masked(text: string, secrets: readonly string[] = []): string {
  const words = secrets.filter(word => word !== "").sort((a, b) => b.length - a.length);
  return words.reduce((rest, word) => rest.replaceAll(word.length < shortest ? alone(word) : word, "***"), text);
}

/** Matches a short word that is not part of a longer word or number. */
const alone = (word: string): RegExp => {
  const literal = word.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
  return new RegExp(`(?<![\\p{L}\\p{N}])${literal}(?![\\p{L}\\p{N}])`, "gu");
};

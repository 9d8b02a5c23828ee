/**
 * The most values of an answer: each takes memory, however short it is. No listing of 64 MiB comes near, since a value takes more than 15 bytes
 * in it together with its key.
 */
const mostValues = 6 << 20;
/** ",", "[" and "{": one of them begins each value of an array and each level. */
const [comma, array, object] = [0x2c, 0x5b, 0x7b];

/** A text that is not JSON, or that no storage system would answer. */
export class NotJson extends Error {
  override readonly name = "NotJson";
}

/** The value of a JSON text (RFC 8259) in UTF-8, whose size the caller has limited. Throws NotJson. */
export function parsedJson(text: Buffer): unknown {
  const length = text.length;
  let values = 0;
  for (let at = 0; at < length && values <= mostValues; at++) {
    const byte = text[at];
    if (byte === comma || byte === array || byte === object) values++;
  }
  if (values > mostValues) throw new NotJson(`it has more than ${mostValues} values`);
  try {
    return JSON.parse(text.toString("utf8"));
  } catch {
    throw new NotJson("it is not JSON");
  }
}

/**
 * Characters that are not shown, end a line for some programs, or change the direction of the text around them (Unicode 16.0: C1 controls
 * with the next line, separators, zero-width and bidirectional characters, the byte order mark, and two noncharacters).
 */
const hidden = /[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffe\uffff]/g;

/** A character as JSON and double-quoted YAML write it. */
const escaped = (each: string): string => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** Whether a text has a character that YAML or a terminal could read as something other than text. */
export const hasHidden = (text: string): boolean => text.search(hidden) >= 0;

/** Escapes these characters, for JSON and double-quoted YAML; line feeds and other control characters of ASCII stay. */
export const escapeHidden = (text: string): string => text.replace(hidden, escaped);

/** Makes text from outside safe for a terminal and for one line of a comment: those and all control characters become \u escapes. */
export const visible = (text: string): string =>
  escapeHidden([...text].map(each => (each < " " ? escaped(each) : each)).join(""));

import { visible } from "../../lib/core/visible.ts";

/** Text that is already HTML. */
class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type { Html };

/** A value in a template: text is escaped, lists are joined, undefined and false are omitted. */
export type Part = string | number | Html | undefined | false | readonly Part[];

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/**
 * Text from outside for HTML, SVG and their quoted attributes. Control characters, and those that change the direction of
 * text around them (Unicode Bidirectional Algorithm), become \u escapes: a name must not look like another one.
 */
const escaped = (text: string): string =>
  visible(text.toWellFormed().replaceAll("\n", " ")).replace(/[&<>"']/g, each => entities[each] ?? "");

function textOf(part: Part): string {
  if (part === undefined || part === false) return "";
  if (part instanceof Html) return part.text;
  return Array.isArray(part) ? part.map(textOf).join("") : escaped(String(part));
}

/** A template of HTML that escapes every value unless it is HTML itself. */
export const html = (strings: TemplateStringsArray, ...parts: readonly Part[]): Html =>
  new Html(strings.map((text, index) => text + textOf(parts[index])).join(""));

/** Text of this program that is inserted as it is: style and script. */
export const trusted = (text: string): Html => new Html(text);

import type { Context } from "../driver.ts";

/** What placeholders can name. */
export interface TemplateData {
  readonly name: string;
  readonly parameters: Context;
}

/**
 * The text of a template: `{{ name }}`, `{{ parameters.key }}`, `{{ parameters.[any key] }}`, with two or three braces, and
 * `{{#if x}}…{{else}}…{{/if}}`. What is not given is empty. Nothing is escaped: the value is checked where it is used.
 * The schema has refused everything else.
 */
export function rendered(template: string, data: TemplateData): string {
  const tags = template.split(/(\{\{\{[^{}]*\}\}\}|\{\{[^{}]*\}\})/);
  /** Whether the text is shown, for each open condition. */
  const shown: boolean[] = [];
  let text = "";
  for (const [at, part] of tags.entries()) {
    const tag = at % 2 === 1 ? part.replace(/^\{+|\}+$/g, "").trim() : undefined;
    if (tag?.startsWith("#if ")) shown.push(found(tag.slice(4).trim(), data) !== "");
    else if (tag === "else") shown.push(!shown.pop());
    else if (tag === "/if") shown.pop();
    else if (shown.every(Boolean)) text += tag === undefined ? part : found(tag, data);
  }
  return text;
}

function found(path: string, { name, parameters }: TemplateData): string {
  if (path === "name") return name;
  const [, bracketed, plain] = /^parameters\.(?:\[(.*)\]|([^[\]]+))$/.exec(path) ?? [];
  return parameters[bracketed ?? plain ?? ""] ?? "";
}

/** Values by name for a template; nested ones are reached with dots, keys of any form in brackets. */
export type TemplateValues = { readonly [name: string]: string | TemplateValues | undefined };

/** Handlebars' words for the values themselves. */
const whole = /^(?:this\.|\.\/|@root\.)/;

/** `name`, `csi.version`, `parameters.[csi.storage.k8s.io/pvc/name]` → the steps to the value. */
function steps(path: string): readonly string[] {
  return [...path.replace(whole, "").matchAll(/\[([^\]]*)\]|([^.[\]\s]+)/g)].map(match => match[1] ?? match[2] ?? "");
}

/** A lookup; anything else, such as a helper with arguments, would be looked up under a name that nothing has. */
const lookup = /^(?:(?:\[[^\]]+\]|[\w$-]+)(?:\.|$))+(?<!\.)$/;

function valueAt(values: TemplateValues, path: string): string {
  let value: string | TemplateValues | undefined = values;
  for (const step of steps(path)) {
    if (typeof value !== "object" || !Object.hasOwn(value, step)) return "";
    value = value[step];
  }
  return typeof value === "string" ? value : "";
}

const tag = /\{\{\{\s*([^{}]*?)\s*\}\}\}|\{\{\s*([^{}]*?)\s*\}\}/g;

/**
 * A template of a connection file or a class with its placeholders filled in; what is not there is empty. Of Handlebars it understands
 * lookups and {{#if x}}…{{else}}…{{/if}}, which `templateFault` has checked; unlike there nothing is escaped for HTML.
 */
export function rendered(template: string, values: TemplateValues): string {
  // For each open {{#if}}: whether the text inside it counts.
  const open: boolean[] = [];
  const result: string[] = [];
  const add = (text: string) => {
    if (open.every(Boolean)) result.push(text);
  };
  let at = 0;
  for (const match of template.matchAll(tag)) {
    add(template.slice(at, match.index));
    at = match.index + match[0].length;
    const word = match[1] ?? match[2] ?? "";
    if (word.startsWith("#if ")) open.push(valueAt(values, word.slice(4)) !== "");
    else if (word === "/if") open.pop();
    else if (word === "else") open.push(!open.pop());
    else add(valueAt(values, word));
  }
  add(template.slice(at));
  return result.join("");
}

/** What is wrong with the placeholders of a template, or undefined. Only lookups and if/else are supported. */
export function templateFault(value: string): string | undefined {
  const rest = value.replace(/\{\{\{[^{}]*\}\}\}|\{\{[^{}]*\}\}/g, "");
  if (/\{\{|\}\}/.test(rest)) return "has an unclosed placeholder: write {{ name }}";
  const tags = [...value.matchAll(/\{\{([^{}]*)\}\}/g)].map(match => (match[1] ?? "").trim());
  if (tags.includes("")) return "has an empty placeholder";
  const opened = tags.filter(tag => tag.startsWith("#if ")).length;
  if (opened !== tags.filter(tag => tag === "/if").length) return "has an {{#if}} without {{/if}}, or vice versa";
  const foreign = tags.find(tag => tag !== "/if" && !lookup.test(tag.replace(/^#if /, "").trim().replace(whole, "")));
  return foreign === undefined ? undefined : "uses more than placeholders and {{#if}}, which csimux does not support";
}

import type { GenericSchema } from "valibot";
import { commonSchema } from "../../lib/config/common.ts";
import { nodeSchema } from "../../lib/config/node.ts";
import { proxySchema } from "../../lib/config/proxy-schema.ts";
import { modules } from "../../lib/drivers/index.ts";
import { aboutOf, fallbackOf, isOptional, shapeOf } from "../../lib/schema/shape.ts";
import type { Generated } from "./generated.ts";

/** One line of a table. */
interface Row {
  readonly key: string;
  readonly schema: GenericSchema;
}

/** All keys below a mapping, with their dotted paths. */
function rowsOf(schema: GenericSchema, path: string): readonly Row[] {
  const shape = shapeOf(schema);
  if (shape.kind === "mapping") {
    return [...shape.keys].flatMap(([name, inner]) => {
      const key = path === "" ? name : `${path}.${name}`;
      return [{ key, schema: inner }, ...rowsOf(inner, key)];
    });
  }
  if (shape.kind === "list") return rowsOf(shape.item, `${path}[]`);
  if (shape.kind === "free-mapping") return rowsOf(shape.value, `${path}.<name>`);
  return [];
}

const code = (value: unknown): string =>
  `\`${(typeof value === "string" ? value : JSON.stringify(value)).replaceAll("|", "\\|")}\``;

/** A default; an empty one is described. */
const literal = (value: unknown): string => (value === "" ? "empty" : code(value));

function kindOf(schema: GenericSchema): string {
  const shape = shapeOf(schema);
  const words: Readonly<Record<string, string>> = {
    mapping: "mapping",
    "free-mapping": "mapping",
    flag: "true or false",
  };
  if (shape.kind === "words") return shape.words.map(literal).join(", ");
  if (shape.kind === "list") return `list: ${kindOf(shape.item)}`;
  if (shape.kind === "either") return [...new Set(shape.options.map(kindOf))].join(" or ");
  return words[shape.kind] ?? shape.kind;
}

function absence(schema: GenericSchema): string {
  if (!isOptional(schema)) return "**required**";
  const fallback = fallbackOf(schema);
  if (fallback !== undefined) return literal(fallback);
  return aboutOf(schema).absent ?? "-";
}

/** Turns a description into a sentence for a table, and escapes "<name>" as HTML. */
const sentence = (words: string): string =>
  words === "" ? "" : `${words.replaceAll("<", "&lt;").replaceAll("|", "\\|")}${/[.!?]$/.test(words) ? "" : "."}`;

function meaning(schema: GenericSchema): string {
  const { description = "", unit, secret, example, aliases, ignored } = aboutOf(schema);
  const parts = [
    sentence(description),
    unit && `Unit: ${unit}.`,
    secret && "Secret: never printed; can be given as a file, by appending `File` to the key.",
    example !== undefined && `Example: ${code(example)}.`,
    aliases &&
      `Aliases: ${Object.entries(aliases)
        .map(([other, key]) => `${code(other)} for ${code(key)}`)
        .join(", ")}.`,
    ignored && Object.keys(ignored).length > 0 && `No effect: ${Object.keys(ignored).map(code).join(", ")}.`,
  ];
  return parts
    .filter(part => part)
    .join(" ")
    .replaceAll("\n", " ");
}

const table = (rows: readonly Row[]): readonly string[] =>
  rows.length === 0
    ? []
    : [
        "",
        "| Key | Values | When absent | Meaning |",
        "| --- | --- | --- | --- |",
        ...rows.map(
          ({ key, schema }) => `| ${code(key)} | ${kindOf(schema)} | ${absence(schema)} | ${meaning(schema)} |`,
        ),
      ];

const unwrapped = (schema: GenericSchema): object => {
  const { wrapped } = schema as unknown as { readonly wrapped?: GenericSchema };
  return wrapped ?? schema;
};

/** The sections of one driver. A section that another driver shares is described there. */
function driverPart(
  names: readonly string[],
  schema: GenericSchema,
  described: Map<object, string>,
): readonly string[] {
  const [name = ""] = names;
  const title = names.join(", ");
  const shape = shapeOf(schema);
  const sections = shape.kind === "mapping" ? [...shape.keys] : [];
  const lines = ["", `## ${title}`];
  if (sections.length === 0) lines.push("", "No further keys.");
  const ignored = Object.entries(aboutOf(schema).ignored ?? {});
  for (const [key, reason] of ignored) lines.push("", `${code(key)} has no effect: ${reason}.`);
  for (const [key, section] of sections) {
    const before = described.get(unwrapped(section));
    const need = isOptional(section) ? "may be absent" : "required";
    if (before !== undefined) {
      lines.push("", `${code(key)} (${need}): see [${before}](#${anchor(before)}).`);
      continue;
    }
    described.set(unwrapped(section), title);
    lines.push("", `${code(key)} (${need}): ${meaning(section)}`, ...table(rowsOf(section, key)));
  }
  return name === "" ? [] : lines;
}

/** GitHub's anchor of a heading. */
const anchor = (title: string): string =>
  title
    .toLowerCase()
    .replace(/[^a-z0-9 -]/g, "")
    .replaceAll(" ", "-");

const head = `# Every key

Made by \`scripts/generate.ts\` from the schemas that load the files: do not edit.

- A key with an empty value (\`key:\`) counts as absent.
- \`\${env:NAME}\` in a text is replaced by an environment variable of csimux, except in templates and patterns.
- A secret can be given as a file: \`passwordFile: /run/secrets/nas\` instead of \`password\`. csimux reads it again within a minute of a change, and when a login is refused.
- Keys outside \`proxy:\` and \`driver:\` in the main file are defaults for every connection.`;

/** examples/guide/reference.md. */
export function keyReference(): Generated {
  const described = new Map<object, string>();
  const lines = [
    head,
    "",
    "## Main file",
    ...table(rowsOf(proxySchema, "proxy")),
    ...table(rowsOf(nodeSchema, "node")),
    "",
    "## Every connection",
    ...table(rowsOf(commonSchema, "").filter(({ key }) => !key.startsWith("node."))),
    ...modules.flatMap(module => driverPart(module.names, module.schema, described)),
    "",
  ];
  return { files: new Map([["examples/guide/reference.md", lines.join("\n")]]) };
}

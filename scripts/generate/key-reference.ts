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
  /** Another key of the same mapping with the same keys below it; they are listed there. */
  readonly as?: string | undefined;
}

/** All keys below a mapping, with their dotted paths. */
function rowsOf(schema: GenericSchema, path: string): readonly Row[] {
  const shape = shapeOf(schema);
  if (shape.kind === "mapping") {
    const siblings = new Map<string, string>();
    return [...shape.keys].flatMap(([name, inner]) => {
      const key = path === "" ? name : `${path}.${name}`;
      const below = rowsOf(inner, "").map(line);
      const as = below.length > 2 ? siblings.get(below.join("\n")) : undefined;
      siblings.set(below.join("\n"), as ?? key);
      return [{ key, schema: inner, as }, ...(as === undefined ? rowsOf(inner, key) : [])];
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

/** Turns a description into a sentence for a table, and escapes "<name>" as HTML, except in code. */
function sentence(words: string): string {
  const escaped = words.replaceAll(/`[^`]*`|</g, text => (text === "<" ? "&lt;" : text)).replaceAll("|", "\\|");
  return words === "" ? "" : `${escaped}${/[.!?]$/.test(words) ? "" : "."}`;
}

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

function line({ key, schema, as }: Row): string {
  const like = as === undefined ? "" : ` Its keys are those of ${code(as)}.`;
  return `| ${code(key)} | ${kindOf(schema)} | ${absence(schema)} | ${meaning(schema)}${like} |`;
}

const tableOf = (lines: readonly string[]): readonly string[] =>
  lines.length === 0 ? [] : ["", "| Key | Values | When absent | Meaning |", "| --- | --- | --- | --- |", ...lines];

const table = (rows: readonly Row[]): readonly string[] => tableOf(rows.map(line));

/** A section that the page has described: its driver, its key, and its rows by their key below the section. */
interface Described {
  readonly title: string;
  readonly key: string;
  readonly words: string;
  readonly lines: ReadonlyMap<string, string>;
}

/** The rows of a section as lines of the table, by their key below the section. */
const linesOf = (schema: GenericSchema, key: string): ReadonlyMap<string, string> =>
  new Map(rowsOf(schema, "").map(row => [row.key, line({ ...row, key: `${key}.${row.key}` })]));

/** The rest of a line after its key, which two sections may have in common. */
const told = (text: string): string => text.slice(text.indexOf("` | "));

/** The described section that has most of these lines, if it has more than half of them. */
function likeness(lines: ReadonlyMap<string, string>, all: readonly Described[]): Described | undefined {
  const shared = ({ lines: others }: Described): number =>
    [...lines].filter(([key, text]) => told(others.get(key) ?? "") === told(text)).length;
  const best = all.toSorted((a, b) => shared(b) - shared(a))[0];
  return best !== undefined && shared(best) > 2 && shared(best) * 2 > lines.size ? best : undefined;
}

/** A section: all its rows, or what differs from one that the page has described. */
function sectionPart(title: string, key: string, section: GenericSchema, all: Described[]): readonly string[] {
  const need = isOptional(section) ? "may be absent" : "required";
  const lines = linesOf(section, key);
  const like = likeness(lines, all);
  const words = meaning(section);
  all.push({ title, key, words, lines });
  if (like === undefined) return ["", `${code(key)} (${need}): ${words}`, ...tableOf([...lines.values()])];
  const own = [...lines].filter(([inner, text]) => told(like.lines.get(inner) ?? "") !== told(text));
  const gone = [...like.lines.keys()].filter(inner => !lines.has(inner));
  const missing = gone.filter(inner => !gone.some(outer => inner.startsWith(`${outer}.`)));
  const where = `${like.key === key ? "" : `${code(like.key)} of `}[${like.title}](#${anchor(like.title)})`;
  const without = missing.length > 0 ? `, without ${missing.map(code).join(", ")}` : "";
  const besides = own.length > 0 ? ", with these keys" : "";
  const first = `${code(key)} (${need}): ${like.words === words ? "" : `${words} Else `}as in ${where}${without}${besides}.`;
  return ["", first, ...tableOf(own.map(([, text]) => text))];
}

/** The sections of one driver. */
function driverPart(names: readonly string[], schema: GenericSchema, all: Described[]): readonly string[] {
  const title = names.join(", ");
  const shape = shapeOf(schema);
  const sections = shape.kind === "mapping" ? [...shape.keys] : [];
  return [
    "",
    `## ${title}`,
    ...(sections.length === 0 ? ["", "No further keys."] : []),
    ...Object.entries(aboutOf(schema).ignored ?? {}).flatMap(([key, reason]) => [
      "",
      `${code(key)} has no effect: ${reason}.`,
    ]),
    ...sections.flatMap(([key, section]) => sectionPart(title, key, section, all)),
  ];
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
  const described: Described[] = [];
  const lines = [
    head,
    "",
    "## Main file",
    ...table(rowsOf(proxySchema, "proxy")),
    ...table(rowsOf(nodeSchema, "node")),
    "",
    "## Every connection",
    ...table(rowsOf(commonSchema, "").filter(({ key }) => !/^node\.|^copies\.sshConnection\./.test(key))),
    "",
    "`copies.sshConnection` has the keys of `sshConnection` of [zfs-generic-nfs](#zfs-generic-nfs).",
    ...modules.flatMap(module => driverPart(module.names, module.schema, described)),
    "",
  ];
  return { files: new Map([["examples/guide/reference.md", lines.join("\n")]]) };
}

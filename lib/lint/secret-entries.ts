import type { Path } from "../schema/finding.ts";
import type { Mapping } from "../schema/mapping.ts";
import { fileBudget } from "../yaml/budget.ts";
import { parseYamlDocuments } from "../yaml/parse.ts";
import type { DocumentDiagnostic, SourceDocument } from "./document.ts";
import { nameOf } from "./file-name.ts";
import { type DocumentKind, hasSection, isConfiguration, kindOf, kindOfText } from "./kinds.ts";
import { mappingAt } from "./lint-input.ts";
import { report } from "./rule.ts";
import { secretEntry } from "./rules/reading.ts";
import { decoded } from "./secret-files.ts";

/**
 * Entries of the Secret at `path` that csimux does not read although they contain a configuration, or are next to one: plain text in
 * `data`, base64 in `stringData`, names that do not end in .yaml or .yml, and other content. No message quotes an entry.
 */
export function* secretEntries(document: SourceDocument, secret: Mapping, path: Path): Iterable<DocumentDiagnostic> {
  const entries = [
    ...Object.entries(mappingAt(secret, "data")).map(([name, value]) => {
      return { name, section: "data", text: textOf(value), other: "stringData", inOther: value };
    }),
    ...Object.entries(mappingAt(secret, "stringData")).map(([name, value]) => {
      return { name, section: "stringData", text: value, other: "data", inOther: textOf(value) };
    }),
  ];
  const beside = entries.some(({ text }) => kindIn(text) === "connection");
  for (const { name, section, text, other, inOther } of entries) {
    const isYaml = /\.ya?ml$/.test(name);
    const fault = isConfiguration(kindIn(text))
      ? isYaml || !isConnection(text)
        ? undefined
        : [`"${name}" is ignored: connection files end in .yaml or .yml`, `rename it to "${nameOf(name)}.yaml"`]
      : isConfiguration(kindIn(inOther))
        ? [`"${name}" cannot be read: "data" holds base64, and "stringData" plain text`, `move it to "${other}"`]
        : beside && isYaml
          ? [`"${name}" is not a configuration`, 'start a connection with "driver: <name>"; otherwise remove the entry']
          : undefined;
    if (fault) yield report(document, secretEntry, [...path, section, name], fault[0] ?? "", fault[1], "key");
  }
}

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? decoded(value) : undefined);

const isConnection = (text: unknown): boolean =>
  kindIn(text) === "connection" &&
  parseYamlDocuments("", String(text), fileBudget).some(({ value }) => hasSection(value));

function kindIn(text: unknown): DocumentKind {
  if (typeof text !== "string" || !text.includes(":")) return "other";
  const [source] = parseYamlDocuments("", text, fileBudget);
  return source?.diagnostics.some(each => each.blocks) === false ? kindOf(source.value) : kindOfText(text);
}

import { commonSchema } from "../config/common.ts";
import { isMapping } from "../core/mapping.ts";
import type { DriverModule } from "../drivers/module.ts";
import { type Path, shownKey } from "../schema/finding.ts";
import { aboutOf, type Schema, schemaAt } from "../schema/shape.ts";
import { yamlText } from "../yaml/print.ts";
import { onlyKey } from "./excerpt.ts";
import type { ConnectionFile, MainDocument } from "./lint-input.ts";

const hidden = "***";

/** Whether the schema knows the key, and neither it nor a key around it is secret. Other keys may be mistyped secrets. */
const isPlain = (schema: Schema, path: Path): boolean =>
  path.length > 0 &&
  path.every((_, index) => {
    const here = schemaAt(schema, path.slice(0, index + 1));
    return here !== undefined && aboutOf(here).secret !== true;
  });

/** Whether the value at a path may be a secret. */
function secretPaths(file: MainDocument | ConnectionFile, modules: readonly DriverModule[]): (path: Path) => boolean {
  if ("proxy" in file) {
    // Defaults of connections may contain secrets.
    const schemas = modules.map(({ schema }) => schema);
    return path => path[0] !== "driver" && path[0] !== "proxy" && !schemas.some(schema => isPlain(schema, path));
  }
  const { source, diagnostics, module } = file.read;
  const schemas = [commonSchema, ...(module ? [module.schema] : [])];
  // A wrong value may be a secret that belongs to another key, as in `port: <password>`.
  const wrong = new Set(
    diagnostics
      .filter(({ rule }) => rule === "invalid-value" || rule === "wrong-type")
      .map(({ line, column }) => `${line}:${column}`),
  );
  return path => {
    const { line, column } = source.position(path, "value");
    return wrong.has(`${line}:${column}`) || !schemas.some(schema => isPlain(schema, path));
  };
}

/**
 * The content of a configuration file without secrets and comments, only the keys if it is not valid YAML; and the
 * secrets, to find them in other texts: each as a whole and line by line.
 */
export function maskedText(file: MainDocument | ConnectionFile, modules: readonly DriverModule[]) {
  const { source, text } = file.document;
  if (source.diagnostics.some(each => each.blocks))
    return { text: text.split("\n").map(onlyKey).join("\n"), secrets: [] };
  const isSecret = secretPaths(file, modules);
  const found: string[] = [];
  const shown = (value: unknown, path: Path): unknown => {
    if (Array.isArray(value)) return value.map((item, index) => shown(item, [...path, index]));
    const hides = path.length === 0 || isSecret(path);
    if (isMapping(value))
      return new Map(
        Object.entries(value).map(([key, inner]) => {
          const here = [...path, key];
          // To YAML, "password:value" without a space is a key without a value, and so is a text in { }.
          const isValue = inner === null && isSecret(here);
          return [isValue ? (hides ? hidden : shownKey(key)) : key, shown(inner, here)];
        }),
      );
    if (value === null) return value;
    if (!hides) return typeof value === "string" ? withoutUserInfo(value) : value;
    found.push(String(value));
    return hidden;
  };
  return { text: yamlText(shown(source.value, [])).replaceAll(`"${hidden}"`, hidden), secrets: longEnough(found) };
}

const withoutUserInfo = (text: string): string =>
  text.replace(/:\/\/[^/@\s"']+@/g, `://${hidden}@`).replace(/(?<![^\s"':@/])[^\s"':@/]+:[^\s"':@/]+@/g, `${hidden}@`);

/** Shorter words occur in every text, secret or not. */
const leastLength = 4;

function longEnough(found: readonly string[]): readonly string[] {
  const lines = found.flatMap(text => [text.trim(), ...text.split("\n").map(line => line.trim())]);
  return [...new Set(lines)].filter(text => text.length >= leastLength && !/^(?:true|false|null|\d{1,5})$/.test(text));
}

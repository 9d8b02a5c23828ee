import type { GenericSchema } from "valibot";
import type { Mapping } from "../core/mapping.ts";
import { failure, type Path, problem, type SchemaFinding, shownKey, warning } from "./finding.ts";
import { meant, nearest } from "./nearest.ts";
import { aboutOf, shapeOf } from "./shape.ts";
import type { ValueResolver } from "./value-resolver.ts";

/** The context of every step of normalizing one value. */
export interface Work {
  readonly resolver: ValueResolver;
  /** Collects the findings. */
  readonly findings: SchemaFinding[];
  readonly root: GenericSchema;
  /** Further keys of the top mapping. */
  readonly siblings: readonly string[];
}

/** The listed key meant by an unlisted one, and its value. */
export interface Meant {
  readonly name: string;
  readonly item: unknown;
}

/**
 * Interprets a key of `value`, at `path`, that the schema does not list; undefined if it is dropped. The result is a
 * finding.
 */
export function unrecognizedKey(
  schema: GenericSchema,
  keys: ReadonlyMap<string, GenericSchema>,
  value: Mapping,
  key: string,
  path: Path,
  work: Work,
): Meant | undefined {
  const { aliases, ignored } = aboutOf(schema);
  const alias = aliases && Object.hasOwn(aliases, key) ? aliases[key] : undefined;
  if (alias !== undefined) {
    if (Object.hasOwn(value, alias)) {
      work.findings.push(
        failure("key-given-twice", path, `both "${key}" and "${alias}" are given`, `remove "${key}"`, "key"),
      );
      return undefined;
    }
    work.findings.push(
      warning("renamed-key", path, `"${key}" is another spelling of "${alias}"`, `write "${alias}"`, "key"),
    );
    return { name: alias, item: value[key] };
  }
  const reason = ignored && Object.hasOwn(ignored, key) ? ignored[key] : undefined;
  if (reason !== undefined) {
    work.findings.push(warning("ignored-key", path, `"${key}" has no effect: ${reason}`, "remove it", "key"));
    return undefined;
  }
  const plainName = key.endsWith("File") ? key.slice(0, -4) : "";
  const secret = keys.get(plainName);
  if (secret && aboutOf(secret).secret) return fromFile(plainName, value, key, path, work);
  work.findings.push(unknownKey(keys, key, path, work));
  return undefined;
}

/** Replaces a secret that could not be read; the finding about it keeps the file from being used. */
const unread = "(unread)";

function fromFile(name: string, value: Mapping, key: string, path: Path, work: Work): Meant | undefined {
  const { findings, resolver } = work;
  if (Object.hasOwn(value, name) && value[name] !== null) {
    findings.push(
      failure("key-given-twice", path, `both "${key}" and "${name}" are given`, "remove one of them", "key"),
    );
    return undefined;
  }
  const file = value[key];
  const content = typeof file === "string" ? resolver.file(file) : undefined;
  if (content !== undefined) return { name, item: content.replace(/\r?\n$/, "") };
  findings.push(
    failure("unreadable-file", path, `"${key}" does not name a readable file`, "mount the file at this path"),
  );
  // If the file is not expected, as in a CI job, the finding is ignored and the key still counts as given.
  return typeof file === "string" && file !== "" ? { name, item: unread } : undefined;
}

/** The number of findings beyond which suggestions, which are slow to compute, are no longer useful. */
const mostAdvice = 200;

/**
 * A key that resembles a known one makes the file unusable, as a missing key does: the setting that was meant would have its default, and a
 * share for one network would be open to all. Any other unknown key may be meant for another program.
 */
function unknownKey(keys: ReadonlyMap<string, GenericSchema>, key: string, path: Path, work: Work): SchemaFinding {
  if (work.findings.length > mostAdvice)
    return problem("unknown-key", path, `unknown key "${shownKey(key)}"`, "remove it", "key");
  const known = [...keys.keys(), ...(path.length === 1 ? work.siblings : [])];
  const near = nearest(key, known);
  const elsewhere = near === undefined ? whereElse(work.root, key) : undefined;
  const plain = key.replace(/^[\s\u200B]+/, "");
  const spaced = plain === key ? undefined : known.includes(plain) ? plain : nearest(plain, known);
  if (spaced !== undefined) {
    const message = `a no-break space precedes "${shownKey(plain)}"; YAML makes it part of the key`;
    return failure("unknown-key", path, message, meant(spaced), "key");
  }
  const few = known.length <= 12 ? `known here: ${known.join(", ")}` : "remove it";
  const glued = shownKey(key) !== key;
  const fix = glued
    ? 'put a space after the ":"'
    : near
      ? meant(near)
      : elsewhere
        ? `it belongs under "${elsewhere}"; check the indentation`
        : few;
  const isMeant = near !== undefined || (glued && known.includes(key.split(/[:=]/)[0] ?? ""));
  return (isMeant ? failure : problem)("unknown-key", path, `unknown key "${shownKey(key)}"`, fix, "key");
}

/** The dotted path of the mapping elsewhere in the schema that has a key of this name. */
export function whereElse(schema: GenericSchema, key: string, path = "", depth = 0): string | undefined {
  const shape = shapeOf(schema);
  if (shape.kind !== "mapping" || depth === 4) return undefined;
  if (path !== "" && shape.keys.has(key)) return path;
  for (const [name, inner] of shape.keys) {
    const found = whereElse(inner, key, path === "" ? name : `${path}.${name}`, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

import { failure, type Path, type SchemaFinding, warning } from "./finding.ts";

/** The source of the values of `${env:NAME}` and `<key>File`. */
export interface ValueResolver {
  /** The value of a variable; undefined if it is not set. */
  env(name: string): string | undefined;
  /** The content of a file, or undefined if it cannot be read. */
  file(path: string): string | undefined;
}

const reference = /\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}/g;
const foreignReference = /^\$[A-Z_][A-Z0-9_]*$|\$\{[A-Za-z_][A-Za-z0-9_]*\}/;

/**
 * Replaces each `${env:NAME}` in the text at `path`; an unset one stays and is a finding. A text that only resembles a
 * reference stays unchanged, with a warning.
 */
export function expanded(text: string, path: Path, resolver: ValueResolver, findings: SchemaFinding[]): string {
  const unset = new Set<string>();
  const filled = text.replace(reference, (whole, name: string) => {
    const found = resolver.env(name);
    if (found !== undefined) return found;
    if (unset.has(name)) return whole;
    unset.add(name);
    const message = `the environment variable ${name} is not set`;
    findings.push(failure("unset-variable", path, message, `set ${name} for this process`));
    return whole;
  });
  if (filled === text && foreignReference.test(text)) {
    const message = "this looks like a reference to a variable, but csimux takes it literally";
    const fix =
      "write ${env:NAME} for a variable of csimux; if another tool replaces it, such as Flux, check what that tool makes";
    findings.push(warning("unexpanded-variable", path, message, fix));
  }
  return filled;
}

import { type Finding, failure, type Path, warning } from "./finding.ts";

/** Where `${env:NAME}` and `<key>File` get their values. */
export interface Outside {
  /** Undefined when the variable is not set. */
  env(name: string): string | undefined;
  /** The content of a file, or undefined when it cannot be read. */
  file(path: string): string | undefined;
}

const reference = /\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}/g;
const foreignReference = /^\$[A-Z_][A-Z0-9_]*$|\$\{[A-Za-z_][A-Za-z0-9_]*\}/;

/**
 * The text at `path` with each `${env:NAME}` filled in; one that is not set stays and is a finding. A text that only looks
 * like a reference stays as it is, with a warning.
 */
export function expanded(text: string, path: Path, outside: Outside, findings: Finding[]): string {
  const unset = new Set<string>();
  const filled = text.replace(reference, (whole, name: string) => {
    const found = outside.env(name);
    if (found !== undefined) return found;
    if (unset.has(name)) return whole;
    unset.add(name);
    const message = `the environment variable ${name} is not set`;
    findings.push(failure("unset-variable", path, message, `set ${name} for this process`));
    return whole;
  });
  if (filled === text && foreignReference.test(text)) {
    const message = "this looks like a reference to the environment, but is taken literally";
    findings.push(warning("unexpanded-variable", path, message, "write ${env:NAME} if the variable is meant"));
  }
  return filled;
}
